"""The content of the loss plot: lines, reference losses, gaps and legend."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from visualizer.lab.loss_plot.axis import AxisScale, PlotAxis

if TYPE_CHECKING:
    from visualizer.lab.loss_plot.smoothing import SmoothedLosses
    from visualizer.lab.training.recorded_losses import Losses

MESSAGE = "Losses appear here during training."
LOSS, STEP = "loss (nats per token)", "step"


class LossLineRole(StrEnum):
    """The role of a line: the losses that it shows."""

    EACH = "each step"
    TRAINING = "training"
    VALIDATION = "validation"


class LossCurve(Struct, frozen=True, eq=False):
    """The losses of a plotted run.

    Parameters
    ----------
    colour : int
        Index in the colour cycle.
    """

    name: str
    losses: Losses
    colour: int = 0


class ReferenceLoss(Struct, frozen=True):
    """A baseline loss, drawn as a horizontal line.

    Parameters
    ----------
    name : str
        Name of the baseline, such as "guessing by frequency".
    """

    name: str
    loss: float


class PlotOptions(Struct, frozen=True):
    """The options of the loss plot.

    Parameters
    ----------
    smoothing : float
        Strength of the exponential average, from 0 for none to below 1.
    """

    smoothing: float = 0.95
    losses: AxisScale = AxisScale.LINEAR
    steps: AxisScale = AxisScale.LINEAR


class LossLine(Struct, frozen=True, eq=False):
    """A line of the plot, with all its points.

    Parameters
    ----------
    name : str
        The run's name if there are several runs, otherwise empty.
    steps, values : ndarray
        [point]; steps ascend, values may contain NaN and ∞.
    """

    name: str
    role: LossLineRole
    colour: int
    steps: np.ndarray
    values: np.ndarray

    @property
    def title(self) -> str:
        """Name in the readout."""
        return f"{self.name}, {self.role}" if self.name else str(self.role)


class LegendKey(Struct, frozen=True):
    """An entry of the legend: a run's colour, a role's stroke, or both if there is one run."""

    words: str
    role: LossLineRole | None
    colour: int | None


class LossGap(Struct, frozen=True):
    """The first step at which a run's loss is not finite."""

    step: int
    words: str


class LossPlot(Struct, frozen=True, eq=False):
    """The content of the loss plot.

    Parameters
    ----------
    lines : tuple of LossLine
        The lines in painting order: faint ones first, those of the open run last.
    shown_step : int or None
        The selected step; None for the current model.
    stops : ndarray
        The steps of snapshots, int64 [stop], ascending.
    message : str
        Text shown instead of the plot if there is nothing to plot.
    notices : tuple of str
        Sentences about what is outside the plot.
    told : str
        Description for screen readers.
    smoothed : tuple of SmoothedLosses
        Smoothed losses, kept so that the next plot smooths only new ones.
    """

    lines: tuple[LossLine, ...] = ()
    references: tuple[ReferenceLoss, ...] = ()
    keys: tuple[LegendKey, ...] = ()
    breaks: tuple[LossGap, ...] = ()
    x: PlotAxis = field(default_factory=lambda: PlotAxis(STEP, 0, 1))
    y: PlotAxis = field(default_factory=lambda: PlotAxis(LOSS, 0, 1))
    shown_step: int | None = None
    stops: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    message: str = MESSAGE
    notices: tuple[str, ...] = ()
    told: str = MESSAGE
    rates: tuple[np.ndarray, np.ndarray] | None = None
    smoothed: tuple[SmoothedLosses, ...] = ()

    @property
    def last(self) -> int:
        """Last step of any line."""
        return max((int(line.steps[-1]) for line in self.lines), default=0)
