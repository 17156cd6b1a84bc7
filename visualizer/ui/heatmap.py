"""Drawing one panel: cells, numbers, hatching, labels and the colour bar.

The window and every exported picture are drawn by these functions.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QGuiApplication, QPainter, QPen

from visualizer.state.words import number
from visualizer.ui import colours
from visualizer.ui.measures import (
    LONGEST_LABEL,
    SMALLEST_NUMBERS,
    ends,
    ends_width,
    is_upright,
    sums_width,
)
from visualizer.ui.theme import font, head_colour, metrics, text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.state.heatmaps import Axis, Heatmap
    from visualizer.ui.slots import Slot
    from visualizer.ui.theme import Theme

LARGEST_NUMBERS = 18

CENTRE = Qt.AlignmentFlag.AlignCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


def paint_slot(painter: QPainter, slot: Slot, theme: Theme) -> None:
    """Draw a panel and all that belongs to it, at its place."""
    indices = colours.entries(slot.heatmap)
    _paint_cells(painter, slot, indices, theme)
    _paint_marks(painter, slot, theme)
    _paint_numbers(painter, slot, indices, theme)
    _paint_sums(painter, slot, theme)
    _paint_labels(painter, slot, theme)
    _paint_foot(painter, slot, theme)


def _paint_cells(painter: QPainter, slot: Slot, indices: np.ndarray, theme: Theme) -> None:
    painter.drawImage(slot.cells, colours.image(indices, slot.heatmap.colour.map, theme))
    if min(slot.cell_width, slot.cell_height) >= 20:
        painter.setPen(QPen(QColor(theme.paper), 1))
        rows, columns = slot.heatmap.values.shape
        cells = slot.cells
        across = [cells.top() + row * slot.cell_height for row in range(1, rows)]
        down = [cells.left() + column * slot.cell_width for column in range(1, columns)]
        painter.drawLines([QLineF(cells.left(), y, cells.right(), y) for y in across])
        painter.drawLines([QLineF(x, cells.top(), x, cells.bottom()) for x in down])
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(slot.cells.adjusted(-1, -1, 0, 0))  # around the cells, over none of them


def _paint_marks(painter: QPainter, slot: Slot, theme: Theme) -> None:
    heatmap = slot.heatmap
    if heatmap.forbidden is not None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrushOrigin(slot.cells.topLeft())  # the same wherever the panel stands
        painter.setBrush(QBrush(QColor(theme.hatch), Qt.BrushStyle.BDiagPattern))
        painter.drawRects(
            [
                QRectF(
                    slot.cells.left() + start * slot.cell_width,
                    slot.cells.top() + row * slot.cell_height,
                    (end - start) * slot.cell_width,
                    slot.cell_height,
                )
                for row, start, end in _runs(heatmap.forbidden)
            ]
        )
    if heatmap.dropped is not None and slot.cell_width >= 6:
        painter.setPen(QPen(QColor(theme.border), 1.25 if slot.cell_width >= 20 else 1))
        inset = slot.cell_width * 0.22
        lines = []
        for row, column in np.argwhere(heatmap.dropped):
            left = slot.cells.left() + column * slot.cell_width + inset
            top = slot.cells.top() + row * slot.cell_height + inset
            right, bottom = left + slot.cell_width - 2 * inset, top + slot.cell_height - 2 * inset
            lines += [QLineF(left, top, right, bottom), QLineF(left, bottom, right, top)]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.drawLines(lines)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _runs(cells: np.ndarray) -> list[tuple[int, int, int]]:
    """Give each row's runs of true cells as (row, first column, column after the last)."""
    edges = np.diff(np.pad(cells, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    return list(zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True))


def _paint_numbers(painter: QPainter, slot: Slot, indices: np.ndarray, theme: Theme) -> None:
    heatmap = slot.heatmap
    if heatmap.is_pooled or slot.cell_width < 24:
        return
    texts = [[number(value) for value in row] for row in heatmap.values.tolist()]
    room = slot.cell_width - 2
    numbers_font = _fitting_font(texts, True, room) or _fitting_font(texts, False, room)
    if numbers_font is None:
        return
    painter.setFont(numbers_font)
    light = colours.light_entries(heatmap.colour.map, theme)
    inks = {True: QColor("#000000"), False: QColor("#FFFFFF"), None: QColor(theme.quiet)}
    for row, written in enumerate(texts):
        for column, text in enumerate(written):
            index = int(indices[row, column])
            painter.setPen(inks[None if index >= colours.DROPPED else bool(light[index])])
            if index < colours.DROPPED or text == "−∞":  # else the mark says it
                cell = QRectF(
                    slot.cells.left() + column * slot.cell_width,
                    slot.cells.top() + row * slot.cell_height,
                    slot.cell_width,
                    slot.cell_height,
                )
                painter.drawText(cell, CENTRE, text)


def _fitting_font(texts: list[list[str]], is_signed: bool, width: float) -> QFont | None:
    """Choose the size at which every number fits its cell; None where none is readable.

    Room is left for a sign where there is room, so that panels look alike. In a large window they
    are larger than all else: they are read from afar.
    """
    usually = "−0.0000" if is_signed else "0.0000"
    longest = max((usually, *(text for row in texts for text in row)), key=len)
    usual = font(12)
    needed = QFontMetricsF(usual).horizontalAdvance(longest)
    size = min(LARGEST_NUMBERS * text_scale(), usual.pixelSize() * width / needed)
    if size < SMALLEST_NUMBERS:
        return None
    usual.setPixelSize(int(size))
    return usual


def _paint_sums(painter: QPainter, slot: Slot, theme: Theme) -> None:
    sums = slot.heatmap.sums
    if sums is None:
        return
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    line = QFontMetricsF(painter.font()).height()
    left, width = slot.cells.right() + 6, sums_width(slot.heatmap)
    painter.drawText(QRectF(left, slot.cells.top() - line - 2, width, line), LEFT, "row sum")
    step = max(1, math.ceil(line / slot.cell_height))
    for row in range(0, len(sums), step):
        top = slot.cells.top() + row * slot.cell_height
        height = max(slot.cell_height, line)
        painter.drawText(QRectF(left, top, width, height), LEFT, f"Σ {number(float(sums[row]), 2)}")


def _paint_labels(painter: QPainter, slot: Slot, theme: Theme) -> None:
    painter.setFont(font(12))
    painter.setPen(QColor(theme.ink))
    heatmap = slot.heatmap
    if slot.has_row_labels:
        for at, text in shown_labels(heatmap.rows, slot.cell_height):
            painter.drawText(row_label_box(slot, at), RIGHT, shortened(text))
        _paint_head(painter, slot, theme)
        painter.setFont(font(12))
    upright = is_upright(heatmap, slot.cell_width) and heatmap.columns.is_token
    needed = slot.cell_width if upright else max(slot.cell_width, _widest(heatmap.columns))
    for at, text in shown_labels(heatmap.columns, slot.cell_width, upright, needed):
        paint_column_label(painter, slot, at, text, upright)


def _widest(axis: Axis) -> float:
    return metrics(12).horizontalAdvance(axis.labels[-1]) + 8


def paint_column_label(painter: QPainter, slot: Slot, at: int, text: str, upright: bool) -> None:
    """Write a label over a column, upright where labels do not fit side by side."""
    left = slot.cells.left() + at // slot.heatmap.columns.block * slot.cell_width
    centre = QPointF(left + slot.cell_width / 2, slot.cells.top() - 4)
    line = metrics(12).height()
    painter.save()
    painter.translate(centre)
    if upright:
        painter.rotate(-90)
        painter.drawText(QRectF(0, -line / 2, 400, line), LEFT, shortened(text))
    else:
        painter.drawText(QRectF(-200, -line, 400, line), CENTRE, shortened(text))
    painter.restore()


def row_label_box(slot: Slot, at: int) -> QRectF:
    """Give the place of a row's label, left of the cells."""
    line = metrics(12).height()
    height = max(line, slot.cell_height)
    middle = slot.cells.top() + (at // slot.heatmap.rows.block + 0.5) * slot.cell_height
    return QRectF(slot.cells.left() - slot.gutter, middle - height / 2, slot.gutter - 8, height)


def shown_labels(
    axis: Axis, cell: float, upright: bool = True, needed: float = 0
) -> list[tuple[int, str]]:
    """Choose the labels that have room: all of them, or evenly fewer."""
    line = metrics(12).height() if upright else needed
    step = axis.block * max(1, math.ceil(line / cell - 0.25))
    if axis.is_token or step == 1:
        return [(at, axis.labels[at]) for at in range(0, len(axis.labels), step)]
    step = next(round_ for round_ in _round_numbers() if round_ >= step)
    return [(at, axis.labels[at]) for at in range(step - 1, len(axis.labels), step)]


def _round_numbers() -> Iterator[int]:
    for power in itertools.count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)


def shortened(text: str) -> str:
    """Cut a long label, with an ellipsis."""
    return _shortened(text, QGuiApplication.font().key())


@lru_cache(maxsize=2048)
def _shortened(text: str, system: str) -> str:
    longest = LONGEST_LABEL * text_scale()
    return metrics(12).elidedText(text, Qt.TextElideMode.ElideRight, longest)


def _paint_head(painter: QPainter, slot: Slot, theme: Theme) -> None:
    head = slot.heatmap.head
    if head is None:
        return
    scale = text_scale()
    box = QRectF(slot.cells.left() - slot.gutter, slot.cells.top() - 24 * scale, 60, 20 * scale)
    painter.setFont(font(12, QFont.Weight.DemiBold))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(head_colour(head, theme)))
    dot = 8 * scale
    painter.drawEllipse(QRectF(box.left(), box.center().y() - dot / 2, dot, dot))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setPen(QColor(theme.ink))
    words = box.adjusted(dot + 5, 0, 60, 0)
    painter.drawText(words, LEFT, f"Head {head + 1}")


