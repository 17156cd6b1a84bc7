"""Settings of a film of the computation, and its plan: which steps it shows, and how long each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from visualizer.errors import InputError
from visualizer.number_format import format_count
from visualizer.session.timeline import STEPS_PER_SECOND, Grain, Place, Timeline

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace

HELD_MS = 2000
"""How much longer the last frame stays, to look at the result before the film repeats."""
WIDTHS = (640, 960, 1280, 1920)


class FilmPanels(StrEnum):
    """The panels of a frame: those that the step computes and reads, or all stages."""

    STEP = "step"
    SPAN = "span"


@dataclass(frozen=True, slots=True)
class FilmSettings:
    """The settings of a film of the computation.

    Parameters
    ----------
    span : tuple of (Place, str) or None
        The first step and the last stage; None for the whole computation.
    speed : float
        Factor of the normal playback speed.
    loops : bool
        Whether it repeats, in formats that support it.
    width : int
        The width in pixels.
    most_frames : int
        A film with more steps is refused.
    """

    span: tuple[Place, str] | None = None
    grain: Grain = Grain.ROW
    speed: float = 1.0
    loops: bool = True
    panels: FilmPanels = FilmPanels.STEP
    width: int = 1280
    most_frames: int = 5000


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


def film_of(trace: Trace, look: FilmSettings) -> FilmPlan:
    """Return the steps of a film; a range that the run lacks becomes the nearest one.

    Raises
    ------
    InputError
        When there are more steps than a film may have.
    """
    timeline = Timeline.of(trace, look.grain)
    first, last = 0, len(timeline) - 1
    if look.span:
        first = min(timeline.position(look.span[0]), last)
        last = max(first, timeline.last(look.span[1]))
    count = last + 1 - first
    if count > look.most_frames:
        coarser = "by row or by stage" if look.grain is Grain.CELL else "by stage"
        sentence = (
            f"A film of {format_count(count, 'step')} is longer than the {look.most_frames:,} that "
            f"can be written. Choose fewer stages, or go {coarser}."
        )
        raise InputError("export", sentence)
    ms = 1000 / (look.speed * STEPS_PER_SECOND[look.grain])
    return FilmPlan(timeline, range(first, last + 1), ms)
