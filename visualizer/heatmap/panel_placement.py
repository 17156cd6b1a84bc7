"""Places the panels of a board in a grid.

Token cells are square and measure a whole number of screen pixels.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from visualizer.heatmap.board_arrangement import (
    HEAD_LABEL_HEIGHT_PX,
    BoardArranger,
    BoardMetrics,
    PanelArrangement,
    shared_notes,
)
from visualizer.heatmap.board_layout import (
    BoardLayout,
    PanelPosition,
    PlacedPanels,
    TitlePlacement,
    with_number_formats,
)
from visualizer.heatmap.panel_margins import (
    footer_height,
    label_overhang,
    min_column_header_width,
    panel_title_width,
    row_sums_width,
)
from visualizer.widgets.fonts import system_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.heatmap.board import Board, Heatmap


MAX_CACHED_LAYOUTS = 8
"""Maximum number of cached layouts; the least recently used one is dropped."""
MAX_ROW_SPACING_PX = 14
"""Maximum space in pixels that is added between rows of heads if there is spare height."""
_PLACED_BY_KEY: OrderedDict[Hashable, PlacedPanels] = OrderedDict()
"""Cached positions, keyed by everything that they depend on."""
_LOCK = threading.Lock()
"""Guards the cache, because figures and animations are laid out on other threads."""


def lay_out_board(
    board: Board,
    width: float,
    height: float,
    pixel_ratio: float = 1.0,
    present: PanelArrangement | None = None,
    is_paged: bool = False,
    is_height_free: bool = False,
) -> BoardLayout:
    """Place a board's panels in a window of the given size.

    Positions are reused if panels differ only in values, colours and the visible part.

    Parameters
    ----------
    pixel_ratio : float
        Device pixels per logical pixel.
    present : PanelArrangement, optional
        The arrangement that is shown; it is kept unless another one is much better.
    is_paged : bool
        Whether heads that do not fit are split into pages.
    is_height_free : bool
        Whether the board may exceed the height if panels would otherwise be too small.
    """
    if not board.columns:
        return BoardLayout((), 0, 0, 0)
    fonts = text_scale(), system_font()
    shape = _board_layout_key(board)
    key = (shape, width, height, pixel_ratio, present, is_paged, is_height_free, fonts)
    with _LOCK:
        placed = _PLACED_BY_KEY.get(key)
    if placed is None:
        measures = BoardMetrics(board, width, height, pixel_ratio)
        arranger = BoardArranger(measures, present, is_paged, is_height_free)
        placed = BoardPlacer(board, arranger).place_panels()
    with _LOCK:
        _PLACED_BY_KEY[key] = placed
        _PLACED_BY_KEY.move_to_end(key)
        if len(_PLACED_BY_KEY) > MAX_CACHED_LAYOUTS:
            _PLACED_BY_KEY.popitem(last=False)
    panels = board.heatmaps
    slots = with_number_formats([place.create_slot(panels[at]) for at, place in placed.places])
    return BoardLayout(
        slots, placed.width, placed.height, placed.head, placed.room, placed,
    )  # fmt: skip


def _board_layout_key(board: Board) -> Hashable:
    """Return a key for everything that determines positions, except the zoom.

    Labels shared by panels appear once: hashing thousands of them per panel is slow.
    """
    labels = [axis.labels for one in board.heatmaps for axis in (one.rows, one.columns)]
    distinct = {id(one): one for one in labels}
    numbers = {key: number for number, key in enumerate(distinct)}
    panels = tuple(
        (
            tuple(_panel_layout_key(heatmap, numbers) for heatmap in column),
            len(shared_notes(column)),
        )
        for column in board.columns
    )
    return tuple(distinct.values()), panels


def _panel_layout_key(heatmap: Heatmap, numbers: dict[int, int]) -> Hashable:
    return (
        numbers[id(heatmap.rows.labels)],
        numbers[id(heatmap.columns.labels)],
        heatmap.columns.is_token,
        heatmap.side,
        (heatmap.label, heatmap.head is None),
        (min_column_header_width(heatmap), panel_title_width(heatmap)),
        len(heatmap.notes),
        footer_height(heatmap),
        row_sums_width(heatmap),
    )


class BoardPlacer:
    """Places panels according to an arrangement."""

    def __init__(self, board: Board, arranger: BoardArranger) -> None:
        self.columns, self.measures = board.columns, arranger.measures
        self.is_centred = arranger.is_paged
        measures = self.measures
        self.arrangement = one = arranger.best_arrangement
        self.numbers = {heatmap: at for at, heatmap in enumerate(board.heatmaps)}
        self.pixel_ratio, self.scale = measures.pixel_ratio, measures.scale
        drawn = max(
            max(column.drawn[0], column.drawn[1] if column.is_token else 0)
            for column in measures.columns
        )
        self.cell = max(1, int(one.side * self.pixel_ratio / drawn + 1e-6)) / self.pixel_ratio
        # The panels are larger if they are not pooled to the available size yet.
        self.side = max(one.side, self.cell * drawn)
        self.widths = measures.distribute_spare_width(one, self.side)
        self.gutter = measures.gutter_width(one.longest)

    def place_panels(self) -> PlacedPanels:
        """Place all panels."""
        measures, one = self.measures, self.arrangement
        pages = -(-measures.heads // one.heads) if one.is_paged else 1
        tops, height = measures.cell_top_edges(one, self.side)
        spare = 0.0
        if measures.height < math.inf and len(tops) > len(one.bands):
            spare = (measures.height - height) / (len(tops) - len(one.bands))
            spare = min(MAX_ROW_SPACING_PX * self.scale, max(0.0, spare))
            tops, height = measures.cell_top_edges(one, self.side, spare)
        places: list[tuple[int, PanelPosition]] = []
        edges = [measures.cell_left_edges(one, band, self.side, self.widths) for band in one.bands]
        width, page_height = max(wide for _, wide in edges), measures.height if pages > 1 else 0.0
        shift = 0.0
        if self.is_centred and width < measures.width < math.inf:
            shift = self._round_to_pixel((measures.width - width) / 2)
        for page in range(pages):
            rows = iter(tops)
            for band, (own_edges, _) in zip(one.bands, edges, strict=True):
                lefts = {at: left + shift for at, left in own_edges.items()}
                for row in range(measures.count_rows_of_band(one, band)):
                    top = next(rows) + page * page_height
                    places += self._place_row(band, page, row, top, lefts)
        whole = pages * page_height if pages > 1 else height
        return PlacedPanels(
            tuple(places), width + shift, whole, measures.column_header_height(self.side), one,
            measures.cells_per_side(one.side), page=measures.height if pages > 1 else None,
        )  # fmt: skip

    def _place_row(
        self,
        band: tuple[int, ...],
        page: int,
        row: int,
        top: float,
        lefts: dict[tuple[int, int], float],
    ) -> list[tuple[int, PanelPosition]]:
        """Place the panels of one row of a band, for all groups."""
        measures, one = self.measures, self.arrangement
        lanes = measures.lanes_of_band(band, one.rows)
        places: list[tuple[int, PanelPosition]] = []
        is_first, before = True, 0
        is_named = False  # whether the panels of the current group already have a head label
        for (group, at), left in sorted(lefts.items(), key=lambda one: (one[1], one[0])):
            column = measures.columns[at]
            lane = next(lane for lane in lanes if at in lane)
            if column.is_headed:
                number = self._head_index(page, row, group)
                if number >= min(len(self.columns[at]), (page + 1) * one.heads):
                    continue
                if group != before:
                    is_first = not measures.is_grid or not measures.has_alike_rows
                    is_named = False
            else:
                number = 0
                if lane.index(at) != row:
                    continue
            before = group
            has_rows = is_first or column.has_own_labels
            says_whose = column.is_headed and not is_named
            is_named |= says_whose
            heatmap = self.columns[at][number]
            places.append((
                self.numbers[heatmap],
                self._place_panel(heatmap, at, (left, top), (band, row), has_rows, says_whose),
            ))  # fmt: skip
            is_first = False
        return places

    def _head_index(self, page: int, row: int, group: int) -> int:
        """Return the index of a column's panel at a row and group.

        Heads run down and then right; in a grid, they run right.
        """
        one = self.arrangement
        if self.measures.is_grid:
            within = row * one.groups + group
        else:
            within = group * one.rows + row if row < one.rows else one.heads
        return page * one.heads + within if within < one.heads else len(self.numbers)

    def _place_panel(
        self,
        heatmap: Heatmap,
        at: int,
        corner: tuple[float, float],
        row: tuple[tuple[int, ...], int],
        has_rows: bool,
        says_whose: bool,
    ) -> PanelPosition:
        """Place a panel.

        Parameters
        ----------
        at : int
            Index of the panel's column on the board.
        corner : tuple of float
            Left and upper edges of the panel's cells.
        row : tuple
            The band, and the row within the band.
        has_rows, says_whose : bool
            Whether the panel shows row labels, and whether it shows its head label.
        """
        measures, one, (band, number) = self.measures, self.arrangement, row
        column = measures.columns[at]
        above = measures.height_above_cells(one, band, number, self.side)
        names_keys = measures.has_key_labels(number) and (number == 0 or column.is_headed)
        line = HEAD_LABEL_HEIGHT_PX * self.scale + label_overhang(self.cell, self.measures.line)
        head_at = None
        if says_whose and measures.has_head_labels_above(band):
            keys = measures.key_labels_height(one, band, self.side) if names_keys else 0.0
            head_at = (
                0.0,
                -(keys + 4 * self.scale + HEAD_LABEL_HEIGHT_PX * self.scale) if keys else -line,
            )
        elif says_whose:
            head_at = (-self.gutter, -line)
        title = TitlePlacement.NONE
        if number == 0:
            title = TitlePlacement.PINNED if band is one.bands[0] else TitlePlacement.OWN
            if measures.is_grid and heatmap is not self.columns[at][0]:
                title = TitlePlacement.NONE  # one title for the whole grid
        elif not column.is_headed:
            title = TitlePlacement.LINE
        if title is TitlePlacement.OWN:
            above += measures.column_header_height(self.side)
        return PanelPosition(
            self._round_to_pixel(corner[0]), self._round_to_pixel(corner[1]),
            self._cell_width(at), self.cell, above, self.gutter, one.longest, has_rows,
            names_keys,
            not column.has_shared_notes, head_at,
            measures.has_short_head_labels(one), title,
        )  # fmt: skip

    def _cell_width(self, at: int) -> float:
        """Return the width of a column's cells: square for tokens, otherwise in whole pixels."""
        column = self.measures.columns[at]
        if column.is_token:
            return self.cell
        whole = int(self.widths[at] * self.pixel_ratio / column.drawn[1] + 1e-6)
        return max(1, whole) / self.pixel_ratio

    def _round_to_pixel(self, length: float) -> float:
        return round(length * self.pixel_ratio) / self.pixel_ratio
