"""What is computed, what lights up, what is covered: a function of where playback stands.

What a step reads is what the explanations of its cells name; nothing here knows of drawing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from visualizer.attention.explain import explain
from visualizer.state.playback.timeline import Grain, Place, Step, Timeline
from visualizer.state.view import existing

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import Trace
    from visualizer.state.playback.guess import Verdict
    from visualizer.state.view import Cell, Guess, View


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of a stage is computed: whole rows, and some columns of the next."""

    stage: str
    rows: int
    columns: int = 0


@dataclass(frozen=True, slots=True)
class Lit:
    """A block of cells that is computed now, or read for it.

    Parameters
    ----------
    head : int or None
        None for a stage without heads.
    """

    stage: str
    head: int | None
    rows: range
    columns: range
    is_made: bool


def reaches(timeline: Timeline, place: Place) -> tuple[Reach, ...]:
    """Say how far each stage is computed, the cells of this step included."""
    found, is_before = [], True
    for stage, rows, _ in timeline.sizes:
        if stage == place.stage:
            is_before = False
            found.append(_reach(timeline.grain, place, rows))
        else:
            found.append(Reach(stage, rows if is_before else 0))
    return tuple(found)


def _reach(grain: Grain, place: Place, rows: int) -> Reach:
    if grain is Grain.STAGE:
        return Reach(place.stage, rows)
    if grain is Grain.ROW:
        return Reach(place.stage, place.row + 1)
    return Reach(place.stage, place.row, place.column + 1)


def lit(run: Run, text: int, step: Step) -> tuple[Lit, ...]:
    """Light the cells of a step and all that they read, as their explanations name it.

    What a block of cells reads is a block: from where its first cell reads to where its last
    cell does.
    """
    trace, batch = run.trace, run.index(text)
    has_heads = "head" in trace.stage(step.stage).dims
    heads = range(trace.spec.heads) if has_heads else (None,)
    made = [Lit(step.stage, head, step.rows, step.columns, True) for head in heads]
    read: dict[Lit, None] = {}
    for head in heads:
        before = batch if head is None else (*batch, head)
        for found in _read_by(trace, step, before):
            read[found] = None
    return (*made, *read)


def read_for(run: Run, text: int, cell: Cell) -> tuple[Lit, ...]:
    """Light what one cell reads."""
    row, column = cell.place[-2:]
    step = Step(cell.stage, range(row, row + 1), range(column, column + 1))
    if cell.fold:
        heads = range(run.trace.spec.heads)
        return tuple(Lit(cell.stage, head, step.rows, step.columns, False) for head in heads)
    return tuple(_read_by(run.trace, step, (*run.index(text), *cell.place[:-2])))


def _read_by(trace: Trace, step: Step, before: tuple[int, ...]) -> list[Lit]:
    first = explain(trace, step.stage, (*before, step.rows[0], step.columns[0]))
    last = explain(trace, step.stage, (*before, step.rows[-1], step.columns[-1]))
    found = []
    for one, other in zip(first.groups, last.groups, strict=True):
        for low, high in zip(one.factors, other.factors, strict=True):
            if low.name in trace and low.name != step.stage:
                found += _between(trace, low.name, low.index, high.index)
    return found


def _between(
    trace: Trace, stage: str, low: tuple[int | None, ...], high: tuple[int | None, ...]
) -> list[Lit]:
    sizes = trace.tensor(stage).shape
    spans = [
        range(size) if start is None or end is None else range(start, end + 1)
        for start, end, size in zip(low, high, sizes, strict=True)
    ]
    rows, columns = spans[-2:]
    heads = spans[-3] if "head" in trace.stage(stage).dims else (None,)
    return [Lit(stage, head, rows, columns, False) for head in heads]


@dataclass(frozen=True, slots=True)
class Lights:
    """What lies over the panels.

    Parameters
    ----------
    reaches : tuple of Reach
        How far each stage is computed; empty where all is.
    leading : Cell or None
        The cell that the step's sentence is about.
    covered : frozenset of str
        Stages whose numbers are to be predicted, or would give them away.
    marks : tuple of Cell
        Cells that were marked as a prediction.
    verdict : Verdict or None
        What became of the marks.
    """

    reaches: tuple[Reach, ...] = ()
    lit: tuple[Lit, ...] = ()
    leading: Cell | None = None
    covered: frozenset[str] = frozenset()
    marks: tuple[Cell, ...] = ()
    verdict: Verdict | None = None

    def is_later(self, cell: Cell) -> bool:
        """Whether a cell is computed in a later step."""
        reach = next((reach for reach in self.reaches if reach.stage == cell.stage), None)
        if reach is None:
            return False
        row, column = cell.place[-2:]
        return row > reach.rows or (row == reach.rows and column >= reach.columns)


def standing(run: Run, view: View) -> Place | None:
    """Say where playback stands in this run; None at the end, or while something is predicted."""
    if view.playhead.place is None or asked_of(run, view):
        return None
    return Timeline.of(run.trace, view.playhead.grain).nearest(view.playhead.place)


def asked_of(run: Run, view: View) -> Guess | None:
    """Give what is being predicted, if this run has such a stage, and the marks that it has."""
    guess = view.guess
    if guess is None or guess.stage not in run.trace:
        return None
    return replace(guess, marks=tuple(mark for mark in guess.marks if existing(run, mark)))


def focus(run: Run, view: View) -> str | None:
    """Name the one stage that all is about, while it is played or predicted."""
    guess, place = asked_of(run, view), standing(run, view)
    return guess.stage if guess else place.stage if place else None


def covered_by(run: Run, guess: Guess) -> frozenset[str]:
    """Name the stages that a prediction covers: its own, and those that come of it."""
    names = run.trace.names
    return frozenset() if guess.is_revealed else frozenset(names[names.index(guess.stage) :])
