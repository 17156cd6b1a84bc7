"""Places the panels of a board: columns are stages and rows are heads, as they are arranged.

Cells of tokens are square and stay whole pixels of the screen.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from visualizer.heatmap.board_arrangement import (
    HEAD_LINE,
    BoardArranger,
    PanelArrangement,
    shared_notes,
)
from visualizer.heatmap.board_layout import (
    BoardLayout,
    PanelPlace,
    PlacedPanels,
    TitlePlace,
    with_cell_numbers,
)
from visualizer.heatmap.large_panel_placement import placed_beside_large
from visualizer.heatmap.linked_panel_sheet import sheet_slot
from visualizer.heatmap.panel_margins import (
    foot_height,
    label_overhang,
    line_title_width,
    narrowest,
    sums_width,
)
from visualizer.widgets.fonts import system_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.heatmap.panel_and_board_types import Board, Heatmap

MAX_CACHED_LAYOUTS = 8
"""So many layouts are kept: those that were used last."""
MAX_ROW_SPACING_PX = 14
"""The most that is added between rows of heads, where there is spare height."""
_PLACES: OrderedDict[Hashable, PlacedPanels] = OrderedDict()
"""Places, by what they are for."""
_LOCK = threading.Lock()
"""Figures and films are laid out on threads of their own, beside the window."""


def lay_out(
    board: Board,
    width: float,
    height: float,
    pixel_ratio: float = 1.0,
    largest_cell: float = math.inf,
    present: PanelArrangement | None = None,
    is_paged: bool = False,
    is_height_free: bool = False,
) -> BoardLayout:
    """Place a board's panels in a window of this size, of so many device pixels a pixel.

    Panels that differ from some that were placed before in numbers, in colours and in the part
    that is seen alone have their places.

    Parameters
    ----------
    largest_cell : float
        Cells are no larger than this.
    present : PanelArrangement, optional
        The arrangement that is shown, which stays where no other is much better.
    is_paged : bool
        Whether heads that do not fit are turned like pages.
    is_height_free : bool
        Whether the board may be higher where panels would else be too small.
    """
    if not board.columns:
        return BoardLayout((), 0, 0, 0)
    key = (_shape(board), board.large, width, height, pixel_ratio, largest_cell, present,
           is_paged, is_height_free, text_scale(), system_font())  # fmt: skip
    with _LOCK:
        placed = _PLACES.get(key)
    if placed is None:
        arranger = BoardArranger(
            board, width, height, pixel_ratio, largest_cell, present, is_paged, is_height_free
        )
        beside = placed_beside_large(board, arranger) if board.large else None
        placed = beside or BoardPlacement(board, arranger).placed()
    with _LOCK:
        _PLACES[key] = placed
        _PLACES.move_to_end(key)
        if len(_PLACES) > MAX_CACHED_LAYOUTS:
            _PLACES.popitem(last=False)
    panels = board.heatmaps
    slots = with_cell_numbers([place.slot(panels[at]) for at, place in placed.places])
    sheet = sheet_slot(board, slots, width, pixel_ratio) if is_paged else None
    return BoardLayout(
        slots, placed.width, placed.height, placed.head, placed.room, placed.small_room, placed,
        sheet,
    )  # fmt: skip


def _shape(board: Board) -> Hashable:
    """Name all of a board's panels that decides their places: no number, colour or zoom.

    Labels that panels share are named once: to hash thousands for every panel takes long.
    """
    labels = [axis.labels for one in board.heatmaps for axis in (one.rows, one.columns)]
    distinct = {id(one): one for one in labels}
    numbers = {key: number for number, key in enumerate(distinct)}
    panels = tuple(
        (
            tuple(_shape_of(heatmap, numbers) for heatmap in column),
            len(shared_notes(column)),
        )
        for column in board.columns
    )
    return tuple(distinct.values()), panels


def _shape_of(heatmap: Heatmap, numbers: dict[int, int]) -> Hashable:
    return (
        numbers[id(heatmap.rows.labels)],
        numbers[id(heatmap.columns.labels)],
        heatmap.columns.is_token,
        heatmap.side,
        (heatmap.label, heatmap.head is None),
        (narrowest(heatmap), line_title_width(heatmap)),
        len(heatmap.notes),
        foot_height(heatmap),
        sums_width(heatmap),
    )


class BoardPlacement:
    """Places panels as they are arranged."""

    def __init__(self, board: Board, arranger: BoardArranger) -> None:
        self.columns, self.arranger = board.columns, arranger
        self.arrangement = one = arranger.best
        self.numbers = {heatmap: at for at, heatmap in enumerate(board.heatmaps)}
        self.pixel_ratio, self.scale = arranger.pixel_ratio, arranger.scale
        drawn = max(
            max(column.drawn[0], column.drawn[1] if column.is_token else 0)
            for column in arranger.columns
        )
        self.cell = max(1, int(one.side * self.pixel_ratio / drawn + 1e-6)) / self.pixel_ratio
        # More, where panels are not yet pooled as there is room for.
        self.side = max(one.side, self.cell * drawn)
        self.widths = arranger.spread(one, self.side)
        self.gutter = arranger.gutter(one.longest)

    def placed(self) -> PlacedPanels:
        """Place all panels."""
        arranger, one = self.arranger, self.arrangement
        pages = -(-arranger.heads // one.heads) if one.is_paged else 1
        tops, height = arranger.tops(one, self.side)
        spare = 0.0
        if arranger.height < math.inf and len(tops) > len(one.bands):
            spare = (arranger.height - height) / (len(tops) - len(one.bands))
            spare = min(MAX_ROW_SPACING_PX * self.scale, max(0.0, spare))
            tops, height = arranger.tops(one, self.side, spare)
        places: list[tuple[int, PanelPlace]] = []
        width, page_height = 0.0, arranger.height if pages > 1 else 0.0
        for page in range(pages):
            rows = iter(tops)
            for band in one.bands:
                lefts, wide = arranger.lefts(one, band, self.side, self.widths)
                width = max(width, wide)
                for row in range(arranger.rows_of(one, band)):
                    top = next(rows) + page * page_height
                    places += self._row(band, page, row, top, lefts)
        whole = pages * page_height if pages > 1 else height
        return PlacedPanels(
            tuple(places), width, whole, arranger.head(self.side), one,
            arranger.room(one.side), page=arranger.height if pages > 1 else None,
        )  # fmt: skip

    def _row(
        self,
        band: tuple[int, ...],
        page: int,
        row: int,
        top: float,
        lefts: dict[tuple[int, int], float],
    ) -> list[tuple[int, PanelPlace]]:
        """Place the panels of one row of a band, of all groups."""
        arranger, one = self.arranger, self.arrangement
        lanes = arranger.lanes(band, one.rows)
        places: list[tuple[int, PanelPlace]] = []
        is_first, before = True, 0
        is_named = False  # whether it is said whose the present group's panels are
        for (group, at), left in sorted(lefts.items(), key=lambda one: (one[1], one[0])):
            measures = arranger.columns[at]
            lane = next(lane for lane in lanes if at in lane)
            if measures.is_headed:
                number = self._head(page, row, group)
                if number >= min(len(self.columns[at]), (page + 1) * one.heads):
                    continue
                if group != before:
                    is_first = not arranger.is_grid or not arranger.has_alike_rows
                    is_named = False
            else:
                number = 0
                if lane.index(at) != row:
                    continue
            before = group
            has_rows = is_first or measures.has_own_labels
            says_whose = measures.is_headed and not is_named
            is_named |= says_whose
            heatmap = self.columns[at][number]
            places.append((
                self.numbers[heatmap],
                self._place(heatmap, at, (left, top), (band, row), has_rows, says_whose),
            ))  # fmt: skip
            is_first = False
        return places

    def _head(self, page: int, row: int, group: int) -> int:
        """Number the panel of a column that stands here: down, then right; in a grid, right."""
        one = self.arrangement
        if self.arranger.is_grid:
            within = row * one.groups + group
        else:
            within = group * one.rows + row if row < one.rows else one.heads
        return page * one.heads + within if within < one.heads else len(self.numbers)

    def _place(
        self,
        heatmap: Heatmap,
        at: int,
        corner: tuple[float, float],
        row: tuple[tuple[int, ...], int],
        has_rows: bool,
        says_whose: bool,
    ) -> PanelPlace:
        """Place a panel.

        Parameters
        ----------
        at : int
            Which of the board's columns it is in.
        corner : tuple of float
            The left and upper edge of its cells.
        row : tuple
            The band that it is in, and the row there.
        has_rows, says_whose : bool
            Whether it names the tokens of its rows, and whose panel it is.
        """
        arranger, one, (band, number) = self.arranger, self.arrangement, row
        measures = arranger.columns[at]
        above = arranger.above(one, band, number, self.side)
        names_keys = arranger.names_keys(number) and (number == 0 or measures.is_headed)
        line = HEAD_LINE * self.scale + label_overhang(self.cell, self.arranger.line)
        head_at = None
        if says_whose and arranger.has_heads_above(band):
            keys = arranger.keys_height(one, band, self.side) if names_keys else 0.0
            head_at = (0.0, -(keys + 4 * self.scale + HEAD_LINE * self.scale) if keys else -line)
        elif says_whose:
            head_at = (-self.gutter, -line)
        title = TitlePlace.NONE
        if number == 0:
            title = TitlePlace.PINNED if band is one.bands[0] else TitlePlace.OWN
            if arranger.is_grid and heatmap is not self.columns[at][0]:
                title = TitlePlace.NONE  # one over all of them
        elif not measures.is_headed:
            title = TitlePlace.LINE
        if title is TitlePlace.OWN:
            above += arranger.head(self.side)
        return PanelPlace(
            self._whole(corner[0]), self._whole(corner[1]),
            self._cell_width(at), self.cell, above, self.gutter, one.longest, has_rows,
            names_keys,
            not measures.has_shared_notes, head_at,
            arranger.has_short_heads(one), title,
        )  # fmt: skip

    def _cell_width(self, at: int) -> float:
        """Give the width of a column's cells: of tokens square, else in whole pixels."""
        measures = self.arranger.columns[at]
        if measures.is_token:
            return self.cell
        whole = int(self.widths[at] * self.pixel_ratio / measures.drawn[1] + 1e-6)
        return max(1, whole) / self.pixel_ratio

    def _whole(self, length: float) -> float:
        return round(length * self.pixel_ratio) / self.pixel_ratio
