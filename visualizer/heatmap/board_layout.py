"""Positions of a board's panels: pure geometry, shared by the window and exported figures."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QRectF

from visualizer.heatmap.board_arrangement import LABEL_TOP_MARGIN_PX, shared_notes
from visualizer.heatmap.cell_number_format import CellNumberFormat, cell_number_format
from visualizer.heatmap.panel_margins import (
    MAX_LABEL_PX,
    column_label_height,
    footer_height,
    min_column_header_width,
    panel_title_width,
    row_sums_width,
    widest_label_width,
)
from visualizer.session.cell_address import Cell, ParameterCell
from visualizer.session.token_selection import TokenRole
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from PySide6.QtCore import QPointF

    from visualizer.heatmap.board import FlowBoardPanels, Heatmap
    from visualizer.heatmap.board_arrangement import PanelArrangement
    from visualizer.heatmap.flow_layout import FlowGeometry


HEAD_GAP_PX = 16
"""Minimum gap between column heads, in pixels."""


class TitlePlacement(StrEnum):
    """Placement of a panel's title."""

    PINNED = "pinned"  # above its column, at the top of the canvas
    OWN = "own"  # above the panel, with its full colour scale
    LINE = "line"  # above the panel, on the same line as the end of its scale
    NONE = "none"


class PlacedPanels(Struct, frozen=True):
    """Positions of panels, each with the panel's index, and the total size.

    Parameters
    ----------
    head : float
        Height of the column heads pinned at the top.
    room : int
        Number of drawn cells that fit along a panel's side, in device pixels.
    arrangement : PanelArrangement
        Arrangement of stages and heads.
    page : float or None
        Height of a page of heads; None if there is only one page.
    """

    places: tuple[tuple[int, PanelPosition], ...]
    width: float
    height: float
    head: float
    arrangement: PanelArrangement
    room: int
    page: float | None = None


