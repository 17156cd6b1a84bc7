"""Lays out the frames of a film of the computation on pages of one size.

The panels of all stages have cells of one size and start at one place, so that nothing jumps from
one stage to the next.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPointF, QRectF, QSizeF

from visualizer.export.figure_framing import framed
from visualizer.export.figure_settings import PIXELS_AN_INCH, FigureExtent, FigureSettings
from visualizer.export.figures.figure_page import (
    THEMES,
    FigureContent,
    FigurePage,
    figure_of,
    text_height,
)
from visualizer.export.film_settings import FilmPanels, FilmPlan, film_of
from visualizer.export.films.animation_frames import AnimationFrames, FrameMargins, words_height
from visualizer.heatmap.layout import LARGEST_CELL, MARGIN, SMALLEST_SIDE, lay_out
from visualizer.progress_callback import Progress, no_progress
from visualizer.session.resolved_view import resolve
from visualizer.session.timeline import Place, Playhead
from visualizer.widgets.theme import text_scale

if TYPE_CHECKING:
    from visualizer.heatmap.layout import BoardLayout
    from visualizer.session.screen import Snapshot
    from visualizer.session.view import View

USUAL_SHAPE = 0.7
"""Largest height / width without a given height, so that numbers are readable."""
HIGHEST_SHAPE = 1.25
"""The same with many heads below each other."""
SPACE = 8


def reel_of(
    shot: Snapshot, look: FigureSettings, progress: Progress = no_progress
) -> AnimationFrames:
    """Lay a film out.

    Parameters
    ----------
    progress : callable
        Called at each stage; an exception from it cancels.

    Raises
    ------
    InputError
        When the film has too many steps.
    """
    film = film_of(shot.run.trace, look.film)
    asked = look.height
    height = look.height_mm or look.width_mm * USUAL_SHAPE
    look = replace(look, dpi=round(ratio_of(look) * PIXELS_AN_INCH), height_mm=height)
    shot = replace(shot, view=_played(shot, look))

    def go_on(done: int, of: int) -> None:
        progress(0, len(film.steps))

    figures = _figures(shot, film, look, go_on)
    return _placed(shot, film, figures, _layouts(figures, look, go_on), look, asked)


def _played(shot: Snapshot, look: FigureSettings) -> View:
    """Return the view that is played: the figure's heads, without comparison."""
    view = replace(shot.view, playhead=Playhead(), guess=None, comparison=None, spread=False)
    view = framed(replace(shot, view=view), look).view
    playhead = Playhead(grain=look.film.grain, speed=look.film.speed)
    return replace(view, playhead=playhead, folds=frozenset())


def _figures(
    shot: Snapshot, film: FilmPlan, look: FigureSettings, progress: Progress
) -> dict[str, FigureContent]:
    """Read the panels of each stage; if all stages are shown, all share one figure."""
    rows = len(resolve(shot.document, shot.view, shot.run).drawn_heads)
    height = (look.height_mm or look.width_mm) / rows  # all heads must be visible at once
    look = replace(look, extent=FigureExtent.SHOWN, has_marks=True, height_mm=height)
    if look.film.panels is FilmPanels.SPAN:
        reads = (shot.run.trace.stage(stage).reads for stage in film.stages)
        stages = frozenset({*film.stages, *(name for names in reads for name in names)})
        figure = figure_of(replace(shot, view=replace(shot.view, stages=stages)), look)
        return dict.fromkeys(film.stages, figure)
    figures = {}
    for stage in film.stages:
        progress(0, 1)
        playhead = replace(shot.view.playhead, place=Place(stage))
        figures[stage] = figure_of(replace(shot, view=replace(shot.view, playhead=playhead)), look)
    return figures


