"""A prefetched response is the same as a requested one, and the prefetch can be cancelled."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import pytest

from visualizer.errors import InputError
from visualizer.models.model_client.prefetch import PrefetchedResponse
from visualizer.models.model_client.server_client import ModelServerClient
from visualizer.progress import CancelledError, cancel_when, check_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.models.model_client.server_client import Response
    from visualizer.progress import Progress

PATIENCE_S = 10.0
ABSENT = 2
ASKED = {"text": "a"}
ANSWER: Response = ({"number": 1}, {"attention": np.zeros(3, np.float32)})


class HeldConnection(ModelServerClient):
    """Stand-in for a server that processes a text until the test releases or cancels it."""

    def __init__(self, outcome: Response | Exception = ANSWER) -> None:
        super().__init__("127.0.0.1:1", "token")
        self.outcome, self.let, self.is_terminated = outcome, Event(), Event()
        self.called, self.is_long = 0, False

    def run_job(
        self,
        path: str,
        asked: object,
        progress: Progress = lambda done, of: None,
        report: Callable[[Response], object] = lambda part: None,
    ) -> Response:
        assert path == "/read"
        assert isinstance(asked, dict)
        assert asked == {**ASKED, "called": asked["called"]}
        self.called = asked["called"]
        while not self.let.wait(0.01):
            try:
                check_cancelled()
            except CancelledError:
                self.is_terminated.set()
                raise
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def fetch_response(self, path: str, asked: object) -> Response:
        """Return the index of the requested head; raise an error for `ABSENT`."""
        assert isinstance(asked, dict)
        layer, head = asked["place"]
        what = {name: asked[name] for name in asked if name not in {"run", "place"}}
        wanted = [("/stage", {"stages": ["weights"]}), ("/blocks", {"stage": "weights"})]
        assert ((path, what), layer) == (wanted[self.is_long], 0)
        if head == ABSENT:
            raise InputError("place", "There is no such head.")
        self.let.wait(PATIENCE_S)
        return {}, {"weights": np.array([head, asked["run"]], np.float64)}


def test_the_prefetched_response_is_returned_once_it_arrives() -> None:
    connection = HeldConnection()
    ahead = PrefetchedResponse(connection, ASKED)
    connection.let.set()
    assert ahead.wait_for_response() is ANSWER
    assert ahead.request == ASKED


def test_the_error_of_a_prefetch_is_raised_when_the_response_is_read() -> None:
    connection = HeldConnection(InputError("text", "There is nothing to read."))
    connection.let.set()
    with pytest.raises(InputError, match="nothing to read"):
        PrefetchedResponse(connection, ASKED).wait_for_response()


def test_an_unreferenced_prefetch_is_cancelled() -> None:
    connection = HeldConnection()
    ahead = PrefetchedResponse(connection, ASKED)
    assert not connection.is_terminated.wait(0.05)
    del ahead
    assert connection.is_terminated.wait(PATIENCE_S)


def test_a_cancelled_caller_stops_waiting_but_the_prefetch_continues() -> None:
    connection = HeldConnection()
    ahead = PrefetchedResponse(connection, ASKED)
    with cancel_when(lambda: True), pytest.raises(CancelledError):
        ahead.wait_for_response()
    connection.let.set()
    assert ahead.wait_for_response() is ANSWER, "the prefetch itself continued"


@pytest.mark.parametrize("is_long", [False, True])
def test_heads_are_requested_before_the_text_is_processed(is_long: bool) -> None:
    connection = HeldConnection()
    connection.is_long = is_long
    ahead = PrefetchedResponse(connection, ASKED)
    ahead.request_heads(ABSENT + 1, is_long=is_long)
    connection.let.set()
    ahead.wait_for_response()
    assert connection.called > 0
    *there, absent = ahead.heads
    for head, answer in enumerate(there):
        assert answer.result()[1]["weights"].tolist() == [head, connection.called]
    with pytest.raises(InputError, match="no such head"):
        absent.result()
