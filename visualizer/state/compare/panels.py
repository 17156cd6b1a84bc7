"""The panels of a comparison: either side, the mean of samples, and what has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.derived import Lens
from visualizer.attention.masks import Masking
from visualizer.attention.stages import is_hatched
from visualizer.state.colouring import ROUNDING, SHORT, Limits, change_colour
from visualizer.state.compare.comparison import Against, change_of, mean_held, size_of
from visualizer.state.compare.words import largest_change, signed
from visualizer.state.panel import Panel, forbidden_by
from visualizer.state.view import Part

if TYPE_CHECKING:
    from visualizer.attention.derived import Fold
    from visualizer.attention.held import Held
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.state.colouring import Colour
    from visualizer.state.compare.comparison import Comparison
    from visualizer.state.resolve import Resolved

LETTERS = {Part.A: "A", Part.B: "B"}
Whose = tuple["int | None", "Fold | None"]


class SidePanel(Panel):
    """A or B, in the colours that both have.

    Parameters
    ----------
    resolved : Resolved
        Of the run whose panel it is.
    other : Run or None
        The one that it can be compared with; without one it stands for itself.
    live : Run
        Whose lengths and rates decide the ends of the colours.
    """

    def __init__(
        self, resolved: Resolved, stage: Stage, whose: Whose, part: Part, other: Run | None
    ) -> None:
        super().__init__(resolved, stage, *whose)
        self.part, self.title = part, f"{stage.title} {LETTERS[part]}"
        self.is_alone = other is None and part is Part.A
        self.live = other if other and part is Part.A else self.run
        if other:
            self.beside = (other.trace.seen(stage.name, self.wanted_lens, self.by),)

    def _colour(self) -> Colour:
        return self._colour_beside(self.live.trace)


class HeadPanel(Panel):
    """A head beside another one, in the colours that both have."""

    def __init__(self, resolved: Resolved, stage: Stage, head: int, other: int) -> None:
        super().__init__(resolved, stage, head, None)
        self.title = f"{stage.title}, head {head + 1}"
        self.kin = _kin(stage, head, (other,))
        self.other = (*resolved.index, other)

    def _label(self) -> str:
        return ""

    def _ends(self) -> np.ndarray:
        return np.asarray(np.maximum(super()._ends(), self.held.row_ends(self.other)))


class SamplePanel(Panel):
    """What dropout is drawn over, or what a sample of it left."""

    def __init__(
        self, resolved: Resolved, stage: Stage, head: int, comparison: Comparison, title: str
    ) -> None:
        super().__init__(resolved, stage, head, None, lens=Lens.PLAIN)
        run, mean = self.run, mean_held(self.run, comparison)
        names = ("weights", "dropped")
        self.title = title
        self.beside = (*(run.trace.holding(name) for name in names), mean)
        self.kin = _kin(stage, head, tuple(map(run.trace.stage, names)))

    def _sums(self) -> np.ndarray | None:
        return None  # four panels side by side have no room for them


class MeanPanel(SamplePanel):
    """The mean of some samples of dropout."""

    part = Part.MEAN

    def __init__(
        self, resolved: Resolved, stage: Stage, head: int, comparison: Comparison, title: str
    ) -> None:
        super().__init__(resolved, stage, head, comparison, title)
        self.held = mean_held(self.run, comparison)

    def _before(self) -> Held | None:
        return None


class ChangePanel(Panel):
    """A difference, around 0."""

    part = Part.CHANGE

    def __init__(
        self, resolved: Resolved, stage: Stage, whose: Whose, comparison: Comparison, title: str
    ) -> None:
        is_sampled = comparison.against is Against.SAMPLES
        super().__init__(resolved, stage, *whose, lens=Lens.PLAIN if is_sampled else None)
        self.comparison, self.title = comparison, title
        self.size = size_of(resolved, stage.name, self.by)
        self.held, before = change_of(resolved, stage.name, self.by)
        if comparison.against is Against.HEAD:
            self.index = before
            self.whole = (*before, *self.look.cells)
            self.kin = _kin(stage, self.head, comparison.heads)
        elif is_sampled:
            self.kin = _kin(stage, self.head, (self.trace.stage("weights"),))

    def _before(self) -> Held | None:
        return None

    def _sums(self) -> np.ndarray | None:
        return None

    def _label(self) -> str:
        return "" if self.comparison.against is Against.HEAD else super()._label()

    def _colour(self) -> Colour:
        chosen, is_long = self.chosen, self.trace.tokens > SHORT
        if chosen.limits is Limits.AUTO and self.stage.is_weights and is_long:
            chosen = replace(chosen, limits=Limits.ROW)  # as the weights beside it
        return change_colour(self.held, chosen, self.size, self._largest())

    def _ends(self) -> np.ndarray:
        return np.asarray(np.maximum(super()._ends(), ROUNDING * self.size))

    def _masks(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Say which drawn cells A forbids, and which B does; None where the two are alike."""
        kept, name = self.comparison.kept, self.stage.name
        specs = [run.trace.spec for run in (kept, self.run) if run]
        if kept is None or not any(is_hatched(spec, name) for spec in specs):
            return None
        made = [Masking.of(spec, name) for spec in specs]
        tokens, blocks = self.trace.tokens, self.look.blocks
        mine, yours = (
            forbidden_by(one, tokens, self.text, *blocks)[self.look.cells] for one in made
        )
        return mine, yours

    def _hatch(self) -> Masking | None:
        """Give what forbids in both; what differs is found cell by cell."""
        own = Masking.of(self.spec, self.stage.name) if self._masks() else None
        return super()._hatch() or own

    def _forbidden(self, hatch: Masking) -> np.ndarray:
        masks = self._masks()
        return super()._forbidden(hatch) if masks is None else masks[0] & masks[1]

    def _uneven(self) -> np.ndarray | None:
        masks = self._masks()
        uneven = None if masks is None else masks[0] ^ masks[1]
        return uneven if uneven is not None and uneven.any() else None

    def _hidden(self) -> np.ndarray | None:
        """Leave out what is no difference: −∞ has none."""
        hidden, uneven = super()._hidden(), self._uneven()
        return uneven if uneven is not None and not self.stage.is_weights else hidden

    def _notes(
        self, colour: Colour, values: np.ndarray, marks: tuple[np.ndarray | None, ...]
    ) -> tuple[str, ...]:
        change = largest_change(self.held, self.index, self.size)
        notes = [f"largest: {signed(change.value)}" if change else "no difference"]
        masks = self._masks()
        if masks:
            mine, yours = masks
            notes += ["light hatch: A forbids it"] * bool((mine & ~yours).any())
            notes += ["light hatch: B forbids it"] * bool((yours & ~mine).any())
        return (*notes, *super()._notes(colour, values, marks))

    def _unit(self) -> str:
        return "change"


def _kin(
    stage: Stage, head: int | None, others: tuple[Stage | int, ...]
) -> frozenset[tuple[str, int | None, Fold | None]]:
    """Name those whose cells light up, too: the same head of other stages, or other heads."""
    return frozenset(
        (stage.name, other, None) if isinstance(other, int) else (other.name, head, None)
        for other in others
    )
