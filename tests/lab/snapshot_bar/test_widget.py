"""Use of the snapshot bar with the mouse and the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from visualizer.lab.snapshot_bar.presenter import present_snapshots
from visualizer.lab.snapshot_bar.widget import SnapshotBar
from visualizer.lab.training.loss_history import MeasuredLoss
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.conftest import Show

LEFT = Qt.MouseButton.LeftButton
SNAPSHOTS = (0, 10, 100)


class BarWithOwner:
    """A bar, with an owner that stores the selected step."""

    def __init__(self, show: Show) -> None:
        self.bar = SnapshotBar()
        self.selected: list[int | None] = []
        self.is_waiting = False
        show(self.bar, (700, 60))
        self.bar.stepSelectionChanged.connect(self.select)
        self.show_at(None)

    def select(self, step: int | None) -> None:
        self.selected.append(step)
        self.show_at(step)

    def show_at(self, step: int | None) -> None:
        self.step = step
        loss = MeasuredLoss(2.0, 1000 if step is None else step)
        self.bar.show_timeline(
            present_snapshots(SNAPSHOTS, 1000, step, loss, None, self.is_waiting), LIGHT
        )

    def drag(self, *stops: int) -> None:
        track = self.bar.track
        places = [QPoint(round(track.axis.x_of_stop(stop)), 8) for stop in stops]
        QTest.mousePress(track, LEFT, pos=places[0])
        for place in places[1:]:
            QTest.mouseMove(track, place)
        QTest.mouseRelease(track, LEFT, pos=places[-1])


@pytest.fixture
def owner(show: Show) -> BarWithOwner:
    return BarWithOwner(show)


def test_dragging_selects_saved_steps(owner: BarWithOwner) -> None:
    owner.drag(0, 1, 2, 3)
    assert owner.selected == [0, 10, 100, None]


def test_keys_and_buttons_move_step_by_step(owner: BarWithOwner) -> None:
    QTest.keyClick(owner.bar.track, Qt.Key.Key_Left)
    QTest.mouseClick(owner.bar.previous_button, LEFT)
    QTest.keyClick(owner.bar.track, Qt.Key.Key_Home)
    assert not owner.bar.previous_button.isEnabled()
    QTest.mouseClick(owner.bar.next_button, LEFT)
    QTest.mouseClick(owner.bar.now_button, LEFT)
    assert owner.selected == [100, 10, 0, 10, None]
    assert not owner.bar.next_button.isEnabled()


def test_the_step_and_its_loss_are_shown(owner: BarWithOwner) -> None:
    owner.drag(2)
    shown = owner.bar.description_label.text().replace("\n", " ")
    assert shown == "Step 100 of 1,000: training loss 2.000"


def test_playback_runs_from_the_beginning_to_the_current_step(
    owner: BarWithOwner, qtbot: QtBot
) -> None:
    owner.bar.timer.setInterval(1)
    QTest.mouseClick(owner.bar.play_button, LEFT)
    assert owner.bar.play_button.accessibleName() == "Pause"
    qtbot.waitUntil(lambda: not owner.bar.is_playing)
    assert owner.selected == [0, 10, 100, None]
    assert owner.bar.play_button.accessibleName() == "Play training"


def test_playback_uses_the_chosen_speed(owner: BarWithOwner) -> None:
    speed, usual = owner.bar.speed, owner.bar.timer.interval()
    assert speed.currentText() == "1×"
    speed.setFocus()
    for _ in range(9):
        QTest.keyClick(speed, Qt.Key.Key_Down)
    assert speed.currentText() == "8×"
    assert owner.bar.timer.interval() == round(usual / 8)
    owner.bar.change_speed(-1)
    assert speed.currentText() == "4×"
    for _ in range(9):
        owner.bar.change_speed(-1)
    assert owner.bar.timer.interval() == usual * 2


def test_playback_waits_for_pending_results(owner: BarWithOwner) -> None:
    owner.is_waiting = True
    QTest.mouseClick(owner.bar.play_button, LEFT)
    owner.bar.timer.timeout.emit()
    assert owner.selected == [0]
    owner.is_waiting = False
    owner.show_at(0)
    owner.bar.timer.timeout.emit()
    assert owner.selected == [0, 10]
    owner.drag(0)
    assert not owner.bar.is_playing


def test_without_snapshots_playback_is_disabled(show: Show) -> None:
    bar = SnapshotBar()
    show(bar, (600, 60))
    bar.show_timeline(present_snapshots([], 0, None), LIGHT)
    assert not any(
        one.isEnabled()
        for one in (bar.previous_button, bar.play_button, bar.next_button, bar.now_button)
    )
    bar.toggle_playback()
    assert not bar.is_playing
    assert bar.grab().width() == 600
