"""Options of a view: colour maps and limits, lines, and mask editing."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell


class ColourMapKind(StrEnum):
    """The values for which a colour map is used: shares of a row, or signed values."""

    SEQUENTIAL = "sequential"
    DIVERGING = "diverging"


class ColourMap(Struct, frozen=True):
    """A colour map.

    Parameters
    ----------
    id : str
        Name in document files and in the file with the colours.
    title : str
        Label in a list of maps of the same kind.
    menu_text : str
        Label of its command, with the mnemonic marked by ``&``.
    """

    id: str
    title: str
    kind: ColourMapKind
    menu_text: str


AUTOMATIC_MAP = "automatic"
"""Id of the map for signed values that has variants for light and dark backgrounds."""

COLOUR_MAPS: tuple[ColourMap, ...] = (
    ColourMap("plum", "Plum", ColourMapKind.SEQUENTIAL, "&plum"),
    ColourMap("viridis", "viridis", ColourMapKind.SEQUENTIAL, "&viridis"),
    ColourMap("cividis", "cividis", ColourMapKind.SEQUENTIAL, "&cividis"),
    ColourMap("magma", "magma", ColourMapKind.SEQUENTIAL, "&magma"),
    ColourMap("CET-CBL1", "Blue (CET-CBL1)", ColourMapKind.SEQUENTIAL, "&blue (CET-CBL1)"),
    ColourMap("CET-L1", "Grey (CET-L1)", ColourMapKind.SEQUENTIAL, "gr&ey (CET-L1)"),
    ColourMap(
        AUTOMATIC_MAP, "Same as theme", ColourMapKind.DIVERGING, "&Signed numbers: same as theme"
    ),
    ColourMap("CET-CBD1", "Light at 0", ColourMapKind.DIVERGING, "Signed numbers: &light at 0"),
    ColourMap("blue-gold-dark", "Dark at 0", ColourMapKind.DIVERGING, "Signed numbers: &dark at 0"),
    ColourMap(
        "CET-D6",
        "Darker at 0 (CET-D6)",
        ColourMapKind.DIVERGING,
        "Signed numbers: dar&ker at 0 (CET-D6)",
    ),
)
"""All colour maps, in the order of the menu and the lists."""


def colour_maps_of_kind(kind: ColourMapKind) -> tuple[ColourMap, ...]:
    """Return the colour maps of one kind; the first one is the default."""
    return tuple(each for each in COLOUR_MAPS if each.kind is kind)


def kind_of_colour_map(name: str) -> ColourMapKind:
    """Return the values for which a colour map is used."""
    return next(each.kind for each in COLOUR_MAPS if each.id == name)


DEFAULT_MAP = colour_maps_of_kind(ColourMapKind.SEQUENTIAL)[0].id
"""Id of the default map for weights."""


class ColourCurve(StrEnum):
    """How values between the limits are mapped to colours: linearly, logarithmically or by rank."""

    LINEAR = "linear"
    LOG = "log"
    RANK = "rank"


class ColourLimits(StrEnum):
    """The values at the ends of the colour map.

    Automatic limits are derived from the values of all heads in a layer; see
    `find_range_of_samples`. The limits 0 and 1 can be chosen only for weights.
    """

    AUTO = "automatic"
    UNIT = "unit"
    ROW = "row"
    PANEL = "panel"
    SHARED = "shared"
    TYPED = "typed"


class ColourOptions(Struct, frozen=True):
    """Colour options of all panels.

    Parameters
    ----------
    typed : tuple of (stage, low, high)
        The limits that the user entered for stages. For a stage with negative values, the colours
        are symmetric about 0, regardless of the lower limit.
    diverging : str
        The colour map for signed values; the automatic one is close to the background colour at 0.
    """

    curve: ColourCurve = ColourCurve.LINEAR
    limits: ColourLimits = ColourLimits.AUTO
    typed: tuple[tuple[str, float, float], ...] = ()
    sequential: str = DEFAULT_MAP
    diverging: str = AUTOMATIC_MAP

    def with_colour_map(self, name: str) -> ColourOptions:
        """Return the options with another colour map for the values for which it is intended."""
        return replace(self, **{kind_of_colour_map(name).value: name})

    def entered_limits(self, stage: str) -> tuple[float, float] | None:
        """Return the limits that the user entered for a stage."""
        found = ((low, high) for name, low, high in self.typed if name == stage)
        return next(found, None)


PANE_TITLE = "Lines"
"""The title of the pane that draws the lines."""
FOLLOW_PINNED = -1
"""Value of `solo` that selects the head of the pinned cell."""
MAX_LINES_PER_QUERY = 32


class LineViewSide(StrEnum):
    """The side of the line view on which a token appears."""

    QUERY = "query"
    KEY = "key"


class LineViewToken(Struct, frozen=True):
    """A token on one side of the line view."""

    side: LineViewSide
    at: int


class LineViewOptions(Struct, frozen=True):
    """Options of the line view.

    Parameters
    ----------
    threshold : float
        Weight below which no line is drawn.
    top : int
        Number of largest weights drawn per query and head; 0 for all.
    solo : int or None
        The only head that is drawn, or `FOLLOW_PINNED`; None to draw all heads together.
    by_key : frozenset of Cell
        Cells that were selected through their key: all lines to that key are highlighted. For other
        cells, the lines of their query are highlighted.
    """

    threshold: float = 0.0
    top: int = 0
    solo: int | None = None
    by_key: frozenset[Cell] = frozenset()


class MaskPattern(StrEnum):
    """A mask pattern to start from."""

    ALL = "all"
    CAUSAL = "causal"
    WINDOW = "window"
    PREFIX = "prefix"
    PADDING = "padding"


class MaskEditState(Struct, frozen=True):
    """Whether the mask is being edited, and the parameters of the brushes.

    Parameters
    ----------
    window : int
        Number of tokens that a query attends to: the query itself and the tokens just before it.
    prefix : int
        Number of leading tokens that every query attends to.
    padding : int
        Number of text tokens; the tokens after them are padding.
    is_of_all_heads : bool
        Whether a stroke cuts edges in all shown heads of a model, instead of in its own head only.
    """

    is_on: bool = False
    window: int = 3
    prefix: int = 2
    padding: int = 4
    is_of_all_heads: bool = False

    def brush_parameter(self, brush: MaskPattern) -> int:
        """Return the parameter of a brush, or 0 if it has none."""
        return int(getattr(self, brush, 0))
