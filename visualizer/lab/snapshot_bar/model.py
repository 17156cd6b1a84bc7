"""The snapshot bar as a value: the kept steps on a logarithmic axis, with the present at its end.

Most is learned early: on a linear axis of steps, it would be in the first pixels.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from visualizer.number_format import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.lab.training.losses import Measured

DECIMALS = 3


@dataclass(frozen=True)
class SnapshotTimeline:
    """Where in training time one looks.

    Parameters
    ----------
    stops : tuple of int or None
        Steps that can be looked at, in order; the last is None: now.
    now : int
        How many steps are done.
    at : int
        Which of the stops is looked at.
    said : str
        The step and its losses in words.
    is_waiting : bool
        Whether what it was then is still on its way.
    """

    stops: tuple[int | None, ...] = (None,)
    now: int = 0
    at: int = 0
    said: str = ""
    is_waiting: bool = False

    @property
    def looked(self) -> int | None:
        """The step that is looked at; None for now."""
        return self.stops[self.at]

    @property
    def is_last(self) -> bool:
        """Whether one looks at what is now."""
        return self.at == len(self.stops) - 1

    def share(self, step: int | None) -> float:
        """Give where a step is on the axis, from 0 to 1."""
        if step is None or self.now == 0:
            return 1.0
        return min(1.0, math.log1p(step) / math.log1p(self.now))

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Where each stop is."""
        return tuple(map(self.share, self.stops))

    def nearest(self, share: float) -> int:
        """Give the number of the stop nearest to a place on the axis."""
        after = min(bisect_left(self.shares, share), len(self.stops) - 1)
        before = max(0, after - 1)
        is_nearer = share - self.shares[before] < self.shares[after] - share
        return before if is_nearer else after

    def beside(self, by: int) -> int:
        """Give the number of the stop so many further on; at an end, the last there is."""
        return min(max(self.at + by, 0), len(self.stops) - 1)

    @property
    def ticks(self) -> tuple[tuple[int, float], ...]:
        """Steps to be written under the axis, and where they are: powers of ten."""
        powers = (10**power for power in range(len(str(self.now))))
        return ((0, 0.0), *((step, self.share(step)) for step in powers if step < self.now))


def present_scrub(
    snapshots: Iterable[int],
    now: int,
    looked: int | None,
    training: Measured | None = None,
    validation: Measured | None = None,
    is_waiting: bool = False,
) -> SnapshotTimeline:
    """Show where in training time one looks.

    Parameters
    ----------
    snapshots : iterable of int
        Steps that were kept.
    looked : int or None
        Of a step that is not kept any more, the nearest is looked at; None for now.
    training, validation : Measured or None
        The losses at that step, or the last before it, where they are known.
    is_waiting : bool
        Whether what it was then is still on its way.
    """
    stops = (*sorted({step for step in snapshots if step < now or step == looked}), None)
    at = len(stops) - 1
    if looked is not None and len(stops) > 1:
        kept = [step for step in stops if step is not None]
        at = min(range(len(kept)), key=lambda place: abs(kept[place] - looked))
    said = _said(stops[at], now, training, validation)
    return SnapshotTimeline(stops, now, at, said, is_waiting)


def _said(
    looked: int | None, now: int, training: Measured | None, validation: Measured | None
) -> str:
    when = f"Now, step {now:,}" if looked is None else f"Step {looked:,} of {now:,}"
    step = now if looked is None else looked
    losses = []
    if training:  # of a model after n steps, the last batch was step n − 1, counted from 0
        losses.append(_written("training", training, {step, step - 1}))
    if validation:
        losses.append(_written("validation", validation, {step}))
    return ": ".join(filter(None, (when, ", ".join(losses))))


def _written(name: str, measured: Measured, here: set[int]) -> str:
    """Write a loss, with its step where that is another."""
    said = f"{name} loss {format_number(measured.loss, DECIMALS)}"
    return said if measured.step in here else f"{said} at step {measured.step:,}"
