"""Looking closer: which queries and which keys are seen, the same ones in every panel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.session.cell_address import Cell

SMALLEST = 2

Sides = tuple[int, int]
"""How many queries and how many keys there are."""

# The token that a row of these stages stands for is the key that is read, else the query.
ROLES = {"keys": "key", "values": "key"}


def row_role(stage: str) -> str:
    """Name the token that a stage's rows stand for: the query, or the key that is read."""
    return ROLES.get(stage, "query")


@dataclass(frozen=True, slots=True)
class Zoom:
    """What is seen of every panel; rows of tokens that are no queries are those of the keys."""

    queries: range
    keys: range

    def of(self, stage: Stage) -> tuple[range, range | None]:
        """Give the rows and columns that are seen of a stage; all columns, where no token is."""
        rows = self.keys if row_role(stage.name) == "key" else self.queries
        return rows, self.keys if stage.dims[-1] == "key" else None

    @classmethod
    def whole(cls, sides: Sides) -> Zoom:
        """Look at all there is."""
        return cls(*map(range, sides))

    def panned(self, sides: Sides, down: int, right: int) -> Zoom:
        """Look further down and right, up to the edges."""
        return Zoom(_moved(self.queries, sides[0], down), _moved(self.keys, sides[1], right))

    def including(self, sides: Sides, query: int | None, key: int | None) -> Zoom:
        """Look so that a query and a key can be seen."""
        return self.panned(sides, _off(self.queries, query), _off(self.keys, key))


def zoomed(zoom: Zoom | None, sides: Sides, factor: float, at: tuple[float, float]) -> Zoom | None:
    """Look closer or from further away, around a place that stays where it is.

    Parameters
    ----------
    factor : float
        Above 1 for closer.
    at : tuple of float
        A query and a key, of which fractions count.

    Returns
    -------
    Zoom or None
        None where all is seen.
    """
    zoom = zoom or Zoom.whole(sides)
    spans = (zoom.queries, zoom.keys)
    made = (
        _scaled(span, tokens, factor, centre)
        for span, tokens, centre in zip(spans, sides, at, strict=True)
    )
    closer = Zoom(*made)
    return None if (len(closer.queries), len(closer.keys)) == sides else closer


def _scaled(span: range, tokens: int, factor: float, centre: float) -> range:
    # In spite of the rounding, as many steps back as one went closer show all again.
    wanted = len(span) / factor if factor >= 1 else (len(span) + 1) / factor
    size = min(max(math.floor(wanted), min(SMALLEST, tokens)), tokens)
    share = (centre - span.start) / len(span)
    start, token = round(centre - share * size), min(math.floor(centre), span.stop - 1)
    start = min(max(start, token + 1 - size), token)  # rounding must not lose it
    start = min(max(start, 0), tokens - size)
    return range(start, start + size)


def _moved(span: range, tokens: int, by: int) -> range:
    start = min(max(span.start + by, 0), tokens - len(span))
    return range(start, start + len(span))


def _off(span: range, at: int | None) -> int:
    if at is None or at in span:
        return 0
    return at - span.start if at < span.start else at - span.stop + 1


def fitted(zoom: Zoom | None, sides: Sides) -> Zoom | None:
    """Give what can be seen of a text of so many tokens; nothing less than all of a shorter one."""
    if zoom is None:
        return None
    spans = list(zip((zoom.queries, zoom.keys), sides, strict=True))
    if any(len(span) > tokens for span, tokens in spans):
        return None
    is_part = any(len(span) < tokens for span, tokens in spans)
    return Zoom(*(_moved(span, tokens, 0) for span, tokens in spans)) if is_part else None


def seen_with(zoom: Zoom | None, sides: Sides, stage: Stage, cell: Cell) -> Zoom | None:
    """Look so that a cell can be seen."""
    if zoom is None:
        return None
    row, column = cell.place[-2:]
    is_key = row_role(stage.name) == "key"
    key = column if stage.dims[-1] == "key" else row if is_key else None
    return zoom.including(sides, None if is_key else row, key)
