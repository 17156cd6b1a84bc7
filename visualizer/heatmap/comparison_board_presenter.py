"""Presents the board of a comparison: both sides next to each other, and their difference.

Also presents the mean of dropout samples, and two heads next to each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.masks import MaskingSpec
from visualizer.attention.roles import Role
from visualizer.format import format_count
from visualizer.heatmap.board import Board
from visualizer.heatmap.cell_lookup import any_in_blocks
from visualizer.heatmap.panel_colour_scale import choose_difference_scale
from visualizer.heatmap.panel_presenter import PanelSource, present_minimap
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.comparison import (
    ROUNDING_TOLERANCE,
    difference_tensor,
    dropout_mean_tensor,
    find_largest_difference,
    format_signed,
    max_magnitude,
    mismatch_reason,
)
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.dropout_samples import drawable_sample_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.display_transforms import HeadAggregate
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.heatmap.panel_colour_scale import ColourScale
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.resolved_view import ResolvedView

SIDE_LETTERS = {ComparisonSide.A: "A", ComparisonSide.B: "B"}
HeadOrAggregate = tuple["int | None", "HeadAggregate | None"]


class ComparedSidePanelSource(PanelSource):
    """Builds the panels of side A or B, on a colour scale that both share.

    Parameters
    ----------
    resolved : ResolvedView
        The resolved view of the panel's run.
    other : Run or None
        The run with which it is compared; None if the two runs do not match.
    """

    def __init__(
        self,
        resolved: ResolvedView,
        stage: Stage,
        head_or_aggregate: HeadOrAggregate,
        part: ComparisonSide,
        other: Run | None,
    ) -> None:
        super().__init__(resolved, stage, *head_or_aggregate)
        self.part, self.title = part, f"{stage.title} {SIDE_LETTERS[part]}"
        self.is_unlinked = other is None and part is ComparisonSide.A
        if other:
            tensor = other.trace.displayed_tensor(stage.name, self.requested_transform, self.by)
            self.beside = ((other.trace, tensor),)


class ComparedHeadPanelSource(PanelSource):
    """Builds the panels of a head next to another head, on a shared colour scale."""

    def __init__(self, resolved: ResolvedView, stage: Stage, head: int, other: int) -> None:
        super().__init__(resolved, stage, head, None)
        self.title = f"{stage.title}, head {head + 1}"
        self.linked_panels = _linked_panels(stage, head, (other,))
        self.other = (*resolved.leading, other)

    def _panel_label(self) -> str:
        return ""

    def _row_maxima(self) -> np.ndarray:
        return np.asarray(np.maximum(super()._row_maxima(), self.tensor.row_magnitudes(self.other)))


class DropoutSamplePanelSource(PanelSource):
    """Builds the panels of weights before dropout, or of one dropout sample."""

    def __init__(
        self, resolved: ResolvedView, stage: Stage, head: int, comparison: Comparison, title: str
    ) -> None:
        super().__init__(resolved, stage, head, None, lens=WeightTransform.PLAIN)
        run, mean = self.run, dropout_mean_tensor(self.run, comparison)
        names = (Role.WEIGHTS, Role.DROPPED)
        self.title = title
        shown = (*(run.trace.cached_stage_tensor(name) for name in names), mean)
        self.beside = tuple((run.trace, tensor) for tensor in shown)
        self.linked_panels = _linked_panels(stage, head, tuple(map(run.trace.stage, names)))

    def _row_sums(self) -> np.ndarray | None:
        return None  # they do not fit next to four panels per row


class DropoutSampleMeanPanelSource(DropoutSamplePanelSource):
    """Builds the panels of the mean of dropout samples."""

    part = ComparisonSide.MEAN

    def __init__(
        self, resolved: ResolvedView, stage: Stage, head: int, comparison: Comparison, title: str
    ) -> None:
        super().__init__(resolved, stage, head, comparison, title)
        self.tensor = dropout_mean_tensor(self.run, comparison)

    def _tensor_before_dropout(self) -> CachedTensor | None:
        return None


class DifferencePanelSource(PanelSource):
    """Builds the panels of a difference, on a scale centred at 0."""

    part = ComparisonSide.CHANGE

    def __init__(
        self,
        resolved: ResolvedView,
        stage: Stage,
        head_or_aggregate: HeadOrAggregate,
        comparison: Comparison,
        title: str,
    ) -> None:
        is_sampled = comparison.against is ComparisonKind.SAMPLES
        super().__init__(
            resolved, stage, *head_or_aggregate, lens=WeightTransform.PLAIN if is_sampled else None
        )
        self.comparison, self.title = comparison, title
        self.size = max_magnitude(resolved, stage.name, self.by)
        self.tensor, before = difference_tensor(resolved, stage.name, self.by)
        if comparison.against is ComparisonKind.HEAD:
            self.index = before
            self.drawn_index = (*before, *self.extent.drawn_slices)
            self.linked_panels = _linked_panels(stage, self.head, comparison.heads)
        elif is_sampled:
            self.linked_panels = _linked_panels(stage, self.head, (self.trace.stage(Role.WEIGHTS),))

    def _tensor_before_dropout(self) -> CachedTensor | None:
        return None

    def _row_sums(self) -> np.ndarray | None:
        return None

    def _panel_label(self) -> str:
        return "" if self.comparison.against is ComparisonKind.HEAD else super()._panel_label()

    def _choose_colours(self) -> ColourScale:
        return choose_difference_scale(
            self.tensor, self.chosen, self._range_indices, self.size, self._largest_value()
        )

    def _row_maxima(self) -> np.ndarray:
        return np.asarray(np.maximum(super()._row_maxima(), ROUNDING_TOLERANCE * self.size))

    def _side_masks(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the forbidden cells of A and of B, or None if neither side has any."""
        kept, where = (
            self.comparison.kept,
            (self.stage.name, self.leading, self._head_with_cut_edges),
        )
        traces = [run.trace for run in (kept, self.run) if run]
        if kept is None or not any(trace.has_forbidden_cells(*where) for trace in traces):
            return None
        forbidden_in_a, forbidden_in_b = (
            ~any_in_blocks(trace.allowed_mask(*where), *self.extent.blocks)[
                self.extent.drawn_slices
            ]
            for trace in traces
        )
        return forbidden_in_a, forbidden_in_b

    @property
    def _head_with_cut_edges(self) -> int | None:
        """The head for which cut edges are shown, or None for aggregated heads."""
        return None if self.by else self.head

    def _with_cut_cells(self, forbidden: np.ndarray | None) -> np.ndarray | None:
        return forbidden  # included in the masks of both sides

    def _shown_masking(self) -> MaskingSpec | None:
        """Return the mask of both sides, cell by cell where it differs."""
        own = MaskingSpec.from_spec(self.spec, self.stage.name) if self._side_masks() else None
        return super()._shown_masking() or own

    def _forbidden_cells(self, masking: MaskingSpec) -> np.ndarray:
        masks = self._side_masks()
        return super()._forbidden_cells(masking) if masks is None else masks[0] & masks[1]

    def _one_sided_mask(self) -> np.ndarray | None:
        masks = self._side_masks()
        uneven = None if masks is None else masks[0] ^ masks[1]
        return uneven if uneven is not None and uneven.any() else None

    def _hidden_cells(self) -> np.ndarray | None:
        """Return the cells without a difference, such as scores that are −∞ on one side only."""
        hidden, uneven = super()._hidden_cells(), self._one_sided_mask()
        return uneven if uneven is not None and not self.stage.is_weights else hidden

    def _panel_notes(
        self, colour: ColourScale, values: np.ndarray, marks: tuple[np.ndarray | None, ...]
    ) -> tuple[str, ...]:
        change = find_largest_difference(self.tensor, self.index, self.size)
        notes = [f"largest: {format_signed(change.value)}" if change else "no difference"]
        masks = self._side_masks()
        if masks:
            in_a, in_b = masks
            for side, only in (("A", in_a & ~in_b), ("B", in_b & ~in_a)):
                notes += [f"light hatching: forbidden in {side} only"] * bool(only.any())
        return (*notes, *super()._panel_notes(colour, values, marks))

    def _value_unit(self) -> str:
        return "change"


