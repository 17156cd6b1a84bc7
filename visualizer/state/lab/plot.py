"""Makes the plot of losses: of one run, and of others laid over it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from visualizer.state.lab.plot_axes import losses_axis, steps_axis
from visualizer.state.lab.plot_reading import told
from visualizer.state.lab.plotted import Break, Key, Line, LossPlot, Role
from visualizer.state.lab.smoothing import Smoothed, smooth
from visualizer.state.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.state.lab.losses import Losses
    from visualizer.state.lab.plotted import Curve, PlotLook, Reference


def present_plot(
    curves: Sequence[Curve],
    look: PlotLook,
    references: Sequence[Reference] = (),
    stand: int | None = None,
    stops: Sequence[int] = (),
    before: LossPlot | None = None,
) -> LossPlot:
    """Make the plot of runs; the first is the one that all is about.

    Parameters
    ----------
    stand : int, optional
        The step that is looked at.
    stops : sequence of int
        The steps that can be looked at.
    before : LossPlot, optional
        An earlier plot: what it smoothed is not smoothed again.
    """
    shown = [curve for curve in curves if len(curve.losses) or len(curve.losses.validation)]
    smoothed = tuple(_smoothed(curve.losses, look, before) for curve in shown)
    lines = tuple(_lines(shown, smoothed, look))
    if not lines:
        return LossPlot()
    x, (y, notices) = steps_axis(lines, look.steps), losses_axis(lines, references, look.losses)
    plot = LossPlot(
        lines=lines,
        references=tuple(references),
        keys=tuple(_keys(shown, lines, look)),
        breaks=tuple(_breaks(shown)),
        x=x,
        y=y,
        stand=stand,
        stops=np.array(stops, dtype=np.int64),
        message="",
        notices=notices,
        rates=(shown[0].losses.steps, shown[0].losses.rates),
        smoothed=smoothed,
    )
    return replace(plot, told=told(plot))


def _smoothed(losses: Losses, look: PlotLook, before: LossPlot | None) -> Smoothed:
    known = (one for one in (before.smoothed if before else ()) if losses.continues(one.losses))
    return smooth(losses, look.smoothing, next(known, None))


def _lines(curves: Sequence[Curve], smoothed: Sequence[Smoothed], look: PlotLook) -> Iterator[Line]:
    """Give the lines as they are painted: faint ones below, the first run above the others."""
    made = [
        line
        for curve, smooth_one in zip(curves, smoothed, strict=True)
        for line in _of_run(curve, smooth_one, look, curve.name if len(curves) > 1 else "")
    ]
    for role in Role:
        yield from (line for line in reversed(made) if line.role is role and len(line.steps))


def _of_run(curve: Curve, smoothed: Smoothed, look: PlotLook, name: str) -> Iterator[Line]:
    losses = curve.losses
    if look.smoothing:
        yield Line(name, Role.EACH, curve.colour, losses.steps, losses.training)
    yield Line(name, Role.TRAINING, curve.colour, losses.steps, smoothed.values)
    yield Line(name, Role.VALIDATION, curve.colour, losses.validation_steps, losses.validation)


def _keys(curves: Sequence[Curve], lines: Sequence[Line], look: PlotLook) -> Iterator[Key]:
    roles = {line.role for line in lines}
    colour = curves[0].colour if len(curves) == 1 else None
    if colour is None:
        yield from (Key(curve.name, None, curve.colour) for curve in curves)
    for role in (Role.TRAINING, Role.EACH, Role.VALIDATION):
        if role in roles:
            span = round(1 / (1 - look.smoothing))
            is_average = role is Role.TRAINING and span > 1
            words = f"{role}, mean of about {counted(span, 'step')}" if is_average else str(role)
            yield Key(words, role, colour)


def _breaks(curves: Sequence[Curve]) -> Iterator[Break]:
    for curve in curves:
        is_number = np.isfinite(curve.losses.training)
        if not is_number.all():
            step = int(curve.losses.steps[np.argmin(is_number)])
            yield Break(step, curve.colour, f"no number at step {step:,}")
