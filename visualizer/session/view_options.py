"""Options of a view: mask editing, line view, code dialect and colours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from visualizer.session.colour_maps import AUTOMATIC, USUAL

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell


class MaskBrush(StrEnum):
    """A mask pattern to start from."""

    ALL = "all"
    CAUSAL = "causal"
    WINDOW = "window"
    PREFIX = "prefix"
    PADDING = "padding"


@dataclass(frozen=True, slots=True)
class MaskEditState:
    """Whether the mask is being edited, and the parameters of the brushes.

    Parameters
    ----------
    window : int
        Number of tokens a query attends to: itself and those just before.
    prefix : int
        Number of leading tokens that every query attends to.
    padding : int
        Number of text tokens; those after are padding.
    """

    is_on: bool = False
    window: int = 3
    prefix: int = 2
    padding: int = 4

    def number(self, brush: MaskBrush) -> int:
        """Return the parameter of a brush; 0 where it has none."""
        return int(getattr(self, brush, 0))


PANE = "Lines"
"""The title of the pane that draws the lines."""
FOLLOWS = -1
"""In place of a head: the pinned cell's head."""
MOST_OF_A_QUERY = 32


class LineSide(StrEnum):
    """The end of the lines at which a token stands."""

    QUERY = "query"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class LineToken:
    """A token on one side of the line view."""

    side: LineSide
    at: int


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Options of the line view.

    Parameters
    ----------
    threshold : float
        Weights below it have no line.
    top : int
        Number of largest weights drawn per query and head; 0 for all.
    solo : int or None
        The one head drawn, or `FOLLOWS`; None for all heads in one picture.
    by_key : frozenset of Cell
        Cells reached through their key: all lines to that key are highlighted, otherwise those of
        their query.
    """

    threshold: float = 0.0
    top: int = 0
    solo: int | None = None
    by_key: frozenset[Cell] = frozenset()


class CodeDialect(StrEnum):
    """The library whose names the code uses."""

    BOOK = "book"
    LECTURE = "lecture"
    SDPA = "sdpa"


class ColourCurve(StrEnum):
    """How numbers between the limits map to colours: linearly, by logarithm or by rank."""

    LINEAR = "linear"
    LOG = "log"
    RANK = "rank"


class ColourLimits(StrEnum):
    """Which numbers get the colours at the ends of the map.

    Automatic is 0 and 1 for the weights of a short text and each row's maximum for those of a long
    one; for other stages, the maximum over all heads.
    """

    AUTO = "automatic"
    ROW = "row"
    PANEL = "panel"
    SHARED = "shared"
    TYPED = "typed"


@dataclass(frozen=True, slots=True)
class ColourOptions:
    """Colour options of all panels.

    Parameters
    ----------
    typed : tuple of (stage, low, high)
        Typed limits of stages. For a stage with numbers below 0 the colours are symmetric about 0,
        whatever the lower limit.
    diverging : str
        The colour map for signed numbers; automatic is near the background at 0.
    """

    curve: ColourCurve = ColourCurve.LINEAR
    limits: ColourLimits = ColourLimits.AUTO
    typed: tuple[tuple[str, float, float], ...] = ()
    sequential: str = USUAL
    diverging: str = AUTOMATIC

    def ends(self, stage: str) -> tuple[float, float] | None:
        """Return the limits typed for a stage."""
        found = ((low, high) for name, low, high in self.typed if name == stage)
        return next(found, None)
