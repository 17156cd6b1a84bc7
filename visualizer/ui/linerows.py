"""Where the tokens of the line view stand, and how a line runs between two: pure geometry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visualizer.ui.measures import LONGEST_LABEL, widest_label
from visualizer.ui.theme import metrics, text_scale

FEW = 40
SMALLEST = 2.0
LARGEST = 34
GAP = 8
MARGIN = 12
HEAD = 26
LEAST_MIDDLE = 72


@dataclass(frozen=True, slots=True)
class Rows:
    """A row a token, the same at both sides.

    Parameters
    ----------
    left, right : float
        Where the lines begin and end.
    height : float
        Of a row.
    top : float
        Of the first row, before anything is scrolled.
    """

    count: int
    left: float
    right: float
    height: float
    top: float

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return self.top + self.count * self.height + MARGIN / 2

    def middle(self, at: float) -> float:
        """Give the height at which a token's lines begin."""
        return self.top + (at + 0.5) * self.height

    def at(self, y: float) -> int | None:
        """Find the token at a height."""
        at = int((y - self.top) // self.height)
        return at if 0 <= at < self.count else None

    def crossing(self, x: float, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Give the heights at which lines cross an upright."""
        way = np.interp((x - self.left) / (self.right - self.left), _ACROSS, _ALONG)
        crossing: np.ndarray = self.top + (queries + 0.5 + (keys - queries) * way) * self.height
        return crossing


# A cubic with its two middle points half way across: how far across and along it is at a time.
_TIMES = np.linspace(0, 1, 65)
_ACROSS = 1.5 * _TIMES * (1 - _TIMES) + _TIMES**3
_ALONG = 3 * _TIMES**2 - 2 * _TIMES**3


def lay_out(labels: tuple[str, ...], width: float, height: float) -> Rows:
    """Place the tokens in a view of this size.

    Few keep a row that can be read; more of them become as small as it takes to see them all, and
    no smaller than can be pointed at.
    """
    scale, line = text_scale(), metrics(12).height()
    count = max(1, len(labels))
    top = HEAD * scale
    smallest = line + 2 if count <= FEW else SMALLEST
    row = (height - top - MARGIN / 2) / count
    row = min(max(row, smallest), LARGEST * scale)
    widest = min(widest_label(labels), LONGEST_LABEL * scale, (width - LEAST_MIDDLE) / 2 - GAP)
    side = MARGIN + max(0.0, widest) + GAP
    return Rows(len(labels), side, max(width - side, side + 1), row, top)