def _placed(
    shot: Snapshot,
    film: FilmPlan,
    figures: dict[str, FigureContent],
    layouts: dict[str, BoardLayout],
    look: FigureSettings,
    asked: float | None,
) -> AnimationFrames:
    """Reserve the area of the largest panels for every stage.

    Parameters
    ----------
    asked : float or None
        The height of the page; None to fit the content.
    """
    first, width = next(iter(figures.values())), look.width / look.enlarged
    wide = max(layout.width for layout in layouts.values())
    high, most = max(layout.height for layout in layouts.values()), _room(first, look)
    if asked is None:
        most = max(most, min(high, most + width * (HIGHEST_SHAPE - USUAL_SHAPE)))
    shrunk = max(0.01, min(1.0, width / wide, most / high))
    around = _around(first, look, high * shrunk)
    left = _whole((width - wide * shrunk) / 2, look.pixel_ratio)
    top = around.words.top() - SPACE - high * shrunk
    size = QSizeF(look.width, asked or around.caption_at.bottom() * look.enlarged)
    places: dict[str, Any] = {
        "size": size,
        "scale": look.enlarged * shrunk,
        "at": QPointF(0, 0),
        "title": QRectF(),
        "panels": QRectF(left / shrunk, top / shrunk, wide, high),
        "caption": QRectF(),
        "theme": THEMES[look.paper],
        "fits": True,
    }
    pages = {
        stage: FigurePage(replace(figure, title="", caption=""), layouts[stage], **places)
        for stage, figure in figures.items()
    }
    return AnimationFrames(
        shot, film, pages, around, _pixels(size * ratio_of(look)), ratio_of(look)
    )


def _room(figure: FigureContent, look: FigureSettings) -> float:
    """Return the height available to panels, in pixels of the window."""
    return (look.height or 0) / look.enlarged - _around(figure, look, 0).caption_at.bottom()


def _around(figure: FigureContent, look: FigureSettings, panels: float) -> FrameMargins:
    """Lay out the margins over and under panels of a height."""
    width = look.width / look.enlarged
    titled, told = text_height(figure.title, 20, width), text_height(figure.caption, 12, width)
    across = width - 2 * MARGIN
    top = _whole(titled, look.pixel_ratio) + panels + SPACE
    return FrameMargins(
        figure.title,
        QRectF(MARGIN, MARGIN / 2, across, titled),
        QRectF(MARGIN, top, across, words_height()),
        figure.caption,
        QRectF(MARGIN, top + words_height(), across, told),
        look.enlarged,
    )


def ratio_of(look: FigureSettings) -> float:
    """Return the pixels of the film for 1/96 inch of its page."""
    return look.film.width / look.width


def _whole(length: float, pixel_ratio: float) -> float:
    return round(length * pixel_ratio) / pixel_ratio


def _pixels(size: QSizeF) -> tuple[int, int]:
    """Round a size to even numbers of pixels."""
    width, height = (max(1, math.ceil(side / 2 - 0.01)) for side in (size.width(), size.height()))
    return 2 * width, 2 * height


def _layouts(
    figures: dict[str, FigureContent], look: FigureSettings, progress: Progress
) -> dict[str, BoardLayout]:
    """Lay every stage out with cells of one size, the largest with which all fit."""
    width, ratio = look.width / look.enlarged, look.pixel_ratio
    high = _room(next(iter(figures.values())), look)
    boards = [*{figure.board: None for figure in figures.values()}]
    rows = max(heatmap.side[0] for board in boards for heatmap in board.heatmaps)
    heads = max(len(column) for board in boards for column in board.columns)
    largest = min(LARGEST_CELL * text_scale(), high / (rows * heads)) * ratio
    smallest = max(1, round(min(LARGEST_CELL, SMALLEST_SIDE / rows) * ratio))
    for pixels in range(max(smallest, int(largest)), smallest - 1, -1):
        cell, found = pixels / ratio, {}
        for board in boards:
            progress(0, 1)
            found[board] = lay_out(board, width, high, ratio, cell)
            if pixels > smallest and not _fits(found[board], width, high, cell):
                boards = [board, *(one for one in boards if one is not board)]  # tried first next
                break
        else:
            break
    return {stage: found[figure.board] for stage, figure in figures.items()}


def _fits(layout: BoardLayout, width: float, high: float, cell: float) -> bool:
    is_alike = min(slot.cell_height for slot in layout.slots) >= cell - 0.001
    return is_alike and layout.width <= width and layout.height <= high
