"""The steps that an animation shows, and their durations."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.small_runs import a_run
from visualizer.errors import InputError
from visualizer.export.figure_settings import AnimationSettings
from visualizer.export.film_plan import (
    LAST_FRAME_EXTRA_MS,
    MOTION_FRAME_MS,
    AnimationPlan,
    plan_animation,
)
from visualizer.export.formats import FORMATS, FormatKind, unavailable_reason
from visualizer.heatmap.step_motion_paths import MAX_MOTION_SHARE, MAX_SLOWDOWN, MOTION_MS
from visualizer.heatmap.step_motion_phases import MotionKind, unpaused_motion_ms
from visualizer.optional_packages import missing_package_message
from visualizer.session.timeline import (
    PLAYBACK_SPEEDS,
    STEP_MS,
    TOUR_MS,
    PlaybackPosition,
    StepSize,
    Timeline,
)

RUN = a_run()
TRACE = RUN.trace


def places(film: AnimationPlan) -> list[PlaybackPosition]:
    """Return the playback position of each step."""
    return [frame.place for frame in film.frames if frame.motion_progress is None]


@pytest.mark.parametrize("grain", StepSize)
def test_the_whole_computation_is_every_step(grain: StepSize) -> None:
    film = plan_animation(TRACE, AnimationSettings(grain=grain))
    assert len(film.steps) == len(Timeline.from_trace(TRACE, grain))
    assert film.stages == TRACE.names


def test_a_span_begins_within_a_stage_and_ends_with_one() -> None:
    film = plan_animation(TRACE, AnimationSettings(span=(PlaybackPosition("masked", 4), "weights")))
    rows = [
        PlaybackPosition("masked", 4),
        PlaybackPosition("masked", 5),
        *(PlaybackPosition("weights", row) for row in range(6)),
    ]
    assert places(film) == rows
    assert film.stages == ("masked", "weights")


def test_a_span_that_the_run_has_not_is_the_nearest() -> None:
    film = plan_animation(
        TRACE, AnimationSettings(span=(PlaybackPosition("dropped", 9), "dropped"))
    )
    assert places(film) == [PlaybackPosition("context", 0)]
    backwards = plan_animation(
        TRACE, AnimationSettings(span=(PlaybackPosition("weights", 2), "scores"))
    )
    assert places(backwards) == [PlaybackPosition("weights", 2)]


def test_beyond_the_last_stage_there_is_the_last_step() -> None:
    trace = a_run(output_projection=False).trace
    assert "output" not in trace.names
    film = plan_animation(trace, AnimationSettings(span=(PlaybackPosition("output", 3), "output")))
    assert places(film) == [
        Timeline.from_trace(trace, StepSize.ROW).position_of_step(len(film.timeline) - 1)
    ]


def test_planning_counts_the_steps_of_each_stage_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count, counted = Timeline.count_steps, list[str]()

    def note(line: Timeline, stage: str, rows: int, columns: int) -> int:
        counted.append(stage)
        return count(line, stage, rows, columns)

    monkeypatch.setattr(Timeline, "count_steps", note)
    assert len(plan_animation(TRACE, AnimationSettings(grain=StepSize.CELL))) > 100
    assert counted == [*TRACE.names]


def test_one_token_can_be_animated() -> None:
    run = a_run("one")
    film = plan_animation(run.trace, AnimationSettings())
    assert [place.stage for place in places(film)] == [*run.trace.names]


@given(
    grain=st.sampled_from([*STEP_MS]),
    speed=st.sampled_from(PLAYBACK_SPEEDS),
    unit=st.sampled_from([1, 10]),
    first=st.sampled_from(TRACE.names),
)
def test_roundings_do_not_add_up(grain: StepSize, speed: float, unit: int, first: str) -> None:
    settings = AnimationSettings(
        (PlaybackPosition(first), TRACE.names[-1]), grain, speed, has_motion=False
    )
    film = plan_animation(TRACE, settings)
    durations = film.frame_durations(unit)
    assert len(durations) == len(film.steps)
    assert min(durations) >= 1
    step = STEP_MS[grain] / speed
    assert abs(sum(durations) * unit - len(durations) * step - LAST_FRAME_EXTRA_MS) <= unit
    assert all(abs(duration * unit - step) <= unit for duration in durations[:-1])
    assert film.duration_seconds == pytest.approx(sum(durations) * unit / 1000, abs=unit / 1000)


def moves(film: AnimationPlan) -> bool:
    """Return whether an animation has frames in which inputs move."""
    return len(film) > len(film.steps)


@given(
    grain=st.sampled_from([*STEP_MS]),
    speed=st.sampled_from(PLAYBACK_SPEEDS),
    unit=st.sampled_from([1, 10]),
)
def test_a_motion_is_at_the_start_of_each_step_that_reads_and_takes_no_time_from_others(
    grain: StepSize, speed: float, unit: int
) -> None:
    settings = AnimationSettings(grain=grain, speed=speed, max_frames=100_000)
    bare, film = (
        plan_animation(TRACE, replace(settings, has_motion=False)),
        plan_animation(TRACE, settings),
    )
    step = STEP_MS[grain] / speed
    assert not moves(bare)
    assert moves(film) == (step >= MOTION_MS + MOTION_FRAME_MS)
    assert bare.steps == film.steps
    each = [[*frames] for _, frames in groupby(range(len(film)), key=film.position_of_frame)]
    assert len(each) == len(bare)
    durations = film.frame_durations(unit)
    assert min(durations) >= 1
    assert tuple(sum(durations[at] for at in frames) for frames in each) == bare.frame_durations(
        unit
    )
    for frames, place in zip(each, places(bare), strict=True):
        assert film.position_of_frame(frames[0]) == place
        progress = [film.frames[at].motion_progress for at in frames]
        shares = [share for share in progress[:-1] if share is not None]
        assert progress == [*shares, None]
        assert bool(shares) == (moves(film) and place.stage != "input")
        assert [0, *shares, 1] == sorted({0, *shares, 1})
        assert all(durations[at] * unit == MOTION_FRAME_MS for at in frames[:-1])


@pytest.mark.parametrize("stage", ["queries", "weights"])
def test_a_motion_lasts_as_long_as_in_the_window(stage: str) -> None:
    full_ms = unpaused_motion_ms(MotionKind.MOVE)
    span = (PlaybackPosition(stage), stage)
    film = plan_animation(TRACE, AnimationSettings(span, StepSize.STAGE))
    assert STEP_MS[StepSize.STAGE] > 2 * full_ms / MAX_MOTION_SHARE
    assert len(film) - 1 == MAX_SLOWDOWN * full_ms // MOTION_FRAME_MS


def test_motion_makes_no_animation_too_long_to_write() -> None:
    most = len(plan_animation(TRACE, AnimationSettings()))
    assert len(plan_animation(TRACE, AnimationSettings(max_frames=most))) == most
    assert not moves(plan_animation(TRACE, AnimationSettings(max_frames=most - 1)))


@pytest.mark.parametrize(
    ("grain", "way"),
    [(StepSize.CELL, "animate by row or by stage."), (StepSize.ROW, "animate by stage.")],
)
def test_too_long_an_animation_is_rejected_with_a_way_out(grain: StepSize, way: str) -> None:
    with pytest.raises(InputError) as refused:
        plan_animation(TRACE, AnimationSettings(grain=grain, max_frames=20))
    assert refused.value.field == "span"
    assert "at most 20 can be written" in refused.value.sentence
    assert refused.value.sentence.endswith(way)


def test_missing_content_of_a_format_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visualizer.export.formats.is_installed", lambda name: False)
    assert unavailable_reason(".mp4") == missing_package_message("av", "MP4")
    others = [each.suffix for each in FORMATS if each.suffix != ".mp4"]
    assert [unavailable_reason(suffix) for suffix in others] == len(others) * [""]
    assert {each.suffix for each in FORMATS if each.kind is FormatKind.FILM} > {".mp4", ".gif"}


def test_complete_files_have_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visualizer.export.formats.is_installed", lambda name: True)
    assert unavailable_reason(".mp4") == ""


@pytest.mark.parametrize("words", [1, 6, 64, 300])
def test_an_animation_with_default_settings_is_short_and_shows_every_stage(words: int) -> None:
    trace = a_run(" ".join(words * ["word"]), heads=1).trace
    film = plan_animation(trace, AnimationSettings())
    assert TOUR_MS / 1000 <= film.duration_seconds <= 30
    assert film.stages == trace.names
    assert {place.stage for place in places(film)} == {*trace.names}
    for unit in (1, 10):
        assert sum(film.frame_durations(unit)) * unit / 1000 == pytest.approx(
            film.duration_seconds, abs=0.1
        )
