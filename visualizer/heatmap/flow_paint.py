"""Paints the flow board around its cells: headings, labels, operands, the card and the tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from visualizer.attention.flow_columns import FlowPart
from visualizer.heatmap import cell_paint, colour_mapping, panel_paint
from visualizer.heatmap.flow_labels_paint import board_labels, paint_label
from visualizer.heatmap.flow_layout import (
    HEADING_PX,
    STACK_EDGE_PX,
)
from visualizer.heatmap.flow_placement import (
    OPERATION_PX,
    SMALL_LABEL_PX,
    TITLE_PX,
)
from visualizer.heatmap.flow_presenter import OPERATION_SIGN
from visualizer.heatmap.flow_timeline_paint import LINE_PX, heading_line
from visualizer.heatmap.highlight_paint import uncomputed_areas
from visualizer.heatmap.panel_margins import format_compact_scale
from visualizer.heatmap.panel_margins_paint import ALIGN_LEFT, ALIGN_RIGHT
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.heatmap.board import Heatmap
    from visualizer.heatmap.board_layout import FlowPlacement, PanelSlot
    from visualizer.heatmap.flow_layout import Box, PlacedColumn
    from visualizer.heatmap.highlights import Highlights
    from visualizer.widgets.theme import Theme

CARD_RADIUS_PX = 8
STATE_SEPARATOR = "  ›  "
RAMP_PX = 72
POSITION_STEPS = (1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
HEAD_DOT_PX = 8
SUBSCRIPT_PX = 9
MIN_ELIDED_LETTERS = 5
"""Minimum length of an operation that is cut; less of it says nothing."""
ALL_HEADS = "All heads"
WEIGHTS_LEGEND = "Weights"
OTHERS_LEGEND = ("All others, each with its own range", "All others")
"""In a row, and stacked."""


def paint_frame(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint what does not depend on the numbers: see `FlowPlacement.frame_key`."""
    _paint_card(painter, placement, theme)
    for at in range(len(placement.panels.columns)):
        _paint_heading(painter, placement, at, theme)
        _paint_operand_name(painter, placement, at, theme)
    for label in board_labels(placement):
        paint_label(painter, label, theme.ink if label.is_word else theme.quiet)
    _paint_tabs(painter, placement, theme)
    _paint_legend(painter, placement, theme)
    _paint_residual_line(painter, placement, theme)


