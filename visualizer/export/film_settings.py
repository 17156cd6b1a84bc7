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
"""How much longer the last frame stays: what is computed is looked at, before it begins anew."""
WIDTHS = (640, 960, 1280, 1920)


class FilmPanels(StrEnum):
    """Which panels are seen: what each step computes and reads, or all stages all the time."""

    STEP = "step"
    SPAN = "span"


@dataclass(frozen=True, slots=True)
class FilmSettings:
    """What of the computation a film shows, and how fast.

    Parameters
    ----------
    span : tuple of (Place, str) or None
        Where it begins, and the stage after which it ends; None for the whole computation.
    speed : float
        Times the usual steps a second.
    loops : bool
        Whether it begins anew at its end, in formats that know of it.
    width : int
        How many pixels wide it is.
    most_frames : int
        A film of more steps is refused.
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
        Their numbers on the timeline.
    ms : float
        How long a step is seen.
    """

    timeline: Timeline
    steps: range
    ms: float

    def place(self, frame: int) -> Place:
        """Give where playback stands in a frame."""
        place = self.timeline.place(self.steps[frame])
        assert place, "a film ends before the end of all steps"
        return place

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that it computes, in order."""
        first, last = self.place(0).stage, self.place(len(self.steps) - 1).stage
        names = [name for name, _, _ in self.timeline.sizes]
        return tuple(names[names.index(first) : names.index(last) + 1])

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (len(self.steps) * self.ms + HELD_MS) / 1000

    def durations(self, unit_ms: int = 1) -> tuple[int, ...]:
        """Give how many units each frame is seen."""
        return durations(len(self.steps), self.ms, unit_ms)


def durations(count: int, ms: float, unit_ms: int = 1) -> tuple[int, ...]:
    """Give how many units each of some frames is seen, the last longer; roundings do not add up."""
    ends = [max(at, round(at * ms / unit_ms)) for at in range(count + 1)]
    seen = [after - before for before, after in pairwise(ends)]
    return (*seen[:-1], seen[-1] + HELD_MS // unit_ms)


def film_of(trace: Trace, look: FilmSettings) -> FilmPlan:
    """Find the steps of a film; a span that the run has not is the nearest that it has.

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
