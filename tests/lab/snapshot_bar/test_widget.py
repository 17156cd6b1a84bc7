"""Use of the snapshot bar with the mouse and the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from visualizer.lab.snapshot_bar.presenter import present_snapshots
from visualizer.lab.snapshot_bar.widget import SnapshotBar
from visualizer.lab.training.recorded_losses import MeasuredLoss
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.conftest import Show

LEFT = Qt.MouseButton.LeftButton
KEPT = (0, 10, 100)


class Scrubbed:
    """A bar, with an owner that stores the selected step."""

    def __init__(self, show: Show) -> None:
        self.bar = SnapshotBar()
        self.displayed_stage: list[int | None] = []
        self.is_waiting = False
        show(self.bar, (700, 60))
        self.bar.stepSelectionChanged.connect(self.look)
        self.show_at(None)

    def look(self, step: int | None) -> None:
        self.displayed_stage.append(step)
        self.show_at(step)

    def show_at(self, step: int | None) -> None:
        self.step = step
        loss = MeasuredLoss(2.0, 1000 if step is None else step)
        self.bar.show_timeline(
            present_snapshots(KEPT, 1000, step, loss, None, self.is_waiting), LIGHT
        )

    def drag(self, *stops: int) -> None:
        track = self.bar.track
        places = [QPoint(round(track.axis.x_of_stop(stop)), 8) for stop in stops]
        QTest.mousePress(track, LEFT, pos=places[0])
        for place in places[1:]:
            QTest.mouseMove(track, place)
        QTest.mouseRelease(track, LEFT, pos=places[-1])


@pytest.fixture
def scrubbed(show: Show) -> Scrubbed:
    return Scrubbed(show)


def test_dragging_selects_saved_steps(scrubbed: Scrubbed) -> None:
    scrubbed.drag(0, 1, 2, 3)
    assert scrubbed.displayed_stage == [0, 10, 100, None]


def test_keys_and_buttons_move_step_by_step(scrubbed: Scrubbed) -> None:
    QTest.keyClick(scrubbed.bar.track, Qt.Key.Key_Left)
    QTest.mouseClick(scrubbed.bar.previous_button, LEFT)
    QTest.keyClick(scrubbed.bar.track, Qt.Key.Key_Home)
    assert not scrubbed.bar.previous_button.isEnabled()
    QTest.mouseClick(scrubbed.bar.next_button, LEFT)
    QTest.mouseClick(scrubbed.bar.now_button, LEFT)
    assert scrubbed.displayed_stage == [100, 10, 0, 10, None]
    assert not scrubbed.bar.next_button.isEnabled()


def test_the_step_and_its_loss_are_shown(scrubbed: Scrubbed) -> None:
    scrubbed.drag(2)
    shown = scrubbed.bar.description_label.text().replace("\n", " ")
    assert shown == "Step 100 of 1,000: training loss 2.000"


def test_playback_runs_from_the_beginning_to_the_current_step(
    scrubbed: Scrubbed, qtbot: QtBot
) -> None:
    scrubbed.bar.timer.setInterval(1)
    QTest.mouseClick(scrubbed.bar.play_button, LEFT)
    assert scrubbed.bar.play_button.accessibleName() == "Pause"
    qtbot.waitUntil(lambda: not scrubbed.bar.is_playing)
    assert scrubbed.displayed_stage == [0, 10, 100, None]
    assert scrubbed.bar.play_button.accessibleName() == "Play training"


def test_playback_uses_the_chosen_speed(scrubbed: Scrubbed) -> None:
    speed, usual = scrubbed.bar.speed, scrubbed.bar.timer.interval()
    assert speed.currentText() == "1×"
    speed.setFocus()
    for _ in range(9):
        QTest.keyClick(speed, Qt.Key.Key_Down)
    assert speed.currentText() == "8×"
    assert scrubbed.bar.timer.interval() == round(usual / 8)
    scrubbed.bar.change_speed(-1)
    assert speed.currentText() == "4×"
    for _ in range(9):
        scrubbed.bar.change_speed(-1)
    assert scrubbed.bar.timer.interval() == usual * 2


def test_playback_waits_for_pending_results(scrubbed: Scrubbed) -> None:
    scrubbed.is_waiting = True
    QTest.mouseClick(scrubbed.bar.play_button, LEFT)
    scrubbed.bar.timer.timeout.emit()
    assert scrubbed.displayed_stage == [0]
    scrubbed.is_waiting = False
    scrubbed.show_at(0)
    scrubbed.bar.timer.timeout.emit()
    assert scrubbed.displayed_stage == [0, 10]
    scrubbed.drag(0)
    assert not scrubbed.bar.is_playing


def test_without_snapshots_playback_is_disabled(show: Show) -> None:
    bar = SnapshotBar()
    show(bar, (600, 60))
    bar.show_timeline(present_snapshots([], 0, None), LIGHT)
    assert not any(
        one.isEnabled()
        for one in (bar.previous_button, bar.play_button, bar.next_button, bar.now_button)
    )
    bar.toggle()
    assert not bar.is_playing
    assert bar.grab().width() == 600
