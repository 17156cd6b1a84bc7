"""One heatmap of a stage: numbers, labels, colours and marks, and what must be said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.head_aggregates import HeadAggregate
from visualizer.attention.masks import Masking
from visualizer.attention.stages import is_hatched
from visualizer.attention.weight_transforms import WeightTransform
from visualizer.explanations.step_values_and_wording import row_sums
from visualizer.heatmap.forbidden_cells import any_of_blocks, forbidden_in
from visualizer.heatmap.panel_and_board_types import (
    Axis,
    Heatmap,
    counted_from_one,
    pooling_note,
)
from visualizer.heatmap.panel_colour_scale import ColourScale, colour_of, outside_limits
from visualizer.session.cell_address import ComparedSide
from visualizer.session.colour_options import ColourCurve, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from visualizer.attention.stages import Stage
    from visualizer.attention.tensor_with_cached_reductions import CachedTensor
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.session.resolved_view import PoolingExtent, Resolved


UNEVEN = 1.1e-4
"""So far from 1 a row's sum may be by rounding."""
FOLDS = {HeadAggregate.MEAN: "Mean", HeadAggregate.MAX: "Largest"}


class PanelSource:
    """One heatmap on its way; what is compared with something else is made by its children.

    Parameters
    ----------
    leading : tuple of int, optional
        Which layer and text it is of; what is looked at, where it is not given.
    extent : PoolingExtent, optional
        What of it is drawn; what is seen of every panel, where it is not given.
    lens : Lens, optional
        What weights are looked at as; what was chosen, where it is not given.
    """

    part = ComparedSide.PLAIN
    kin: frozenset[tuple[str, int | None, HeadAggregate | None]] = frozenset()
    is_alone = False

    def __init__(
        self,
        resolved: Resolved,
        stage: Stage,
        head: int | None,
        by: HeadAggregate | None,
        *,
        leading: LeadingIndex | None = None,
        extent: PoolingExtent | None = None,
        lens: WeightTransform | None = None,
    ) -> None:
        run = resolved.run
        leading = resolved.leading if leading is None else leading
        stage = run.trace.stage_at(stage.name, leading) if stage.by_layer else stage
        self.resolved, self.run, self.stage, self.head, self.by = resolved, run, stage, head, by
        self.trace, self.title = run.trace, stage.title
        self.chosen = resolved.view.colouring
        self.leading = leading
        self.spec = run.trace.spec_at(self.leading)
        self.wanted_lens = resolved.view.lens if lens is None else lens
        self.lens = (
            run.trace.possible(self.wanted_lens) if stage.is_weights else WeightTransform.PLAIN
        )
        self.held: CachedTensor = self.trace.seen(stage.name, self.wanted_lens, by)
        self.beside: tuple[CachedTensor, ...] = ()
        self.extent = extent or resolved.extent(stage)
        self.index = (*self.leading, *(() if head is None else (head,)))
        self.whole = (*self.index, *self.extent.cells)

    def heatmap(self, known: dict[Hashable, Heatmap]) -> Heatmap:
        """Make the panel, or give the one that was made of the same before."""
        stage, hatch = self.stage, self._hatch()
        before = self._before()
        colour = self._colour()
        labels = self.resolved.side_labels(self.leading)
        key = (self.held, before, self.leading, self.head, self.by, self.lens, self.extent, colour,
               hatch, labels, stage.symbol, self.beside, self.part, self.title, self.kin,
               self._label(), self.wanted_lens, self.held.version,
               )  # fmt: skip
        if key in known:
            return known[key]
        forbidden = self._with_cuts(self._forbidden(hatch) if hatch else None)
        dropped = self._dropped(before, forbidden) if before else None
        rows, columns = self._axes(labels.rows, labels.columns)
        values = self.held.read_pooled(*self.extent.blocks, self.whole)
        hidden = self._with_unknown(self._hidden(), values)
        return Heatmap(
            key, stage.name, self.title, stage.symbol, self.head, self.by, self.leading,
            self._label(), values, rows, columns,
            colour, forbidden, dropped, self._sums(),
            self._notes(colour, values, (forbidden, dropped, hidden)), self._unit(),
            self.extent.side,
            self._row_ends(values) if colour.limits is ColourLimits.ROW else None, hidden,
            self._uneven(), self.part, self.kin, self.is_alone, is_share=self._is_share(),
        )  # fmt: skip

    def sketch(self, most_cells: int | None = None) -> bool:
        """Have a first picture made on the worker; see `CachedTensor.sketch`."""
        part = (*self.extent.blocks, self.whole)
        made = [held.sketch(*part, most_cells) for held in self._drawn]
        return any(made)

    def draw(self, is_over: Callable[[], bool]) -> bool:
        """Have the picture made exact; see `CachedTensor.draw`."""
        return all(held.draw(*self.extent.blocks, self.whole, is_over) for held in self._drawn)

    def drop(self) -> None:
        """Forget its picture, where more of it than is in memory is drawn in parts."""
        for held in self._drawn:
            held.drop(*self.extent.blocks)

    @property
    def exact_share(self) -> float:
        """The share of its rows that are exact."""
        return min(held.exact_share(*self.extent.blocks, self.whole) for held in self._drawn)

    @property
    def begun_share(self) -> float:
        """The share of its rows of which anything was read."""
        return min(held.begun_share(*self.extent.blocks, self.whole) for held in self._drawn)

    @property
    def sampled_rows(self) -> int:
        """Of how many rows one was read, where the picture is not exact."""
        return max(held.sampled_rows(*self.extent.blocks, self.whole) for held in self._drawn)

    @property
    def most_cells(self) -> int:
        """How many numbers are computed at most to make it exact: a row reads all its columns."""
        *_, rows, columns = self.held.shape
        seen = rows if self.extent.rows is None else len(self.extent.rows)
        return seen * max(rows, columns) * len(self._drawn)

    @property
    def _drawn(self) -> tuple[CachedTensor, ...]:
        """What its picture reads: besides its own numbers, those before dropout."""
        before = None if self.by or self.lens is not WeightTransform.PLAIN else self._before()
        return (self.held, *([before] if before else []))

    @property
    def text(self) -> int:
        """The text that it is of."""
        return self.trace.at("text", self.leading)

    def _hatch(self) -> Masking | None:
        name = self.stage.name
        return Masking.of(self.spec, name) if is_hatched(self.spec, name) else None

    def _before(self) -> CachedTensor | None:
        """Give what dropout was drawn over, where dropped cells are to be marked."""
        before = self.trace.before_dropout(self.stage.name)
        return self.trace.holding(before) if before else None

    def _colour(self) -> ColourScale:
        return self._colour_beside(self.trace)

    def _colour_beside(self, trace: Trace) -> ColourScale:
        """Choose the colours, the same for all panels that share them.

        Parameters
        ----------
        trace : Trace
            Whose lengths and rates decide the ends.
        """
        shown = (self.stage, self.held, self.lens, self.chosen)
        if self.chosen.limits is ColourLimits.PANEL:
            return colour_of(trace, *shown, self._largest(), self.beside)
        key = (trace, self.held, self.lens, self.beside)
        colour = self.resolved.made.get(key)
        if not isinstance(colour, ColourScale):
            colour = self.resolved.made[key] = colour_of(trace, *shown, None, self.beside)
        return colour

    def _uneven(self) -> np.ndarray | None:
        return None

    def _label(self) -> str:
        if self.by:
            return FOLDS[self.by]
        return "" if self.head is None else f"Head {self.head + 1}"

    def _largest(self) -> float:
        return float(self._ends().max())

    def _ends(self) -> np.ndarray:
        """Give the largest of each row, of what shares its colours."""
        ends = self.held.row_ends(self.index)
        for other in self.beside:
            ends = np.maximum(ends, other.row_ends(self.index))
        return ends

    def _row_ends(self, values: np.ndarray) -> np.ndarray:
        ends, block = self._ends(), self.extent.blocks[0]
        if block > 1:
            ends = np.maximum.reduceat(ends, np.arange(0, len(ends), block))
        shown: np.ndarray = ends[self.extent.cells[0]]
        if self.held.is_blockwise:  # rows that were not read have numbers of a coarser picture
            sizes = np.abs(values)
            shown = np.maximum(shown, sizes.max(-1, initial=0, where=np.isfinite(sizes)))
        return shown

    def _forbidden(self, hatch: Masking) -> np.ndarray:
        return forbidden_in(hatch, self.trace.sides, self.text, self.extent)

    def _with_cuts(self, forbidden: np.ndarray | None) -> np.ndarray | None:
        """Add the cells that are cut in the head alone to those that are forbidden."""
        cut = self.trace.cut_cells(self.stage.name, self.leading, self.head)
        if cut is None or self.by is not None:
            return forbidden
        allowed = self.trace.allowed(self.stage.name, self.leading, self.head)
        closed = ~any_of_blocks(allowed, *self.extent.blocks)[self.extent.cells]
        return closed if forbidden is None else forbidden | closed

    def _hidden(self) -> np.ndarray | None:
        if self.lens is not WeightTransform.WITHOUT_FIRST or self.extent.blocks[1] > 1:
            return None  # in a block, others stand beside the first token
        queries, keys = (range(count) for count in self.trace.sides)
        rows, keys = (
            queries[:: self.extent.blocks[0]][self.extent.cells[0]],
            keys[self.extent.cells[1]],
        )
        return np.broadcast_to(np.array(keys) == 0, (len(rows), len(keys)))

    def _with_unknown(self, hidden: np.ndarray | None, values: np.ndarray) -> np.ndarray | None:
        """Add the cells of a long text of which there is no picture so far."""
        if not self.held.is_blockwise or self.begun_share == 1:
            return hidden
        unknown: np.ndarray = np.isnan(values)
        return unknown if hidden is None else hidden | unknown

    def _dropped(self, source: CachedTensor, forbidden: np.ndarray | None) -> np.ndarray | None:
        if self.by or self.lens is not WeightTransform.PLAIN:
            return None
        before = source.read_pooled(*self.extent.blocks, self.whole)
        left = self.held.read_pooled(*self.extent.blocks, self.whole)
        dropped: np.ndarray = (left == 0) & (before != 0)
        return dropped if forbidden is None else dropped & ~forbidden

    def _axes(self, words: tuple[str, ...], keys: tuple[str, ...]) -> tuple[Axis, Axis]:
        row, column = self.stage.dims[-2:]
        count = self.trace.shape(self.stage.name)[-1]
        labels = keys if column == "key" else counted_from_one(count)
        return (
            Axis(row, keys if row == "key" else words, self.extent.blocks[0], self.extent.rows),
            Axis(column, labels, self.extent.blocks[1], self.extent.columns),
        )

    def _is_share(self) -> bool:
        return self.stage.is_weights and self.lens is WeightTransform.PLAIN

    def _sums(self) -> np.ndarray | None:
        adds_up = self._is_share() and self.by is not HeadAggregate.MAX
        if not adds_up or self.extent.blocks != (1, 1) or self.held.is_blockwise:
            return None
        rows = self.held.read((*self.index, self.extent.cells[0]))
        sums = row_sums(rows)
        return None if (np.abs(sums - 1) <= UNEVEN).all() else sums

    def _notes(
        self, colour: ColourScale, values: np.ndarray, marks: tuple[np.ndarray | None, ...]
    ) -> tuple[str, ...]:
        notes = []
        if self._before():
            notes.append(f"kept ×{1 / (1 - self.spec.dropout):.4g}")
        if self.stage.is_weights and self.lens is not self.wanted_lens:
            notes.append("as they are: there are no values")
        if self.lens is WeightTransform.WITHOUT_FIRST:
            notes.append("first token hidden, ÷ the rest")
        if self.extent.blocks != (1, 1):
            notes.append(pooling_note(self.held.limits()[0] < 0, *self.extent.blocks))
        if colour.curve is ColourCurve.RANK and self.extent.rows is not None:
            notes.append("ranked among those seen")
        found = outside_limits(values, marks, colour)
        if found:
            below, above = (int(cells.sum()) for cells in found)
            notes.append(f"▲ {above:,} above, ▼ {below:,} below")
        return tuple(notes)

    def _unit(self) -> str:
        times = " × ‖value‖" if self.lens is WeightTransform.TIMES_VALUE else ""
        return self.stage.title.lower() + times if len(self.stage.title) > 1 else self.stage.name


