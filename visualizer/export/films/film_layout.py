"""Lays out the frames of a film of the computation on pages of one size.

The panels of all stages have the same cell size and origin, so that nothing jumps between stages.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF, QSizeF

from visualizer.errors import InputError
from visualizer.export.figure_settings import (
    PIXELS_PER_INCH,
    FigureExtent,
    FigureSettings,
    FilmPanelChoice,
    resolve_figure_view,
)
from visualizer.export.figures.figure_page import (
    PAPER_THEMES,
    FigureContent,
    FigurePage,
    figure_content,
    text_height,
)
from visualizer.export.film_plan import FilmPlan, plan_film
from visualizer.export.films.animation_frames import AnimationFrames, FrameMargins, caption_height
from visualizer.heatmap.board_arrangement import EDGE
from visualizer.heatmap.board_placement import lay_out_board
from visualizer.progress import Progress, no_progress
from visualizer.session.resolved_view import resolve_view, toured_cell
from visualizer.session.timeline import PlaybackPosition, Playhead

if TYPE_CHECKING:
    from visualizer.heatmap.board import Board
    from visualizer.heatmap.board_layout import BoardLayout
    from visualizer.session.exportable_snapshot import Snapshot
    from visualizer.session.view import View

DEFAULT_MAX_ASPECT_RATIO = 0.7
"""Largest height / width without a given height, so that numbers are readable."""
TALL_MAX_ASPECT_RATIO = 1.25
"""Largest height / width without a given height for many heads below each other."""
MAX_SIDE_PX = 4096
"""Maximum side of a film in pixels that common players support."""
SPACING_PX = 8


def lay_out_film(
    snapshot: Snapshot, figure_settings: FigureSettings, progress: Progress = no_progress
) -> AnimationFrames:
    """Lay a film out.

    Parameters
    ----------
    progress : callable
        Called at each stage; an exception that it raises cancels the work.

    Raises
    ------
    InputError
        When the film has too many steps, or too many pixels.
    """
    played = _played_view(snapshot, figure_settings)
    chosen = toured_cell(snapshot.run, played)
    full_row = chosen.place[-2] if chosen else None
    film = plan_film(snapshot.run.trace, figure_settings.film, full_row)
    page_height = figure_settings.height
    height = figure_settings.height_mm or figure_settings.width_mm * DEFAULT_MAX_ASPECT_RATIO
    check_film_size(figure_settings)
    figure_settings = replace(
        figure_settings,
        dpi=round(film_pixel_ratio(figure_settings) * PIXELS_PER_INCH),
        height_mm=height,
    )
    snapshot = replace(snapshot, view=played)

    def report_stage(done: int, of: int) -> None:
        progress(0, len(film))

    figures = _read_figures(snapshot, film, figure_settings, report_stage)
    layouts = _lay_out_stages(figures, figure_settings, report_stage)
    return _place_stages(snapshot, film, figures, layouts, figure_settings, page_height)


def check_film_size(figure_settings: FigureSettings) -> None:
    """Raise `InputError` if a side has more pixels than players support."""
    width, ratio = figure_settings.film.width, film_pixel_ratio(figure_settings)
    height = round((figure_settings.height or 0) * ratio)
    if max(width, height) > MAX_SIDE_PX:
        size = f"{width:,} × {height:,}" if height else f"{width:,} pixels wide"
        limit = f"An animation must be at most {MAX_SIDE_PX:,} pixels wide and high. It is {size}."
        raise InputError("size", f"{limit} Choose a smaller size.")


def _played_view(snapshot: Snapshot, figure_settings: FigureSettings) -> View:
    """Return the view to play: the figure's heads, without comparison or large panel."""
    view = replace(
        snapshot.view,
        playhead=Playhead(),
        last_pinned=None,
        guess=None,
        comparison=None,
        spread=False,
        large=None,
        flow=False,
    )
    view = resolve_figure_view(replace(snapshot, view=view), figure_settings).view
    film = figure_settings.film
    playhead = Playhead(grain=film.grain, speed=film.speed, is_playing=True)
    return replace(view, playhead=playhead, folds=frozenset())


def _read_figures(
    snapshot: Snapshot, film: FilmPlan, figure_settings: FigureSettings, progress: Progress
) -> dict[str, FigureContent]:
    """Read the panels of each stage; if all stages are shown, all share one figure."""
    rows = len(resolve_view(snapshot.document, snapshot.view, snapshot.run).drawn_heads)
    # All heads must be visible at once.
    height = (figure_settings.height_mm or figure_settings.width_mm) / rows
    figure_settings = replace(
        figure_settings, extent=FigureExtent.SHOWN, has_marks=True, height_mm=height
    )
    if figure_settings.film.panels is FilmPanelChoice.SPAN:
        reads = (snapshot.run.trace.stage(stage).reads for stage in film.stages)
        stages = frozenset({*film.stages, *(name for names in reads for name in names)})
        figure = figure_content(
            replace(snapshot, view=replace(snapshot.view, stages=stages)), figure_settings
        )
        return dict.fromkeys(film.stages, figure)
    figures = {}
    for stage in film.stages:
        progress(0, 1)
        playhead = replace(snapshot.view.playhead, place=PlaybackPosition(stage))
        figures[stage] = figure_content(
            replace(snapshot, view=replace(snapshot.view, playhead=playhead)), figure_settings
        )
    return figures


