"""Lays out the panels of a training film, as large as fits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from visualizer.export.figures.figure_page import text_height
from visualizer.lab.attention_view.layout import MAX_CELL_PX, SMALLEST, lay_out_layers
from visualizer.lab.snapshot_bar.paint import axis_height
from visualizer.lab.training_film.film_frames import TrainingFilmSettings
from visualizer.lab.training_film.frame_paint import SPACE, TrainingFilmFrames
from visualizer.widgets.fonts import metrics

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import BoardLayout
    from visualizer.lab.training_film.film_frames import TrainingFilm

SHAPES = (0.62, 0.8, 1.0)
"""Limits of height / width of the panels, tried until a panel has `WISHED` pixels."""
WISHED = 120
"""Preferred side of a panel in pixels; for smaller ones the film becomes higher."""
LARGER = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Factors by which the layout area is enlarged, and the panels then scaled down, to fit all."""


def lay_out_training_film(film: TrainingFilm) -> TrainingFilmFrames:
    """Lay out a film, with the same layout for all frames, as large as fits."""
    layout, shrunk = _best_layout(film)
    settings = film.settings
    top = math.ceil(text_height(settings.title, 20, settings.width))
    under = 3 * SPACE + metrics(14).height() + axis_height()
    high = top + layout.height * shrunk + under
    return TrainingFilmFrames(
        film, layout, shrunk, top, (_round_up_to_even(settings.width), _round_up_to_even(high))
    )


def _best_layout(film: TrainingFilm) -> tuple[BoardLayout, float]:
    """Find the largest cells with which all panels fit, in a film no higher than necessary."""
    wished = WISHED * film.settings.width / TrainingFilmSettings().width
    found: list[tuple[BoardLayout, float]] = []
    for shape in SHAPES:
        found.append(_fit_layout(film, shape))
        if _panel_side(*found[-1]) >= wished:
            break
    return max(found, key=lambda each: round(_panel_side(*each)))


def _panel_side(layout: BoardLayout, shrunk: float) -> float:
    return layout.slots[0].cells.width() * shrunk


def _fit_layout(film: TrainingFilm, shape: float) -> tuple[BoardLayout, float]:
    """Find the largest cells with which all panels fit; if none fit, everything is scaled down."""
    board, width = film.board(0), film.settings.width
    rows = board.heatmaps[0].side[0]
    for larger in LARGER:
        wide, ratio = width * larger, 1 / larger
        smallest = max(1, math.ceil(SMALLEST / rows * ratio))
        largest = max(smallest, int(min(MAX_CELL_PX, wide * shape / rows) * ratio))
        for pixels in range(largest, smallest - 1, -1):
            layout = lay_out_layers(board, wide, wide * shape, ratio, pixels * larger)
            if layout.width <= wide and layout.height <= wide * shape:
                return layout, ratio
    return layout, min(ratio, width / layout.width)


def _round_up_to_even(side: float) -> int:
    return 2 * math.ceil(side / 2 - 0.01)
