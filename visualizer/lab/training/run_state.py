"""The state of the open run, which is updated by the messages of the training process."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.lab.training.loss_history import LossHistory, MeasuredLoss
from visualizer.language.run_folder import settings_from_json
from visualizer.language.wire_format import Message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from visualizer.language.recording import RecordingMetadata
    from visualizer.language.training_settings import ModelKind, TrainingSettings


class RunPhase(StrEnum):
    """The phases of a run; the training process sends those from `RUNNING` to `RECORDED`."""

    WAITING = "waiting"
    """Another process is training the run and has been asked to stop."""
    OPENING = "opening"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    RECORDING = "recording"
    """Another program trains the model and records its attention."""
    RECORDED = "recorded"
    ENDING = "ending"
    """The checkpoint of the run is being written."""
    FAILED = "failed"


BUSY_PHASES = frozenset({RunPhase.WAITING, RunPhase.OPENING, RunPhase.ENDING})
"""Phases in which the user has to wait."""
OPEN_PHASES = frozenset(
    {
        RunPhase.RUNNING,
        RunPhase.PAUSED,
        RunPhase.DONE,
        RunPhase.STOPPED,
        RunPhase.DIVERGED,
        RunPhase.RECORDING,
        RunPhase.RECORDED,
    }
)
"""Phases in which the model of the run can be queried."""


class RunFailure(Struct, frozen=True):
    """The reason why a run ended unexpectedly.

    Parameters
    ----------
    details : str
        Technical details, which may be empty.
    """

    sentence: str
    details: str = ""


class RunState(Struct, frozen=True, eq=False):
    """The state of an open run.

    Parameters
    ----------
    step : int
        Number of completed steps.
    seconds, seconds_left : float
        Training time so far, and an estimate of the remaining time, in seconds.
    rate : float
        The learning rate of the current step.
    snapshots : tuple of int
        Steps with saved weights.
    tokens : tuple of str
        The vocabulary.
    frequency, bigram : float
        Validation losses, in nats per token, of the unigram and bigram baselines.
    sample : str
        The beginning of the training text.
    notice : str
        A notice about the current state, for example that the run cannot be saved.
    is_saved : bool
        Whether the last checkpoint could be written.
    final : tuple of (float, float) or None
        Final training and validation losses, averaged over many batches.
    recording : RecordingMetadata or None
        The metadata of a run that was recorded in another program; None for a run of the lab. The
        settings of a recorded run are those for the next new run.
    """

    folder: Path
    settings: TrainingSettings
    phase: RunPhase = RunPhase.OPENING
    step: int = 0
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    seconds_left: float = 0.0
    rate: float = 0.0
    snapshots: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()
    parameters: int = 0
    device: str = ""
    frequency: float = 0.0
    bigram: float = 0.0
    notices: tuple[str, ...] = ()
    sample: str = ""
    losses: LossHistory = field(default_factory=LossHistory.of)
    failure: RunFailure | None = None
    notice: str = ""
    is_saved: bool = True
    final: tuple[float, float] | None = None
    recording: RecordingMetadata | None = None

    @property
    def is_known(self) -> bool:
        """Whether the run has been opened, so that its model or its recording is known."""
        is_recording_known = bool(self.parameters) or bool(self.snapshots)
        return bool(self.tokens) or (self.recording is not None and is_recording_known)

    @property
    def model_kind(self) -> ModelKind | None:
        """The kind of model; None for a recorded run."""
        return None if self.recording else self.settings.model

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def current_losses(self) -> tuple[MeasuredLoss | None, MeasuredLoss | None]:
        """The current losses; for a finished run, those that were measured at its end."""
        if self.final is None:
            return self.losses_at(self.step)
        training, validation = (MeasuredLoss(loss, self.step) for loss in self.final)
        return training, validation

    @property
    def is_open(self) -> bool:
        """Whether the model of the run can be queried."""
        return self.phase in OPEN_PHASES

    def losses_at(self, step: int) -> tuple[MeasuredLoss | None, MeasuredLoss | None]:
        """Return the last training loss and the last validation loss up to a step."""
        losses = self.losses
        return (
            _last_loss_up_to_step(losses.steps, losses.training, step),
            _last_loss_up_to_step(losses.validation_steps, losses.validation, step),
        )


MAX_RESERVED_STEPS = 2_000_000
"""Number of steps up to which memory for the losses is reserved in advance."""
_OPENED_FIELDS = ("step", "parameters", "device", "frequency", "bigram", "sample")
_PROGRESS_FIELDS = ("step", "seconds", "tokens_per_second", "seconds_left", "rate")


def apply_opened_run(run: RunState, message: Message) -> RunState:
    """Return the state after the message that a training process sends when it has opened a run."""
    values = message.values
    is_without_text = values["state"] == RunPhase.STOPPED  # the last notice contains the reason
    settings = run.settings if run.recording else settings_from_json(values["settings"])
    # The losses of a long run arrive in parts.
    expected = min(settings.steps, max(int(values["step"]), MAX_RESERVED_STEPS))
    return replace(
        run,
        phase=run.phase if run.phase is RunPhase.ENDING else RunPhase(values["state"]),
        notice=values["notices"][-1] if is_without_text and values["notices"] else "",
        settings=settings,
        tokens=tuple(values["tokens"]),
        snapshots=tuple(values["snapshots"]),
        notices=tuple(values["notices"]),
        losses=LossHistory.with_capacity(expected).with_appended(**message.arrays),
        rate=run.settings.learning_rate_at(int(values["step"])),
        failure=None,
        is_saved=True,
        final=tuple(values["final"]) if values.get("final") else None,
        **_known_values(_OPENED_FIELDS, values),
    )


def apply_progress(run: RunState, message: Message) -> RunState:
    """Return the state after a progress message of the training process."""
    values = message.values
    ending = run.phase is RunPhase.ENDING or values["state"] == RunPhase.STOPPED
    # The process may have done further steps before it received the request to stop.
    steps = max(run.settings.steps, int(values["step"]))
    return replace(
        run,
        phase=RunPhase.ENDING if ending else RunPhase(values["state"]),
        settings=run.settings if run.recording else replace(run.settings, steps=steps),
        snapshots=tuple(values["snapshots"]),
        losses=run.losses.with_appended(**message.arrays),
        notice=values.get("notice") or "",
        is_saved=values.get("is_saved", True),
        final=tuple(values["final"]) if values.get("final") else None,
        **_known_values(_PROGRESS_FIELDS, values),
    )


def with_resume_step(failure: RunFailure, step: int | None) -> RunFailure:
    """Add the step from which the run resumes to a failure; None stands for an unreadable step."""
    if step is None:
        then = "The checkpoint cannot be read."
    elif step:
        then = f"The checkpoint is intact: reopen the run to resume from step {step:,}."
    else:
        then = "No checkpoint had been saved yet: reopen the run to start from step 0."
    return replace(failure, sentence=f"{failure.sentence} {then}")


def create_refusal_message(failure: RunFailure, values: Mapping[str, Any]) -> Message:
    """Create the response to a request that a failed run can no longer handle."""
    fields = {"field": "folder", "sentence": failure.sentence}
    return Message("refused", {"id": values.get("id"), **fields})


def _known_values(names: tuple[str, ...], values: Any) -> dict[str, Any]:
    return {name: values[name] for name in names if values.get(name) is not None}


def _last_loss_up_to_step(steps: np.ndarray, values: np.ndarray, step: int) -> MeasuredLoss | None:
    last = int(np.searchsorted(steps, step, "right")) - 1
    return MeasuredLoss(float(values[last]), int(steps[last])) if last >= 0 else None
