"""A text that a server begins to read while a window is still told about the model. No torch.

Over a slow line each question and its answer take a while; so the first text is sent with the
first questions.
"""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

from visualizer.progress_callback import check_stopped, stopped_when, tell_progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.models.model_client.connection import Answer, ModelConnection

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
        self._course = course = _Course()
        finalize(self, course.is_given_up.set)
        # A daemon: it may wait for a server as the program ends.
        Thread(target=_read, args=(connection, asked, course), daemon=True).start()

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
        if course.error:
            raise course.error
        assert course.answer
        return course.answer


class _Course:
    """How far a reading is."""

    def __init__(self) -> None:
        self.is_given_up, self.is_over = Event(), Event()
        self.progress = (0, 0)
        self.answer: Answer | None = None
        self.error: Exception | None = None


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
