"""Plan of an animation: its steps and the duration of each frame."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.errors import InputError
from visualizer.format import format_count
from visualizer.heatmap.step_motion_paths import MOTION_MS, motion_duration_ms
from visualizer.heatmap.step_motion_phases import MOTION_KINDS, MotionKind
from visualizer.session.timeline import PlaybackPosition, StepSize, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.attention.trace import Trace
    from visualizer.export.figure_settings import AnimationSettings, FigureSettings

LAST_FRAME_EXTRA_MS = 2000
"""Extra duration of the last frame, in ms, to show the result before the animation repeats."""
MOTION_FRAME_MS = 40
"""Duration of a motion frame, in ms; a multiple of the time unit of every format."""

LONG_TEXT_ERROR = (
    "Animations require complete matrices, which are not available for long texts. Use "
    "a shorter text, or export images of parts of the text."
)


class PlannedFrame(Struct, frozen=True):
    """Frame of an animation.

    Parameters
    ----------
    place : PlaybackPosition
        The playback position of the frame's step.
    motion_progress : float or None
        Progress of the step's motion, from 0 to 1; None for the last frame of a step, which shows
        the result.
    """

    place: PlaybackPosition
    motion_progress: float | None = None


class AnimationPlan(Struct, frozen=True):
    """Steps of an animation; each has a final frame after its motion frames.

    Parameters
    ----------
    steps : tuple of int
        Indices of the steps in the timeline.
    speed : float
        Multiple of the normal playback speed.
    frames : tuple of PlannedFrame
        The frames, in display order.
    """

    timeline: Timeline
    steps: tuple[int, ...]
    speed: float
    frames: tuple[PlannedFrame, ...]

    def __len__(self) -> int:
        return len(self.frames)

    def position_of_frame(self, frame: int) -> PlaybackPosition:
        """Return the playback position of a frame."""
        return self.frames[frame].place

    def frames_at_position(self, place: PlaybackPosition) -> Iterator[PlannedFrame]:
        return (frame for frame in self.frames if frame.place == place)

    @property
    def stages(self) -> tuple[str, ...]:
        """The computed stages, in order."""
        first, last = self.position_of_frame(0).stage, self.position_of_frame(len(self) - 1).stage
        names = [name for name, _, _ in self.timeline.sizes]
        return tuple(names[names.index(first) : names.index(last) + 1])

    @property
    def duration_seconds(self) -> float:
        return (self.step_ends_ms[-1] + LAST_FRAME_EXTRA_MS) / 1000

    @property
    def step_ends_ms(self) -> tuple[float, ...]:
        """The end of each step, in ms from the start of the animation."""
        starts = [self.timeline.step_start_ms(step) for step in (*self.steps, self.steps[-1] + 1)]
        return tuple((end - starts[0]) / self.speed for end in starts[1:])

    def frame_durations(self, unit_ms: int = 1) -> tuple[int, ...]:
        """Return the duration of each frame in units of `unit_ms`."""
        steps = iter(round_step_durations(self.step_ends_ms, unit_ms))
        frame_durations, motion_units = [], 0
        for frame in self.frames:
            is_moving = frame.motion_progress is not None
            frame_durations.append(
                MOTION_FRAME_MS // unit_ms if is_moving else next(steps) - motion_units
            )
            motion_units = motion_units + frame_durations[-1] if is_moving else 0
        return tuple(frame_durations)


def round_step_durations(ends_ms: Sequence[float], unit_ms: int) -> tuple[int, ...]:
    """Return the duration of each step in units of `unit_ms`; rounding errors do not accumulate."""
    ends = [0, *(max(step, round(ms / unit_ms)) for step, ms in enumerate(ends_ms, 1))]
    steps = [after - before for before, after in pairwise(ends)]
    return (*steps[:-1], steps[-1] + LAST_FRAME_EXTRA_MS // unit_ms)


def rounding_note(settings: FigureSettings) -> str:
    """Return a note if the sides are rounded to even numbers of pixels; otherwise return ""."""
    width = settings.film.width
    height = round((settings.height or 0) * width / settings.width)
    even = [side + side % 2 for side in (width, height)]
    if [width, height] == even:
        return ""
    given, rounded = (
        f"{across:,} × {down:,} pixels" if down else f"{across:,} pixels"
        for across, down in ((width, height), even)
    )
    name = "size" if height else "width"
    requirement = "The width and height of an animation must be even"
    return f"{requirement}, so the {name} changes from {given} to {rounded}."


def plan_animation(
    trace: Trace, settings: AnimationSettings, full_row: int | None = None
) -> AnimationPlan:
    """Plan an animation; a range with stages that the run lacks is replaced with the nearest one.

    Steps that are too short have no motion; if the animation would be too long, no step has motion.

    Parameters
    ----------
    full_row : int or None
        The row that a tour shows in full; None for the middle row.

    Raises
    ------
    InputError
        If there are more steps than allowed, or the text is too long to keep its matrices in
        memory.
    """
    if trace.is_blockwise:
        raise InputError("export", LONG_TEXT_ERROR)
    timeline = Timeline.from_trace(trace, settings.grain, full_row)
    first, last = 0, len(timeline) - 1
    if settings.span:
        first = min(timeline.step_index(settings.span[0]), last)
        last = max(first, timeline.last_step_index(settings.span[1]))
    steps = _choose_shown_steps(timeline, range(first, last + 1), settings.speed)
    if len(steps) > settings.max_frames:
        coarser = {
            StepSize.CELL: ", or animate by row or by stage",
            StepSize.ROW: ", or animate by stage",
        }.get(settings.grain, "")
        sentence = (
            f"The animation has {format_count(len(steps), 'step')}, but at most "
            f"{settings.max_frames:,} can be written. Choose fewer stages{coarser}."
        )
        raise InputError("span", sentence)
    positions = [position for step in steps if (position := timeline.position_of_step(step))]
    plan = AnimationPlan(timeline, steps, settings.speed, tuple(map(PlannedFrame, positions)))
    if not settings.has_motion:
        return plan
    frames = tuple(
        PlannedFrame(position, share)
        for step, position in zip(steps, positions, strict=True)
        for share in (*_motion_progress(trace, timeline, step, position, settings.speed), None)
    )
    return replace(plan, frames=frames) if len(frames) <= settings.max_frames else plan


def _motion_progress(
    trace: Trace, timeline: Timeline, step: int, position: PlaybackPosition, speed: float
) -> tuple[float, ...]:
    """Return the progress of a step's motion in each motion frame, or () without motion."""
    stage, ms = trace.stage(position.stage), timeline.step_duration_ms(step) / speed
    is_computed = not {*trace.names}.isdisjoint(stage.reads)
    is_long = ms >= MOTION_MS + MOTION_FRAME_MS  # the last frame shows the result
    if not (is_computed and is_long and timeline.described_position(position) == position):
        return ()
    is_whole = timeline.grain is StepSize.STAGE  # its terms do not fit on a card
    kind = MotionKind.MOVE if is_whole else MOTION_KINDS.get(stage.operation, MotionKind.MOVE)
    count = motion_duration_ms(ms, kind) // MOTION_FRAME_MS
    return tuple((frame + 0.5) / count for frame in range(count))


def _choose_shown_steps(timeline: Timeline, steps: range, speed: float) -> tuple[int, ...]:
    """Return the steps to show; in a tour, skip those that would be shown for less than a frame."""
    if timeline.grain is not StepSize.TOUR:
        return tuple(steps)
    frame_ms = MOTION_FRAME_MS * speed
    shown, time, end = (
        [steps[0]],
        timeline.step_start_ms(steps[0]),
        timeline.step_start_ms(steps[-1]),
    )
    while (time := time + frame_ms) < end:
        if (position := timeline.step_index_at_time(time)) != shown[-1]:
            shown.append(position)
    return tuple(dict.fromkeys((*shown, steps[-1])))
