"""Place one stage of a head as large as fits, with small panels of the others around it."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.heatmap.board_arrangement import (
    BELOW,
    EDGE,
    GAP,
    HEAD_LINE,
    PanelArrangement,
)
from visualizer.heatmap.board_layout import PanelPlace, PlacedPanels, TitlePlace
from visualizer.heatmap.panel_margins import label_overhang, line_title_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from visualizer.heatmap.board_arrangement import BoardArranger
    from visualizer.heatmap.panel_and_board_types import Board

MIN_SIDES_PX = (96, 72)
"""Minimum side of the other panels, followed by the minimum on a small canvas."""


class LargePanelArrangement(Struct, frozen=True):
    """Arrangement of panels around a large one.

    Parameters
    ----------
    side, small : float
        The sides of the large panel and of the others.
    is_below : bool
        Whether the others are below it, rather than to its right.
    rows : tuple of tuple of int
        The board's columns of the others, row by row.
    """

    side: float
    small: float
    is_below: bool
    rows: tuple[tuple[int, ...], ...]


def placed_beside_large(board: Board, arranger: BoardArranger) -> PlacedPanels | None:
    """Place the panels of one head around a large one; None if they do not fit."""
    placement = LargePanelPlacement(board, arranger)
    found = placement.best()
    return placement.placed(found) if found else None


class LargePanelPlacement:
    """Finds the largest panel size that leaves room for all others."""

    def __init__(self, board: Board, arranger: BoardArranger) -> None:
        self.arranger, self.scale = arranger, arranger.scale
        self.columns = [column[0] for column in board.columns]
        self.large = next(at for at, one in enumerate(self.columns) if one.stage == board.large)
        self.others = [at for at in range(len(self.columns)) if at != self.large]
        self.titles = [line_title_width(one) for one in self.columns]
        self.alone = PanelArrangement(((self.large,),), 1, 1, arranger.longest())

    def best(self) -> LargePanelArrangement | None:
        """Return the arrangement with the largest panel, and then with the largest others."""
        for least in MIN_SIDES_PX:
            ways = [
                found
                for is_below in (False, True)
                for rows in self._row_arrangements()
                if (found := self._largest_arrangement(is_below, rows, least))
            ]
            if ways:
                return max(ways, key=lambda one: (one.side, one.small))
        return None

    def _row_arrangements(self) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Yield the ways to arrange the others in rows of equal length."""
        for across in range(1, len(self.others) + 1):
            starts = range(0, len(self.others), across)
            yield tuple(tuple(self.others[at : at + across]) for at in starts)

    def _largest_arrangement(
        self, is_below: bool, rows: tuple[tuple[int, ...], ...], least: float
    ) -> LargePanelArrangement | None:
        sizes = [one for one in self.arranger.sizes(least) if one >= least * self.scale]
        if not sizes:
            return None
        side = self._largest_fitting(
            sizes, lambda side: LargePanelArrangement(side, sizes[0], is_below, rows)
        )
        if side is None:
            return None
        smalls = [one for one in sizes if one <= side]
        small = self._largest_fitting(
            smalls, lambda small: LargePanelArrangement(side, small, is_below, rows)
        )
        return LargePanelArrangement(side, small or sizes[0], is_below, rows)

    def _largest_fitting(
        self, sizes: list[float], arranged: Callable[[float], LargePanelArrangement]
    ) -> float | None:
        """Return the largest of the sorted sizes that fits; None if none does."""
        count = bisect.bisect_left(
            sizes, True, key=lambda size: not self._fits_canvas(arranged(size))
        )
        return sizes[count - 1] if count else None

    def _fits_canvas(self, one: LargePanelArrangement) -> bool:
        width, height = self._total_size(one)
        return width <= self.arranger.width and height <= self.arranger.height

    def _total_size(self, one: LargePanelArrangement) -> tuple[float, float]:
        right, bottom = self._corner_of_large(one)
        across, down = self._others_size(one)
        edge = EDGE * self.scale
        if one.is_below:
            return max(right, edge + across) + edge, bottom + down + BELOW * self.scale
        return right + GAP * self.scale + across + edge, max(bottom, down) + BELOW * self.scale

    def _corner_of_large(self, one: LargePanelArrangement) -> tuple[float, float]:
        """Return the bottom-right corner of the large panel, including its margins."""
        arranger = self.arranger
        right = arranger.lefts(self.alone, (self.large,), one.side)[1]
        return right - EDGE * self.scale, arranger.tops(self.alone, one.side)[1]

    def _others_size(self, one: LargePanelArrangement) -> tuple[float, float]:
        widths = self._other_widths(one)
        line, gap = HEAD_LINE * self.scale, GAP * self.scale
        height = one.small + line + BELOW * self.scale
        feet = max(self.arranger.columns[at].foot for at in self.others)
        return sum(widths) + gap * (len(widths) - 1), len(one.rows) * (height + feet)

    def _other_widths(self, one: LargePanelArrangement) -> list[float]:
        """Return the widths of the columns of the others."""
        across = len(one.rows[0])
        return [
            max(self._outer_width(row[place], one.small) for row in one.rows if place < len(row))
            for place in range(across)
        ]

    def _outer_width(self, at: int, small: float) -> float:
        width = max(self.arranger.least_width(at, small), self.titles[at])
        return width + self.arranger.columns[at].sums

    # ------------------------------------------------------------------ places

    def placed(self, one: LargePanelArrangement) -> PlacedPanels:
        """Place all panels."""
        arranger = self.arranger
        lefts, _ = arranger.lefts(self.alone, (self.large,), one.side)
        top = arranger.tops(self.alone, one.side)[0][0]
        spare = max(0.0, arranger.width - self._total_size(one)[0])
        width = arranger.least_width(self.large, one.side)
        if one.is_below:  # on the right there are others
            width = max(width, min(width + spare, arranger.widest_features(self.large)))
        places = {
            self.large: self._place_panel(self.large, (lefts[0, self.large], top), one, width)
        }
        right, bottom = self._corner_of_large(one)
        line, below = HEAD_LINE * self.scale, BELOW * self.scale
        feet = max(arranger.columns[at].foot for at in self.others)
        start = EDGE * self.scale if one.is_below else right + GAP * self.scale
        y = bottom if one.is_below else 0.0
        widths = self._other_widths(one)
        for row in one.rows:
            x = start
            for place, at in enumerate(row):
                wide = min(widths[place], arranger.widest_features(at))
                places[at] = self._place_panel(at, (x, y + line), one, wide)
                x += widths[place] + GAP * self.scale
            y += line + one.small + feet + below
        width, height = self._total_size(one)
        ordered = tuple((at, places[at]) for at in (self.large, *self.others))
        return PlacedPanels(
            ordered, width, height, 0.0, None,
            arranger.room(one.side), arranger.room(one.small),
        )  # fmt: skip

    def _place_panel(
        self, at: int, corner: tuple[float, float], one: LargePanelArrangement, width: float
    ) -> PanelPlace:
        arranger, is_large = self.arranger, at == self.large
        measures = arranger.columns[at]
        side = one.side if is_large else one.small
        ratio = arranger.pixel_ratio
        drawn = max(measures.drawn[0], measures.drawn[1] if measures.is_token else 0)
        of_all = side * max(measures.rows, measures.columns * measures.is_token) / arranger.tokens
        cell = max(1, int(of_all * ratio / drawn + 1e-6)) / ratio
        across = cell
        if not measures.is_token:
            across = max(1, int(width * ratio / measures.drawn[1] + 1e-6)) / ratio
        above = HEAD_LINE * self.scale
        head_at = None
        gutter = arranger.gutter(self.alone.longest)
        if is_large:
            above = arranger.head(side) + arranger.above(self.alone, (at,), 0, side)
            line = HEAD_LINE * self.scale + label_overhang(cell)
            head_at = (-gutter, -line) if measures.is_headed else None
        left, top = (round(length * ratio) / ratio for length in corner)
        return PanelPlace(
            left, top, across, cell, above, gutter, self.alone.longest, is_large, is_large,
            not measures.has_shared_notes, head_at, arranger.has_short_heads(self.alone),
            TitlePlace.OWN if is_large else TitlePlace.LINE,
        )  # fmt: skip
