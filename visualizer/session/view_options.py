"""How the lines are looked at: which of them, and of which heads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from visualizer.session.colour_maps import AUTOMATIC, USUAL

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell


class MaskBrush(StrEnum):
    """A mask to start from."""

    ALL = "all"
    CAUSAL = "causal"
    WINDOW = "window"
    PREFIX = "prefix"
    PADDING = "padding"


@dataclass(frozen=True, slots=True)
class MaskEditState:
    """Whether the mask is being painted, and the numbers of the brushes that have one.

    Parameters
    ----------
    window : int
        How many tokens a query reads: itself and those just before.
    prefix : int
        How many tokens at the start every query reads.
    padding : int
        How many tokens are text: those after are padding.
    """

    is_on: bool = False
    window: int = 3
    prefix: int = 2
    padding: int = 4

    def number(self, brush: MaskBrush) -> int:
        """Give the number of a brush; 0 where it has none."""
        return int(getattr(self, brush, 0))


PANE = "Lines"
"""The pane in which they are drawn."""
FOLLOWS = -1
"""In place of a head: the one of the pinned cell."""
MOST_OF_A_QUERY = 32


class LineSide(StrEnum):
    """At which end of its lines a token stands."""

    QUERY = "query"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class LineToken:
    """A token at one side of the lines."""

    side: LineSide
    at: int


@dataclass(frozen=True, slots=True)
class LineOptions:
    """What of the lines is shown.

    Parameters
    ----------
    threshold : float
        Smaller weights have no line.
    top : int
        How many of the largest of each query and head have a line; 0 for all.
    solo : int or None
        The one head that is drawn, or `FOLLOWS`; None for all heads in one picture.
    by_key : frozenset of Cell
        Cells that were come to by their key: with them light up all lines to that key, where with
        others all lines of their query do.
    """

    threshold: float = 0.0
    top: int = 0
    solo: int | None = None
    by_key: frozenset[Cell] = frozenset()


class CodeDialect(StrEnum):
    """In whose words the code is written."""

    BOOK = "book"
    LECTURE = "lecture"
    SDPA = "sdpa"


class ColourCurve(StrEnum):
    """How the numbers between the ends share the colours: by size, by power, or by order."""

    LINEAR = "linear"
    LOG = "log"
    RANK = "rank"


class ColourLimits(StrEnum):
    """Which numbers have the colours at the ends.

    Automatic is 0 and 1 for the weights of a short text and each row's largest for those of a long
    one; for the other stages, the largest of all heads.
    """

    AUTO = "automatic"
    ROW = "row"
    PANEL = "panel"
    SHARED = "shared"
    TYPED = "typed"


@dataclass(frozen=True, slots=True)
class ColourOptions:
    """What was chosen of colours, for all panels.

    Parameters
    ----------
    typed : tuple of (stage, low, high)
        The ends of some stages, for limits that are typed. Where a stage has numbers below 0 its
        colours go as far below as above, whatever the lower end.
    diverging : str
        The map of numbers above and below 0; automatic is near the paper at 0.
    """

    curve: ColourCurve = ColourCurve.LINEAR
    limits: ColourLimits = ColourLimits.AUTO
    typed: tuple[tuple[str, float, float], ...] = ()
    sequential: str = USUAL
    diverging: str = AUTOMATIC

    def ends(self, stage: str) -> tuple[float, float] | None:
        """Give the ends that were typed for a stage."""
        found = ((low, high) for name, low, high in self.typed if name == stage)
        return next(found, None)