class SpreadPanelSource(PanelSource):
    """A panel among those of other texts, or of other layers."""

    def _label(self) -> str:
        axis = self.trace.axes[-1]
        return f"{axis.capitalize()} {self.resolved.number_on(axis, self.leading[-1])}"

    def _notes(
        self, colour: ColourScale, values: np.ndarray, marks: tuple[np.ndarray | None, ...]
    ) -> tuple[str, ...]:
        notes = super()._notes(colour, values, marks)
        if self.head is None or self.spec.heads == 1:
            return notes
        return (f"head {self.head + 1}", *notes)


OVERVIEW = 96


def overview_of(resolved: Resolved, known: dict[Hashable, Heatmap]) -> Heatmap | None:
    """Show all of a panel of queries and keys, where only a part is seen of the others.

    It is of the pinned cell's head, or else of the first.
    """
    if resolved.overview is None:
        return None
    return overview_of_head(resolved, resolved.overview, resolved.overview_head, known)


def overview_of_head(
    resolved: Resolved, name: str, head: int, known: dict[Hashable, Heatmap]
) -> Heatmap:
    """Show all of a head's panel of a stage, pooled."""
    return overview_source(resolved, name, head).heatmap(known)


def overview_source(resolved: Resolved, name: str, head: int) -> PanelSource:
    """Return what all of a head's panel of a stage is made of, pooled."""
    stage = resolved.run.trace.stage(name)
    room = resolved.view.room if resolved.run.trace.is_blockwise else OVERVIEW
    extent = resolved.whole_extent(stage, room)  # a long text's is drawn once, for both
    return PanelSource(resolved, stage, head, None, extent=extent)
