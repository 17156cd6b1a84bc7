"""Asks the model that has read the text what open panes need to know, on a thread of its own."""

from __future__ import annotations

import threading
import traceback
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from PySide6.QtCore import QObject

from visualizer.errors import InputError, memory_error_in_words
from visualizer.progress_callback import CancelledError
from visualizer.session import worker_jobs
from visualizer.session.newest_request_worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from visualizer.attention.model_answers import ModelAnswer, ModelQuestion
    from visualizer.attention.model_reading import ModelReading
    from visualizer.session.screen import PanelId
    from visualizer.session.workspace import Workspace

AGAIN_S = 3.0
"""A server that could not be asked is asked again after so long, with the next change."""
FAILED = "This could not be computed."


class _Asked(Struct, frozen=True, eq=False):
    """A question that is being answered."""

    reading: ModelReading
    question: ModelQuestion
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    def go_on(self, done: int, of: int) -> None:
        """Stop the work once it is cancelled; a progress callback."""
        if self.is_cancelled.is_set():
            raise CancelledError


class _Failed(Struct, frozen=True, eq=False):
    """The unexpected exception of a question."""

    asked: _Asked
    error: Exception


class ModelQuestionController(QObject):
    """Asks one question at a time, of the reading that is shown; answers are kept with it.

    An answer to a question that no open pane asks any more, or about a text that is not shown any
    more, is given up.

    Parameters
    ----------
    panels : iterable of PanelId
        The panels that ask: their ``questions`` are not answered yet, the most urgent first.
    """

    def __init__(
        self, workspace: Workspace, panels: Iterable[PanelId[Any]], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._workspace, self._panels = workspace, tuple(panels)
        self._asked: _Asked | None = None
        self._lost: list[tuple[_Asked, float]] = []
        """What a server could not be asked, and when."""
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._refuse)
        self._worker.reported.connect(self._keep)
        workspace.changed.connect(self.look)

    @property
    def is_working(self) -> bool:
        """Whether a question is being answered."""
        return self._asked is not None

    def want(self, question: ModelQuestion) -> None:
        """Ask a question that is answered on demand only."""
        reading = self._reading
        if reading:
            reading.answers.wanted.add(question)
            self._workspace.show_again()

    def give_up(self, question: ModelQuestion) -> None:
        """Ask it no more; what is known of the answer is kept."""
        reading = self._reading
        if reading:
            reading.answers.wanted.discard(question)
            self._workspace.show_again()

    def look(self) -> None:
        """Ask what the open panes need to know."""
        reading = self._reading
        if self._forget_lost():
            self._workspace.show_again()  # which asks
            return
        questions = tuple(self._questions()) if reading else ()
        asked = self._asked
        if asked and (asked.reading is not reading or asked.question not in questions):
            asked.is_cancelled.set()
            self._asked = asked = None
        if reading and questions and asked is None:
            self._asked = _Asked(reading, questions[0])
            self._worker.ask(partial(_answer, self._asked, self._worker.report))

    def close(self) -> None:
        """Give up what is being answered."""
        if self._asked:
            self._asked.is_cancelled.set()
            self._asked = None
        self._worker.leave()

    def _forget_lost(self) -> bool:
        """Forget that a server could not be asked some while ago; return whether there was that."""
        old = [asked for asked, since in self._lost if monotonic() - since > AGAIN_S]
        self._lost = [each for each in self._lost if each[0] not in old]
        for asked in old:
            asked.reading.answers.known.pop(asked.question, None)
        return bool(old)

    @property
    def _reading(self) -> ModelReading | None:
        run = self._workspace.run
        return run.reading if run else None

    def _questions(self) -> Iterator[ModelQuestion]:
        for id_ in self._panels:
            yield from self._workspace.screen.panel(id_).questions

    def _take(self, answer: tuple[_Asked, ModelAnswer | None] | _Failed) -> None:
        if isinstance(answer, _Failed):
            self._fail(answer)
            return
        asked, known = answer
        if asked is self._asked:
            self._asked = None
            if known is not None:
                self._keep((asked, known))

    def _refuse(self, refused: InputError) -> None:
        """Say that nothing can be asked: the system makes no more threads."""
        if self._asked:
            self._take((self._asked, refused))

    def _keep(self, answer: tuple[_Asked, ModelAnswer]) -> None:
        asked, known = answer
        asked.reading.answers.known[asked.question] = known
        if isinstance(known, InputError) and known.field == "server":
            self._lost.append((asked, monotonic()))
        if asked.reading is self._reading:
            self._workspace.show_again()

    def _fail(self, failed: _Failed) -> None:
        if failed.asked is self._asked:
            self._asked = None
        self._keep((failed.asked, InputError("model", FAILED)))  # it would fail again
        self._workspace.broke.emit("".join(traceback.format_exception(failed.error)))


def _answer(
    asked: _Asked, report: Callable[[tuple[_Asked, ModelAnswer]], object]
) -> tuple[_Asked, ModelAnswer | None] | _Failed:
    try:
        known = worker_jobs.answer_question(
            asked.reading, asked.question, asked.go_on, lambda part: report((asked, part))
        )
    except InputError as refused:
        return asked, refused
    except CancelledError:
        return asked, None
    except Exception as error:  # noqa: BLE001 - handed to the GUI thread
        said = memory_error_in_words(error)
        return (asked, said) if isinstance(said, InputError) else _Failed(asked, error)
    return asked, known
