"""Where every panel of a board is: pure geometry, the same for the window and for pictures."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QRectF

from visualizer.heatmap.board_arrangement import ABOVE_LABELS, shared_notes
from visualizer.heatmap.cell_number_format import CellNumberFormat, cell_number_format
from visualizer.heatmap.panel_margins import (
    MAX_LABEL_PX,
    foot_height,
    label_height,
    line_title_width,
    narrowest,
    sheet_title_width,
    sums_width,
    widest_label,
)
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from PySide6.QtCore import QPointF

    from visualizer.heatmap.board_arrangement import PanelArrangement
    from visualizer.heatmap.panel_and_board_types import Heatmap


SHEET_AIR = 12
"""Around a panel that is laid over others."""


class TitlePlace(StrEnum):
    """Where a panel's title stands."""

    PINNED = "pinned"  # over its column, at the top of the canvas
    OWN = "own"  # over it, with all of its scale
    SHEET = "sheet"  # the same, of a panel that is laid over others
    LINE = "line"  # over it, in one line with the end of its scale
    NONE = "none"


class PlacedPanels(Struct, frozen=True):
    """The places of panels, each with the number of its panel, and the size of the whole.

    Parameters
    ----------
    head : float
        The height of the heads of columns that are pinned at the top.
    room : int
        How many drawn cells a panel's side has room for, in device pixels.
    arrangement : PanelArrangement or None
        How stages and heads stand; None beside a large panel.
    small_room : int
        The same for panels beside a large one; 0 where there is none.
    page : float or None
        The height of a page of heads, where there are several.
    """

    places: tuple[tuple[int, PanelPlace], ...]
    width: float
    height: float
    head: float
    arrangement: PanelArrangement | None
    room: int
    small_room: int = 0
    page: float | None = None


class PanelPlace(Struct, frozen=True):
    """Where a panel stands, whichever part of it is seen.

    Parameters
    ----------
    left, upper : float
        The corner of its cells.
    width, height : float
        Size of a cell without zoom.
    """

    left: float
    upper: float
    width: float
    height: float
    top: float
    gutter: float
    longest: float
    has_row_labels: bool
    has_column_labels: bool
    has_own_notes: bool
    head_at: tuple[float, float] | None
    is_head_short: bool
    title: TitlePlace

    def slot(self, heatmap: Heatmap) -> PanelSlot:
        """Put a panel here."""
        (rows, columns), width = heatmap.side, self.width
        cells = QRectF(self.left, self.upper, columns * width, rows * self.height)
        drawn = heatmap.values.shape  # of a part, fewer and larger ones in the same place
        size = (width * (columns / drawn[1]), self.height * (rows / drawn[0]))
        return PanelSlot(
            heatmap, cells, *size, self.top, self.gutter, self.has_row_labels,
            self.has_column_labels, own_notes=heatmap.notes if self.has_own_notes else (),
            longest=self.longest, head_at=self.head_at, is_head_short=self.is_head_short,
            title=self.title,
        )  # fmt: skip


