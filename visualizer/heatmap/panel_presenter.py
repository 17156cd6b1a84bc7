"""Presents one heatmap of a stage: values, labels, colours, marks and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.masks import MaskingSpec
from visualizer.attention.stages import has_forbidden_cells
from visualizer.explanations.step_context import sum_rows
from visualizer.heatmap.board import Heatmap, HeatmapAxis, describe_pooling, numbered_labels
from visualizer.heatmap.cell_lookup import any_in_blocks, masked_cells
from visualizer.heatmap.panel_colour_scale import (
    ColourScale,
    choose_colour_scale,
    out_of_range_masks,
)
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.view_options import ColourCurve, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.session.resolved_view import PoolingExtent, ResolvedView


ROW_SUM_TOLERANCE = 1.1e-4
"""Maximum deviation of a row's sum from 1 that is due to rounding."""
AGGREGATE_LABELS = {HeadAggregate.MEAN: "Mean", HeadAggregate.MAX: "Largest"}


class PanelSource:
    """Builds one heatmap; subclasses build the panels of comparisons.

    Parameters
    ----------
    leading : tuple of int, optional
        The leading index of the panel's layer and text; by default, of the selected ones.
    extent : PoolingExtent, optional
        The drawn part; by default, the visible part shared by all panels.
    lens : WeightTransform, optional
        The transformation of weights; by default, the selected one.
    """

    part = ComparisonSide.PLAIN
    linked_panels: frozenset[tuple[str, int | None, HeadAggregate | None]] = frozenset()
    is_unlinked = False

    def __init__(
        self,
        resolved: ResolvedView,
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
        stage = run.trace.stage_in_layer(stage.name, leading) if stage.by_layer else stage
        self.resolved, self.run, self.stage, self.head, self.by = resolved, run, stage, head, by
        self.trace, self.title = run.trace, stage.title
        self.chosen = resolved.view.colouring
        self.leading = leading
        self.spec = run.trace.spec_at(self.leading)
        self.requested_transform = resolved.view.lens if lens is None else lens
        self.lens = (
            run.trace.supported_transform(self.requested_transform)
            if stage.is_weights
            else WeightTransform.PLAIN
        )
        self.tensor: CachedTensor = self.trace.displayed_tensor(
            stage.name, self.requested_transform, by
        )
        self.beside: tuple[tuple[Trace, CachedTensor], ...] = ()
        self.extent = extent or resolved.extent(stage)
        self.index = (*self.leading, *(() if head is None else (head,)))
        self.drawn_index = (*self.index, *self.extent.drawn_slices)

    def build_heatmap(self, known: dict[Hashable, Heatmap]) -> Heatmap:
        """Build the panel, or return a known panel that was built from the same inputs."""
        stage, masking = self.stage, self._shown_masking()
        before = self._tensor_before_dropout()
        colour = self._choose_colours()
        labels = self.resolved.side_labels(self.leading)
        key = (type(self), self.tensor, before, self.leading, self.head, self.by, self.lens,
               self.extent, colour, masking, labels, stage.symbol, self.beside, self.part,
               self.title, self.linked_panels, self._panel_label(), self.requested_transform,
               self.tensor.version)  # fmt: skip
        if key in known:
            return known[key]
        forbidden = self._with_cut_cells(self._forbidden_cells(masking) if masking else None)
        dropped = self._dropped_cells(before, forbidden) if before else None
        rows, columns = self._panel_axes(labels.rows, labels.columns)
        values = self._read_values()
        hidden = self._with_unknown_cells(self._hidden_cells(), values)
        return Heatmap(
            key, stage.name, self.title, stage.symbol, self.head, self.by, self.leading,
            self._panel_label(), values, rows, columns,
            colour, forbidden, dropped, self._row_sums(),
            self._panel_notes(colour, values, (forbidden, dropped, hidden)), self._value_unit(),
            self.extent.side,
            self._drawn_row_maxima(values) if colour.limits is ColourLimits.ROW else None, hidden,
            self._one_sided_mask(), self.part, self.linked_panels, self.is_unlinked,
            is_share=self._has_row_shares(),
        )  # fmt: skip

    def _read_values(self) -> np.ndarray:
        return self.tensor.read_pooled(*self.extent.blocks, self.drawn_index)

    def draw_coarse_rows(self, most_cells: int | None = None) -> bool:
        """Draw coarse rows on the worker thread; see `CachedTensor.draw_coarse_rows`."""
        part = (*self.extent.blocks, self.drawn_index)
        made = [tensor.draw_coarse_rows(*part, most_cells) for tensor in self._source_tensors]
        return any(made)

    def draw_exact_rows(self, is_over: Callable[[], bool]) -> bool:
        """Draw the exact values; see `CachedTensor.draw_exact_rows`."""
        return all(
            tensor.draw_exact_rows(*self.extent.blocks, self.drawn_index, is_over)
            for tensor in self._source_tensors
        )

    def discard_values(self) -> None:
        """Discard the drawn values of a tensor that is drawn in tiles to save memory."""
        for tensor in self._source_tensors:
            tensor.discard_drawing(*self.extent.blocks)

    @property
    def exact_row_share(self) -> float:
        """The fraction of the panel's rows with exact values."""
        return min(
            tensor.exact_row_share(*self.extent.blocks, self.drawn_index)
            for tensor in self._source_tensors
        )

    @property
    def drawn_row_share(self) -> float:
        """The fraction of the panel's rows that have been computed exactly or sampled."""
        return min(
            tensor.drawn_row_share(*self.extent.blocks, self.drawn_index)
            for tensor in self._source_tensors
        )

    @property
    def rows_per_sample(self) -> int:
        """Number of rows per sampled row, if the drawn values are not exact."""
        return max(
            tensor.rows_per_sample(*self.extent.blocks, self.drawn_index)
            for tensor in self._source_tensors
        )

    @property
    def max_cells_to_compute(self) -> int:
        """Maximum number of cells to compute for exact values; a row needs all of its columns."""
        *_, rows, columns = self.tensor.shape
        seen = rows if self.extent.rows is None else len(self.extent.rows)
        return seen * max(rows, columns) * len(self._source_tensors)

    @property
    def _source_tensors(self) -> tuple[CachedTensor, ...]:
        """The tensors from which the panel is drawn: its own values, and those before dropout."""
        before = (
            None
            if self.by or self.lens is not WeightTransform.PLAIN
            else self._tensor_before_dropout()
        )
        return (self.tensor, *([before] if before else []))

    @property
    def text_index(self) -> int:
        """The index of the panel's text in the batch."""
        return self.trace.axis_position("text", self.leading)

    def _shown_masking(self) -> MaskingSpec | None:
        name = self.stage.name
        return (
            MaskingSpec.from_spec(self.spec, name) if has_forbidden_cells(self.spec, name) else None
        )

    def _tensor_before_dropout(self) -> CachedTensor | None:
        """Return the tensor before dropout if dropped cells are marked, otherwise None."""
        before = self.trace.stage_name_before_dropout(self.stage.name)
        return self.trace.cached_stage_tensor(before) if before else None

    def _choose_colours(self) -> ColourScale:
        """Choose the colour scale, which is the same for all panels that share it."""
        shown = ((self.trace, self.tensor), *self.beside)
        if self.by and self.chosen.limits is ColourLimits.AUTO:  # of the single heads
            shown = tuple(
                (trace, trace.displayed_tensor(self.stage.name, self.requested_transform))
                for trace, _ in shown
            )
        inputs = (shown, self.stage, self.lens, self.chosen, self._range_indices)
        if self.chosen.limits is ColourLimits.PANEL:
            return choose_colour_scale(*inputs, self._largest_value())
        key = (shown, self.lens, self._range_indices)
        colour = self.resolved.shared_values.get(key)
        if not isinstance(colour, ColourScale):
            colour = self.resolved.shared_values[key] = choose_colour_scale(*inputs)
        return colour

    @property
    def _range_indices(self) -> tuple[LeadingIndex, ...]:
        """The layers and texts that share automatic limits."""
        return (self.leading,)

    def _one_sided_mask(self) -> np.ndarray | None:
        return None

    def _panel_label(self) -> str:
        if self.by:
            return AGGREGATE_LABELS[self.by]
        return "" if self.head is None else f"Head {self.head + 1}"

    def _largest_value(self) -> float:
        return float(self._row_maxima().max())

    def _row_maxima(self) -> np.ndarray:
        """Return the maximum of each row over all panels that share its colours."""
        ends = self.tensor.row_magnitudes(self.index)
        for _, other in self.beside:
            ends = np.maximum(ends, other.row_magnitudes(self.index))
        return ends

    def _drawn_row_maxima(self, values: np.ndarray) -> np.ndarray:
        ends, block = self._row_maxima(), self.extent.blocks[0]
        if block > 1:
            ends = np.maximum.reduceat(ends, np.arange(0, len(ends), block))
        shown: np.ndarray = ends[self.extent.drawn_slices[0]][:, None]
        if self.tensor.is_blockwise:  # rows that were not read contain coarse values
            sizes = np.abs(values)
            largest = sizes.max(-1, initial=0, where=np.isfinite(sizes), keepdims=True)
            shown = np.maximum(shown, largest)
        return shown

    def _forbidden_cells(self, masking: MaskingSpec) -> np.ndarray:
        return masked_cells(masking, self.trace.query_key_counts, self.text_index, self.extent)

    def _with_cut_cells(self, forbidden: np.ndarray | None) -> np.ndarray | None:
        """Add the cells that are cut only in this head to the forbidden cells."""
        cut = self.trace.cut_cells(self.stage.name, self.leading, self.head)
        if cut is None or self.by is not None:
            return forbidden
        allowed = self.trace.allowed_mask(self.stage.name, self.leading, self.head)
        closed = ~any_in_blocks(allowed, *self.extent.blocks)[self.extent.drawn_slices]
        return closed if forbidden is None else forbidden | closed

    def _hidden_cells(self) -> np.ndarray | None:
        if self.lens is not WeightTransform.WITHOUT_FIRST or self.extent.blocks[1] > 1:
            return None  # in a block, the first token is pooled with others
        queries, keys = (range(count) for count in self.trace.query_key_counts)
        rows, keys = (
            queries[:: self.extent.blocks[0]][self.extent.drawn_slices[0]],
            keys[self.extent.drawn_slices[1]],
        )
        return np.broadcast_to(np.array(keys) == 0, (len(rows), len(keys)))

    def _with_unknown_cells(
        self, hidden: np.ndarray | None, values: np.ndarray
    ) -> np.ndarray | None:
        """Add the cells of a long text that are not drawn yet."""
        if not self.tensor.is_blockwise or self.drawn_row_share == 1:
            return hidden
        unknown: np.ndarray = np.isnan(values)
        return unknown if hidden is None else hidden | unknown

    def _dropped_cells(
        self, source: CachedTensor, forbidden: np.ndarray | None
    ) -> np.ndarray | None:
        if self.by or self.lens is not WeightTransform.PLAIN:
            return None
        before = source.read_pooled(*self.extent.blocks, self.drawn_index)
        left = self.tensor.read_pooled(*self.extent.blocks, self.drawn_index)
        dropped: np.ndarray = (left == 0) & (before != 0)
        return dropped if forbidden is None else dropped & ~forbidden

    def _panel_axes(
        self, words: tuple[str, ...], keys: tuple[str, ...]
    ) -> tuple[HeatmapAxis, HeatmapAxis]:
        row, column = self.stage.dims[-2:]
        count = self.trace.shape(self.stage.name)[-1]
        labels = keys if column == "key" else numbered_labels(count)
        return (
            HeatmapAxis(
                row, keys if row == "key" else words, self.extent.blocks[0], self.extent.rows
            ),
            HeatmapAxis(column, labels, self.extent.blocks[1], self.extent.columns),
        )

    def _has_row_shares(self) -> bool:
        return self.stage.is_weights and self.lens is WeightTransform.PLAIN

    def _row_sums(self) -> np.ndarray | None:
        adds_up = self._has_row_shares() and self.by is not HeadAggregate.MAX
        if not adds_up or self.extent.blocks != (1, 1) or self.tensor.is_blockwise:
            return None
        rows = self.tensor.read((*self.index, self.extent.drawn_slices[0]))
        sums = sum_rows(rows)
        return None if (np.abs(sums - 1) <= ROW_SUM_TOLERANCE).all() else sums

    def _panel_notes(
        self, colour: ColourScale, values: np.ndarray, marks: tuple[np.ndarray | None, ...]
    ) -> tuple[str, ...]:
        notes = []
        if self._tensor_before_dropout():
            notes.append(f"kept ×{1 / (1 - self.spec.dropout):.4g}")
        if self.stage.is_weights and self.lens is not self.requested_transform:
            notes.append("unmodified: no value vectors")
        if self.lens is WeightTransform.WITHOUT_FIRST:
            notes.append("without the first token, renormalized")
        if self.extent.blocks != (1, 1):
            notes.append(describe_pooling(self.tensor.limits()[0] < 0, *self.extent.blocks))
        if colour.curve is ColourCurve.RANK and self.extent.rows is not None:
            notes.append("ranked within the visible part")
        found = (
            out_of_range_masks(values, marks, colour)
            if colour.limits is ColourLimits.TYPED
            else None
        )
        if found:
            below, above = (int(cells.sum()) for cells in found)
            notes.append(f"◥ {above:,} above, ◢ {below:,} below")
        return tuple(notes)

    def _value_unit(self) -> str:
        times = " × ‖value‖" if self.lens is WeightTransform.TIMES_VALUE else ""
        return self.stage.title.lower() + times if len(self.stage.title) > 1 else self.stage.name


class SideBySidePanelSource(PanelSource):
    """Builds a panel that is shown next to the panels of other texts or layers."""

    @property
    def _range_indices(self) -> tuple[LeadingIndex, ...]:
        return self.resolved.side_by_side_indices

    def _panel_label(self) -> str:
        axis = self.trace.axes[-1]
        return f"{axis.capitalize()} {self.resolved.display_number(axis, self.leading[-1])}"

    def _panel_notes(
        self, colour: ColourScale, values: np.ndarray, marks: tuple[np.ndarray | None, ...]
    ) -> tuple[str, ...]:
        notes = super()._panel_notes(colour, values, marks)
        if self.head is None or self.spec.heads == 1:
            return notes
        return (f"head {self.head + 1}", *notes)


OVERVIEW_SIDE_CELLS = 96


def present_minimap(resolved: ResolvedView, known: dict[Hashable, Heatmap]) -> Heatmap | None:
    """Return the whole panel of queries and keys for the minimap, if the others are zoomed.

    It shows the head of the pinned cell, or else the first head.
    """
    if resolved.overview is None:
        return None
    return present_head_overview(resolved, resolved.overview, resolved.overview_head, known)


def present_head_overview(
    resolved: ResolvedView, name: str, head: int, known: dict[Hashable, Heatmap]
) -> Heatmap:
    """Return the whole panel of a stage's head, pooled."""
    return head_overview_source(resolved, name, head).build_heatmap(known)


def head_overview_source(resolved: ResolvedView, name: str, head: int) -> PanelSource:
    """Return the source of the whole panel of a stage's head, pooled."""
    stage = resolved.run.trace.stage(name)
    room = resolved.view.room if resolved.run.trace.is_blockwise else OVERVIEW_SIDE_CELLS
    # With the board's room, a long text's panel is drawn once for the board and the minimap.
    extent = resolved.full_extent(stage, room)
    return PanelSource(resolved, stage, head, None, extent=extent)
