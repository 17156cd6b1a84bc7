"""The timeline is derived from the trace; positions stay valid when the document changes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases, drawn_step
from tests.support.examples import examples
from tests.support.screens import resolved
from tests.support.small_runs import a_run
from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.attention.stages import STAGE_TABLE
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import (
    MIN_TOUR_STAGE_MS,
    STEP_MS,
    TOUR_MS,
    PlaybackPosition,
    PlaybackState,
    Step,
    StepSize,
    Timeline,
    caption_cell,
)
from visualizer.session.view import View

GRAINS = st.sampled_from(StepSize)
HUGE = 2**16


def timeline(grain: StepSize = StepSize.ROW) -> Timeline:
    return Timeline.from_trace(a_run().trace, grain)


def cells(step: Step) -> list[tuple[str, int, int]]:
    return [(step.stage, *cell) for cell in itertools.product(step.rows, step.columns)]


@given(cases(), GRAINS)
def test_the_steps_compute_every_cell_once_and_in_order(case: Case, grain: StepSize) -> None:
    trace = case.trace()
    line = Timeline.from_trace(trace, grain)
    played: list[tuple[str, int, int]] = []
    for position in range(len(line)):
        place = line.position_of_step(position)
        assert place is not None
        played += cells(line.step_at(place))
    whole = [
        (name, row, column)
        for name in trace.names
        for row, column in itertools.product(*map(range, trace.tensor(name).shape[-2:]))
    ]
    assert played == whole


@examples(0.4)
@given(cases(), GRAINS, st.data())
def test_a_cell_is_later_until_its_step_is_shown(
    case: Case, grain: StepSize, data: st.DataObject
) -> None:
    run = case.run()
    line = Timeline.from_trace(run.trace, grain)
    position = data.draw(st.integers(0, len(line) - 1))
    playhead = PlaybackState(place=line.position_of_step(position), grain=grain)
    seen = resolved(run, View(playhead=playhead))
    steps = [line.step_at(place) for place in map(line.position_of_step, range(len(line))) if place]
    for at in {max(0, position - 1), position, min(position + 1, len(line) - 1)}:
        for stage, row, column in cells(steps[at]):
            leading = (0,) * (len(run.trace.stage(stage).dims) - 2)
            cell = Cell(stage, (*leading, row, column))
            is_given = not run.trace.stage(stage).reads
            assert seen.is_computed_later(cell) == (at > position and not is_given)


@given(cases(), GRAINS, st.data())
def test_steps_and_positions_correspond(case: Case, grain: StepSize, data: st.DataObject) -> None:
    line = Timeline.from_trace(case.trace(), grain)
    position = data.draw(st.integers(0, len(line) + 3))
    place = line.position_of_step(position)
    assert line.step_index(place) == min(position, len(line))
    assert line.nearest_position(place) == place


@given(cases(), GRAINS, st.sampled_from(STAGE_ORDER), st.integers(0, 9), st.integers(0, 9))
def test_a_missing_position_is_replaced_by_the_nearest_one(
    case: Case, grain: StepSize, stage: str, row: int, column: int
) -> None:
    trace = case.trace()
    line = Timeline.from_trace(trace, grain)
    found = line.nearest_position(PlaybackPosition(stage, row, column))
    if stage in trace:
        rows, columns = trace.tensor(stage).shape[-2:]
        assert found is not None
        assert found.stage == stage
        step = line.step_at(found)
        assert min(row, rows - 1) in step.rows
        assert min(column, columns - 1) in step.columns
    else:
        later = [name for name in STAGE_ORDER[STAGE_ORDER.index(stage) :] if name in trace]
        assert found == (PlaybackPosition(later[0]) if later else None)


def test_step_sizes_count_stages_rows_or_cells() -> None:
    trace = a_run(d_in=3, d_out=4, heads=2).trace
    rows = [tuple(trace.tensor(name).shape[-2:]) for name in trace.names]
    counts = {grain: len(Timeline.from_trace(trace, grain)) for grain in StepSize}
    assert counts == {
        StepSize.TOUR: sum(row for row, _ in rows),
        StepSize.STAGE: len(rows),
        StepSize.ROW: sum(row for row, _ in rows),
        StepSize.CELL: sum(row * column for row, column in rows),
    }


def test_stages_begin_at_their_first_step() -> None:
    line = timeline(StepSize.CELL)
    for (stage, *_), start in zip(line.sizes, line.stage_start_indices, strict=False):
        assert line.position_of_step(start) == PlaybackPosition(stage)
    assert line.stage_start_indices[-1] == len(line)
    assert line.position_of_step(len(line)) is None


def test_going_back_leads_to_the_start_of_this_stage_and_then_of_the_previous_one() -> None:
    line = timeline()
    assert line.skip_stages(PlaybackPosition("scores", 3), 1) == PlaybackPosition("scaled")
    assert line.skip_stages(PlaybackPosition("scores", 3), -1) == PlaybackPosition("scores")
    assert line.skip_stages(PlaybackPosition("scores"), -1) == PlaybackPosition("values")
    assert line.skip_stages(PlaybackPosition("output", 2), 1) is None
    assert line.skip_stages(None, 1) is None
    assert line.skip_stages(None, -1) == PlaybackPosition("output")
    assert line.skip_stages(PlaybackPosition("input"), -1) == PlaybackPosition("input")


def test_a_change_of_step_size_stays_in_the_row() -> None:
    trace = a_run().trace
    place = PlaybackPosition("weights", 4, 2)
    assert Timeline.from_trace(trace, StepSize.CELL).nearest_position(place) == place
    assert Timeline.from_trace(trace, StepSize.ROW).nearest_position(place) == PlaybackPosition(
        "weights", 4
    )
    assert Timeline.from_trace(trace, StepSize.STAGE).nearest_position(place) == PlaybackPosition(
        "weights"
    )


def test_a_timeline_of_any_size_stores_only_sizes() -> None:
    sizes = tuple((row, HUGE, HUGE) for row in dict.fromkeys(row.name for row in STAGE_TABLE))
    line = Timeline(sizes, StepSize.CELL)
    last = len(line) - 1
    assert len(line) == len(sizes) * HUGE**2
    assert line.position_of_step(last) == PlaybackPosition(sizes[-1][0], HUGE - 1, HUGE - 1)
    assert line.step_index(line.position_of_step(last // 2)) == last // 2


@examples(0.3)
@given(cases(), GRAINS, st.data())
def test_the_caption_cell_is_the_largest_of_its_step(
    case: Case, grain: StepSize, data: st.DataObject
) -> None:
    run = case.run()
    text, step = drawn_step(data, run, grain)
    head = data.draw(st.integers(0, run.trace.spec.heads - 1))
    found = caption_cell(run, (text,) if run.trace.axes else (), step, head)
    batch = (text,) if run.trace.axes else ()
    heads = (head,) if "head" in run.trace.stage(step.stage).dims else ()
    numbers = run.trace.read(step.stage, (*batch, *heads))
    block = [numbers[row, column] for _, row, column in cells(step)]
    largest = max((value for value in block if value == value), default=None)
    value = run.trace.read(step.stage, (*batch, *found))
    assert found[:-2] == heads
    assert found[-2] in step.rows
    assert found[-1] in step.columns
    assert largest is None or value == largest


@pytest.mark.parametrize("grain", StepSize)
def test_one_token_and_one_column_have_a_timeline(grain: StepSize) -> None:
    line = Timeline.from_trace(a_run("word", d_in=1, d_out=1, heads=1).trace, grain)
    assert len(line) == len(line.sizes)


def test_the_last_step_of_a_missing_stage_is_the_one_before_it() -> None:
    line = timeline()
    assert line.position_of_step(line.last_step_index("masked")) == PlaybackPosition("masked", 5)
    assert line.position_of_step(line.last_step_index("dropped")) == PlaybackPosition("weights", 5)
    assert line.position_of_step(line.last_step_index("zeroed")) == PlaybackPosition("masked", 5)
    assert line.position_of_step(line.last_step_index("output")) == PlaybackPosition("output", 5)
    assert line.last_step_index("embedding") == 0


@given(cases())
def test_every_stage_of_a_tour_has_its_minimum_duration(case: Case) -> None:
    line = Timeline.from_trace(case.trace(), StepSize.TOUR)
    stages = [end - start for start, end in itertools.pairwise(line.stage_starts_ms)]
    assert min(stages) >= MIN_TOUR_STAGE_MS - 1e-6
    assert sum(stages) <= max(TOUR_MS, len(stages) * MIN_TOUR_STAGE_MS) + 1e-6
    durations = [line.step_duration_ms(position) for position in range(len(line))]
    assert sum(durations) == pytest.approx(line.step_start_ms(len(line)))
    assert min(durations) > 0
    shown = {line.position_of_step(position).stage for position in range(len(line))}  # type: ignore[union-attr]
    assert shown == {*case.trace().names}


def test_scores_weights_and_context_vectors_take_longer_than_other_stages() -> None:
    line = timeline(StepSize.TOUR)
    assert line.step_start_ms(len(line)) == pytest.approx(TOUR_MS)
    spans = itertools.pairwise(line.stage_starts_ms)
    times = {size[0]: end - start for size, (start, end) in zip(line.sizes, spans, strict=True)}
    assert times["queries"] == times["concat"] == MIN_TOUR_STAGE_MS
    assert min(times[name] for name in ("scores", "weights", "context")) > 2 * MIN_TOUR_STAGE_MS


def test_one_row_of_each_stage_takes_most_of_its_time() -> None:
    line = timeline(StepSize.TOUR)
    for start, end in itertools.pairwise(line.stage_start_indices):
        durations = [line.step_duration_ms(position) for position in range(start, end)]
        *quick, full = sorted(durations)
        assert full > sum(quick)
        assert quick == pytest.approx([quick[0]] * len(quick))


@given(cases(), GRAINS, st.data())
def test_position_at_agrees_with_start_ms(case: Case, grain: StepSize, data: st.DataObject) -> None:
    full_row = data.draw(st.none() | st.integers(0, 9))
    line = Timeline.from_trace(case.trace(), grain, full_row)
    position = data.draw(st.integers(0, len(line) - 1))
    share = data.draw(st.floats(0, 0.999))
    time = line.step_start_ms(position) + share * line.step_duration_ms(position)
    assert line.step_index_at_time(time) == position
    assert line.step_index_at_time(line.step_start_ms(len(line))) == len(line)
    if grain in STEP_MS:
        assert line.step_duration_ms(position) == pytest.approx(STEP_MS[grain])


@given(cases(), GRAINS, st.floats(0, 1), st.floats(0, 1))
def test_a_fraction_of_a_stage_is_one_of_its_steps(
    case: Case, grain: StepSize, share: float, other: float
) -> None:
    line = Timeline.from_trace(case.trace(), grain)
    for (stage, *_), start, end in zip(
        line.sizes, line.stage_start_indices, line.stage_start_indices[1:], strict=False
    ):
        low, high = sorted((share, other))
        at, later = (
            line.step_index_within_stage(stage, low),
            line.step_index_within_stage(stage, high),
        )
        assert start <= at <= later < end
        assert line.step_index_within_stage(stage, 0) == start
        assert line.step_index_within_stage(stage, 1) == end - 1


@pytest.mark.parametrize(("chosen", "full"), [(None, 3), (0, 0), (4, 4), (9, 5)])
def test_a_tour_describes_the_row_shown_in_full(chosen: int | None, full: int) -> None:
    line = replace(timeline(StepSize.TOUR), full_row=chosen)
    places = [PlaybackPosition("weights", row) for row in range(6)]
    assert {line.described_position(place) for place in places} == {places[full]}
    times = [line.step_duration_ms(line.step_index(place)) for place in places]
    assert max(times) == times[full]
    place = PlaybackPosition("weights", 1)
    assert timeline(StepSize.ROW).described_position(place) == place
