"""Places the labels of reference losses and gaps on the loss plot without overlaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF

from visualizer.number_format import format_number
from visualizer.widgets.fonts import metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.lab.loss_plot.model import LossPlot


def spread(wanted: Sequence[float], size: float, low: float, high: float) -> list[float]:
    """Place boxes without overlaps, in the given order.

    The sum of the squared displacements is minimal.

    Parameters
    ----------
    wanted : sequence of float
        Preferred start of each box, ascending.
    size : float
        Size of each box.
    low, high : float
        The bounds; all boxes must fit between them.
    """
    # After subtracting the sizes of preceding boxes, this is isotonic regression: pool falling
    # runs.
    runs: list[tuple[float, int]] = []
    for at, place in enumerate(wanted):
        mean, count = place - at * size, 1
        while runs and runs[-1][0] > mean:
            before, number = runs.pop()
            mean = (before * number + mean * count) / (number + count)
            count += number
        runs.append((mean, count))
    flat = [mean for mean, count in runs for _ in range(count)]
    last = high - len(flat) * size
    return [min(max(mean, low), last) + at * size for at, mean in enumerate(flat)]


GAP, AROUND = 6.0, 3.0
"""Pixels from a vertical line to its label, and of background on both sides of a label."""


class PlotLabel(Struct, frozen=True):
    """A label on the plot, and the line that it names.

    Parameters
    ----------
    box : QRectF
        Its position, including the background on both sides.
    line : float
        The y of a horizontal line, or the x of a vertical one.
    """

    text: str
    box: QRectF
    line: float


def breaks_of(inner: QRectF, plot: LossPlot) -> list[PlotLabel]:
    """Place the labels of gaps at the top, next to their lines."""
    labels = []
    for at, each in enumerate(plot.breaks):
        x = inner.left() + float(plot.x.share(each.step)) * inner.width()
        box = _label_box(inner, each.words).translated(0, at * metrics(12).height())
        box.moveLeft(x - GAP - box.width() if x > inner.center().x() else x + GAP)
        box.moveLeft(max(inner.left(), min(box.left(), inner.right() - box.width())))
        if box.bottom() <= inner.bottom():
            labels.append(PlotLabel(each.words, box, x))
    return labels


def references_of(
    inner: QRectF, plot: LossPlot, taken: Sequence[PlotLabel] = ()
) -> list[PlotLabel]:
    """Place the labels of reference losses at the right end, as close to their lines as possible.

    They are in the order of their lines, and overlap neither each other nor `taken`. If there is
    not enough space for all, the lowest losses are labelled.
    """
    height = metrics(12).height()
    ys = (
        inner.bottom()
        - plot.y.share(np.array([one.loss for one in plot.references])) * inner.height()
    )
    named = list(zip(ys.tolist(), plot.references, strict=True))
    named.sort(key=lambda each: each[0])
    texts = [f"{one.name} {format_number(one.loss, 2)}" for _, one in named]
    boxes = [_label_box(inner, text) for text in texts]
    left = min((inner.right() - box.width() for box in boxes), default=inner.right())
    low = max((each.box.bottom() for each in taken if each.box.right() > left), default=inner.top())
    seen = min(len(boxes), max(0, int((inner.bottom() - low) / height)))
    kept = range(len(boxes) - seen, len(boxes))
    preferred = [named[at][0] - height / 2 for at in kept]
    tops = spread(preferred, height, low, inner.bottom())
    for at, top in zip(kept, tops, strict=True):
        boxes[at].moveTopRight(QPointF(inner.right(), top))
    return [PlotLabel(texts[at], boxes[at], named[at][0]) for at in kept]


def _label_box(inner: QRectF, text: str) -> QRectF:
    wide = min(metrics(12).horizontalAdvance(text) + 2 * AROUND, inner.width())
    return QRectF(inner.left(), inner.top(), wide, metrics(12).height())
