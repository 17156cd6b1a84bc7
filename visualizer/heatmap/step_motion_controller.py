"""Animates the inputs of a playback step, which move to the cells computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QVariantAnimation, Signal
from PySide6.QtGui import QRegion

from visualizer.heatmap.step_motion_paint import (
    ease,
    moving_cells,
    paint_moving_cells,
    painted_area,
)
from visualizer.heatmap.step_motion_paths import MOTION_MS, ends_motion, starts_motion
from visualizer.widgets.app_settings import is_motion_reduced

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtCore import QRectF
    from PySide6.QtGui import QPainter

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.highlights import HighlightedStep, Highlights
    from visualizer.heatmap.step_motion_paint import MovingCells
    from visualizer.widgets.theme import Theme

    BoardScene = tuple[tuple[PanelSlot, ...], QRectF, Theme]
    """Panels with cells that may move, visible part of the board, and theme."""

MAX_REPAINTED_AREAS = 40
"""Maximum number of areas repainted separately; more are merged into one."""


class StepMotionController(QObject):
    """Starts an animation when the values of its step are painted; other changes end it."""

    began = Signal()
    ended = Signal()
    repaintRequested = Signal(QRegion)
    """Emits the part of the board that the moving cells cover or have covered."""

    def __init__(self, scene: Callable[[], BoardScene], parent: QObject) -> None:
        super().__init__(parent)
        self._scene = scene
        self._step: HighlightedStep | None = None
        self._is_due = False
        self._theme: Theme | None = None
        self._cells: tuple[MovingCells, ...] = ()
        self._painted = QRegion()
        self.animation = QVariantAnimation(self)
        self.animation.setDuration(MOTION_MS)
        self.animation.setStartValue(0.0)
        self.animation.setEndValue(1.0)
        self.animation.valueChanged.connect(self._request_paint)
        self.animation.finished.connect(self.end)

    @property
    def is_moving(self) -> bool:
        """Whether an animation is running."""
        return bool(self._cells)

    def show_highlights(self, highlights: Highlights) -> None:
        """End the animation of another step; that of this step starts when it is painted."""
        before, self._step = self._step, highlights.step
        if ends_motion(before, self._step):
            self.skip_step()
        if starts_motion(before, self._step) and not is_motion_reduced():
            self._is_due = True

    def begin(self) -> None:
        """Start the animation of a step that has just been painted."""
        if not self._is_due or self._step is None:
            return
        self._is_due = False
        slots, seen, self._theme = self._scene()
        self._cells = moving_cells(slots, self._step, self._theme, seen)
        if self._cells:
            self.animation.start()
            self.began.emit()

    def skip_step(self) -> None:
        """End the animation, and start none for the current step."""
        self._is_due = False
        self.end()

    def end(self) -> None:
        """Remove the moving cells; an animation that has not started yet still starts."""
        if self._cells:
            self._cells = ()
            self.animation.stop()
            self._request_paint()
            self.ended.emit()

    def paint(self, painter: QPainter) -> None:
        """Paint the moving cells."""
        if self._cells and self._theme:
            paint_moving_cells(painter, self._cells, self._eased_progress, self._theme)

    @property
    def _eased_progress(self) -> float:
        return ease(self.animation.currentTime() / MOTION_MS)

    def _request_paint(self) -> None:
        """Request a repaint of the areas covered before and now."""
        before, self._painted = self._painted, QRegion()
        for one in self._cells:
            self._painted += painted_area(one.at(self._eased_progress))
        area = before + self._painted
        is_scattered = area.rectCount() > MAX_REPAINTED_AREAS
        self.repaintRequested.emit(QRegion(area.boundingRect()) if is_scattered else area)