def _paint_foot(painter: QPainter, slot: Slot, theme: Theme) -> None:
    heatmap, scale = slot.heatmap, text_scale()
    needed = ends_width(heatmap.colour)
    width = max(96 * scale, needed, min(slot.cells.width(), 200 * scale))
    bar = QRectF(slot.cells.left(), slot.cells.bottom() + 6 * scale, width, 6 * scale)
    ramp = np.arange(colours.LARGEST + 1, dtype=np.uint8)[None]
    painter.drawImage(bar, colours.image(ramp, heatmap.colour.map, theme))
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    line = QRectF(bar.left(), bar.bottom() + 1, bar.width(), 16 * scale)
    low, middle, high = ends(heatmap.colour)
    painter.drawText(line, LEFT, low)
    painter.drawText(line, RIGHT, high)
    painter.drawText(line, CENTRE, middle)
    for position, note in enumerate(heatmap.notes):
        top = line.bottom() + 16 * scale * position
        painter.drawText(QRectF(bar.left(), top, 400, 16 * scale), LEFT, note)


def paint_titles(
    painter: QPainter, slots_titles: tuple[tuple[Heatmap, float], ...], theme: Theme
) -> None:
    """Write the stages' names over their columns."""
    scale = text_scale()
    for heatmap, left in slots_titles:
        painter.setFont(font(14, QFont.Weight.DemiBold))
        painter.setPen(QColor(theme.ink))
        width = QFontMetricsF(painter.font()).horizontalAdvance(heatmap.title)
        painter.drawText(QRectF(left, 4 * scale, width + 4, 20 * scale), LEFT, heatmap.title)
        painter.setFont(font(12))
        painter.setPen(QColor(theme.quiet))
        axes = f"{heatmap.rows.name} ↓  {_axis_words(heatmap.columns.name)} →"
        painter.drawText(QRectF(left, 22 * scale, 300, 18 * scale), LEFT, axes)


def _axis_words(name: str) -> str:
    return {"d_head": "column", "d_in": "column", "d_out": "column"}.get(name, name)
