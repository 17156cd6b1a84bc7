"""What the plot of losses shows, as values: lines, losses to beat, axes; made in `plot.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from visualizer.state.lab.axis import Axis, Scale

if TYPE_CHECKING:
    from visualizer.state.lab.losses import Losses
    from visualizer.state.lab.smoothing import Smoothed

MESSAGE = "The loss of each step is drawn here while a model trains."
LOSS, STEP = "loss, nats a token", "step"


class Role(StrEnum):
    """What a line shows, by its name."""

    EACH = "each step"
    TRAINING = "training"
    VALIDATION = "validation"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A run that is plotted.

    Parameters
    ----------
    colour : int
        Its place in the cycle of colours.
    """

    name: str
    losses: Losses
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Reference:
    """A loss to beat: a line across the plot.

    Parameters
    ----------
    name : str
        What has this loss, as in "guessing by frequency".
    """

    name: str
    loss: float


@dataclass(frozen=True, slots=True)
class PlotLook:
    """How losses are looked at.

    Parameters
    ----------
    smoothing : float
        Strength of the average, from 0 for none to below 1.
    """

    smoothing: float = 0.95
    losses: Scale = Scale.LINEAR
    steps: Scale = Scale.LINEAR


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of the plot, with all its points.

    Parameters
    ----------
    name : str
        Of its run, where there are several; else empty.
    steps, values : ndarray
        [point]; steps rise, values may hold NaN and ∞.
    """

    name: str
    role: Role
    colour: int
    steps: np.ndarray
    values: np.ndarray

    @property
    def title(self) -> str:
        """Name it."""
        return f"{self.name}, {self.role}" if self.name else str(self.role)


@dataclass(frozen=True, slots=True)
class Key:
    """What the legend says: of a run its colour, of a role its stroke, of the only run both."""

    words: str
    role: Role | None
    colour: int | None


@dataclass(frozen=True, slots=True)
class Break:
    """Where the losses of a run are no numbers for the first time."""

    step: int
    colour: int
    words: str


@dataclass(frozen=True, slots=True, eq=False)
class LossPlot:
    """All that the plot shows.

    Parameters
    ----------
    lines : tuple of Line
        The faint ones first, this run's last: in the order of painting.
    stand : int or None
        The step that is looked at; None for the present.
    stops : ndarray
        The steps that can be looked at, int64 [stop], rising.
    message : str
        What stands in its place while there is nothing to plot.
    notices : tuple of str
        What the picture leaves out, in sentences.
    told : str
        All of it in a sentence.
    smoothed : tuple of Smoothed
        What is kept for the next plot.
    """

    lines: tuple[Line, ...] = ()
    references: tuple[Reference, ...] = ()
    keys: tuple[Key, ...] = ()
    breaks: tuple[Break, ...] = ()
    x: Axis = field(default_factory=lambda: Axis(STEP, 0, 1))
    y: Axis = field(default_factory=lambda: Axis(LOSS, 0, 1))
    stand: int | None = None
    stops: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    message: str = MESSAGE
    notices: tuple[str, ...] = ()
    told: str = MESSAGE
    rates: tuple[np.ndarray, np.ndarray] | None = None
    smoothed: tuple[Smoothed, ...] = ()

    @property
    def last(self) -> int:
        """The last step of any line."""
        return max((int(line.steps[-1]) for line in self.lines), default=0)
