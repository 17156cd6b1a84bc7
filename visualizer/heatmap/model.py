"""The data of a heatmap board: axes, panels and the board itself, independent of drawing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from visualizer.session.cell_address import ComparedSide

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy as np

    from visualizer.attention.weight_transforms import HeadAggregate
    from visualizer.heatmap.panel_colour_scale import ColourScale
    from visualizer.session.cell_address import Cell
    from visualizer.session.zoom import Zoom


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of a heatmap.

    Parameters
    ----------
    name : str
        What it counts: query, key, token or a size.
    labels : tuple of str
        One for every row or column of the stage.
    block : int
        How many of them a drawn cell holds.
    part : range or None
        Those that are drawn, where not all are.
    """

    name: str
    labels: tuple[str, ...]
    block: int
    part: range | None = None

    @property
    def is_token(self) -> bool:
        """Whether it counts tokens."""
        return self.name in {"query", "key", "token"}

    @property
    def seen(self) -> range:
        """The rows or columns of the stage that are drawn."""
        return range(len(self.labels)) if self.part is None else self.part

    def cell(self, at: int) -> int:
        """Give the drawn cell that a row or column is in, counted from the first one drawn."""
        return (at - self.seen.start) // self.block

    def first(self, cell: int) -> int:
        """Give the first row or column that is in a drawn cell."""
        return self.seen.start + cell * self.block


@dataclass(frozen=True, slots=True, eq=False)
class Heatmap:
    """One panel.

    Parameters
    ----------
    head : int or None
        None for a stage without heads, and for heads that are folded into one.
    fold : Fold or None
        How its heads were folded into one.
    text : int
        Which text of a batch it is of.
    label : str
        Whose it is, beside its rows: a head's, or a text's.
    values : numpy.ndarray
        [row, column], each a number of the trace or the one of a block that is farthest from 0.
    forbidden, dropped : numpy.ndarray or None
        Boolean, of the same shape: cells that are no number of the scale.
    sums : numpy.ndarray or None
        Row sums, where a row should sum to 1 and does not.
    notes : tuple of str
        What must be said of the picture, shortest first.
    unit : str
        What its numbers are.
    side : tuple of int
        Rows and columns of drawn cells that there are when nothing is zoomed: its room.
    row_ends : numpy.ndarray or None
        The largest of each row, or of its block of rows, where that is the end of its colours.
    hidden : numpy.ndarray or None
        Boolean, of the same shape as the values: cells that are left out of the picture.
    uneven : numpy.ndarray or None
        Boolean, likewise: cells that only one of the two that are compared forbids.
    part : Part
        Which of a comparison's panels it is.
    kin : frozenset of (stage, head, fold)
        Whose cells light up in it, besides its own.
    is_alone : bool
        Whether its cells are those of other tokens, so that no cursor is in it.
    layer : int or None
        Which layer it is of, where a row is a layer and a column is a head.
    is_marked : bool
        Whether it is set apart from the others.
    """

    key: Hashable
    stage: str
    title: str
    symbol: str
    head: int | None
    fold: HeadAggregate | None
    text: int
    label: str
    values: np.ndarray
    rows: Axis
    columns: Axis
    colour: ColourScale
    forbidden: np.ndarray | None
    dropped: np.ndarray | None
    sums: np.ndarray | None
    notes: tuple[str, ...]
    unit: str
    side: tuple[int, int]
    row_ends: np.ndarray | None = None
    hidden: np.ndarray | None = None
    uneven: np.ndarray | None = None
    part: ComparedSide = ComparedSide.PLAIN
    kin: frozenset[tuple[str, int | None, HeadAggregate | None]] = field(default_factory=frozenset)
    is_alone: bool = False
    layer: int | None = None
    is_marked: bool = False

    @property
    def column(self) -> tuple[str | None, str]:
        """What it shares with all panels of its column, where they stand in columns."""
        return (self.stage if self.layer is None else None), self.title

    @property
    def marks(self) -> tuple[np.ndarray | None, ...]:
        """The cells that are no number of the scale, by what they are instead."""
        return self.forbidden, self.dropped, self.hidden

    @property
    def is_pooled(self) -> bool:
        """Whether a cell stands for more than one number."""
        return self.rows.block * self.columns.block > 1

    @property
    def is_zoomed(self) -> bool:
        """Whether only a part of it is seen."""
        return self.rows.part is not None or self.columns.part is not None


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """All panels: a column a stage and a row a head, or a column a head and a row a layer.

    Parameters
    ----------
    overview : Heatmap or None
        All of one panel, where only a part is seen of the others.
    zoom : Zoom or None
        Which part.
    text : int or None
        Which text is looked at, where there are panels of several.
    said : str
        What is compared, to stand under a picture of it.
    """

    columns: tuple[tuple[Heatmap, ...], ...] = ()
    overview: Heatmap | None = None
    zoom: Zoom | None = None
    text: int | None = None
    said: str = ""

    def is_current(self, heatmap: Heatmap) -> bool:
        """Whether a panel is of the text that is looked at."""
        return self.text in {None, heatmap.text}

    @property
    def known(self) -> dict[Hashable, Heatmap]:
        """Every panel, that of the overview too, by what it was made of."""
        overview = (self.overview,) if self.overview else ()
        return {heatmap.key: heatmap for heatmap in (*self.heatmaps, *overview)}

    @property
    def heatmaps(self) -> tuple[Heatmap, ...]:
        """Every panel, column after column."""
        return tuple(heatmap for column in self.columns for heatmap in column)


Target = tuple[str, ComparedSide]
"""A stage, and which of a comparison's panels of it."""
Drawn = tuple[str, ComparedSide, int]
"""A target, of one text."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingCells:
    """Cells of a panel that were painted, and whose numbers are on their way.

    Parameters
    ----------
    forbidden, allowed : numpy.ndarray
        Boolean, in drawn cells: what has become the one and the other.
    """

    forbidden: np.ndarray
    allowed: np.ndarray


def target_of(panel: Heatmap | Cell) -> Target:
    """Name the panel, of whichever head, that something is or is in."""
    return panel.stage, panel.part
