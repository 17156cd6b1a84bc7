"""Where the tokens of the line view stand, and how a line runs between two: pure geometry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visualizer.heatmap.label_metrics import LONGEST_LABEL, widest_label
from visualizer.widgets.theme import metrics, text_scale

Places = np.ndarray | int

FEW = 40
SMALLEST = 2.0
LARGEST = 64
GAP = 8
MARGIN = 12
HEAD = 26
LEAST_MIDDLE = 72
MOST_APART = 5
SPREAD = 0.7
"""The part of a row that the lines of all heads take."""


@dataclass(frozen=True, slots=True)
class LineLayout:
    """A row a token, the same at both sides.

    Parameters
    ----------
    left, right : float
        Where the lines begin and end.
    height : float
        Of a row.
    top : float
        Of the first row, before anything is scrolled.
    step : float
        Between the lines of one head and of the next, where they have the same tokens.
    first : float
        Where the first head's are, from the middle of a row.
    """

    count: int
    left: float
    right: float
    height: float
    top: float
    step: float = 0.0
    first: float = 0.0

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        outside = max(0.0, metrics(12).height() - self.height) / 2  # of the last label
        return self.top + self.count * self.height + outside

    def middle(self, at: float) -> float:
        """Give the height at which a token's lines begin."""
        return self.top + (at + 0.5) * self.height

    def at(self, y: float) -> int | None:
        """Find the token at a height."""
        at = int((y - self.top) // self.height)
        return at if 0 <= at < self.count else None

    def ends(self, heads: Places, tokens: Places) -> np.ndarray:
        """Give the heights at which the lines of heads end at tokens."""
        within = self.first + np.asarray(heads) * self.step
        heights: np.ndarray = self.top + (np.asarray(tokens) + 0.5) * self.height + within
        return heights

    def way(self, x: float) -> float:
        """Say how much of its way up or down a line has gone where it crosses an upright."""
        return float(np.interp((x - self.left) / (self.right - self.left), _ACROSS, _ALONG))


# A cubic with its two middle points half way across: how far across and along it is at a time.
_TIMES = np.linspace(0, 1, 65)
_ACROSS = 1.5 * _TIMES * (1 - _TIMES) + _TIMES**3
_ALONG = 3 * _TIMES**2 - 2 * _TIMES**3


def lay_out(labels: tuple[str, ...], heads: int, width: float, height: float) -> LineLayout:
    """Place the tokens, and the lines of so many heads, in a view of this size.

    Few keep a row that can be read; more of them become as small as it takes to see them all, and
    no smaller than can be pointed at.
    """
    scale, line = text_scale(), metrics(12).height()
    count = max(1, len(labels))
    top = HEAD * scale
    smallest = line + 2 if count <= FEW else SMALLEST
    row = min((height - top) / count, LARGEST * scale)
    outside = max(0.0, line - row) / 2  # the first and the last label are higher than their rows
    row = max(row - 2 * outside / count, smallest)
    top += outside
    most = min(LONGEST_LABEL * scale, (width - LEAST_MIDDLE) / 2 - GAP - MARGIN)
    widest = max(0.0, min(1.1 * widest_label(labels) + 4, most))  # lit labels are bold
    side = MARGIN + widest + GAP
    step = min(MOST_APART * scale, row * SPREAD / heads) if heads > 1 else 0.0
    first = -step * (heads - 1) / 2
    return LineLayout(len(labels), side, max(width - side, side + 1), row, top, step, first)
