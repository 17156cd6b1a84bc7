"""A text that a server begins to read while a window is still told about the model. No torch.

Over a slow line each question and its answer take a while; so the first text is sent with the
first questions, and the heads that are shown first are asked for before it is read.
"""

from __future__ import annotations

import secrets
from concurrent.futures import Future, wait
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

from visualizer.progress_callback import check_stopped, stopped_when, tell_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.models.model_client.connection import Answer, ModelConnection

MAX_RUN_ID = 2**53
"""Of those that a text is called by: who was not told one does not find it."""
WEIGHTS = "weights"
MATRIX = ("/stage", {"stages": [WEIGHTS]})
PICTURE = ("/blocks", {"stage": WEIGHTS})
"""The path and the kind of a request for a matrix, and for the first picture of one."""
LOOK_S = 0.1
"""So often who waits for the answer looks whether it is to stop."""


class ReadingAhead:
    """The answer of a server that reads a text, which is on its way.

    It is given up when nothing refers to it any more.

    Parameters
    ----------
    asked : mapping
        What the server is asked to read.
    """

    def __init__(self, connection: ModelConnection, asked: Mapping[str, Any]) -> None:
        self.asked = asked
        self.heads: tuple[Future[Answer], ...] = ()
        """The answers with the first heads of the first layer, if asked for."""
        self._connection, self._called = connection, 1 + secrets.randbelow(MAX_RUN_ID)
        self._course = course = _Course()
        finalize(self, course.is_given_up.set)
        called = {**asked, "called": self._called}
        self._answer = _asked(partial(_read, connection, called, course))

    def ask_for_heads(self, count: int, *, is_long: bool) -> None:
        """Ask for the weights of the first heads of the first layer, before the text is read.

        Parameters
        ----------
        is_long : bool
            Whether they are too many, so that only a `FirstPicture` of each is asked for.
        """
        path, stage = PICTURE if is_long else MATRIX
        asked = [{"run": self._called, **stage, "place": [0, at]} for at in range(count)]
        self.heads = tuple(_asked(partial(self._connection.ask, path, one)) for one in asked)

    def answer(self) -> Answer:
        """Wait for the answer, and return or raise what comes of it.

        Raises
        ------
        InputError
            As `ModelConnection.ask`.
        CancelledError
            When the work on this thread is to stop.
        """
        while not wait([self._answer], LOOK_S).done:
            check_stopped()
            tell_progress(*self._course.progress)
        return self._answer.result()


class _Course:
    """How far the reading is."""

    def __init__(self) -> None:
        self.is_given_up = Event()
        self.progress = (0, 0)


def _read(connection: ModelConnection, asked: Mapping[str, Any], course: _Course) -> Answer:
    def tell(done: int, of: int) -> None:
        course.progress = (done, of)

    with stopped_when(course.is_given_up.is_set):
        return connection.job("/read", asked, tell)


def _asked(ask: Callable[[], Answer]) -> Future[Answer]:
    """Ask on a thread of its own, a daemon: it may wait for a server as the program ends."""
    answer: Future[Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error.with_traceback(None))  # its frames hold the text

    Thread(target=run, daemon=True).start()
    return answer
