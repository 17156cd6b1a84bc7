"""The axis of training time: its kept moments as dots, a knob where one looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter
from PySide6.QtWidgets import QSizePolicy, QSlider, QWidget

from visualizer.state.lab.scrub import Scrub
from visualizer.ui.accessible import tell
from visualizer.ui.manners import is_command
from visualizer.ui.theme import LIGHT, Theme, font, metrics, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QWheelEvent

KNOB = 7
BAR = 4
DOT = 2.5
APART = 12
NOW = "now"
STEPS = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Down: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Up: 1,
    Qt.Key.Key_PageDown: -5,
    Qt.Key.Key_PageUp: 5,
}
CENTRE = Qt.AlignmentFlag.AlignCenter


class TimeTrack(QSlider):
    """Click or drag to look at another moment; `sought` carries the number of a stop."""

    sought = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(160)
        self.setAccessibleName("Training time")
        self.setAccessibleDescription("Left and right go by a kept moment; End goes to now.")
        self._scrub, self._theme = Scrub(), LIGHT

    def sizeHint(self) -> QSize:
        return QSize(400, round(metrics(12).height() + (2 * KNOB + 6) * text_scale()))

    minimumSizeHint = sizeHint

    def show_scrub(self, scrub: Scrub, theme: Theme) -> None:
        """Show where one looks."""
        self._scrub, self._theme = scrub, theme
        self.setRange(0, max(1, len(scrub.stops) - 1))
        self.setValue(scrub.at)
        tell(self, scrub.said)
        self.update()

    def x_of(self, stop: int) -> float:
        """Give where a stop is on the track."""
        return self._x(self._scrub.shares[stop])

    def _x(self, share: float) -> float:
        knob = KNOB * text_scale()
        return knob + share * (self.width() - 2 * knob)

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        scale, theme, scrub = text_scale(), self._theme, self._scrub
        middle, bar = (KNOB + 1) * scale, BAR * scale
        left, right, here = self._x(0), self._x(1), self.x_of(scrub.at)
        ink = theme.border if scrub.is_last else theme.accent
        for end, colour in ((right, theme.hairline), (here, ink)):
            painter.setBrush(QColor(colour))
            area = QRectF(left, middle - bar / 2, end - left, bar)
            painter.drawRoundedRect(area, bar / 2, bar / 2)
        painter.setBrush(QColor(theme.quiet))
        for stop in range(len(scrub.stops)):
            painter.drawEllipse(QPointF(self.x_of(stop), middle), DOT * scale, DOT * scale)
        painter.setBrush(QColor(ink))
        knob = (KNOB - 1) * scale
        painter.drawEllipse(QPointF(here, middle), knob, knob)
        self._paint_labels(painter, middle + knob + 3 * scale)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(theme.accent))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.end()

    def _paint_labels(self, painter: QPainter, top: float) -> None:
        """Write the step that is looked at, now, and as many round numbers as have room."""
        scrub, theme = self._scrub, self._theme
        looked = scrub.looked
        labels = [(1.0, NOW, theme.ink if looked is None else theme.quiet)]
        if looked is not None:
            labels.insert(0, (scrub.share(looked), f"{looked:,}", theme.ink))
        labels += [(share, f"{step:,}", theme.quiet) for step, share in scrub.ticks]
        taken: list[QRectF] = []
        for share, text, ink in labels:
            weight = QFont.Weight.DemiBold if ink == theme.ink else QFont.Weight.Normal
            painter.setFont(font(12, weight))
            painter.setPen(QColor(ink))
            box = self._label_box(share, QFontMetricsF(painter.font()).horizontalAdvance(text), top)
            if not any(box.intersects(other.adjusted(-APART, 0, APART, 0)) for other in taken):
                painter.drawText(box, CENTRE, text)
                taken.append(box)

    def _label_box(self, share: float, width: float, top: float) -> QRectF:
        left = min(max(self._x(share) - width / 2 - 1, 0), self.width() - width - 2)
        return QRectF(left, top, width + 2, metrics(12).height())

    # ------------------------------------------------------------------ the hand

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(event.button() == Qt.MouseButton.LeftButton)
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            share = (event.position().x() - self._x(0)) / max(1.0, self._x(1) - self._x(0))
            self._seek(self._scrub.nearest(share))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._seek(self._scrub.beside(-1 if event.angleDelta().y() > 0 else 1))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, last = Qt.Key(event.key()), len(self._scrub.stops) - 1
        ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: last}
        if is_command(event) or not (key in STEPS or key in ends):
            event.ignore()
        else:
            self._seek(ends[key] if key in ends else self._scrub.beside(STEPS[key]))

    def _seek(self, stop: int) -> None:
        if stop != self._scrub.at:
            self.sought.emit(stop)
