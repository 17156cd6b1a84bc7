"""The track of playback: a segment a stage, filled as far as it is computed."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter
from PySide6.QtWidgets import QSizePolicy, QSlider, QWidget

from visualizer.state.playback.transport import Stop, Transport
from visualizer.ui.accessible import tell
from visualizer.ui.manners import is_command
from visualizer.ui.theme import LIGHT, Theme, font, metrics, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QWheelEvent

LARGEST = 2**31 - 1
GAP = 3
BAR = 6
KNOB = 7

# By keys: so many steps, or so many stages.
STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
STAGES = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}


class Track(QSlider):
    """Where playback stands; click a stage or drag to go elsewhere."""

    sought = Signal(object)
    stepped = Signal(int)
    skipped = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(120)
        self.setAccessibleName("Step")
        self.setAccessibleDescription("Left and right go by a step, up and down by a stage.")
        self._transport = Transport()
        self._theme = LIGHT

    def sizeHint(self) -> QSize:
        return QSize(400, round(metrics(12).height() + (2 * KNOB + 4) * text_scale()))

    minimumSizeHint = sizeHint

    def show_transport(self, transport: Transport, theme: Theme) -> None:
        """Show where playback stands."""
        if transport is self._transport and theme is self._theme:
            return
        self._transport, self._theme = transport, theme
        largest = min(max(1, transport.count), LARGEST)
        self.setRange(0, largest)
        self.setValue(transport.position * largest // max(1, transport.count))
        tell(self, transport.where or "Everything is computed")
        self.update()

    # ------------------------------------------------------------------ geometry

    def _segments(self) -> list[tuple[Stop, int, QRectF]]:
        """Each stage with the number of its steps and its place."""
        stops, count = self._transport.stops, self._transport.count
        if not stops:
            return []
        scale = text_scale()
        inner = self.width() - 2 * KNOB * scale
        width = (inner - GAP * (len(stops) - 1)) / len(stops)
        ends = [*(stop.start for stop in stops[1:]), count]
        top = (KNOB - BAR / 2 + 1) * scale
        return [
            (
                stop,
                end - stop.start,
                QRectF(KNOB * scale + at * (width + GAP), top, width, BAR * scale),
            )
            for at, (stop, end) in enumerate(zip(stops, ends, strict=True))
        ]

    def x_of(self, position: int) -> float:
        """Give where a step is on the track."""
        segments = self._segments()
        if position >= self._transport.count:
            return segments[-1][2].right()
        number = bisect_right([stop.start for stop, _, _ in segments], position) - 1
        stop, steps, area = segments[number]
        return area.left() + (position - stop.start + 0.5) / steps * area.width()

    def _position_at(self, x: float) -> int:
        segments = self._segments()
        if not segments or x >= segments[-1][2].right():
            return self._transport.count
        for stop, steps, area in segments:
            if x < area.right() + GAP / 2:
                share = min(max((x - area.left()) / area.width(), 0), 0.999999999)
                return stop.start + int(share * steps)
        return self._transport.count

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        segments = self._segments()
        if not segments:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        knob = self.x_of(self._transport.position)
        here = self._transport.position
        for _, _, area in segments:
            self._paint_segment(painter, area, knob)
        # The present name comes last, over those that it may need the room of.
        for stop, steps, area in sorted(segments, key=lambda one: one[0].start <= here):
            self._paint_label(painter, stop, area, stop.start <= here < stop.start + steps)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._ink))
        radius = (KNOB - 1) * text_scale()
        painter.drawEllipse(QPointF(knob, segments[0][2].center().y()), radius, radius)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(self._theme.accent))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.end()

    @property
    def _ink(self) -> str:
        is_at_end = self._transport.position >= self._transport.count
        return self._theme.border if is_at_end else self._theme.accent

    def _paint_segment(self, painter: QPainter, area: QRectF, knob: float) -> None:
        radius = area.height() / 2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.hairline))
        painter.drawRoundedRect(area, radius, radius)
        if knob > area.left():
            painter.setBrush(QColor(self._ink))
            done = QRectF(area)
            done.setRight(min(knob, area.right()))
            painter.drawRoundedRect(done, radius, radius)

    def _paint_label(self, painter: QPainter, stop: Stop, area: QRectF, is_here: bool) -> None:
        weight = QFont.Weight.DemiBold if is_here else QFont.Weight.Normal
        painter.setFont(font(12, weight))
        painter.setPen(QColor(self._theme.ink if is_here else self._theme.quiet))
        needed = QFontMetricsF(painter.font()).horizontalAdvance(stop.title)
        if needed > area.width() + GAP and not is_here:
            return  # a name that is cut off says less than none: the present one has its room
        left = area.center().x() - needed / 2
        left = min(max(left, 0), self.width() - needed)
        line = QRectF(left, area.bottom() + 4 * text_scale(), needed + 1, metrics(12).height())
        painter.fillRect(line, QColor(self._theme.paper))
        painter.drawText(line, Qt.AlignmentFlag.AlignTop, stop.title)

    # ------------------------------------------------------------------ the hand

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(event.button() == Qt.MouseButton.LeftButton)
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            position = self._position_at(event.position().x())
            if position != self._transport.position:
                self.sought.emit(position)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.stepped.emit(-1 if event.angleDelta().y() > 0 else 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if is_command(event):
            event.ignore()
        elif key in STEPS:
            self.stepped.emit(STEPS[key])
        elif key in STAGES:
            self.skipped.emit(STAGES[key])
        else:
            event.ignore()
