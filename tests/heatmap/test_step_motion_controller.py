"""In playback, the inputs of a step move to the result, which is shown only after they arrive."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

import pytest
from PySide6.QtCore import QAbstractAnimation, QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

from tests.support.image_pixels import rgb_of
from tests.support.window_input import PATIENCE_MS
from visualizer.heatmap.step_motion_paint import target_areas
from visualizer.heatmap.step_motion_paths import MOTION_MS
from visualizer.heatmap.step_motion_phases import MotionKind, unpaused_motion_ms
from visualizer.widgets.app_settings import set_motion_reduced

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from PySide6.QtCore import QRect, QRectF
    from PySide6.QtGui import QRegion
    from pytestqt.qtbot import QtBot

    from tests.support.playback_viewer import Viewer
    from visualizer.heatmap.step_motion_controller import StepMotionController

CONTROL = Qt.KeyboardModifier.ControlModifier


class MotionViewer:
    """Steps through the scores, and stops each motion at its start."""

    def __init__(self, viewer: Viewer, qtbot: QtBot) -> None:
        self.viewer, self.qtbot = viewer, qtbot
        self.board = viewer.hand.board
        self.motion: StepMotionController = self.board.motion
        self.began: list[int] = []
        viewer.choose("Steps", "By row")
        viewer.window.controllers.playback_controller.seek_stage("scores")
        viewer.hand.settle()
        viewer.picture()
        self.motion.began.connect(self._hold)

    def _hold(self) -> None:
        self.motion.animation.pause()
        self.began.append(self.viewer.shown.position)

    def step(self) -> None:
        """Step forward, and wait until cells begin to move."""
        with self.qtbot.waitSignal(self.motion.began, timeout=PATIENCE_MS):
            self.viewer.click("playback.step 1")
            self.viewer.hand.until(lambda: self.motion.is_moving)

    def advance(self, ms: int) -> None:
        self.motion.animation.setCurrentTime(ms)

    def finish(self) -> None:
        """Finish the motion."""
        with self.qtbot.waitSignal(self.motion.ended, timeout=PATIENCE_MS):
            self.advance(self.motion.animation.duration())

    def image(self) -> np.ndarray:
        return rgb_of(self.board.viewport().grab().toImage())

    def is_empty(self, area: QRectF) -> bool:
        """Return whether an area of the board only has the paper colour, except for its outline."""
        offset = self.board.scroll_offset()
        inside = area.translated(-offset).adjusted(3, 3, -3, -3).toAlignedRect()
        seen = self.image()[inside.top() : inside.bottom(), inside.left() : inside.right()]
        assert seen.size
        paper = QColor(self.viewer.window.theme.paper).rgb() & 0xFFFFFF
        return bool((seen == paper).all())

    def painted(self) -> None:
        """Wait for a frame and all events that it causes."""
        with self.qtbot.waitSignal(self.board.painted, timeout=PATIENCE_MS):
            self.board.viewport().update()
        QApplication.processEvents()


@pytest.fixture
def moves(viewer: Viewer, qtbot: QtBot) -> MotionViewer:
    return MotionViewer(viewer, qtbot)


def test_a_step_moves_its_inputs_until_they_arrive(moves: MotionViewer) -> None:
    moves.step()
    pictures = []
    for ms in (60, 210, 360, 510):
        moves.advance(ms)
        pictures.append(moves.image())
    assert all((one != other).any() for one, other in itertools.pairwise(pictures))
    moves.finish()
    assert not moves.motion.is_moving
    still = moves.image()
    assert all((still != picture).any() for picture in pictures)
    moves.viewer.click("playback.step -1")
    moves.viewer.window.controllers.playback_controller.seek(moves.viewer.shown.position + 2)
    moves.viewer.hand.settle()
    moves.viewer.window.controllers.playback_controller.seek(moves.began[0])
    moves.viewer.hand.settle()
    assert (rgb_of(moves.viewer.picture()) == still).all()
    assert moves.began == [moves.viewer.shown.position]  # a step back moved nothing


def test_a_motion_takes_a_moment() -> None:
    assert 150 <= MOTION_MS <= 250
    assert [unpaused_motion_ms(kind) for kind in MotionKind] == [600, 600, 900, 900]


def _areas_of_copies(moves: MotionViewer, stage: str) -> list[QRectF]:
    """Return the areas in which thumbnails and operands show the last computed row."""
    flow = moves.board.board_layout.flow
    assert flow
    columns = flow.panels.columns
    slots = [
        slot
        for column, slot in zip(columns, flow.operands, strict=True)
        if slot and column.operand == stage and not column.is_operand_transposed
    ]
    slots += [slot for slot in flow.thumbnails if slot.heatmap.stage == stage]
    row = moves.board.highlights.computed_extents
    last = next(one.rows for one in row if one.stage == stage) - 1
    areas = [slot.cell_area(last, 0) for slot in slots]
    return [area.adjusted(-1, -1, 1, 1) for area in areas if min(area.width(), area.height()) > 5]


@pytest.mark.parametrize(
    "stage", ["queries", "keys", "values", "scores", "weights", "context", "concat", "output"]
)
def test_no_target_is_painted_before_its_operands_have_arrived(
    moves: MotionViewer, stage: str
) -> None:
    controllers = moves.viewer.window.controllers
    controllers.view_controller.focus_stage(stage)  # its cells are large enough to look at
    controllers.playback_controller.seek_stage(stage)
    controllers.playback_controller.step_by(-1)
    moves.viewer.hand.settle()
    moves.viewer.picture()
    moves.step()
    assert moves.board.highlights.step
    targets = target_areas(moves.board.board_layout.slots, moves.board.highlights.step)
    assert targets
    assert {stage} == {one.result.stage for one in moves.board.highlights.step.computations}
    moves.advance(1)
    copies = _areas_of_copies(moves, stage)
    assert all(moves.is_empty(area) for area in [*targets, *copies])
    assert moves.began
    moves.finish()
    assert not any(moves.is_empty(area) for area in [*targets, *copies])


def test_each_frame_repaints_only_the_moving_areas(moves: MotionViewer) -> None:
    moves.step()
    areas: list[QRegion] = []
    moves.motion.repaintRequested.connect(areas.append)
    pictures = []
    for ms in (180, 360):
        moves.advance(ms)
        pictures.append(moves.image())
    changed = list(zip(*(pictures[0] != pictures[1]).nonzero(), strict=True))
    assert changed
    offset = moves.board.scroll_offset().toPoint()
    for y, x in changed:
        assert areas[-1].contains(QPoint(int(x), int(y)) + offset)
    whole = moves.board.viewport().rect()
    painted = sum(rect.width() * rect.height() for rect in cast("Iterable[QRect]", areas[-1]))
    assert painted < whole.width() * whole.height()


def test_reduced_motion_disables_the_motion(moves: MotionViewer) -> None:
    set_motion_reduced(True)
    moves.viewer.click("playback.step 1")
    moves.painted()
    assert moves.began == []
    set_motion_reduced(False)
    moves.step()


def test_a_new_step_ends_the_previous_motion(moves: MotionViewer) -> None:
    moves.step()
    ended: list[bool] = []
    moves.motion.ended.connect(lambda: ended.append(True))
    with moves.qtbot.waitSignal(moves.motion.began, timeout=PATIENCE_MS):
        moves.viewer.click("playback.step 1")
    assert ended == [True]
    assert moves.motion.is_moving
    assert moves.began == [moves.began[0], moves.began[0] + 1]


def test_a_pause_holds_a_playback_motion_until_playback_continues(moves: MotionViewer) -> None:
    moves.viewer.choose("Speed", "0.25×")
    moves.board.setFocus()
    moves.viewer.key(Qt.Key.Key_Space)
    with moves.qtbot.waitSignal(moves.motion.began, timeout=PATIENCE_MS):
        moves.viewer.key(Qt.Key.Key_Down)
    assert moves.viewer.shown.playhead.is_playing
    assert moves.motion.is_moving
    moves.board.setFocus()
    moves.viewer.key(Qt.Key.Key_Space)
    assert not moves.viewer.shown.playhead.is_playing
    assert moves.motion.is_moving
    moves.advance(100)
    assert moves.motion.animation.state() is QAbstractAnimation.State.Paused
    moves.board.setFocus()
    moves.viewer.key(Qt.Key.Key_Space)
    assert moves.motion.animation.state() is QAbstractAnimation.State.Running
    moves.viewer.window.controllers.playback_controller.seek(moves.began[0] - 1)
    moves.viewer.hand.settle()
    assert not moves.motion.is_moving


@pytest.mark.slow
def test_short_steps_have_no_motion(moves: MotionViewer) -> None:
    moves.viewer.choose("Steps", "By cell")
    moves.viewer.choose("Speed", "8×")
    moves.board.setFocus()
    moves.viewer.key(Qt.Key.Key_Space)
    start = moves.viewer.shown.position
    moves.viewer.hand.until(lambda: moves.viewer.shown.position > start + 3)
    moves.viewer.key(Qt.Key.Key_Space)
    assert moves.began == []


def test_resizing_the_board_ends_a_motion(moves: MotionViewer) -> None:
    moves.step()
    moves.viewer.window.resize(moves.viewer.window.width() + 80, moves.viewer.window.height())
    moves.viewer.hand.until(lambda: not moves.motion.is_moving)
    assert len(moves.began) == 1
