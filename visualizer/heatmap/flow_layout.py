"""Places the matrices of the flow board on a canvas: pure arithmetic, without Qt.

In all matrices, the rows of tokens have the same height and the same vertical positions, so that
each token is one horizontal line. A change of focus therefore only changes the widths of cells. If
the canvas is too narrow, details are given up in a fixed order: gaps, the widths of other cells,
decimals, numbers, and then whole matrices, which become narrow spines. For a short text, the
matrices outside the head become spines before the numbers in focus are given up.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.flow_columns import FlowPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEADING_PX = 50
"""Height of the headings: name, operation and line."""
CARD_PADDING_PX, CARD_FOOT_PX = 12, 16
"""Padding inside the card, and the space below the rows for the name of the keys."""
CARD_TOP_PX = 6
EDGE_PX = 16
"""Distance from the edges of the canvas."""
STACK_EDGE_PX = 5
"""Distance between the edges of successive heads behind the card."""
MAX_STACK_EDGES = 3
OPERAND_SHARE = 0.15
MIN_OPERAND_PX, MAX_OPERAND_PX = 52, 132
MAX_OPERAND_ROW_PX = 26
OPERAND_TITLE_PX = 18
OPERAND_GAP_PX = 8
MAX_ROW_PX, MAX_BLOCK_ROW_PX = 84, 70
MIN_WHOLE_ROW_PX = 8
PAGE_ROW_PX = 24
TAB_SHARE = 0.14
MIN_TAB_PX, MAX_TAB_PX, LOW_TAB_PX = 98, 142, 72
MIN_TAB_WIDTH_PX = 68
"""Minimum width of a tab that shows the name of its head, if there are few heads."""
MIN_TAB_PITCH_PX = 30
"""Minimum distance between tabs; if all heads do not fit, the tabs are divided into pages."""
MIN_TABS = 3
"""Number of tabs that must fit next to the legend of a block."""
ALL_HEADS_TAB_PX = 60
TAB_GAP_PX = 6
LOW_WINDOW_PX = 560
LEGEND_PX = 44
"""Height of the legend below a single head, which has no tabs."""
MIN_LEGEND_PX, MAX_LEGEND_PX = 84, 110
STACKED_LEGEND_PX, LEGEND_GAP_PX = 80, 40
"""Height of two colour scales, one below the other, and the gap between scales side by side."""
RAIL_PX = 40
GAP_PX, NARROW_GAP_PX, MIN_GAP_PX, MAX_GAP_PX = 26, 16, 11, 48
NARROW_WINDOW_PX = 1300
MIN_SCORES_GAP_PX = 28
"""Minimum gap before the scores, for the symbol of the transposed keys."""
CONTEXT_GAP_FACTOR, CONTEXT_GAP_PX = 2.6, 14
"""Gap before a matrix to which ribbons lead: factor relative to other gaps, and added width."""
GAP_SHARES = (1.0, 0.8, 0.65)
NUMBER_WIDTHS = (46, 38, 31, 25)
"""Widths of cells with numbers in all matrices; the last one has room for −.25."""
SOURCE_WIDTHS = (46, 38, 32, 25)
"""Widths of source cells with numbers."""
FOCUS_WIDTHS = (46, 38, 32, 23)
MIN_NUMBERED_FOCUS_PX = 44
MAX_FOCUS_PX = 84
MAX_FOCUS_RATIO = 1.3
"""Maximum width of a cell in focus, relative to the row height."""
MAX_PATTERN_PX, MIN_PATTERN_FOCUS_PX, SMALL_PATTERN_FOCUS_PX = 40, 14, 2.5
"""Widths of focus cells without numbers: maximum, minimum, and minimum before headings are cut."""
CONTEXT_WIDTHS = (22.0, 20.0, 17.0, 14.0, 12.0, 10.0, 8.0, 6.5, 5.0, 4.0, 3.0)
MIN_CELL_PX = 2.5
POOLED_WIDTHS = (1.5, 1.0)
"""Cell widths that are tried before headings are cut."""
MAX_STAGE_PX, MAX_TOKEN_STAGE_PX = 104, 150
SPINE_PX = 22
FOLD_LEVELS = range(8)
CUT_TITLES_LEVEL = 7
"""First level at which headings may be cut."""
MERGED_SPINES_LEVEL = 5
"""First level at which adjacent spines are merged."""
NARROWEST_FOCUS_PX = 1.0
MIN_READ_ROW_PX, NUMBERED_LEVELS = 32, range(MERGED_SPINES_LEVEL)
"""Minimum height of rows with readable numbers, and the levels that keep numbers if possible."""


class ColumnConstraints(Struct, frozen=True):
    """Properties that determine the width of a column.

    Parameters
    ----------
    cells : int
        Number of drawn cells per row.
    title_width : float
        Width of the heading.
    operand_rows : int
        Number of rows in the operand above the column; 0 if there is none.
    is_source : bool
        Whether the matrix in focus is computed from the column.
    fold_level : int
        Level of sacrifice at which the column becomes a spine; 0 if it never does.
    has_ribbons : bool
        Whether ribbons lead to the column from the left; these need a wide gap.
    sums_width : float
        Width of the row sums to the right of the cells.
    states_width : float
        Additional width of the heading for the dots and the longest title of its states.
    """

    cells: int
    part: FlowPart
    title_width: float = 0.0
    operand_rows: int = 0
    is_query_key: bool = False
    is_focus: bool = False
    is_source: bool = False
    fold_level: int = 0
    has_ribbons: bool = False
    sums_width: float = 0.0
    states_width: float = 0.0


class FlowConstraints(Struct, frozen=True):
    """The canvas and everything that all columns share.

    Parameters
    ----------
    row_label_width : float
        Width of the longest row label.
    key_label_height : float
        Height of the labels above the matrix in focus.
    has_residual : bool
        Whether there is a line for the residual stream below the columns.
    is_page : bool
        Whether the board is a figure, which cannot be clicked and has no tab for all heads.
    scale : float
        Text size relative to the normal size.
    upright_label_height : float
        Height of upright words above the keys, if the cells are too narrow for horizontal words.
    """

    width: float
    height: float
    rows: int
    heads: int
    row_label_width: float
    key_label_height: float = 20.0
    has_residual: bool = False
    is_page: bool = False
    scale: float = 1.0
    upright_label_height: float = 0.0


class Box(Struct, frozen=True):
    """A rectangle."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> tuple[float, float]:
        """The centre."""
        return self.left + self.width / 2, self.top + self.height / 2

    def contains(self, x: float, y: float) -> bool:
        """Return whether a point is inside."""
        return self.left <= x < self.right and self.top <= y < self.bottom