class PanelPosition(Struct, frozen=True):
    """Position of a panel, independent of the visible part of its matrix.

    Parameters
    ----------
    left, upper : float
        Top-left corner of the cells.
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
    title: TitlePlacement

    def create_slot(self, heatmap: Heatmap) -> PanelSlot:
        """Return the slot of a panel at this position."""
        (rows, columns), width = heatmap.side, self.width
        cells = QRectF(self.left, self.upper, columns * width, rows * self.height)
        drawn = heatmap.values.shape  # a zoomed panel has fewer, larger cells in the same area
        size = (width * (columns / drawn[1]), self.height * (rows / drawn[0]))
        return PanelSlot(
            heatmap, cells, *size, self.top, self.gutter, self.has_row_labels,
            self.has_column_labels, panel_notes=heatmap.notes if self.has_own_notes else (),
            longest=self.longest, head_at=self.head_at, is_head_short=self.is_head_short,
            title=self.title,
        )  # fmt: skip


class PanelSlot(Struct, frozen=True, dict=True):
    """A panel and its position.

    Parameters
    ----------
    cells : QRectF
        Area of the cells.
    cell_width, cell_height : float
        Size of one cell.
    has_row_labels : bool
        Whether the panel is the first one in its row or head; the others share its labels.
    has_column_labels : bool
        Whether the keys are labelled above this panel rather than above a panel higher up.
    numbers : CellNumberFormat or None
        Format of the cells' numbers; None if the numbers do not fit.
    panel_notes : tuple of str
        Notes below the panel that the other panels of its column do not share.
    longest : float
        Width to which labels are shortened.
    head_at : tuple of float or None
        Position of the head label, relative to the corner of the cells; None without a label.
    is_head_short : bool
        Whether there is only room for the head number.
    title : TitlePlacement
        Placement of the panel's title.
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
    panel_notes: tuple[str, ...] = ()
    longest: float = MAX_LABEL_PX
    head_at: tuple[float, float] | None = None
    is_head_short: bool = False
    title: TitlePlacement = TitlePlacement.PINNED

    @cached_property
    def whole_area(self) -> QRectF:
        """The panel with its labels and colour bar; cached because it is read for every frame."""
        is_named = self.has_row_labels or (self.head_at is not None and self.head_at[0] < 0)
        left = self.cells.left() - (self.gutter if is_named else 4)
        width = max(self.cells.width() + 8, self._title_width()) + row_sums_width(self.heatmap)
        top = self.cells.top() - self.top
        height = self.top + self.cells.height() + footer_height(self.heatmap, len(self.panel_notes))
        return QRectF(left, top, self.cells.left() - left + width, height)

    @property
    def column_labels_height(self) -> float:
        """Height of the area for column labels, above the cells."""
        columns = self.heatmap.columns
        widest = widest_label_width(columns.labels)
        height = column_label_height(widest, columns.is_token, self.cell_width, self.longest)
        return height + LABEL_TOP_MARGIN_PX * text_scale()

    def cell_area(self, row: int, column: int) -> QRectF:
        """Return the area of a cell of the stage, or of the pooled cell that contains it."""
        row, column = (
            self.heatmap.rows.cell_index_of(row),
            self.heatmap.columns.cell_index_of(column),
        )
        return QRectF(
            self.cells.left() + column * self.cell_width,
            self.cells.top() + row * self.cell_height,
            self.cell_width,
            self.cell_height,
        )

    def fractional_cell_at(self, point: QPointF) -> tuple[float, float]:
        """Return the fractional row and column of the stage at a point."""
        rows, columns = self.heatmap.rows, self.heatmap.columns
        down = (point.y() - self.cells.top()) / self.cell_height
        right = (point.x() - self.cells.left()) / self.cell_width
        return (
            rows.visible_range.start + down * rows.block,
            columns.visible_range.start + right * columns.block,
        )

    def row_column_at(self, point: QPointF) -> tuple[int, int] | None:
        """Return the cell of the stage under a point; for a block, its first cell."""
        if not self.cells.contains(point):
            return None
        rows, columns = self.heatmap.values.shape
        row = int((point.y() - self.cells.top()) / self.cell_height)
        column = int((point.x() - self.cells.left()) / self.cell_width)
        row, column = min(row, rows - 1), min(column, columns - 1)
        return self.heatmap.rows.first_of_cell(row), self.heatmap.columns.first_of_cell(column)

    def _title_width(self) -> float:
        """Return the width that the column head needs."""
        if self.title is TitlePlacement.LINE:
            return panel_title_width(self.heatmap)
        return min_column_header_width(self.heatmap)

    @property
    def column_header(self) -> ColumnHeader:
        """The head of the panel's column, with the available width."""
        width = max(self.cells.width(), self._title_width())
        notes = () if self.panel_notes else shared_notes((self.heatmap,))
        return ColumnHeader(self.heatmap, self.cells.left(), width, notes)


class ColumnHeader(Struct, frozen=True):
    """Title, scale and notes above a column of panels.

    Parameters
    ----------
    heatmap : Heatmap
        First panel of the column, for the title, axes and scale.
    left, width : float
        Left edge of the cells, and the available width.
    notes : tuple of str
        Notes shared by the panels of the column.
    """

    heatmap: Heatmap
    left: float
    width: float
    notes: tuple[str, ...]


class FlowClickTarget(Struct, frozen=True):
    """A heading or tab under a point.

    Parameters
    ----------
    column : int or None
        The column of a heading; None for a tab.
    head : int or None
        The head that the tab brings to the front; None for the tab of all heads.
    """

    column: int | None = None
    head: int | None = None


class LayerWeightCell(Struct, frozen=True):
    """A weight of the layer above a column of the flow board.

    Parameters
    ----------
    at : int
        Index of the column.
    """

    at: int
    row: int
    column: int


class ContextMenuTarget(Struct, frozen=True):
    """A place on the board for which a context menu is opened.

    Parameters
    ----------
    stage : str
        The stage of a heading; empty for any other place.
    head : int or None
        The head of the tab or panel label at the place.
    is_tab : bool
        Whether the place is a tab of the flow board.
    token : int or None
        The token of a label.
    role : TokenRole
        Whether that token is a query or a key.
    """

    cell: Cell | None = None
    stage: str = ""
    head: int | None = None
    is_tab: bool = False
    token: int | None = None
    role: TokenRole = TokenRole.QUERY


