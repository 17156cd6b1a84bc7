"""Paints the axis of training steps, both in the window and in animations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from visualizer.lab.snapshot_bar.presenter import SnapshotTimeline
    from visualizer.widgets.theme import Theme

KNOB_RADIUS_PX = 7
BAR_HEIGHT_PX = 4
DOT_RADIUS_PX = 2.5
MIN_LABEL_DISTANCE_PX = 12
NOW_LABEL = "now"
ALIGN_CENTRE = Qt.AlignmentFlag.AlignCenter


def axis_height() -> float:
    """Return the height of an axis with its handle and labels, in pixels."""
    return font_metrics(12).height() + (2 * KNOB_RADIUS_PX + 6) * text_scale()


class SnapshotAxis(Struct, frozen=True):
    """An axis of the given width, which places and paints the stops."""

    timeline: SnapshotTimeline
    width: float

    def x_of_share(self, share: float) -> float:
        knob = KNOB_RADIUS_PX * text_scale()
        return knob + share * (self.width - 2 * knob)

    def x_of_stop(self, stop: int) -> float:
        return self.x_of_share(self.timeline.stop_shares[stop])

    def stop_at(self, x: float) -> int:
        start, end = self.x_of_share(0), self.x_of_share(1)
        return self.timeline.nearest_index((x - start) / max(1.0, end - start))

    def paint(self, painter: QPainter, theme: Theme) -> None:
        """Draw the axis, highlighted up to the selected stop, a dot for each stop, and a handle."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        scale, timeline = text_scale(), self.timeline
        middle, bar = (KNOB_RADIUS_PX + 1) * scale, BAR_HEIGHT_PX * scale
        here = self.x_of_stop(timeline.index)
        ink = theme.border if timeline.is_current_model else theme.accent
        for end, colour in ((self.x_of_share(1), theme.hairline), (here, ink)):
            painter.setBrush(QColor(colour))
            area = QRectF(self.x_of_share(0), middle - bar / 2, end - self.x_of_share(0), bar)
            painter.drawRoundedRect(area, bar / 2, bar / 2)
        painter.setBrush(QColor(theme.quiet))
        for stop in range(len(timeline.stops)):
            painter.drawEllipse(
                QPointF(self.x_of_stop(stop), middle), DOT_RADIUS_PX * scale, DOT_RADIUS_PX * scale
            )
        painter.setBrush(QColor(ink))
        knob = (KNOB_RADIUS_PX - 1) * scale
        painter.drawEllipse(QPointF(here, middle), knob, knob)
        self._paint_labels(painter, middle + knob + 3 * scale, theme)

    def _paint_labels(self, painter: QPainter, top: float, theme: Theme) -> None:
        """Draw the labels of the selected and current step, and as many round numbers as fit."""
        selected = self.timeline.selected_step
        labels = [(1.0, NOW_LABEL, theme.ink if selected is None else theme.quiet)]
        if selected is not None:
            labels.insert(0, (self.timeline.share_of_step(selected), f"{selected:,}", theme.ink))
        labels += [(share, f"{step:,}", theme.quiet) for step, share in self.timeline.ticks]
        taken: list[QRectF] = []
        for share, text, ink in labels:
            weight = QFont.Weight.DemiBold if ink == theme.ink else QFont.Weight.Normal
            painter.setFont(scaled_font(12, weight))
            painter.setPen(QColor(ink))
            box = self._label_box(share, QFontMetricsF(painter.font()).horizontalAdvance(text), top)
            if not any(
                box.intersects(other.adjusted(-MIN_LABEL_DISTANCE_PX, 0, MIN_LABEL_DISTANCE_PX, 0))
                for other in taken
            ):
                painter.drawText(box, ALIGN_CENTRE, text)
                taken.append(box)

    def _label_box(self, share: float, width: float, top: float) -> QRectF:
        left = min(max(self.x_of_share(share) - width / 2 - 1, 0), self.width - width - 2)
        return QRectF(left, top, width + 2, font_metrics(12).height())
