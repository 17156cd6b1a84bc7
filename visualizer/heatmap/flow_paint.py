"""Paints the flow board around its cells: headings, labels, operands, card and tabs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen

from visualizer.attention.roles import Role
from visualizer.attention.stages import axis_noun
from visualizer.heatmap import cell_paint, colour_mapping, panel_paint
from visualizer.heatmap.flow_headings_paint import (
    STATE_SEPARATOR,
    available_heading_width,
    operand_name_and_area,
    state_label_positions,
)
from visualizer.heatmap.flow_labels_paint import board_labels, paint_token_label, row_label_slot
from visualizer.heatmap.flow_layout import (
    CARD_FOOT_PX,
    HEADING_PX,
    LEGEND_GAP_PX,
    MIN_LEGEND_PX,
    STACK_EDGE_PX,
    STACKED_LEGEND_PX,
)
from visualizer.heatmap.flow_placement import (
    DOT_RADIUS_PX,
    OPERATION_PX,
    SMALL_LABEL_PX,
    TITLE_PX,
    row_axis_name,
)
from visualizer.heatmap.flow_presenter import BIAS_TEXT, OPERATION_SIGN, SHORTER_TEXTS
from visualizer.heatmap.flow_timeline_paint import LINE_PX, heading_line
from visualizer.heatmap.highlight_paint import uncomputed_areas
from visualizer.heatmap.panel_margins import format_compact_scale, format_scale
from visualizer.heatmap.panel_margins_paint import ALIGN_CENTRE, ALIGN_LEFT, ALIGN_RIGHT
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from visualizer.heatmap.board import Heatmap
    from visualizer.heatmap.board_layout import FlowPlacement, PanelSlot
    from visualizer.heatmap.flow_layout import Box, PlacedColumn
    from visualizer.heatmap.highlights import Highlights
    from visualizer.widgets.theme import Theme

CARD_RADIUS_PX = 8
RAMP_PX = 72
HEAD_DOT_PX, DOTTED_NAME_PX, TAB_FOOT_PX = 8, 13, 8
HEAD_EDGE_PX = 3
TURNS = ("‹", "›")
SMALL_LETTER_PX = 9
SMALL_LETTERS = re.compile(r"(ᵀ|(?<=\bW)_\w+)")
"""Subscripts of the weight matrices, and the sign of a transposed matrix.

Other layers have the names from their model.
"""
ALL_HEADS = "All heads"
RESIDUAL_TEXTS = (
    "residual stream: each token carries a vector, to which each sublayer adds",
    "residual stream",
)
WEIGHTS_LEGEND = ("Weights",)
OTHERS_LEGEND = (
    "Other matrices, each with its own range", "Others, each its own range",
    "Others: own ranges", "Others: own range", "Other matrices",
)  # fmt: skip
"""Names for the colour scale of the other matrices; the first name that fits is used."""


def paint_flow_board(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint everything except the cells of the columns."""
    paint_frame(painter, placement, theme)
    paint_headings(painter, placement, range(len(placement.panels.columns)), theme)
    paint_legend(painter, placement, theme)
    for slot in (*placement.operands, *placement.thumbnails):
        if slot is not None:
            panel_paint.paint_values(painter, slot, theme)


