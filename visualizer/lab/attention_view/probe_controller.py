"""Requests readings of the probe from a training, no more often than they can be shown."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.lab.runs.run_store import keep_probe
from visualizer.lab.training.run_state import Phase

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.lab.lab_state_and_training_controller import LabStateController
    from visualizer.lab.screen_presenter import LabView
    from visualizer.language.wire_format import Message

REST_MS = 150
"""Pause after a reading before the next request, so that training is not slowed."""
MAX_CACHED_BYTES = 128 * 2**20


class Refusal(Struct, frozen=True):
    """Why a view cannot be read.

    Parameters
    ----------
    is_of_text : bool
        Whether its text cannot be read at any step.
    """

    view: LabView
    sentence: str
    is_of_text: bool

    def concerns(self, view: LabView) -> bool:
        return view.probe == self.view.probe and (self.is_of_text or view.step == self.view.step)


class ProbeController(QObject):
    """Holds the reading that is shown, and a cache of earlier ones.

    One request is pending at a time. When it is answered and painted, the next one is sent, for the
    step that is selected by then.
    """

    changed = Signal()

    def __init__(self, lab: LabStateController) -> None:
        super().__init__(lab)
        self._lab = lab
        self.result: ProbeResult | None = None
        self.text = ""
        """The text of the reading."""
        self._refusal: Refusal | None = None
        self._folder: Path | None = None
        self._offered = ""
        self._is_own = False
        """Whether the run is one of the list, or was trained here: its folder may be written."""
        self._kept: OrderedDict[tuple[int, str], ProbeResult] = OrderedDict()
        self._asked: tuple[int, LabView] | None = None
        self._is_wanted = False
        self._count = 0
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self.look)
        lab.changed.connect(self.look)
        lab.answered.connect(self._take)

    @property
    def is_waiting(self) -> bool:
        """Whether the selected step is not the one shown, and can be."""
        step = self._lab.view.step
        is_shown = step is None or (self.result is not None and self.result.step == step)
        return not (is_shown or self.refused)

    @property
    def refused(self) -> str:
        """Why the present view cannot be read; empty where it can, or is unknown."""
        refusal = self._refusal
        return refusal.sentence if refusal and refusal.concerns(self._lab.view) else ""

    @property
    def older(self) -> str:
        """The text still shown while the present probe is not read; else empty."""
        run, probe = self._lab.run, self._lab.view.probe
        is_left = bool(probe) and self.result is not None and self.text != probe
        return self.text if is_left and run and (self.refused or not run.is_open) else ""

    def look(self) -> None:
        """Show the reading of the selected step, or request it."""
        run, view = self._lab.run, self._lab.view
        if run is None or run.folder != self._folder:
            self._forget(run.folder if run else None)
        if run and run.phase is Phase.RUNNING:
            self._is_own = True
        if run is None or not run.is_open:
            self._asked = None
        else:
            self._offered = self._lab.offered_probe
        if run is None or not view.probe:
            return
        step = run.step if view.step is None else view.step
        known = self._kept.get((step, view.probe))
        if known is not None:
            self._show(known, view.probe)
        elif self._may_ask(run.phase):
            self._ask(view)

    def want(self) -> None:
        """Request the reading of the present probe even where a process has to start for it."""
        self._is_wanted = True
        self.look()

    def _may_ask(self, phase: Phase) -> bool:
        if self._asked or self._rest.isActive():
            return False
        view = self._lab.view
        if self.refused:
            return False
        if phase is Phase.STOPPED:  # its process would have to restart, so only for new readings
            known = self.text or self._lab.offered_probe  # what is only offered can wait
            return self._is_wanted or view.step is not None or view.probe != known
        return self._lab.run is not None and self._lab.run.is_open

    def _ask(self, view: LabView) -> None:
        self._count += 1
        self._asked = (self._count, view)
        self._lab.ask("read", id=f"probe {self._count}", text=view.probe, step=view.step)

    def _take(self, message: Message) -> None:
        if self._asked is None or message.values.get("id") != f"probe {self._asked[0]}":
            return
        (_, asked), self._asked, self._is_wanted = self._asked, None, False
        self._rest.start()
        if message.says == "refused":
            said = message.values
            self._refusal = Refusal(asked, str(said["sentence"]), said["field"] == "text")
            self.changed.emit()
            return
        result = ProbeResult.of(message)
        self._keep(result, asked.probe)
        view = self._lab.view
        if asked.probe == view.probe and view.step in {None, result.step}:
            self._show(result, asked.probe)

    def _show(self, result: ProbeResult, probe: str) -> None:
        if result is not self.result:
            self.result, self.text = result, probe
            self.changed.emit()

    def _keep(self, result: ProbeResult, probe: str) -> None:
        self._kept[result.step, probe] = result
        weights = result.weights
        size = result.logits.nbytes + (0 if weights is None else weights.nbytes)
        while len(self._kept) > 1 and len(self._kept) * size > MAX_CACHED_BYTES:
            self._kept.popitem(last=False)

    def _remember(self, folder: Path) -> None:
        """Store the probe with a run of the user's own, else until the window is closed."""
        if self._is_own:
            self._lab.typed_probes.pop(folder, None)
            keep_probe(folder, self.text)
        else:
            self._lab.typed_probes[folder] = self.text

    def _forget(self, folder: Path | None) -> None:
        if self._folder and self.text and self.text != self._offered:
            self._remember(self._folder)
        self._folder, self._offered, self._asked, self._is_wanted = folder, "", None, False
        self._is_own = folder is not None and folder.parent == self._lab.home
        self._kept.clear()
        had, self.result, self.text, self._refusal = self.result, None, "", None
        if had:
            self.changed.emit()
