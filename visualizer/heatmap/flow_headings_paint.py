"""Positions of the parts of the flow board's headings: states and operand names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QRectF
from PySide6.QtGui import QFont, QFontMetricsF

from visualizer.heatmap.flow_placement import (
    DOT_PITCH_PX,
    DOTS_GAP_PX,
    SMALL_LABEL_PX,
    TITLE_PX,
    dots_width,
    title_width,
)
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from PySide6.QtCore import QPointF

    from visualizer.heatmap.board_layout import FlowPlacement

STATE_SEPARATOR = "  ›  "
TITLE_GAP_PX = 8


class StateLabelPosition(Struct, frozen=True):
    """The place of a state in the heading of its matrix.

    Parameters
    ----------
    title : str
        Name of the state.
    area : QRectF
        Area of the name or the dot.
    pixels : int
        Font size of the name; 0 if a dot represents the state.
    """

    stage: str
    title: str
    area: QRectF
    is_shown: bool
    pixels: int = TITLE_PX

    @property
    def font(self) -> QFont:
        """Font of the name."""
        weight = QFont.Weight.DemiBold if self.is_shown else QFont.Weight.Normal
        return scaled_font(self.pixels, weight)


def state_label_positions(placement: FlowPlacement, at: int) -> tuple[StateLabelPosition, ...]:
    """Return the places of a column's states in its heading.

    All names are shown if they fit, if necessary in a smaller font except for the visible state.
    Otherwise, the heading shows the name of the visible state and a dot for each state.
    """
    column = placement.layout.columns[at]
    if column.is_hidden or column.is_spine:
        return ()
    room = available_heading_width(placement, at)
    for pixels in (TITLE_PX, SMALL_LABEL_PX):
        named = _positions_of_names(placement, at, pixels)
        if named[-1].area.right() <= column.heading.left + room:
            return named
    return _positions_of_dots(placement, at, room)


def _positions_of_names(
    placement: FlowPlacement, at: int, pixels: int
) -> tuple[StateLabelPosition, ...]:
    """Return all names, with a font size for the names of the states that are not visible."""
    states, shown = placement.panels.columns[at].states, _shown_state_index(placement, at)
    scale, left = text_scale(), placement.layout.columns[at].heading.left
    gap, found = font_metrics(pixels).horizontalAdvance(STATE_SEPARATOR), []
    for number, title in enumerate(placement.panels.titles[at]):
        is_shown = number == shown
        place = StateLabelPosition(
            states[number], title, QRectF(), is_shown, TITLE_PX if is_shown else pixels
        )
        width = QFontMetricsF(place.font).horizontalAdvance(title)
        found.append(replace(place, area=QRectF(left, 4 * scale, width, 20 * scale)))
        left += width + gap
    return tuple(found)


def _positions_of_dots(
    placement: FlowPlacement, at: int, room: float
) -> tuple[StateLabelPosition, ...]:
    titles, states = placement.panels.titles[at], placement.panels.columns[at].states
    shown, scale = _shown_state_index(placement, at), text_scale()
    left, top, height = placement.layout.columns[at].heading.left, 4 * scale, 20 * scale
    width = title_width(titles[shown])
    if width > room:
        return ()  # a narrow canvas; see the layout
    found = [
        StateLabelPosition(states[shown], titles[shown], QRectF(left, top, width, height), True)
    ]
    if len(states) == 1 or width - 2 + dots_width(len(states)) > room + 1:
        return tuple(found)
    left += width - 2 + (DOTS_GAP_PX - DOT_PITCH_PX / 2) * scale
    pitch = DOT_PITCH_PX * scale
    for number, title in enumerate(titles):
        area = QRectF(left + number * pitch, top, pitch, height)
        found.append(StateLabelPosition(states[number], title, area, number == shown, pixels=0))
    return tuple(found)


def _shown_state_index(placement: FlowPlacement, at: int) -> int:
    """Return the index of the visible state of a column."""
    return placement.panels.columns[at].states.index(placement.panels.panels[at].stage)


def available_heading_width(placement: FlowPlacement, at: int) -> float:
    """Return the width of a heading, including the next gap at levels where headings may be cut."""
    columns = placement.layout.columns
    own = columns[at].heading
    after = next((one.heading.left for one in columns[at + 1 :] if not one.is_hidden), own.right)
    return max(own.width, after - TITLE_GAP_PX * text_scale() - own.left)


def state_label_at(placement: FlowPlacement, point: QPointF) -> StateLabelPosition | None:
    """Return the state of the name or dot under a point."""
    places = (
        place
        for at in range(len(placement.layout.columns))
        for place in state_label_positions(placement, at)
        if place.area.contains(point)
    )
    return next(places, None)


def operand_name_and_area(placement: FlowPlacement, at: int) -> tuple[str, QRectF]:
    """Return the name of the panel above a column, if there is one, and the available area."""
    slot = placement.operands[at]
    if slot is None:
        return "", QRectF()
    column, scale, heatmap = placement.panels.columns[at], text_scale(), slot.heatmap
    line, cells = 16 * scale, slot.cells
    if column.is_operand_transposed:
        place = QRectF(cells.left() - 26 * scale, cells.center().y() - line / 2, 22 * scale, line)
        return f"{heatmap.title[:1]}ᵀ", place
    layout = placement.layout
    after = (one.cells.left for one in layout.columns[at + 1 :] if not one.is_hidden)
    room = next(after, layout.size.width) - cells.left() - 2
    is_symbol = bool(column.operand) and len(heatmap.symbol) == 1
    area = QRectF(cells.left(), cells.top() - line - 1, room, line)
    return heatmap.symbol if is_symbol else heatmap.title, area


def layer_name_column_at(placement: FlowPlacement, point: QPointF) -> int | None:
    """Return the column whose layer name is at a point."""
    metrics = QFontMetricsF(scaled_font(SMALL_LABEL_PX, QFont.Weight.DemiBold))
    for at, column in enumerate(placement.panels.columns):
        name, area = operand_name_and_area(placement, at)
        area.setWidth(min(area.width(), metrics.horizontalAdvance(name)))
        if column.layer and area.contains(point):
            return at
    return None