def paint_frame(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint everything that does not depend on the numbers; see `FlowPlacement.frame_cache_key`."""
    _paint_card(painter, placement, theme)
    for at, column in enumerate(placement.layout.columns):
        if column.is_spine and not column.is_hidden:
            _paint_spine_title(painter, placement, at, theme)
        _paint_operand_name(painter, placement, at, theme)
    for label in board_labels(placement):
        paint_token_label(painter, label, theme.ink if label.is_word else theme.quiet)
    _paint_tabs(painter, placement, theme)
    _paint_axis_names(painter, placement, theme)
    _paint_concat_heads(painter, placement, theme)
    _paint_residual_line(painter, placement, theme)


def paint_headings(
    painter: QPainter, placement: FlowPlacement, columns: Iterable[int], theme: Theme
) -> None:
    """Paint the headings of the given columns over earlier headings."""
    for at in columns:
        area = _qrect_of_box(placement.layout.columns[at].heading)
        # The names of states may extend into the gap.
        area.setWidth(available_heading_width(placement, at))
        painter.fillRect(area.toAlignedRect(), QColor(theme.paper))  # including line edges
        _paint_heading(painter, placement, at, theme)


def blank_uncomputed_panels(
    painter: QPainter, placement: FlowPlacement, highlights: Highlights, theme: Theme
) -> None:
    """Blank operands and thumbnails that playback has not reached or that a prediction hides."""
    for column, slot in zip(placement.panels.columns, placement.operands, strict=True):
        if slot and column.operand:
            is_transposed = column.is_operand_transposed
            _blank_uncomputed_cells(painter, slot, column.operand, highlights, theme, is_transposed)
    for slot in placement.thumbnails:
        _blank_uncomputed_cells(painter, slot, slot.heatmap.stage, highlights, theme, False)


def _blank_uncomputed_cells(
    painter: QPainter,
    slot: PanelSlot,
    stage: str,
    highlights: Highlights,
    theme: Theme,
    is_transposed: bool,
) -> None:
    """Blank the uncomputed rows of a stage, or its uncomputed columns if it is transposed."""
    axis = slot.heatmap.columns if is_transposed else slot.heatmap.rows
    reached = (reach.rows for reach in highlights.computed_extents if reach.stage == stage)
    rows = 0 if stage in highlights.hidden_stages else next(reached, len(axis.labels))
    share = max(0, rows - axis.visible_range.start) / max(1, len(axis.visible_range))
    if share >= 1:
        return
    cells = slot.cells
    blank = cells.adjusted(0, share * cells.height(), 0, 0)
    if is_transposed:
        blank = cells.adjusted(share * cells.width(), 0, 0, 0)
    painter.fillRect(blank, QColor(theme.paper))
    cell_paint.paint_outline(painter, cells, theme.hairline)


def paint_earlier_state(
    painter: QPainter, slot: PanelSlot, highlights: Highlights, paint: Callable[[], object]
) -> Highlights:
    """Paint the earlier state of a matrix where playback has not computed the visible one.

    Parameters
    ----------
    paint : callable
        Paints the cells of the earlier state.

    Returns
    -------
    Highlights
        The highlights that remain to be painted.
    """
    stage = slot.heatmap.stage
    for reach in (one for one in highlights.computed_extents if one.stage == stage):
        for area in uncomputed_areas(slot, reach):
            painter.save()
            painter.setClipRect(area, Qt.ClipOperation.IntersectClip)
            paint()
            painter.restore()
    others = tuple(one for one in highlights.computed_extents if one.stage != stage)
    return replace(highlights, computed_extents=others)


def _qrect_of_box(box: Box) -> QRectF:
    return QRectF(box.left, box.top, box.width, box.height)


def _paint_card(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the card of the head in front, with the edges of the heads behind it."""
    card = placement.layout.card
    if card is None:
        return
    scale, area = text_scale(), _qrect_of_box(card)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(QColor(theme.hairline), 1))
    for edge in range(placement.layout.stack_edges, 0, -1):
        offset = edge * STACK_EDGE_PX * scale
        painter.setBrush(QColor(theme.raised))
        behind = area.translated(offset, 0).adjusted(offset, offset * 0.8, 0, -offset * 0.8)
        painter.drawRoundedRect(behind, CARD_RADIUS_PX * scale, CARD_RADIUS_PX * scale)
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(area, CARD_RADIUS_PX * scale, CARD_RADIUS_PX * scale)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_head_edge(painter: QPainter, outline: QPainterPath, head: int, theme: Theme) -> None:
    """Paint the left edges of the card and of its tab, if it has one, in the head's colour."""
    left = outline.boundingRect().left()
    edge = QPainterPath()
    edge.addRect(QRectF(left, outline.boundingRect().top(), LINE_PX, 1e4))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.fillPath(outline.intersected(edge), QColor(head_colour(head, theme)))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_heading(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the names of the states, the operation, and the timeline."""
    column = placement.layout.columns[at]
    if column.is_hidden:
        return
    is_focus = at == placement.panels.focus
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.ink if is_focus else theme.border))
    painter.drawRoundedRect(heading_line(placement, at), LINE_PX / 2, LINE_PX / 2)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    if column.is_spine:
        return
    _paint_states(painter, placement, at, theme)
    _paint_operation(painter, placement, at, theme)


def _paint_spine_title(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the name of a spine vertically above its cells."""
    column = placement.layout.columns[at]
    height = column.cells.top - HEADING_PX * text_scale() - 12
    font = scaled_font(OPERATION_PX, QFont.Weight.DemiBold)
    metrics = QFontMetricsF(font)
    line, titles = metrics.height(), (placement.spine_title(at), placement.panels.titles[at][-1])
    shown = next((one for one in titles if metrics.horizontalAdvance(one) <= height), "")
    if not shown:
        return
    painter.save()
    painter.setFont(font)
    painter.setPen(QColor(theme.quiet))
    painter.translate(column.cells.left + column.cells.width / 2, column.cells.top - 6)
    painter.rotate(-90)
    painter.drawText(QRectF(0, -line / 2, height, line), ALIGN_LEFT, shown)
    painter.restore()


def _paint_states(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the names or dots of the states; the visible state is emphasized."""
    radius, end = DOT_RADIUS_PX * text_scale(), None
    places = state_label_positions(placement, at)
    separator = scaled_font(min((place.pixels for place in places), default=TITLE_PX) or TITLE_PX)
    for place in places:
        if not place.pixels:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.ink if place.is_shown else theme.border))
            painter.drawEllipse(place.area.center() + QPointF(0, 1), radius, radius)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            continue
        area = place.area
        if end is not None:
            _draw_text(painter, end, area, STATE_SEPARATOR, separator, theme.quiet)
        ink = theme.ink if place.is_shown else theme.quiet
        end = _draw_text(painter, area.left(), area, place.title, place.font, ink)


def _draw_text(
    painter: QPainter, x: float, area: QRectF, text: str, font: QFont, ink: str
) -> float:
    """Draw text at a position on a line, and return the position of its end."""
    painter.setFont(font)
    painter.setPen(QColor(ink))
    width = QFontMetricsF(font).horizontalAdvance(text)
    painter.drawText(QRectF(x, area.top(), width + 2, area.height()), ALIGN_LEFT, text)
    return x + width


def _paint_operation(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the operation and the colour range, as far as they fit."""
    scale, panel = text_scale(), placement.panels.panels[at]
    operation = placement.panels.operations[at]
    box, font = placement.layout.columns[at].heading, scaled_font(OPERATION_PX)
    area = QRectF(box.left, 24 * scale, box.width, 16 * scale)
    low, high = format_compact_scale(panel)
    scale_text = f"{low} to {high}" if low else high
    metrics, right = font_metrics(OPERATION_PX), area.right()
    if at == placement.panels.focus:
        texts = (low, high) if low else format_scale(panel)
        widths = [metrics.horizontalAdvance(text) + 6 for text in texts]
        room, length = area.width() - sum(widths) - 16 * scale, metrics.horizontalAdvance(operation)
        ramps = [RAMP_PX * scale, RAMP_PX * scale / 2]
        ramp = next((one for one in ramps if length <= room - one), ramps[0])
        if _shorten_operation(operation, room - ramp, metrics):
            right -= widths[1]
            painter.setFont(font)
            painter.setPen(QColor(theme.quiet))
            painter.drawText(QRectF(right, area.top(), widths[1], area.height()),
                             ALIGN_RIGHT, texts[1])  # fmt: skip
            _paint_ramp(painter, panel, QRectF(right - ramp, area.center().y() - 4, ramp, 8), theme)
            right -= ramp + widths[0]
            painter.setPen(QColor(theme.quiet))
            painter.drawText(QRectF(right, area.top(), widths[0] - 6, area.height()),
                             ALIGN_RIGHT, texts[0])  # fmt: skip
            right -= 16 * scale
    else:
        wanted = metrics.horizontalAdvance(operation) + 16 * scale
        if wanted + metrics.horizontalAdvance(scale_text) <= area.width():
            _draw_text(painter, area.left() + wanted, area, scale_text, font, theme.quiet)
    shown = _shorten_operation(operation, right - area.left(), metrics)
    if shown:
        _draw_symbols(painter, area.left(), area, _symbol_parts(shown, OPERATION_PX), theme.quiet)


def _shorten_operation(operation: str, room: float, metrics: QFontMetricsF) -> str:
    """Return an operation, shortened by whole words if necessary.

    If a product does not fit, the matrix on the left is omitted first, and its bias last.
    """
    texts, (_, sign, layer) = [operation], operation.partition(OPERATION_SIGN)
    if sign:
        plain = f"{sign.lstrip()}{layer.removesuffix(BIAS_TEXT)}"
        texts += [f"{sign.lstrip()}{layer}", *[f"{plain} + b"] * layer.endswith(BIAS_TEXT), plain]
    else:
        texts += [*SHORTER_TEXTS.get(operation, ()), operation.partition(" where ")[0]]
    return next((text for text in texts if metrics.horizontalAdvance(text) <= room), "")


def _paint_ramp(painter: QPainter, panel: Heatmap, area: QRectF, theme: Theme) -> None:
    indices = np.arange(colour_mapping.MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None, :]
    cell_paint.paint_cells(painter, area, indices, panel.colour.map, theme)


def _paint_operand_name(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the name of the panel above a column, if there is room for it."""
    if placement.operands[at] is None:
        return
    name, area = operand_name_and_area(placement, at)
    parts = _symbol_parts(name, SMALL_LABEL_PX, QFont.Weight.DemiBold)
    width = sum(QFontMetricsF(font).horizontalAdvance(part) for part, font, _ in parts)
    if placement.panels.columns[at].is_operand_transposed:
        area.setLeft(area.right() - width)
    if width <= area.width():
        _draw_symbols(painter, area.left(), area, parts, theme.quiet)


def _symbol_parts(
    text: str, size: int, weight: QFont.Weight = QFont.Weight.Normal
) -> list[tuple[str, QFont, float]]:
    """Split text into parts with their fonts and offsets, for small letters below or above."""
    font, small = scaled_font(size, weight), scaled_font(SMALL_LETTER_PX, weight)
    parts = []
    for at, part in enumerate(SMALL_LETTERS.split(text)):
        if at % 2:
            is_raised = part == "ᵀ"  # few fonts have this letter
            letters, offset = ("T", -4.0) if is_raised else (part[1:], 3.0)
            parts.append((letters, small, offset * text_scale()))
        elif part:
            parts.append((part, font, 0.0))
    return parts


def _draw_symbols(
    painter: QPainter, x: float, area: QRectF, parts: list[tuple[str, QFont, float]], ink: str
) -> None:
    for part, font, offset in parts:
        x = _draw_text(painter, x, area.translated(0, offset), part, font, ink)


def _paint_axis_names(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the name of the rows above their labels, and the name of the keys below each matrix."""
    slot, labels, scale = row_label_slot(placement), placement.layout.row_labels, text_scale()
    metrics, font = font_metrics(OPERATION_PX), scaled_font(OPERATION_PX)
    if slot:
        name = row_axis_name(slot.heatmap.rows)
        width, line = metrics.horizontalAdvance(name), metrics.height()
        left = labels.right - 8 * scale - width
        area = QRectF(left, labels.top - line - 4 * scale, width, line)
        if left >= 0:
            _draw_text(painter, left, area, name, font, theme.quiet)
    for column, cells in zip(placement.panels.columns, placement.slots, strict=True):
        if cells and column.is_query_key:
            name = f"{axis_noun(cells.heatmap.columns.name)} →"
            place = cells.cells
            left = place.center().x() - metrics.horizontalAdvance(name) / 2
            area = QRectF(left, place.bottom() + scale, 0, (CARD_FOOT_PX - 2) * scale)
            if left >= place.left():
                _draw_text(painter, left, area, name, font, theme.quiet)


def _paint_concat_heads(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the heads' colours above their columns in Concat, and next to their rows in W_o."""
    heads, columns = placement.panels.heads, placement.panels.columns
    if heads < 2:
        return
    edge = HEAD_EDGE_PX * text_scale()
    for at, column in enumerate(columns):
        slot, operand = placement.slots[at], placement.operands[at]
        for head in range(heads):
            ink = QColor(head_colour(head, theme))
            is_wide = not placement.layout.columns[at].is_spine
            if slot and is_wide and Role.CONCAT in column.states:
                width = slot.cells.width() / heads
                left = slot.cells.left() + head * width
                painter.fillRect(QRectF(left, slot.cells.top() - edge - 2, width - 1, edge), ink)
            if operand and column.layer and Role.CONCAT in column.reads:
                height = operand.cells.height() / heads
                top = operand.cells.top() + head * height
                left = operand.cells.left() - edge - 2
                painter.fillRect(QRectF(left, top, edge, height - 1), ink)


# ------------------------------------------------------------------ below the rows


def _paint_tabs(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    scale, tabs = text_scale(), placement.layout.tabs
    names, has_dots = _tab_names(placement)
    radius, outline = CARD_RADIUS_PX * scale, QPainterPath()
    if placement.layout.card:
        outline.addRoundedRect(_qrect_of_box(placement.layout.card), radius, radius)
    for name, slot, tab in zip(names, placement.thumbnails, tabs.heads, strict=False):
        is_front = slot.heatmap.head == placement.panels.front
        area = QRectF(tab.left, tab.top, tab.width, slot.cells.bottom() - tab.top)
        if is_front:
            area.adjust(0, 0, 0, TAB_FOOT_PX * scale)
            _paint_front_tab(painter, area, theme)
            path = QPainterPath()
            path.addRoundedRect(area.adjusted(0, -2 * radius, 0, 0), radius, radius)
            outline = outline.united(path)
        left = slot.cells.left()
        if has_dots and slot.heatmap.head is not None:
            _paint_head_dot(painter, left, area.top() + 11 * scale, slot.heatmap.head, theme)
            left += DOTTED_NAME_PX * scale
        line = QRectF(left, area.top() + 2 * scale, area.width(), 18 * scale)
        weight = QFont.Weight.DemiBold if is_front else QFont.Weight.Normal
        font = scaled_font(SMALL_LABEL_PX, weight)
        _draw_text(painter, left, line, name, font, theme.ink if is_front else theme.quiet)
    if placement.panels.thumbnails and not outline.isEmpty():
        _paint_head_edge(painter, outline, placement.panels.front, theme)
    for tab, head, name in zip(tabs.turns, placement.adjacent_page_heads, TURNS, strict=False):
        area = QRectF(tab.left, tab.top, tab.width, 40 * scale)
        painter.setFont(scaled_font(TITLE_PX))
        painter.setPen(QColor(theme.hairline if head is None else theme.ink))
        painter.drawText(area, ALIGN_CENTRE, name)
    if tabs.all_heads:
        _paint_all_heads_tab(painter, _qrect_of_box(tabs.all_heads), theme)


def _tab_names(placement: FlowPlacement) -> tuple[list[str], bool]:
    """Return the longest names that fit in all tabs, and whether dots precede them."""
    metrics = QFontMetricsF(scaled_font(SMALL_LABEL_PX, QFont.Weight.DemiBold))
    panels = [slot.heatmap for slot in placement.thumbnails]
    numbers = [panel.label if panel.head is None else str(panel.head + 1) for panel in panels]
    pairs = list(zip(placement.thumbnails, placement.layout.tabs.heads, strict=False))
    rooms = [tab.right - slot.cells.left() for slot, tab in pairs]
    for names, dot in (
        ([panel.label for panel in panels], DOTTED_NAME_PX * text_scale()),
        (numbers, DOTTED_NAME_PX * text_scale()),
        (numbers, 0.0),
    ):
        widths = map(metrics.horizontalAdvance, names)
        if all(dot + width <= room for width, room in zip(widths, rooms, strict=True)):
            return names, dot > 0
    return [""] * len(panels), True


def _paint_head_dot(painter: QPainter, left: float, middle: float, head: int, theme: Theme) -> None:
    radius = HEAD_DOT_PX * text_scale() / 2
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(head_colour(head, theme)))
    painter.drawEllipse(QPointF(left + radius, middle), radius, radius)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_front_tab(painter: QPainter, area: QRectF, theme: Theme) -> None:
    """Paint the front head's tab as a part of its card."""
    radius = CARD_RADIUS_PX * text_scale()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(area.adjusted(0, -radius, 0, 0), radius, radius)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.fillRect(area.adjusted(0.5, -radius - 1, -0.5, -0.5).adjusted(0, 0, 0, -area.height()
                     + radius), QColor(theme.paper))  # fmt: skip


def _paint_all_heads_tab(painter: QPainter, area: QRectF, theme: Theme) -> None:
    """Paint nine squares above the name of the tab for all heads."""
    scale, pitch = text_scale(), 6 * text_scale()
    left = area.center().x() - 1.5 * pitch
    top = area.top() + 28 * scale
    for down in range(3):
        for across in range(3):
            place = QRectF(left + across * pitch, top + down * pitch, pitch - 1.5, pitch - 1.5)
            painter.fillRect(place, QColor(theme.quiet))
    font = scaled_font(SMALL_LABEL_PX)
    width = QFontMetricsF(font).horizontalAdvance(ALL_HEADS) + 2
    line = QRectF(area.center().x() - width / 2, top + 3 * pitch + 2, width, 18 * scale)
    _draw_text(painter, line.left(), line, ALL_HEADS, font, theme.quiet)


def paint_legend(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the colour scales of the weights and the other matrices over earlier scales.

    They are one below the other if the area is high enough, and otherwise side by side.
    """
    scale, box = text_scale(), placement.layout.legend
    painter.fillRect(_qrect_of_box(box), QColor(theme.paper))
    panels, is_stacked = placement.panels.panels, box.height >= STACKED_LEGEND_PX * scale
    weights = next((one for one in panels if not one.colour.is_signed), None)
    others = next((one for one in panels if one.colour.is_signed), None)
    font, metrics = scaled_font(OPERATION_PX), font_metrics(OPERATION_PX)
    line, left, top = metrics.height(), box.left, box.top
    for panel, names, (low, high) in (
        (weights, WEIGHTS_LEGEND, _scale_ends(weights)),
        (others, OTHERS_LEGEND, ("−", "+")),
    ):
        room = box.left + box.width - left
        name = next((one for one in names if metrics.horizontalAdvance(one) <= room), "")
        if panel is None or not name:
            continue
        length = metrics.horizontalAdvance(name)
        width = box.width if is_stacked else max(MIN_LEGEND_PX * scale, length)
        _draw_text(painter, left, QRectF(left, top, width, line), name, font, theme.quiet)
        _paint_ramp(painter, panel, QRectF(left, top + line + 2, width, 7 * scale), theme)
        foot = QRectF(left, top + line + 10 * scale, width, line)
        painter.setPen(QColor(theme.quiet))
        painter.drawText(foot, ALIGN_RIGHT, high)
        if metrics.horizontalAdvance(low + high) + 8 * scale <= width:
            painter.drawText(foot, ALIGN_LEFT, low)
        if is_stacked:
            top += 2 * line + 14 * scale
        else:
            left += width + LEGEND_GAP_PX * scale


def _scale_ends(panel: Heatmap | None) -> tuple[str, str]:
    if panel is None:
        return "", ""
    low, high = format_compact_scale(panel)
    return low or "0", high


def residual_line(placement: FlowPlacement) -> QLineF | None:
    """Return the line of the residual stream, up to the last addition to it."""
    y, panels = placement.layout.residual_line, placement.panels
    sums = [at for at, column in enumerate(panels.columns) if column.is_residual_addition]
    if y is None or not sums:
        return None
    stream = panels.columns[sums[0]].reads[0]
    starts = (at for at, column in enumerate(panels.columns) if stream in column.states)
    start = next(starts, None)
    if start is None:
        return None
    columns = placement.layout.columns
    return QLineF(_column_centre_x(columns[start]), y, _column_centre_x(columns[sums[-1]]), y)


def _paint_residual_line(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the residual stream and the additions to it below the columns."""
    line = residual_line(placement)
    if line is None:
        return
    scale, panels, columns = text_scale(), placement.panels, placement.layout.columns
    y, last, bottom = line.y1(), line.x2(), columns[0].cells.bottom
    sums = [at for at, column in enumerate(panels.columns) if column.is_residual_addition]
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.border), LINE_PX))
    painter.drawPolyline([QPointF(line.x1(), bottom + 4 * scale), line.p1(), line.p2()])
    for at in sums:
        if columns[at].is_hidden:
            continue
        added = {*panels.columns[at].reads[1:]}
        sources = (columns[other] for other, column in enumerate(panels.columns)
                   if not added.isdisjoint(column.states))  # fmt: skip
        branches = [_column_centre_x(source) for source in sources if not source.is_hidden]
        _paint_residual_addition(painter, y, bottom, _column_centre_x(columns[at]), branches, theme)
    if columns[sums[-1]].is_hidden:
        painter.setPen(QPen(QColor(theme.border), LINE_PX))
        painter.drawLine(QLineF(last, y, last, bottom + 4 * scale))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    paint_residual_name(painter, line, theme)


def paint_residual_name(painter: QPainter, line: QLineF, theme: Theme) -> None:
    """Paint the name of the residual stream over its line, if there is room."""
    metrics, scale = font_metrics(OPERATION_PX), text_scale()
    room = line.length() - 28 * scale
    text = next((one for one in RESIDUAL_TEXTS if metrics.horizontalAdvance(one) <= room), "")
    if not text:
        return
    width = metrics.horizontalAdvance(text) + 12 * scale
    place = QRectF(line.x1() + 14 * scale, line.y1() - 8 * scale, width, 16 * scale)
    painter.fillRect(place, QColor(theme.paper))
    font = scaled_font(OPERATION_PX)
    _draw_text(painter, place.left() + 6 * scale, place, text, font, theme.quiet)


def residual_branch(start: QPointF, end: QPointF) -> list[QPointF]:
    """Return the line from a column to the point of its addition to the stream."""
    scale = text_scale()
    turn = end.y() - 14 * scale
    return [
        QPointF(start.x(), start.y() + 4 * scale),
        QPointF(start.x(), turn),
        QPointF(end.x() - 10 * scale, turn),
        QPointF(end.x() - 4 * scale, end.y() - 5 * scale),
    ]


def _paint_residual_addition(
    painter: QPainter, y: float, bottom: float, middle: float, branches: list[float], theme: Theme
) -> None:
    """Paint the point where columns are added to the stream, and the lines to this point."""
    scale = text_scale()
    painter.setPen(QPen(QColor(theme.border), 1.5))
    for branch in branches:
        painter.drawPolyline(residual_branch(QPointF(branch, bottom), QPointF(middle, y)))
    painter.setPen(QPen(QColor(theme.border), LINE_PX))
    painter.drawLine(QLineF(middle, y - 7 * scale, middle, bottom + 6 * scale))
    painter.setBrush(QColor(theme.paper))
    painter.setPen(QPen(QColor(theme.border), 1.5))
    radius = 7 * scale
    painter.drawEllipse(QPointF(middle, y), radius, radius)
    painter.drawLine(QLineF(middle - radius / 2, y, middle + radius / 2, y))
    painter.drawLine(QLineF(middle, y - radius / 2, middle, y + radius / 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)


def _column_centre_x(column: PlacedColumn) -> float:
    return column.cells.left + column.cells.width / 2
