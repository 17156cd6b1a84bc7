"""Lays out an animation: the flow board of one head, on a page with a title and captions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF, QSizeF

from visualizer.errors import InputError
from visualizer.export.figure_settings import (
    MM_PER_INCH,
    PIXELS_PER_INCH,
    FigureExtent,
    FigureSettings,
    resolve_figure_view,
)
from visualizer.export.figures.figure_page import (
    PAPER_THEMES,
    FigurePage,
    fit_flow_to_height,
    text_height,
)
from visualizer.export.film_plan import plan_animation
from visualizer.export.films.animation_frames import AnimationRenderer, FrameMargins, caption_height
from visualizer.heatmap.board_arrangement import EDGE
from visualizer.progress import Progress, ignore_progress
from visualizer.session.resolved_view import tour_focus_row
from visualizer.session.timeline import PlaybackState

if TYPE_CHECKING:
    from visualizer.export.figures.figure_page import FigureContent
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.view import View

ASPECT_RATIO = 9 / 16
"""Ratio of height to width if the settings have no height."""
MAX_SIDE_PX = 4096
"""Maximum width and height, in pixels, that common players support."""
MIN_PAGE_PX = (960, 540)
"""Minimum width and height of the page in pixels of the window; smaller frames are scaled down."""
SPACING_PX = 8


def lay_out_animation(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, progress: Progress = ignore_progress
) -> AnimationRenderer:
    """Lay out an animation.

    Parameters
    ----------
    progress : callable
        Called once with the number of frames; an exception that it raises cancels the work.

    Raises
    ------
    InputError
        If the animation has too many steps or too many pixels.
    """
    check_animation_size(figure_settings)
    played = _animation_view(snapshot, figure_settings)
    film = plan_animation(
        snapshot.run.trace, figure_settings.film, tour_focus_row(snapshot.run, played)
    )
    progress(0, len(film))
    figure_settings = _enlarge_page(figure_settings)
    ratio = animation_pixel_ratio(figure_settings)
    figure_settings = replace(
        figure_settings,
        extent=FigureExtent.FLOW,
        has_marks=True,
        dpi=round(ratio * PIXELS_PER_INCH),
    )
    playhead = replace(played.playhead, place=film.position_of_frame(0))
    snapshot = replace(snapshot, view=replace(played, playhead=playhead))
    height = (figure_settings.height or 0) / figure_settings.scale
    room, figure, layout = fit_flow_to_height(
        snapshot, figure_settings, lambda figure: height - _margins_height(figure, figure_settings)
    )
    margins = _lay_out_margins(figure, figure_settings, layout.height)
    page = FigurePage(
        figure,
        layout,
        QSizeF(figure_settings.width, figure_settings.height or 0),
        scale=figure_settings.scale,
        at=QPointF(0, 0),
        title=QRectF(),
        panels=QRectF(0, margins.title_at.bottom(), layout.width, layout.height),
        caption=QRectF(),
        theme=PAPER_THEMES[figure_settings.paper],
        fits=True,
    )
    snapshot = replace(snapshot, view=replace(snapshot.view, room=room))
    return AnimationRenderer(
        snapshot, film, page, margins, _round_to_even_size(page.size * ratio), ratio
    )


def _enlarge_page(figure_settings: FigureSettings) -> FigureSettings:
    """Return settings with a page that has room for the board and its captions."""
    width_mm = figure_settings.width_mm
    height_mm = figure_settings.height_mm or width_mm * ASPECT_RATIO
    pixels_per_mm = PIXELS_PER_INCH / MM_PER_INCH / figure_settings.scale
    sides = zip(MIN_PAGE_PX, (width_mm, height_mm), strict=True)
    factor = max(1.0, *(least / (side * pixels_per_mm) for least, side in sides))
    return replace(figure_settings, width_mm=width_mm * factor, height_mm=height_mm * factor)


def check_animation_size(figure_settings: FigureSettings) -> None:
    """Raise `InputError` if a frame is larger than players support."""
    width, ratio = figure_settings.film.width, animation_pixel_ratio(figure_settings)
    height = round((figure_settings.height or 0) * ratio)
    if max(width, height) > MAX_SIDE_PX:
        size = f"{width:,} × {height:,} pixels" if height else f"{width:,} pixels wide"
        limit = f"An animation must be at most {MAX_SIDE_PX:,} pixels wide and high. It is {size}."
        raise InputError("size", f"{limit} Choose a smaller size.")


def _animation_view(snapshot: ExportSnapshot, figure_settings: FigureSettings) -> View:
    """Return the view to animate, without a comparison, a prediction or an enlarged stage."""
    film = figure_settings.film
    view = replace(
        snapshot.view,
        playhead=PlaybackState(grain=film.grain, speed=film.speed, is_playing=True),
        guess=None,
        comparison=None,
        spread=False,
        large=None,
        last_pinned=None,
    )
    return resolve_figure_view(
        replace(snapshot, view=view), replace(figure_settings, extent=FigureExtent.FLOW)
    ).view


def _margins_height(figure: FigureContent, figure_settings: FigureSettings) -> float:
    """Return the total height of the margins above and below the board, in pixels of the window."""
    return _lay_out_margins(figure, figure_settings, 0).caption_at.bottom()


def _lay_out_margins(
    figure: FigureContent, figure_settings: FigureSettings, board_height: float
) -> FrameMargins:
    """Lay out the margins above and below a board of the given height."""
    width = figure_settings.width / figure_settings.scale
    title_height = text_height(figure.title, 20, width)
    across = width - 2 * EDGE
    top = _round_to_pixels(title_height, figure_settings.pixel_ratio)
    words = QRectF(EDGE, top + board_height + SPACING_PX, across, caption_height())
    below = words.bottom() + EDGE / 2
    return FrameMargins(
        figure.title,
        QRectF(EDGE, 0, across, top),
        words,
        figure.caption,
        QRectF(EDGE, below, across, text_height(figure.caption, 12, width)),
        figure_settings.scale,
    )


def animation_pixel_ratio(figure_settings: FigureSettings) -> float:
    """Return the number of pixels per 1/96 inch of the page."""
    return figure_settings.film.width / figure_settings.width


def _round_to_pixels(length: float, pixel_ratio: float) -> float:
    return round(length * pixel_ratio) / pixel_ratio


def _round_to_even_size(size: QSizeF) -> tuple[int, int]:
    """Round the width and height to even numbers of pixels."""
    width, height = (max(1, math.ceil(side / 2 - 0.01)) for side in (size.width(), size.height()))
    return 2 * width, 2 * height
