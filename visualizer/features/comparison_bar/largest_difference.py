"""The largest difference of a comparison: its description, its stage and its cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.session.cell_address import Cell, ComparedSide
from visualizer.session.compared_tensors import LargestChange, change_of, largest_change, size_of
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.comparison_text import cell_name, mismatch, signed

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.resolved_view import Resolved


def largest_difference(resolved: Resolved, comparison: Comparison) -> tuple[str, Cell | None]:
    """Describe the largest difference of the current stage, and return its cell."""
    run, stages = resolved.run, [*resolved.shown_stages]
    if comparison.against is ComparisonKind.SAMPLES:
        stages = [run.trace.stage("dropped")]
    if comparison.against is ComparisonKind.HEAD:
        with_heads = [stage for stage in stages if "head" in stage.dims]
        stages = with_heads or [run.trace.stage(run.trace.attention)]
    if comparison.kept:
        reasons = {stage.name: mismatch(comparison.kept, run, stage) for stage in stages}
        fitting = [stage for stage in stages if not reasons[stage.name]]
        if not fitting:
            return f"{next(iter(reasons.values()))}. These values cannot be compared.", None
        stages = fitting
    stage = _preferred_stage(stages, resolved)
    change, place = _find_largest_change(resolved, comparison, stage)
    of = "" if len(stages) == 1 else f" of {stage.title.lower()}"
    if change is None:
        return f"No difference{of}.", None
    cell = Cell(stage.name, place, None, ComparedSide.CHANGE)
    named = cell_name(run, resolved.leading, stage, _indices_to_name(place, comparison))
    return f"Largest difference{of}: {signed(change.value)}, {named}.", cell


def _preferred_stage(stages: list[Stage], resolved: Resolved) -> Stage:
    """The stage of the pinned cell, or else the weights, or else the first stage."""
    by_name = {stage.name: stage for stage in stages}
    pinned = resolved.view.pinned
    return (pinned and by_name.get(pinned.stage)) or by_name.get("weights") or stages[0]


def _find_largest_change(
    resolved: Resolved, comparison: Comparison, stage: Stage
) -> tuple[LargestChange | None, tuple[int, ...]]:
    held, index = change_of(resolved, stage.name, None)
    change = largest_change(held, index, size_of(resolved, stage.name, None))
    place = change.place if change else ()
    return change, (
        comparison.heads[1],
        *place,
    ) if comparison.against is ComparisonKind.HEAD else place


def _indices_to_name(place: tuple[int, ...], comparison: Comparison) -> tuple[int, ...]:
    """The indices without the head, if the comparison names the head."""
    return place[-2:] if comparison.against is ComparisonKind.HEAD else place
