"""The legend of the plot of losses: runs by their colours, lines by their strokes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.state.lab.plotted import Role
from visualizer.ui.captions import LEFT
from visualizer.ui.theme import head_colour, metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.state.lab.plotted import Key
    from visualizer.ui.theme import Theme

SAMPLE, BETWEEN, APART = 20.0, 6.0, 18.0
LONGEST = 240.0
"""Pixels of the name of a run, at most."""
WIDTHS = {Role.EACH: 1.0, Role.TRAINING: 1.8, Role.VALIDATION: 1.8}
"""Of the strokes of lines."""
DOT = 2.6
FAINT = 0.5
"""How much of its colour a faint line has, on paper."""


def keys_height(keys: Sequence[Key], width: float) -> float:
    """Give the height of the legend in a width."""
    return max((box.bottom() for _, _, box in _places(keys, width)), default=0.0)


def paint_keys(painter: QPainter, area: QRectF, keys: Sequence[Key], theme: Theme) -> None:
    """Paint the legend at the top of an area, in as many lines as it takes."""
    for key, words, box in _places(keys, area.width()):
        place = box.translated(area.topLeft())
        _paint_sample(painter, QRectF(place.topLeft(), place.bottomLeft()), key, theme)
        painter.setPen(QColor(theme.ink))
        painter.drawText(place.adjusted(SAMPLE + BETWEEN, 0, 0, 0), LEFT, words)


def _places(keys: Sequence[Key], width: float) -> Iterator[tuple[Key, str, QRectF]]:
    """Give each key, its words as far as there is room, and its place from the area's corner."""
    measures, line = metrics(12), metrics(12).height() + 4
    x = y = 0.0
    for key in keys:
        room = min(LONGEST, width - SAMPLE - BETWEEN)
        words = measures.elidedText(key.words, Qt.TextElideMode.ElideMiddle, room)
        wide = SAMPLE + BETWEEN + measures.horizontalAdvance(words)
        if x and x + wide > width:
            x, y = 0.0, y + line
        yield key, words, QRectF(x, y, wide + 1, line)
        x += wide + APART


def _paint_sample(painter: QPainter, place: QRectF, key: Key, theme: Theme) -> None:
    name = theme.quiet if key.colour is None else head_colour(key.colour, theme)
    colour, y = QColor(name), place.center().y()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    if key.role is None:
        painter.drawRoundedRect(QRectF(place.left() + 4, y - 5, 12, 10), 2, 2)
    else:
        pen = QColor(faint(colour, theme) if key.role is Role.EACH else colour)
        if key.role is Role.VALIDATION:
            painter.drawEllipse(QPointF(place.left() + SAMPLE / 2, y), DOT, DOT)
        painter.setPen(QPen(pen, WIDTHS[key.role]))
        painter.drawLine(QPointF(place.left(), y), QPointF(place.left() + SAMPLE, y))
    painter.restore()


def faint(colour: QColor, theme: Theme) -> QColor:
    """Give a colour's faint form: opaque, so that it is the same where a line crosses itself."""
    paper = QColor(theme.paper)
    parts = ((one.redF(), one.greenF(), one.blueF()) for one in (colour, paper))
    mixed = (FAINT * mine + (1 - FAINT) * its for mine, its in zip(*parts, strict=True))
    return QColor.fromRgbF(*mixed)
