"""The plan of a film: which steps it shows, and how long each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from visualizer.errors import InputError
from visualizer.number_format import format_count
from visualizer.session.timeline import STEPS_PER_SECOND, Grain, Place, Timeline

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.film_settings import FilmSettings

HELD_MS = 2000
"""How much longer the last frame stays, to look at the result before the film repeats."""


@dataclass(frozen=True, slots=True)
class FilmPlan:
    """The steps of a film: a frame each.

    Parameters
    ----------
    steps : range
        Their indices on the timeline.
    ms : float
        How long a step is shown.
    """

    timeline: Timeline
    steps: range
    ms: float

    def place(self, frame: int) -> Place:
        """Return the playback position of a frame."""
        place = self.timeline.place(self.steps[frame])
        assert place, "a film ends before the end of all steps"
        return place

    @property
    def stages(self) -> tuple[str, ...]:
        """The computed stages, in order."""
        first, last = self.place(0).stage, self.place(len(self.steps) - 1).stage
        names = [name for name, _, _ in self.timeline.sizes]
        return tuple(names[names.index(first) : names.index(last) + 1])

    @property
    def seconds(self) -> float:
        return (len(self.steps) * self.ms + HELD_MS) / 1000

    def durations(self, unit_ms: int = 1) -> tuple[int, ...]:
        """Return how many time units each frame is shown."""
        return durations(len(self.steps), self.ms, unit_ms)


def durations(count: int, ms: float, unit_ms: int) -> tuple[int, ...]:
    """Return the time units of each frame, the last longer; rounding errors do not accumulate."""
    ends = [max(at, round(at * ms / unit_ms)) for at in range(count + 1)]
    seen = [after - before for before, after in pairwise(ends)]
    return (*seen[:-1], seen[-1] + HELD_MS // unit_ms)


def rounding_in_words(settings: FigureSettings) -> str:
    """Say that a film's size is rounded to even numbers of pixels; empty where it is even."""
    width = settings.film.width
    height = round((settings.height or 0) * width / settings.width)
    even = [side + side % 2 for side in (width, height)]
    if [width, height] == even:
        return ""
    wanted, becomes = (
        f"{across:,} × {down:,} pixels" if down else f"{across:,} pixels wide"
        for across, down in ((width, height), even)
    )
    return f"Films have even numbers of pixels, so {wanted} becomes {becomes}."


def film_plan_of(trace: Trace, settings: FilmSettings) -> FilmPlan:
    """Return the steps of a film; a range that the run lacks becomes the nearest one.

    Raises
    ------
    InputError
        When there are more steps than a film may have.
    """
    timeline = Timeline.of(trace, settings.grain)
    first, last = 0, len(timeline) - 1
    if settings.span:
        first = min(timeline.position(settings.span[0]), last)
        last = max(first, timeline.last(settings.span[1]))
    count = last + 1 - first
    if count > settings.most_frames:
        coarser = "by row or by stage" if settings.grain is Grain.CELL else "by stage"
        sentence = (
            f"A film of {format_count(count, 'step')} is longer than the {settings.most_frames:,} "
            f"that can be written. Choose fewer stages, or go {coarser}."
        )
        raise InputError("span", sentence)
    ms = 1000 / (settings.speed * STEPS_PER_SECOND[settings.grain])
    return FilmPlan(timeline, range(first, last + 1), ms)
