"""What is written over the plot of losses: what is to be beaten, where there are no numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPen

from visualizer.state.lab.spread import spread
from visualizer.state.words import number
from visualizer.ui.captions import LEFT
from visualizer.ui.lab.plotframe import GAP
from visualizer.ui.theme import metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QPainter

    from visualizer.state.lab.plotted import LossPlot
    from visualizer.ui.lab.plotframe import Frame
    from visualizer.ui.theme import Theme

AROUND = 3.0
"""Paper at both sides of words."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words over the plot, and the line that they are of.

    Parameters
    ----------
    box : QRectF
        Their place, with paper at both sides.
    line : float
        The y of a line across the plot, the x of one down it.
    """

    text: str
    box: QRectF
    line: float


def breaks_of(frame: Frame, plot: LossPlot) -> list[Words]:
    """Place what is said of losses that are no numbers: at the top, beside their lines."""
    inner, made = frame.inner, []
    for at, each in enumerate(plot.breaks):
        x = float(frame.x_of(plot.x, each.step))
        box = _sized(inner, each.words).translated(0, at * metrics(12).height())
        box.moveLeft(x - GAP - box.width() if x > inner.center().x() else x + GAP)
        box.moveLeft(max(inner.left(), min(box.left(), inner.right() - box.width())))
        if box.bottom() <= inner.bottom():
            made.append(Words(each.words, box, x))
    return made


def references_of(frame: Frame, plot: LossPlot, taken: Sequence[Words] = ()) -> list[Words]:
    """Place what is said of the losses to beat: at the right end, each as near as can be.

    They are as high over each other as their lines, and none is over another one or over what is
    `taken`. Where there is no room for all, the losses that are hardest to beat are named.
    """
    inner, height = frame.inner, metrics(12).height()
    named = [(float(frame.y_of(plot.y, one.loss)), one) for one in plot.references]
    named.sort(key=lambda each: each[0])
    texts = [f"{one.name} {number(one.loss, 2)}" for _, one in named]
    boxes = [_sized(inner, text) for text in texts]
    left = min((inner.right() - box.width() for box in boxes), default=inner.right())
    low = max((each.box.bottom() for each in taken if each.box.right() > left), default=inner.top())
    seen = min(len(boxes), max(0, int((inner.bottom() - low) / height)))
    kept = range(len(boxes) - seen, len(boxes))
    wanted = [named[at][0] - height / 2 for at in kept]
    tops = spread(wanted, height, low, inner.bottom())
    for at, top in zip(kept, tops, strict=True):
        boxes[at].moveTopRight(QPointF(inner.right(), top))
    return [Words(texts[at], boxes[at], named[at][0]) for at in kept]


def _sized(inner: QRectF, text: str) -> QRectF:
    wide = min(metrics(12).horizontalAdvance(text) + 2 * AROUND, inner.width())
    return QRectF(inner.left(), inner.top(), wide, metrics(12).height())


def paint_words(painter: QPainter, frame: Frame, plot: LossPlot, theme: Theme) -> None:
    """Draw the lines of what is to be beaten up to any words, and all words on a little paper."""
    inner, broken = frame.inner, breaks_of(frame, plot)
    references = references_of(frame, plot, broken)
    painter.setPen(QPen(QColor(theme.quiet), 1, Qt.PenStyle.DashLine))
    for one in plot.references:
        y = float(frame.y_of(plot.y, one.loss))
        over = (each.box for each in references if each.box.top() < y < each.box.bottom())
        end = min((box.left() for box in over), default=inner.right())
        painter.drawLine(QPointF(inner.left(), y), QPointF(end, y))
    painter.setPen(QPen(QColor(theme.warning), 1, Qt.PenStyle.DashLine))
    for each in plot.breaks:
        x = float(frame.x_of(plot.x, each.step))
        painter.drawLine(QPointF(x, inner.top()), QPointF(x, inner.bottom()))
    for words in references:
        _write(painter, words, theme.quiet, theme)
    for words in broken:
        _write(painter, words, theme.warning, theme)


def _write(painter: QPainter, words: Words, colour: str, theme: Theme) -> None:
    ground = QColor(theme.paper)
    ground.setAlphaF(0.85)
    painter.fillRect(words.box, ground)
    painter.setPen(QColor(colour))
    inner = words.box.adjusted(AROUND, 0, -AROUND, 0)
    cut = metrics(12).elidedText(words.text, Qt.TextElideMode.ElideRight, inner.width() + 1)
    painter.drawText(inner, LEFT, cut)
