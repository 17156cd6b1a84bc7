"""Creates the loss plot of a run and of overlaid runs.

This module builds the lines, chooses the limits of the axes, reads all lines at a step, and
describes the plot for screen readers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.format import format_count, format_number
from visualizer.lab.loss_plot.model import (
    LOSS,
    STEP,
    AxisScale,
    LegendEntry,
    LossLine,
    LossLineRole,
    LossPlot,
    NonFiniteLoss,
    PlotAxis,
    choose_ticks,
)
from visualizer.lab.loss_plot.smoothing import SmoothedLosses, smooth_losses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.lab.loss_plot.model import PlotOptions, PlottedRunLosses, ReferenceLoss
    from visualizer.lab.training.loss_history import LossHistory


def present_plot(
    curves: Sequence[PlottedRunLosses],
    options: PlotOptions,
    references: Sequence[ReferenceLoss] = (),
    shown_step: int | None = None,
    stops: Sequence[int] = (),
    before: LossPlot | None = None,
) -> LossPlot:
    """Create the plot of several runs; the first run is the open one.

    Parameters
    ----------
    shown_step : int, optional
        The selected step.
    stops : sequence of int
        The steps of snapshots.
    before : LossPlot, optional
        An earlier plot; its smoothed losses are reused.
    """
    shown = [curve for curve in curves if len(curve.losses) or len(curve.losses.validation)]
    smoothed = tuple(_smooth_losses(curve.losses, options, before) for curve in shown)
    lines = tuple(_lines_in_paint_order(shown, smoothed, options))
    if not lines:
        return LossPlot()
    x = choose_step_axis(lines, options.steps)
    y, notices = choose_loss_axis(lines, references, options.losses)
    plot = LossPlot(
        lines=lines,
        reference_losses=tuple(references),
        keys=tuple(_legend_entries(shown, lines, options)),
        loss_gaps=tuple(_find_non_finite_losses(shown)),
        x=x,
        y=y,
        shown_step=shown_step,
        stops=np.array(stops, dtype=np.int64),
        message="",
        notices=notices,
        rates=(shown[0].losses.steps, shown[0].losses.rates),
        smoothed_losses=smoothed,
    )
    return replace(plot, description=describe_plot(plot))


def _smooth_losses(
    losses: LossHistory, options: PlotOptions, before: LossPlot | None
) -> SmoothedLosses:
    earlier = before.smoothed_losses if before else ()
    extended = (one for one in earlier if losses.is_extension_of(one.losses))
    return smooth_losses(losses, options.smoothing, next(extended, None))


def _lines_in_paint_order(
    curves: Sequence[PlottedRunLosses], smoothed: Sequence[SmoothedLosses], options: PlotOptions
) -> Iterator[LossLine]:
    """Yield the lines in painting order: first the faint ones, and last those of the first run."""
    all_lines = [
        line
        for curve, smooth_one in zip(curves, smoothed, strict=True)
        for line in _run_lines(curve, smooth_one, options, curve.name if len(curves) > 1 else "")
    ]
    for role in LossLineRole:
        yield from (line for line in reversed(all_lines) if line.role is role and len(line.steps))


def _run_lines(
    curve: PlottedRunLosses, smoothed: SmoothedLosses, options: PlotOptions, name: str
) -> Iterator[LossLine]:
    losses = curve.losses
    if options.smoothing:
        yield LossLine(name, LossLineRole.EACH, curve.colour, losses.steps, losses.training)
    yield LossLine(name, LossLineRole.TRAINING, curve.colour, losses.steps, smoothed.values)
    yield LossLine(
        name, LossLineRole.VALIDATION, curve.colour, losses.validation_steps, losses.validation
    )


def _legend_entries(
    curves: Sequence[PlottedRunLosses], lines: Sequence[LossLine], options: PlotOptions
) -> Iterator[LegendEntry]:
    roles = {line.role for line in lines}
    colour = curves[0].colour if len(curves) == 1 else None
    if colour is None:
        yield from (LegendEntry(curve.name, None, curve.colour) for curve in curves)
    for role in (LossLineRole.TRAINING, LossLineRole.EACH, LossLineRole.VALIDATION):
        if role in roles:
            span = round(1 / (1 - options.smoothing))
            is_average = role is LossLineRole.TRAINING and span > 1
            suffix = f" (smoothed over about {format_count(span, 'step')})" if is_average else ""
            yield LegendEntry(f"{role}{suffix}", role, colour)


def _find_non_finite_losses(curves: Sequence[PlottedRunLosses]) -> Iterator[NonFiniteLoss]:
    for curve in curves:
        is_number = np.isfinite(curve.losses.training)
        if not is_number.all():
            step = int(curve.losses.steps[np.argmin(is_number)])
            yield NonFiniteLoss(step, f"NaN or infinite at step {step:,}")


MAX_STEP_TICKS, MAX_LOSS_TICKS = 6, 6
"""Maximum numbers of ticks on the axes."""
AXIS_MARGIN_SHARE = 0.05
"""Margin above the highest loss and below the lowest one, as a fraction of the height."""
MAX_INITIAL_LOSS_RATIO = 3.0
"""Maximum end of a linear axis, as a multiple of the first losses; divergence would flatten the
rest.
"""

MAX_PLOTTED_LOSS = 1e100
"""Larger losses are drawn at the end of the axis; they do not occur in training with float32."""


def choose_step_axis(lines: Sequence[LossLine], scale: AxisScale) -> PlotAxis:
    """Choose the axis of the steps; if it is logarithmic, step 0 is drawn at 1."""
    high = max(float(line.steps[-1]) for line in lines)
    low, least = (1.0, 10.0) if scale is AxisScale.LOG else (0.0, 1.0)
    high = max(high, least)
    return PlotAxis(STEP, low, high, scale, choose_ticks(low, high, scale, MAX_STEP_TICKS, least=1))


def choose_loss_axis(
    lines: Sequence[LossLine], references: Sequence[ReferenceLoss], scale: AxisScale
) -> tuple[PlotAxis, tuple[str, ...]]:
    """Choose the axis of the losses, and return it with notices about losses outside its limits."""
    found = [_finite_range(line.values) for line in lines] + [
        (one.loss, one.loss) for one in references
    ]
    extents = [extent for extent in found if extent] or [(1.0, 1.0)]
    low, high = min(low for low, _ in extents), max(high for _, high in extents)
    notices: tuple[str, ...] = ()
    if scale is AxisScale.LOG:
        low = max(low if low > 0 else _lowest_positive_loss(lines), 1 / MAX_PLOTTED_LOSS)
        low, high = _with_margin(low, max(low, high), scale)
    else:
        most = MAX_INITIAL_LOSS_RATIO * _largest_usual_loss(lines, references)
        if high > most > max(0.0, low):
            notices = (f"Losses up to {format_number(high, 1)} are outside the plot.",)
            high = most
        low, high = _with_margin(low, high, scale)
    return PlotAxis(LOSS, low, high, scale, choose_ticks(low, high, scale, MAX_LOSS_TICKS)), notices


def _finite_range(values: np.ndarray) -> tuple[float, float] | None:
    """Return the smallest and the largest finite number, or None if there are none."""
    least, most = float(values.min()), float(values.max())
    if not math.isfinite(least + most):
        values = values[np.isfinite(values)]
        if not len(values):
            return None
        least, most = float(values.min()), float(values.max())
    return min(least, MAX_PLOTTED_LOSS), min(most, MAX_PLOTTED_LOSS)


def _lowest_positive_loss(lines: Sequence[LossLine]) -> float:
    """Return the smallest positive loss; a logarithmic axis begins there if some loss is 0."""
    above = (line.values[np.isfinite(line.values) & (line.values > 0)] for line in lines)
    return min((float(some.min()) for some in above if len(some)), default=1.0)


def _largest_usual_loss(lines: Sequence[LossLine], references: Sequence[ReferenceLoss]) -> float:
    """Return the largest first or reference loss; losses exceed it only if training diverges."""
    firsts = (float(line.values[np.argmax(np.isfinite(line.values))]) for line in lines)
    known = [first for first in firsts if math.isfinite(first)]
    return max(known + [reference.loss for reference in references], default=0.0)


def _with_margin(low: float, high: float, scale: AxisScale) -> tuple[float, float]:
    """Return the range with a margin at both ends, so that the limits differ."""
    if scale is AxisScale.LOG:
        margin = max((high / low) ** AXIS_MARGIN_SHARE, 1.02)
        return low / margin, high * margin
    margin = max(AXIS_MARGIN_SHARE * (high - low), 0.01 * abs(high), 1e-6)
    return max(0.0, low - margin) if low >= 0 else low - margin, high + margin


LOSS_DECIMALS = 3


class PlotReadoutRow(Struct, frozen=True):
    """The value of a line at a step.

    Parameters
    ----------
    colour : int or None
        The index of the line's colour; None for a value without a line.
    """

    title: str
    value: str
    colour: int | None


class PlotReadout(Struct, frozen=True):
    """The values of all lines at a step."""

    step: int
    rows: tuple[PlotReadoutRow, ...]

    @property
    def sentence(self) -> str:
        """The readout as a sentence."""
        values = ", ".join(f"{row.title} {row.value}" for row in self.rows)
        return f"Step {self.step:,}: {values}."


def read_values_at_step(plot: LossPlot, step: float) -> PlotReadout:
    """Return the value of every line at its nearest step; if this step differs, name it."""
    at = round(min(max(step, plot.x.low), plot.x.high))
    is_one_run = len({line.name for line in plot.lines}) == 1
    shown = [
        line for line in reversed(plot.lines) if is_one_run or line.role is not LossLineRole.EACH
    ]
    rows = [PlotReadoutRow(line.title, _format_value(line, at), line.colour) for line in shown]
    if is_one_run and plot.rates and len(plot.rates[0]):
        steps, rates = plot.rates
        rows.append(
            PlotReadoutRow("learning rate", f"{rates[nearest_step_index(steps, at)]:.3g}", None)
        )
    return PlotReadout(at, tuple(rows))


def nearest_step_index(steps: np.ndarray, step: float) -> int:
    """Return the index of the nearest step; the steps must be ascending."""
    after = int(np.searchsorted(steps, step))
    if after == len(steps) or (after and step - steps[after - 1] <= steps[after] - step):
        after -= 1
    return after


def _format_value(line: LossLine, step: int) -> str:
    at = nearest_step_index(line.steps, step)
    value, there = format_number(float(line.values[at]), LOSS_DECIMALS), int(line.steps[at])
    return value if there == step else f"{value} (step {there:,})"


def _index_of_lowest(values: np.ndarray) -> int | None:
    """Return the index of the smallest finite number, or None if there is none."""
    least = values.min()  # NaN if any value is NaN
    if not np.isfinite(least):
        least = np.where(np.isfinite(values), values, np.inf).min()
    # `argmin` is avoided: it copies arrays that are read-only.
    return int((values == least).argmax()) if np.isfinite(least) else None


def describe_plot(plot: LossPlot) -> str:
    """Describe the plot: the current and lowest losses, and how they compare to the references."""
    step = plot.last_step if plot.shown_step is None else plot.shown_step
    sentences = [read_values_at_step(plot, step).sentence]
    first = [line for line in plot.lines if line.name == plot.lines[-1].name]
    lowest = (
        (line, at) for line in reversed(first) if (at := _index_of_lowest(line.values)) is not None
    )
    judged, at = next(lowest, (None, 0))
    if judged:
        least = format_number(float(judged.values[at]), LOSS_DECIMALS)
        sentences.append(f"Lowest {judged.title}: {least} at step {int(judged.steps[at]):,}.")
        sentences += [
            f"{'Below' if judged.values[at] < one.loss else 'Not below'} {one.name}, "
            f"{format_number(one.loss, LOSS_DECIMALS)}."
            for one in plot.reference_losses
        ]
    sentences += [f"The loss is {each.description}." for each in plot.loss_gaps]
    return " ".join([*sentences, *plot.notices])
