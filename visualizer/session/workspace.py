"""The workspace: the current document, view, run and screen, and the methods that change them."""

from __future__ import annotations

import traceback
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.attention.masks import parse_mask
from visualizer.attention.numbers_elsewhere import tell_arrivals
from visualizer.attention.run_parameters_as_spec_weights import are_kept, weights_as_own
from visualizer.attention.spec import Mask
from visualizer.errors import FIRST_CHARACTERS, InputError
from visualizer.progress_callback import CancelledError
from visualizer.session import worker_jobs
from visualizer.session.document import Document, typed_text
from visualizer.session.document_change_in_words import NamedChange
from visualizer.session.exportable_snapshot import Snapshot
from visualizer.session.history import History
from visualizer.session.newest_request_worker import Worker
from visualizer.session.provenance import provenance
from visualizer.session.resolved_view import Resolved, resolve
from visualizer.session.screen import Moment, ReadingProgress, Screen
from visualizer.session.stage_toggle_and_cell_pinning import toggled
from visualizer.session.user_prediction import without_marks
from visualizer.session.view import View
from visualizer.session.worker_jobs import Shown, adapted_to_window, as_far_as_read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.models.model_source import ImageFile
    from visualizer.session.screen import Presenter
    from visualizer.session.worker_jobs import ComputeFunction


PATIENCE_MS = 16
"""How long a result is awaited before the screen shows that work is in progress."""
REST_MS = 80
"""How long exact pictures wait while the user acts: drawing them slows the window down."""
MAX_UNDO_BYTES = 2**28
"""Bytes of own matrices and long texts kept for undo."""


class _BeforeModel(Struct, frozen=True, eq=False):
    """The document, view and history before a model was opened.

    Parameters
    ----------
    read : str
        The text that the model was opened to read.
    """

    document: Document
    view: View
    history: History[Document]
    read: str = ""


