"""A film of the computation: each frame a figure of one step, and all on a page of one size.

The panels of every stage have cells of one size, and begin at one place: nothing jumps where what
is computed goes from one stage to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QPainter

from visualizer.state.cursor import present_cursor
from visualizer.state.figure import PIXELS_AN_INCH, Extent, FigureLook, Shot, framed
from visualizer.state.film import Film, Panels, film_of
from visualizer.state.playback.timeline import Place, Playhead
from visualizer.state.playback.transport import Stand, present_stand
from visualizer.ui.figures.page import THEMES, Figure, Page, figure_of, paint_page, text_height
from visualizer.ui.figures.png import blank
from visualizer.ui.figures.words import paint_words, words_height
from visualizer.ui.layout import MARGIN, lay_out

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from visualizer.state.panels import Board
    from visualizer.state.view import View
    from visualizer.ui.slots import Layout

USUAL_SHAPE = 0.625
"""Its height of its width, where no height is asked for: that of a usual screen."""
NARROWEST = 160
SPACE = 8
TRIES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Reel:
    """A film that has its places, and whose frames can be painted in any order.

    Parameters
    ----------
    pages : dict
        By the stage that is computed.
    words : QRectF
        Where the sentence of the step is, in pixels of the window.
    size : tuple of int
        Width and height of every frame, in pixels of the film; even, as films are coded.
    """

    shot: Shot
    film: Film
    pages: dict[str, Page]
    words: QRectF
    size: tuple[int, int]
    ratio: float

    def __len__(self) -> int:
        return len(self.film.steps)

    def view(self, frame: int) -> View:
        """Give what is looked at in a frame."""
        view = self.shot.view
        return replace(view, playhead=replace(view.playhead, place=self.film.place(frame)))

    def page(self, frame: int) -> tuple[Page, Stand]:
        """Make the figure of a frame, and what is told of it."""
        view, run = self.view(frame), self.shot.run
        stand = present_stand(run, view, Stand())
        if view.pinned and stand.lights.is_later(view.pinned):
            view = replace(view, pinned=None)
        page = self.pages[self.film.place(frame).stage]
        figure = replace(page.figure, cursor=present_cursor(run, view), lights=stand.lights)
        return replace(page, figure=figure), stand

    def picture(self, frame: int) -> QImage:
        """Paint a frame."""
        page, stand = self.page(frame)
        image = blank(*self.size)
        image.fill(page.theme.paper)
        painter = QPainter(image)
        painter.scale(self.ratio, self.ratio)
        paint_page(painter, page)
        painter.scale(page.scale, page.scale)
        paint_words(painter, self.words, stand.transport, page.theme)
        painter.end()
        return image

    def pixels(self, frame: int) -> np.ndarray:
        """Paint a frame as words 0xrrggbb, uint32 [row, column]."""
        image = self.picture(frame)
        words = np.frombuffer(image.constBits(), np.uint32)
        rows = words.reshape(image.height(), image.bytesPerLine() // 4)
        pixels: np.ndarray = rows[:, : image.width()] & np.uint32(0xFFFFFF)
        return pixels


def reel_of(shot: Shot, look: FigureLook) -> Reel:
    """Place all panels of a film.

    Raises
    ------
    InputError
        When it is too long.
    """
    film = film_of(shot.run.trace, look.film)
    look = replace(look, dpi=round(ratio_of(look) * PIXELS_AN_INCH))
    shot = replace(shot, view=_played(shot, look))
    figures = _figures(shot, film, replace(look, extent=Extent.SHOWN, has_marks=True))
    return _placed(shot, film, figures, look)


def _played(shot: Shot, look: FigureLook) -> View:
    """Give the view of which the playhead moves: the heads of the figure, and nothing beside."""
    view = replace(shot.view, playhead=Playhead(), guess=None, comparison=None, spread=False)
    view = framed(shot.run, view, look)
    playhead = Playhead(grain=look.film.grain, speed=look.film.speed)
    return replace(view, playhead=playhead, folds=frozenset())


def _figures(shot: Shot, film: Film, look: FigureLook) -> dict[str, Figure]:
    """Read the panels of each stage; where those of all are seen, they are the very same."""
    if look.film.panels is Panels.SPAN:
        reads = (shot.run.trace.stage(stage).reads for stage in film.stages)
        stages = frozenset({*film.stages, *(name for names in reads for name in names)})
        figure = figure_of(replace(shot, view=replace(shot.view, stages=stages)), look)
        return dict.fromkeys(film.stages, figure)
    figures = {}
    for stage in film.stages:
        playhead = replace(shot.view.playhead, place=Place(stage))
        figures[stage] = figure_of(replace(shot, view=replace(shot.view, playhead=playhead)), look)
    return figures


def _placed(shot: Shot, film: Film, figures: dict[str, Figure], look: FigureLook) -> Reel:
    """Give every stage's panels the place that the largest of them need."""
    width, first = look.width / look.enlarged, next(iter(figures.values()))
    height = (look.height or look.width * USUAL_SHAPE) / look.enlarged
    around = SPACE + text_height(first.title, 20, width) + text_height(first.caption, 12, width)
    high = height - around - words_height()
    layouts = _layouts(figures, width, high, look.pixel_ratio)
    needed = (
        max(layout.width for layout in layouts.values()),
        max(layout.height for layout in layouts.values()),
    )
    shrunk = min(1.0, width / needed[0], high / needed[1])
    scale = look.enlarged * max(shrunk, 0.01)
    wide, whole = look.width / scale, partial(_whole, pixel=1 / (scale * ratio_of(look)))
    titled, told = text_height(first.title, 20, wide), text_height(first.caption, 12, wide)
    left, top = whole((wide - needed[0]) / 2), whole(titled)
    words = QRectF(MARGIN, top + needed[1] + SPACE, wide - 2 * MARGIN, words_height())
    size = QSizeF(look.width, look.height or (words.bottom() + told) * scale)
    places = (
        size,
        scale,
        QPointF(0, 0),
        QRectF(MARGIN, MARGIN / 2, wide - 2 * MARGIN, titled),
        QRectF(left, top, *needed),
        QRectF(MARGIN, words.bottom(), wide - 2 * MARGIN, told),
        THEMES[look.paper],
    )
    pages = {stage: Page(figures[stage], layouts[stage], *places) for stage in figures}
    pixels = (_even(side * ratio_of(look)) for side in (size.width(), size.height()))
    return Reel(shot, film, pages, words, (next(pixels), next(pixels)), ratio_of(look))