class PlacedColumn(Struct, frozen=True):
    """Position of a column.

    Parameters
    ----------
    cells : Box
        Area of the cells; its width is 0 if an adjacent spine represents the column.
    operand : Box or None
        Area of the operand above the column; None if there is none.
    heading : Box
        Area of the heading with the line.
    is_spine : bool
        Whether the column is too narrow to show its cells.
    """

    cells: Box
    cell_width: float
    operand: Box | None
    heading: Box
    is_spine: bool

    @property
    def is_hidden(self) -> bool:
        """Whether an adjacent spine represents the column."""
        return self.cells.width == 0


class TabPositions(Struct, frozen=True):
    """Positions of the tabs below the card; all empty for a single head.

    Parameters
    ----------
    heads : tuple of Box
        A thumbnail for each head, or for each head of a page if there are too many heads.
    turns : tuple of Box
        The tabs for the previous and the next page; empty if there is only one page.
    all_heads : Box or None
        The tab for all heads; None in a figure.
    """

    heads: tuple[Box, ...] = ()
    turns: tuple[Box, ...] = ()
    all_heads: Box | None = None

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All tabs from left to right."""
        last = (self.all_heads,) if self.all_heads else ()
        return (*self.turns[:1], *self.heads, *self.turns[1:], *last)


class FlowGeometry(Struct, frozen=True):
    """Positions of everything on the board.

    Parameters
    ----------
    row_labels : Box
        Area for the row labels, aligned with the rows.
    card : Box or None
        Area around the matrices of a head.
    legend : Box
        Area for the colour scales; its width is 0 if they do not fit.
    residual_line : float or None
        Vertical position of the residual stream.
    """

    size: FlowConstraints
    row_height: float
    columns: tuple[PlacedColumn, ...]
    row_labels: Box
    card: Box | None
    stack_edges: int
    tabs: TabPositions
    legend: Box
    residual_line: float | None

    @property
    def rows_top(self) -> float:
        """Top of the first row."""
        return self.row_labels.top

    @property
    def bottom(self) -> float:
        """Lower edge of the board's content."""
        line = 0.0 if self.residual_line is None else self.residual_line
        legend = self.legend.bottom if self.legend.width else 0.0
        edges = (self.row_labels.bottom, legend, line, *(tab.bottom for tab in self.tabs.boxes))
        return max(edges) + EDGE_PX * self.size.scale


