"""The token labels on the flow board: words, some with positions or, in long texts, positions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from visualizer.heatmap.board_layout import ContextMenuTarget
from visualizer.heatmap.flow_layout import CARD_PADDING_PX, HEADING_PX
from visualizer.heatmap.flow_placement import (
    KEY_LABEL_MARGIN_PX,
    LABEL_PX,
    MAX_ROW_LABEL_PX,
    MIN_LABELLED_CELL_PX,
    OPERATION_PX,
    SMALL_LABEL_PX,
    TINY_LABEL_PX,
    has_room_for_all_tokens,
    shows_token_labels,
    token_label_text,
)
from visualizer.heatmap.panel_margins_paint import ALIGN_CENTRE, ALIGN_LEFT, ALIGN_RIGHT
from visualizer.session.token_selection import TokenRole
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtCore import QPointF

    from visualizer.heatmap.board import HeatmapAxis
    from visualizer.heatmap.board_layout import FlowPlacement, PanelSlot

POSITION_STEPS = (1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
MIN_UPRIGHT_PX = 30
"""Minimum height of upright words; if there is less room, positions are shown."""
WIDE_ROW_PX, MIN_SMALL_LABEL_PX = 16, 12
"""Minimum row heights for large and for small words; in lower rows, words are tiny, or only some
rows have one."""


class TokenLabel(Struct, frozen=True):
    """One label of a row or column.

    Parameters
    ----------
    area : QRectF
        Area of the text.
    is_word : bool
        Whether the label is a token rather than a position.
    is_upright : bool
        Whether the text is written from bottom to top.
    pitch : float
        Distance to the label of the next row or column in pixels.
    """

    text: str
    area: QRectF
    size: int
    is_word: bool
    is_upright: bool = False
    pitch: float = math.inf
    align: Qt.AlignmentFlag = ALIGN_RIGHT


def paint_token_label(
    painter: QPainter,
    label: TokenLabel,
    ink: str,
    weight: QFont.Weight = QFont.Weight.Normal,
) -> None:
    """Paint a label."""
    painter.setFont(scaled_font(label.size, weight))
    painter.setPen(QColor(ink))
    if not label.is_upright:
        painter.drawText(label.area, label.align, label.text)
        return
    painter.save()
    painter.translate(label.area.center().x(), label.area.bottom())
    painter.rotate(-90)
    line = label.area.width()
    painter.drawText(QRectF(0, -line / 2, label.area.height(), line), ALIGN_LEFT, label.text)
    painter.restore()


_LABELS: WeakKeyDictionary[FlowPlacement, tuple[TokenLabel, ...]] = WeakKeyDictionary()
"""Cached labels of each board; every frame checks which of them the cursor's labels touch."""


def board_labels(placement: FlowPlacement) -> tuple[TokenLabel, ...]:
    """Return all labels of a board."""
    if placement not in _LABELS:
        _LABELS[placement] = tuple(_board_labels(placement))
    return _LABELS[placement]


def _board_labels(placement: FlowPlacement) -> Iterator[TokenLabel]:
    """Yield the labels of the rows, and of the keys above the scores and the matrix in focus."""
    slot = row_label_slot(placement)
    if slot:
        for cell, text, is_word in _axis_labels(
            slot.heatmap.rows,
            slot.cell_height,
            font_metrics(OPERATION_PX).height(),
        ):
            yield create_row_label(placement, slot, cell, text, is_word=is_word)
    for slot, over in key_label_slots(placement):
        yield from key_labels(slot, over)


def row_label_slot(placement: FlowPlacement) -> PanelSlot | None:
    """Return the panel that has the row labels on its left: the first with queries as rows."""
    slots = [slot for slot in placement.slots if slot]
    queries = (slot for slot in slots if slot.heatmap.rows.name == "query")
    return next(queries, slots[0] if slots else None)


def key_label_slots(placement: FlowPlacement) -> Iterator[tuple[PanelSlot, PanelSlot]]:
    """Yield the panels with key labels, each with the panel above which the labels are drawn."""
    for at, column in enumerate(placement.panels.columns):
        slot, operand = placement.slots[at], placement.operands[at]
        if slot is None or not slot.heatmap.columns.is_token:
            continue
        if operand and column.is_operand_transposed:
            yield slot, operand
        elif at == placement.panels.focus:
            yield slot, slot


