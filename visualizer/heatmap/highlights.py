"""Highlights of playback steps, of hovered or pinned cells, and of predictions.

The inputs of a cell are the cells to which its explanation refers. Nothing is drawn here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.roles import Role
from visualizer.attention.spec import MaskKind
from visualizer.explanations.cell_terms import CombinationRule
from visualizer.explanations.explain import explain
from visualizer.explanations.prediction_judge import judge_prediction
from visualizer.explanations.step_context import parenthesize_negative
from visualizer.format import format_number
from visualizer.heatmap.cell_lookup import largest_cell_in_block
from visualizer.heatmap.step_motion_phases import MOTION_KINDS, MotionKind
from visualizer.session.timeline import Step

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace
    from visualizer.explanations.cell_terms import Factor
    from visualizer.session.cell_address import Cell
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.timeline import PlaybackPosition, Timeline
    from visualizer.session.user_prediction import Prediction, PredictionVerdict


MAX_MOTION_TERMS = 128
"""Maximum number of keys per row that are shown one by one in a motion."""
MAX_FORM_DECIMALS = 3


class ComputedExtent(Struct, frozen=True):
    """Part of a stage that is computed: whole rows, and some columns of the next row."""

    stage: str
    rows: int
    columns: int = 0


class HighlightBlock(Struct, frozen=True):
    """A block of cells that is computed in a step, or an input of the step.

    Parameters
    ----------
    head : int or None
        None for a stage without heads.
    is_result : bool
        Whether the block is computed, rather than an input.
    """

    stage: str
    head: int | None
    rows: range
    columns: range
    is_result: bool


class BlockComputation(Struct, frozen=True):
    """A block that a step computes in one head, and the blocks of its inputs."""

    result: HighlightBlock
    inputs: tuple[HighlightBlock, ...]


class StepTerms(Struct, frozen=True):
    """The terms of the cell to which a step's explanation refers.

    Parameters
    ----------
    names : tuple of str
        The key token of each term; empty if terms do not belong to keys.
    factors : tuple of tuple of float
        The numbers of each factor, one per term.
    chosen : int
        Index of the cell's own term, or of the largest term.
    form : str
        The form of the terms, such as "exp(score − 0.5)"; empty for products.
    """

    names: tuple[str, ...]
    factors: tuple[tuple[float, ...], ...]
    terms: tuple[float, ...]
    chosen: int
    value: float
    form: str = ""


class HighlightedStep(Struct, frozen=True):
    """The highlighted playback step.

    Parameters
    ----------
    position : int
        Index on the timeline.
    ms : float or None
        Display time in milliseconds; None while playback is paused, and 0 for the quick rows of a
        tour, during which the tour's full row remains highlighted.
    kind : MotionKind
        How the step's inputs are combined into its result.
    terms : StepTerms or None
        The terms; None if the inputs only move.
    """

    position: int
    ms: float | None
    computations: tuple[BlockComputation, ...]
    kind: MotionKind = MotionKind.MOVE
    terms: StepTerms | None = None


MAX_SEARCHED_CELLS = 256
"""Maximum number of cells in a block that is searched for inputs if its corners have none."""


def computed_extents(timeline: Timeline, place: PlaybackPosition) -> tuple[ComputedExtent, ...]:
    """Return the computed part of each stage, including this step."""
    return tuple(
        ComputedExtent(stage, *timeline.playback_reach(place, stage))
        for stage, _, _ in timeline.sizes
    )


def step_computations(resolved: ResolvedView, step: Step) -> tuple[BlockComputation, ...]:
    """Return the block that a step computes in each head, with its inputs.

    The inputs of a block reach from the inputs of its first cell to those of its last cell.
    """
    trace = resolved.run.trace
    has_heads = "head" in trace.stage(step.stage).dims
    found = []
    for head in range(trace.spec.heads) if has_heads else (None,):
        before = resolved.leading if head is None else (*resolved.leading, head)
        result = HighlightBlock(step.stage, head, step.rows, step.columns, True)
        found.append(
            BlockComputation(
                result, tuple(dict.fromkeys(_input_blocks_of_step(trace, step, before)))
            )
        )
    return tuple(found)


def highlighted_blocks(computations: tuple[BlockComputation, ...]) -> tuple[HighlightBlock, ...]:
    """Return the results of computations, followed by their inputs, each once."""
    results = [each.result for each in computations]
    return (*results, *dict.fromkeys(block for each in computations for block in each.inputs))


def input_blocks_of_cell(resolved: ResolvedView, cell: Cell) -> tuple[HighlightBlock, ...]:
    """Return the highlighted inputs of a cell."""
    row, column = cell.place[-2:]
    step = Step(cell.stage, range(row, row + 1), range(column, column + 1))
    trace = resolved.run.trace
    if cell.fold:
        heads = range(trace.spec.heads)
        return tuple(
            HighlightBlock(cell.stage, head, step.rows, step.columns, False) for head in heads
        )
    return tuple(_input_blocks_of_step(trace, step, (*resolved.leading, *cell.place[:-2])))


def _input_blocks_of_step(
    trace: Trace, step: Step, before: tuple[int, ...]
) -> list[HighlightBlock]:
    row, column = step.rows[0], step.columns[0]
    heads = ((row, at) for at in _first_columns_of_heads(trace, step))
    cells = dict.fromkeys([(row, column), *heads, (step.rows[-1], step.columns[-1])])
    factors = [_input_factors(trace, step.stage, (*before, *cell)) for cell in cells]
    count = len(step.rows) * len(step.columns)
    is_hollow = not any(factors) and 1 < count <= MAX_SEARCHED_CELLS
    if trace.spec.mask is MaskKind.OWN and 2 < len(step.rows) <= MAX_SEARCHED_CELLS:
        # A row without allowed keys has no inputs, also between rows that have some.
        factors += [
            _input_factors(trace, step.stage, (*before, at, column)) for at in step.rows[1:-1]
        ]
    if is_hollow or len({tuple(one.name for one in each) for each in factors}) > 1:
        # For example, the context vectors of an edited head do not belong to any stage, and
        # without scores, masked weights at the corners have no inputs.
        return [
            block
            for half in _split_step(step)
            for block in _input_blocks_of_step(trace, half, before)
        ]
    found = []
    for low, high in zip(factors[0], factors[len(cells) - 1], strict=True):
        if low.name != step.stage:
            found += _blocks_between(trace, low.name, low.index, high.index)
    return found


def _first_columns_of_heads(trace: Trace, step: Step) -> range:
    """Return the columns of a step where a head starts in the concatenated vector."""
    if step.stage != Role.CONCAT:
        return range(0)
    width = trace.shape(step.stage)[-1] // trace.spec.heads
    return range(-(-step.columns[0] // width) * width, step.columns[-1] + 1, width)


def _input_factors(trace: Trace, stage: str, index: tuple[int, ...]) -> list[Factor]:
    """Return a cell's inputs except constants."""
    groups = explain(trace, stage, index).groups
    return [one for group in groups for one in group.factors if one.name in trace]


