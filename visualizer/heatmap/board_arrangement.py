"""Chooses how a board's panels are arranged: bands of stages, groups and pages of heads, and size.

Of all arrangements that fit in both directions, the one with the largest panels is chosen; an
arrangement that is shown already stays unless another gains half as much again. Pure geometry of
the numbers of tokens, whatever is pooled. Lengths are pixels of the window.
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
    HEAD,
    MAX_LABEL_PX,
    NARROWEST,
    NOTE,
    foot_height,
    head_label_width,
    label_height,
    label_overhang,
    line_title_width,
    narrowest,
    sums_width,
    widest_label,
    widest_row_label,
)
from visualizer.widgets.fonts import metrics, text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from visualizer.heatmap.panel_and_board_types import Board, Heatmap

    FoundLanes = tuple[float, int, list[tuple[tuple[int, ...], int]]]

MAX_CELL_PX = 144
"""The largest cell."""
SMALLEST_SIDE = 48
"""The smallest panel: what has no room for one as large is scrolled to."""
READABLE_CELL = 32
"""A cell with room for its number; so large are those of few tokens, if any number of heads can."""
MAX_SHORT_TEXT_TOKENS = 12
COMFORTABLE_SIDE, COMFORTABLE_CELL = 128, 22
"""Panels are as large as one of these if any number of heads can be, and else smaller."""
COMFORTABLE_GRID_SIDE = 96
"""The same for panels of one stage."""
GAP, GROUP_GAP, EDGE = 16, 28, 12
ABOVE_LABELS = 8
"""Over the labels of keys: lit labels are bold, and longer."""
HEAD_LINE = 20
"""Over a row of panels without labels, for the line that says whose they are."""
BELOW = 4
LABELS = ((MAX_LABEL_PX, 1.0), (56, 0.93), (36, 0.88))
"""The longest labels, and what an arrangement with them is worth."""
FURTHER = 0.8
"""What an arrangement with one more band or group is worth."""
PRESENT = 1.5
"""What the present arrangement is worth more than others."""
WORTH_PAGES = 1.3
"""By how much larger panels must be for fewer heads a page, where none are comfortable."""
MAX_BANDS = 4
FEATURE, WIDEST_FEATURE, WIDEST_ONLY_FEATURE = 12, 64, 96
"""Widths of a column that is no token: at least, at most, and at most of a panel's only one."""
NARROW_SHARE = 0.6
"""The width of a feature and of a panel with many, as a share of the others' cells and sides."""