class FlowPlacement(Struct, frozen=True, eq=False, weakref=True):
    """The flow board on a canvas.

    Parameters
    ----------
    slots, operands : tuple of PanelSlot or None
        The panel and the operand of each column; None if an adjacent spine represents the
        column, or if the column has no operand.
    thumbnails : tuple of PanelSlot
        The thumbnail of each head that has a tab.
    earlier : PanelSlot or None
        The state of a matrix from which playback computes the visible state, at the same position.
    """

    panels: FlowBoardPanels
    layout: FlowGeometry
    slots: tuple[PanelSlot | None, ...]
    operands: tuple[PanelSlot | None, ...]
    thumbnails: tuple[PanelSlot, ...]
    earlier: PanelSlot | None = None

    def has_earlier_state(self, slot: PanelSlot) -> bool:
        """Return whether the earlier state belongs to the matrix of a panel."""
        return self.earlier is not None and self.earlier.cells == slot.cells

    @property
    def frame_cache_key(self) -> Hashable:
        """Key for everything that is painted around the cells, except headings and scales."""
        panels = self.panels
        spines = (at for at, column in enumerate(self.layout.columns) if column.is_spine)
        return (
            self.layout,
            panels.focus,
            panels.front,
            tuple(map(self.spine_title, spines)),
            tuple((one.rows, one.columns) for one in panels.panels),
            tuple(one and (one.title, one.rows, one.columns) for one in panels.operands),
        )

    @property
    def heading_cache_keys(self) -> tuple[Hashable, ...]:
        """Keys for everything that the heading of each column shows."""
        panels = self.panels
        return tuple(
            (titles, column.states.index(panel.stage), operation, panel.colour)
            for titles, column, panel, operation in zip(
                panels.titles, panels.columns, panels.panels, panels.operations, strict=True
            )
        )

    @property
    def legend_cache_key(self) -> Hashable:
        """Key for everything that the legend shows: the scale of the weights, and the other map."""
        colours = [panel.colour for panel in self.panels.panels]
        weights = next((colour for colour in colours if not colour.is_signed), None)
        return weights, next((colour.map for colour in colours if colour.is_signed), None)

    def spine_title(self, at: int) -> str:
        """Return the title of a spine, including the columns to its right that it represents."""
        titles, columns = self.panels.titles, self.layout.columns
        last = at
        while last + 1 < len(columns) and columns[last + 1].is_hidden:
            last += 1
        first, final = titles[at][-1], titles[last][-1]
        return first if last == at else f"{first} … {final}"

    def operand_cell_at(self, point: QPointF) -> Cell | None:
        """Return the cell under a point in the keys or values above the matrices."""
        for column, slot in zip(self.panels.columns, self.operands, strict=True):
            place = slot.row_column_at(point) if slot and column.operand else None
            if slot and place:
                row, number = place[::-1] if column.is_operand_transposed else place
                head = () if slot.heatmap.head is None else (slot.heatmap.head,)
                return Cell(column.operand, (*head, row, number))
        return None

    def layer_weight_cell_at(self, point: QPointF) -> LayerWeightCell | None:
        """Return the weight under a point in the layers above the matrices."""
        for at, (column, slot) in enumerate(zip(self.panels.columns, self.operands, strict=True)):
            place = slot.row_column_at(point) if slot and not column.operand else None
            if place:
                return LayerWeightCell(at, *place)
        return None

    def parameter_of(self, cell: LayerWeightCell) -> ParameterCell:
        """Return the address of the weight at a position above a column."""
        slot = self.operands[cell.at]
        assert slot is not None
        stage = self.panels.columns[cell.at].layer_stage
        return ParameterCell(stage, slot.heatmap.head, cell.row, cell.column)

    def layer_weight_cell_of(self, parameter: ParameterCell) -> LayerWeightCell | None:
        """Return where a weight is shown, or None if it is not shown or belongs to another head."""
        for at, (column, slot) in enumerate(zip(self.panels.columns, self.operands, strict=True)):
            if slot and not column.operand and column.layer_stage == parameter.stage:
                place = LayerWeightCell(at, parameter.row, parameter.column)
                return place if self.parameter_of(place) == parameter else None
        return None

    def click_target_at(self, point: QPointF) -> FlowClickTarget | None:
        """Return the heading or tab under a point."""
        x, y = point.x(), point.y()
        for at, column in enumerate(self.layout.columns):
            if column.heading.contains(x, y):
                return FlowClickTarget(column=at)
        return self._tab_at(x, y)

    def _tab_at(self, x: float, y: float) -> FlowClickTarget | None:
        tabs, shown = self.layout.tabs, [slot.heatmap.head for slot in self.thumbnails]
        for head, tab in zip(shown, tabs.heads, strict=False):
            if tab.contains(x, y):
                return FlowClickTarget(head=head)
        for tab, turned in zip(tabs.turns, self.adjacent_page_heads, strict=True):
            if tab.contains(x, y):
                return None if turned is None else FlowClickTarget(head=turned)
        is_all = tabs.all_heads is not None and tabs.all_heads.contains(x, y)
        return FlowClickTarget() if is_all else None

    @property
    def adjacent_page_heads(self) -> tuple[int | None, ...]:
        """The heads before and after those with a tab, to which the page tabs lead."""
        if not self.layout.tabs.turns:
            return ()
        first = self.panels.first_head_with_tab(len(self.layout.tabs.heads))
        after = first + len(self.thumbnails)
        return first - 1 if first else None, after if after < self.panels.heads else None


