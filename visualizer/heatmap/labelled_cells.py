"""A table of coloured numbers with titles of its rows and columns, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

Place = tuple[int, int]
"""A row and a column."""


def _no_words(row: int, column: int) -> str:
    return ""


class LabelledCells(Struct, frozen=True, eq=False):
    """The table.

    Parameters
    ----------
    values : ndarray
        [row, column]; NaN where a number is not known.
    rows, columns : tuple of str
        Their titles.
    low, high : float
        The numbers of the first and the last colour.
    map_name : str
        The colour map.
    unit : str
        What the numbers are, for the colour bar.
    words : tuple
        What stands in the cells, [row][column]; empty where nothing does.
    marked : frozenset of Place
        Cells with a frame.
    marked_row : int or None
        The row whose title is marked.
    apart : int
        The column before which there is a gap; 0 for none.
    apart_high : float
        The number of the last colour from there on, where the first is its negative; 0 for the
        same scale.
    describe : callable
        Says what a cell is, by its row and column.
    """

    values: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    low: float
    high: float
    map_name: str
    unit: str
    words: tuple[tuple[str, ...], ...] = ()
    marked: frozenset[Place] = frozenset()
    marked_row: int | None = None
    apart: int = 0
    apart_high: float = 0.0
    describe: Callable[[int, int], str] = _no_words

    def positions(self) -> np.ndarray:
        """Return each number's position on the colour scale, from 0 to 1; NaN stays so."""
        span = self.high - self.low
        found = (self.values - self.low) / (span if span > 0 else 1.0)
        if self.apart_high:
            found[:, self.apart :] = (self.values[:, self.apart :] / self.apart_high + 1) / 2
        return np.clip(found, 0, 1)

    def as_tsv(self) -> str:
        """Format the table as tab-separated values, for a spreadsheet."""
        lines = [["", *self.columns]]
        for row, title in enumerate(self.rows):
            numbers = ["" if np.isnan(one) else f"{one:.7g}" for one in self.values[row]]
            if self.words:
                pairs = zip(self.words[row], numbers, strict=True)
                numbers = [f"{word} {number}" for word, number in pairs]
            lines.append([title, *numbers])
        plain = ["\t".join(" ".join(cell.split()) for cell in line) for line in lines]
        return "".join(f"{line}\n" for line in plain)


def largest_size(values: np.ndarray) -> float:
    """Return the largest absolute number, at which a scale around 0 ends; 1 where all are 0."""
    known = np.abs(values[np.isfinite(values)])
    return float(known.max()) if known.size and known.max() > 0 else 1.0
