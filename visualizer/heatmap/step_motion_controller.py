"""Moves the cells that a playback step reads to where they are used, over the painted board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QVariantAnimation, Signal
from PySide6.QtGui import QRegion

from visualizer.heatmap.step_motion_paint import (
    eased,
    moving_cells,
    paint_moving_cells,
    painted_area,
)
from visualizer.heatmap.step_motion_paths import MOTION_MS, begins_motion, ends_motion
from visualizer.widgets.app_settings import is_reduced

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtCore import QRectF
    from PySide6.QtGui import QPainter

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.step_cell_and_prediction_highlights import Highlights, ShownStep
    from visualizer.heatmap.step_motion_paint import MovingCells
    from visualizer.widgets.theme import Theme

    BoardScene = tuple[tuple[PanelSlot, ...], QRectF, Theme]
    """The panels of a board whose cells may move, the part of it that is visible, and the theme."""

MAX_REPAINTED_AREAS = 40
"""Areas that are painted anew one by one; more are painted as one."""


class StepMotionController(QObject):
    """Begins a motion once the numbers of its step are painted; any other change ends it."""

    began = Signal()
    ended = Signal()
    needsPaint = Signal(QRegion)
    """The part of the board over which something moves, or has moved."""

    def __init__(self, scene: Callable[[], BoardScene], parent: QObject) -> None:
        super().__init__(parent)
        self._scene = scene
        self._step: ShownStep | None = None
        self._is_due = False
        self._theme: Theme | None = None
        self._cells: tuple[MovingCells, ...] = ()
        self._painted = QRegion()
        self.animation = QVariantAnimation(self)
        self.animation.setDuration(MOTION_MS)
        self.animation.setStartValue(0.0)
        self.animation.setEndValue(1.0)
        self.animation.valueChanged.connect(self._paint_soon)
        self.animation.finished.connect(self.end)

    @property
    def is_moving(self) -> bool:
        """Whether cells are on their way."""
        return bool(self._cells)

    def show_highlights(self, highlights: Highlights) -> None:
        """End the motion of another step; the one of this step begins when it is painted."""
        before, self._step = self._step, highlights.step
        if ends_motion(before, self._step):
            self.leave_out()
        if begins_motion(before, self._step) and not is_reduced():
            self._is_due = True

    def begin(self) -> None:
        """Begin the motion of a step that is painted now."""
        if not self._is_due or self._step is None:
            return
        self._is_due = False
        slots, seen, self._theme = self._scene()
        self._cells = moving_cells(slots, self._step, self._theme, seen)
        if self._cells:
            self.animation.start()
            self.began.emit()

    def leave_out(self) -> None:
        """End the motion, or begin none for the step that is shown."""
        self._is_due = False
        self.end()

    def end(self) -> None:
        """Remove what moves; a motion that is still to begin does so."""
        if self._cells:
            self._cells = ()
            self.animation.stop()
            self._paint_soon()
            self.ended.emit()

    def paint(self, painter: QPainter) -> None:
        """Paint what moves on the board."""
        if self._cells and self._theme:
            paint_moving_cells(painter, self._cells, self._progress, self._theme)

    @property
    def _progress(self) -> float:
        return eased(self.animation.currentTime() / MOTION_MS)

    def _paint_soon(self) -> None:
        """Have painted what was covered before, and what is covered now."""
        before, self._painted = self._painted, QRegion()
        for one in self._cells:
            self._painted += painted_area(one.at(self._progress))
        area = before + self._painted
        is_scattered = area.rectCount() > MAX_REPAINTED_AREAS
        self.needsPaint.emit(QRegion(area.boundingRect()) if is_scattered else area)
