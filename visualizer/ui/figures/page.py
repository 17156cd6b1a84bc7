"""A figure on its page: the panels, a title over them and what was computed under them.

Everything is placed in pixels of 1/96 inch, whatever a file has: what is painted on a picture, a
drawing or a document is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF

from visualizer.state.caption import caption
from visualizer.state.figure import FigureLook, Paper, framed
from visualizer.state.screen import described, present
from visualizer.ui import captions
from visualizer.ui import heatmap as draw
from visualizer.ui.cover import paint_lights
from visualizer.ui.layout import MARGIN, lay_out, room
from visualizer.ui.light import paint_cursor
from visualizer.ui.theme import DARK, LIGHT, PRINT, Theme, font, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QPainter

    from visualizer.state.cursor import Cursor
    from visualizer.state.figure import Shot
    from visualizer.state.panels import Board
    from visualizer.state.playback.lights import Lights
    from visualizer.ui.slots import Layout

THEMES = {Paper.PRINT: PRINT, Paper.LIGHT: LIGHT, Paper.DARK: DARK}
NARROWEST = 480
TALLEST = 1e6
"""Of a figure that is as high as it takes."""
_WRAPPED = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """What is on a page."""

    board: Board
    cursor: Cursor
    lights: Lights
    title: str
    caption: str


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A figure that has its places.

    Parameters
    ----------
    size : QSizeF
        Of the whole page.
    scale : float
        How much larger than in the window everything is drawn.
    at : QPointF
        Where the figure begins.
    title, panels, caption : QRectF
        Where its parts are, in pixels of the window, from there.
    """

    figure: Figure
    layout: Layout
    size: QSizeF
    scale: float
    at: QPointF
    title: QRectF
    panels: QRectF
    caption: QRectF
    theme: Theme


def figure_of(shot: Shot, look: FigureLook) -> Figure:
    """Read what a figure shows, pooled to what it has room for."""
    view = framed(shot.run, shot.view, look)
    width, height = look.width / look.enlarged, (look.height or TALLEST) / look.enlarged
    screen = present(shot.document, view, shot.run, None, False, None, shot.document)
    space = room(screen.board, width, height, look.pixel_ratio)
    if space != view.room:
        view = replace(view, room=space)
        screen = present(shot.document, view, shot.run, None, False, None, shot.document)
    board = described(screen)
    said = [caption(shot.run), board.said] if look.has_caption else []
    under = " · ".join(part for part in said if part)
    return Figure(board, screen.cursor, screen.lights, look.title, under)


def page_of(figure: Figure, look: FigureLook) -> Page:
    """Place a figure: as wide and high as asked for, with cells of whole pixels where they fit."""
    scale, width = look.enlarged, look.width / look.enlarged
    high = look.height / scale if look.height else math.inf
    titled, told = text_height(figure.title, 20, width), text_height(figure.caption, 12, width)
    layout = lay_out(figure.board, width, high - titled - told, look.pixel_ratio)
    if not look.is_trimmed:
        shrunk = min(1.0, width / layout.width, (high - titled - told) / layout.height)
        scale *= max(shrunk, 0.01)
    least = max(layout.width, min(width, NARROWEST))  # a caption needs some width, too
    wide = least if look.is_trimmed else look.width / scale
    titled, told = text_height(figure.title, 20, wide), text_height(figure.caption, 12, wide)
    content = titled + layout.height + told
    size = QSizeF(wide * scale, look.height or content * scale)
    left, top = (wide - layout.width) / 2, max(0.0, (size.height() / scale - content) / 2)
    return Page(
        figure,
        layout,
        size,
        scale,
        QPointF(0, top),
        QRectF(MARGIN, MARGIN / 2, wide - 2 * MARGIN, titled),
        QRectF(left, titled, layout.width, layout.height),
        QRectF(MARGIN, titled + layout.height, wide - 2 * MARGIN, told),
        THEMES[look.paper],
    )


def text_height(text: str, size: int, width: float) -> float:
    """Give the height that a text takes, with the space around it; none where there is none."""
    if not text:
        return 0
    area = QRectF(0, 0, width - 2 * MARGIN, TALLEST)
    return (
        QFontMetricsF(_font(size)).boundingRect(area, _WRAPPED, text).height() + 14 * text_scale()
    )


def _font(size: int) -> QFont:
    return font(size, QFont.Weight.DemiBold if size > 12 else QFont.Weight.Normal)


def paint_page(painter: QPainter, page: Page) -> None:
    """Paint a page, on a painter whose unit is 1/96 inch."""
    figure, theme = page.figure, page.theme
    painter.fillRect(QRectF(QPointF(0, 0), page.size), QColor(theme.paper))
    painter.save()
    painter.scale(page.scale, page.scale)
    painter.translate(page.at)
    paint_text(painter, page.title, figure.title, 20, theme.ink)
    paint_text(painter, page.caption, figure.caption, 12, theme.quiet)
    painter.translate(page.panels.topLeft())
    for slot in page.layout.slots:
        draw.paint_slot(painter, slot, theme)
        if figure.board.is_current(slot.heatmap):
            paint_lights(painter, slot, figure.lights, theme)
            paint_cursor(painter, slot, figure.cursor, theme)
    captions.paint_titles(painter, page.layout.titles, theme)
    painter.restore()


def paint_text(painter: QPainter, area: QRectF, text: str, size: int, ink: str) -> None:
    """Write a text into its place, in lines."""
    if text:
        painter.setFont(_font(size))
        painter.setPen(QColor(ink))
        painter.drawText(area, _WRAPPED, text)
