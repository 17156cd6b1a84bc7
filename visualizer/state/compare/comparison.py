"""What is compared with what, and where the numbers of each side are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from visualizer.attention.derived import Lens
from visualizer.state.compare.samples import Tally, mean_of
from visualizer.state.view import Part
from visualizer.state.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.derived import Fold
    from visualizer.attention.held import Held
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.state.document import Document
    from visualizer.state.resolve import Resolved
    from visualizer.state.view import Cell


class Against(StrEnum):
    """With what the live picture is compared."""

    KEPT = "kept"
    HEAD = "head"
    SAMPLES = "samples"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison that was asked for.

    Parameters
    ----------
    kept, document : Run, Document or None
        A, and what it is of.
    heads : tuple of int
        A head, and the one that it is taken from.
    count : int
        Samples that are averaged.
    alone, before : frozenset of str
        The stages that it began with, and those to go back to.
    tally : Tally
        The samples that were drawn.
    made : WeakKeyDictionary
        What was worked out of a tensor that is live: it goes when that goes, or the comparison.
    """

    against: Against
    kept: Run | None = None
    document: Document | None = None
    heads: tuple[int, int] = (0, 1)
    count: int = 1
    alone: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    tally: Tally = field(default_factory=Tally, compare=False, repr=False)
    made: WeakKeyDictionary[Held, Held] = field(
        default_factory=WeakKeyDictionary, init=False, compare=False, repr=False
    )

    def of(self, live: Held, make: Callable[[], Held]) -> Held:
        """Give what was worked out of a live tensor before, or work it out now."""
        found = self.made.get(live)
        if found is None:
            found = self.made[live] = make()
        return found


def mismatch(kept: Run, run: Run, stage: Stage) -> str:
    """Say why a stage of A cannot be taken from that of B; empty where it can."""
    mine, yours = kept.trace, run.trace
    if mine.sides != yours.sides:
        return _other_sides(mine.sides, yours.sides)
    if len(kept.texts) != len(run.texts):
        return f"A has {counted(len(kept.texts), kept.part)} and B {len(run.texts):,}"
    if stage.name not in mine:
        return f"A has no {stage.title.lower()}"
    old, new = (trace.tensor(stage.name).shape for trace in (mine, yours))
    if old == new:
        return ""
    if "head" in stage.dims and old[-3] != new[-3]:
        return f"A has {counted(old[-3], 'head')} and B {new[-3]:,}"
    return f"A has {counted(old[-1], 'number')} a vector and B {new[-1]:,}"


def _other_sides(mine: tuple[int, int], yours: tuple[int, int]) -> str:
    if mine[0] == mine[1] and yours[0] == yours[1]:
        return f"A has {counted(mine[0], 'token')} and B {yours[0]:,}"
    return "A has {:,} × {:,} queries and keys and B {:,} × {:,}".format(*mine, *yours)


def change_of(resolved: Resolved, stage: str, fold: Fold | None) -> tuple[Held, tuple[int, ...]]:
    """Give a difference, and where in it the text that is looked at begins."""
    run, comparison, index = resolved.run, resolved.comparison, resolved.index
    assert comparison
    lens = _lens(resolved)
    live = run.trace.seen(stage, lens, fold)
    if comparison.against is Against.HEAD:
        return comparison.of(live, lambda: live.between_heads(*comparison.heads)), index
    if comparison.against is Against.SAMPLES:
        weights, mean = run.trace.holding("weights"), mean_held(run, comparison)
        return comparison.of(mean, lambda: mean.minus(weights)), index
    assert comparison.kept
    kept = comparison.kept.trace.seen(stage, lens, fold)
    return comparison.of(live, lambda: live.minus(kept)), index


def size_of(resolved: Resolved, stage: str, fold: Fold | None) -> float:
    """Give the largest of the numbers of either side: what its rounding loses is no change."""
    kept = resolved.comparison.kept if resolved.comparison else None
    runs = (kept, resolved.run) if kept else (resolved.run,)
    sides = [one.trace.seen(stage, _lens(resolved), fold).limits() for one in runs]
    return max(abs(end) for side in sides for end in side)


def mean_held(run: Run, comparison: Comparison) -> Held:
    """Give the mean of the samples."""
    # Of what one sample left, as other rates and seeds leave other weights than these.
    sample = run.trace.holding("dropped")
    return comparison.of(sample, lambda: mean_of(run, comparison.count, comparison.tally))


def held_of(resolved: Resolved, cell: Cell) -> tuple[Held, tuple[int, ...]]:
    """Give what a cell's number is read of, and where its rows begin there."""
    comparison, run, lens = resolved.comparison, resolved.run, resolved.view.lens
    whole = (*resolved.index, *cell.place[:-2])
    against = comparison.against if comparison else None
    if comparison and comparison.kept and cell.part is Part.A:
        return comparison.kept.trace.seen(cell.stage, lens, cell.fold), whole
    if comparison and against is Against.SAMPLES and cell.part is Part.MEAN:
        return mean_held(run, comparison), whole
    if comparison and cell.part is Part.CHANGE:
        held, start = change_of(resolved, cell.stage, cell.fold)
        return held, start if against is Against.HEAD else whole
    lens = _lens(resolved) if comparison else lens
    return run.trace.seen(cell.stage, lens, cell.fold), whole


def _lens(resolved: Resolved) -> Lens:
    """Give what weights are compared as: samples of dropout are of the weights as they are."""
    comparison = resolved.comparison
    is_sampled = comparison is not None and comparison.against is Against.SAMPLES
    return Lens.PLAIN if is_sampled else resolved.view.lens
