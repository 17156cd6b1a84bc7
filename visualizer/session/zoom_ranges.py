"""The zoom: visible ranges of queries and keys, which all panels share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.roles import Role

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage

MIN_VISIBLE_TOKENS = 2

TokenCounts = tuple[int, int]
"""Numbers of queries and of keys."""

_ROW_ROLES: dict[str, str] = {Role.KEYS: "key", Role.VALUES: "key"}
"""The role of the tokens in a stage's rows; in all other stages, the rows are queries."""


def row_token_role(stage: str) -> str:
    """Return the role of the tokens in a stage's rows."""
    return _ROW_ROLES.get(stage, "query")


class ZoomRange(Struct, frozen=True):
    """The visible queries and keys; rows that are not queries follow the keys."""

    queries: range
    keys: range

    def visible_ranges(
        self, stage: Stage, *, is_aligned: bool = False
    ) -> tuple[range, range | None]:
        """Return a stage's visible rows and columns, with None for columns that are not tokens.

        Parameters
        ----------
        is_aligned : bool
            Whether the rows of all stages are the same tokens, as on the flow board.
        """
        rows = self.keys if row_token_role(stage.name) == "key" and not is_aligned else self.queries
        return rows, self.keys if stage.dims[-1] == "key" else None

    @classmethod
    def full_range(cls, sides: TokenCounts) -> ZoomRange:
        """Return the zoom that shows everything."""
        return cls(*map(range, sides))

    def pan_by(self, sides: TokenCounts, down: int, right: int) -> ZoomRange:
        """Pan down and right, up to the edges."""
        return ZoomRange(
            _move_span(self.queries, sides[0], down), _move_span(self.keys, sides[1], right)
        )

    def pan_to_include(self, sides: TokenCounts, query: int | None, key: int | None) -> ZoomRange:
        """Pan just far enough to show a query and a key."""
        return self.pan_by(
            sides, _distance_outside(self.queries, query), _distance_outside(self.keys, key)
        )


def zoom_by(
    zoom: ZoomRange | None, sides: TokenCounts, factor: float, at: tuple[float, float]
) -> ZoomRange | None:
    """Zoom in or out around a fixed point.

    Parameters
    ----------
    factor : float
        Zoom factor; above 1 to zoom in.
    at : tuple of float
        The fixed point: a query index and a key index, which can be fractional.

    Returns
    -------
    ZoomRange or None
        None if everything is visible.
    """
    zoom = zoom or ZoomRange.full_range(sides)
    spans = (zoom.queries, zoom.keys)
    made = (
        _scale_span(span, tokens, factor, centre)
        for span, tokens, centre in zip(spans, sides, at, strict=True)
    )
    closer = ZoomRange(*made)
    return None if (len(closer.queries), len(closer.keys)) == sides else closer


def _scale_span(span: range, tokens: int, factor: float, centre: float) -> range:
    # Despite rounding, zooming out by as many steps as zooming in shows everything again.
    wanted = len(span) / factor if factor >= 1 else (len(span) + 1) / factor
    size = min(max(math.floor(wanted), min(MIN_VISIBLE_TOKENS, tokens)), tokens)
    share = (centre - span.start) / len(span)
    start, token = round(centre - share * size), min(math.floor(centre), span.stop - 1)
    start = min(max(start, token + 1 - size), token)  # rounding must not hide the token
    start = min(max(start, 0), tokens - size)
    return range(start, start + size)


def _move_span(span: range, tokens: int, by: int) -> range:
    start = max(min(span.start + by, tokens - len(span)), 0)  # a range of a longer text may not fit
    return range(start, start + len(span))


def _distance_outside(span: range, at: int | None) -> int:
    if at is None or at in span:
        return 0
    return at - span.start if at < span.start else at - span.stop + 1


def clamp_zoom(zoom: ZoomRange | None, sides: TokenCounts) -> ZoomRange | None:
    """Clamp a zoom to the numbers of queries and keys, or return None if everything is visible."""
    if zoom is None:
        return None
    spans = list(zip((zoom.queries, zoom.keys), sides, strict=True))
    if any(len(span) > tokens for span, tokens in spans):
        return None
    is_part = any(len(span) < tokens for span, tokens in spans)
    return ZoomRange(*(_move_span(span, tokens, 0) for span, tokens in spans)) if is_part else None


def pan_to_show(
    zoom: ZoomRange | None, sides: TokenCounts, stage: Stage, row: int, column: int | None
) -> ZoomRange | None:
    """Pan just far enough to show a cell, or a row if no column is given."""
    if zoom is None:
        return None
    is_key = row_token_role(stage.name) == "key"
    key = column if stage.dims[-1] == "key" else row if is_key else None
    return zoom.pan_to_include(sides, None if is_key else row, key)