class PanelArrangement(Struct, frozen=True):
    """How the panels of a board stand.

    Parameters
    ----------
    bands : tuple of tuple of int
        The columns of the board in each band; bands stand one below the other.
    groups : int
        How many groups of heads stand side by side; of a single stage, how many heads.
    heads : int
        How many heads are on a page.
    longest : float
        The width to which labels are shortened.
    side : float
        The side of a panel of all tokens, as far as whole pixels can fill it.
    is_paged : bool
        Whether pages of heads are turned; else all heads stand below each other.
    """

    bands: tuple[tuple[int, ...], ...]
    groups: int
    heads: int
    longest: float
    side: float = 0.0
    is_paged: bool = False

    @property
    def rows(self) -> int:
        """Rows of heads on a page."""
        return -(-self.heads // self.groups)

    def is_like(self, other: PanelArrangement | None) -> bool:
        """Whether heads and stages stand as in another arrangement, in whatever size."""
        return other is not None and (self.groups, self.heads, len(self.bands)) == (
            other.groups,
            other.heads,
            len(other.bands),
        )


class ColumnMeasures:
    """What of a board's column decides its place.

    Parameters
    ----------
    column : tuple of Heatmap
        The panels of a stage.
    has_other_rows : bool
        Whether its rows are other tokens than those of the column before.
    """

    def __init__(self, column: tuple[Heatmap, ...], has_other_rows: bool) -> None:
        first = column[0]
        self.count = len(column)
        self.is_headed = bool(first.label)
        self.is_token = first.columns.is_token
        self.rows, self.columns = len(first.rows.labels), len(first.columns.labels)
        self.drawn = first.side
        self.narrowest = max(map(narrowest, column))
        if not self.is_headed:  # it may stand below another one, with its title in one line
            self.narrowest = max(self.narrowest, line_title_width(first))
        self.sums = max(map(sums_width, column))
        self.has_shared_notes = len({one.notes for one in column}) == 1
        shared = len(first.notes) if self.has_shared_notes else 0
        self.notes = shared
        self.foot = max(foot_height(one, len(one.notes) - shared) for one in column)
        self.widest_row = max(widest_row_label(one.rows) for one in column)
        self.widest_key = widest_label(first.columns.labels) if self.is_token else 0.0
        self.has_own_labels = has_other_rows
        self.has_other_keys = len({one.columns.labels for one in column}) > 1
        self.head_width = max(head_label_width(one, is_short=False) for one in column)
        self.short_head_width = max(head_label_width(one, is_short=True) for one in column)


class BoardArranger:
    """Chooses an arrangement.

    Parameters
    ----------
    width, height : float
        The size of the canvas.
    pixel_ratio : float
        Device pixels a pixel.
    largest_cell : float
        Cells are no larger than this.
    present : PanelArrangement, optional
        The arrangement that is shown.
    is_paged : bool
        Whether heads may be turned like pages.
    is_height_free : bool
        Whether the board may be higher where panels would else be too small.
    """

    def __init__(
        self,
        board: Board,
        width: float,
        height: float,
        pixel_ratio: float,
        largest_cell: float = math.inf,
        present: PanelArrangement | None = None,
        is_paged: bool = True,
        is_height_free: bool = False,
    ) -> None:
        self.width, self.height, self.pixel_ratio = width, height, pixel_ratio
        self.scale, self.present = text_scale(), present
        self.line = metrics(12).height()
        self.is_paged, self.is_height_free = is_paged, is_height_free
        self.largest_cell = min(MAX_CELL_PX * self.scale, largest_cell)
        rows = [column[0].rows.labels for column in board.columns]
        self.columns = [
            ColumnMeasures(column, at > 0 and rows[at] != rows[at - 1])
            for at, column in enumerate(board.columns)
        ]
        self.heads = max(column.count for column in self.columns)
        self.is_grid = len(self.columns) == 1 and self.heads > 1
        self.has_alike_rows = not self.is_grid or (
            len({one.rows.labels for one in board.columns[0]}) == 1
        )
        self.tokens = max(max(one.rows, one.columns if one.is_token else 0) for one in self.columns)
        self._found_heights: dict[Hashable, tuple[float, float, float, float]] = {}
        self._found_lanes: dict[Hashable, FoundLanes] = {}
        self._found_widths: dict[float, list[float]] = {}
        self._gutters: dict[float, float] = {}
        self.has_other_keys = any(one.has_other_keys for one in self.columns)
        self.notes_lines = max(len(shared_notes(column)) for column in board.columns)

    # ------------------------------------------------------------------ the search

    @cached_property
    def best(self) -> PanelArrangement:
        """The best arrangement of all."""
        if self.is_height_free:
            return self._best_of_any_height()
        if not self.is_paged:
            return self._best_of(self.heads, self.height) or self._scrolled()
        by_heads: dict[int, PanelArrangement | None] = {}
        for least in (self._readable(), self._comfortable()):
            for heads in self._pages():
                if heads not in by_heads:
                    by_heads[heads] = self._best_of(heads, self.height)
                one = by_heads[heads]
                if one and one.side >= least:
                    return one
        chosen: PanelArrangement | None = None
        for one in by_heads.values():
            if one and (chosen is None or one.side >= WORTH_PAGES * chosen.side):
                chosen = one
        return chosen or self._scrolled()

    def _best_of_any_height(self) -> PanelArrangement:
        """Give the best arrangement that may be higher: in as few bands as are comfortable."""
        for height in (self.height, math.inf):
            for bands in range(1, MAX_BANDS + 1):
                found = self._best_of(self.heads, height, bands)
                if found and found.side >= self._comfortable():
                    return found
        return self._best_of(self.heads, math.inf) or self._scrolled()

    def _readable(self) -> float:
        """Give the side of a panel in whose cells all numbers can be read; ∞ for many tokens."""
        is_wanted = self.tokens <= MAX_SHORT_TEXT_TOKENS and not self.is_grid
        return READABLE_CELL * self.scale * self.tokens if is_wanted else math.inf

    def _pages(self) -> list[int]:
        """Give the numbers of heads that a page may hold, all pages alike: the most first."""
        return list(dict.fromkeys(-(-self.heads // pages) for pages in range(1, self.heads + 1)))

    def _comfortable(self) -> float:
        side = COMFORTABLE_GRID_SIDE if self.is_grid else COMFORTABLE_SIDE
        return min(side, COMFORTABLE_CELL * self.tokens) * self.scale

    def _best_of(
        self, heads: int, height: float, most_bands: int = MAX_BANDS
    ) -> PanelArrangement | None:
        """Give the best arrangement with so many heads a page; None where none fits."""
        best, most = None, 0.0
        for one, worth in self.candidates(heads):
            if len(one.bands) > most_bands:
                continue
            if one.is_like(self.present):
                worth *= PRESENT
            at = self._largest_size(one, height, most / worth)
            if at is not None and worth * self._sizes[at] > most:
                best, most = self._sized(one, self._sizes[at]), worth * self._sizes[at]
        return best

    def candidates(self, heads: int) -> Iterator[tuple[PanelArrangement, float]]:
        """Give the arrangements with so many heads a page, and what a pixel of a side is worth."""
        groups = dict.fromkeys(-(-heads // rows) for rows in range(heads, 0, -1))
        for (longest, named), bands, count in itertools.product(LABELS, self._cuts(), groups):
            further = 0 if self.is_grid else len(bands) - 1 + count - 1
            one = PanelArrangement(bands, count, heads, longest * self.scale)
            yield one, named * FURTHER**further

    def _cuts(self) -> list[tuple[tuple[int, ...], ...]]:
        """Give the ways to cut the stages into bands.

        Into two before the first stage of queries and keys, or before the first after them; and
        into bands of about the same width.
        """
        count = len(self.columns)
        squares = [at for at, one in enumerate(self.columns) if one.is_token]
        natural = {squares[0], squares[-1] + 1} if squares else set()
        cuts = [(), *((at,) for at in sorted(natural) if 0 < at < count)]
        widths = [1.0 if one.is_token else NARROW_SHARE for one in self.columns]
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
    def _sizes(self) -> list[float]:
        return self.sizes(SMALLEST_SIDE)

    def sizes(self, smallest: float) -> list[float]:
        """Give the sides of a panel that whole pixels fill, the smallest first: pooled, and not.

        Where cells must be smaller than even the smallest side makes them, it is that side alone.
        """
        ratio, tokens = self.pixel_ratio, self.tokens
        least = smallest * self.scale * ratio
        pooled = {-(-tokens // block) for block in range(2, int(tokens / least) + 1)}
        largest = max(1, int(self.largest_cell * ratio + 1e-6))
        first = max(1, min(largest, math.ceil(min(least, tokens * largest) / tokens)))
        whole = [tokens * pixels for pixels in range(first, largest + 1)]
        sides, most = [*sorted(pooled), *whole], tokens * self.largest_cell * ratio + 1e-6
        return [side / ratio for side in sides if side <= most] or [sides[0] / ratio]

    def _largest_size(self, one: PanelArrangement, height: float, least: float) -> int | None:
        """Give the place of the largest side that fits and is larger than this; None if none."""
        sizes = self._sizes
        low = bisect.bisect_right(sizes, least)
        if low == len(sizes) or not self.fits(one, sizes[low], height):
            return None
        return (
            bisect.bisect_left(sizes, True, low, key=lambda side: not self.fits(one, side, height))
            - 1
        )

    def fits(self, one: PanelArrangement, side: float, height: float) -> bool:
        """Whether panels of a size fit, arranged like this."""
        return self.height_of(one, side) <= height and all(
            self.width_of(one, band, side) <= self.width for band in one.bands
        )

    def height_of(self, one: PanelArrangement, side: float) -> float:
        """Give the height of it all, as `tops` does; it is asked for thousands of times."""
        whole = GAP * self.scale * (len(one.bands) - 1) + BELOW * self.scale
        for band in one.bands:
            first, next_, below, head = self._heights(band, one.longest, side)
            rows = self.rows_of(one, band)
            whole += head + first + (rows - 1) * next_ + rows * (below + BELOW * self.scale)
        return whole

    def _heights(
        self, band: tuple[int, ...], longest: float, side: float
    ) -> tuple[float, float, float, float]:
        """Give the heights over a band's first row and its others, of cells, and of its head."""
        key = (band, longest, side)
        found = self._found_heights.get(key)
        if found is None:
            one = PanelArrangement((band,), 1, 1, longest)
            found = self._found_heights[key] = (
                self.above(one, band, 0, side),
                self.above(one, band, 1, side),
                self.below(band, side),
                self.head(side),
            )
        return found

    def width_of(self, one: PanelArrangement, band: tuple[int, ...], side: float) -> float:
        """Give the width of a band, as `lefts` does; it is asked for thousands of times."""
        key = (band, one.rows, one.groups)
        if key not in self._found_lanes:
            lanes = self._lanes_of_groups(band, one.rows, one.groups)
            counted = Counter(lane for lane, _, _, _ in lanes)
            fixed = 2 * EDGE * self.scale + sum(gap for _, _, gap, _ in lanes)
            named = sum(has_gutter for *_, has_gutter in lanes)
            self._found_lanes[key] = fixed, named, [*counted.items()]
        gaps, gutters, times = self._found_lanes[key]
        if side not in self._found_widths:
            self._found_widths[side] = [
                self.outer(at, self.least_width(at, side)) for at in range(len(self.columns))
            ]
        widths = self._found_widths[side]
        return (
            gaps
            + gutters * self.gutter(one.longest)
            + sum(
                (widths[lane[0]] if len(lane) == 1 else max(widths[at] for at in lane)) * count
                for lane, count in times
            )
        )

    def _sized(self, one: PanelArrangement, side: float) -> PanelArrangement:
        is_paged = self.is_paged and one.heads < self.heads
        return PanelArrangement(one.bands, one.groups, one.heads, one.longest, side, is_paged)

    def _scrolled(self) -> PanelArrangement:
        """Give the arrangement for a canvas that has no room for one: what is wider is scrolled."""
        side = self._sizes[0]

        def beyond(one: PanelArrangement) -> tuple[float, float]:
            across = max(self.lefts(one, band, side)[1] for band in one.bands)
            return max(0.0, across - self.width), self.tops(one, side)[1]

        ways = [one for one, _ in self.candidates(self.heads) if one.groups == 1]
        return self._sized(min(ways, key=beyond), side)

    # ------------------------------------------------------------------ measures of an arrangement

    def gutter(self, longest: float) -> float:
        """Give the width of the labels of rows, with their air."""
        if longest not in self._gutters:
            self._gutters[longest] = self._gutter(longest)
        return self._gutters[longest]

    def _gutter(self, longest: float) -> float:
        widest = min(max(one.widest_row for one in self.columns), longest)
        heads = 0.0 if self.is_grid else max(one.short_head_width for one in self.columns)
        beside = label_overhang(0.0)  # of the first key's label, if it stands
        return max(24 * self.scale, widest + 10 * self.scale, heads + beside)

    def head(self, side: float) -> float:
        """Give the height of the heads of columns, with the notes in them.

        Where panels are pooled there is a line for the note on it, which goes where one looks
        close enough: what is under the pointer must not move.
        """
        room = self.room(side)
        is_pooled = any(max(one.rows, one.columns) > room for one in self.columns)
        return (HEAD + NOTE * max(self.notes_lines, is_pooled)) * self.scale

    def lanes(self, band: tuple[int, ...], rows: int) -> list[tuple[int, ...]]:
        """Give the columns of a band that stand side by side; some hold several stages.

        Neighbouring stages without heads stand one below the other, where there are rows for them.
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

    def longest(self) -> float:
        """Give the width to which labels are shortened where there is room enough."""
        return MAX_LABEL_PX * self.scale

    def least_width(self, at: int, side: float) -> float:
        """Give the least width of the cells of a column's panels."""
        one = self.columns[at]
        if one.is_token:
            return side * one.columns / self.tokens
        drawn = min(one.columns, self.room(side)) / self.pixel_ratio
        few = max(FEATURE * self.scale, NARROW_SHARE * side / self.tokens) * one.columns
        few = min(few, self.widest_features(at), NARROW_SHARE * side)
        return max(NARROWEST * self.scale, few, drawn)

    def outer(self, at: int, width: float) -> float:
        """Give the width of a column whose cells are so wide, with what stands beside and over."""
        one = self.columns[at]
        return max(width, one.narrowest) + one.sums

    def lefts(
        self,
        one: PanelArrangement,
        band: tuple[int, ...],
        side: float,
        widths: dict[int, float] | None = None,
    ) -> tuple[dict[tuple[int, int], float], float]:
        """Find where the cells of a band's columns begin.

        Parameters
        ----------
        widths : dict, optional
            The widths of columns' cells, by column; by default the least ones.

        Returns
        -------
        lefts : dict
            The left edge by group and column.
        width : float
            The width of it all.
        """
        gutter, given = self.gutter(one.longest), widths or {}
        found: dict[tuple[int, int], float] = {}
        x = EDGE * self.scale
        for lane, group, gap, has_gutter in self._lanes_of_groups(band, one.rows, one.groups):
            x += gap + (gutter if has_gutter else 0)
            for at in lane:
                found[group, at] = x
            x += max(self.outer(at, given.get(at, self.least_width(at, side))) for at in lane)
        return found, x + EDGE * self.scale

    def _lanes_of_groups(
        self, band: tuple[int, ...], rows: int, groups: int
    ) -> list[tuple[tuple[int, ...], int, float, bool]]:
        """Give the lanes of a band from left to right, each with its group and what is before it.

        Before it are a gap, and labels of rows where they are named there.
        """
        lanes = self.lanes(band, rows)
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

    def tops(
        self, one: PanelArrangement, side: float, spare: float = 0.0
    ) -> tuple[list[float], float]:
        """Find where the cells of each row begin, band by band, and the height of it all.

        Parameters
        ----------
        spare : float
            What is added between rows.
        """
        y, tops = 0.0, []
        for number, band in enumerate(one.bands):
            y += self.head(side) + (GAP * self.scale if number else 0)
            rows = self.rows_of(one, band)
            below = self.below(band, side)
            for row in range(rows):
                tops.append(y + self.above(one, band, row, side))
                y = tops[-1] + below + BELOW * self.scale + (spare if row < rows - 1 else 0)
        return tops, y + BELOW * self.scale

    def below(self, band: tuple[int, ...], side: float) -> float:
        """Give the height of the cells of a band's rows, with what stands under them."""
        return max(
            side * self.columns[at].rows / self.tokens + self.columns[at].foot for at in band
        )

    def rows_of(self, one: PanelArrangement, band: tuple[int, ...]) -> int:
        """Give the number of rows in a band."""
        if any(self.columns[at].is_headed for at in band):
            return one.rows
        return max(len(lane) for lane in self.lanes(band, one.rows))

    def above(self, one: PanelArrangement, band: tuple[int, ...], row: int, side: float) -> float:
        """Give the height over the cells of a row, for the labels of keys and whose it is."""
        line = HEAD_LINE * self.scale + label_overhang(side / self.tokens, self.line)
        if not self.names_keys(row):
            return line
        keys = self.keys_height(one, band, side) + ABOVE_LABELS * self.scale
        return keys + HEAD_LINE * self.scale if self.has_heads_above(band) else max(keys, line)

    def keys_height(self, one: PanelArrangement, band: tuple[int, ...], side: float) -> float:
        """Give the height of the labels of a band's keys."""
        cell = side / self.tokens
        return max(
            label_height(column.widest_key, column.is_token, cell, one.longest, self.line)
            for column in (self.columns[at] for at in band)
        )

    def names_keys(self, row: int) -> bool:
        """Whether the keys are named over a row: the first, and where they are others."""
        return row == 0 or self.has_other_keys

    def has_heads_above(self, band: tuple[int, ...]) -> bool:
        """Whether the lines that say whose a panel is stand over the labels of keys.

        Else they stand beside them, at the end of the gutter.
        """
        headed = [at for at in band if self.columns[at].is_headed]
        return bool(headed) and (self.is_grid or headed[0] != band[0])

    def has_short_heads(self, one: PanelArrangement) -> bool:
        """Whether beside the keys there is room for the numbers of heads alone."""
        if all(self.has_heads_above(band) for band in one.bands):
            return False
        widest = max(column.head_width for column in self.columns)
        beside = label_overhang(one.side / self.tokens)  # of the first key's label, if it stands
        return widest + beside > self.gutter(one.longest)

    def room(self, side: float) -> int:
        """Say how many drawn cells a panel's side has room for, in device pixels."""
        pixels = round(side * self.pixel_ratio)
        if pixels < self.tokens:
            return pixels
        features = int(max(NARROWEST * self.scale, side) * self.pixel_ratio) // 8 * 8
        return max(features, self.tokens)

    def spread(self, one: PanelArrangement, side: float) -> dict[int, float]:
        """Share the spare width of each band among its panels of features."""
        widths = {at: self.least_width(at, side) for band in one.bands for at in band}
        for band in one.bands:
            spare = self.width - self.lefts(one, band, side, widths)[1]
            features = [at for at in band if not self.columns[at].is_token]
            wanted = {at: max(0.0, self.widest_features(at) - widths[at]) for at in features}
            times = {at: one.groups if self.columns[at].is_headed else 1 for at in wanted}
            whole = sum(wanted[at] * times[at] for at in wanted)
            share = min(1.0, max(0.0, spare) / whole) if whole else 0.0
            for at, more in wanted.items():
                widths[at] += more * share
        return widths

    def widest_features(self, at: int) -> float:
        """Give the most that the cells of a panel of features may be wide."""
        columns = self.columns[at].columns
        return (WIDEST_ONLY_FEATURE if columns == 1 else WIDEST_FEATURE * columns) * self.scale


def shared_notes(column: tuple[Heatmap, ...]) -> tuple[str, ...]:
    """Give the notes that all panels of a column have; none where they differ, or of layers."""
    first = column[0]
    is_alike = all(one.notes == first.notes for one in column)
    return first.notes if is_alike and first.layer is None else ()