class PanelSlot(Struct, frozen=True, dict=True):
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
    numbers : CellNumberFormat or None
        How its numbers are written; None where there is no room for them.
    own_notes : tuple of str
        The notes under it, which the others of its column do not share.
    longest : float
        The width to which its labels are shortened.
    head_at : tuple of float or None
        Where it is written whose panel it is, from the corner of its cells; None where it is not.
    is_head_short : bool
        Whether there is room for the number of its head alone.
    title : TitlePlace
        Where its title stands.
    """

    heatmap: Heatmap
    cells: QRectF
    cell_width: float
    cell_height: float
    top: float
    gutter: float
    has_row_labels: bool
    has_column_labels: bool = True
    numbers: CellNumberFormat | None = None
    own_notes: tuple[str, ...] = ()
    longest: float = MAX_LABEL_PX
    head_at: tuple[float, float] | None = None
    is_head_short: bool = False
    title: TitlePlace = TitlePlace.PINNED

    @cached_property
    def whole(self) -> QRectF:
        """The panel with its labels and its bar; read anew for every frame, so it is kept."""
        is_named = self.has_row_labels or (self.head_at is not None and self.head_at[0] < 0)
        left = self.cells.left() - (self.gutter if is_named else 4)
        width = max(self.cells.width() + 8, self._title_width()) + sums_width(self.heatmap)
        top = self.cells.top() - self.top
        height = self.top + self.cells.height() + foot_height(self.heatmap, len(self.own_notes))
        return QRectF(left, top, self.cells.left() - left + width, height)

    @property
    def labels_height(self) -> float:
        """The height over its cells in which the labels of its columns are."""
        columns = self.heatmap.columns
        widest = widest_label(columns.labels)
        height = label_height(widest, columns.is_token, self.cell_width, self.longest)
        return height + ABOVE_LABELS * text_scale()

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

    @property
    def sheet_area(self) -> QRectF:
        """The panel with the air around it, where it is laid over others."""
        air = SHEET_AIR * text_scale()
        return self.whole.adjusted(-air, -air / 2, air, air / 3)

    def _title_width(self) -> float:
        """Give the width that its head needs."""
        if self.title is TitlePlace.LINE:
            return line_title_width(self.heatmap)
        least = narrowest(self.heatmap)
        is_sheet = self.title is TitlePlace.SHEET
        return max(least, sheet_title_width(self.heatmap)) if is_sheet else least

    @property
    def column_head(self) -> ColumnHead:
        """The head of its column, with the room that it has."""
        width = max(self.cells.width(), self._title_width())
        notes = () if self.own_notes else shared_notes((self.heatmap,))
        return ColumnHead(self.heatmap, self.cells.left(), width, notes)


class ColumnHead(Struct, frozen=True):
    """What stands over a column of panels.

    Parameters
    ----------
    heatmap : Heatmap
        Its first panel, for its title, axes and scale.
    left, width : float
        The left edge of its cells, and the room to the right.
    notes : tuple of str
        The notes that its panels share.
    """

    heatmap: Heatmap
    left: float
    width: float
    notes: tuple[str, ...]


class BoardLayout(Struct, frozen=True, dict=True):
    """All places, and the size of the whole.

    Parameters
    ----------
    room : int
        How many drawn cells a panel's side has room for, in device pixels; 0 without panels.
    small_room : int
        The same for panels beside a large one.
    placed : PlacedPanels, optional
        The places that it was made of.
    sheet : PanelSlot, optional
        The panel that is laid over the others.
    """

    slots: tuple[PanelSlot, ...]
    width: float
    height: float
    head: float
    room: int = 0
    small_room: int = 0
    placed: PlacedPanels | None = None
    sheet: PanelSlot | None = None

    def is_placed_as(self, other: BoardLayout) -> bool:
        """Whether panels stand where those of another layout do; False where it is not known."""
        is_same = self.placed is not None and self.placed is other.placed
        return is_same and (self.width, self.height) == (other.width, other.height)

    @cached_property
    def column_heads(self) -> tuple[ColumnHead, ...]:
        """The heads of columns that are pinned at the top."""
        heads: dict[float, ColumnHead] = {}
        for slot in self.slots:
            if slot.title is TitlePlace.PINNED:
                heads.setdefault(slot.cells.left(), slot.column_head)  # of the first page
        return tuple(heads.values())

    @property
    def all_slots(self) -> tuple[PanelSlot, ...]:
        """All panels, with the sheet that is laid over them."""
        return (*self.slots, self.sheet) if self.sheet else self.slots

    def slot_at(self, point: QPointF) -> PanelSlot | None:
        """Give the panel whose cells are under a point."""
        if self.sheet and self.sheet.sheet_area.contains(point):
            return self.sheet if self.sheet.cells.contains(point) else None
        return next((slot for slot in self.slots if slot.cells.contains(point)), None)


def with_cell_numbers(slots: Sequence[PanelSlot]) -> tuple[PanelSlot, ...]:
    """Choose how numbers are written in panels, alike in all of a stage."""
    stages: dict[Hashable, list[PanelSlot]] = {}
    for slot in slots:
        stages.setdefault(slot.heatmap.column, []).append(slot)
    formats = {
        stage: cell_number_format(
            [slot.heatmap for slot in own],
            min(slot.cell_width for slot in own),
            min(slot.cell_height for slot in own),
        )
        for stage, own in stages.items()
    }
    return tuple(
        slot if found is None else replace(slot, numbers=found)
        for slot in slots
        for found in (formats[slot.heatmap.column],)
    )
