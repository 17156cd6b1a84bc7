"""The frames of a film: each a figure of one step, with what is told of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtGui import QPainter

from visualizer.state.cursor import present_cursor
from visualizer.state.playback.lights import present_lights
from visualizer.state.playback.transport import Transport, present_transport
from visualizer.state.resolve import resolve
from visualizer.ui.figures.page import paint_page, paint_text
from visualizer.ui.figures.png import blank, words_of
from visualizer.ui.figures.words import paint_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from PySide6.QtCore import QRectF
    from PySide6.QtGui import QImage

    from visualizer.state.figure import Shot
    from visualizer.state.film import Film
    from visualizer.state.view import View
    from visualizer.ui.figures.page import Page
    from visualizer.ui.theme import Theme


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """What stands over and under the panels, as large as asked for, however small those are.

    Parameters
    ----------
    words : QRectF
        Where the sentence of the step is, in pixels of the window, as all places here.
    scale : float
        How much larger than in the window it is.
    """

    title: str
    title_at: QRectF
    words: QRectF
    caption: str
    caption_at: QRectF
    scale: float

    def paint(self, painter: QPainter, transport: Transport, theme: Theme) -> None:
        """Write it all."""
        painter.scale(self.scale, self.scale)
        paint_text(painter, self.title_at, self.title, 20, theme.ink)
        paint_text(painter, self.caption_at, self.caption, 12, theme.quiet)
        paint_words(painter, self.words, transport, theme)


@dataclass(frozen=True, slots=True, eq=False)
class Reel:
    """A film that has its places, and whose frames can be painted in any order.

    Parameters
    ----------
    pages : dict
        By the stage that is computed.
    around : Around
        What stands over and under the panels.
    size : tuple of int
        Width and height of every frame, in pixels of the film; even, as films are coded.
    """

    shot: Shot
    film: Film
    pages: dict[str, Page]
    around: Around
    size: tuple[int, int]
    ratio: float

    def __len__(self) -> int:
        return len(self.film.steps)

    def durations(self, unit_ms: int) -> tuple[int, ...]:
        """Give how many units each frame is seen."""
        return self.film.durations(unit_ms)

    def samples(self) -> Iterable[int]:
        """Name a frame of each stage, with all of its colours: the last."""
        return {self.film.place(at).stage: at for at in range(len(self))}.values()

    def view(self, frame: int) -> View:
        """Give what is looked at in a frame."""
        view = self.shot.view
        return replace(view, playhead=replace(view.playhead, place=self.film.place(frame)))

    def page(self, frame: int) -> tuple[Page, Transport]:
        """Make the figure of a frame, and what is told of it."""
        shot = self.shot
        resolved = resolve(shot.document, self.view(frame), shot.run, shot.document)
        lights = present_lights(resolved)
        page = self.pages[self.film.place(frame).stage]
        figure = replace(page.figure, cursor=present_cursor(resolved), lights=lights)
        return replace(page, figure=figure), present_transport(resolved, Transport(), lights)

    def picture(self, frame: int) -> QImage:
        """Paint a frame."""
        page, transport = self.page(frame)
        image = blank(*self.size)
        image.fill(page.theme.paper)
        painter = QPainter(image)
        painter.scale(self.ratio, self.ratio)
        paint_page(painter, page)
        self.around.paint(painter, transport, page.theme)
        painter.end()
        return image

    def pixels(self, frame: int) -> np.ndarray:
        """Paint a frame as words 0xrrggbb, uint32 [row, column]."""
        return words_of(self.picture(frame))
