"""Requests for a run are not executed for the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from PySide6.QtCore import QObject

from tests.support.lab_input import FAKE
from visualizer.lab.controller import LabStateController
from visualizer.lab.training.process_controller import TrainingProcess, wait_for_processes
from visualizer.lab.training.run_state import RunPhase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from visualizer.language.wire_format import Message


@pytest.fixture
def lab(qtbot: QtBot, tmp_path: Path) -> Iterator[LabStateController]:
    parent = QObject()
    lab = LabStateController(FAKE, parent)
    lab.runs_folder = tmp_path
    yield lab
    lab.close_run()
    wait_for_processes()


def test_pending_messages_are_dropped_when_the_run_is_closed(
    lab: LabStateController, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[TrainingProcess, str]] = []
    answers: list[Message] = []
    tell = TrainingProcess.send_message

    def note(training: TrainingProcess, says: str, **values: Any) -> None:
        told.append((training, says))
        tell(training, says, **values)

    monkeypatch.setattr(TrainingProcess, "send_message", note)
    lab.toggle_training()  # the run will be trained as soon as it is open
    lab.send_request("generate", answers.append, count=3)
    first = lab.training
    lab.close_run()
    lab.toggle_training()
    second = lab.training
    assert second is not first
    with qtbot.waitSignal(lab.opened, timeout=20_000):
        pass
    assert [says for training, says in told if training is first] == ["open", "stop"]
    assert [says for training, says in told if training is second] == ["open", "run"]


def test_a_requested_training_counts_as_training(lab: LabStateController, qtbot: QtBot) -> None:
    seen: list[tuple[RunPhase, bool]] = []

    def see() -> None:
        assert lab.run
        seen.append((lab.run.phase, lab.is_training))

    lab.opened.connect(see)
    lab.toggle_training()
    see()
    with qtbot.waitSignal(lab.opened, timeout=20_000):
        pass
    assert seen == [(RunPhase.OPENING, True), (RunPhase.PAUSED, True)]
    qtbot.waitUntil(
        lambda: lab.run is not None and lab.run.phase is RunPhase.RUNNING, timeout=20_000
    )
    lab.toggle_training()
    qtbot.waitUntil(
        lambda: lab.run is not None and lab.run.phase is RunPhase.PAUSED, timeout=20_000
    )
    assert not lab.is_training
