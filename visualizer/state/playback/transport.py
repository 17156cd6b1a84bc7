"""The transport: where playback stands, what its step says, and what can be done next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from visualizer.state.cursor import largest_near
from visualizer.state.extent import look_of
from visualizer.state.playback.equation import Equation, equation
from visualizer.state.playback.guess import instruction, judge
from visualizer.state.playback.lights import Lights, asked_of, covered_by, lit, reaches, standing
from visualizer.state.playback.narration import narrate
from visualizer.state.playback.timeline import Grain, Place, Playhead, Timeline, leading
from visualizer.state.view import Cell, Question

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.state.view import Guess, View
    from visualizer.state.zoom import Zoom


@dataclass(frozen=True, slots=True)
class Stop:
    """A stage on the track.

    Parameters
    ----------
    start : int
        The number of its first step.
    """

    stage: str
    title: str
    start: int


@dataclass(frozen=True, slots=True)
class Transport:
    """All that the bar of playback shows.

    Parameters
    ----------
    position : int
        The number of the present step; that of all steps at the end.
    caption : str
        What happens, in one sentence (HTML); empty where nothing is played.
    question : Question or None
        What is being predicted.
    """

    position: int = 0
    count: int = 0
    stops: tuple[Stop, ...] = ()
    playhead: Playhead = field(default_factory=Playhead)
    where: str = ""
    caption: str = ""
    equation: Equation | None = None
    question: Question | None = None
    is_revealed: bool = False


Room = tuple[int, "Zoom | None"]
Asked = tuple["Run", int, Room, int, Playhead, "Guess | None"]


@dataclass(frozen=True, slots=True)
class Stand:
    """Where playback stands: the lights over the panels, and the bar.

    Parameters
    ----------
    asked : Asked or None
        What it was made of.
    """

    lights: Lights = field(default_factory=Lights)
    transport: Transport = field(default_factory=Transport)
    asked: Asked | None = None

    @property
    def cell(self) -> Cell | None:
        """The cell that is told of while nothing is pointed at."""
        return self.lights.leading


def present_stand(run: Run, view: View, previous: Stand) -> Stand:
    """Show where playback stands in a run; the very same as before where nothing moved."""
    head = (view.pinned and view.pinned.head) or 0
    head = min(head, run.trace.spec.heads - 1)
    room = (view.room, view.zoom)
    asked = (run, run.nearest(view.text), room, head, view.playhead, asked_of(run, view))
    return previous if previous.asked == asked else replace(_stand(run, view, head), asked=asked)


def _stand(run: Run, view: View, head: int) -> Stand:
    guess, place = asked_of(run, view), standing(run, view)
    timeline = Timeline.of(run.trace, view.playhead.grain)
    stops = tuple(
        Stop(stage.name, stage.title, start)
        for stage, start in zip(run.trace.stages, timeline.starts, strict=False)
    )
    shown = Place(guess.stage) if guess else place
    common = (timeline.position(shown), len(timeline), stops, view.playhead)
    if guess:
        return _predicting(run, view, guess, common)
    if place is None:
        return Stand(Lights(), Transport(*common))
    return _playing(run, view, timeline, place, head, common)


Common = tuple[int, int, tuple[Stop, ...], Playhead]


def _predicting(run: Run, view: View, guess: Guess, common: Common) -> Stand:
    if guess.is_revealed:
        guess = _as_drawn(run, view, guess)
    verdict = judge(run, view.text, guess) if guess.is_revealed else None
    said = verdict.sentence if verdict else instruction(run, guess)
    covered = covered_by(run, guess)
    lights = Lights(covered=covered, marks=guess.marks, verdict=verdict)
    transport = Transport(
        *common, caption=said, question=guess.question, is_revealed=guess.is_revealed
    )
    return Stand(lights, transport)


def _as_drawn(run: Run, view: View, guess: Guess) -> Guess:
    """Take the marks for what is drawn where they are: of a block, its largest cell."""
    blocks = look_of(run.trace, run.trace.stage(guess.stage), view).blocks
    if blocks == (1, 1):
        return guess
    marks = (largest_near(run, view, mark, blocks) for mark in guess.marks)
    return replace(guess, marks=tuple(dict.fromkeys(marks)))


def _playing(
    run: Run, view: View, timeline: Timeline, place: Place, head: int, common: Common
) -> Stand:
    step = timeline.step(place)
    transport = Transport(
        *common,
        where=_where(run, timeline, place),
        caption=narrate(run, view.text, step, head),
        equation=equation(run, view.text, step, head),
    )
    cell = Cell(step.stage, leading(run, view.text, step, head))
    lights = Lights(reaches(timeline, place), lit(run, view.text, step), cell)
    return Stand(lights, transport)


def _where(run: Run, timeline: Timeline, place: Place) -> str:
    title = run.trace.stage(place.stage).title
    rows, columns = next(size[1:] for size in timeline.sizes if size[0] == place.stage)
    if timeline.grain is Grain.STAGE:
        return f"{title}, whole"
    row = f"{title}, row {place.row + 1:,} of {rows:,}"
    column = f", column {place.column + 1:,} of {columns:,}"
    return row + column * (timeline.grain is Grain.CELL)