def _linked_panels(
    stage: Stage, head: int | None, others: tuple[Stage | int, ...]
) -> frozenset[tuple[str, int | None, HeadAggregate | None]]:
    """Return the panels that are highlighted together."""
    return frozenset(
        (stage.name, other, None) if isinstance(other, int) else (other.name, head, None)
        for other in others
    )


_CHANGE = "B − A"


def present_comparison_board(resolved: ResolvedView, previous: Board) -> Board:
    """Present the board of the active comparison."""
    comparison = resolved.comparison
    assert comparison
    known = previous.panels_by_key
    columns = _COLUMNS[comparison.against](resolved, comparison)
    made = tuple(tuple(panel.build_heatmap(known) for panel in column) for column in columns)
    return Board(made, present_minimap(resolved, known), resolved.zoom)


def _run_comparison_columns(
    resolved: ResolvedView, comparison: Comparison
) -> Iterator[Sequence[PanelSource]]:
    kept, run, a = comparison.kept, resolved.run, resolved.side_a
    assert kept
    for stage in resolved.shown_stages:
        rows = list(resolved.rows_of(stage))
        if not mismatch_reason(kept, run, stage):
            yield [
                ComparedSidePanelSource(a, stage, head_or_aggregate, ComparisonSide.A, run)
                for head_or_aggregate in rows
            ]
            yield [
                ComparedSidePanelSource(resolved, stage, head_or_aggregate, ComparisonSide.B, kept)
                for head_or_aggregate in rows
            ]
            yield [
                DifferencePanelSource(resolved, stage, head_or_aggregate, comparison, _CHANGE)
                for head_or_aggregate in rows
            ]
            continue
        if stage.name in kept.trace:
            own = kept.trace.stage(stage.name)
            yield [
                ComparedSidePanelSource(a, own, head_or_aggregate, ComparisonSide.A, None)
                for head_or_aggregate in a.rows_of(own)
            ]
        yield [
            ComparedSidePanelSource(resolved, stage, head_or_aggregate, ComparisonSide.B, None)
            for head_or_aggregate in rows
        ]


