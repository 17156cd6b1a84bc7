"""Tensors and messages for comparisons: differences, sample means and mismatches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.roles import Role
from visualizer.format import format_count, format_number, shorten
from visualizer.language.tokenizers import visible_token
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.dropout_samples import drawable_sample_count, mean_of_dropout_samples

if TYPE_CHECKING:
    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.display_transforms import HeadAggregate
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.cell_address import Cell
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.resolved_view import ResolvedView

# A difference below this fraction of the largest operand is treated as a rounding error.
ROUNDING_TOLERANCE = 2e-6


def difference_tensor(
    resolved: ResolvedView, stage: str, fold: HeadAggregate | None
) -> tuple[CachedTensor, tuple[int, ...]]:
    """Return the tensor of differences for a stage, and the index of the shown part in it."""
    run, comparison, index = resolved.run, resolved.comparison, resolved.leading
    assert comparison
    lens = _weight_transform_of_comparison(resolved)
    live = run.trace.displayed_tensor(stage, lens, fold)
    if comparison.against is ComparisonKind.HEAD:
        return comparison.cached_derived_tensor(
            live, lambda: live.subtract_heads(*comparison.heads)
        ), index
    if comparison.against is ComparisonKind.SAMPLES:
        weights, mean = (
            run.trace.cached_stage_tensor(Role.WEIGHTS),
            dropout_mean_tensor(run, comparison),
        )
        return comparison.cached_derived_tensor(mean, lambda: mean.subtract(weights)), index
    assert comparison.kept
    kept = comparison.kept.trace.displayed_tensor(stage, lens, fold)
    return comparison.cached_derived_tensor(live, lambda: live.subtract(kept)), index


def max_magnitude(resolved: ResolvedView, stage: str, fold: HeadAggregate | None) -> float:
    """Return the largest magnitude on either side, which scales the rounding tolerance."""
    kept = resolved.comparison.kept if resolved.comparison else None
    runs = (kept, resolved.run) if kept else (resolved.run,)
    sides = [
        one.trace.displayed_tensor(stage, _weight_transform_of_comparison(resolved), fold).limits()
        for one in runs
    ]
    return max(abs(end) for side in sides for end in side)


def dropout_mean_tensor(run: Run, comparison: Comparison) -> CachedTensor:
    """Return the mean of the dropout samples."""
    # The cache key is the tensor of weights after dropout, which changes with the rate and the
    # seed.
    sample = run.trace.cached_stage_tensor(Role.DROPPED)
    count = drawable_sample_count(run, comparison.count)
    return comparison.cached_derived_tensor(
        sample, lambda: mean_of_dropout_samples(run, count, comparison.tally)
    )


def find_tensor_of_cell(resolved: ResolvedView, cell: Cell) -> tuple[CachedTensor, tuple[int, ...]]:
    """Return the tensor that contains a cell's value, and the index of the cell's matrix in it."""
    comparison, run, lens = resolved.comparison, resolved.run, resolved.view.lens
    whole = (*resolved.leading, *cell.place[:-2])
    against = comparison.against if comparison else None
    if comparison and comparison.kept and cell.part is ComparisonSide.A:
        return comparison.kept.trace.displayed_tensor(cell.stage, lens, cell.fold), whole
    if comparison and against is ComparisonKind.SAMPLES and cell.part is ComparisonSide.MEAN:
        return dropout_mean_tensor(run, comparison), whole
    if comparison and cell.part is ComparisonSide.CHANGE:
        tensor, start = difference_tensor(resolved, cell.stage, cell.fold)
        return tensor, start if against is ComparisonKind.HEAD else whole
    lens = _weight_transform_of_comparison(resolved) if comparison else lens
    return run.trace.displayed_tensor(cell.stage, lens, cell.fold), whole


def _weight_transform_of_comparison(resolved: ResolvedView) -> WeightTransform:
    """Return the weight transform of a comparison; a comparison of dropout samples uses none."""
    comparison = resolved.comparison
    is_sampled = comparison is not None and comparison.against is ComparisonKind.SAMPLES
    return WeightTransform.PLAIN if is_sampled else resolved.view.lens


class LargestDifference(Struct, frozen=True):
    """The largest difference, and its position within the searched part of the tensor."""

    value: float
    place: tuple[int, ...]


def find_largest_difference(
    tensor: CachedTensor, index: tuple[int, ...], size: float
) -> LargestDifference | None:
    """Return the largest difference, or None if it is within the rounding tolerance."""
    place = tensor.index_of_largest(index)
    value = float(tensor.read((*index, *place)))
    is_change = math.isfinite(value) and abs(value) > ROUNDING_TOLERANCE * size
    return LargestDifference(value, place) if is_change else None


def mismatch_reason(kept: Run, run: Run, stage: Stage) -> str:
    """Return why a stage cannot be compared between A and B, or an empty string if it can."""
    mine, yours = kept.trace, run.trace
    if mine.query_key_counts != yours.query_key_counts:
        return _describe_different_sides(mine.query_key_counts, yours.query_key_counts)
    for axis in dict.fromkeys((*mine.axes, *yours.axes)):
        if mine.axis_size(axis) != yours.axis_size(axis):
            return (
                f"A has {format_count(mine.axis_size(axis), axis)}; B has {yours.axis_size(axis):,}"
            )
    if stage.name not in mine:
        return f"A has no {stage.title.lower()}"
    old, new = (trace.shape(stage.name) for trace in (mine, yours))
    if old == new:
        return ""
    if "head" in stage.dims and old[-3] != new[-3]:
        return f"A has {format_count(old[-3], 'head')}; B has {new[-3]:,}"
    return f"A has {format_count(old[-1], 'number')} per vector; B has {new[-1]:,}"


def _describe_different_sides(mine: tuple[int, int], yours: tuple[int, int]) -> str:
    if mine[0] == mine[1] and yours[0] == yours[1]:
        return f"A has {format_count(mine[0], 'token')}; B has {yours[0]:,}"
    return "A has {:,} queries and {:,} keys; B has {:,} and {:,}".format(*mine, *yours)


def format_signed(value: float) -> str:
    """Format a difference with its sign."""
    written = format_number(value)
    return written if written.startswith("−") or value == 0 else f"+{written}"


def describe_cell(run: Run, leading: LeadingIndex, stage: Stage, place: tuple[int, ...]) -> str:
    """Describe a cell by its tokens, or by its token and column, and by its head if it has one."""
    row, column = place[-2:]
    joined = shorten(visible_token(run.axis_tokens(leading, stage.dims[-2])[row]))
    if stage.dims[-1] == "key":
        key = run.axis_tokens(leading, "key")[column]
        joined += f" → {shorten(visible_token(key))}"
    else:
        joined += f", column {column + 1}"
    has_head = len(place) == 3 and run.trace.spec.heads > 1
    return f"{joined} in head {place[0] + 1}" if has_head else joined