def create_row_label(
    placement: FlowPlacement, slot: PanelSlot, cell: int, text: str, *, is_word: bool
) -> TokenLabel:
    """Return the label of a drawn row; its area is as wide as its text."""
    scale, room = text_scale(), placement.layout.row_labels
    height = slot.cell_height
    size = _token_font_size(height) if is_word else OPERATION_PX
    if is_word and height >= WIDE_ROW_PX * scale:
        size = LABEL_PX
    metrics = QFontMetricsF(scaled_font(size, QFont.Weight.DemiBold))
    widest = min(MAX_ROW_LABEL_PX * scale, max(room.width, room.left + room.width) - 8 * scale)
    shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, widest)
    width, line = metrics.horizontalAdvance(shown) + 2, metrics.height()
    right = room.right - 8 * scale
    middle = slot.cells.top() + (cell + 0.5) * height
    area = QRectF(right - width, middle - line / 2, width, line)
    return TokenLabel(shown, area, size, is_word, pitch=height)


def _token_font_size(pitch: float) -> int:
    """Return the text size of words for a distance between tokens."""
    is_tiny = MIN_LABELLED_CELL_PX <= pitch / text_scale() < MIN_SMALL_LABEL_PX
    return TINY_LABEL_PX if is_tiny else SMALL_LABEL_PX


@lru_cache(maxsize=64)
def labelled_positions(seen: range, pitch: float, room: float) -> tuple[int, ...]:
    """Return the indices of the tokens with position labels that fit: 1, 5, 10 and so on.

    Parameters
    ----------
    pitch : float
        Distance between two tokens.
    room : float
        Distance that two positions need.
    """
    step = next((step for step in POSITION_STEPS if step * pitch >= room), POSITION_STEPS[-1])
    first = seen.start
    later = range(first // step * step + step - 1, seen.stop, step)
    return (first, *(at for at in later if (at - first) * pitch >= room))


def _axis_labels(
    axis: HeatmapAxis, pitch: float, room: float, *, is_words: bool = True
) -> Iterator[tuple[int, str, bool]]:
    """Yield the labels that fit, each as a cell, a text, and whether the text is a word.

    Parameters
    ----------
    pitch : float
        Distance between two drawn cells.
    """
    seen = axis.visible_range
    if (
        is_words
        and shows_token_labels(len(axis.labels), pitch)
        and axis.block == 1
        and axis.is_token
    ):
        fits_all = has_room_for_all_tokens(len(axis.labels), pitch)
        line = font_metrics(SMALL_LABEL_PX).height()
        for at in seen if fits_all else labelled_positions(seen, pitch, line):
            yield axis.cell_index_of(at), token_label_text(axis.labels, at, pitch), True
        return
    for at in labelled_positions(seen, pitch / axis.block, room):
        yield axis.cell_index_of(at), f"{at + 1:,}", False


def key_labels(slot: PanelSlot, over: PanelSlot) -> Iterator[TokenLabel]:
    """Yield the column labels of a panel, above the cells of `over`."""
    axis, pitch = slot.heatmap.columns, slot.cell_width
    last = f"{axis.visible_range.stop:,}"
    room = font_metrics(OPERATION_PX).horizontalAdvance(last) + 8
    labels = list(_axis_labels(axis, pitch, room))
    is_word = any(is_word for _, _, is_word in labels)
    is_upright = is_word and _are_labels_upright(slot, labels)
    if is_upright and _available_label_height(over) < MIN_UPRIGHT_PX * text_scale():
        is_word = is_upright = False
        labels = list(_axis_labels(axis, pitch, room, is_words=False))
    for cell, text, _ in labels:
        yield _create_key_label(slot, over, cell, text, is_word=is_word, is_upright=is_upright)


def label_of_key(slot: PanelSlot, over: PanelSlot, key: int) -> TokenLabel:
    """Return the label of one key as a word, which covers the labels that it touches."""
    axis = slot.heatmap.columns
    upright = any(label.is_upright for label in key_labels(slot, over))
    cell = axis.cell_index_of(key)
    text = token_label_text(axis.labels, key, slot.cell_width)
    return _create_key_label(slot, over, cell, text, is_word=True, is_upright=upright)


def _are_labels_upright(slot: PanelSlot, labels: list[tuple[int, str, bool]]) -> bool:
    size = _token_font_size(slot.cell_width)
    metrics = QFontMetricsF(scaled_font(size, QFont.Weight.DemiBold))
    widest = max((metrics.horizontalAdvance(text) for _, text, _ in labels), default=0)
    return widest + 4 > slot.cell_width


def _available_label_height(over: PanelSlot) -> float:
    scale = text_scale()
    top = (HEADING_PX + CARD_PADDING_PX) * scale
    return over.cells.top() - KEY_LABEL_MARGIN_PX * scale - top


def _create_key_label(
    slot: PanelSlot, over: PanelSlot, cell: int, text: str, *, is_word: bool, is_upright: bool
) -> TokenLabel:
    size = _token_font_size(slot.cell_width) if is_word else OPERATION_PX
    metrics = QFontMetricsF(scaled_font(size, QFont.Weight.DemiBold))
    middle = over.cells.left() + (cell + 0.5) * slot.cell_width
    foot = over.cells.top() - KEY_LABEL_MARGIN_PX * text_scale()
    line = metrics.height()
    if is_upright:
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, _available_label_height(over))
        length = metrics.horizontalAdvance(shown) + 2
        area = QRectF(middle - line / 2, foot - length, line, length)
        return TokenLabel(shown, area, size, is_word, is_upright, slot.cell_width)
    width = metrics.horizontalAdvance(text) + 2
    left = max(over.cells.left() - 1, middle - width / 2)  # an operand may be on the left
    area = QRectF(left, foot - line, width, line)
    return TokenLabel(text, area, size, is_word, align=ALIGN_CENTRE)


