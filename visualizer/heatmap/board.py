"""Data types of a heatmap board: axes, panels and the board itself, independent of drawing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.trace import LeadingIndex
from visualizer.session.cell_address import ComparisonSide

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.display_transforms import HeadAggregate
    from visualizer.attention.flow_columns import FlowColumn
    from visualizer.heatmap.panel_colour_scale import ColourScale
    from visualizer.session.cell_address import Cell
    from visualizer.session.zoom_ranges import ZoomRange


POOLING_PREFIX = "each cell: "
"""Prefix of the pooling note, omitted if it does not fit."""


def describe_pooling(is_signed: bool, rows: int, columns: int) -> str:
    """Describe the number that a pooled cell shows."""
    which = "largest magnitude" if is_signed else "largest"
    return f"{POOLING_PREFIX}{which} of {rows} × {columns}"


Held = TypeVar("Held")


class IdentityKey(Generic[Held]):
    """Part of a cache key that compares a value by identity; the value is never modified."""

    def __init__(self, held: Held) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.held is self.held

    def __hash__(self) -> int:
        return id(self.held)


class HeatmapAxis(Struct, frozen=True):
    """One axis of a heatmap.

    Parameters
    ----------
    name : str
        What the indices count: queries, keys, tokens or the columns of a vector.
    labels : tuple of str
        A label for every row or column of the stage.
    block : int
        Number of rows or columns pooled into a drawn cell.
    part : range or None
        The visible rows or columns, if the board is zoomed.
    """

    name: str
    labels: tuple[str, ...]
    block: int
    part: range | None = None

    def __hash__(self) -> int:
        # Hashing thousands of labels is slow, and every frame needs the hash.
        return hash((self.name, len(self.labels), self.block, self.part))

    @property
    def is_token(self) -> bool:
        """Whether the labels are tokens."""
        return self.name in {"query", "key", "token"}

    @property
    def visible_range(self) -> range:
        """The visible rows or columns of the stage."""
        return range(len(self.labels)) if self.part is None else self.part

    def cell_index_of(self, at: int) -> int:
        """Return the index of the drawn cell that contains a row or column."""
        return (at - self.visible_range.start) // self.block

    def first_of_cell(self, cell: int) -> int:
        """Return the first row or column of a drawn cell."""
        return self.visible_range.start + cell * self.block


class Heatmap(Struct, frozen=True, eq=False):
    """A heatmap panel.

    Parameters
    ----------
    head : int or None
        The head; None for a stage without heads and for aggregated heads.
    fold : HeadAggregate or None
        How the heads are aggregated; None for a single head or a stage without heads.
    label : str
        The name of the panel's head or text, which is shown next to its rows.
    values : numpy.ndarray
        [row, column]; values of the trace or, if cells are pooled, the value with the largest
        magnitude in each block.
    forbidden, dropped : numpy.ndarray or None
        Boolean masks of the same shape as the values: forbidden cells, and cells removed by
        dropout.
    sums : numpy.ndarray or None
        Row sums; None unless some row that should sum to 1 does not.
    notes : tuple of str
        Notes on the panel, from the shortest to the longest.
    unit : str
        The unit of the values.
    side : tuple of int
        Number of drawn rows and of drawn columns without zoom, for which space is reserved.
    ends : numpy.ndarray or None
        The largest magnitude of each row or block of rows, [row, 1], if the colour scale is by row;
        [1, column] if the panel is transposed.
    hidden : numpy.ndarray or None
        Boolean mask of the same shape as the values: cells that are not drawn.
    uneven_cells : numpy.ndarray or None
        Boolean mask of the same shape as the values: cells that only one of two runs forbids.
    part : ComparisonSide
        The panel's role in a comparison.
    linked_panels : frozenset of (stage, head, fold)
        The other panels whose cursor and highlights this panel also shows.
    is_unlinked : bool
        Whether the panel shows no cursor, because its tokens differ from those of other panels.
    layer : int or None
        The panel's layer, if the rows of the board are layers and its columns are heads.
    is_marked : bool
        Whether the panel's title is emphasized.
    is_share : bool
        Whether the values are attention weights, before or after dropout.
    """

    key: Hashable
    stage: str
    title: str
    symbol: str
    head: int | None
    fold: HeadAggregate | None
    leading: LeadingIndex
    label: str
    values: np.ndarray
    rows: HeatmapAxis
    columns: HeatmapAxis
    colour: ColourScale
    forbidden: np.ndarray | None
    dropped: np.ndarray | None
    sums: np.ndarray | None
    notes: tuple[str, ...]
    unit: str
    side: tuple[int, int]
    ends: np.ndarray | None = None
    hidden: np.ndarray | None = None
    uneven_cells: np.ndarray | None = None
    part: ComparisonSide = ComparisonSide.PLAIN
    linked_panels: frozenset[tuple[str, int | None, HeadAggregate | None]] = field(
        default_factory=frozenset
    )
    is_unlinked: bool = False
    layer: int | None = None
    is_marked: bool = False
    is_share: bool = False

    def transposed(self, key: Hashable) -> Heatmap:
        """Return the transposed panel without row sums; each cell keeps its colour."""
        return replace(
            self,
            key=key,
            values=np.ascontiguousarray(self.values.T),
            rows=self.columns,
            columns=self.rows,
            forbidden=_transpose(self.forbidden),
            dropped=_transpose(self.dropped),
            sums=None,
            side=self.side[::-1],
            ends=_transpose(self.ends),
            hidden=_transpose(self.hidden),
            uneven_cells=_transpose(self.uneven_cells),
        )

    @property
    def column_key(self) -> tuple[str | None, str]:
        """The key shared by all panels of a column."""
        return (self.stage if self.layer is None else None), self.title

    @property
    def cell_masks(self) -> tuple[np.ndarray | None, ...]:
        """The masks of cells without a value on the scale."""
        return self.forbidden, self.dropped, self.hidden

    @property
    def is_pooled(self) -> bool:
        """Whether a cell represents more than one value."""
        return self.rows.block * self.columns.block > 1

    @property
    def is_zoomed(self) -> bool:
        """Whether only a part of the matrix is visible."""
        return self.rows.part is not None or self.columns.part is not None


def _transpose(cells: np.ndarray | None) -> np.ndarray | None:
    return None if cells is None else np.ascontiguousarray(cells.T)


class FlowBoardPanels(Struct, frozen=True, eq=False):
    """The panels of the flow board.

    Parameters
    ----------
    panels : tuple of Heatmap
        The panel of each column, for the head in front.
    operands : tuple of Heatmap or None
        The panel above each column; None if there is none.
    thumbnails : tuple of Heatmap
        The weights of each head, and of aggregated heads; empty for a single head.
    focus : int
        Index of the column that is drawn as large as possible.
    front : int
        The head in front.
    titles : tuple of tuple of str
        The titles of the states of each column.
    operations : tuple of str
        Description of how the visible state of each column is computed.
    earlier : Heatmap or None
        The state of a matrix from which playback computes the visible one.
    origin : str
        Origin of the layers' weights, as a phrase.
    """

    columns: tuple[FlowColumn, ...]
    panels: tuple[Heatmap, ...]
    operands: tuple[Heatmap | None, ...]
    thumbnails: tuple[Heatmap, ...]
    focus: int
    front: int
    titles: tuple[tuple[str, ...], ...]
    operations: tuple[str, ...]
    earlier: Heatmap | None = None
    origin: str = ""

    @property
    def heads(self) -> int:
        """Number of heads with a thumbnail."""
        return sum(panel.head is not None for panel in self.thumbnails)

    def first_head_with_tab(self, count: int) -> int:
        """Return the first head on the front head's page of tabs, for pages of `count` tabs."""
        return self.front // max(1, count) * count

    @property
    def heatmaps(self) -> tuple[Heatmap, ...]:
        """The heatmaps that are drawn in addition to the panels."""
        return (*filter(None, (*self.operands, self.earlier)), *self.thumbnails)