def _place_stages(
    snapshot: Snapshot,
    film: FilmPlan,
    figures: dict[str, FigureContent],
    layouts: dict[str, BoardLayout],
    figure_settings: FigureSettings,
    page_height: float | None,
) -> AnimationFrames:
    """Reserve the area of the largest panels for every stage.

    Parameters
    ----------
    page_height : float or None
        The height of the page; None to fit the content.
    """
    first, width = next(iter(figures.values())), figure_settings.width / figure_settings.scale
    panels_width = max(layout.width for layout in layouts.values())
    panels_height = max(layout.height for layout in layouts.values())
    available = _panel_room(first, figure_settings)
    if page_height is None:
        tall = available + width * (TALL_MAX_ASPECT_RATIO - DEFAULT_MAX_ASPECT_RATIO)
        available = max(available, min(panels_height, tall))
    scale = max(0.01, min(1.0, width / panels_width, available / panels_height))
    margins = _lay_out_margins(first, figure_settings, panels_height * scale)
    left = _round_to_pixels((width - panels_width * scale) / 2, figure_settings.pixel_ratio)
    top = margins.words.top() - SPACING_PX - panels_height * scale
    bottom = margins.caption_at.bottom() * figure_settings.scale
    size = QSizeF(figure_settings.width, page_height or bottom)
    pages = {
        stage: FigurePage(
            replace(figure, title="", caption=""),
            layouts[stage],
            size,
            scale=figure_settings.scale * scale,
            at=QPointF(0, 0),
            title=QRectF(),
            panels=QRectF(left / scale, top / scale, panels_width, panels_height),
            caption=QRectF(),
            theme=PAPER_THEMES[figure_settings.paper],
            fits=True,
        )
        for stage, figure in figures.items()
    }
    ratio = film_pixel_ratio(figure_settings)
    return AnimationFrames(snapshot, film, pages, margins, _even_size(size * ratio), ratio)


def _panel_room(figure: FigureContent, figure_settings: FigureSettings) -> float:
    """Return the height available to panels, in pixels of the window."""
    margins = _lay_out_margins(figure, figure_settings, 0)
    return (figure_settings.height or 0) / figure_settings.scale - margins.caption_at.bottom()


def _lay_out_margins(
    figure: FigureContent, figure_settings: FigureSettings, panels: float
) -> FrameMargins:
    """Lay out the margins above and below panels of a given height."""
    width = figure_settings.width / figure_settings.scale
    title_height = text_height(figure.title, 20, width)
    across = width - 2 * EDGE
    top = _round_to_pixels(title_height, figure_settings.pixel_ratio) + panels + SPACING_PX
    below = top + caption_height()
    return FrameMargins(
        figure.title,
        QRectF(EDGE, EDGE / 2, across, title_height),
        QRectF(EDGE, top, across, caption_height()),
        figure.caption,
        QRectF(EDGE, below, across, text_height(figure.caption, 12, width)),
        figure_settings.scale,
    )


def film_pixel_ratio(figure_settings: FigureSettings) -> float:
    """Return the pixels of the film for 1/96 inch of its page."""
    return figure_settings.film.width / figure_settings.width


def _round_to_pixels(length: float, pixel_ratio: float) -> float:
    return round(length * pixel_ratio) / pixel_ratio


def _even_size(size: QSizeF) -> tuple[int, int]:
    """Round a size to even numbers of pixels."""
    width, height = (max(1, math.ceil(side / 2 - 0.01)) for side in (size.width(), size.height()))
    return 2 * width, 2 * height


def _lay_out_stages(
    figures: dict[str, FigureContent], figure_settings: FigureSettings, progress: Progress
) -> dict[str, BoardLayout]:
    """Lay all stages out with the same cell size, the largest that fits all.

    Panels that are pooled differently have cell sizes as close as whole pixels allow.
    """
    width, ratio = figure_settings.width / figure_settings.scale, figure_settings.pixel_ratio
    height = _panel_room(next(iter(figures.values())), figure_settings)
    boards = [*{figure.board: None for figure in figures.values()}]
    cell = math.inf
    while True:
        layouts: dict[Board, BoardLayout] = {}
        for board in boards:
            progress(0, 1)
            layouts[board] = lay_out_board(board, width, height, ratio, cell)
        sides = [_token_side(board, layout) for board, layout in layouts.items()]
        if min(sides) > min(cell, max(sides)) - 1e-6:
            break
        cell = min(sides)  # another arrangement may be better only with smaller cells
    return {stage: layouts[figure.board] for stage, figure in figures.items()}


def _token_side(board: Board, layout: BoardLayout) -> float:
    """Return the side that a token would have in a layout's panels without zoom and pooling."""
    tokens = max(
        len(axis.labels)
        for heatmap in board.heatmaps
        for axis in (heatmap.rows, heatmap.columns)
        if axis.is_token
    )
    assert layout.place_panels is not None
    assert layout.place_panels.arrangement is not None  # no panel of a film is large
    return layout.place_panels.arrangement.side / tokens
