"""The plot of losses in words: all lines at a step, and what a reader of the screen is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.state.lab.plotted import Role
from visualizer.state.words import number

if TYPE_CHECKING:
    from visualizer.state.lab.plotted import Line, LossPlot

DECIMALS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """What a line is at a step.

    Parameters
    ----------
    colour : int or None
        The line's; None for what is no line.
    """

    title: str
    value: str
    colour: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What all lines are at a step."""

    step: int
    rows: tuple[Row, ...]

    @property
    def said(self) -> str:
        """All of it in a sentence."""
        told = ", ".join(f"{row.title} {row.value}" for row in self.rows)
        return f"Step {self.step:,}: {told}."


def read_at(plot: LossPlot, step: float) -> Reading:
    """Read the nearest point of every line; one that is elsewhere says where."""
    at = round(min(max(step, plot.x.low), plot.x.high))
    is_one_run = len({line.name for line in plot.lines}) == 1
    shown = [line for line in reversed(plot.lines) if is_one_run or line.role is not Role.EACH]
    rows = [Row(line.title, _value(line, at), line.colour) for line in shown]
    if is_one_run and plot.rates and len(plot.rates[0]):
        steps, rates = plot.rates
        rows.append(Row("learning rate", f"{rates[nearest(steps, at)]:.3g}", None))
    return Reading(at, tuple(rows))


def nearest(steps: np.ndarray, step: float) -> int:
    """Find the place of the step that is nearest to one; steps rise."""
    after = int(np.searchsorted(steps, step))
    if after == len(steps) or (after and step - steps[after - 1] <= steps[after] - step):
        after -= 1
    return after


def _value(line: Line, step: int) -> str:
    at = nearest(line.steps, step)
    value, there = number(float(line.values[at]), DECIMALS), int(line.steps[at])
    return value if there == step else f"{value} (step {there:,})"


def _lowest(values: np.ndarray) -> int | None:
    """Find the least number; None where none is one."""
    at = int(values.argmin())  # a NaN, where there is one
    if not np.isfinite(values[at]):
        at = int(np.where(np.isfinite(values), values, np.inf).argmin())
    return at if np.isfinite(values[at]) else None


def told(plot: LossPlot) -> str:
    """Tell the plot: where it stands, the best so far, what of the losses to beat is beaten."""
    step = plot.last if plot.stand is None else plot.stand
    said = [read_at(plot, step).said]
    first = [line for line in plot.lines if line.name == plot.lines[-1].name]
    lowest = ((line, at) for line in reversed(first) if (at := _lowest(line.values)) is not None)
    judged, at = next(lowest, (None, 0))
    if judged:
        least = number(float(judged.values[at]), DECIMALS)
        said.append(f"Least {judged.title}: {least} at step {int(judged.steps[at]):,}.")
        said += [
            f"{'Below' if judged.values[at] < one.loss else 'Not below'} {one.name}, "
            f"{number(one.loss, DECIMALS)}."
            for one in plot.references
        ]
    said += [f"The loss is {each.words}." for each in plot.breaks]
    return " ".join([*said, *plot.notices])