class Board(Struct, frozen=True, eq=False):
    """All panels of a board.

    Either columns are stages and rows are heads, or columns are heads and rows are layers.

    Parameters
    ----------
    overview : Heatmap or None
        A complete panel for the minimap while the others are zoomed.
    zoom : ZoomRange or None
        The visible part.
    current : tuple of int or None
        The leading index of the selected text or layer, if there are panels of several texts or
        layers.
    comparison_description : str
        Description of the comparison, for the caption of an exported figure.
    flow : FlowBoardPanels or None
        The panels as one flow from tokens to output; None if they are arranged by stage and head.
    """

    columns: tuple[tuple[Heatmap, ...], ...] = ()
    overview: Heatmap | None = None
    zoom: ZoomRange | None = None
    current: LeadingIndex | None = None
    comparison_description: str = ""
    flow: FlowBoardPanels | None = None

    def is_current(self, heatmap: Heatmap) -> bool:
        """Return whether a panel belongs to the selected text or layer."""
        return self.current in {None, heatmap.leading}

    @property
    def panels_by_key(self) -> dict[Hashable, Heatmap]:
        """All panels, including the overview, keyed by their cache keys."""
        others = [self.overview] if self.overview else []
        beside = self.flow.heatmaps if self.flow else ()
        return {heatmap.key: heatmap for heatmap in (*self.heatmaps, *others, *beside)}

    @property
    def heatmaps(self) -> tuple[Heatmap, ...]:
        """All panels, column by column."""
        return tuple(heatmap for column in self.columns for heatmap in column)


StageSide = tuple[str, ComparisonSide]
"""A stage and its side in a comparison."""
DrawnStage = tuple[str, ComparisonSide, LeadingIndex]
"""A stage and its side, and the leading index of its layer and text."""


class MaskChangedCells(Struct, frozen=True, eq=False):
    """Cells that need new values because their mask has changed.

    Parameters
    ----------
    forbidden, allowed : numpy.ndarray
        Boolean masks of the drawn cells: those that have become forbidden, and those that have
        become allowed.
    """

    forbidden: np.ndarray
    allowed: np.ndarray


def stage_and_side(panel: Heatmap | Cell) -> StageSide:
    """Return the stage and the side of a panel or cell, independent of the head."""
    return panel.stage, panel.part


@lru_cache(maxsize=32)
def numbered_labels(count: int) -> tuple[str, ...]:
    """Return the labels of an axis other than tokens: the numbers from 1 to `count`."""
    return tuple(str(number) for number in range(1, count + 1))