class _CellWidths(Struct, frozen=True):
    """Cell widths and the gap, with their level of sacrifice."""

    level: int
    gap: float
    cells: tuple[float, ...]


class FlowLayoutBuilder:
    """Finds the widths of all columns for one canvas."""

    def __init__(self, columns: Sequence[ColumnConstraints], size: FlowConstraints) -> None:
        self._columns, self._size, self._scale = columns, size, size.scale
        self._has_card = any(column.part is FlowPart.HEADS for column in columns)
        self.stack_edges = min(MAX_STACK_EDGES, size.heads - 1) if self._has_card else 0
        self.label_width = size.row_label_width + 8 * size.scale
        self.row_height, self.rows_top = self._row_height_and_top()

    # ------------------------------------------------------------------ vertical positions

    @property
    def operand_height(self) -> float:
        """Height of the area for operands and for the labels above the matrix in focus."""
        most = max((column.operand_rows for column in self._columns), default=0)
        share = min(MAX_OPERAND_PX * self._scale, OPERAND_SHARE * self._size.height)
        zone = max(MIN_OPERAND_PX * self._scale, share) if most else 0.0
        need = min(zone, most * MAX_OPERAND_ROW_PX * self._scale)
        return max(need, self._size.key_label_height - OPERAND_TITLE_PX * self._scale)

    @property
    def tab_height(self) -> float:
        """Height of the head tabs or the legend."""
        if not self.has_tabs:
            return LEGEND_PX * self._scale
        if self._size.height < LOW_WINDOW_PX * self._scale:
            return LOW_TAB_PX * self._scale
        share = max(MIN_TAB_PX * self._scale, TAB_SHARE * self._size.height)
        return min(MAX_TAB_PX * self._scale, share)

    @property
    def has_tabs(self) -> bool:
        """Whether there is more than one head."""
        return self._size.heads > 1 and self._has_card

    @property
    def height_below_rows(self) -> float:
        """Height below the rows."""
        scale = self._scale
        below = CARD_FOOT_PX * scale + self.tab_height + EDGE_PX * scale / 2
        return below + (RAIL_PX * scale if self._size.has_residual else 0)

    def _transposed_keys_height(self, rows: int) -> float:
        """Return the height of transposed keys that leaves room for upright words above."""
        room = self.operand_height + (OPERAND_TITLE_PX + CARD_TOP_PX) * self._scale
        return max(MIN_WHOLE_ROW_PX * self._scale * rows, room - self._size.upright_label_height)

    def _row_height_and_top(self) -> tuple[float, float]:
        """Return the row height and the top of the first row."""
        scale, size = self._scale, self._size
        above = (HEADING_PX + CARD_TOP_PX + CARD_PADDING_PX + OPERAND_TITLE_PX) * scale
        top = above + self.operand_height + OPERAND_GAP_PX * scale
        free = max(1.0, size.height - top - self.height_below_rows)
        largest = (MAX_BLOCK_ROW_PX if size.has_residual else MAX_ROW_PX) * scale
        height = min(largest, free / size.rows)
        return float(int(height)) if height >= MIN_WHOLE_ROW_PX else height, top

    # ------------------------------------------------------------------ horizontal positions

    def choose_widths(self) -> _CellWidths:
        """Return the widths that fit with the fewest sacrifices."""
        found = next(self._fitting_widths(), None)
        return self._grow_widths(found or self._narrowest_widths())

    def _fitting_widths(self) -> Iterator[_CellWidths]:
        scale = self._scale
        usual = GAP_PX if self._size.width >= NARROW_WINDOW_PX * scale else NARROW_GAP_PX
        gaps = [max(MIN_GAP_PX, usual * share) * scale for share in GAP_SHARES]
        gaps.append(MIN_GAP_PX * scale)
        if self.row_height >= MIN_READ_ROW_PX * scale:
            for level in filter(self._can_fit, NUMBERED_LEVELS):
                for gap in gaps:
                    yield from self._widths_with_all_numbers(level, gap)
                for gap in gaps:
                    yield from self._widths_with_focus_numbers(
                        level, gap, is_narrowest=gap == gaps[-1]
                    )
        for level in filter(self._can_fit, FOLD_LEVELS):
            for gap in gaps if level < FOLD_LEVELS[-1] else gaps[-1:]:
                yield from self._widths_with_all_numbers(level, gap)
                yield from self._widths_with_focus_numbers(level, gap, is_narrowest=gap == gaps[-1])
                yield from self._widths_without_numbers(level, gap)

    def _can_fit(self, level: int) -> bool:
        """Return whether the narrowest cells fit at a level of sacrifice.

        Most levels have too many matrices. Without this check, all of their widths would be tried,
        which takes most of the time of a layout.
        """
        focus, others = self._pattern_widths(level)
        cells = self._cell_widths_by_role(level, focus, others[-1], others[-1])
        return self._fits(level, MIN_GAP_PX * self._scale, cells)

    def _pattern_widths(self, level: int) -> tuple[float, tuple[float, ...]]:
        """Return the narrowest focus cells without numbers, and the widths of other cells."""
        is_last = level >= CUT_TITLES_LEVEL - 1
        narrowest = SMALL_PATTERN_FOCUS_PX if is_last else MIN_PATTERN_FOCUS_PX
        row = self.row_height / self._scale
        least = min(row, narrowest) if level < FOLD_LEVELS[-1] else NARROWEST_FOCUS_PX
        return least, (*CONTEXT_WIDTHS[4:], MIN_CELL_PX, *(POOLED_WIDTHS if is_last else ()))

    def _widths_with_all_numbers(self, level: int, gap: float) -> Iterator[_CellWidths]:
        """Yield widths with numbers in all cells, or only in the focus and its sources."""
        scale = self._scale
        for width in NUMBER_WIDTHS:
            cells = [
                self._limit_cell_width(at, width * scale, level, is_capped=False)
                for at in self._column_indices
            ]
            yield from self._widths_if_fitting(level, gap, cells)
        for source in SOURCE_WIDTHS:
            yield from self._context_widths(
                level, gap, NUMBER_WIDTHS[0], source, CONTEXT_WIDTHS[:7]
            )

    def _widths_with_focus_numbers(
        self, level: int, gap: float, *, is_narrowest: bool
    ) -> Iterator[_CellWidths]:
        for focus in FOCUS_WIDTHS:
            if focus < MIN_NUMBERED_FOCUS_PX and not is_narrowest:
                return
            yield from self._context_widths(level, gap, focus, None, CONTEXT_WIDTHS[1:])

    def _context_widths(
        self, level: int, gap: float, focus: float, source: float | None, others: Sequence[float]
    ) -> Iterator[_CellWidths]:
        """Yield widths that fit, in descending order of the context cells' width.

        The narrowest width is tried first, because in most cases, even that does not fit.

        Parameters
        ----------
        source : float or None
            Width of the source cells; None for the width of the context cells.
        """
        roles = [(focus, source or other, other) for other in others]
        if self._fits(level, gap, self._cell_widths_by_role(level, *roles[-1])):
            for role in roles:
                yield from self._widths_if_fitting(
                    level, gap, self._cell_widths_by_role(level, *role)
                )

    def _widths_without_numbers(self, level: int, gap: float) -> Iterator[_CellWidths]:
        """Yield widths that show patterns without numbers."""
        least, others = self._pattern_widths(level)
        most = min(self.row_height / self._scale, MAX_PATTERN_PX)
        best: tuple[float, float] | None = None
        for other in others:
            cells = self._cell_widths_by_role(level, least, other, other)
            spare = self._size.width - self._total_width(level, gap, cells)
            if spare >= 0:
                wider = spare / self._scale / max(1, self._focus_cells)
                best = max(best or (0.0, 0.0), (min(most, least + wider), other))
        if best:
            yield from self._widths_if_fitting(
                level, gap, self._cell_widths_by_role(level, best[0], best[1], best[1])
            )

    @property
    def _focus_cells(self) -> int:
        return next((column.cells for column in self._columns if column.is_focus), 1)

    def _narrowest_widths(self) -> _CellWidths:
        """Return widths that fill the space between the spines and gaps, however small it is."""
        level, gap = FOLD_LEVELS[-1], MIN_GAP_PX * self._scale
        cells = self._cell_widths_by_role(level, NARROWEST_FOCUS_PX, MIN_CELL_PX, MIN_CELL_PX)
        nothing = [0.0] * len(cells)
        while gap > 1 and self._total_width(level, gap, nothing) > self._size.width / 2:
            gap -= 1
        room = self._size.width - self._total_width(level, gap, nothing)
        whole = self._total_width(level, gap, cells) - self._total_width(level, gap, nothing)
        share = max(0.0, min(1.0, room / whole)) if whole else 1.0
        return _CellWidths(level, gap, tuple(width * share for width in cells))

    @property
    def _column_indices(self) -> range:
        return range(len(self._columns))

    def _cell_widths_by_role(
        self, level: int, focus: float, source: float, other: float
    ) -> list[float]:
        scale = self._scale
        widths = []
        for at, column in enumerate(self._columns):
            if column.is_focus:
                limit = max(self.row_height * MAX_FOCUS_RATIO, NUMBER_WIDTHS[0] * scale)
                widths.append(min(focus * scale, limit))
            else:
                is_numbered = column.is_source and source >= SOURCE_WIDTHS[-1]
                width = source if column.is_source else other
                widths.append(
                    self._limit_cell_width(at, width * scale, level, is_capped=not is_numbered)
                )
        return widths

    def _limit_cell_width(self, at: int, width: float, level: int, *, is_capped: bool) -> float:
        """Return the width of a cell within the limits of its column; a spine has a fixed width."""
        column = self._columns[at]
        if self.is_spine(at, level):
            return SPINE_PX * self._scale / column.cells
        if not is_capped:
            return width
        is_wide = column.is_query_key or column.part is not FlowPart.HEADS
        most = (MAX_TOKEN_STAGE_PX if is_wide else MAX_STAGE_PX) * self._scale
        return max(min(width, most / column.cells), min(width, MIN_CELL_PX * self._scale))

    def is_spine(self, at: int, level: int) -> bool:
        """Return whether a column is a spine at the given level of sacrifice."""
        column = self._columns[at]
        return not column.is_focus and 0 < column.fold_level <= level

    def is_hidden(self, at: int, level: int) -> bool:
        """Return whether the spine to the left of a column also represents it."""
        if level < MERGED_SPINES_LEVEL or at == 0 or not self.is_spine(at, level):
            return False
        is_same_part = self._columns[at].part is self._columns[at - 1].part
        return is_same_part and self.is_spine(at - 1, level)

    def _widths_if_fitting(
        self, level: int, gap: float, cells: list[float]
    ) -> Iterator[_CellWidths]:
        if self._fits(level, gap, cells):
            yield _CellWidths(level, gap, tuple(cells))

    def _fits(self, level: int, gap: float, cells: Sequence[float]) -> bool:
        return self._total_width(level, gap, cells) <= self._size.width

    def column_width(self, at: int, level: int, cell: float) -> float:
        """Return the width of a column including its heading."""
        if self.is_hidden(at, level):
            return 0.0
        column = self._columns[at]
        width = cell * column.cells
        if not self.is_spine(at, level):
            width += column.sums_width
        is_cut = self.is_spine(at, level) or level >= CUT_TITLES_LEVEL
        states = column.states_width if level < MERGED_SPINES_LEVEL else 0.0
        return width if is_cut else max(width, column.title_width + states)

    def gap_before(self, at: int, level: int, gap: float) -> float:
        """Return the gap between a column and the one to its left."""
        if at == 0 or self.is_hidden(at, level):
            return 0.0
        column, before = self._columns[at], self._columns[at - 1]
        if column.has_ribbons:
            return gap * CONTEXT_GAP_FACTOR + CONTEXT_GAP_PX * self._scale
        if column.is_query_key and column.operand_rows:
            gap = max(gap, MIN_SCORES_GAP_PX * self._scale)
        if column.part is not before.part:
            gap += 2 * CARD_PADDING_PX * self._scale
            gap += (
                STACK_EDGE_PX
                * self._scale
                * (self.stack_edges if before.part is FlowPart.HEADS else 0)
            )
        return gap

    def margins(self) -> tuple[float, float]:
        """Return the margins to the left and right of the columns."""
        scale, columns = self._scale, self._columns
        left = EDGE_PX * scale + self.label_width
        right = EDGE_PX * scale
        if columns and columns[0].part is FlowPart.HEADS:
            left += CARD_PADDING_PX * scale
        if columns and columns[-1].part is FlowPart.HEADS:
            right += (CARD_PADDING_PX + STACK_EDGE_PX * self.stack_edges) * scale
        return left, right

    def _total_width(self, level: int, gap: float, cells: Sequence[float]) -> float:
        columns = sum(
            self.column_width(at, level, cell) + self.gap_before(at, level, gap)
            for at, cell in enumerate(cells)
        )
        return sum(self.margins()) + columns

    def _grow_widths(self, found: _CellWidths) -> _CellWidths:
        """Widen the focus to its limit, then the gaps; other cells fill their headings."""
        scale = self._scale
        spare = self._size.width - self._total_width(found.level, found.gap, found.cells)
        cells = [
            max(cell, self._max_cell_width_in_column(at, found.level, cell))
            for at, cell in enumerate(found.cells)
        ]
        for at, column in enumerate(self._columns):
            if column.is_focus and column.cells and spare > 0:
                limit = min(MAX_FOCUS_PX * scale, MAX_FOCUS_RATIO * self.row_height)
                wider = max(cells[at], min(limit, cells[at] + spare / column.cells))
                cells[at] = self._round_down_to_pixel(wider, cells[at])
        gap, most = found.gap, MAX_GAP_PX * scale
        while gap + 1 <= most and self._fits(found.level, gap + 1, cells):
            gap += 1
        return _CellWidths(found.level, gap, tuple(cells))

    def _max_cell_width_in_column(self, at: int, level: int, cell: float) -> float:
        """Return the width that the cells of a column can have without widening the column."""
        column = self._columns[at]
        if self.is_spine(at, level) or not column.cells:
            return cell
        room = self.column_width(at, level, cell) - column.sums_width
        return min(room / column.cells, NUMBER_WIDTHS[0] * self._scale)

    @staticmethod
    def _round_down_to_pixel(wider: float, least: float) -> float:
        return max(float(int(wider)), least) if wider >= MIN_WHOLE_ROW_PX else wider

    def create_layout(self) -> FlowGeometry:
        """Return the positions of everything."""
        found = self.choose_widths()
        total = self._total_width(found.level, found.gap, found.cells)
        left = self.margins()[0] + max(0.0, (self._size.width - total) / 2)
        bottom = self.rows_top + self.row_height * self._size.rows
        placed, x = [], left
        for at, cell in enumerate(found.cells):
            x += self.gap_before(at, found.level, found.gap)
            width = self.column_width(at, found.level, cell)
            placed.append(self._place_column(at, x, cell, width, found.level))
            x += width
        card = self._place_card(placed, bottom)
        tabs = self._place_tabs(card)
        labels = Box(
            left - self.label_width - (self._first_column_padding()), self.rows_top,
            self.label_width, bottom - self.rows_top,
        )  # fmt: skip
        return FlowGeometry(
            self._size,
            self.row_height,
            tuple(placed),
            labels,
            card,
            self.stack_edges,
            tabs,
            self._place_legend(bottom, card, tabs),
            self._residual_line(bottom),
        )

    def _first_column_padding(self) -> float:
        is_in_card = self._columns and self._columns[0].part is FlowPart.HEADS
        return CARD_PADDING_PX * self._scale if is_in_card else 0.0

    def _place_column(
        self, at: int, left: float, cell: float, width: float, level: int
    ) -> PlacedColumn:
        column, is_spine = self._columns[at], self.is_spine(at, level)
        shown = 0.0 if self.is_hidden(at, level) else cell * column.cells
        if not shown:  # on the spine that represents it
            left -= SPINE_PX * self._scale / 2
        cells = Box(left, self.rows_top, shown, self.row_height * self._size.rows)
        operand = None
        if column.operand_rows and not is_spine:
            row = min(MAX_OPERAND_ROW_PX * self._scale, self.operand_height / column.operand_rows)
            height = row * column.operand_rows
            if column.is_query_key and cell < self._size.upright_label_height:
                height = min(height, self._transposed_keys_height(column.operand_rows))
            top = self.rows_top - OPERAND_GAP_PX * self._scale - height
            operand = Box(left, top, shown, height)
        heading = Box(left, 0, width, HEADING_PX * self._scale)
        return PlacedColumn(cells, cell, operand, heading, is_spine)

    def _place_card(self, placed: Sequence[PlacedColumn], bottom: float) -> Box | None:
        inside = [
            one
            for one, column in zip(placed, self._columns, strict=True)
            if column.part is FlowPart.HEADS
        ]
        if not inside:
            return None
        padding = CARD_PADDING_PX * self._scale
        left, right = inside[0].heading.left - padding, inside[-1].heading.right + padding
        top = (HEADING_PX + CARD_TOP_PX) * self._scale
        return Box(left, top, right - left, bottom + CARD_FOOT_PX * self._scale - top)

    def _place_tabs(self, card: Box | None) -> TabPositions:
        """Return tabs of equal size below the card, at most as wide as they are high."""
        if card is None or not self.has_tabs:
            return TabPositions()
        scale, heads, size = self._scale, self._size.heads, self._size
        gap, last = TAB_GAP_PX * scale, 0.0 if size.is_page else ALL_HEADS_TAB_PX * scale
        room = self._right_end_below(card) - card.left - last
        least, turns = MIN_TAB_PITCH_PX * scale, 0
        legend = (MIN_LEGEND_PX + EDGE_PX) * scale
        if size.has_residual and room - legend >= MIN_TABS * least:
            room -= legend  # which has no other place
        if heads * least > room and not size.is_page:
            turns = 2
            most = max(1, int(room / least) - turns)
            heads = math.ceil(heads / math.ceil(heads / most))
        widest = max(self.tab_height - 16 * scale, MIN_TAB_WIDTH_PX * scale) + gap
        pitch = min(widest, room / (heads + turns))
        width = max(1.0, pitch - min(gap, pitch / 4))
        boxes = [
            Box(card.left + at * pitch, card.bottom, width, self.tab_height)
            for at in range(heads + turns)
        ]
        end = card.left + (heads + turns) * pitch
        return TabPositions(
            tuple(boxes[1:-1] if turns else boxes),
            (boxes[0], boxes[-1]) if turns else (),
            Box(end, card.bottom, last - gap, self.tab_height) if last else None,
        )

    def _right_end_below(self, card: Box) -> float:
        """Return the right end of tabs and legend; lines of the residual stream are beyond it."""
        return card.right if self._size.has_residual else self._size.width - EDGE_PX * self._scale

    def _place_legend(self, bottom: float, card: Box | None, tabs: TabPositions) -> Box:
        """Return the area for the scales: to the left or right of the tabs, or below them."""
        scale = self._scale
        left, top = EDGE_PX * scale, bottom + 2 * CARD_PADDING_PX * scale
        if not tabs.heads or card is None:
            if self._size.has_residual and card:  # the line of the residual stream is to the left
                left = card.left + CARD_PADDING_PX * scale
                return Box(left, top, card.right - left, LEGEND_PX * scale)
            return Box(left, top, self._size.width - 2 * left, LEGEND_PX * scale)
        height = self.tab_height - CARD_PADDING_PX * scale
        before = card.left - left - CARD_PADDING_PX * scale
        start = tabs.boxes[-1].right + EDGE_PX * scale
        after = self._right_end_below(card) - start
        if (
            height < STACKED_LEGEND_PX * scale
            and after >= (2 * MIN_LEGEND_PX + LEGEND_GAP_PX) * scale
        ):
            return Box(start, top, after, height)
        if before >= MIN_LEGEND_PX * scale and not self._size.has_residual:
            return Box(left, top, min(before, MAX_LEGEND_PX * scale), height)
        is_enough = after >= MIN_LEGEND_PX * scale
        return Box(start, top, min(after, MAX_LEGEND_PX * scale) if is_enough else 0.0, height)

    def _residual_line(self, bottom: float) -> float | None:
        if not self._size.has_residual:
            return None
        scale = self._scale
        return bottom + CARD_FOOT_PX * scale + self.tab_height + RAIL_PX * scale / 2


@lru_cache(maxsize=8)
def lay_out_flow(columns: tuple[ColumnConstraints, ...], size: FlowConstraints) -> FlowGeometry:
    """Place the columns of the flow on a canvas; cached, because most changes do not move them."""
    return FlowLayoutBuilder(columns, size).create_layout()


def readable_figure_height(columns: Sequence[ColumnConstraints], size: FlowConstraints) -> float:
    """Return the height of a figure in which the rows are readable."""
    arranger = FlowLayoutBuilder(columns, size)
    rows = size.rows * PAGE_ROW_PX * size.scale
    return arranger.rows_top + rows + arranger.height_below_rows
