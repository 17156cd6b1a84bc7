"""The inputs of a step move to the cells that are computed from them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.screens import resolved
from tests.support.small_runs import a_run
from visualizer.explanations.explain import explain
from visualizer.heatmap.highlights import HighlightBlock, HighlightedStep, present_highlights
from visualizer.heatmap.step_motion_paths import (
    MAX_BLOCK_PARTS,
    MAX_PATHS,
    MOTION_MS,
    MotionPath,
    ends_motion,
    motion_paths,
    starts_motion,
)
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize, Timeline
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.attention.run import Run

Cells = set[tuple[str, tuple[int, ...]]]


def cells_of(block: HighlightBlock) -> Cells:
    head = () if block.head is None else (block.head,)
    return {(block.stage, (*head, *cell)) for cell in itertools.product(block.rows, block.columns)}


def read_by(run: Run, text: int, made: Cells) -> Cells:
    """Return the cells that the explanations of the given cells refer to."""
    batch = (text,) if run.trace.axes else ()
    return {
        (factor.name, factor.source_index(term)[len(batch) :])
        for stage, place in made
        for group in explain(run.trace, stage, (*batch, *place)).groups
        for factor in group.factors
        if factor.name in run.trace and factor.name != stage
        for term in range(len(factor.read))
    }


def shown_step(
    run: Run, place: PlaybackPosition, grain: StepSize, text: int = 0
) -> HighlightedStep:
    step = present_highlights(
        resolved(run, View(text=text, playhead=PlaybackState(place, grain)))
    ).step
    assert step
    return step


def paths(run: Run, step: HighlightedStep) -> tuple[MotionPath, ...]:
    axes = {stage.name: (stage.dims[-2], stage.dims[-1]) for stage in run.trace.stages}
    return motion_paths(step.computations, axes)


@examples(0.6)
@given(cases(), st.sampled_from(StepSize), st.data())
def test_exactly_the_inputs_move_to_the_cells_computed_from_them(
    case: Case, grain: StepSize, data: st.DataObject
) -> None:
    run = case.run()
    line = Timeline.from_trace(run.trace, grain)
    place = line.position_of_step(data.draw(st.integers(0, len(line) - 1)))
    assert place
    text = data.draw(st.integers(0, len(run.texts) - 1))
    step = shown_step(run, place, grain, text)
    found = paths(run, step)
    made: Cells = set().union(*(cells_of(reading.result) for reading in step.computations))
    moved: Cells = set().union(*(cells_of(path.source) for path in found))
    assert moved == read_by(run, text, made)
    for path in found:
        target = cells_of(path.target)
        assert target <= made
        assert cells_of(path.source) <= read_by(run, text, target)
    if grain is not StepSize.STAGE:
        for path in found:
            for cell in cells_of(path.target):
                # A weight that a mask sets to 0 without a score has no inputs.
                needed = read_by(run, text, {cell})
                assert not needed or needed & cells_of(path.source)


def of_head(found: tuple[MotionPath, ...], stage: str) -> list[tuple[range, range, range, range]]:
    """Return the rows and columns at both ends of the first head's paths from a stage."""
    return [
        (path.source.rows, path.source.columns, path.target.rows, path.target.columns)
        for path in found
        if path.source.stage == stage and path.source.head in {None, 0} and path.target.head != 1
    ]


def test_a_query_moves_to_its_row_of_scores_and_each_key_to_its_column() -> None:
    run = a_run(d_out=6)
    found = paths(run, shown_step(run, PlaybackPosition("scores", 3), StepSize.ROW))
    row, tokens, columns = range(3, 4), range(6), range(3)
    assert of_head(found, "queries") == [(row, columns, row, tokens)]
    keys = [range(key, key + 1) for key in tokens]
    assert of_head(found, "keys") == [(key, columns, row, key) for key in keys]


def test_weights_and_value_columns_move_to_their_context_vector() -> None:
    run = a_run(d_out=6)
    found = paths(run, shown_step(run, PlaybackPosition("context", 3), StepSize.ROW))
    row, tokens, columns = range(3, 4), range(6), range(3)
    assert of_head(found, "weights") == [(row, tokens, row, columns)]
    values = [range(column, column + 1) for column in columns]
    assert of_head(found, "values") == [(tokens, value, row, value) for value in values]


def test_heads_move_to_their_concatenated_columns() -> None:
    run = a_run(d_out=6)
    found = paths(run, shown_step(run, PlaybackPosition("concat", 3), StepSize.ROW))
    assert {(path.source.head, path.target.columns) for path in found} == {
        (0, range(3)),
        (1, range(3, 6)),
    }


def test_many_keys_move_in_groups() -> None:
    run = a_run(" ".join(50 * ["word"]), heads=1)
    found = paths(run, shown_step(run, PlaybackPosition("scores", 3), StepSize.ROW))
    keys = [path.source.rows for path in found if path.source.stage == "keys"]
    assert 1 < len(keys) <= MAX_BLOCK_PARTS
    assert [key for part in keys for key in part] == [*range(50)]


def test_with_many_heads_each_block_moves_as_a_whole() -> None:
    run = a_run(" ".join(40 * ["word"]), heads=16, d_out=16)
    found = paths(run, shown_step(run, PlaybackPosition("scores", 3), StepSize.ROW))
    assert len(found) == 2 * 16 <= MAX_PATHS


def test_stages_without_a_panel_are_omitted() -> None:
    run = a_run()
    step = shown_step(run, PlaybackPosition("scores", 3), StepSize.ROW)
    axes = {"keys": ("token", "d_head"), "scores": ("query", "key")}
    assert {path.source.stage for path in motion_paths(step.computations, axes)} == {"keys"}
    assert motion_paths(step.computations, {"keys": axes["keys"]}) == ()


def at(position: int, ms: float | None = None) -> HighlightedStep:
    return HighlightedStep(position, ms, ())


@pytest.mark.parametrize(
    ("before", "after", "begins", "ends"),
    [
        (at(3), at(4), True, True),
        (at(3), at(5), False, True),
        (at(3), at(2), False, True),
        (at(3), at(3), False, False),
        (None, at(0), True, True),
        (at(3), None, False, True),
        (at(3, 2000), at(4, 2000), True, True),
        (at(65, 2000), at(0, 2000), True, True),
        (at(3, 2000), at(3), False, True),
        (at(3), at(3, 2000), False, False),
        (at(3, MOTION_MS), at(4, MOTION_MS), True, True),
        (at(3, MOTION_MS - 1), at(4, MOTION_MS - 1), False, True),
    ],
)
def test_a_playback_step_or_the_next_step_starts_a_motion(
    before: HighlightedStep | None, after: HighlightedStep | None, begins: bool, ends: bool
) -> None:
    assert starts_motion(before, after) == begins
    assert ends_motion(before, after) == ends
