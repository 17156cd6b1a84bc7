"""The same work in other tools: minimal torch, torch's own module, matplotlib and pyqtgraph."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

import matplotlib as mpl
import pyqtgraph as pg
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PySide6.QtCore import QCoreApplication
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from matplotlib.image import AxesImage

    from visualizer.attention.trace import Trace

DOTS_PER_INCH = 100


def seconds(act: Callable[[], object]) -> float:
    """Return the duration of a call in seconds."""
    start = perf_counter()
    act()
    return perf_counter() - start


def _columns(panels: int, width: int, height: int) -> int:
    """Return the number of columns at which square panels fill an area best."""
    return min(panels, max(1, round(math.sqrt(panels * width / height))))


class Torch:
    """The minimal torch operations for a change, on the tensors of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.given, self.scaled = trace.tensor("input"), trace.tensor("scaled")
        self.values, self.divisor = trace.tensor("values"), trace.spec.divisor
        self.heads, tokens = trace.spec.heads, trace.query_count
        self.forbidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        self.projections = [trace.tensor(f"W_{name}.weight") for name in ("query", "key", "value")]
        self.weight, self.bias = (trace.tensor(f"out_proj.{name}") for name in ("weight", "bias"))
        width = trace.spec.concatenated_head_width
        self.narrow = self.given[:, :width]  # torch's module has the same input and output size
        self.module = torch.nn.MultiheadAttention(width, self.heads, bias=False).eval()

    @torch.no_grad()
    def toggle(self, causal: bool) -> torch.Tensor:
        """Recompute everything from the mask on: softmax, context, concatenation and projection."""
        return self._rest(self.scaled, self.values, causal)

    @torch.no_grad()
    def edit(self) -> torch.Tensor:
        """Recompute everything from the input on."""
        queries, keys, values = (self._to_heads(weight) for weight in self.projections)
        return self._rest(queries @ keys.mT / self.divisor, values, True)

    @torch.no_grad()
    def multi_head(self) -> torch.Tensor:
        """Run `torch.nn.MultiheadAttention` with the weights of every head."""
        weights: torch.Tensor = self.module(
            self.narrow, self.narrow, self.narrow, attn_mask=self.forbidden,
            need_weights=True, average_attn_weights=False,
        )[1]  # fmt: skip
        return weights

    def _to_heads(self, weight: torch.Tensor) -> torch.Tensor:
        flat = functional.linear(self.given, weight)  # token d_out
        return torch.unflatten(flat, -1, (self.heads, -1)).transpose(-3, -2)

    def _rest(self, scaled: torch.Tensor, values: torch.Tensor, causal: bool) -> torch.Tensor:
        if causal:
            scaled = scaled.masked_fill(self.forbidden, -torch.inf)
        context = scaled.softmax(-1) @ values  # head query d_head
        return functional.linear(context.transpose(-3, -2).flatten(-2), self.weight, self.bias)


class Matplotlib:
    """The heads' weights in a figure of the same size as the board; Agg draws without a window."""

    def __init__(self, weights: np.ndarray, width: int, height: int, is_labelled: bool) -> None:
        mpl.use("agg")
        self.weights = weights
        inches = (width / DOTS_PER_INCH, height / DOTS_PER_INCH)
        figure = Figure(inches, DOTS_PER_INCH, layout="tight")
        self.canvas = FigureCanvasAgg(figure)
        columns = _columns(len(weights), width, height)
        self.images: list[AxesImage] = []
        for number, head in enumerate(weights, 1):
            axes = figure.add_subplot(-(-len(weights) // columns), columns, number)
            self.images.append(axes.imshow(head, vmin=0, vmax=1))
            if is_labelled:
                axes.set_title(f"Head {number}")
                axes.set_xlabel("key")
                axes.set_ylabel("query")
                figure.colorbar(self.images[-1])
            else:
                axes.set_axis_off()
        self._draw()
        figure.set_layout_engine("none")  # the layout is fixed from now on

    def draw(self) -> None:
        """Update the existing images with new values, and draw a frame."""
        for image, head in zip(self.images, self.weights, strict=True):
            image.set_data(head)
        self._draw()

    def look(self, start: int, size: int) -> None:
        """Draw a frame with `size` rows and columns from `start` on."""
        for axes in self.canvas.figure.axes:
            axes.set_xlim(start, start + size)
            axes.set_ylim(start + size, start)
        self._draw()

    def _draw(self) -> None:
        self.canvas.draw()  # type: ignore[no-untyped-call]


class PyQtGraph:
    """The heads' weights as plain images in a window of the same size as the board."""

    def __init__(self, weights: np.ndarray, width: int, height: int) -> None:
        pg.setConfigOptions(imageAxisOrder="row-major")
        self.weights = weights
        self.view = pg.GraphicsLayoutWidget(size=(width, height), show=True)
        self.images, self.boxes = [], []
        columns = _columns(len(weights), width, height)
        for number, head in enumerate(weights):
            place = divmod(number, columns)
            box = self.view.addViewBox(*place, lockAspect=True, invertY=True)
            image = pg.ImageItem(head, levels=(0, 1), colorMap="viridis")
            box.addItem(image)
            self.boxes.append(box)
            self.images.append(image)
        QCoreApplication.processEvents()  # nothing is painted until the window is visible
        self.view.viewport().repaint()

    def draw(self) -> None:
        """Update the existing images with new values, and draw a frame."""
        for image, head in zip(self.images, self.weights, strict=True):
            image.setImage(head, autoLevels=False)
        self.view.viewport().repaint()

    def look(self, start: int, size: int) -> None:
        """Draw a frame with `size` rows and columns from `start` on."""
        for box in self.boxes:
            box.setRange(xRange=(start, start + size), yRange=(start, start + size), padding=0)
        self.view.viewport().repaint()

    def close(self) -> None:
        self.view.close()
