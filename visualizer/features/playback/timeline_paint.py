"""Painting of the timeline in the playback bar and below films."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from visualizer.features.playback.presenter import PlaybackBarState, TimelineSegment
    from visualizer.widgets.theme import Theme


SEGMENT_GAP_PX = 3
BAR_HEIGHT_PX = 4
KNOB_RADIUS_PX = 6
CURRENT_STAGE_WEIGHT = QFont.Weight.DemiBold
"""Font weight of the current stage's name."""


def line_height() -> float:
    """Return the height of the bar and its knob in pixels."""
    return (2 * KNOB_RADIUS_PX + 2) * text_scale()


def track_height() -> float:
    """Return the height of the bar, the knob and the stage names in pixels."""
    return font_metrics(12).height() + (2 * KNOB_RADIUS_PX + 4) * text_scale()


class TimelineSegments(Struct, frozen=True, dict=True):
    """The positions of stages on a timeline of a given width."""

    bar: PlaybackBarState
    width: float

    @cached_property
    def all(self) -> list[tuple[TimelineSegment, int, QRectF]]:
        """Each stage with its number of steps and its rectangle."""
        stops, count = self.bar.stops, self.bar.count
        if not stops:
            return []
        scale = text_scale()
        inner = self.width - 2 * KNOB_RADIUS_PX * scale
        width = (inner - SEGMENT_GAP_PX * (len(stops) - 1)) / len(stops)
        ends = [*(stop.start for stop in stops[1:]), count]
        top = (KNOB_RADIUS_PX - BAR_HEIGHT_PX / 2 + 1) * scale
        return [
            (
                stop,
                end - stop.start,
                QRectF(
                    KNOB_RADIUS_PX * scale + at * (width + SEGMENT_GAP_PX),
                    top,
                    width,
                    BAR_HEIGHT_PX * scale,
                ),
            )
            for at, (stop, end) in enumerate(zip(stops, ends, strict=True))
        ]

    @property
    def has_room_for_names(self) -> bool:
        """Whether every name fits below its segment, even in the weight of the current stage."""
        measure = QFontMetricsF(scaled_font(12, CURRENT_STAGE_WEIGHT))
        apart = measure.horizontalAdvance(" ")
        return all(
            measure.horizontalAdvance(stop.title) + apart <= area.width() + SEGMENT_GAP_PX
            for stop, _, area in self.all
        )

    def x_of(self, position: int) -> float:
        segments = self.all
        if position >= self.bar.count:
            return segments[-1][2].right()
        number = bisect_right([stop.start for stop, _, _ in segments], position) - 1
        stop, steps, area = segments[number]
        return area.left() + (position - stop.start + 0.5) / steps * area.width()

    def position_at(self, x: float) -> int:
        """Return the step at an x coordinate; the number of steps if it is beyond the last one."""
        segments = self.all
        if not segments or x >= segments[-1][2].right():
            return self.bar.count
        for stop, steps, area in segments:
            if x < area.right() + SEGMENT_GAP_PX / 2:
                share = min(max((x - area.left()) / area.width(), 0), 0.999999999)
                return stop.start + int(share * steps)
        return self.bar.count


def paint_track(painter: QPainter, segments: TimelineSegments, theme: Theme) -> None:
    """Paint the line of the timeline with the names of the stages below.

    If not all names fit, only that of the current stage is painted: with some names missing, their
    stages would seem to be missing.
    """
    paint_line(painter, segments, theme)
    here, has_all_names = segments.bar.position, segments.has_room_for_names
    for stop, steps, area in segments.all:
        is_here = stop.start <= here < stop.start + steps
        if is_here or has_all_names:
            _paint_label(painter, stop.title, area, is_here, segments.width, theme)


def paint_line(painter: QPainter, segments: TimelineSegments, theme: Theme) -> None:
    """Paint one segment per stage, filled as far as it is computed, and the knob."""
    areas, here = segments.all, segments.bar.position
    ink = theme.border if here >= segments.bar.count else theme.accent
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    knob = segments.x_of(here)
    for _, _, area in areas:
        _paint_segment(painter, area, knob, ink, theme)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(ink))
    radius = (KNOB_RADIUS_PX - 1) * text_scale()
    painter.drawEllipse(QPointF(knob, areas[0][2].center().y()), radius, radius)


def _paint_segment(painter: QPainter, area: QRectF, knob: float, ink: str, theme: Theme) -> None:
    radius = area.height() / 2
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.hairline))
    painter.drawRoundedRect(area, radius, radius)
    if knob > area.left():
        painter.setBrush(QColor(ink))
        done = QRectF(area)
        done.setRight(min(knob, area.right()))
        painter.drawRoundedRect(done, radius, radius)


def _paint_label(
    painter: QPainter, title: str, area: QRectF, is_here: bool, width: float, theme: Theme
) -> None:
    weight = CURRENT_STAGE_WEIGHT if is_here else QFont.Weight.Normal
    painter.setFont(scaled_font(12, weight))
    painter.setPen(QColor(theme.ink if is_here else theme.quiet))
    needed = QFontMetricsF(painter.font()).horizontalAdvance(title)
    left = min(max(area.center().x() - needed / 2, 0), width - needed)
    line = QRectF(left, area.bottom() + 4 * text_scale(), needed + 1, font_metrics(12).height())
    painter.drawText(line, Qt.AlignmentFlag.AlignTop, title)
