"""Queries the current model for the data that open panes need, on a separate thread."""

from __future__ import annotations

import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from PySide6.QtCore import QObject

from visualizer.errors import InputError, convert_memory_error
from visualizer.progress import CancelledError
from visualizer.session import worker_jobs
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from visualizer.attention.model_forward_pass import (
        AnalysisRequest,
        ModelAnswer,
        ModelForwardPass,
    )
    from visualizer.session.screen import PanelId
    from visualizer.session.workspace import Workspace

RETRY_DELAY_S = 3.0
"""Time, in seconds, after which a failed server request is retried at the next change."""
FAILED_MESSAGE = "The computation failed."


class _RunningQuestion(Struct, frozen=True, eq=False):
    """An analysis that is running."""

    reading: ModelForwardPass
    question: AnalysisRequest
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    def check_cancelled(self, done: int, of: int) -> None:
        """Raise an error if the analysis was cancelled; called as the progress callback."""
        if self.is_cancelled.is_set():
            raise CancelledError


class _QuestionFailure(Struct, frozen=True, eq=False):
    """An analysis that raised an unexpected exception."""

    asked: _RunningQuestion
    error: Exception


class ModelQuestionController(QObject):
    """Runs one analysis of the current forward pass at a time; the pass stores the results.

    An analysis is cancelled if no open pane needs its result any more, or if its text is no longer
    shown.

    Parameters
    ----------
    panels : iterable of PanelId
        The panels that need results. Their ``questions`` are the pending analyses, with the most
        urgent first.
    """

    def __init__(
        self, workspace: Workspace, panels: Iterable[PanelId[Any]], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._workspace, self._panels = workspace, tuple(panels)
        self._running_question: _RunningQuestion | None = None
        self._failed_requests: list[tuple[_RunningQuestion, float]] = []
        """Analyses that failed on a server, and the times at which they failed."""
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_answer)
        self._worker.failed.connect(self._handle_worker_failure)
        self._worker.reported.connect(self._store_answer)
        workspace.changed.connect(self.start_next_question)

    @property
    def is_working(self) -> bool:
        """Whether an analysis is running."""
        return self._running_question is not None

    def request_result(self, question: AnalysisRequest) -> None:
        """Request an analysis of the kind that runs only on demand."""
        reading = self._current_forward_pass
        if reading:
            reading.answers.wanted.add(question)
            self._workspace.refresh_screen()

    def stop_question(self, question: AnalysisRequest) -> None:
        """Stop an analysis; a partial result is kept."""
        reading = self._current_forward_pass
        if reading:
            reading.answers.wanted.discard(question)
            self._workspace.refresh_screen()

    def start_next_question(self) -> None:
        """Start the most urgent analysis for the open panes."""
        reading = self._current_forward_pass
        if self._drop_expired_failures():
            self._workspace.refresh_screen()  # this calls the method again
            return
        questions = tuple(self._pending_questions()) if reading else ()
        asked = self._running_question
        if asked and (asked.reading is not reading or asked.question not in questions):
            asked.is_cancelled.set()
            self._running_question = asked = None
        if reading and questions and asked is None:
            self._running_question = _RunningQuestion(reading, questions[0])
            self._worker.submit(
                partial(_answer_question, self._running_question, self._worker.report)
            )

    def close(self) -> None:
        """Cancel the running analysis."""
        if self._running_question:
            self._running_question.is_cancelled.set()
            self._running_question = None
        self._worker.abandon()

    def _drop_expired_failures(self) -> bool:
        """Drop server failures older than `RETRY_DELAY_S`; return whether there were any."""
        old = [
            asked for asked, since in self._failed_requests if monotonic() - since > RETRY_DELAY_S
        ]
        self._failed_requests = [each for each in self._failed_requests if each[0] not in old]
        for asked in old:
            asked.reading.answers.known.pop(asked.question, None)
        return bool(old)

    @property
    def _current_forward_pass(self) -> ModelForwardPass | None:
        run = self._workspace.run
        return run.reading if run else None

    def _pending_questions(self) -> Iterator[AnalysisRequest]:
        for id_ in self._panels:
            yield from self._workspace.screen.panel(id_).questions

    def _handle_answer(
        self, answer: tuple[_RunningQuestion, ModelAnswer | None] | _QuestionFailure
    ) -> None:
        if isinstance(answer, _QuestionFailure):
            self._handle_failure(answer)
            return
        asked, known = answer
        if asked is self._running_question:
            self._running_question = None
            if known is not None:
                self._store_answer((asked, known))

    def _handle_worker_failure(self, refused: InputError) -> None:
        """Report that the system cannot create another thread."""
        if self._running_question:
            self._handle_answer((self._running_question, refused))

    def _store_answer(self, answer: tuple[_RunningQuestion, ModelAnswer]) -> None:
        asked, known = answer
        asked.reading.answers.known[asked.question] = known
        if isinstance(known, InputError) and known.field == "server":
            self._failed_requests.append((asked, monotonic()))
        if asked.reading is self._current_forward_pass:
            self._workspace.refresh_screen()

    def _handle_failure(self, failed: _QuestionFailure) -> None:
        if failed.asked is self._running_question:
            self._running_question = None
        # The error is stored as the result, because a retry would fail again.
        self._store_answer((failed.asked, InputError("model", FAILED_MESSAGE)))
        self._workspace.failed.emit(log_unexpected_error(failed.error))


def _answer_question(
    asked: _RunningQuestion, report: Callable[[tuple[_RunningQuestion, ModelAnswer]], object]
) -> tuple[_RunningQuestion, ModelAnswer | None] | _QuestionFailure:
    try:
        known = worker_jobs.answer_question(
            asked.reading, asked.question, asked.check_cancelled, lambda part: report((asked, part))
        )
    except InputError as refused:
        return asked, refused
    except CancelledError:
        return asked, None
    except Exception as error:  # noqa: BLE001 - reported on the GUI thread
        converted = convert_memory_error(error)
        return (
            (asked, converted)
            if isinstance(converted, InputError)
            else _QuestionFailure(asked, error)
        )
    return asked, known
