"""Requests the results for the first text along with the metadata. Does not import torch.

On a slow connection, each round trip takes time. The first text is therefore sent with the first
requests, and the heads that are shown first are requested before the server has processed the text.
"""

from __future__ import annotations

import secrets
from concurrent.futures import Future, wait
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

from visualizer.models.model_protocol.requests import MAX_ID
from visualizer.progress import cancel_when, check_cancelled, report_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.models.model_client.server_client import ModelServerClient, Response

WEIGHTS = "weights"
MATRIX_REQUEST = ("/stage", {"stages": [WEIGHTS]})
PREVIEW_REQUEST = ("/blocks", {"stage": WEIGHTS})
"""Path and fields of the requests for a whole matrix and for a preview of a matrix."""
CANCEL_CHECK_INTERVAL_S = 0.1
"""Interval between two cancellation checks while waiting for the response, in seconds."""


class PrefetchedResponse:
    """Pending response of a server that is processing a text.

    The server stops processing the text when this object is no longer referenced.

    Parameters
    ----------
    request : mapping
        The request to process the text.
    """

    def __init__(self, connection: ModelServerClient, request: Mapping[str, Any]) -> None:
        self.request = request
        self.heads: tuple[Future[Response], ...] = ()
        """Pending responses with the first heads of the first layer, if they were requested."""
        self._connection, self._run_id = connection, 1 + secrets.randbelow(MAX_ID)
        self._reading_progress = progress = _ServerProgress()
        finalize(self, progress.is_cancelled.set)
        called = {**request, "called": self._run_id}
        self._pending_answer = _request_in_thread(
            partial(_run_text_on_server, connection, called, progress)
        )

    def request_heads(self, count: int, *, is_long: bool) -> None:
        """Request the first heads' weights in layer 0 before the server has processed the text.

        Parameters
        ----------
        is_long : bool
            Whether the matrices are so large that only a coarse preview of each one is requested.
        """
        path, stage = PREVIEW_REQUEST if is_long else MATRIX_REQUEST
        requests = [{"run": self._run_id, **stage, "place": [0, at]} for at in range(count)]
        self.heads = tuple(
            _request_in_thread(partial(self._connection.fetch_response, path, request))
            for request in requests
        )

    def wait_for_response(self) -> Response:
        """Wait for the response and return it, or raise the error of the request.

        Raise `CancelledError` if the work on this thread was cancelled.
        """
        while not wait([self._pending_answer], CANCEL_CHECK_INTERVAL_S).done:
            check_cancelled()
            report_progress(*self._reading_progress.progress)
        return self._pending_answer.result()


class _ServerProgress:
    """Progress of the server in processing the text."""

    def __init__(self) -> None:
        self.is_cancelled = Event()
        self.progress = (0, 0)


def _run_text_on_server(
    connection: ModelServerClient, request: Mapping[str, Any], progress: _ServerProgress
) -> Response:
    def report(done: int, of: int) -> None:
        progress.progress = (done, of)

    with cancel_when(progress.is_cancelled.is_set):
        return connection.run_job("/read", request, report)


def _request_in_thread(ask: Callable[[], Response]) -> Future[Response]:
    """Send a request on a daemon thread, which may still be waiting when the program exits."""
    answer: Future[Response] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 - raised by the caller that waits for it
            answer.set_exception(error.with_traceback(None))  # its frames refer to the text

    Thread(target=run, daemon=True).start()
    return answer
