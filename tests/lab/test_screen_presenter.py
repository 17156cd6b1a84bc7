"""The content of the lab is built from the messages of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.errors import InputError
from visualizer.lab.screen_presenter import format_duration, present_lab_screen
from visualizer.lab.training.run_state import (
    BUSY_PHASES,
    RunFailure,
    RunPhase,
    RunState,
    apply_opened_run,
    apply_progress,
)
from visualizer.language.run_folder import choose_probe_text, settings_to_json
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_settings import CorpusKind, CorpusSource, TrainingSettings
from visualizer.language.wire_format import Message

SETTINGS = TrainingSettings(steps=200)
RUN = RunState(Path("runs/first"), SETTINGS)


def curves(start: int, count: int) -> dict[str, np.ndarray]:
    steps = np.arange(start, start + count)
    return {
        "steps": steps,
        "training": 4.0 - steps / 100,
        "rates": np.full(count, 1e-3),
        "validation_steps": steps[:1],
        "validation": 4.5 - steps[:1] / 100,
    }


def an_opening(**values: Any) -> Message:
    said = {
        "settings": settings_to_json(SETTINGS), "step": 10, "tokens": ["a", "b"],
        "parameters": 1_234, "device": "CPU", "frequency": 3.0, "bigram": 2.0,
        "snapshots": [0, 10], "notices": [], "sample": "abab", "state": "paused",
    }  # fmt: skip
    return Message("opened", said | values, curves(0, 10))


def a_progress(**values: Any) -> Message:
    said = {
        "state": "running", "step": 30, "steps": 200, "seconds": 1.5, "tokens_per_second": 51_234.5,
        "seconds_left": 7.4, "rate": 1e-3, "snapshots": [0, 10, 20], "notice": "", "final": None,
    }  # fmt: skip
    return Message("progress", said | values, curves(10, 20))


def shown(run: RunState | None, refused: InputError | None = None) -> Any:
    return present_lab_screen(SETTINGS, run, refused, "")


def test_the_losses_of_all_messages_are_one_curve() -> None:
    run = apply_progress(apply_opened_run(RUN, an_opening()), a_progress())
    np.testing.assert_array_equal(run.losses.steps, np.arange(30))
    np.testing.assert_allclose(np.array(run.losses_at(12), float), ((3.88, 12), (4.4, 10)))
    np.testing.assert_allclose(np.array(run.losses_at(9), float), ((3.91, 9), (4.5, 0)))
    assert RUN.losses_at(0) == (None, None)
    assert run.snapshots == (0, 10, 20)


def test_the_progress_is_shown_in_one_line() -> None:
    run = apply_progress(apply_opened_run(RUN, an_opening()), a_progress())
    assert shown(run).progress.line == (
        "step 30 of 200  ·  a few seconds left  ·  51,200 tokens per second  ·  "
        "learning rate 0.001  ·  training 3.710  ·  validation 4.400"
    )
    facts = "CPU  ·  1,234 parameters  ·  vocabulary: 2 tokens  ·  trained for 0:02"
    assert shown(run).facts == facts
    done = apply_progress(run, a_progress(state="done", step=200, final=[1.5, 1.75]))
    said = (
        "Done  ·  final training loss 1.500, validation loss 1.750 (averages of 200 "
        "batches)  ·  step 200 "
    )
    assert shown(done).progress.line.startswith(said)
    assert done.current_losses == ((1.5, 200), (1.75, 200))
    assert run.current_losses == run.losses_at(30)
    again = apply_opened_run(RUN, an_opening(state="done", final=[1.5, 1.75]))
    assert shown(again).progress.line.startswith("Done  ·  final training loss 1.500")


@pytest.mark.parametrize(
    ("phase", "button", "can"),
    [
        (RunPhase.RUNNING, "Pause", {"toggle", "stop"}),
        (RunPhase.PAUSED, "Resume", {"toggle", "step", "stop", "train_more"}),
        (RunPhase.STOPPED, "Resume", {"toggle", "step", "train_more"}),
        (RunPhase.FAILED, "Reopen", {"toggle", "train_more"}),
        (RunPhase.DIVERGED, "Start", {"stop"}),
        (RunPhase.OPENING, "Start", {"stop"}),
        *((phase, "Start", set()) for phase in sorted(BUSY_PHASES - {RunPhase.OPENING})),
    ],
)
def test_the_enabled_actions_depend_on_the_phase(
    phase: RunPhase, button: str, can: set[str]
) -> None:
    progress = shown(replace(RUN, phase=phase, step=10)).progress
    names = ("toggle", "step", "stop", "train_more")
    assert progress.button == button
    assert {name for name in names if getattr(progress, f"can_{name}")} == can


def test_a_completed_run_can_only_be_extended() -> None:
    progress = shown(replace(RUN, phase=RunPhase.DONE, step=200)).progress
    assert (progress.can_toggle, progress.can_train_more, progress.share) == (False, True, 1.0)


def test_settings_with_a_problem_are_not_started() -> None:
    screen = present_lab_screen(replace(SETTINGS, heads=3), None, None, "abab")
    assert not screen.progress.can_toggle
    assert screen.setup.sample == "abab"
    assert shown(None).progress.can_toggle


@pytest.mark.parametrize("field", ["folder", "held", "batch", "path"])
def test_a_rejected_start_can_be_retried(field: str) -> None:
    screen = shown(None, InputError(field, "There is no room."))
    problems = [one.problem.sentence for one in screen.setup.settings if one.problem]
    assert [*screen.notices, *problems] == ["There is no room."]
    assert screen.progress.can_toggle


def test_divergence_is_reported_once() -> None:
    run = replace(RUN, phase=RunPhase.DIVERGED, step=30)
    (notice,) = shown(run).notices
    assert "was restored to step 30" in notice
    assert "learning rate below 0.001" in notice
    said = InputError("rate", "The loss is no number at step 30.")
    assert shown(run, said).notices == (said.sentence,)
    assert any(one.problem for one in shown(run, said).setup.settings)


def test_messages_while_ending_do_not_change_the_phase() -> None:
    ending = replace(RUN, phase=RunPhase.ENDING)
    assert apply_progress(ending, a_progress()).phase is RunPhase.ENDING


def test_reopening_clears_a_failure() -> None:
    broken = replace(RUN, phase=RunPhase.FAILED, failure=RunFailure("It broke."))
    assert apply_opened_run(broken, an_opening()).failure is None
    assert shown(broken).failure == RunFailure("It broke.")


def test_notices_about_the_text_and_the_state_are_shown() -> None:
    run = apply_opened_run(RUN, an_opening(notices=["z is only in the validation text."]))
    full = apply_progress(run, a_progress(notice="The disk is full."))
    assert shown(full).notices == ("The disk is full.",)
    assert shown(full).setup.notes == ("z is only in the validation text.",)
    assert shown(apply_progress(full, a_progress())).notices == ()


def test_a_missing_text_is_reported_first() -> None:
    said = ["z is only in the validation text.", "“poem.txt” is not there any more."]
    run = apply_opened_run(RUN, an_opening(notices=said, state="stopped"))
    assert run.phase is RunPhase.STOPPED
    assert shown(run).notices == ("“poem.txt” is not there any more.",)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0:00"), (7.4, "0:07"), (61, "1:01"), (3750, "1:02:30")]
)
def test_durations_are_formatted_briefly(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


def test_the_first_probe_is_the_beginning_of_the_text() -> None:
    assert choose_probe_text("\nabcabc\nxyz", replace(SETTINGS, block=4)) == "abca"
    world = CorpusSource(CorpusKind.WORLD, tokenizer=TokenizerKind.WORDS)
    words = replace(SETTINGS, source=world, block=3)
    assert choose_probe_text("The cat sat on the mat.", words) == "The cat sat"
    assert choose_probe_text("", SETTINGS) == ""
    flags = "\U0001f1e9\U0001f1ea \U0001f1eb\U0001f1f7 \U0001f1ee\U0001f1f9"  # two characters each
    assert choose_probe_text(flags, replace(SETTINGS, block=3)) == flags[:5]
