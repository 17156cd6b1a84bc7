"""The snapshot bar as a value: the kept steps on a logarithmic axis, with the present at its end.

Most is learned early: on a linear axis of steps, it would be in the first pixels.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.number_format import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.lab.training.recorded_losses import Measured

DECIMALS = 3


class SnapshotTimeline(Struct, frozen=True, dict=True):
    """The selectable steps of training, and the selected one.

    Parameters
    ----------
    stops : tuple of int or None
        Selectable steps in order; the last is None, the present.
    now : int
        The number of steps done.
    at : int
        The index of the selected stop.
    said : str
        The step and its losses in words.
    is_waiting : bool
        Whether the selected step's reading is pending.
    """

    stops: tuple[int | None, ...] = (None,)
    now: int = 0
    at: int = 0
    said: str = ""
    is_waiting: bool = False

    @property
    def looked(self) -> int | None:
        """The selected step; None for the present."""
        return self.stops[self.at]

    @property
    def is_last(self) -> bool:
        """Whether the present is selected."""
        return self.at == len(self.stops) - 1

    def share(self, step: int | None) -> float:
        """Return a step's position on the axis, from 0 to 1."""
        if step is None or self.now == 0:
            return 1.0
        return min(1.0, math.log1p(step) / math.log1p(self.now))

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Each stop's position on the axis, from 0 to 1."""
        return tuple(map(self.share, self.stops))

    def nearest(self, share: float) -> int:
        """Return the index of the stop nearest to a position on the axis."""
        after = min(bisect_left(self.shares, share), len(self.stops) - 1)
        before = max(0, after - 1)
        is_nearer = share - self.shares[before] < self.shares[after] - share
        return before if is_nearer else after

    def beside(self, by: int) -> int:
        """Return the index of the stop this many further on, clipped at the ends."""
        return min(max(self.at + by, 0), len(self.stops) - 1)

    @property
    def ticks(self) -> tuple[tuple[int, float], ...]:
        """The ticks of the axis, powers of ten, with their positions."""
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
    """Present the snapshot bar.

    Parameters
    ----------
    snapshots : iterable of int
        The steps of kept snapshots.
    looked : int or None
        The selected step; the nearest if it is no longer kept; None for the present.
    training, validation : Measured or None
        The losses at that step, or the last before it, where they are known.
    is_waiting : bool
        Whether the selected step's reading is pending.
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
    if step == 0:
        when += " (untrained)"
    losses = []
    if training:  # after n steps, the last batch was step n − 1, counted from 0
        losses.append(_written("training", training, {step, step - 1}))
    if validation:
        losses.append(_written("validation", validation, {step}))
    return ": ".join(filter(None, (when, ", ".join(losses))))


def _written(name: str, measured: Measured, here: set[int]) -> str:
    """Format a loss, with its step if that is another."""
    said = f"{name} loss {format_number(measured.loss, DECIMALS)}"
    return said if measured.step in here else f"{said} at step {measured.step:,}"
