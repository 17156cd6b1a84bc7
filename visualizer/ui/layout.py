"""Where every panel of a board goes: pure geometry, the same for the window and for pictures.

Columns are stages and rows are heads. Cells are square and as large as fits; they stay whole
pixels of the screen. A single stage wraps its heads into a grid. What does not fit can be
scrolled to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFontMetricsF

from visualizer.state.view import ColourScale
from visualizer.ui.theme import font, text_scale

if TYPE_CHECKING:
    from visualizer.state.heatmaps import Board, Heatmap

LARGEST_CELL = 56
SMALLEST_SIDE = 150
NARROWEST = 100
GAP = 24
MARGIN = 16
LONGEST_LABEL = 88
READABLE_CELL = 37
HEAD = 42
BELOW = 12


@dataclass(frozen=True, slots=True)
class Slot:
    """One panel's place.

    Parameters
    ----------
    cells : QRectF
        Where its cells are.
    cell_width, cell_height : float
        Size of one cell.
    has_row_labels : bool
        Whether it stands first in its row; the others share its labels.
    """

    heatmap: Heatmap
    cells: QRectF
    cell_width: float
    cell_height: float
    top: float
    gutter: float
    has_row_labels: bool

    @property
    def whole(self) -> QRectF:
        """The panel with its labels and its bar."""
        left = self.cells.left() - (self.gutter if self.has_row_labels else 4)
        width = max(self.cells.width() + 8, narrowest(self.heatmap)) + sums_width(self.heatmap)
        top = self.cells.top() - self.top
        height = self.top + self.cells.height() + foot_height(self.heatmap)
        return QRectF(left, top, self.cells.left() - left + width, height)

    def cell(self, row: int, column: int) -> QRectF:
        """Where a cell of the stage is drawn, or the pooled cell that holds it."""
        row, column = row // self.heatmap.rows.block, column // self.heatmap.columns.block
        return QRectF(
            self.cells.left() + column * self.cell_width,
            self.cells.top() + row * self.cell_height,
            self.cell_width,
            self.cell_height,
        )

    def at(self, point: QPointF) -> tuple[int, int] | None:
        """Give the cell of the stage under a point: of a block, the first."""
        if not self.cells.contains(point):
            return None
        rows, columns = self.heatmap.values.shape
        row = int((point.y() - self.cells.top()) / self.cell_height)
        column = int((point.x() - self.cells.left()) / self.cell_width)
        row, column = min(row, rows - 1), min(column, columns - 1)
        return row * self.heatmap.rows.block, column * self.heatmap.columns.block


@dataclass(frozen=True)
class Layout:
    """All places, and the size of the whole."""

    slots: tuple[Slot, ...]
    width: float
    height: float
    head: float

    @cached_property
    def titles(self) -> tuple[tuple[Heatmap, float], ...]:
        """Each stage with the left edge of its column."""
        lefts: dict[str, tuple[Heatmap, float]] = {}
        for slot in self.slots:
            lefts.setdefault(slot.heatmap.stage, (slot.heatmap, slot.cells.left()))
        return tuple(lefts.values())

    def slot_at(self, point: QPointF) -> Slot | None:
        """Give the panel whose cells are under a point."""
        return next((slot for slot in self.slots if slot.cells.contains(point)), None)


def room(width: float, columns: int, pixel_ratio: float) -> int:
    """Say how many cells a panel's side has room for, in a window so wide, in device pixels."""
    columns = max(1, min(columns, 3))
    side = max(SMALLEST_SIDE, (width - LONGEST_LABEL - 2 * MARGIN - columns * GAP) / columns)
    return int(side * pixel_ratio) // 16 * 16


def lay_out(board: Board, width: float, height: float, pixel_ratio: float = 1.0) -> Layout:
    """Place a board's panels in a window of this size, of so many device pixels a pixel."""
    if not board.columns:
        return Layout((), 0, 0, 0)
    return _Placing(board, width, height, pixel_ratio).layout()


def foot_height(heatmap: Heatmap) -> float:
    """Give the height of the bar, its numbers and the notes under a panel."""
    return (32 + 16 * len(heatmap.notes)) * text_scale()


def narrowest(heatmap: Heatmap) -> float:
    """Give the width that the bar's numbers and the notes under a panel need."""
    metrics = QFontMetricsF(font(12))
    notes = [metrics.horizontalAdvance(note) + 8 for note in heatmap.notes]
    by_row = 2 * (heatmap.colour.scale is ColourScale.ROW)
    return max(NARROWEST * text_scale() * (1 + by_row * 0.3), *notes, 0)


def sums_width(heatmap: Heatmap) -> float:
    """Give the width of the row sums beside a panel."""
    return 0 if heatmap.sums is None else 60 * text_scale()


