"""Paints the axis of training steps, in the window and in films."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from visualizer.widgets.fonts import font, metrics, text_scale

if TYPE_CHECKING:
    from visualizer.lab.snapshot_bar.presenter import SnapshotTimeline
    from visualizer.widgets.theme import Theme

KNOB = 7
BAR = 4
DOT = 2.5
APART = 12
NOW = "now"
CENTRE = Qt.AlignmentFlag.AlignCenter


def axis_height() -> float:
    """Return the height of the knob and the labels."""
    return metrics(12).height() + (2 * KNOB + 6) * text_scale()


class SnapshotAxis(Struct, frozen=True):
    """Places and paints the stops on an axis of a given width."""

    scrub: SnapshotTimeline
    width: float

    def x(self, share: float) -> float:
        knob = KNOB * text_scale()
        return knob + share * (self.width - 2 * knob)

    def x_of(self, stop: int) -> float:
        return self.x(self.scrub.shares[stop])

    def stop_at(self, x: float) -> int:
        start, end = self.x(0), self.x(1)
        return self.scrub.nearest((x - start) / max(1.0, end - start))

    def paint(self, painter: QPainter, theme: Theme) -> None:
        """Draw the axis up to the selected stop, a dot for each stop, and a knob."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        scale, scrub = text_scale(), self.scrub
        middle, bar = (KNOB + 1) * scale, BAR * scale
        here = self.x_of(scrub.at)
        ink = theme.border if scrub.is_last else theme.accent
        for end, colour in ((self.x(1), theme.hairline), (here, ink)):
            painter.setBrush(QColor(colour))
            area = QRectF(self.x(0), middle - bar / 2, end - self.x(0), bar)
            painter.drawRoundedRect(area, bar / 2, bar / 2)
        painter.setBrush(QColor(theme.quiet))
        for stop in range(len(scrub.stops)):
            painter.drawEllipse(QPointF(self.x_of(stop), middle), DOT * scale, DOT * scale)
        painter.setBrush(QColor(ink))
        knob = (KNOB - 1) * scale
        painter.drawEllipse(QPointF(here, middle), knob, knob)
        self._paint_labels(painter, middle + knob + 3 * scale, theme)

    def _paint_labels(self, painter: QPainter, top: float, theme: Theme) -> None:
        """Draw the selected step, the current one, and as many round numbers as fit."""
        looked = self.scrub.looked
        labels = [(1.0, NOW, theme.ink if looked is None else theme.quiet)]
        if looked is not None:
            labels.insert(0, (self.scrub.share(looked), f"{looked:,}", theme.ink))
        labels += [(share, f"{step:,}", theme.quiet) for step, share in self.scrub.ticks]
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
        left = min(max(self.x(share) - width / 2 - 1, 0), self.width - width - 2)
        return QRectF(left, top, width + 2, metrics(12).height())
