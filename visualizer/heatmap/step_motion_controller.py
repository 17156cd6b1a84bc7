"""Animates the inputs of a playback step, which move to the cells computed from them.

The computed cells stay empty until their inputs have arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QVariantAnimation, Signal
from PySide6.QtGui import QRegion

from visualizer.heatmap.step_motion_paint import paint_empty_targets, painted_area, target_areas
from visualizer.heatmap.step_motion_paths import ends_motion, starts_motion
from visualizer.widgets.app_settings import is_motion_reduced

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtCore import QRectF
    from PySide6.QtGui import QPainter

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.flow_motion_paint import FlowMotion
    from visualizer.heatmap.highlights import HighlightedStep, Highlights
    from visualizer.widgets.theme import Theme

    BoardScene = tuple[tuple[PanelSlot, ...], QRectF, Theme]
    """Panels with cells that may move, the visible part of the board, and the theme."""


class StepMotionController(QObject):
    """Starts an animation when a frame of its step is painted; any other change ends it."""

    began = Signal()
    ended = Signal()
    resultShown = Signal()
    """Emitted when the result of a step is shown, after a motion or without one."""
    repaintRequested = Signal(QRegion)
    """Emitted with the part of the board that the moving cells cover or have covered."""

    def __init__(
        self,
        scene: Callable[[], BoardScene],
        create: Callable[[], FlowMotion | None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._scene, self._create = scene, create
        self._step: HighlightedStep | None = None
        self._is_due = False
        self._motion: FlowMotion | None = None
        self._targets: tuple[QRectF, ...] = ()
        """Areas of the cells that were painted as empty."""
        self._painted = QRegion()
        self.animation = QVariantAnimation(self)
        self.animation.setStartValue(0.0)
        self.animation.setEndValue(1.0)
        self.animation.valueChanged.connect(self._request_paint)
        self.animation.finished.connect(self.end)

    @property
    def is_moving(self) -> bool:
        """Whether an animation is running."""
        return self._motion is not None

    @property
    def is_result_hidden(self) -> bool:
        """Whether the result of the step is not shown yet."""
        return self._is_due or self.is_moving

    def show_highlights(self, highlights: Highlights) -> None:
        """End the animation of any other step; that of this step starts when it is painted.

        If playback is paused, the animation stands still, so that it can be studied.
        """
        before, self._step = self._step, highlights.step
        if self._motion and before and self._step and before.position == self._step.position:
            if (before.ms is None) != (self._step.ms is None):
                self.animation.setPaused(self._step.ms is None)
            return
        if ends_motion(before, self._step):
            self.skip_motion()
        if starts_motion(before, self._step) and not is_motion_reduced():
            self._is_due = True

    def begin(self) -> None:
        """Start the animation of a step that has just been painted."""
        if not self._is_due or self._step is None:
            return
        self._is_due = False
        self._motion = self._create()
        if self._motion:
            self.animation.setDuration(self._motion.duration_ms)
            self.animation.start()
            self.began.emit()
        else:
            self._repaint_targets()

    def skip_motion(self) -> None:
        """End the animation, and do not start one for the current step."""
        was_due, self._is_due = self._is_due, False
        if was_due:
            self._repaint_targets()
        self.end()

    def end(self) -> None:
        """Remove the moving cells; an animation that has not started yet will still start."""
        if self._motion:
            self._motion = None
            self.animation.stop()
            self._request_paint()
            self._repaint_targets()
            self.ended.emit()

    def _repaint_targets(self) -> None:
        """Request a repaint of the cells that were painted as empty."""
        area = QRegion()
        for target in self._targets:
            area += painted_area(target)
        self._targets = ()
        self.repaintRequested.emit(area)
        self.resultShown.emit()

    def paint(self, painter: QPainter) -> None:
        """Paint the cells that are not computed yet as empty, and the moving cells over them."""
        if not self._step or not (self._is_due or self._motion):
            return
        slots, seen, theme = self._scene()
        self._targets = target_areas(slots, self._step, seen)
        if self._motion:
            self._motion.paint(painter, self._elapsed_share, self._targets)
        else:
            paint_empty_targets(painter, self._targets, theme)

    @property
    def _elapsed_share(self) -> float:
        """The fraction of the motion that has passed."""
        return self.animation.currentTime() / max(1, self.animation.duration())

    def _request_paint(self) -> None:
        """Request a repaint of the areas that are or were covered."""
        before, self._painted = self._painted, QRegion()
        if self._motion:
            self._painted = self._motion.painted_region(self._elapsed_share)
        self.repaintRequested.emit(before + self._painted)