class _Placing:
    """One layout on its way."""

    def __init__(self, board: Board, width: float, height: float, pixel_ratio: float) -> None:
        self.columns, self.pixel_ratio = board.columns, pixel_ratio
        self.width, self.height = width, height
        self.scale = text_scale()
        self.metrics = QFontMetricsF(font(12))
        self.gutter = self._gutter()
        self.wraps = len(board.columns) == 1 and len(board.columns[0]) > 1
        self.cell = self._cell()
        self.top = self._top()

    def layout(self) -> Layout:
        head = HEAD * self.scale
        slots = self._wrapped(head) if self.wraps else self._aligned(head)
        wholes = [slot.whole for slot in slots]
        right = max(whole.right() for whole in wholes) + MARGIN
        bottom = max(whole.bottom() for whole in wholes) + MARGIN
        return Layout(tuple(slots), right, bottom, head)

    def _gutter(self) -> float:
        labels = self.columns[0][0].rows.labels[:200]
        widest = max((self.metrics.horizontalAdvance(label) for label in labels), default=0)
        return max(64 * self.scale, min(widest, LONGEST_LABEL * self.scale) + 14)

    def _cell(self) -> float:
        """Find the largest cell, in whole device pixels, with which all stages fit side by side."""
        rows = max(column[0].values.shape[0] for column in self.columns)
        largest = LARGEST_CELL * self.scale * self.pixel_ratio
        smallest = max(1, min(largest, SMALLEST_SIDE * self.pixel_ratio / rows))
        for pixels in range(int(largest), int(smallest), -1):
            if self._width(pixels / self.pixel_ratio) <= self.width:
                return self._seen_whole(pixels / self.pixel_ratio)
        return max(1, int(smallest)) / self.pixel_ratio

    def _seen_whole(self, cell: float) -> float:
        """Make cells a little smaller where that saves scrolling."""
        rows = max(len(column) for column in self.columns)
        heatmap = self.columns[0][0]
        smallest = min(cell, READABLE_CELL * self.scale)
        for pixels in range(round(cell * self.pixel_ratio), int(smallest * self.pixel_ratio), -1):
            self.cell = pixels / self.pixel_ratio
            panel = self._top() + heatmap.values.shape[0] * self.cell + foot_height(heatmap)
            if HEAD * self.scale + rows * (panel + BELOW * self.scale) + MARGIN <= self.height:
                return self.cell
        return cell

    def _width(self, cell: float) -> float:
        if self.wraps:  # two heads side by side at least
            return MARGIN + 2 * (self.gutter + self._outer(self.columns[0][0], cell) + GAP)
        widths = sum(self._outer(column[0], cell) + GAP for column in self.columns)
        return MARGIN + self.gutter + widths - GAP + MARGIN

    def _outer(self, heatmap: Heatmap, cell: float) -> float:
        columns: int = heatmap.values.shape[1]
        inner = columns * self._cell_width(heatmap, cell)
        return max(inner + 8, narrowest(heatmap)) + sums_width(heatmap)

    def _cell_width(self, heatmap: Heatmap, cell: float) -> float:
        """Columns that are no tokens are as wide as cells, unless there are too many of them."""
        rows, columns = (int(size) for size in heatmap.values.shape)
        if heatmap.columns.is_token:
            return cell
        widest = max(rows * cell, SMALLEST_SIDE, 4 * cell)
        pixels = max(1, math.floor(widest / columns * self.pixel_ratio))
        return min(cell, pixels / self.pixel_ratio)

    def _top(self) -> float:
        """Find the height that the column labels need: turned upright where they do not fit."""
        needed = 0.0
        for column in self.columns:
            heatmap = column[0]
            cell = self._cell_width(heatmap, self.cell)
            needed = max(needed, column_label_height(heatmap, cell))
        return needed + 8 * self.scale

    def _aligned(self, top: float) -> list[Slot]:
        slots: list[Slot] = []
        for number in range(max(len(column) for column in self.columns)):
            row = [column[number] for column in self.columns if number < len(column)]
            slots += self._row(row, top, number)
            top = max(slot.whole.bottom() for slot in slots[-len(row) :]) + BELOW * self.scale
        return slots

    def _row(self, row: list[Heatmap], top: float, number: int) -> list[Slot]:
        slots: list[Slot] = []
        left = MARGIN + self.gutter
        for column in self.columns:
            if number < len(column):
                heatmap = column[number]
                slots.append(self._slot(heatmap, left, top, heatmap is row[0]))
            left += self._outer(column[0], self.cell) + GAP
        return slots

    def _wrapped(self, top: float) -> list[Slot]:
        slots: list[Slot] = []
        left, heatmaps = MARGIN + self.gutter, self.columns[0]
        for heatmap in heatmaps:
            outer = self._outer(heatmap, self.cell)
            if slots and left + outer + MARGIN > self.width:
                left, top = MARGIN + self.gutter, slots[-1].whole.bottom() + BELOW * self.scale
            slots.append(self._slot(heatmap, left, top, True))
            left += outer + GAP + self.gutter
        return slots

    def _slot(self, heatmap: Heatmap, left: float, top: float, is_first: bool) -> Slot:
        rows, columns = heatmap.values.shape
        width = self._cell_width(heatmap, self.cell)
        left, upper = self._whole(left), self._whole(top + self.top)
        cells = QRectF(left, upper, columns * width, rows * self.cell)
        return Slot(heatmap, cells, width, self.cell, self.top, self.gutter, is_first)

    def _whole(self, length: float) -> float:
        return round(length * self.pixel_ratio) / self.pixel_ratio


def is_upright(heatmap: Heatmap, cell: float) -> bool:
    """Say whether a panel's column labels are turned upright, as they do not fit side by side."""
    metrics = QFontMetricsF(font(12))
    labels = heatmap.columns.labels[:200]
    return any(metrics.horizontalAdvance(label) > cell - 4 for label in labels)


def column_label_height(heatmap: Heatmap, cell: float) -> float:
    """Give the height that a panel's column labels need."""
    metrics = QFontMetricsF(font(12))
    if not heatmap.columns.is_token or not is_upright(heatmap, cell):
        return metrics.height()
    widest = max(metrics.horizontalAdvance(label) for label in heatmap.columns.labels[:200])
    return max(metrics.height(), min(widest, LONGEST_LABEL * text_scale()))