def _head_comparison_columns(
    resolved: ResolvedView, comparison: Comparison
) -> Iterator[Sequence[PanelSource]]:
    one, other = comparison.heads
    title = f"Head {other + 1} − head {one + 1}"
    trace = resolved.run.trace
    with_heads = [stage for stage in resolved.shown_stages if "head" in stage.dims]
    for stage in with_heads or [trace.stage(trace.attention_stage_name)]:
        yield [ComparedHeadPanelSource(resolved, stage, one, other)]
        yield [ComparedHeadPanelSource(resolved, stage, other, one)]
        yield [DifferencePanelSource(resolved, stage, (other, None), comparison, title)]


def _dropout_sample_columns(
    resolved: ResolvedView, comparison: Comparison
) -> Iterator[Sequence[PanelSource]]:
    weights, dropped = (resolved.run.trace.stage(name) for name in (Role.WEIGHTS, Role.DROPPED))
    heads = resolved.drawn_heads
    count = format_count(drawable_sample_count(resolved.run, comparison.count), "sample")
    mean, change = f"Mean of {count}", "Mean − weights"
    yield [
        DropoutSamplePanelSource(resolved, weights, head, comparison, "Weights") for head in heads
    ]
    yield [
        DropoutSamplePanelSource(resolved, dropped, head, comparison, "One sample")
        for head in heads
    ]
    yield [
        DropoutSampleMeanPanelSource(resolved, dropped, head, comparison, mean) for head in heads
    ]
    yield [
        DifferencePanelSource(resolved, dropped, (head, None), comparison, change) for head in heads
    ]


_COLUMNS = {
    ComparisonKind.KEPT: _run_comparison_columns,
    ComparisonKind.HEAD: _head_comparison_columns,
    ComparisonKind.SAMPLES: _dropout_sample_columns,
}
