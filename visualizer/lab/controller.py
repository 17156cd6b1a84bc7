"""The lab's state: the settings, the run and the view, with one method per intent."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.errors import InputError
from visualizer.lab.runs.store import (
    choose_initial_probe,
    choose_run_folder,
    read_run_metadata,
)
from visualizer.lab.screen_presenter import LabScreen, ProbeSelection, present_lab_screen
from visualizer.lab.settings.definitions import SETTINGS_OF_OPEN_RUN, replace_setting
from visualizer.lab.training import background_controller, run_state
from visualizer.lab.training.process_controller import (
    RECORDING_COMMAND,
    ProcessEnd,
    TrainingProcess,
)
from visualizer.lab.training.run_state import (
    RunFailure,
    RunPhase,
    RunState,
    create_refusal_message,
    with_resume_step,
)
from visualizer.language.recording import RecordingMetadata
from visualizer.language.run_folder import RunFolder, settings_to_json
from visualizer.language.training_settings import SETTING_LIMITS, TrainingSettings
from visualizer.storage.symlink_safe_folder import make_private_folder
from visualizer.widgets.app_settings import RUNS, user_data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from visualizer.language.wire_format import Message


class LabStateController(QObject):
    """Holds the state of the lab, with one method per intent, and reports each change.

    Parameters
    ----------
    command : sequence of str
        The training program and its arguments.
    """

    changed = Signal()
    opened = Signal()
    """Emitted when a run has been opened and its model can be queried."""
    messageReported = Signal(str)
    """Emitted with an error message if a closed run cannot continue in the background."""

    def __init__(self, command: Sequence[str], parent: QObject) -> None:
        super().__init__(parent)
        self.command = tuple(command)
        """The training program and its arguments, for processes that will be started."""
        self.runs_folder = user_data_folder() / RUNS
        self.draft = TrainingSettings()
        self.run: RunState | None = None
        self.view = ProbeSelection()
        self.suggested_probe = ""
        """The probe that was suggested when the run was opened."""
        self.typed_probes: dict[Path, str] = {}
        """The last probes of runs outside the user's own folder; these runs are not modified."""
        self.sample = ""
        self.refused: InputError | None = None
        self.opening_failure: RunFailure | None = None
        """The reason why a run could not be opened."""
        self._started_folders: set[Path] = set()
        """Folders of the runs that this controller started; they may not exist yet."""
        self.training: TrainingProcess | None = None
        """The process of the open run."""
        self._pending_messages: list[tuple[str, dict[str, Any]]] = []
        self._request_count = 0
        self._replies: dict[str, Callable[[Message], object]] = {}
        """The functions that handle the responses of the open run, by request id."""
        self._is_starting = False
        """Whether the training process was asked to train and has not responded yet."""
        self._background_watcher = background_controller.BackgroundTrainingStopper(self)
        self._background_watcher.runReleased.connect(self._on_run_released)

    @property
    def screen(self) -> LabScreen:
        return present_lab_screen(
            self.draft, self.run, self.refused, self.sample, self.opening_failure
        )

    @property
    def settings(self) -> TrainingSettings:
        """The settings of the run, or the settings for a new run."""
        return self.run.settings if self.run else self.draft

    @property
    def is_training(self) -> bool:
        """Whether closing the run would interrupt training."""
        if self.run is None:
            return False
        is_to_start = self._is_starting or any(kind == "run" for kind, _ in self._pending_messages)
        return is_to_start or self.run.phase in {RunPhase.RUNNING, RunPhase.WAITING}

    @property
    def is_unsaved(self) -> bool:
        """Whether closing the run would lose steps if no further checkpoint can be written."""
        return self.training is not None and self.run is not None and not self.run.is_saved

    @property
    def is_safe_to_close(self) -> bool:
        """Whether closing the run neither interrupts training nor loses steps."""
        return not (self.is_training or self.is_unsaved)

    # ------------------------------------------------------------------ the settings

    def change_setting(self, name: str, value: object) -> None:
        """Change a setting; in an open run, only the number of steps can be changed."""
        if self.run and name in SETTINGS_OF_OPEN_RUN:
            self._extend_training(int(str(value)))
        elif self.run is None:
            self.draft = replace_setting(self.draft, name, value)
            self.refused = self.opening_failure = None
        self.changed.emit()

    def apply_remedy(self, name: str) -> None:
        """Apply the remedy that is offered for the problem with a setting."""
        rows = self.screen.setup.settings
        problem = next(row.problem for row in rows if row.setting.name == name)
        if problem and problem.remedy:
            self.change_setting(*problem.remedy)

    def show_sample(self, sample: str) -> None:
        """Show the beginning of the text that the settings select."""
        self.sample = sample
        self.changed.emit()

    def show_error(self, refused: InputError) -> None:
        """Show why the settings are rejected."""
        self.refused = refused
        self.changed.emit()

    # ------------------------------------------------------------------ view

    def set_probe(self, text: str) -> None:
        self.change_probe_selection(probe=text)

    def select_snapshot(self, step: int | None) -> None:
        """Select a snapshot by its step; None selects the current model."""
        self.change_probe_selection(step=step)

    def change_probe_selection(self, **values: Any) -> None:
        """Change fields of the `ProbeSelection`."""
        self.view = replace(self.view, **values)
        self.changed.emit()

    # ------------------------------------------------------------------ training

    def toggle_training(self) -> None:
        """Start, pause or resume training, depending on the state of the run."""
        if self.run is None:
            self._begin_run()
        elif self.run.phase is RunPhase.RUNNING:
            self._send_or_queue_message("pause")
        elif self.screen.progress.can_toggle:
            self.refused = None  # the training is retried
            self._send_or_queue_message("run")

    def train_step(self) -> None:
        """Train for one step, then pause."""
        if self.screen.progress.can_step:
            self._send_or_queue_message("step")

    def stop_training(self) -> None:
        """Write a checkpoint and end the training process; the run stays open."""
        if self.training and self.run and self.screen.progress.can_stop:
            # If the run is still being opened, this also cancels the pending start.
            self._pending_messages = [
                (kind, values)
                for kind, values in self._pending_messages
                if kind not in {"run", "step"}
            ]
            self._change_run(phase=RunPhase.ENDING)
            self.training.request_stop()

    def train_more(self, steps: int) -> None:
        """Extend the training by the given number of steps."""
        if self.run and self.screen.progress.can_train_more:
            self._extend_training(self.run.step + steps)
            self._send_or_queue_message("run")

    def _extend_training(self, steps: int) -> None:
        assert self.run
        least, most = SETTING_LIMITS["steps"]
        steps = min(max(steps, self.run.step, least), most)
        if steps != self.run.settings.steps:
            self._change_run(settings=replace(self.run.settings, steps=steps))
            self._send_or_queue_message("lengthen", steps=steps)

    def _begin_run(self) -> None:
        if self.screen.progress.can_toggle:
            folder = choose_run_folder(self.runs_folder, self.draft, self._started_folders)
            with suppress(OSError):  # the process that creates the run reports the error
                make_private_folder(self.runs_folder)
            self._started_folders.add(folder)
            self._open_run(RunState(folder, self.draft), self.draft)
            self._send_or_queue_message("run")

    # ------------------------------------------------------------------ the run

    def open_run(self, folder: Path) -> None:
        """Open a stored run; if it is training in the background, take over its training."""
        try:
            metadata = read_run_metadata(folder)
        except InputError as refused:
            self.show_error(refused)
            return
        self.close_run()
        if isinstance(metadata, RecordingMetadata):
            sample = "\n\n".join(each.text for each in metadata.texts)
            self._open_run(RunState(folder, self.draft, sample=sample, recording=metadata))
            return
        run = RunState(folder, metadata.settings, sample=metadata.sample)
        if background_controller.is_training(folder):
            self.run = replace(run, phase=RunPhase.WAITING)
            self._background_watcher.stop_and_wait_for_run(folder)
            self.changed.emit()
        else:
            self._open_run(run)

    def _on_run_released(self, was_trained: bool) -> None:
        assert self.run
        if was_trained:
            self._pending_messages.append(("run", {}))
        self._open_run(replace(self.run, phase=RunPhase.OPENING))

    def close_run(self, continues: bool = False) -> None:
        """Close the run; its training stops with a checkpoint or continues in the background.

        Raises
        ------
        InputError
            With field ``folder`` if training cannot continue; the run then stays open.
        """
        training, run = self.training, self.run
        if run and run.phase is RunPhase.WAITING:
            self._background_watcher.stop_waiting(continues, self.command)
        if run and continues:
            self._continue_in_background(run, training)
        for kind, values in self._pending_messages:
            if training and kind == "lengthen":
                training.send_message(kind, **values)
        if run:
            self.draft = run.settings
        self._background_watcher.stop_polling()
        self.training = self.run = None
        self._pending_messages, self._replies = [], {}
        self.refused, self.view, self._is_starting = None, ProbeSelection(), False
        if training:
            training.stopped_run = run.folder if run and not continues else None
            training.shut_down()
        self.changed.emit()

    def _continue_in_background(self, run: RunState, training: TrainingProcess | None) -> None:
        """Let a run continue in the background once its process has ended."""
        if training is None:
            if run.phase is not RunPhase.WAITING:  # the process of the run has already ended
                background_controller.continue_in_background(run.folder, self.command)
            return
        if training.has_opened and not self._is_starting:
            background_controller.write_training_orders(run.folder)
        else:  # when the process starts, it creates the folder and removes older orders from it
            background_controller.mark_continuation_pending(run.folder)
        training.ended.connect(
            partial(
                background_controller.continue_closed_run,
                run.folder,
                self.command,
                self.messageReported,
            )
        )

    def _open_run(self, run: RunState, settings: TrainingSettings | None = None) -> None:
        self.run, self.refused, self.opening_failure = run, None, None
        command = RECORDING_COMMAND if run.recording else self.command
        training = self.training = TrainingProcess(command, self)
        training.messageReceived.connect(self._on_message)
        training.ended.connect(self._on_ended)
        training.start()
        plain = settings_to_json(settings) if settings else None
        training.send_message("open", folder=str(run.folder), settings=plain)
        self.changed.emit()

    # ------------------------------------------------------------------ messages of the training

    def send_request(self, kind: str, reply: Callable[[Message], object], **values: Any) -> None:
        """Send a request to the run's model; restart the process if it has ended.

        Parameters
        ----------
        reply : callable
            Called with the response, which may be a refusal, unless the run is closed first.
        """
        self._request_count += 1
        id_ = f"{kind} {self._request_count}"
        self._replies[id_] = reply
        self._send_or_queue_message(kind, id=id_, **values)

    def _on_answer(self, message: Message) -> None:
        reply = self._replies.pop(message.values["id"], None)
        if reply:
            reply(message)

    def _send_or_queue_message(self, kind: str, **values: Any) -> None:
        """Send a message to the training process now, or as soon as the run is open."""
        if self.run and self.training is None and self.run.phase not in run_state.BUSY_PHASES:
            self._open_run(replace(self.run, phase=RunPhase.OPENING, failure=None))
        if self.training and self.run and self.run.is_open:
            self.training.send_message(kind, **values)
            self._is_starting |= kind == "run"
        elif self.run:
            self._pending_messages.append((kind, values))

    def _take_pending_messages(self) -> list[tuple[str, dict[str, Any]]]:
        pending, self._pending_messages = self._pending_messages, []
        return pending

    def _send_pending_messages(self) -> None:
        for kind, values in self._take_pending_messages():
            if kind == "lengthen":  # the process may have read the old settings from the folder
                self._extend_training(**values)
            else:
                self._send_or_queue_message(kind, **values)

    def _on_message(self, message: Message) -> None:
        if self.sender() is not self.training:
            return  # the message is from a run that was closed
        handlers = {
            "opened": self._on_opened,
            "progress": self._on_progress,
            "not_ended": self._on_not_ended,
            "refused": self._on_refused,
            "failed": self._on_failed,
        }
        handlers.get(message.kind, self._on_answer)(message)

    def _on_opened(self, message: Message) -> None:
        if self.run:
            self.run = run = run_state.apply_opened_run(self.run, message)
            if not self.view.probe:
                self.suggested_probe = self._choose_probe(run)
                self.view = replace(self.view, probe=self.suggested_probe)
        self._send_pending_messages()
        self.opened.emit()
        self.changed.emit()

    def _choose_probe(self, run: RunState) -> str:
        if typed := self.typed_probes.get(run.folder):
            return typed
        if run.recording:
            return run.recording.texts[0].text
        return choose_initial_probe(run.folder, run.sample, run.settings)

    def _on_progress(self, message: Message) -> None:
        if self.run:
            self.run = run_state.apply_progress(self.run, message)
            # A progress message of a paused run may only be the response to an extension.
            self._is_starting &= self.run.phase is RunPhase.PAUSED
        self.changed.emit()

    def _on_not_ended(self, message: Message) -> None:
        # The next progress message contains the reason.
        self._change_run(phase=RunPhase.PAUSED)
        for kind, values in self._take_pending_messages():
            self._send_or_queue_message(kind, **values)

    def _on_refused(self, message: Message) -> None:
        if message.values.get("id") is not None:
            self._on_answer(message)
            return
        self._is_starting = False
        if self.training and not self.training.has_opened:  # the run was never opened
            self.close_run()
        fields = message.values
        remedy = tuple(fields["remedy"]) if fields.get("remedy") else None
        self.show_error(InputError(fields["field"], fields["sentence"], remedy))

    def _on_failed(self, message: Message) -> None:
        fields = message.values
        self._change_run(failure=RunFailure(fields["sentence"], fields.get("details", "")))

    def _on_ended(self, ended: ProcessEnd) -> None:
        if self.training is None or self.sender() is not self.training:
            return
        if ended.failure:  # without a failure, the process deletes itself
            self.training.deleteLater()
        self.training, self._is_starting = None, False
        pending = self._take_pending_messages()
        failure = (self.run and self.run.failure) or ended.failure
        if self.run and not self.run.is_known and ended.failure:
            self.close_run()
            self.opening_failure = failure
            self.changed.emit()
        elif self.run:
            if failure and not self.run.recording:
                step = RunFolder(self.run.folder).checkpoint_step()
                failure = with_resume_step(failure, step)
            phase = RunPhase.FAILED if failure else RunPhase.STOPPED
            self._change_run(phase=phase, failure=failure)
            for kind, values in pending:  # requested while the process was ending
                if failure and "id" in values:
                    self._on_answer(create_refusal_message(failure, values))
                elif not failure:
                    self._send_or_queue_message(kind, **values)

    def _change_run(self, **values: Any) -> None:
        if self.run:
            self.run = replace(self.run, **values)
        self.changed.emit()