def flow_context_menu_target(placement: FlowPlacement, point: QPointF) -> ContextMenuTarget | None:
    """Return the heading, the tab or the token label under a point on the flow board."""
    target = placement.click_target_at(point)
    if target and target.column is not None:
        return ContextMenuTarget(stage=placement.panels.panels[target.column].stage)
    if target:
        return ContextMenuTarget(head=target.head, is_tab=True)
    labels, slot = placement.layout.row_labels, row_label_slot(placement)
    if slot and labels.contains(point.x(), point.y()):
        found = label_context_menu_target(slot, point)
        return found and replace(found, head=None)  # all columns share the labels
    for keys, over in key_label_slots(placement):
        foot, top = over.cells.top(), over.cells.top() - _available_label_height(over)
        if top <= point.y() < foot and over.cells.left() <= point.x() < over.cells.right():
            offset = point.x() - over.cells.left()
            token = _token_at(keys.heatmap.columns, offset, keys.cell_width)
            return ContextMenuTarget(token=token, role=TokenRole.KEY)
    return None


def label_context_menu_target(slot: PanelSlot, point: QPointF) -> ContextMenuTarget | None:
    """Return the token label to the left of a panel's cells or above them."""
    cells, heatmap = slot.cells, slot.heatmap
    is_beside = cells.top() <= point.y() < cells.bottom() and point.x() < cells.left()
    if is_beside and heatmap.rows.is_token:
        token = _token_at(heatmap.rows, point.y() - cells.top(), slot.cell_height)
        role = TokenRole.KEY if heatmap.rows.name == "key" else TokenRole.QUERY
        return ContextMenuTarget(head=heatmap.head, token=token, role=role)
    if cells.left() <= point.x() < cells.right() and point.y() < cells.top():
        if heatmap.columns.is_token:
            token = _token_at(heatmap.columns, point.x() - cells.left(), slot.cell_width)
            return ContextMenuTarget(head=heatmap.head, token=token, role=TokenRole.KEY)
        return None if heatmap.head is None else ContextMenuTarget(head=heatmap.head)
    return None


def _token_at(axis: HeatmapAxis, distance: float, pitch: float) -> int:
    return min(axis.first_of_cell(int(distance / pitch)), len(axis.labels) - 1)
