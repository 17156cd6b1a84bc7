"""Chooses the arrangement of a board's panels: bands, groups of heads, pages and size.

Of all arrangements that fit in both directions, the one with the largest panels is chosen. The
current arrangement is kept unless another one is at least 1.5 times as good. The geometry is
computed from token counts only, whether or not cells are pooled. Lengths are in logical pixels of
the window.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.heatmap.panel_margins import (
    HEAD_HEIGHT_PX,
    MAX_LABEL_PX,
    MIN_GUTTER_PX,
    NOTE_HEIGHT_PX,
    column_label_height,
    footer_height,
    head_label_width,
    label_overhang,
    min_column_header_width,
    panel_title_width,
    row_sums_width,
    widest_label_width,
    widest_row_label_width,
)
from visualizer.widgets.fonts import font_metrics, text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from visualizer.heatmap.board import Board, Heatmap

    FoundLanes = tuple[float, int, list[tuple[tuple[int, ...], int]]]

MAX_CELL_PX = 144
"""Maximum side of a cell, in pixels."""
MIN_SIDE_PX = 48
"""Minimum side of a panel, in pixels; if such panels do not fit, the board scrolls."""
READABLE_CELL_PX = 32
"""Side, in pixels, of a cell with room for its number; the target size for short texts."""
MAX_SHORT_TEXT_TOKENS = 12
COMFORTABLE_SIDE, COMFORTABLE_CELL = 128, 22
"""Sides, in pixels, of a panel and of a cell; a panel that reaches either is large enough."""
COMFORTABLE_GRID_SIDE_PX = 96
"""Side of a panel that is large enough if only one stage is shown, in pixels."""
GAP, GROUP_GAP, EDGE = 16, 28, 12
LABEL_TOP_MARGIN_PX = 8
"""Space above the key labels; highlighted labels are bold, and therefore longer."""
HEAD_LABEL_HEIGHT_PX = 20
"""Height of the line with the head's label, above a row of panels without column labels."""
BOTTOM_MARGIN_PX = 4
LABEL_LENGTH_WEIGHTS = ((MAX_LABEL_PX, 1.0), (56, 0.93), (36, 0.88))
"""Maximum label lengths in pixels, each with the weight of an arrangement that uses it."""
EXTRA_BAND_WEIGHT = 0.8
"""Weight of an arrangement per additional band or group."""
CURRENT_ARRANGEMENT_WEIGHT = 1.5
"""Weight of the current arrangement relative to others."""
MIN_PAGING_GAIN = 1.3
"""Gain in panel size that justifies fewer heads per page if no arrangement is comfortable."""
MAX_BANDS = 4
FEATURE, WIDEST_FEATURE, WIDEST_ONLY_FEATURE = 12, 64, 96
"""Width limits of a feature column: minimum, maximum, and maximum if it is the only column."""
FEATURE_WIDTH_SHARE = 0.6
"""Width of a feature cell relative to a token cell, and of feature panels relative to token
panels."""