class BoardLayout(Struct, frozen=True, dict=True):
    """Positions of all panels, and the total size.

    Parameters
    ----------
    room : int
        Number of drawn cells that fit along a panel's side, in device pixels; 0 without panels.
    placed_panels : PlacedPanels, optional
        The positions from which the layout was created.
    flow : FlowPlacement, optional
        The flow board around the cells.
    """

    slots: tuple[PanelSlot, ...]
    width: float
    height: float
    head: float
    room: int = 0
    placed_panels: PlacedPanels | None = None
    flow: FlowPlacement | None = None

    def has_same_positions(self, other: BoardLayout) -> bool:
        """Return whether both layouts are known to have the same positions."""
        if self.flow and other.flow:
            return self.flow.layout is other.flow.layout
        is_same = self.placed_panels is not None and self.placed_panels is other.placed_panels
        return is_same and (self.width, self.height) == (other.width, other.height)

    @cached_property
    def column_headers(self) -> tuple[ColumnHeader, ...]:
        """The column heads pinned at the top."""
        heads: dict[float, ColumnHeader] = {}
        for slot in self.slots:
            if slot.title is TitlePlacement.PINNED:
                heads.setdefault(slot.cells.left(), slot.column_header)  # of the first page
        return tuple(self._widened_headers(sorted(heads.values(), key=lambda head: head.left)))

    def _widened_headers(self, heads: list[ColumnHeader]) -> Iterator[ColumnHeader]:
        """Yield the heads with the width of all panels of their stage, up to the next head."""
        for number, head in enumerate(heads):
            own = (
                slot for slot in self.slots if slot.heatmap.column_key == head.heatmap.column_key
            )
            end = max((slot.cells.right() for slot in own), default=head.left)
            after = heads[number + 1].left - HEAD_GAP_PX if number + 1 < len(heads) else math.inf
            yield replace(head, width=max(head.width, min(end, after) - head.left))

    def slot_at(self, point: QPointF) -> PanelSlot | None:
        """Return the panel that has a cell at a point."""
        return next((slot for slot in self.slots if slot.cells.contains(point)), None)


def with_number_formats(slots: Sequence[PanelSlot]) -> tuple[PanelSlot, ...]:
    """Choose the number formats of panels; all panels of a stage share one format."""
    stages: dict[Hashable, list[PanelSlot]] = {}
    for slot in slots:
        stages.setdefault(slot.heatmap.column_key, []).append(slot)
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
        for found in (formats[slot.heatmap.column_key],)
    )
