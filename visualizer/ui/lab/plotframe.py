"""Where the axes of the plot of losses stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.ui.lab.plotkeys import keys_height
from visualizer.ui.theme import metrics, text_scale

if TYPE_CHECKING:
    import numpy as np
    from PySide6.QtCore import QRectF

    from visualizer.state.lab.axis import Axis
    from visualizer.state.lab.plotted import LossPlot

EDGE = 12.0
GAP = 6.0
TICK = 4.0
FLAT = 180
"""In pixels: lower plots are laid out flat."""


def flat_title(plot: LossPlot) -> str:
    """Name both axes in one."""
    return f"{plot.y.title}, by {plot.x.title}"


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the axes stand.

    Parameters
    ----------
    whole : QRectF
        All that is painted on.
    inner : QRectF
        What is between the axes.
    keys : QRectF
        Where the legend is; where it is flat, the title of the axes stands beside it if it has
        room there.
    """

    whole: QRectF
    inner: QRectF
    keys: QRectF

    @classmethod
    def of(cls, whole: QRectF, plot: LossPlot) -> Frame:
        """Lay out a plot: its legend above, the numbers of the axes at the left and below."""
        line, wide = metrics(12).height(), metrics(12).horizontalAdvance
        left = max((wide(tick.label) for tick in plot.y.ticks), default=0) + TICK + GAP
        right = max((wide(tick.label) for tick in plot.x.ticks[-1:]), default=0) / 2
        is_flat = _is_flat(whole)
        keys = whole.adjusted(EDGE, EDGE / 2, -EDGE, 0)
        beside = wide(flat_title(plot)) + EDGE
        if is_flat and keys_height(plot.keys, keys.width() - beside) <= 2 * line:
            keys.setRight(keys.right() - beside)
        keys.setHeight(keys_height(plot.keys, keys.width()))
        above = keys.height() + GAP + (0 if is_flat else line)
        below = (1 if is_flat else 2) * line + TICK
        margins = (EDGE + left, EDGE / 2 + above, -EDGE - right, -EDGE / 2 - below)
        return cls(whole, whole.adjusted(*margins), keys)

    @property
    def is_flat(self) -> bool:
        """Whether there is no room for lines with the titles of the axes."""
        return _is_flat(self.whole)

    def x_of(self, axis: Axis, steps: np.ndarray | float) -> np.ndarray:
        """Give where steps are."""
        placed: np.ndarray = self.inner.left() + axis.share(steps) * self.inner.width()
        return placed

    def y_of(self, axis: Axis, losses: np.ndarray | float) -> np.ndarray:
        """Give where losses are."""
        placed: np.ndarray = self.inner.bottom() - axis.share(losses) * self.inner.height()
        return placed

    def step_at(self, axis: Axis, x: float) -> float:
        """Give the step at a place, within the axis."""
        share = (x - self.inner.left()) / max(1.0, self.inner.width())
        return float(axis.value(min(max(share, 0.0), 1.0)))


def _is_flat(whole: QRectF) -> bool:
    return whole.height() < FLAT * text_scale()
