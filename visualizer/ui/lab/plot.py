"""The plot of losses: it is pointed at to be read, and dragged along to go through training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QImage, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.state.lab.plot_reading import nearest, read_at
from visualizer.state.lab.plotted import LossPlot
from visualizer.state.lab.smoothing import distinct
from visualizer.ui.accessible import Politeness, announce, tell
from visualizer.ui.lab.plotframe import Frame
from visualizer.ui.lab.plotpaint import paint_plot, paint_stand
from visualizer.ui.lab.plotread import paint_reading
from visualizer.ui.manners import is_command
from visualizer.ui.pointed import BY_KEYS
from visualizer.ui.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent

USUAL, LEAST = QSize(640, 300), QSize(220, 110)
KEYS = (
    "Left and right go through training, Page Up and Page Down further, Home and End to its ends; "
    "Escape goes back to the present."
)
PARTS, FAR = 100, 10
"""Where no steps are kept, a key goes by one of so many parts of the axis; and further keys."""

WALKS = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_PageDown: -FAR,
    Qt.Key.Key_PageUp: FAR,
}


class LossPlotView(QWidget):
    """Shows a `LossPlot`; clicked and dragged it says which step is to be looked at.

    Where there are stops, it is the nearest of them.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Chart
    stepPicked = Signal(int)
    presentPicked = Signal()
    """The present is to be looked at again."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)
        self.setAccessibleName("Losses")
        self.setAccessibleDescription(KEYS)
        self._plot, self._theme = LossPlot(), LIGHT
        self._picture: QPixmap | None = None
        self._pointed: QPointF | None = None
        self._is_marked = self._is_held = self._is_walked = False
        tell(self, self._plot.told)

    def sizeHint(self) -> QSize:
        return USUAL

    def minimumSizeHint(self) -> QSize:
        return LEAST

    # ------------------------------------------------------------------ what is shown

    def show_plot(self, plot: LossPlot, theme: Theme) -> None:
        """Show losses, and the step that is looked at."""
        if plot is self._plot and theme is self._theme:
            return
        is_elsewhere = plot.stand != self._plot.stand
        self._plot, self._theme, self._picture = plot, theme, None
        tell(self, plot.told)
        if is_elsewhere and self._is_walked and self.hasFocus():
            step = plot.last if plot.stand is None else plot.stand
            announce(self, read_at(plot, step).said, Politeness.Assertive)
        self._is_walked = self._is_walked and not is_elsewhere
        self.setCursor(Qt.CursorShape.ArrowCursor if plot.message else Qt.CursorShape.CrossCursor)
        self.update()

    def picture(self, size: QSize, theme: Theme, ratio: float = 1.0) -> QImage:
        """Paint the plot in any size, without what is pointed at; `paint_plot` does on any page."""
        image = QImage(size * ratio, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(ratio)
        painter = QPainter(image)
        area = QRectF(0, 0, size.width(), size.height())
        paint_plot(painter, area, self._plot, theme)
        paint_stand(painter, Frame.of(area, self._plot), self._plot, theme)
        painter.end()
        return image

    def place_of(self, step: float) -> QPointF:
        """Give where a step is, at half the height."""
        frame = self._frame
        return QPointF(float(frame.x_of(self._plot.x, step)), frame.inner.center().y())

    @property
    def _frame(self) -> Frame:
        return Frame.of(QRectF(self.rect()), self._plot)

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._painted())
        frame = self._frame
        paint_stand(painter, frame, self._plot, self._theme)
        if self._pointed is not None and not self._plot.message:
            step = self._stop_near(frame.step_at(self._plot.x, self._pointed.x()))
            paint_reading(painter, frame, self._plot, step, self._theme)
        if self._is_marked:
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
        painter.end()

    def _painted(self) -> QPixmap:
        """Give the lines as a picture: it is painted anew for other losses, not for each hover."""
        ratio = self.devicePixelRatioF()
        size = self.size() * ratio
        if self._picture is None or self._picture.size() != size:
            self._picture = QPixmap(size)
            self._picture.setDevicePixelRatio(ratio)
            painter = QPainter(self._picture)
            paint_plot(painter, QRectF(self.rect()), self._plot, self._theme)
            painter.end()
        return self._picture

    def changeEvent(self, event: QEvent) -> None:
        self._picture = None  # the font may be another one
        super().changeEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._picture = None

    # ------------------------------------------------------------------ the hand

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and not self._plot.message:
            self._is_held = True
            self._point(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._is_held = False

    def leaveEvent(self, event: QEvent) -> None:
        self._pointed = None
        self.update()

    def _point(self, at: QPointF) -> None:
        is_near = self._frame.inner.adjusted(-8, 0, 8, 8).contains(at)
        self._pointed = at if is_near or self._is_held else None
        if self._is_held:
            self._pick(self._stop_near(self._frame.step_at(self._plot.x, at.x())))
        self.update()

    def _pick(self, step: int) -> None:
        if step != self._plot.stand:
            self.stepPicked.emit(step)

    def _stop_near(self, step: float) -> int:
        stops = self._plot.stops
        return int(stops[nearest(stops, step)]) if len(stops) else round(step)

    # ------------------------------------------------------------------ the keys

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if is_command(event) or self._plot.message:
            event.ignore()
        elif key == Qt.Key.Key_Escape and self._plot.stand is not None:
            self._is_walked = True
            self.presentPicked.emit()
        elif key in {*WALKS, Qt.Key.Key_Home, Qt.Key.Key_End}:
            self._is_walked = True
            self._pick(self._walked(key))
        else:
            event.ignore()

    def _walked(self, key: Qt.Key) -> int:
        """Give the step that a key leads to."""
        stops = self._plot.stops if len(self._plot.stops) else self._even_stops()
        if key not in WALKS:
            return int(stops[0 if key == Qt.Key.Key_Home else -1])
        stand = self._plot.last if self._plot.stand is None else self._plot.stand
        before = int(np.searchsorted(stops, stand))
        after = int(np.searchsorted(stops, stand, "right"))
        at = after - 1 + WALKS[key] if WALKS[key] > 0 else before + WALKS[key]
        return int(stops[min(max(at, 0), len(stops) - 1)])

    def _even_stops(self) -> np.ndarray:
        axis = self._plot.x
        last = min(axis.high, self._plot.last)
        return distinct(np.linspace(axis.low, last, PARTS + 1).round().astype(np.int64))

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._is_marked = event.reason() in BY_KEYS
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._is_marked = False
        self.update()
