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
from visualizer.state.heatmaps import drawn_heads
from visualizer.state.playback.timeline import Place, Playhead
from visualizer.state.playback.transport import Stand, present_stand
from visualizer.state.progress import Progress, quietly
from visualizer.ui.figures.page import THEMES, Figure, Page, figure_of, paint_page, text_height
from visualizer.ui.figures.png import blank
from visualizer.ui.figures.words import paint_words, words_height
from visualizer.ui.layout import LARGEST_CELL, MARGIN, SMALLEST_SIDE, lay_out
from visualizer.ui.theme import text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from visualizer.state.view import View
    from visualizer.ui.slots import Layout

USUAL_SHAPE = 0.625
"""Its height of its width, where no height is asked for: that of a usual screen."""
SPACE = 8


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


def reel_of(shot: Shot, look: FigureLook, progress: Progress = quietly) -> Reel:
    """Place all panels of a film.

    Parameters
    ----------
    progress : callable
        Asked at each stage whether to go on, as panels of a long text take their time.

    Raises
    ------
    InputError
        When it is too long.
    """
    film = film_of(shot.run.trace, look.film)
    asked = look.height
    height = look.height_mm or look.width_mm * USUAL_SHAPE
    look = replace(look, dpi=round(ratio_of(look) * PIXELS_AN_INCH), height_mm=height)
    shot = replace(shot, view=_played(shot, look))
    return _placed(shot, film, _figures(shot, film, look, progress), look, asked)


def _played(shot: Shot, look: FigureLook) -> View:
    """Give the view of which the playhead moves: the heads of the figure, and nothing beside."""
    view = replace(shot.view, playhead=Playhead(), guess=None, comparison=None, spread=False)
    view = framed(shot.run, view, look)
    playhead = Playhead(grain=look.film.grain, speed=look.film.speed)
    return replace(view, playhead=playhead, folds=frozenset())


def _figures(shot: Shot, film: Film, look: FigureLook, progress: Progress) -> dict[str, Figure]:
    """Read the panels of each stage; where those of all are seen, they are the very same."""
    rows = len(drawn_heads(shot.run, shot.view))
    height = (look.height_mm or look.width_mm) / rows  # all heads are to be seen at once
    look = replace(look, extent=Extent.SHOWN, has_marks=True, height_mm=height)
    if look.film.panels is Panels.SPAN:
        reads = (shot.run.trace.stage(stage).reads for stage in film.stages)
        stages = frozenset({*film.stages, *(name for names in reads for name in names)})
        figure = figure_of(replace(shot, view=replace(shot.view, stages=stages)), look)
        return dict.fromkeys(film.stages, figure)
    figures = {}
    for stage in film.stages:
        progress(0, len(film.steps))
        playhead = replace(shot.view.playhead, place=Place(stage))
        figures[stage] = figure_of(replace(shot, view=replace(shot.view, playhead=playhead)), look)
    return figures


def _placed(
    shot: Shot, film: Film, figures: dict[str, Figure], look: FigureLook, asked: float | None
) -> Reel:
    """Give every stage's panels the place that the largest of them need.

    Parameters
    ----------
    asked : float or None
        How high all of it is; None for as high as it takes.
    """
    first, width = next(iter(figures.values())), look.width / look.enlarged
    around = SPACE + text_height(first.title, 20, width) + text_height(first.caption, 12, width)
    high = (look.height or 0) / look.enlarged - around - words_height()
    layouts = _layouts(figures, width, high, look.pixel_ratio)
    needed_width = max(layout.width for layout in layouts.values())
    needed_height = max(layout.height for layout in layouts.values())
    scale = look.enlarged * max(0.01, min(1.0, width / needed_width, high / needed_height))
    wide, whole = look.width / scale, partial(_whole, pixel=1 / (scale * ratio_of(look)))
    titled, told = text_height(first.title, 20, wide), text_height(first.caption, 12, wide)
    left, top, across = whole((wide - needed_width) / 2), whole(titled), wide - 2 * MARGIN
    words = QRectF(MARGIN, top + needed_height + SPACE, across, words_height())
    page = Page(
        figure=first,
        layout=layouts[film.stages[0]],
        size=QSizeF(look.width, asked or (words.bottom() + told) * scale),
        scale=scale,
        at=QPointF(0, 0),
        title=QRectF(MARGIN, MARGIN / 2, across, titled),
        panels=QRectF(left, top, needed_width, needed_height),
        caption=QRectF(MARGIN, words.bottom(), across, told),
        theme=THEMES[look.paper],
    )
    pages = {
        stage: replace(page, figure=figure, layout=layouts[stage])
        for stage, figure in figures.items()
    }
    pixels = page.size * ratio_of(look)
    size = _even(pixels.width()), _even(pixels.height())
    return Reel(shot, film, pages, words, size, ratio_of(look))


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
    boards = [*{figure.board: None for figure in figures.values()}]
    rows = max(heatmap.side[0] for board in boards for heatmap in board.heatmaps)
    largest = int(LARGEST_CELL * text_scale() * pixel_ratio)
    smallest = max(1, min(largest, round(SMALLEST_SIDE * pixel_ratio / rows)))
    for pixels in range(largest, smallest - 1, -1):
        cell, found = pixels / pixel_ratio, {}
        for board in boards:
            found[board] = lay_out(board, width, high, pixel_ratio, cell)
            if pixels > smallest and not _fits(found[board], width, high, cell):
                boards = [board, *(one for one in boards if one is not board)]  # first from now on
                break
        else:
            break
    return {stage: found[figure.board] for stage, figure in figures.items()}


def _fits(layout: Layout, width: float, high: float, cell: float) -> bool:
    is_alike = min(slot.cell_height for slot in layout.slots) >= cell - 0.001
    return is_alike and layout.width <= width and layout.height <= high
