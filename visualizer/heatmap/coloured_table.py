"""A table of coloured numbers with row and column titles, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

RowColumnIndex = tuple[int, int]
"""Row and column of a cell."""


def _no_description(row: int, column: int) -> str:
    return ""


class ColouredTable(Struct, frozen=True, eq=False):
    """A table of coloured numbers.

    Parameters
    ----------
    values : ndarray
        [row, column]; NaN where a number is unknown.
    rows, columns : tuple of str
        Titles of the rows and columns.
    low, high : float
        The values at the first and the last colour.
    map_name : str
        The colour map.
    unit : str
        Description of the values for the colour bar.
    words : tuple
        Text of the cells, [row][column]; empty if cells have no text.
    marked : frozenset of RowColumnIndex
        Cells with a frame.
    highlighted_row : int or None
        The row with the highlighted title.
    gap_column : int
        The column that is preceded by a gap; 0 if there is none.
    separate_upper_limit : float
        The value of the last colour of a separate scale, centred at 0, from column `gap_column`
        on; 0 if all columns share a scale.
    describe : callable
        Returns a description of a cell, given its row and column.
    """

    values: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    low: float
    high: float
    map_name: str
    unit: str
    words: tuple[tuple[str, ...], ...] = ()
    marked: frozenset[RowColumnIndex] = frozenset()
    highlighted_row: int | None = None
    gap_column: int = 0
    separate_upper_limit: float = 0.0
    describe: Callable[[int, int], str] = _no_description

    def scale_positions(self) -> np.ndarray:
        """Return each value's position on the colour scale, from 0 to 1; NaN stays NaN."""
        span = self.high - self.low
        found = (self.values - self.low) / (span if span > 0 else 1.0)
        if self.separate_upper_limit:
            found[:, self.gap_column :] = (
                self.values[:, self.gap_column :] / self.separate_upper_limit + 1
            ) / 2
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


def max_magnitude(values: np.ndarray) -> float:
    """Return the largest absolute value, for a scale centred at 0, or 1 if all values are 0."""
    known = np.abs(values[np.isfinite(values)])
    return float(known.max()) if known.size and known.max() > 0 else 1.0
