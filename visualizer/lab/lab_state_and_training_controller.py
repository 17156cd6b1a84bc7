"""The lab's state: settings, run and view; one method an intent."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.errors import InputError
from visualizer.lab.attention_view.opening_probe_text import opening_probe
from visualizer.lab.runs.run_store import unused_folder
from visualizer.lab.screen_presenter import LabScreen, LabView, present_lab
from visualizer.lab.settings.lab_setting_definitions import STAYING, put
from visualizer.lab.training import detached_training_controller, run_state
from visualizer.lab.training.process_controller import ProcessEnd, TrainingProcess
from visualizer.lab.training.run_state import (
    Failure,
    Phase,
    RunState,
    refused_as,
    with_step_to_go_on_from,
)
from visualizer.language.run_folder import RunFolder, plain_settings
from visualizer.language.training_settings import LIMITS, TrainingSettings
from visualizer.storage.private_folder import make_private_folder
from visualizer.widgets.app_settings import RUNS, own_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from visualizer.language.wire_format import Message


class LabStateController(QObject):
    """Holds the state of the lab; one method an intent, one signal for any change.

    Parameters
    ----------
    command : sequence of str
        The training program and its arguments.
    """

    changed = Signal()
    opened = Signal()
    """A run has been opened; its model can be queried."""
    answered = Signal(object)
    """The answer of a training to a request, a `Message`."""
    said = Signal(str)
    """The outcome of leaving a run."""

    def __init__(self, command: Sequence[str], parent: QObject) -> None:
        super().__init__(parent)
        self._command = tuple(command)
        self.home = own_folder() / RUNS
        self.draft = TrainingSettings()
        self.run: RunState | None = None
        self.view = LabView()
        self.offered_probe = ""
        """The probe offered when the run was opened."""
        self.typed_probes: dict[Path, str] = {}
        """The last probes of runs of others, whose folders stay as they are."""
        self.sample = ""
        self.refused: InputError | None = None
        self.broken: Failure | None = None
        """Why a run could not be opened."""
        self._begun: set[Path] = set()
        """The folders of runs that were begun here: their processes make them, after a while."""
        self._training: TrainingProcess | None = None
        self._then: list[tuple[str, dict[str, Any]]] = []
        self._is_starting = False
        """Whether the training was told to run and has not answered yet."""
        self._waiting = detached_training_controller.BackgroundTrainingWatcher(self)
        self._waiting.free.connect(self._open_when_free)

    @property
    def screen(self) -> LabScreen:
        return present_lab(self.draft, self.run, self.refused, self.sample, self.broken)

    @property
    def settings(self) -> TrainingSettings:
        """The settings of the run, or those for a new one."""
        return self.run.settings if self.run else self.draft

    @property
    def is_training(self) -> bool:
        """Whether closing would interrupt a training."""
        if self.run is None:
            return False
        is_to_start = self._is_starting or any(says == "run" for says, _ in self._then)
        return is_to_start or self.run.phase in {Phase.RUNNING, Phase.WAITING}

    @property
    def is_unsaved(self) -> bool:
        """Whether closing would lose steps unless there is room for a checkpoint by then."""
        return self._training is not None and self.run is not None and not self.run.is_saved

    @property
    def is_safe_to_leave(self) -> bool:
        """Whether closing interrupts no training and loses no steps."""
        return not (self.is_training or self.is_unsaved)

    # ------------------------------------------------------------------ the settings

    def set(self, name: str, value: object) -> None:
        """Change a setting; in an open run, only the number of steps."""
        if self.run and name in STAYING:
            self._lengthen(int(str(value)))
        elif self.run is None:
            self.draft, self.refused, self.broken = put(self.draft, name, value), None, None
        self.changed.emit()

    def remedy(self, name: str) -> None:
        """Apply the remedy offered for a problem at a setting."""
        rows = self.screen.setup.settings
        problem = next(row.problem for row in rows if row.setting.name == name)
        if problem and problem.remedy:
            self.set(*problem.remedy)

    def show_sample(self, sample: str) -> None:
        """Set the sample of the text that the settings name."""
        self.sample = sample
        self.changed.emit()

    def refuse(self, refused: InputError) -> None:
        """Show why the settings are rejected."""
        self.refused = refused
        self.changed.emit()

    # ------------------------------------------------------------------ view

    def probe(self, text: str) -> None:
        self.look(probe=text)

    def scrub(self, step: int | None) -> None:
        """Select a snapshot by its step; None for the present."""
        self.look(step=step)

    def look(self, **values: Any) -> None:
        """Change fields of the `LabView`."""
        self.view = replace(self.view, **values)
        self.changed.emit()

    # ------------------------------------------------------------------ training

    def toggle(self) -> None:
        """Start, pause or resume, whichever applies."""
        if self.run is None:
            self._begin()
        elif self.run.phase is Phase.RUNNING:
            self._tell("pause")
        elif self.screen.progress.can_toggle:
            self.refused = None  # retried
            self._tell("run")

    def step(self, count: int = 1) -> None:
        """Do a number of steps, then pause."""
        if self.screen.progress.can_step:
            self._tell("step", count=count)

    def stop(self) -> None:
        """Write a checkpoint and end the training process; the run stays open."""
        if self._training and self.run and self.screen.progress.can_stop:
            # While it opens: it is not to begin after all.
            self._then = [one for one in self._then if one[0] not in {"run", "step"}]
            self._change(phase=Phase.ENDING)
            self._training.stop()

    def train_more(self, steps: int) -> None:
        """Extend the training by a number of steps."""
        if self.run and self.screen.progress.can_train_more:
            self._lengthen(self.run.step + steps)
            self._tell("run")

    def _lengthen(self, steps: int) -> None:
        assert self.run
        least, most = LIMITS["steps"]
        steps = min(max(steps, self.run.step, least), most)
        if steps != self.run.settings.steps:
            self._change(settings=replace(self.run.settings, steps=steps))
            self._tell("lengthen", steps=steps)

    def _begin(self) -> None:
        screen = self.screen
        if screen.progress.can_toggle:
            folder = unused_folder(self.home, self.draft, self._begun)
            with suppress(OSError):  # which the process that begins the run says
                make_private_folder(self.home)
            self._begun.add(folder)
            self._open(RunState(folder, self.draft), self.draft)
            self._tell("run")

    # ------------------------------------------------------------------ the run

    def open(self, folder: Path) -> None:
        """Open a stored run; one that trains in the background is taken over."""
        try:
            about = RunFolder(folder).read_about()
        except InputError as refused:
            self.refuse(refused)
            return
        self.leave()
        run = RunState(folder, about.settings, sample=about.sample)
        if detached_training_controller.is_at_work(folder):
            self.run = replace(run, phase=Phase.WAITING)
            self._waiting.wait(folder)
            self.changed.emit()
        else:
            self._open(run)

    def _open_when_free(self, was_trained: bool) -> None:
        assert self.run
        if was_trained:
            self._then.append(("run", {}))
        self._open(replace(self.run, phase=Phase.OPENING))

    def leave(self, goes_on: bool = False) -> None:
        """Close the run: it ends with a checkpoint, or continues in the background.

        Raises
        ------
        InputError
            Of ``folder``, when it cannot go on; it is still open then.
        """
        training, run = self._training, self.run
        if run and run.phase is Phase.WAITING:
            self._waiting.leave(goes_on, self._command)
        if run and goes_on:
            self._let_go_on(run, training)
        for says, values in self._then:
            if training and says == "lengthen":
                training.tell(says, **values)
        if run:
            self.draft = run.settings
        self._waiting.stop()
        self._training = self.run = None
        self._then, self.refused, self.view = [], None, LabView()
        self._is_starting = False
        if training:
            training.stopped_run = run.folder if run and not goes_on else None
            training.end()
        self.changed.emit()

    def _let_go_on(self, run: RunState, training: TrainingProcess | None) -> None:
        """Have a run go on in the background once its process has ended."""
        if training is None:
            if run.phase is not Phase.WAITING:  # its process has ended by itself
                detached_training_controller.go_on(run.folder, self._command)
            return
        if training.has_opened and not self._is_starting:
            detached_training_controller.order(run.folder)
        else:  # it makes the folder, and removes older orders there, when it begins
            detached_training_controller.order_later(run.folder)
        over = partial(detached_training_controller.take_over, run.folder, self._command, self.said)
        training.ended.connect(over)

    def _open(self, run: RunState, settings: TrainingSettings | None = None) -> None:
        self.run, self.refused, self.broken = run, None, None
        training = self._training = TrainingProcess(self._command, self)
        training.said.connect(self._hear)
        training.ended.connect(self._take_ended)
        training.start()
        made = plain_settings(settings) if settings else None
        training.tell("open", folder=str(run.folder), settings=made)
        self.changed.emit()

    # ------------------------------------------------------------------ messages of the training

    def ask(self, says: str, **values: Any) -> None:
        """Send a request to the run's model; an ended process is restarted for it."""
        self._tell(says, **values)

    def _tell(self, says: str, **values: Any) -> None:
        """Send a message to the training, now or once it is open."""
        if self.run and self._training is None and self.run.phase not in run_state.BUSY:
            self._open(replace(self.run, phase=Phase.OPENING, failure=None))
        if self._training and self.run and self.run.is_open:
            self._training.tell(says, **values)
            self._is_starting |= says == "run"
        elif self.run:
            self._then.append((says, values))

    def _tell_waiting(self) -> None:
        then, self._then = self._then, []
        for says, values in then:
            if says == "lengthen":  # its settings may be those of its folder again
                self._lengthen(**values)
            else:
                self._tell(says, **values)

    def _hear(self, message: Message) -> None:
        if self.sender() is not self._training:
            return  # from a run that was closed
        take = {
            "opened": self._take_opened,
            "progress": self._take_progress,
            "not_ended": self._take_not_ended,
            "refused": self._take_refused,
            "failed": self._take_failed,
        }
        take.get(message.says, self.answered.emit)(message)

    def _take_opened(self, message: Message) -> None:
        if self.run:
            self.run = run = run_state.with_opened_run(self.run, message)
            if not self.view.probe:
                typed = self.typed_probes.get(run.folder)
                self.offered_probe = typed or opening_probe(run.folder, run.sample, run.settings)
                self.view = replace(self.view, probe=self.offered_probe)
        self._tell_waiting()
        self.opened.emit()
        self.changed.emit()

    def _take_progress(self, message: Message) -> None:
        if self.run:
            self.run = run_state.with_progress(self.run, message)
            self._is_starting &= self.run.phase is Phase.PAUSED  # as it was told to be longer
        self.changed.emit()

    def _take_not_ended(self, message: Message) -> None:
        self._change(phase=Phase.PAUSED)  # its progress, which follows, says why
        then, self._then = self._then, []
        for says, values in then:
            self._tell(says, **values)

    def _take_refused(self, message: Message) -> None:
        if message.values.get("id") is not None:
            self.answered.emit(message)
            return
        self._is_starting = False
        if self._training and not self._training.has_opened:  # there is no run to open
            self.leave()
        said = message.values
        remedy = tuple(said["remedy"]) if said.get("remedy") else None
        self.refuse(InputError(said["field"], said["sentence"], remedy))

    def _take_failed(self, message: Message) -> None:
        said = message.values
        self._change(failure=Failure(said["sentence"], said.get("details", "")))

    def _take_ended(self, ended: ProcessEnd) -> None:
        if self._training is None or self.sender() is not self._training:
            return
        if ended.failure:  # otherwise the process does so itself
            self._training.deleteLater()
        self._training, self._is_starting = None, False
        then, self._then = self._then, []
        failure = (self.run and self.run.failure) or ended.failure
        if self.run and not self.run.tokens and ended.failure:
            self.leave()
            self.broken = failure
            self.changed.emit()
        elif self.run:
            if failure:
                step = RunFolder(self.run.folder).checkpoint_step()
                failure = with_step_to_go_on_from(failure, step)
            self._change(phase=Phase.FAILED if failure else Phase.STOPPED, failure=failure)
            for says, values in then:  # asked while it ended
                if failure:
                    self.answered.emit(refused_as(failure, values))
                else:
                    self._tell(says, **values)

    def _change(self, **values: Any) -> None:
        if self.run:
            self.run = replace(self.run, **values)
        self.changed.emit()
