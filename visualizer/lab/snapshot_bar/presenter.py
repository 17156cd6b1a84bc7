"""Presents the snapshot bar, a logarithmic axis of saved steps that ends at the current step.

Models learn most in the first steps, which would occupy only a few pixels on a linear axis.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.format import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.lab.training.loss_history import MeasuredLoss

LOSS_DECIMALS = 3


class SnapshotTimeline(Struct, frozen=True, dict=True):
    """The training steps that can be selected, and the selected one.

    Parameters
    ----------
    stops : tuple of int or None
        The steps that can be selected, in order; the last one is None, for the current model.
    current_step : int
        Number of completed steps.
    index : int
        Index of the selected stop.
    description : str
        Description of the selected step and its losses.
    is_waiting : bool
        Whether the result of the selected step is pending.
    """

    stops: tuple[int | None, ...] = (None,)
    current_step: int = 0
    index: int = 0
    description: str = ""
    is_waiting: bool = False

    @property
    def selected_step(self) -> int | None:
        """The selected step; None for the current model."""
        return self.stops[self.index]

    @property
    def is_current_model(self) -> bool:
        """Whether the current model is selected."""
        return self.index == len(self.stops) - 1

    def share_of_step(self, step: int | None) -> float:
        """Return the position of a step on the axis, from 0 to 1."""
        if step is None or self.current_step == 0:
            return 1.0
        return min(1.0, math.log1p(step) / math.log1p(self.current_step))

    @cached_property
    def stop_shares(self) -> tuple[float, ...]:
        """The positions of the stops on the axis, from 0 to 1."""
        return tuple(map(self.share_of_step, self.stops))

    def nearest_index(self, share: float) -> int:
        """Return the index of the stop that is nearest to a position on the axis."""
        after = min(bisect_left(self.stop_shares, share), len(self.stops) - 1)
        before = max(0, after - 1)
        is_nearer = share - self.stop_shares[before] < self.stop_shares[after] - share
        return before if is_nearer else after

    def index_at_distance(self, by: int) -> int:
        """Return the index of the stop at a distance from the selected one, clamped to the ends."""
        return min(max(self.index + by, 0), len(self.stops) - 1)

    @property
    def ticks(self) -> tuple[tuple[int, float], ...]:
        """The ticks of the axis, which are 0 and powers of ten, with their positions."""
        powers = (10**power for power in range(len(str(self.current_step))))
        steps = (step for step in powers if step < self.current_step)
        return ((0, 0.0), *((step, self.share_of_step(step)) for step in steps))


def present_snapshots(
    snapshots: Iterable[int],
    now: int,
    selected: int | None,
    training: MeasuredLoss | None = None,
    validation: MeasuredLoss | None = None,
    is_waiting: bool = False,
    reference: int | None = None,
    *,
    is_recorded: bool = False,
) -> SnapshotTimeline:
    """Present the snapshot bar.

    Parameters
    ----------
    snapshots : iterable of int
        The steps of saved snapshots.
    selected : int or None
        The selected step, or the nearest one if it is no longer saved; None for the current model.
    training, validation : MeasuredLoss or None
        The losses at the selected step, or the last losses before it; None if unknown.
    is_waiting : bool
        Whether the result of the selected step is pending.
    reference : int or None
        The step with which the selected one is compared, if any.
    is_recorded : bool
        Whether the run was recorded; its model may have been trained before.
    """
    stops = (*sorted({step for step in snapshots if step < now or step == selected}), None)
    at = len(stops) - 1
    if selected is not None and len(stops) > 1:
        saved_steps = [step for step in stops if step is not None]
        at = min(range(len(saved_steps)), key=lambda place: abs(saved_steps[place] - selected))
    description = _describe_stop(stops[at], now, training, validation, is_recorded)
    if reference is not None:
        description = f"Change since step {reference:,}. {description}"
    return SnapshotTimeline(stops, now, at, description, is_waiting)


def _describe_stop(
    selected: int | None,
    now: int,
    training: MeasuredLoss | None,
    validation: MeasuredLoss | None,
    is_recorded: bool,
) -> str:
    when = f"Current model, step {now:,}" if selected is None else f"Step {selected:,} of {now:,}"
    step = now if selected is None else selected
    if step == 0:
        when += " (before training)" if is_recorded else " (untrained)"
    losses = []
    if training:  # after n steps, the last batch was that of step n − 1, counted from 0
        losses.append(_format_loss("training", training, {step, step - 1}))
    if validation:
        losses.append(_format_loss("validation", validation, {step}))
    return ": ".join(filter(None, (when, ", ".join(losses))))


def _format_loss(name: str, measured: MeasuredLoss, here: set[int]) -> str:
    """Format a loss, with its step if this is not the selected step."""
    text = f"{name} loss {format_number(measured.loss, LOSS_DECIMALS)}"
    return text if measured.step in here else f"{text} at step {measured.step:,}"