def _split_step(step: Step) -> tuple[Step, Step]:
    """Split a step of several cells into halves, by columns if possible, otherwise by rows."""
    name = "columns" if len(step.columns) > 1 else "rows"
    cells = getattr(step, name)
    middle = len(cells) // 2
    return replace(step, **{name: cells[:middle]}), replace(step, **{name: cells[middle:]})


def _blocks_between(
    trace: Trace, stage: str, low: tuple[int | None, ...], high: tuple[int | None, ...]
) -> list[HighlightBlock]:
    sizes = trace.shape(stage)
    spans = [
        # A rotation uses the halves of a vector in turn, so the last index may precede the first.
        range(size) if start is None or end is None or start > end else range(start, end + 1)
        for start, end, size in zip(low, high, sizes, strict=True)
    ]
    rows, columns = spans[-2:]
    heads = spans[-3] if "head" in trace.stage(stage).dims else (None,)
    return [HighlightBlock(stage, head, rows, columns, False) for head in heads]


class Highlights(Struct, frozen=True):
    """Highlights, covers and prediction marks drawn over the panels.

    Parameters
    ----------
    computed_extents : tuple of ComputedExtent
        Computed part of each stage; empty if everything is computed.
    leading : Cell or None
        Cell to which the step's explanation refers.
    step : HighlightedStep or None
        The step to which the blocks belong.
    hidden_stages : frozenset of str
        Stages that the user predicts or that would reveal the predicted values.
    marks : tuple of Cell
        Cells marked as a prediction.
    verdict : PredictionVerdict or None
        The verdict on the marks.
    """

    computed_extents: tuple[ComputedExtent, ...] = ()
    blocks: tuple[HighlightBlock, ...] = ()
    leading: Cell | None = None
    hidden_stages: frozenset[str] = frozenset()
    marks: tuple[Cell, ...] = ()
    verdict: PredictionVerdict | None = None
    step: HighlightedStep | None = None


