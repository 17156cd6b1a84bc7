"""The places of panels, and what is where in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF

from visualizer.ui.measures import foot_height, narrowest, notes_height, sums_width

if TYPE_CHECKING:
    from PySide6.QtCore import QPointF

    from visualizer.state.panels import Heatmap


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
        Whether it stands first in its row, or first of a head's; the others share its labels.
    has_column_labels : bool
        Whether the keys are named over it, and not over a panel above it.
    """

    heatmap: Heatmap
    cells: QRectF
    cell_width: float
    cell_height: float
    top: float
    gutter: float
    has_row_labels: bool
    has_column_labels: bool = True

    @property
    def whole(self) -> QRectF:
        """The panel with its labels and its bar."""
        left = self.cells.left() - (self.gutter if self.has_row_labels else 4)
        width = max(self.cells.width() + 8, narrowest(self.heatmap)) + sums_width(self.heatmap)
        top = self.cells.top() - self.top
        height = self.top + self.cells.height() + foot_height(self.heatmap)
        return QRectF(left, top, self.cells.left() - left + width, height)

    @property
    def labels_height(self) -> float:
        """The height over its cells in which the labels of its columns are."""
        is_layer = self.heatmap.layer is not None
        return self.top - notes_height(self.heatmap) if is_layer else self.top

    def cell(self, row: int, column: int) -> QRectF:
        """Where a cell of the stage is drawn, or the pooled cell that holds it."""
        row, column = self.heatmap.rows.cell(row), self.heatmap.columns.cell(column)
        return QRectF(
            self.cells.left() + column * self.cell_width,
            self.cells.top() + row * self.cell_height,
            self.cell_width,
            self.cell_height,
        )

    def between(self, point: QPointF) -> tuple[float, float]:
        """Give the row and column of the stage at a point, with their fractions."""
        rows, columns = self.heatmap.rows, self.heatmap.columns
        down = (point.y() - self.cells.top()) / self.cell_height
        right = (point.x() - self.cells.left()) / self.cell_width
        return rows.seen.start + down * rows.block, columns.seen.start + right * columns.block

    def at(self, point: QPointF) -> tuple[int, int] | None:
        """Give the cell of the stage under a point: of a block, the first."""
        if not self.cells.contains(point):
            return None
        rows, columns = self.heatmap.values.shape
        row = int((point.y() - self.cells.top()) / self.cell_height)
        column = int((point.x() - self.cells.left()) / self.cell_width)
        row, column = min(row, rows - 1), min(column, columns - 1)
        return self.heatmap.rows.first(row), self.heatmap.columns.first(column)


@dataclass(frozen=True)
class Layout:
    """All places, and the size of the whole."""

    slots: tuple[Slot, ...]
    width: float
    height: float
    head: float

    @cached_property
    def titles(self) -> tuple[tuple[Heatmap, float], ...]:
        """Each stage, and each of what is compared of it, with the left edge of its column."""
        lefts: dict[tuple[str | None, str], tuple[Heatmap, float]] = {}
        for slot in self.slots:
            lefts.setdefault(slot.heatmap.column, (slot.heatmap, slot.cells.left()))
        return tuple(lefts.values())

    def slot_at(self, point: QPointF) -> Slot | None:
        """Give the panel whose cells are under a point."""
        return next((slot for slot in self.slots if slot.cells.contains(point)), None)
