"""Layout of the line view: positions of tokens, and the curve of a line between two of them."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from msgspec import Struct

from visualizer.heatmap.panel_margins import MAX_LABEL_PX, widest_label
from visualizer.widgets.fonts import font_metrics, text_scale

Positions = np.ndarray | int

MAX_SPREAD_TOKENS = 40
MIN_ROW_PX = 2.0
MAX_ROW_PX = 64
LABEL_GAP_PX = 8
MARGIN_PX = 12
HEADER_HEIGHT_PX = 26
MIN_MIDDLE_PX = 72
MAX_SPREAD_HEADS = 5
HEAD_SPREAD_SHARE = 0.7
"""The fraction of a row's height over which the lines of all heads are spread."""


class LineLayout(Struct, frozen=True):
    """Geometry of the line view: one row per token, the same on both sides.

    Parameters
    ----------
    tokens : tuple of int or None
        The tokens that have a row, ascending; None for all.
    left, right : float
        The x coordinates where lines begin and end.
    height : float
        The height of a row.
    top : float
        The top of the first row, unscrolled.
    step : float
        The vertical offset between lines of successive heads with the same tokens.
    first : float
        The offset of the first head's lines from the middle of a row.
    """

    count: int
    left: float
    right: float
    height: float
    top: float
    step: float = 0.0
    first: float = 0.0
    tokens: tuple[int, ...] | None = None

    @property
    def bottom(self) -> float:
        outside = max(0.0, font_metrics(12).height() - self.height) / 2  # the last label's overhang
        return self.top + self.count * self.height + outside

    def token(self, row: int) -> int:
        """The token of a row."""
        return row if self.tokens is None else self.tokens[row]

    def row(self, token: int) -> int | None:
        """The row of a token; None if it has none."""
        if self.tokens is None:
            return token if token < self.count else None
        row = bisect_left(self.tokens, token)
        return row if self.tokens[row : row + 1] == (token,) else None

    def middle(self, at: float) -> float:
        """The y coordinate of the middle of a row."""
        return self.top + (at + 0.5) * self.height

    def at(self, y: float) -> int | None:
        """The row at a y coordinate; None outside the rows."""
        at = int((y - self.top) // self.height)
        return at if 0 <= at < self.count else None

    def ends(self, heads: Positions, tokens: Positions) -> np.ndarray:
        """The y coordinates at which lines of heads meet tokens; all heads must have a row."""
        within = self.first + np.asarray(heads) * self.step
        rows = tokens if self.tokens is None else np.searchsorted(self.tokens, tokens)
        heights: np.ndarray = self.top + (np.asarray(rows) + 0.5) * self.height + within
        return heights

    def curve_share(self, x: float) -> float:
        """The fraction of a line's vertical distance that is covered at an x coordinate."""
        return float(np.interp((x - self.left) / (self.right - self.left), _ACROSS, _ALONG))


def line_course(pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the x and y fractions of a line at the ends of its pieces.

    A line is a cubic Bézier curve with both control points half way across.
    """
    times = np.linspace(0, 1, pieces + 1)
    return 1.5 * times * (1 - times) + times**3, 3 * times**2 - 2 * times**3


_ACROSS, _ALONG = line_course(64)


def lay_out_lines(
    labels: tuple[str, ...],
    heads: int,
    width: float,
    height: float,
    tokens: tuple[int, ...] | None = None,
) -> LineLayout:
    """Lay out the tokens and the lines of a number of heads in a view of a given size.

    Few tokens keep rows of a readable height. With more tokens, rows shrink to fit the view, down
    to the smallest height that can be pointed at. If only some tokens are listed, every row keeps
    a readable height.
    """
    scale, line = text_scale(), font_metrics(12).height()
    count = max(1, len(labels))
    top = HEADER_HEIGHT_PX * scale
    smallest = line + 2 if count <= MAX_SPREAD_TOKENS or tokens is not None else MIN_ROW_PX
    row = min((height - top) / count, MAX_ROW_PX * scale)
    outside = max(0.0, line - row) / 2  # overhang of the first and last label
    row = max(row - 2 * outside / count, smallest)
    top += outside
    most = min(MAX_LABEL_PX * scale, (width - MIN_MIDDLE_PX) / 2 - LABEL_GAP_PX - MARGIN_PX)
    bold = 1.1 * widest_label(labels)  # highlighted labels are bold
    own = max(bold, font_metrics(12).horizontalAdvance("query"))
    widest = max(0.0, min(own + 4, most))
    side = MARGIN_PX + widest + LABEL_GAP_PX
    step = min(MAX_SPREAD_HEADS * scale, row * HEAD_SPREAD_SHARE / heads) if heads > 1 else 0.0
    first = -step * (heads - 1) / 2
    right = max(width - side, side + 1)
    return LineLayout(len(labels), side, right, row, top, step, first, tokens)