def ratio_of(look: FigureLook) -> float:
    """Give how many pixels of the film 1/96 inch of its page becomes."""
    return look.film.width / look.width


def _whole(length: float, pixel: float) -> float:
    return round(length / pixel) * pixel


def _even(side: float) -> int:
    return 2 * max(1, math.ceil(side / 2 - 0.01))


def _layouts(
    figures: dict[str, Figure], width: float, high: float, pixel_ratio: float
) -> dict[str, Layout]:
    """Lay every stage out with cells of one size: the largest with which all are seen whole."""
    boards = {figure.board for figure in figures.values()}
    fitted = {board: _fitted(board, width, high, pixel_ratio, math.inf) for board in boards}
    cell = min(_cell(layout) for layout in fitted.values())
    fitted = {board: _fitted(board, width, high, pixel_ratio, cell) for board in boards}
    return {stage: fitted[figure.board] for stage, figure in figures.items()}


def _cell(layout: Layout) -> float:
    return min(slot.cell_height for slot in layout.slots)


def _fitted(board: Board, width: float, high: float, pixel_ratio: float, cell: float) -> Layout:
    """Find the widest layout that is not too high and whose cells are not too large."""
    layout = lay_out(board, width, high, pixel_ratio)
    if _fits(layout, high, cell):
        return layout
    low, layout = float(NARROWEST), lay_out(board, NARROWEST, high, pixel_ratio)
    for _ in range(TRIES):
        middle = (low + width) / 2
        tried = lay_out(board, middle, high, pixel_ratio)
        if _fits(tried, high, cell):
            low, layout = middle, tried
        else:
            width = middle
    return layout


def _fits(layout: Layout, high: float, cell: float) -> bool:
    return layout.height <= high and _cell(layout) <= cell + 1e-6
