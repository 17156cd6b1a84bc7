"""A text that a server begins to read while a window is still told about the model. No torch.

Over a slow line each question and its answer take a while; so the first text is sent with the
first questions, and the heads that are shown first are asked for before it is read.
"""

from __future__ import annotations

import secrets
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

from visualizer.progress_callback import check_stopped, stopped_when, tell_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from visualizer.models.model_client.connection import Answer, ModelConnection

LARGEST_NUMBER = 2**53
WEIGHTS = "weights"
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
        self._connection, self._called = connection, 1 + secrets.randbelow(LARGEST_NUMBER)
        self._course = course = _Course()
        self._heads: list[_Course] = []
        finalize(self, course.is_given_up.set)
        called = {**asked, "called": self._called}
        # A daemon: it may wait for a server as the program ends.
        Thread(target=_read, args=(connection, called, course), daemon=True).start()

    def ask_for_heads(self, count: int) -> None:
        """Ask for the weights of the first heads of the first layer, before the text is read."""
        self._heads = [_Course() for _ in range(count)]
        for head, course in enumerate(self._heads):
            asked = {"run": self._called, "stages": [WEIGHTS], "place": [0, head]}
            given = (self._connection, asked, course)
            Thread(target=_ask_for_head, args=given, daemon=True).start()

    @property
    def heads(self) -> Sequence[Callable[[], Mapping[str, np.ndarray]]]:
        """What waits for the weights of each head that was asked for, and returns them."""
        return [partial(_numbers, course) for course in self._heads]

    def answer(self) -> Answer:
        """Wait for the answer, and return or raise what comes of it.

        Raises
        ------
        InputError
            As `ModelConnection.ask`.
        CancelledError
            When the work on this thread is to stop.
        """
        course = self._course
        while not course.is_over.wait(LOOK_S):
            check_stopped()
            tell_progress(*course.progress)
        return course.outcome()


class _Course:
    """How far a request is."""

    def __init__(self) -> None:
        self.is_given_up, self.is_over = Event(), Event()
        self.progress = (0, 0)
        self.answer: Answer | None = None
        self.error: Exception | None = None

    def outcome(self) -> Answer:
        if self.error:
            raise self.error
        assert self.answer
        return self.answer


def _read(connection: ModelConnection, asked: Mapping[str, Any], course: _Course) -> None:
    def tell(done: int, of: int) -> None:
        course.progress = (done, of)

    try:
        with stopped_when(course.is_given_up.is_set):
            course.answer = connection.job("/read", asked, tell)
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        course.error = error.with_traceback(None)  # its frames hold the text and this
    finally:
        course.is_over.set()


def _ask_for_head(connection: ModelConnection, asked: Mapping[str, Any], course: _Course) -> None:
    try:
        course.answer = connection.ask("/stage", asked)
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        course.error = error.with_traceback(None)
    finally:
        course.is_over.set()


def _numbers(course: _Course) -> Mapping[str, np.ndarray]:
    course.is_over.wait()
    return course.outcome()[1]