class Workspace(QObject):
    """Holds the document, the view, the last good run and the screen made of them.

    Each public method is one user intent and emits `changed` if anything changed.

    Parameters
    ----------
    presenter : Presenter
        Makes the screen and prefetches its data.
    """

    changed = Signal()
    drawn = Signal()
    """More is known of the pictures of a long text; nothing else has changed."""
    edited = Signal()
    """The document has changed; the screen follows."""
    _arrived = Signal()
    """Numbers from another machine are here; on any thread."""
    modelRefused = Signal(str, object)
    """A model that was opened could not read anything, so the document before it is back: its name,
    and the `InputError`; None for an unexpected exception."""
    broke = Signal(str)
    """An unexpected exception: the whole traceback."""

    def __init__(
        self,
        compute: ComputeFunction,
        presenter: Presenter,
        document: Document,
        rest: Callable[[], object] | None = None,
        view: View | None = None,
    ) -> None:
        super().__init__()
        self.document = document
        self.view = view or View()
        self.run: Run | None = None
        self.computed: Document | None = None
        self._history: History[Document] = History()
        self._refused: InputError | None = None
        self._refused_view: InputError | None = None
        """Of these, the one that says why what is looked at cannot be read."""
        self._complaints: dict[str, InputError] = {}
        self._asked: Document | None = None
        self._wanted = self.view
        self._has_started = False
        self._drawing: tuple[Run | None, View] | None = None
        """What the worker was asked to draw on; None where it was asked for something else."""
        self._not_drawn: tuple[Run | None, View] | None = None
        """What is not drawn on, as that has failed."""
        self._undone, self._redone = NamedChange(), NamedChange()
        self._request: Callable[[], object] | None = None
        """What the worker was asked last."""
        self._progress: ReadingProgress | None = None
        """How much of that a model has read, where it tells."""
        self._held: list[object] = []
        """A model that was opened, until a run of it is there, which keeps it open then."""
        self._before_model: _BeforeModel | None = None
        """What is back if the first reading of a model that was opened fails."""
        self._compute, self._presenter = compute, presenter
        self._late = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._late.timeout.connect(self._show)
        self._is_resting = self._is_covered = False
        """Read on the worker, too."""
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._end_rest)
        self._worker = Worker(self, rest)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)
        self._worker.progressed.connect(self._tell)
        self._arrived.connect(self.show_again)
        tell_arrivals(self._tell_arrival)
        self.screen: Screen = self._present({}, None)

    # ------------------------------------------------------------------ the document

    def set(
        self, name: str, value: object, *, going_on: bool = False, is_seen: bool = False
    ) -> None:
        """Change a setting.

        Parameters
        ----------
        going_on : bool
            Whether a drag or typing continues, to be undone as one change.
        is_seen : bool
            Whether the control already shows the value; the screen may then wait briefly for the
            result.
        """
        document = self.document.set(name, value)
        if document == self.document:
            return
        self._keep(name if going_on else "")
        self._change_to(document, may_wait=is_seen)

    def set_text(self, text: str, name: str = "text") -> None:
        """Change the text, or the second one; typing one word is one undoable change."""
        if self.document.model and self.document.reads_image:
            said = f"{self.document.model.name} reads images, and no texts."
            self.refuse(InputError("image", said))
            return
        is_typed, written = typed_text(self.document.get(name), text)
        if not is_typed:  # pasted, cut or overwritten: a change of its own
            self.seal()
            # Selected token positions have no meaning in another text.
            self.look(tokens=replace(self._wanted.tokens, chosen=frozenset(), match=None))
        self.set(name, text, going_on=is_typed, is_seen=True)
        if not is_typed or written.isspace():
            self.seal()

    def leave_captured(self) -> None:
        """Return from a model or captured attention to computing the text by a module."""
        self.seal()
        self.set("captured", None)

    def set_image(self, image: ImageFile) -> None:
        """Have a vision model read an image."""
        if self._complaints.pop("image", None):
            self._show()
        self.seal()
        self.set("image", image)

    def refuse(self, refused: InputError) -> None:
        """Report what is wrong with something that was not taken in; the present one stays."""
        self._complaints[refused.field] = refused
        self._show()

    def refuse_text(self, sentence: str, first_part: str, name: str = "text") -> None:
        """Report what of a text is too long, and offer its first part; the present text stays."""
        self.refuse(InputError(name, sentence, (FIRST_CHARACTERS, first_part)))

    def write_mask(self, text: str) -> None:
        """Set the own mask from rows of 0 and 1."""
        try:
            own = parse_mask(text)
        except InputError as refused:
            self.refuse(refused)
        else:
            if self._complaints.pop("own_mask", None):
                self._show()
            self.set("own_mask", own)

    def show_document(self, document: Document, view: View, opened_model: object = None) -> None:
        """Switch to another document and view, as one undoable change.

        Parameters
        ----------
        opened_model : object
            What keeps a model open that was opened to read the document; None of others.
        """
        before = self._before_model or _BeforeModel(self.document, self._wanted, self._history)
        self._before_model = replace(before, read=document.text) if opened_model else None
        if document != self.document:
            self.seal()
            self._keep()
        self._replace(document, view, opened_model)

    def show_apart(
        self, document: Document, view: View, history: History[Document] | None = None
    ) -> History[Document]:
        """Switch to a document with an undo history of its own; return the one before.

        Parameters
        ----------
        history : History, optional
            Of the document; without it, nothing can be undone yet.
        """
        before, self._history = self._history, history or History()
        self._replace(document, view)
        return before

    def _replace(self, document: Document, view: View, opened_model: object = None) -> None:
        self._wanted = view
        self.view = as_far_as_read(view, self.view)
        self._hold(opened_model)
        self._change_to(document)

    def open(self, document: Document, view: View, restore: Callable[[], tuple[Run, View]]) -> None:
        """Open a document that was read, clearing the undo history.

        Its numbers, and side A of a comparison in its view, are restored on the worker.
        """
        self._catch_up()
        self._before_model = None
        self._history, self._complaints = History(), {}
        self._forget_complaints(document)
        self._asked, self._has_started = document, True
        self._wanted = adapted_to_window(view, self._wanted)  # it may be saved before it is shown
        self.view = as_far_as_read(self._wanted, self.view)
        self._ask(partial(worker_jobs.open_and_compute, restore, self._presenter, self._now()))
        self._show()

    def _hold(self, *models: object) -> None:
        """Hold a model that was opened, in place of the one before it."""
        before, self._held = self._held, [*models]
        if before:
            self._worker.discard(before)

    def keep_weights(self) -> None:
        """Toggle between fixing the present weights for any module and drawing them anew."""
        if are_kept(self.document.spec):
            self.set("own_weights", ())
        elif self.run and self.computed == self.document:  # otherwise they belong to another module
            try:
                kept = self.document.set("own_weights", weights_as_own(self.run.trace))
            except InputError as refused:
                self.refuse(refused)
                return
            self._keep()
            self._change_to(replace(kept, weights_source=provenance(self.run)))

    def _keep(self, key: str = "") -> None:
        """Record the present document before it changes."""
        kept = self._history.keep(self.document, key)
        self._history = kept.within(MAX_UNDO_BYTES, Document.large_parts)

    def seal(self) -> None:
        """End a merged edit."""
        self._history = self._history.seal()

    def resample(self, name: str) -> None:
        """Advance a seed by one."""
        self.set(name, (self.document.get(name) + 1) % 2**31)

    @property
    def can_undo(self) -> bool:
        return bool(self._history.past)

    @property
    def can_redo(self) -> bool:
        return bool(self._history.future)

    @property
    def undone_change(self) -> str:
        """What undo takes back, in words; empty where that has no short name."""
        past = self._history.past
        return self._undone.between(past[-1], self.document) if past else ""

    @property
    def redone_change(self) -> str:
        """What redo brings back, in words; empty where that has no short name."""
        future = self._history.future
        return self._redone.between(self.document, future[-1]) if future else ""

    @property
    def can_keep_weights(self) -> bool:
        """Whether the present module's weights are available to be fixed."""
        has_weights = bool(self.document.spec.weight_names) and self.document.has_module
        return self.run is not None and self.computed == self.document and has_weights

    def undo(self) -> None:
        document, self._history = self._history.undo(self.document)
        self._change_to(document)

    def redo(self) -> None:
        document, self._history = self._history.redo(self.document)
        self._change_to(document)

    # ------------------------------------------------------------------ the view

    @property
    def wanted(self) -> View:
        """The requested view, shown once its data have been prefetched."""
        return self._wanted

    def look(self, **changes: Any) -> None:
        """Change fields of the view; what they need is prefetched first."""
        self.want(replace(self._wanted, **changes))

    def want(self, wanted: View) -> None:
        if wanted == self._wanted:
            return
        self._wanted, shown = wanted, self.view
        if self._is_read_with(wanted, shown):
            self.view = wanted
        else:
            self.view = as_far_as_read(wanted, shown)
            self._read()
        if self.view != shown:
            self._show()

    def toggle_stage(self, stage: str) -> None:
        """Toggle a stage's panels, keeping at least one stage."""
        if self.run:
            self.want(toggled(self.resolved(self._wanted), stage))

    def show_leading(self, leading: LeadingIndex) -> None:
        """Show another text of a batch or another layer, restarting a prediction."""
        if self.run:
            guess = without_marks(self._wanted.guess)
            self.look(**dict(zip(self.run.trace.axes, leading, strict=True)), guess=guess)

    def _tell_arrival(self) -> None:
        with suppress(RuntimeError):  # the window is closed
            self._arrived.emit()

    def show_again(self) -> None:
        """Make the screen anew, as more is known of the reading that is shown."""
        self._catch_up()
        reading = self.run.reading if self.run else None
        if reading and reading.refusal:
            self._refuse_view(reading.refusal())
        self._show()

    def _refuse_view(self, refused: InputError | None) -> None:
        """Say that what is looked at cannot be read; or no more, once it was."""
        if self._refused is self._refused_view:
            self._refused = None
        self._refused_view = refused and InputError("text", refused.sentence)
        self._refused = self._refused or self._refused_view

    def resolved(self, view: View) -> Resolved:
        """Resolve a view against the last good run."""
        assert self.run
        return resolve(self.document, view, self.run, self.computed)

    @property
    def wanted_resolved(self) -> Resolved | None:
        """The requested view resolved against the last good run; None while there is none."""
        return self.resolved(self._wanted) if self.run else None

    # ------------------------------------------------------------------ computing

    @property
    def is_screen_outdated(self) -> bool:
        """Whether the document has changed since the screen was made.

        `changed` follows within `PATIENCE_MS`. Until then no control may be set from the screen:
        it would replace what has just been entered.
        """
        return self._late.isActive()

    @property
    def is_working(self) -> bool:
        """Whether a computation is in progress or waits for the window to be visible."""
        return not self._has_started or (self._worker.is_working and self._drawing is None)

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot to export; None while there are no numbers."""
        if self.run is None or self.computed is None:
            return None
        return Snapshot(self.computed, self.view, self.run)

    def start(self) -> None:
        """Compute the first document, unless another request came before."""
        if not self._has_started:
            self._change_to(self.document)

    @property
    def held(self) -> list[object]:
        """What may take much memory: the run that is shown, and a model that was opened."""
        return [self.run, *self._held]

    def close(self) -> None:
        """Compute nothing any more; what is under way stops where it can."""
        self._late.stop()
        self._rest.stop()
        self._worker.leave()

    def _ask(self, request: Callable[[], object]) -> None:
        self._drawing, self._request, self._progress = None, request, None
        self._worker.ask(request)

    def _draw_on(self) -> None:
        """Have the pictures of a long text made more exact while nothing else is to be done."""
        resolved, wanted = self.screen.resolved, (self.run, self.view)
        # A second request for the same would only interrupt the first.
        is_busy = self._worker.is_working and self._drawing in (None, wanted)
        if is_busy or resolved is None or self._not_drawn == wanted:
            return
        if self._presenter.is_drawn(resolved):
            return
        if self._is_exactness_later() and self._presenter.is_begun(resolved):
            return
        is_wanted = partial(getattr, self._worker, "is_wanted")  # by what is looked at next, too
        later = self._is_exactness_later
        self._ask(partial(worker_jobs.draw_more, self._presenter, resolved, is_wanted, later))
        self._drawing = wanted

    def _is_exactness_later(self) -> bool:
        return self._is_resting or self._is_covered

    def cover(self, is_covered: bool) -> None:
        """Make no picture exact while a dialog covers them: it needs the cores for its own."""
        self._is_covered = is_covered
        self._draw_on()

    def _end_rest(self) -> None:
        self._is_resting = False
        self._draw_on()

    def _change_to(self, document: Document, *, may_wait: bool = False) -> None:
        """Replace the document and request its computation; the screen may wait briefly for it."""
        if not may_wait:
            self._catch_up()
        self._forget_complaints(document)
        self._has_started = True
        if not document.problems():
            self._asked = document
            request = partial(
                worker_jobs.compute_shown, self._compute, self._presenter, self._now()
            )
            self._ask(request)
            if may_wait:
                self._show_soon()
                return
        if not self._is_read_with(self._wanted, self.view):
            self._read()
        self._show()

    def _forget_complaints(self, document: Document) -> None:
        """Drop the input errors that a change of the document settles."""
        old, self.document, self._refused = self.document, document, None
        for name in ("text", "second", "own_mask"):
            if old.get(name) != document.get(name):
                self._complaints.pop(name, None)
        if old.model != document.model:
            self._complaints.pop("image", None)
        for name in ("own_weights", "cuts"):
            self._complaints.pop(name, None)

    def _read(self) -> None:
        """Request a prefetch of the wanted view, unless a pending computation covers it."""
        if self.run and self._asked is None:
            self._ask(partial(worker_jobs.read_what_is_shown, self._presenter, self._now()))

    def _now(self) -> Shown:
        panels = self.screen.panels.newest()
        return Shown(self.document, self._wanted, self.run, self.computed, panels)

    def _is_read_with(self, view: View, other: View) -> bool:
        """Whether the prefetch of one view covers another."""
        if self.run is None or view is other:
            return True
        keys = (self._presenter.prefetch_key(self.resolved(each)) for each in (view, other))
        return next(keys) == next(keys)

    def _take(self, answer: worker_jobs.WorkerResult | worker_jobs.DrawnMore) -> None:
        self._forget_answered()
        if isinstance(answer, worker_jobs.DrawnMore):
            if answer.run is self.run:
                self._show_drawn()
        elif self._is_model_refused(answer):
            self._leave_model(answer.refused)
        else:
            self._take_result(answer)

    def _take_result(self, answer: worker_jobs.WorkerResult) -> None:
        if answer.document is None:
            self._refuse_view(None)
            if self.view == self._wanted:
                self._show()  # meanwhile, what is shown is wanted again
                return
        replaced: list[object] = [self.run]
        if answer.document == self._asked:
            self._asked = None
        if answer.run and answer.document and answer.document.model == self.document.model:
            self._before_model = None
        if answer.run:
            self.run, self.computed = answer.run, answer.document
            if self._asked is None:  # else a model may still be to be read
                self._hold()
        if answer.document == self.document:
            self._refused = answer.refused
        if answer.opened and answer.document == self.document:  # else it has been changed since
            self._wanted = adapted_to_window(answer.opened, self._wanted)
        is_read = self._is_read_with(self._wanted, answer.view)
        self.view = self._wanted if is_read else as_far_as_read(self._wanted, answer.view)
        self._show(answer)
        self._worker.discard(replaced)
        if not is_read:
            self._read()

    def _is_model_refused(self, answer: worker_jobs.WorkerResult) -> bool:
        """Whether a model that was opened cannot read, rather than waits for something to read."""
        document, refused = self.document, answer.refused
        if not (self._before_model and refused and document.model and answer.document == document):
            return False
        is_blank = document.model.image is None and not document.text.strip()
        return not is_blank and refused.field not in {"image", "second"}

    def _leave_model(self, refused: InputError | None) -> None:
        """Return to the document before a model that was opened; what was typed since stays."""
        before, document = self._before_model, self.document
        assert before
        assert document.model
        self._before_model = self._asked = None
        self._hold()
        self._history = before.history
        self._wanted = adapted_to_window(before.view, self._wanted)
        text, back = document.text, before.document
        if text != before.read:
            self._history, back = self._history.keep(back), back.set("text", text)
        self._change_to(back)
        self.modelRefused.emit(document.model.name, refused)

    def _forget_answered(self) -> None:
        """Let go of the last request once it is answered: it holds the run that was before."""
        if not self._worker.is_working:
            self._request = None

    def _tell(self, request: Callable[[], object], done: int, of: int) -> None:
        """Show how much is done of what was asked last."""
        if request is self._request and self.is_working:
            self._progress = ReadingProgress(done, of)
            self._show_drawn()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, CancelledError):  # a newer request waits, or runs
            return
        was_read = self._asked is None
        if not self._worker.is_working:  # otherwise a newer request is pending
            self._asked = None
        if was_read:  # it would fail again
            self._wanted = as_far_as_read(self._wanted, self.view)
        if self._drawing:  # it would fail again, until something else is looked at
            self._not_drawn = (self.run, self.view)
        if isinstance(error, InputError) and was_read:
            self._refuse_view(error)
        elif self._before_model and self.document.model and not was_read and not self._asked:
            self._leave_model(error if isinstance(error, InputError) else None)
        elif isinstance(error, InputError):
            self._refused = InputError("text", error.sentence)
        self._show()
        if not self._is_read_with(self._wanted, self.view):
            self._read()
        if not isinstance(error, InputError):
            self.broke.emit("".join(traceback.format_exception(error)))

    def _show_soon(self) -> None:
        """Show the present state unless, as mostly, the result arrives within `PATIENCE_MS`."""
        self.edited.emit()
        if not self._late.isActive():
            self._late.start()

    def _catch_up(self) -> None:
        """Show what is pending: controls must not undo a change that is under way."""
        if self._late.isActive():
            self._show()

    def _show(self, answer: worker_jobs.WorkerResult | None = None) -> None:
        self._late.stop()
        panels, known = self.screen.panels.newest(), self.screen.resolved
        if answer and answer.resolved:
            panels, known = {**panels, **answer.panels}, answer.resolved
        self.screen = self._present(panels, known)
        self.changed.emit()
        if self.run and self.run.trace.is_blockwise:
            self._is_resting = True
            self._rest.start()
        self._draw_on()

    def _show_drawn(self) -> None:
        """Show what more is known of the pictures, or is done; nothing else has changed."""
        shown, resolved = self.screen, self.screen.resolved
        if self._late.isActive() or resolved is None:  # but the document
            self._show()
            return
        moment = self._moment(shown.document, shown.view, resolved)
        self.screen = self._presenter.present_drawn(moment, shown.panels)
        self.drawn.emit()
        self._draw_on()

    @property
    def complaint(self) -> InputError | None:
        """What is wrong with what was given last; None if nothing is."""
        is_own = self.document.spec.mask is Mask.OWN  # otherwise the own mask has no effect
        said = (name for name in self._complaints if name != "own_mask" or is_own)
        return next((self._complaints[name] for name in said), self._refused)

    def _present(self, panels: Mapping[str, object], known: Resolved | None) -> Screen:
        """Make the screen.

        Parameters
        ----------
        panels : mapping
            Those shown before, or made by the worker.
        known : Resolved or None
            What was shown before, or prefetched by the worker.
        """
        resolved = self.resolved(self.view).with_known(known) if self.run else None
        moment = self._moment(self.document, self.view, resolved)
        return self._presenter.present(moment, panels)

    def _moment(self, document: Document, view: View, resolved: Resolved | None) -> Moment:
        is_working = self.is_working
        progress = self._progress if is_working else None
        wanted, refused = self._wanted, self.complaint
        return Moment(document, view, resolved, wanted, refused, is_working, progress)