class PanelArrangement(Struct, frozen=True):
    """Arrangement of a board's panels.

    Parameters
    ----------
    bands : tuple of tuple of int
        Indices of the board's columns in each band. Bands are stacked vertically.
    groups : int
        Number of groups of heads placed side by side; for a single stage, the number of heads per
        row.
    heads : int
        Number of heads per page.
    longest : float
        Width to which labels are shortened.
    side : float
        Side of a panel that shows all tokens, rounded down to what whole pixels can fill.
    is_paged : bool
        Whether heads are split into pages; otherwise all heads are stacked vertically.
    """

    bands: tuple[tuple[int, ...], ...]
    groups: int
    heads: int
    longest: float
    side: float = 0.0
    is_paged: bool = False

    @property
    def rows(self) -> int:
        """Number of rows of heads on a page."""
        return -(-self.heads // self.groups)

    def has_same_structure(self, other: PanelArrangement | None) -> bool:
        """Return whether another arrangement has the same structure, at any size."""
        return other is not None and (self.groups, self.heads, len(self.bands)) == (
            other.groups,
            other.heads,
            len(other.bands),
        )


class ColumnMetrics:
    """The measures of one column that affect the placement of the board's panels.

    Parameters
    ----------
    column : tuple of Heatmap
        The panels of a stage.
    has_other_rows : bool
        Whether the row tokens differ from those of the preceding column.
    """

    def __init__(self, column: tuple[Heatmap, ...], has_other_rows: bool) -> None:
        first = column[0]
        self.count = len(column)
        self.is_headed = bool(first.label)
        self.is_token = first.columns.is_token
        self.rows, self.columns = len(first.rows.labels), len(first.columns.labels)
        self.drawn = first.side
        self.narrowest = max(map(min_column_header_width, column))
        if not self.is_headed:  # it may be below another panel, with a one-line title
            self.narrowest = max(self.narrowest, panel_title_width(first))
        self.sums = max(map(row_sums_width, column))
        self.has_shared_notes = len({one.notes for one in column}) == 1
        shared = len(first.notes) if self.has_shared_notes else 0
        self.notes = shared
        self.footer_height = max(footer_height(one, len(one.notes) - shared) for one in column)
        self.widest_row = max(widest_row_label_width(one.rows) for one in column)
        self.widest_key = widest_label_width(first.columns.labels) if self.is_token else 0.0
        self.has_own_labels = has_other_rows
        self.has_other_keys = len({one.columns.labels for one in column}) > 1
        self.head_width = max(head_label_width(one, is_short=False) for one in column)
        self.short_head_width = max(head_label_width(one, is_short=True) for one in column)


class BoardMetrics:
    """Computes the sizes and positions of a board's parts on a canvas, for any arrangement.

    Parameters
    ----------
    width, height : float
        Size of the canvas.
    pixel_ratio : float
        Device pixels per logical pixel.
    """

    def __init__(self, board: Board, width: float, height: float, pixel_ratio: float) -> None:
        self.width, self.height, self.pixel_ratio = width, height, pixel_ratio
        self.scale = text_scale()
        self.line = font_metrics(12).height()
        self.largest_cell = MAX_CELL_PX * self.scale
        rows = [column[0].rows.labels for column in board.columns]
        self.columns = [
            ColumnMetrics(column, at > 0 and rows[at] != rows[at - 1])
            for at, column in enumerate(board.columns)
        ]
        self.heads = max(column.count for column in self.columns)
        self.is_grid = len(self.columns) == 1 and self.heads > 1
        self.has_alike_rows = not self.is_grid or (
            len({one.rows.labels for one in board.columns[0]}) == 1
        )
        self.tokens = max(max(one.rows, one.columns if one.is_token else 0) for one in self.columns)
        self._heights_by_band: dict[Hashable, tuple[float, float, float, float]] = {}
        self._lane_widths: dict[Hashable, FoundLanes] = {}
        self._column_widths: dict[float, list[float]] = {}
        self._gutter_widths: dict[float, float] = {}
        self.has_other_keys = any(one.has_other_keys for one in self.columns)
        self.notes_lines = max(len(shared_notes(column)) for column in board.columns)

    def panel_sides(self) -> list[float]:
        """Return the panel sides that fill whole pixels, in ascending order; the first pool cells.

        Sides below `MIN_SIDE_PX` are omitted unless even the largest cells give a smaller side.
        """
        ratio, tokens = self.pixel_ratio, self.tokens
        least = MIN_SIDE_PX * self.scale * ratio
        pooled = sorted({-(-tokens // block) for block in range(2, int(tokens / least) + 1)})
        largest = int(self.largest_cell * ratio + 1e-6)
        first = min(largest, math.ceil(least / tokens))
        sides = [*pooled, *(tokens * pixels for pixels in range(first, largest + 1))]
        return [side / ratio for side in sides]

    def fits(self, one: PanelArrangement, side: float, height: float) -> bool:
        """Return whether panels with this side fit in this arrangement."""
        return self.arrangement_height(one, side) <= height and all(
            self.band_width(one, band, side) <= self.width for band in one.bands
        )

    def arrangement_height(self, one: PanelArrangement, side: float) -> float:
        """Return the total height as in `cell_top_edges`; called thousands of times per search."""
        whole = GAP * self.scale * (len(one.bands) - 1) + BOTTOM_MARGIN_PX * self.scale
        for band in one.bands:
            first, next_, below, head = self._band_heights(band, one.longest, side)
            rows = self.count_rows_of_band(one, band)
            whole += (
                head + first + (rows - 1) * next_ + rows * (below + BOTTOM_MARGIN_PX * self.scale)
            )
        return whole

    def _band_heights(
        self, band: tuple[int, ...], longest: float, side: float
    ) -> tuple[float, float, float, float]:
        """Return heights in a band: above the first and above other rows, of cells and of heads."""
        key = (band, longest, side)
        found = self._heights_by_band.get(key)
        if found is None:
            one = PanelArrangement((band,), 1, 1, longest)
            found = self._heights_by_band[key] = (
                self.height_above_cells(one, band, 0, side),
                self.height_above_cells(one, band, 1, side),
                self.cells_height_with_footer(band, side),
                self.column_header_height(side),
            )
        return found

    def band_width(self, one: PanelArrangement, band: tuple[int, ...], side: float) -> float:
        """Return the width of a band; called thousands of times per search."""
        key = (band, one.rows, one.groups)
        if key not in self._lane_widths:
            lanes = self._group_lanes(band, one.rows, one.groups)
            counted = Counter(lane for lane, _, _, _ in lanes)
            fixed = 2 * EDGE * self.scale + sum(gap for _, _, gap, _ in lanes)
            named = sum(has_gutter for *_, has_gutter in lanes)
            self._lane_widths[key] = fixed, named, [*counted.items()]
        gaps, gutters, times = self._lane_widths[key]
        if side not in self._column_widths:
            self._column_widths[side] = [
                self.outer_column_width(at, self.min_width(at, side))
                for at in range(len(self.columns))
            ]
        widths = self._column_widths[side]
        return (
            gaps
            + gutters * self.gutter_width(one.longest)
            + sum(
                (widths[lane[0]] if len(lane) == 1 else max(widths[at] for at in lane)) * count
                for lane, count in times
            )
        )

    def gutter_width(self, longest: float) -> float:
        """Return the width of the row labels, including their margin."""
        if longest not in self._gutter_widths:
            self._gutter_widths[longest] = self._measure_gutter(longest)
        return self._gutter_widths[longest]

    def _measure_gutter(self, longest: float) -> float:
        widest = min(max(one.widest_row for one in self.columns), longest)
        heads = 0.0 if self.is_grid else max(one.short_head_width for one in self.columns)
        beside = label_overhang(0.0)  # of the first key's label, if vertical
        return max(24 * self.scale, widest + 10 * self.scale, heads + beside)

    def column_header_height(self, side: float) -> float:
        """Return the height of the column heads, including their notes.

        If panels are pooled, a line is reserved for the note about pooling, which disappears after
        zooming in: content under the pointer must not move.
        """
        room = self.cells_per_side(side)
        is_pooled = any(max(one.rows, one.columns) > room for one in self.columns)
        return (HEAD_HEIGHT_PX + NOTE_HEIGHT_PX * max(self.notes_lines, is_pooled)) * self.scale

    def lanes_of_band(self, band: tuple[int, ...], rows: int) -> list[tuple[int, ...]]:
        """Return the lanes of a band, which are side by side; each contains one or more stages.

        Neighbouring stages without heads are stacked vertically if there are enough rows.
        """
        is_headed = any(self.columns[at].is_headed for at in band)
        lanes: list[tuple[int, ...]] = []
        for at in band:
            one = self.columns[at]
            is_alike = not one.is_headed and not one.has_own_labels and is_headed
            if lanes and is_alike and lanes[-1][-1] == at - 1 and len(lanes[-1]) < rows and (
                not self.columns[at - 1].is_headed
            ):  # fmt: skip
                lanes[-1] = (*lanes[-1], at)
            else:
                lanes.append((at,))
        return lanes

    def min_width(self, at: int, side: float) -> float:
        """Return the minimum width of the cells of a column's panels."""
        one = self.columns[at]
        if one.is_token:
            return side * one.columns / self.tokens
        drawn = min(one.columns, self.cells_per_side(side)) / self.pixel_ratio
        few = max(FEATURE * self.scale, FEATURE_WIDTH_SHARE * side / self.tokens) * one.columns
        few = min(few, self.max_feature_width(at), FEATURE_WIDTH_SHARE * side)
        return max(MIN_GUTTER_PX * self.scale, few, drawn)

    def outer_column_width(self, at: int, width: float) -> float:
        """Return the width of a column for the given cell width, including labels and title."""
        one = self.columns[at]
        return max(width, one.narrowest) + one.sums

    def cell_left_edges(
        self,
        one: PanelArrangement,
        band: tuple[int, ...],
        side: float,
        widths: dict[int, float] | None = None,
    ) -> tuple[dict[tuple[int, int], float], float]:
        """Return the left edges of the cells of a band's columns.

        Parameters
        ----------
        widths : dict, optional
            Widths of the columns' cells, by column; the minimum widths by default.

        Returns
        -------
        left_edges : dict
            Left edge by group and column.
        width : float
            Total width.
        """
        gutter, given = self.gutter_width(one.longest), widths or {}
        found: dict[tuple[int, int], float] = {}
        x = EDGE * self.scale
        for lane, group, gap, has_gutter in self._group_lanes(band, one.rows, one.groups):
            x += gap + (gutter if has_gutter else 0)
            for at in lane:
                found[group, at] = x
            x += max(
                self.outer_column_width(at, given.get(at, self.min_width(at, side))) for at in lane
            )
        return found, x + EDGE * self.scale

    def _group_lanes(
        self, band: tuple[int, ...], rows: int, groups: int
    ) -> list[tuple[tuple[int, ...], int, float, bool]]:
        """Return the lanes of a band from left to right, each with its group, gap and gutter.

        The gap precedes the lane; the flag is True if row labels precede the lane.
        """
        lanes = self.lanes_of_band(band, rows)
        headed = [at for at, lane in enumerate(lanes) if self.columns[lane[0]].is_headed]
        first, last = (headed[0], headed[-1] + 1) if headed else (len(lanes), len(lanes))
        parts = [
            *((0, lane) for lane in lanes[:first]),
            *((group, lane) for group in range(groups) for lane in lanes[first:last]),
            *((0, lane) for lane in lanes[last:]),
        ]
        found: list[tuple[tuple[int, ...], int, float, bool]] = []
        before = 0
        for group, lane in parts:
            is_new = group != before and group > 0
            gap = (GROUP_GAP if is_new and not self.is_grid else GAP) * self.scale if found else 0.0
            names_rows = is_new and not (self.is_grid and self.has_alike_rows)
            has_gutter = not found or names_rows or self.columns[lane[0]].has_own_labels
            found.append((lane, group, gap, has_gutter))
            before = group
        return found

    def cell_top_edges(
        self, one: PanelArrangement, side: float, spare: float = 0.0
    ) -> tuple[list[float], float]:
        """Return the top edges of the cells of each row, band by band, and the total height.

        Parameters
        ----------
        spare : float
            Height added between rows.
        """
        y, tops = 0.0, []
        for number, band in enumerate(one.bands):
            y += self.column_header_height(side) + (GAP * self.scale if number else 0)
            rows = self.count_rows_of_band(one, band)
            below = self.cells_height_with_footer(band, side)
            for row in range(rows):
                tops.append(y + self.height_above_cells(one, band, row, side))
                y = (
                    tops[-1]
                    + below
                    + BOTTOM_MARGIN_PX * self.scale
                    + (spare if row < rows - 1 else 0)
                )
        return tops, y + BOTTOM_MARGIN_PX * self.scale

    def cells_height_with_footer(self, band: tuple[int, ...], side: float) -> float:
        """Return the height of a row's cells in a band, including what is drawn below them."""
        return max(
            side * self.columns[at].rows / self.tokens + self.columns[at].footer_height
            for at in band
        )

    def count_rows_of_band(self, one: PanelArrangement, band: tuple[int, ...]) -> int:
        """Return the number of rows in a band."""
        if any(self.columns[at].is_headed for at in band):
            return one.rows
        return max(len(lane) for lane in self.lanes_of_band(band, one.rows))

    def height_above_cells(
        self, one: PanelArrangement, band: tuple[int, ...], row: int, side: float
    ) -> float:
        """Return the height above a row's cells, for the key labels and head labels."""
        line = HEAD_LABEL_HEIGHT_PX * self.scale + label_overhang(side / self.tokens, self.line)
        if not self.has_key_labels(row):
            return line
        keys = self.key_labels_height(one, band, side) + LABEL_TOP_MARGIN_PX * self.scale
        return (
            keys + HEAD_LABEL_HEIGHT_PX * self.scale
            if self.has_head_labels_above(band)
            else max(keys, line)
        )

    def key_labels_height(self, one: PanelArrangement, band: tuple[int, ...], side: float) -> float:
        """Return the height of the key labels of a band."""
        cell = side / self.tokens
        return max(
            column_label_height(column.widest_key, column.is_token, cell, one.longest, self.line)
            for column in (self.columns[at] for at in band)
        )

    def has_key_labels(self, row: int) -> bool:
        """Return whether a row has key labels above it: the first row, or any if keys differ."""
        return row == 0 or self.has_other_keys

    def has_head_labels_above(self, band: tuple[int, ...]) -> bool:
        """Return whether head labels are above the key labels.

        Otherwise, head labels are to the left of the key labels, at the end of the gutter.
        """
        headed = [at for at in band if self.columns[at].is_headed]
        return bool(headed) and (self.is_grid or headed[0] != band[0])

    def has_short_head_labels(self, one: PanelArrangement) -> bool:
        """Return whether there is only room for head numbers next to the key labels."""
        if all(self.has_head_labels_above(band) for band in one.bands):
            return False
        widest = max(column.head_width for column in self.columns)
        beside = label_overhang(one.side / self.tokens)  # of the first key's label, if vertical
        return widest + beside > self.gutter_width(one.longest)

    def cells_per_side(self, side: float) -> int:
        """Return how many drawn cells fit along a panel's side, in device pixels."""
        pixels = round(side * self.pixel_ratio)
        if pixels < self.tokens:
            return pixels
        features = int(max(MIN_GUTTER_PX * self.scale, side) * self.pixel_ratio) // 8 * 8
        return max(features, self.tokens)

    def distribute_spare_width(self, one: PanelArrangement, side: float) -> dict[int, float]:
        """Distribute the spare width of each band among its feature panels."""
        widths = {at: self.min_width(at, side) for band in one.bands for at in band}
        for band in one.bands:
            spare = self.width - self.cell_left_edges(one, band, side, widths)[1]
            features = [at for at in band if not self.columns[at].is_token]
            wanted = {at: max(0.0, self.max_feature_width(at) - widths[at]) for at in features}
            times = {at: one.groups if self.columns[at].is_headed else 1 for at in wanted}
            whole = sum(wanted[at] * times[at] for at in wanted)
            share = min(1.0, max(0.0, spare) / whole) if whole else 0.0
            for at, more in wanted.items():
                widths[at] += more * share
        return widths

    def max_feature_width(self, at: int) -> float:
        """Return the maximum width of the cells in a feature panel."""
        columns = self.columns[at].columns
        return (WIDEST_ONLY_FEATURE if columns == 1 else WIDEST_FEATURE * columns) * self.scale


class BoardArranger:
    """Chooses an arrangement for a canvas.

    Parameters
    ----------
    present : PanelArrangement, optional
        The arrangement that is shown.
    is_paged : bool
        Whether heads may be split into pages.
    is_height_free : bool
        Whether the board may exceed the height if panels would otherwise be too small.
    """

    def __init__(
        self,
        measures: BoardMetrics,
        present: PanelArrangement | None = None,
        is_paged: bool = True,
        is_height_free: bool = False,
    ) -> None:
        self.measures, self.present = measures, present
        self.is_paged, self.is_height_free = is_paged, is_height_free

    @cached_property
    def best_arrangement(self) -> PanelArrangement:
        """The best arrangement."""
        if self.is_height_free:
            return self._best_with_free_height()
        if not self.is_paged:
            return (
                self._best_with_heads(self.measures.heads, self.measures.height)
                or self._least_scrolling_arrangement()
            )
        by_heads: dict[int, PanelArrangement | None] = {}
        for least in (self._readable_side(), self._comfortable_side()):
            for heads in self._heads_per_page_options():
                if heads not in by_heads:
                    by_heads[heads] = self._best_with_heads(heads, self.measures.height)
                one = by_heads[heads]
                if one and one.side >= least:
                    return one
        chosen: PanelArrangement | None = None
        for one in by_heads.values():
            if one and (chosen is None or one.side >= MIN_PAGING_GAIN * chosen.side):
                chosen = one
        return chosen or self._least_scrolling_arrangement()

    def _best_with_free_height(self) -> PanelArrangement:
        """Return the best arrangement of any height, with as few bands as is comfortable."""
        for height in (self.measures.height, math.inf):
            for bands in range(1, MAX_BANDS + 1):
                found = self._best_with_heads(self.measures.heads, height, bands)
                if found and found.side >= self._comfortable_side():
                    return found
        return (
            self._best_with_heads(self.measures.heads, math.inf)
            or self._least_scrolling_arrangement()
        )

    def _readable_side(self) -> float:
        """Return the panel side at which all numbers are readable, or ∞ for many tokens."""
        is_wanted = self.measures.tokens <= MAX_SHORT_TEXT_TOKENS and not self.measures.is_grid
        return (
            READABLE_CELL_PX * self.measures.scale * self.measures.tokens if is_wanted else math.inf
        )

    def _heads_per_page_options(self) -> list[int]:
        """Return the possible numbers of heads per page for equal pages, in descending order."""
        return list(
            dict.fromkeys(
                -(-self.measures.heads // pages) for pages in range(1, self.measures.heads + 1)
            )
        )

    def _comfortable_side(self) -> float:
        side = COMFORTABLE_GRID_SIDE_PX if self.measures.is_grid else COMFORTABLE_SIDE
        return min(side, COMFORTABLE_CELL * self.measures.tokens) * self.measures.scale

    def _best_with_heads(
        self, heads: int, height: float, most_bands: int = MAX_BANDS
    ) -> PanelArrangement | None:
        """Return the best arrangement with `heads` heads per page, or None if none fits."""
        best, most = None, 0.0
        for one, worth in self.candidate_arrangements(heads):
            if len(one.bands) > most_bands:
                continue
            if one.has_same_structure(self.present):
                worth *= CURRENT_ARRANGEMENT_WEIGHT
            at = self._largest_fitting_side(one, height, most / worth)
            if at is not None and worth * self._panel_sides[at] > most:
                best, most = (
                    self._with_side(one, self._panel_sides[at]),
                    worth * self._panel_sides[at],
                )
        return best

    def candidate_arrangements(self, heads: int) -> Iterator[tuple[PanelArrangement, float]]:
        """Yield arrangements with `heads` heads per page, and their weights per pixel of side."""
        groups = dict.fromkeys(-(-heads // rows) for rows in range(heads, 0, -1))
        for (longest, named), bands, count in itertools.product(
            LABEL_LENGTH_WEIGHTS, self._band_cuts(), groups
        ):
            further = 0 if self.measures.is_grid else len(bands) - 1 + count - 1
            one = PanelArrangement(bands, count, heads, longest * self.measures.scale)
            yield one, named * EXTRA_BAND_WEIGHT**further

    def _band_cuts(self) -> list[tuple[tuple[int, ...], ...]]:
        """Return the ways to cut the stages into bands.

        Cuts are made before the first query or key stage and before the first stage that follows
        them; the parts are then split into bands of approximately equal width.
        """
        count = len(self.measures.columns)
        squares = [at for at, one in enumerate(self.measures.columns) if one.is_token]
        natural = {squares[0], squares[-1] + 1} if squares else set()
        cuts = [(), *((at,) for at in sorted(natural) if 0 < at < count)]
        widths = [1.0 if one.is_token else FEATURE_WIDTH_SHARE for one in self.measures.columns]
        for bands in range(2, min(MAX_BANDS, count) + 1):
            edges = [sum(widths) * band / bands for band in range(1, bands)]
            ends = list(itertools.accumulate(widths, initial=0.0))
            nearest = tuple(min(range(count + 1), key=lambda at: abs(ends[at] - edge))
                            for edge in edges)  # fmt: skip
            if len({0, *nearest, count}) == bands + 1:
                cuts.append(nearest)
        edged = [(0, *cut, count) for cut in dict.fromkeys(cuts)]
        return [tuple(tuple(range(*ends)) for ends in itertools.pairwise(cut)) for cut in edged]

    @cached_property
    def _panel_sides(self) -> list[float]:
        return self.measures.panel_sides()

    def _largest_fitting_side(
        self, one: PanelArrangement, height: float, least: float
    ) -> int | None:
        """Return the index of the largest side that fits and exceeds `least`, if there is one."""
        sizes = self._panel_sides
        low = bisect.bisect_right(sizes, least)
        if low == len(sizes) or not self.measures.fits(one, sizes[low], height):
            return None
        return (
            bisect.bisect_left(
                sizes, True, low, key=lambda side: not self.measures.fits(one, side, height)
            )
            - 1
        )

    def _with_side(self, one: PanelArrangement, side: float) -> PanelArrangement:
        is_paged = self.is_paged and one.heads < self.measures.heads
        return PanelArrangement(one.bands, one.groups, one.heads, one.longest, side, is_paged)

    def _least_scrolling_arrangement(self) -> PanelArrangement:
        """Return the arrangement that needs the least scrolling on a canvas that is too small."""
        side = self._panel_sides[0]

        def beyond(one: PanelArrangement) -> tuple[float, float]:
            across = max(self.measures.cell_left_edges(one, band, side)[1] for band in one.bands)
            return max(0.0, across - self.measures.width), self.measures.cell_top_edges(one, side)[
                1
            ]

        ways = [
            one for one, _ in self.candidate_arrangements(self.measures.heads) if one.groups == 1
        ]
        return self._with_side(min(ways, key=beyond), side)


def shared_notes(column: tuple[Heatmap, ...]) -> tuple[str, ...]:
    """Return the notes shared by all panels of a column, or none for panels of layers."""
    first = column[0]
    is_alike = all(one.notes == first.notes for one in column)
    return first.notes if is_alike and first.layer is None else ()
