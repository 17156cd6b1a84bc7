"""Requests probe results from the training process, one at a time."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.lab.runs.store import store_probe
from visualizer.lab.training.run_state import RunPhase

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.lab.controller import LabStateController
    from visualizer.lab.screen_presenter import ProbeSelection
    from visualizer.language.wire_format import Message

REQUEST_PAUSE_MS = 150
"""Pause between a result and the next request, in milliseconds, which keeps training fast."""
MAX_CACHED_BYTES = 128 * 2**20


class ProbeFailure(Struct, frozen=True):
    """The reason why the model cannot be run on the text of a view.

    Parameters
    ----------
    is_text_error : bool
        Whether the text is the cause; the model then cannot be run on it at any step.
    """

    view: ProbeSelection
    sentence: str
    is_text_error: bool

    def applies_to(self, view: ProbeSelection) -> bool:
        return view.probe == self.view.probe and (self.is_text_error or view.step == self.view.step)


class ProbeController(QObject):
    """Holds the current probe result and a cache of earlier results.

    Only one request is pending at a time. The next request is sent after a pause, for the step that
    is selected by then.
    """

    changed = Signal()

    def __init__(self, lab: LabStateController) -> None:
        super().__init__(lab)
        self._lab = lab
        self.result: ProbeResult | None = None
        self.text = ""
        """The text of the current result."""
        self._refusal: ProbeFailure | None = None
        self._folder: Path | None = None
        self._offered_probe = ""
        self._is_own_run = False
        """Whether the folder may be written to; true if the run is listed or was trained here."""
        self._cache: OrderedDict[tuple[int, str], ProbeResult] = OrderedDict()
        self._pending_view: ProbeSelection | None = None
        """The view of the pending request."""
        self._must_request = False
        self._rest_timer = QTimer(self, singleShot=True, interval=REQUEST_PAUSE_MS)
        self._rest_timer.timeout.connect(self.show_or_request_result)
        lab.changed.connect(self.show_or_request_result)

    @property
    def is_waiting(self) -> bool:
        """Whether the result of the selected step is pending."""
        step = self._lab.view.step
        is_shown = step is None or (self.result is not None and self.result.step == step)
        return not (is_shown or self.refusal_reason)

    @property
    def refusal_reason(self) -> str:
        """The reason why the current view cannot be shown; empty if no reason is known."""
        refusal = self._refusal
        return refusal.sentence if refusal and refusal.applies_to(self._lab.view) else ""

    @property
    def previous_text(self) -> str:
        """The text of the result that is still shown although the probe has changed, or ""."""
        run, probe = self._lab.run, self._lab.view.probe
        is_left = bool(probe) and self.result is not None and self.text != probe
        return self.text if is_left and run and (self.refusal_reason or not run.is_open) else ""

    def show_or_request_result(self) -> None:
        """Show the result of the selected step, or request it."""
        run, view = self._lab.run, self._lab.view
        if run is None or run.folder != self._folder:
            self._reset_for_run(run.folder if run else None)
        if run and run.phase is RunPhase.RUNNING:
            self._is_own_run = True
        if run is None or not run.is_open:
            self._pending_view = None
        else:
            self._offered_probe = self._lab.suggested_probe
        if run is None or not view.probe:
            return
        step = run.step if view.step is None else view.step
        known = self._cache.get((step, view.probe))
        if known is not None:
            self._show_result(known, view.probe)
        elif self._can_request(run.phase):
            self._send_request(view)

    def request_result(self) -> None:
        """Request the result of the current probe, even if this starts a process."""
        self._must_request = True
        self.show_or_request_result()

    def _can_request(self, phase: RunPhase) -> bool:
        view = self._lab.view
        if self._pending_view or self._rest_timer.isActive() or self.refusal_reason:
            return False
        # A request would restart the process, so only new results are requested.
        if phase is RunPhase.STOPPED:
            known = self.text or self._lab.suggested_probe  # the suggested probe is not requested
            return self._must_request or view.step is not None or view.probe != known
        return self._lab.run is not None and self._lab.run.is_open

    def _send_request(self, view: ProbeSelection) -> None:
        self._pending_view = view
        self._lab.send_request(
            "read", partial(self._on_answer, view), text=view.probe, step=view.step
        )

    def _on_answer(self, requested_view: ProbeSelection, message: Message) -> None:
        if requested_view is not self._pending_view:
            return
        self._pending_view, self._must_request = None, False
        self._rest_timer.start()
        if message.kind == "refused":
            sentence, is_text_error = message.values["sentence"], message.values["field"] == "text"
            self._refusal = ProbeFailure(requested_view, sentence, is_text_error)
            self.changed.emit()
            return
        result = ProbeResult.of(message)
        self._cache_result(result, requested_view.probe)
        view = self._lab.view
        if requested_view.probe == view.probe and view.step in {None, result.step}:
            self._show_result(result, requested_view.probe)

    def _show_result(self, result: ProbeResult, probe: str) -> None:
        if result is not self.result:
            self.result, self.text = result, probe
            self.changed.emit()

    def _cache_result(self, result: ProbeResult, probe: str) -> None:
        self._cache[result.step, probe] = result
        while len(self._cache) > 1 and len(self._cache) * result.nbytes > MAX_CACHED_BYTES:
            self._cache.popitem(last=False)

    def _store_probe(self, folder: Path) -> None:
        """Store the probe in the run's folder, or in memory if the run is not the user's own."""
        if self._is_own_run:
            self._lab.typed_probes.pop(folder, None)
            store_probe(folder, self.text)
        else:
            self._lab.typed_probes[folder] = self.text

    def _reset_for_run(self, folder: Path | None) -> None:
        if self._folder and self.text and self.text != self._offered_probe:
            self._store_probe(self._folder)
        self._folder, self._offered_probe = folder, ""
        self._pending_view, self._must_request = None, False
        self._is_own_run = folder is not None and folder.parent == self._lab.runs_folder
        self._cache.clear()
        previous, self.result, self.text, self._refusal = self.result, None, "", None
        if previous:
            self.changed.emit()
