"""Messages to and from a training process, and its end, do not block the window."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.lab_input import FAKE, PATIENCE_MS
from visualizer.lab.training.process_controller import (
    ProcessEnd,
    TrainingProcess,
    wait_for_processes,
)
from visualizer.language.run_folder import settings_to_json
from visualizer.language.training_settings import TrainingSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from visualizer.lab.training.run_state import RunFailure
    from visualizer.language.wire_format import Message


class RecordedProcess:
    """Records the signals of a training process."""

    def __init__(self, qtbot: QtBot, training: TrainingProcess) -> None:
        self.qtbot, self.training = qtbot, training
        self.said: list[Message] = []
        self.ended: list[ProcessEnd] = []
        training.messageReceived.connect(self.said.append)
        training.ended.connect(self.ended.append)
        training.start()

    def wait_for(self, says: str) -> Message:
        self.qtbot.waitUntil(
            lambda: any(one.kind == says for one in self.said), timeout=PATIENCE_MS
        )
        return next(one for one in reversed(self.said) if one.kind == says)

    def wait_for_end(self) -> ProcessEnd:
        self.qtbot.waitUntil(lambda: bool(self.ended), timeout=PATIENCE_MS)
        (ended,) = self.ended
        return ended

    def wait_for_failure(self) -> RunFailure:
        failure = self.wait_for_end().failure
        assert failure
        self.training.deleteLater()
        return failure


@pytest.fixture
def process(qtbot: QtBot) -> RecordedProcess:
    return RecordedProcess(qtbot, TrainingProcess(FAKE))


def begin(process: RecordedProcess, folder: Path, settings: TrainingSettings | None = None) -> None:
    made = settings_to_json(settings or TrainingSettings(steps=20))
    process.training.send_message("open", folder=str(folder), settings=made)


def test_a_run_is_opened_trained_and_ended(process: RecordedProcess, tmp_path: Path) -> None:
    begin(process, tmp_path / "run")
    assert process.wait_for("opened").values["parameters"] == 1234
    process.training.send_message("run")
    process.qtbot.waitUntil(
        lambda: process.said[-1].values.get("state") == "done", timeout=PATIENCE_MS
    )
    process.training.shut_down()
    assert process.wait_for_end() == ProcessEnd(None)
    assert (tmp_path / "run" / "losses.csv").exists()


def test_a_process_stopped_by_another_window_has_not_failed(
    process: RecordedProcess, tmp_path: Path
) -> None:
    begin(process, tmp_path / "run")
    process.training.send_message("step", count=3)
    process.wait_for("progress")
    process.qtbot.waitUntil(
        lambda: process.said[-1].values.get("state") == "paused", timeout=PATIENCE_MS
    )
    (tmp_path / "run" / "stop").touch()
    assert process.wait_for_end() == ProcessEnd(None)


def test_a_killed_process_is_reported_with_its_last_output(
    process: RecordedProcess, tmp_path: Path
) -> None:
    begin(process, tmp_path / "run", TrainingSettings(seed=9))
    process.training.send_message("run")
    failure = process.wait_for_failure()
    assert "memory ran out" in failure.sentence
    assert failure.details == "Traceback: out of cheese"
    process.training.send_message("pause")  # a message to a process that has ended is ignored


def test_a_process_terminated_from_outside_is_reported(
    process: RecordedProcess, tmp_path: Path
) -> None:
    begin(process, tmp_path / "run")
    process.wait_for("opened")
    os.kill(process.training.process_id, signal.SIGSEGV)
    failure = process.wait_for_failure()
    assert "terminated by another program" in failure.sentence


def test_a_missing_program_is_reported(qtbot: QtBot) -> None:
    process = RecordedProcess(qtbot, TrainingProcess(("/nowhere/python",)))
    failure = process.wait_for_failure()
    assert failure.sentence.startswith("Cannot start training")
    assert failure.details == "/nowhere/python"


def test_a_program_that_prints_other_text_is_killed(qtbot: QtBot) -> None:
    script = "print('hell' + 'o' * 10, flush=True); import sys; sys.stdin.read()"
    noisy = (sys.executable, "-c", f"import sys; sys.stdout.write('\\0\\0\\0\\2{{]'); {script}")
    process = RecordedProcess(qtbot, TrainingProcess(noisy))
    failure = process.wait_for_failure()
    assert "Invalid message" in failure.details


def test_a_failed_process_keeps_its_output(qtbot: QtBot) -> None:
    process = RecordedProcess(
        qtbot, TrainingProcess((sys.executable, "-c", "raise SystemExit('no more disks')"))
    )
    failure = process.wait_for_failure()
    assert "stopped unexpectedly" in failure.sentence
    assert failure.details == "no more disks"


@pytest.mark.slow
def test_all_ending_processes_are_waited_for(qtbot: QtBot) -> None:
    """The second process ends and is deleted while the first one is being waited for."""
    ended: list[ProcessEnd] = []
    trainings = [TrainingProcess(_slow(order)) for order in (1, 0, 2)]
    for training in trainings:
        training.ended.connect(ended.append)
        training.start()
        training.shut_down()
    del trainings, training
    wait_for_processes()
    assert ended == [ProcessEnd(None)] * 3


def _slow(order: int) -> tuple[str, ...]:
    """Return a program that ends later if its order is higher."""
    script = f"import sys, time; sys.stdin.read(); time.sleep({order} * 0.5)"
    return (sys.executable, "-S", "-c", script)
