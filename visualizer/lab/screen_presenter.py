"""The content of the lab as a single value, which is built from the run and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.format import format_count, format_number
from visualizer.lab.settings.presenter import LabSettingsPanel, present_settings
from visualizer.lab.training.run_state import BUSY_PHASES, RunPhase, RunState
from visualizer.language.training_progress import TrainingProgress
from visualizer.language.training_settings import FINAL_EVALUATION_BATCHES, find_settings_problems

if TYPE_CHECKING:
    from visualizer.errors import InputError
    from visualizer.lab.training.run_state import RunFailure
    from visualizer.language.recording import RecordingMetadata
    from visualizer.language.training_settings import TrainingSettings

MAIN_BUTTON_TEXTS = {
    RunPhase.RUNNING: "Pause",
    RunPhase.PAUSED: "Resume",
    RunPhase.STOPPED: "Resume",
    RunPhase.FAILED: "Reopen",
}
"""Texts of the main button, keyed by phase; in all other phases, the text is `START_LABEL`."""
START_LABEL = "Start"
ALL_MAIN_BUTTON_TEXTS = (START_LABEL, *dict.fromkeys(MAIN_BUTTON_TEXTS.values()))
"""All texts of the main button."""
PHASE_MESSAGES = {
    RunPhase.WAITING: "Waiting for the background training to stop…",
    RunPhase.OPENING: "Preparing…",
    RunPhase.ENDING: "Saving the checkpoint…",
    RunPhase.PAUSED: "Paused",
    RunPhase.STOPPED: "Stopped",
    RunPhase.DONE: "Done",
    RunPhase.DIVERGED: "Diverged",
    RunPhase.RECORDING: "Being recorded",
    RunPhase.RECORDED: "Recorded",
    RunPhase.FAILED: "Failed",
}


class TrainingBarState(Struct, frozen=True):
    """The content of the training bar: the enabled actions and the progress.

    Parameters
    ----------
    button : str
        Text of the main button.
    share : float
        Fraction of the steps that are completed, from 0 to 1.
    line : str
        The step, the speed, the remaining time, the learning rate and the losses, in one line.
    has_controls : bool
        Whether the run can be trained in the lab; False for a recorded run.
    """

    button: str
    line: str
    share: float = 0.0
    is_running: bool = False
    can_toggle: bool = True
    can_step: bool = False
    can_stop: bool = False
    can_train_more: bool = False
    has_controls: bool = True


class LabScreen(Struct, frozen=True):
    """The content of the lab, except for its plot and heatmaps.

    Parameters
    ----------
    title : str
        The run's name; empty without a run.
    facts : str
        Description of the model, in one line.
    has_model : bool
        Whether the weights of the model are available; False for a recorded run.
    """

    title: str
    setup: LabSettingsPanel
    progress: TrainingBarState
    facts: str = ""
    notices: tuple[str, ...] = ()
    failure: RunFailure | None = None
    has_run: bool = False
    is_open: bool = False
    has_model: bool = False


def present_lab_screen(
    draft: TrainingSettings,
    run: RunState | None,
    refused: InputError | None,
    sample: str,
    broken: RunFailure | None = None,
) -> LabScreen:
    """Present the open run or, without one, the settings and the reason why a start has failed."""
    if run is None:
        setup = present_settings(draft, refused, sample)
        line = "Press Start to train the model."
        # The problem is repeated here, because its setting may be collapsed.
        line = next((one.problem.sentence for one in setup.settings if one.problem), line)
        # Start stays enabled after a rejection, because its cause may have disappeared.
        progress = TrainingBarState(START_LABEL, line, can_toggle=not find_settings_problems(draft))
        return LabScreen("", setup, progress, notices=setup.other_problems, failure=broken)
    if run.recording:
        setup = LabSettingsPanel(
            (), run.sample, locked_message=describe_recording(run.name, run.recording)
        )
        notices = tuple(filter(None, (run.notice, refused.sentence if refused else "")))
        return LabScreen(
            run.name, setup, _recording_bar_state(run), describe_model(run), notices, run.failure,
            has_run=True, is_open=run.is_open,
        )  # fmt: skip
    locked = f"The settings of “{run.name}” are fixed; only the number of steps can be increased."
    setup = present_settings(run.settings, refused, run.sample or sample, locked, run.notices)
    sentences = [run.notice] if run.notice else []
    if refused:  # repeated here, because the setting may be out of view
        sentences.append(refused.sentence)
    elif run.phase is RunPhase.DIVERGED:
        sentences.append(
            f"Training diverged. The model was restored to step {run.step:,}, the last good "
            f"snapshot. Start a new run with a learning rate below {run.settings.rate:g}."
        )
    notices = tuple(dict.fromkeys((*sentences, *setup.other_problems)))
    return LabScreen(
        run.name, setup, _training_bar_state(run), describe_model(run), notices, run.failure,
        has_run=True, is_open=run.is_open, has_model=True,
    )  # fmt: skip


def describe_recording(name: str, recording: RecordingMetadata) -> str:
    """Describe a recorded run, which has no settings."""
    layers = format_count(recording.layers, "layer")
    heads = format_count(recording.heads, "head")
    texts = format_count(len(recording.texts), "text")
    return (
        f"“{name}” was trained in another program, which recorded the attention of "
        f"{recording.model} ({layers} × {heads}) for {texts} every "
        f"{format_count(recording.every, 'step')}. The parameters of the model were not saved."
    )


def _recording_bar_state(run: RunState) -> TrainingBarState:
    parts = [PHASE_MESSAGES[run.phase]]
    if run.is_known:
        parts += [f"step {run.step:,}", format_count(len(run.snapshots), "snapshot")]
        parts += _describe_losses(run)
    return TrainingBarState(START_LABEL, "  ·  ".join(parts), can_toggle=False, has_controls=False)


def _training_bar_state(run: RunState) -> TrainingBarState:
    is_running, is_done = run.phase is RunPhase.RUNNING, run.step >= run.settings.steps
    is_trainable = run.phase not in BUSY_PHASES and run.phase is not RunPhase.DIVERGED
    has_started = run.step > 0 or is_running
    return TrainingBarState(
        MAIN_BUTTON_TEXTS.get(run.phase, START_LABEL) if has_started else START_LABEL,
        describe_progress(run),
        min(1.0, run.step / max(1, run.settings.steps)),
        is_running,
        can_toggle=is_trainable and (is_running or not is_done),
        can_step=run.phase in {RunPhase.PAUSED, RunPhase.STOPPED},
        can_stop=run.phase is RunPhase.OPENING
        or (run.is_open and run.phase is not RunPhase.STOPPED),
        can_train_more=is_trainable and not is_running,
    )


def describe_model(run: RunState) -> str:
    """Describe the model and its device; return an empty string until they are known."""
    if not run.is_known:
        return ""
    parts = [run.device] if run.device else []
    parts.append(format_count(run.parameters, "parameter"))
    if run.recording:
        parts.insert(0, run.recording.model)
    else:
        parts.append(f"vocabulary: {format_count(len(run.tokens), 'token')}")
    if run.seconds:
        parts.append(f"trained for {format_duration(run.seconds)}")
    return "  ·  ".join(parts)


def describe_progress(run: RunState) -> str:
    """Describe a run's progress in one line."""
    parts = [PHASE_MESSAGES[run.phase]] if run.phase in PHASE_MESSAGES else []
    if not run.tokens and parts:  # nothing else is known yet
        return parts[0]
    is_known = run.phase is RunPhase.RUNNING and run.tokens_per_second > 0
    speed = (run.tokens_per_second, run.seconds_left) if is_known else (None, None)
    facts = TrainingProgress(run.step, run.settings.steps, run.rate, *speed).status_texts
    losses = _describe_losses(run)
    # A narrow window shows only the beginning of the line, which is the result for a completed run.
    return "  ·  ".join([*parts, *losses, *facts] if run.final else [*parts, *facts, *losses])


def _describe_losses(run: RunState) -> list[str]:
    if run.final:
        training, validation = (format_number(loss, 3) for loss in run.final)
        averages = f"averages of {FINAL_EVALUATION_BATCHES} batches"
        return [f"final training loss {training}, validation loss {validation} ({averages})"]
    named = (("training", run.losses.training), ("validation", run.losses.validation))
    return [f"{name} {format_number(values[-1], 3)}" for name, values in named if len(values)]


def format_duration(seconds: float) -> str:
    """Format a duration, for example as 0:07 or 1:02:30."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class ProbeSelection(Struct, frozen=True):
    """The probe and the selected step, which determine the attention that is shown.

    Parameters
    ----------
    probe : str
        The text on which the model is run.
    step : int or None
        Step of the selected snapshot; None for the current model.
    """

    probe: str = ""
    step: int | None = None