def highlights_before_step(highlights: Highlights) -> Highlights:
    """Return the highlights as they are before the result of the step is computed."""
    if highlights.step is None or not highlights.step.computations[0].inputs:
        return highlights
    result = highlights.step.computations[0].result
    before = ComputedExtent(result.stage, result.rows.start, result.columns.start)
    extents = highlights.computed_extents
    extents = tuple(before if one.stage == result.stage else one for one in extents)
    return replace(highlights, computed_extents=extents)


def present_highlights(resolved: ResolvedView) -> Highlights:
    """Highlight the current step and its inputs, or cover the stages to predict."""
    if resolved.prediction:
        return _prediction_highlights(resolved, resolved.prediction)
    if resolved.place is None:
        return Highlights()
    described = resolved.described_position
    step = resolved.timeline.step_at(described or resolved.place)
    extents = computed_extents(resolved.timeline, resolved.place)
    computations = step_computations(resolved, step)
    position = resolved.timeline.step_index(resolved.place)
    terms = _step_terms(resolved, step)
    operation = resolved.run.trace.stage(step.stage).operation
    kind = MOTION_KINDS[operation] if terms else MotionKind.MOVE
    ms = _step_duration_ms(resolved, position) if described == resolved.place else 0.0
    highlighted = HighlightedStep(position, ms, computations, kind, terms)
    blocks = highlighted_blocks(computations)
    return Highlights(extents, blocks, resolved.described_step_cell, step=highlighted)


def _step_terms(resolved: ResolvedView, step: Step) -> StepTerms | None:
    """Return the terms that a step's motion shows, or None for whole stages and long rows."""
    trace, cell = resolved.run.trace, resolved.described_step_cell
    is_shown = trace.stage(step.stage).operation in MOTION_KINDS and len(step.rows) == 1
    if cell is None or not is_shown or trace.query_key_counts[1] > MAX_MOTION_TERMS:
        return None
    explanation = explain(trace, cell.stage, (*resolved.leading, *cell.place))
    factors = explanation.groups[0].factors
    numbers = (explanation.terms, *(factor.read for factor in factors))
    if len(explanation.groups) > 1 or not all(np.isfinite(explanation.terms)):
        return None
    terms, *read = (tuple(map(float, one)) for one in numbers)
    is_share = explanation.rule is CombinationRule.SHARE
    names = resolved.side_labels(resolved.leading).columns
    return StepTerms(
        names if len(names) == len(terms) else (),
        tuple(read),
        terms,
        explanation.chosen if is_share else int(explanation.term_magnitudes.argmax()),
        explanation.value,
        _softmax_term_form(factors[0]) if is_share else "",
    )


def _softmax_term_form(score: Factor) -> str:
    shift = parenthesize_negative(format_number(score.shift, MAX_FORM_DECIMALS))
    return score.form.format(f"score − {shift}" if score.shift else "score")


def _step_duration_ms(resolved: ResolvedView, position: int) -> float | None:
    playhead = resolved.view.playhead
    return (
        resolved.timeline.step_duration_ms(position) / playhead.speed
        if playhead.is_playing
        else None
    )


def with_pointed_cell_inputs(resolved: ResolvedView, highlights: Highlights) -> Highlights:
    """Highlight the inputs of the hovered or pinned cell, if no step is highlighted."""
    cell = resolved.hovered_or_pinned_cell
    if cell is None or highlights.blocks or cell.stage in highlights.hidden_stages:
        return highlights
    return replace(highlights, blocks=input_blocks_of_cell(resolved, cell))


def _prediction_highlights(resolved: ResolvedView, guess: Prediction) -> Highlights:
    if not guess.is_revealed:
        return Highlights(hidden_stages=resolved.hidden_stages, marks=guess.marks)
    guess = _snap_marks_to_drawn_cells(resolved, guess)
    verdict = judge_prediction(resolved, guess)
    return Highlights(hidden_stages=resolved.hidden_stages, marks=guess.marks, verdict=verdict)


def _snap_marks_to_drawn_cells(resolved: ResolvedView, guess: Prediction) -> Prediction:
    """Replace each marked cell with the cell that has the largest magnitude in its block."""
    blocks = resolved.extent(resolved.run.trace.stage(guess.stage)).blocks
    if blocks == (1, 1):
        return guess
    marks = (largest_cell_in_block(resolved, mark, blocks) for mark in guess.marks)
    return replace(guess, marks=tuple(dict.fromkeys(marks)))
