"""The workspace: the current document, view, run and screen, and the methods that change them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.attention.remote_numbers import register_arrival_listener
from visualizer.attention.spec import MaskKind
from visualizer.errors import InputError
from visualizer.progress import CancelledError
from visualizer.session import worker_jobs
from visualizer.session.document import Document, detect_typed_text
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.history import DocumentHistory, History
from visualizer.session.request_controller import RequestController
from visualizer.session.resolved_view import ResolvedView, resolve_view
from visualizer.session.screen import Screen, ScreenInputs
from visualizer.session.user_prediction import clear_marks
from visualizer.session.view import View
from visualizer.session.view_changes import with_stage_toggled
from visualizer.session.worker_jobs import (
    RefinementResult,
    RequestResult,
    RequestState,
    adapt_restored_view,
    with_immediate_fields,
)
from visualizer.storage.log_file import log_unexpected_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.screen import Presenter
    from visualizer.session.worker_jobs import ComputeFunction


PROGRESS_DELAY_MS = 16
"""Delay, in milliseconds, before the screen shows that a computation is in progress."""


class _StateBeforeModel(Struct, frozen=True, eq=False):
    """The document, view and history before a model was opened.

    Parameters
    ----------
    read : str
        The text that the model was opened to run on.
    """

    document: Document
    view: View
    history: History[Document]
    read: str = ""


class _InputErrors:
    """The errors of rejected inputs, of the document and of the view.

    Attributes
    ----------
    document_error : InputError or None
        Why the document has no result, or why the current view cannot be read.
    """

    def __init__(self) -> None:
        self.document_error: InputError | None = None
        self._view_error: InputError | None = None
        """The error in `document_error` that explains why the current view cannot be read."""
        self._rejected: dict[str, InputError] = {}
        """Errors of rejected inputs, by field."""

    def add(self, error: InputError) -> None:
        """Record why an input was rejected."""
        self._rejected[error.field] = error

    def remove(self, field: str) -> bool:
        """Remove the error of an input; return whether there was one."""
        return self._rejected.pop(field, None) is not None

    def drop_resolved(self, old: Document, new: Document) -> None:
        """Drop the errors that a change to the document resolves."""
        self.document_error = None
        fields = [
            name
            for name in ("text", "second", "own_mask")
            if old.get_setting(name) != new.get_setting(name)
        ]
        if old.model != new.model:
            fields.append("image")
        for name in (*fields, "own_weights", "cuts"):
            self.remove(name)

    def set_view_error(self, error: InputError | None) -> None:
        """Report that the current view cannot be read; None clears the report."""
        if self.document_error is self._view_error:
            self.document_error = None
        self._view_error = error and InputError("text", error.sentence)
        self.document_error = self.document_error or self._view_error

    def current_error(self, document: Document) -> InputError | None:
        """Return the error to show for a document, or None if its inputs are valid."""
        is_own = document.spec.mask is MaskKind.OWN  # otherwise the custom mask has no effect
        names = (name for name in self._rejected if name != "own_mask" or is_own)
        return next((self._rejected[name] for name in names), self.document_error)


class Workspace(QObject):
    """Holds the document, the view, the last valid run and the screen built from them.

    Each public method performs one user action and emits `changed` if anything changed.

    Parameters
    ----------
    presenter : Presenter
        Builds the screen and prefetches its data.
    """

    changed = Signal()
    drawn = Signal()
    """Emitted when only the images of a long text have changed, because they were refined."""
    documentEdited = Signal()
    """Emitted when the document has changed; the screen is updated later."""
    _data_arrived = Signal()
    """Emitted, on any thread, when data from another machine has arrived."""
    modelRefused = Signal(str, object)
    """Emitted when an opened model failed on its first run and the previous document was restored.

    The arguments are the model's name and the `InputError`, or None for an unexpected exception.
    """
    failed = Signal(str)
    """Emitted when an unexpected exception occurred; the argument is the full traceback."""

    def __init__(
        self,
        compute: ComputeFunction,
        presenter: Presenter,
        document: Document,
        on_idle: Callable[[], object] | None = None,
        view: View | None = None,
    ) -> None:
        super().__init__()
        self.document = document
        self.view = view or View()
        self.run: Run | None = None
        self.computed: Document | None = None
        self.history = DocumentHistory()
        self._errors = _InputErrors()
        self.pending_document: Document | None = None
        self._wanted = self.view
        self._has_started = False
        self._held_models: list[object] = []
        """Keeps an opened model open until a run of it exists, which then keeps it open."""
        self._before_model: _StateBeforeModel | None = None
        """State to restore if the first run of an opened model fails."""
        self.compute, self._presenter = compute, presenter
        self._progress_delay_timer = QTimer(self, singleShot=True, interval=PROGRESS_DELAY_MS)
        self._progress_delay_timer.timeout.connect(self._update_screen)
        self.requests = RequestController(presenter, on_idle, self)
        self.requests.refinement_due.connect(self._refine_images)
        self.requests.worker.answered.connect(self._handle_result)
        self.requests.worker.failed.connect(self._handle_failure)
        self.requests.worker.progressReported.connect(self._show_progress)
        self._data_arrived.connect(self.refresh_screen)
        register_arrival_listener(self._emit_data_arrived)
        self.screen: Screen = self._build_screen({}, None)

    @property
    def input_error(self) -> InputError | None:
        """The error in the last input, or None if the input is valid."""
        return self._errors.current_error(self.document)

    # ------------------------------------------------------------------ the document

    def change_setting(
        self, name: str, value: object, *, is_continued_edit: bool = False, is_seen: bool = False
    ) -> None:
        """Change a setting.

        Parameters
        ----------
        is_continued_edit : bool
            Whether this change continues a drag or the typing of a word, which is undone as one
            change.
        is_seen : bool
            Whether the control already shows the value; the screen may then wait briefly for the
            result.
        """
        had_error = self._errors.remove(name)
        document = self.document.with_setting(name, value)
        if document == self.document:
            if had_error:
                self._update_screen()
            return
        self.history.record(self.document, name if is_continued_edit else "")
        self._change_document(document, may_wait=is_seen)

    def set_text(self, text: str, name: str = "text") -> None:
        """Change the first or second text; typing one word is one undoable change."""
        if self.document.model and self.document.takes_image:
            sentence = f"{self.document.model.name} takes images, not texts."
            self.show_error(InputError("image", sentence))
            return
        is_typed, written = detect_typed_text(self.document.get_setting(name), text)
        if not is_typed:  # pasted, cut or overwritten: the token positions belong to the old text
            self.change_view(tokens=replace(self._wanted.tokens, chosen=frozenset(), match=None))
        self.change_setting(name, text, is_continued_edit=is_typed, is_seen=True)
        if written.isspace():
            self.history.end_merged_edit()

    def show_error(self, refused: InputError) -> None:
        """Report why an input was rejected; the current value remains."""
        self._errors.add(refused)
        self._update_screen()

    def show_document(self, document: Document, view: View, opened_model: object = None) -> None:
        """Switch to another document and view, as one undoable change.

        Parameters
        ----------
        opened_model : object
            Keeps open the model that was opened to run the document; None if no model was opened.
        """
        before = self._before_model or _StateBeforeModel(
            self.document, self._wanted, self.history.changes
        )
        self._before_model = replace(before, read=document.text) if opened_model else None
        if document != self.document:
            self.history.record(self.document)
        self._replace_document(document, view, opened_model)

    def show_with_own_history(
        self, document: Document, view: View, history: History[Document] | None = None
    ) -> History[Document]:
        """Switch to a document with its own undo history; return the previous history.

        Parameters
        ----------
        history : History, optional
            History of the document; by default, nothing can be undone yet.
        """
        before = self.history.replace_history(history or History())
        self._replace_document(document, view)
        return before

    def _replace_document(
        self, document: Document, view: View, opened_model: object = None
    ) -> None:
        self._wanted = view
        self.view = with_immediate_fields(view, self.view)
        self._keep_models_open(opened_model)
        self._change_document(document)

    def open_document(
        self, document: Document, view: View, restore: Callable[[], tuple[Run, View]]
    ) -> None:
        """Open a document that was read from a file, and clear the undo history.

        The worker calls ``restore``, which returns the saved run and the view with side A of its
        comparison.
        """
        self._show_pending_change()
        self._before_model = None
        self.history.replace_history(History())
        self._errors = _InputErrors()
        self._set_document(document)
        self.pending_document, self._has_started = document, True
        # The view may be saved before it is shown.
        self._wanted = adapt_restored_view(view, self._wanted)
        self.view = with_immediate_fields(self._wanted, self.view)
        state = self._request_state()
        job = partial(worker_jobs.restore_and_prefetch, restore, self._presenter, state)
        self.requests.submit(job)
        self._update_screen()

    def _keep_models_open(self, *models: object) -> None:
        """Keep an opened model open instead of the previous one."""
        before, self._held_models = self._held_models, [*models]
        if before:
            self.requests.worker.clear_on_thread(before)

    def undo(self) -> None:
        self._change_document(self.history.undo(self.document))

    def redo(self) -> None:
        self._change_document(self.history.redo(self.document))

    # ------------------------------------------------------------------ the view

    @property
    def requested_view(self) -> View:
        """The requested view, which is shown after its data is prefetched."""
        return self._wanted

    def change_view(self, **changes: Any) -> None:
        """Change fields of the view, prefetching the data that they need."""
        self.request_view(replace(self._wanted, **changes))

    def request_view(self, wanted: View) -> None:
        if wanted == self._wanted:
            return
        self._wanted, shown = wanted, self.view
        if self._is_prefetched_with(wanted, shown):
            self.view = wanted
        else:
            self.view = with_immediate_fields(wanted, shown)
            self._request_prefetch()
        if self.view != shown:
            self._update_screen()

    def toggle_stage(self, stage: str) -> None:
        """Toggle the panels of a stage; at least one stage stays visible."""
        if self.run:
            self.request_view(with_stage_toggled(self.resolve(self._wanted), stage))

    def show_leading_index(self, leading: LeadingIndex) -> None:
        """Show another text of a batch or another layer, and restart a prediction."""
        if self.run:
            guess = clear_marks(self._wanted.guess)
            self.change_view(**dict(zip(self.run.trace.axes, leading, strict=True)), guess=guess)

    def _emit_data_arrived(self) -> None:
        with suppress(RuntimeError):  # the window is closed
            self._data_arrived.emit()

    def refresh_screen(self) -> None:
        """Rebuild the screen with new data of the forward pass that is shown."""
        self._show_pending_change()
        reading = self.run.reading if self.run else None
        if reading and reading.refusal:
            self._errors.set_view_error(reading.refusal())
        self._update_screen()

    def resolve(self, view: View) -> ResolvedView:
        """Resolve a view against the last valid run."""
        assert self.run
        return resolve_view(self.document, view, self.run, self.computed)

    @property
    def resolved_requested_view(self) -> ResolvedView | None:
        """The requested view resolved against the last valid run, or None without a run."""
        return self.resolve(self._wanted) if self.run else None

    # ------------------------------------------------------------------ computing

    @property
    def is_screen_outdated(self) -> bool:
        """Whether the document has changed since the screen was built.

        `changed` follows within `PROGRESS_DELAY_MS`. Until then, no control may be set from the
        screen, because that would overwrite what the user has just entered.
        """
        return self._progress_delay_timer.isActive()

    @property
    def is_working(self) -> bool:
        """Whether a computation is in progress or waits for the window to be visible."""
        return not self._has_started or self.requests.is_working

    @property
    def snapshot(self) -> ExportSnapshot | None:
        """The snapshot to export, or None before the first run."""
        if self.run is None or self.computed is None:
            return None
        return ExportSnapshot(self.computed, self.view, self.run)

    def start_computing(self) -> None:
        """Compute the first document unless another request was made before."""
        if not self._has_started:
            self._change_document(self.document)

    @property
    def large_objects(self) -> list[object]:
        """Objects that may use much memory: the current run and an opened model."""
        return [self.run, *self._held_models]

    def close(self) -> None:
        """Stop all computation; a running request ends at its next interruption point."""
        self._progress_delay_timer.stop()
        self.requests.close()

    def _refine_images(self) -> None:
        self.requests.refine_images(self.run, self.view, self.screen.resolved)

    def _change_document(self, document: Document, *, may_wait: bool = False) -> None:
        """Replace the document and request its run, for which the screen may wait briefly."""
        if not may_wait:
            self._show_pending_change()
        self._set_document(document)
        self._has_started = True
        if not document.setting_problems():
            self.pending_document = document
            state = self._request_state()
            job = partial(worker_jobs.compute_and_prefetch, self.compute, self._presenter, state)
            self.requests.submit(job)
            if may_wait:  # the result usually arrives before the delay has passed
                self.documentEdited.emit()
                if not self._progress_delay_timer.isActive():
                    self._progress_delay_timer.start()
                return
        self._request_missing_data()
        self._update_screen()

    def _set_document(self, document: Document) -> None:
        """Set the document and drop the input errors that the change resolves."""
        self._errors.drop_resolved(self.document, document)
        self.document = document

    def _request_missing_data(self) -> None:
        """Request a prefetch of the wanted view unless the prefetch of the shown view covers it."""
        if not self._is_prefetched_with(self._wanted, self.view):
            self._request_prefetch()

    def _request_prefetch(self) -> None:
        """Request a prefetch of the wanted view, unless a pending computation covers it."""
        if self.run and self.pending_document is None:
            state = self._request_state()
            self.requests.submit(partial(worker_jobs.prefetch_view, self._presenter, state))

    def _request_state(self) -> RequestState:
        panels = self.screen.panels.latest_panels()
        return RequestState(self.document, self._wanted, self.run, self.computed, panels)

    def _is_prefetched_with(self, view: View, other: View) -> bool:
        """Return whether the prefetch of one view covers another view."""
        if self.run is None or view is other:
            return True
        keys = (self._presenter.prefetch_key(self.resolve(each)) for each in (view, other))
        return next(keys) == next(keys)

    def _handle_result(self, answer: RequestResult | RefinementResult) -> None:
        self.requests.drop_answered_request()
        if isinstance(answer, RefinementResult):
            if answer.run is self.run:
                self._show_refined_images()
        elif self._is_model_refused(answer):
            self._restore_state_before_model(answer.refused)
        else:
            self._handle_run_result(answer)

    def _handle_run_result(self, answer: RequestResult) -> None:
        if answer.document is None:
            self._errors.set_view_error(None)
            if self.view == self._wanted:
                self._update_screen()  # the shown view has been requested again in the meantime
                return
        replaced: list[object] = [self.run]
        if answer.document == self.pending_document:
            self.pending_document = None
        if answer.run and answer.document and answer.document.model == self.document.model:
            self._before_model = None
        if answer.run:
            self.run, self.computed = answer.run, answer.document
            if self.pending_document is None:  # otherwise an opened model may still have to run
                self._keep_models_open()
        is_newest = answer.document == self.document  # otherwise, the document has changed since
        if is_newest:
            self._errors.document_error = answer.refused
        if answer.opened and is_newest:
            self._wanted = adapt_restored_view(answer.opened, self._wanted)
        is_read = self._is_prefetched_with(self._wanted, answer.view)
        self.view = self._wanted if is_read else with_immediate_fields(self._wanted, answer.view)
        self._update_screen(answer)
        self.requests.worker.clear_on_thread(replaced)
        if not is_read:
            self._request_prefetch()

    def _is_model_refused(self, answer: RequestResult) -> bool:
        """Return whether an opened model cannot run, rather than only waiting for its input."""
        document, refused = self.document, answer.refused
        if not (self._before_model and refused and document.model and answer.document == document):
            return False
        is_blank = document.model.image is None and not document.text.strip()
        return not is_blank and refused.field not in {"image", "second"}

    def _restore_state_before_model(self, refused: InputError | None) -> None:
        """Restore the document from before a model was opened; text entered since then is kept."""
        before, document = self._before_model, self.document
        assert before
        assert document.model
        self._before_model = self.pending_document = None
        self._keep_models_open()
        self.history.replace_history(before.history)
        self._wanted = adapt_restored_view(before.view, self._wanted)
        text, back = document.text, before.document
        if text != before.read:
            self.history.record(back)
            back = back.with_setting("text", text)
        self._change_document(back)
        self.modelRefused.emit(document.model.name, refused)

    def _show_progress(self, request: Callable[[], object], done: int, of: int) -> None:
        """Show the progress of the last request."""
        if self.requests.record_progress(request, done, of) and self.is_working:
            self._show_refined_images()

    def _handle_failure(self, error: Exception) -> None:
        if isinstance(error, CancelledError):  # a newer request is waiting or running
            return
        was_read = self.pending_document is None
        if not self.requests.worker.is_working:  # otherwise a newer request is pending
            self.pending_document = None
        if was_read:  # the same view would fail again
            self._wanted = with_immediate_fields(self._wanted, self.view)
        self.requests.mark_refinement_failed(self.run, self.view)
        is_new_model = self._before_model and self.document.model and not self.pending_document
        if isinstance(error, InputError) and was_read:
            self._errors.set_view_error(error)
        elif not was_read and is_new_model:
            self._restore_state_before_model(error if isinstance(error, InputError) else None)
        elif isinstance(error, InputError):
            self._errors.document_error = InputError("text", error.sentence)
        self._update_screen()
        self._request_missing_data()
        if not isinstance(error, InputError):
            self.failed.emit(log_unexpected_error(error))

    def _show_pending_change(self) -> None:
        """Show a pending change immediately, so that controls do not revert it."""
        if self._progress_delay_timer.isActive():
            self._update_screen()

    def _update_screen(self, answer: RequestResult | None = None) -> None:
        self._progress_delay_timer.stop()
        panels, known = self.screen.panels.latest_panels(), self.screen.resolved
        if answer and answer.resolved:
            panels, known = {**panels, **answer.panels}, answer.resolved
        self.screen = self._build_screen(panels, known)
        self.changed.emit()
        if self.run and self.run.trace.is_blockwise:
            self.requests.delay_refinement()
        self._refine_images()

    def _show_refined_images(self) -> None:
        """Show refined images or progress; nothing else has changed."""
        shown, resolved = self.screen, self.screen.resolved
        if self._progress_delay_timer.isActive() or resolved is None:
            self._update_screen()  # the document has changed as well
            return
        inputs = self._build_inputs(shown.document, shown.view, resolved)
        self.screen = self._presenter.present_refined_images(inputs, shown.panels)
        self.drawn.emit()
        self._refine_images()

    def _build_screen(self, panels: Mapping[str, object], known: ResolvedView | None) -> Screen:
        """Build the screen, reusing panels that were shown before or that the worker has built."""
        resolved = self.resolve(self.view).reuse_cached_values(known) if self.run else None
        inputs = self._build_inputs(self.document, self.view, resolved)
        return self._presenter.present(inputs, panels)

    def _build_inputs(
        self, document: Document, view: View, resolved: ResolvedView | None
    ) -> ScreenInputs:
        progress = self.requests.progress if self.is_working else None
        wanted, refused = self._wanted, self.input_error
        return ScreenInputs(document, view, resolved, wanted, refused, self.is_working, progress)