def paint_pictures(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the operands and the thumbnails."""
    for slot in (*placement.operands, *placement.thumbnails):
        if slot is not None:
            panel_paint.paint_values(painter, slot, theme)


def paint_uncomputed(
    painter: QPainter, placement: FlowPlacement, highlights: Highlights, theme: Theme
) -> None:
    """Blank the operands and thumbnails that playback has not reached or a prediction covers."""
    for column, slot in zip(placement.panels.columns, placement.operands, strict=True):
        if slot and column.operand:
            is_transposed = column.is_operand_transposed
            _paint_uncomputed(painter, slot, column.operand, highlights, theme, is_transposed)
    for slot in placement.thumbnails:
        _paint_uncomputed(painter, slot, slot.heatmap.stage, highlights, theme, False)


def _paint_uncomputed(
    painter: QPainter,
    slot: PanelSlot,
    stage: str,
    highlights: Highlights,
    theme: Theme,
    is_transposed: bool,
) -> None:
    """Blank the rows of a stage, or its columns if it is transposed, that are not computed."""
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


def paint_earlier(
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
        Those that remain to be painted.
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


def _rect(box: Box) -> QRectF:
    return QRectF(box.left, box.top, box.width, box.height)


def _paint_card(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the card of the head in front, with the edges of the heads behind it."""
    card = placement.layout.card
    if card is None:
        return
    scale, area = text_scale(), _rect(card)
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
    if placement.panels.thumbnails:
        hue = QColor(head_colour(placement.panels.front, theme))
        top = CARD_RADIUS_PX * scale
        painter.fillRect(
            QRectF(area.left() - 1, area.top() + top, LINE_PX, area.height() - 2 * top), hue
        )


def _paint_heading(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the names of the states, the operation, and the line of the timeline."""
    column = placement.layout.columns[at]
    if column.is_hidden:
        return
    is_focus = at == placement.panels.focus
    scale, panel = text_scale(), placement.panels.panels[at]
    box = _rect(column.heading)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.ink if is_focus else theme.border))
    painter.drawRoundedRect(heading_line(placement, at), LINE_PX / 2, LINE_PX / 2)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    if column.is_spine:
        _paint_spine_title(painter, placement, at, theme)
        return
    title = QRectF(box.left(), 4 * scale, box.width(), 20 * scale)
    _paint_states(painter, placement, at, title, theme)
    _paint_operation(painter, placement, at, panel, theme)


def _paint_spine_title(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the name of a narrow column upright, above its cells."""
    column = placement.layout.columns[at]
    title = placement.spine_title(at)
    painter.save()
    painter.setFont(scaled_font(OPERATION_PX, QFont.Weight.DemiBold))
    painter.setPen(QColor(theme.quiet))
    painter.translate(column.cells.left + column.cells.width / 2, column.cells.top - 6)
    painter.rotate(-90)
    height = column.cells.top - HEADING_PX * text_scale() - 12
    line = QFontMetricsF(painter.font()).height()
    shown = QFontMetricsF(painter.font()).elidedText(title, Qt.TextElideMode.ElideRight, height)
    painter.drawText(QRectF(0, -line / 2, height, line), ALIGN_LEFT, shown)
    painter.restore()


def _paint_states(
    painter: QPainter, placement: FlowPlacement, at: int, area: QRectF, theme: Theme
) -> None:
    """Paint the names of the states if they fit, otherwise that of the visible one with dots."""
    titles = placement.panels.titles[at]
    states = placement.panels.columns[at].states
    shown = states.index(placement.panels.panels[at].stage)
    strong = scaled_font(TITLE_PX, QFont.Weight.DemiBold)
    plain = scaled_font(TITLE_PX)
    width = sum(QFontMetricsF(strong).horizontalAdvance(title) for title in titles)
    width += (len(titles) - 1) * QFontMetricsF(plain).horizontalAdvance(STATE_SEPARATOR)
    x = area.left()
    if len(titles) == 1 and width > area.width():  # headings may be cut: see the layout
        title = QFontMetricsF(strong).elidedText(
            titles[0], Qt.TextElideMode.ElideRight, area.width()
        )
        if len(title) > 1:
            _draw_text(painter, x, area, title, strong, theme.ink)
        return
    if width <= area.width() or len(titles) == 1:
        for number, title in enumerate(titles):
            if number:
                x = _draw_text(painter, x, area, STATE_SEPARATOR, plain, theme.quiet)
            is_shown = number == shown
            font = strong if is_shown else plain
            x = _draw_text(painter, x, area, title, font, theme.ink if is_shown else theme.quiet)
        return
    title = QFontMetricsF(strong).elidedText(
        titles[shown], Qt.TextElideMode.ElideRight, area.width()
    )
    if len(title) <= 1:
        return
    x = _draw_text(painter, x, area, title, strong, theme.ink)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(Qt.PenStyle.NoPen)
    radius = 2 * text_scale()
    for number in range(len(titles)):
        centre = QPointF(x + (8 + 7 * number) * text_scale(), area.center().y() + 1)
        if centre.x() + radius <= area.right() + 8:
            painter.setBrush(QColor(theme.ink if number == shown else theme.hairline))
            painter.drawEllipse(centre, radius, radius)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _draw_text(
    painter: QPainter, x: float, area: QRectF, text: str, font: QFont, ink: str
) -> float:
    """Draw a text at a position of a line and return where it ends."""
    painter.setFont(font)
    painter.setPen(QColor(ink))
    width = QFontMetricsF(font).horizontalAdvance(text)
    painter.drawText(QRectF(x, area.top(), width + 2, area.height()), ALIGN_LEFT, text)
    return x + width


def _paint_operation(
    painter: QPainter, placement: FlowPlacement, at: int, panel: Heatmap, theme: Theme
) -> None:
    """Paint the operation and the range of the colours, as far as they fit."""
    scale = text_scale()
    operation = placement.panels.operations[at]
    box, font = placement.layout.columns[at].heading, scaled_font(OPERATION_PX)
    area = QRectF(box.left, 24 * scale, box.width, 16 * scale)
    low, high = format_compact_scale(panel)
    scale_text = f"{low} to {high}" if low else high
    metrics = QFontMetricsF(font)
    right = area.right()
    wanted = metrics.horizontalAdvance(operation) + 16 * scale
    if at == placement.panels.focus:
        ramp = RAMP_PX * scale
        texts = (low, high) if low else (f"−{high.removeprefix('±')}", high.removeprefix("±"))
        widths = [metrics.horizontalAdvance(text) + 6 for text in texts]
        if wanted + ramp + sum(widths) <= area.width():
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
    elif wanted + metrics.horizontalAdvance(scale_text) <= area.width():
        _draw_text(painter, area.left() + wanted, area, scale_text, font, theme.quiet)
    room = right - area.left()
    short = operation.partition(OPERATION_SIGN)[2]  # without the matrix on the left
    fitting = [operation, *([f"{OPERATION_SIGN.lstrip()}{short}"] if short else [])]
    whole = next((text for text in fitting if metrics.horizontalAdvance(text) <= room), "")
    shown = whole or metrics.elidedText(operation, Qt.TextElideMode.ElideRight, max(0.0, room))
    if whole or len(shown) > MIN_ELIDED_LETTERS:
        _draw_text(painter, area.left(), area, shown, font, theme.quiet)


def _paint_ramp(painter: QPainter, panel: Heatmap, area: QRectF, theme: Theme) -> None:
    indices = np.arange(colour_mapping.MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None, :]
    cell_paint.paint_cells(painter, area, indices, panel.colour.map, theme)


def _paint_operand_name(painter: QPainter, placement: FlowPlacement, at: int, theme: Theme) -> None:
    """Paint the name of the panel above a column."""
    slot = placement.operands[at]
    if slot is None:
        return
    column, scale = placement.panels.columns[at], text_scale()
    painter.setFont(scaled_font(SMALL_LABEL_PX, QFont.Weight.DemiBold))
    painter.setPen(QColor(theme.quiet))
    line = 16 * scale
    if column.is_operand_transposed:
        name = f"{slot.heatmap.title[:1]}ᵀ"
        area = QRectF(slot.cells.left() - 26 * scale, slot.cells.center().y() - line / 2,
                      22 * scale, line)  # fmt: skip
        painter.drawText(area, ALIGN_RIGHT, name)
        return
    name = (
        slot.heatmap.symbol
        if column.operand and len(slot.heatmap.symbol) == 1
        else (slot.heatmap.title)
    )
    _paint_name(painter, QRectF(slot.cells.left(), slot.cells.top() - line - 1, 0, line), name)


def _paint_name(painter: QPainter, area: QRectF, name: str) -> None:
    """Paint the name of a matrix; what follows an underscore is a subscript."""
    is_weight = name.startswith("W_")  # other layers keep the names that their model gives them
    base, _, below = name.partition("_") if is_weight else (name, "", "")
    strong, small = painter.font(), scaled_font(SUBSCRIPT_PX, QFont.Weight.DemiBold)
    width = QFontMetricsF(strong).horizontalAdvance(base)
    painter.drawText(QRectF(area.left(), area.top(), width + 2, area.height()), ALIGN_LEFT, base)
    painter.setFont(small)
    room = QFontMetricsF(small).horizontalAdvance(below) + 2
    drop = 3 * text_scale()
    painter.drawText(
        QRectF(area.left() + width, area.top() + drop, room, area.height()), ALIGN_LEFT, below
    )


# ------------------------------------------------------------------ below the rows


def _paint_tabs(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    scale, front = text_scale(), placement.panels.front
    for head, (slot, tab) in enumerate(
        zip(placement.thumbnails, placement.layout.tabs, strict=False)
    ):
        area = _rect(tab)
        if head == front:
            _paint_front_tab(painter, area, theme)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(head_colour(head, theme)))
        dot, radius = HEAD_DOT_PX * scale, HEAD_DOT_PX * scale / 2
        left = slot.cells.left()
        painter.drawEllipse(QPointF(left + radius, area.top() + 11 * scale), radius, radius)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        line = QRectF(left + dot + 5 * scale, area.top() + 2 * scale, area.width(), 18 * scale)
        weight = QFont.Weight.DemiBold if head == front else QFont.Weight.Normal
        font, room = scaled_font(SMALL_LABEL_PX, weight), area.right() - line.left()
        name = f"Head {head + 1}"
        if QFontMetricsF(font).horizontalAdvance(name) > room:
            name = str(head + 1)
        if QFontMetricsF(font).horizontalAdvance(name) <= room + 2:
            _draw_text(painter, line.left(), line, name, font,
                       theme.ink if head == front else theme.quiet)  # fmt: skip
    if len(placement.layout.tabs) > len(placement.thumbnails):
        _paint_all_heads_tab(painter, _rect(placement.layout.tabs[-1]), theme)


def _paint_front_tab(painter: QPainter, area: QRectF, theme: Theme) -> None:
    """Paint the tab of the head in front as a part of its card."""
    radius = CARD_RADIUS_PX * text_scale()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(area.adjusted(0, -radius, 0, 0), radius, radius)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.fillRect(area.adjusted(0.5, -radius - 1, -0.5, -0.5).adjusted(0, 0, 0, -area.height()
                     + radius), QColor(theme.paper))  # fmt: skip


def _paint_all_heads_tab(painter: QPainter, area: QRectF, theme: Theme) -> None:
    """Paint nine squares over the name of the view of all heads."""
    scale, pitch = text_scale(), 6 * text_scale()
    left = area.center().x() - 1.5 * pitch
    top = area.top() + 28 * scale
    for down in range(3):
        for across in range(3):
            place = QRectF(left + across * pitch, top + down * pitch, pitch - 1.5, pitch - 1.5)
            painter.fillRect(place, QColor(theme.quiet))
    font = scaled_font(SMALL_LABEL_PX)
    width = QFontMetricsF(font).horizontalAdvance(ALL_HEADS) + 2
    if width <= area.width() + 12 * scale:
        line = QRectF(area.center().x() - width / 2, top + 3 * pitch + 2, width, 18 * scale)
        _draw_text(painter, line.left(), line, ALL_HEADS, font, theme.quiet)


def _paint_legend(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the scales of the weights and of the others, stacked next to the tabs or in a row."""
    scale, box = text_scale(), placement.layout.legend
    panels, is_stacked = placement.panels.panels, bool(placement.layout.tabs)
    weights = next((one for one in panels if not one.colour.is_signed), None)
    others = next((one for one in panels if one.colour.is_signed), None)
    font, metrics = scaled_font(OPERATION_PX), font_metrics(OPERATION_PX)
    line, left, top = metrics.height(), box.left, box.top
    for panel, name, (low, high) in (
        (weights, WEIGHTS_LEGEND, _scale_ends(weights)),
        (others, OTHERS_LEGEND[is_stacked], ("−max", "max")),
    ):
        height = 2 * line + 12 * scale
        if panel is None or not box.width or (is_stacked and top + height > box.bottom):
            continue
        width = box.width if is_stacked else max(100 * scale, metrics.horizontalAdvance(name))
        _draw_text(painter, left, QRectF(left, top, width, line), name, font, theme.quiet)
        _paint_ramp(painter, panel, QRectF(left, top + line + 2, width, 7 * scale), theme)
        foot = QRectF(left, top + line + 10 * scale, width, line)
        painter.setPen(QColor(theme.quiet))
        painter.drawText(foot, ALIGN_RIGHT, high)
        if metrics.horizontalAdvance(low + high) + 8 * scale <= width:
            painter.drawText(foot, ALIGN_LEFT, low)
        if is_stacked:
            top += height + 2 * scale
        else:
            left += width + 40 * scale


def _scale_ends(panel: Heatmap | None) -> tuple[str, str]:
    if panel is None:
        return "", ""
    low, high = format_compact_scale(panel)
    return low or "0", high


def _paint_residual_line(painter: QPainter, placement: FlowPlacement, theme: Theme) -> None:
    """Paint the residual stream below the columns, and the additions to it."""
    y = placement.layout.residual_line
    if y is None:
        return
    scale, panels = text_scale(), placement.panels
    sums = [at for at, column in enumerate(panels.columns)
            if len(column.reads) == 2 and column.part is FlowPart.AFTER_HEADS]  # fmt: skip
    starts = [at for at, column in enumerate(panels.columns)
              if sums and panels.columns[sums[0]].reads[0] in column.states]  # fmt: skip
    if not sums or not starts:
        return
    columns = placement.layout.columns
    first, last = _middle(columns[starts[0]]), _middle(columns[sums[-1]])
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.border), LINE_PX))
    bottom = columns[starts[0]].cells.bottom
    painter.drawPolyline([QPointF(first, bottom + 4 * scale), QPointF(first, y), QPointF(last, y)])
    for at in sums:
        source = next(
            other
            for other, column in enumerate(panels.columns)
            if panels.columns[at].reads[1] in column.states
        )
        if not columns[at].is_hidden:
            branch = None if columns[source].is_hidden else _middle(columns[source])
            _paint_sum(painter, y, bottom, _middle(columns[at]), branch, theme)
    if columns[sums[-1]].is_hidden:
        painter.setPen(QPen(QColor(theme.border), LINE_PX))
        painter.drawLine(QLineF(last, y, last, bottom + 4 * scale))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    text = "residual stream: each token keeps its vector, and each part adds to it"
    font = scaled_font(OPERATION_PX)
    width = QFontMetricsF(font).horizontalAdvance(text) + 12 * scale
    place = QRectF(first + 14 * scale, y - 8 * scale, width, 16 * scale)
    painter.fillRect(place, QColor(theme.paper))
    _draw_text(painter, place.left() + 6 * scale, place, text, font, theme.quiet)


def _paint_sum(
    painter: QPainter, y: float, bottom: float, middle: float, branch: float | None, theme: Theme
) -> None:
    """Paint where a column is added to the stream, and the line from its source."""
    scale = text_scale()
    if branch is not None:
        painter.setPen(QPen(QColor(theme.border), 1.5))
        turn = y - 14 * scale
        painter.drawPolyline(
            [
                QPointF(branch, bottom + 4 * scale),
                QPointF(branch, turn),
                QPointF(middle - 10 * scale, turn),
                QPointF(middle - 4 * scale, y - 5 * scale),
            ]
        )
    painter.setPen(QPen(QColor(theme.border), LINE_PX))
    painter.drawLine(QLineF(middle, y - 7 * scale, middle, bottom + 6 * scale))
    painter.setBrush(QColor(theme.paper))
    painter.setPen(QPen(QColor(theme.border), 1.5))
    radius = 7 * scale
    painter.drawEllipse(QPointF(middle, y), radius, radius)
    painter.drawLine(QLineF(middle - radius / 2, y, middle + radius / 2, y))
    painter.drawLine(QLineF(middle, y - radius / 2, middle, y + radius / 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)


def _middle(column: PlacedColumn) -> float:
    return column.cells.left + column.cells.width / 2
