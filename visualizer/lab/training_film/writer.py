"""Animations of training: lays out, paints and writes the frames, one per saved step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureTheme
from visualizer.export.figures.figure_page import PAPER_THEMES, paint_text, text_height
from visualizer.export.figures.rasterization import create_image, image_pixels
from visualizer.export.film_plan import round_step_durations
from visualizer.export.films.film_writer import write_frames
from visualizer.export.formats import (
    FORMATS,
    FormatKind,
    format_of_file,
    list_suffixes,
    unavailable_reason,
)
from visualizer.heatmap import panel_margins_paint, panel_paint
from visualizer.lab.attention_view.layout import (
    MARGIN,
    MAX_CELL_PX,
    MIN_PATTERN_SIDE_PX,
    lay_out_layers,
)
from visualizer.lab.attention_view.presenter import (
    ATTENTION_MISSING,
    create_board,
    find_layer_ranges,
)
from visualizer.lab.snapshot_bar.paint import SnapshotAxis, axis_height
from visualizer.lab.snapshot_bar.presenter import SnapshotTimeline, present_snapshots
from visualizer.optional_packages import PACKAGE_FIELD as MISSING_PACKAGE
from visualizer.progress import Progress, ignore_progress
from visualizer.session.view_options import ColourOptions
from visualizer.storage import atomic_file
from visualizer.widgets.fonts import font_metrics, scaled_font

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import numpy as np

    from visualizer.export.formats import ExportFormat
    from visualizer.heatmap.board import Board
    from visualizer.heatmap.board_layout import BoardLayout
    from visualizer.heatmap.colour_range import AutomaticColourRange
    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.lab.training.loss_history import MeasuredLoss
    from visualizer.language.training_settings import ModelKind

TrainingAndValidationLoss = tuple["MeasuredLoss | None", "MeasuredLoss | None"]
"""The training and the validation loss; None if they are unknown."""


class TrainingFilmSettings(Struct, frozen=True):
    """The settings of a training animation.

    Parameters
    ----------
    ms : float
        Duration of each step, in milliseconds.
    width : int
        Width of the animation, in pixels.
    title : str
        The title above the panels.
    """

    ms: float = 300.0
    loops: bool = True
    width: int = 1280
    title: str = ""
    paper: FigureTheme = FigureTheme.LIGHT
    colouring: ColourOptions = field(default_factory=ColourOptions)


class TrainingFilm(Struct, frozen=True, eq=False):
    """The frames of an animation, one per step; created by `create_training_film`."""

    results: tuple[ProbeResult, ...]
    model: ModelKind | None
    now: int
    losses: Mapping[int, TrainingAndValidationLoss]
    settings: TrainingFilmSettings
    ranges: tuple[AutomaticColourRange, ...]

    def __len__(self) -> int:
        return len(self.results)

    def board_of_frame(self, frame: int) -> Board:
        """Return the panels of a frame; all frames have the same colour scale."""
        return create_board(
            self.results[frame], self.model, colouring=self.settings.colouring, ranges=self.ranges
        )

    def timeline_of_frame(self, frame: int) -> SnapshotTimeline:
        """Return the snapshot bar of a frame, with a description of its step and losses."""
        step = self.results[frame].step
        steps = (result.step for result in self.results)
        losses = self.losses.get(step, (None, None))
        is_recorded = self.model is None
        return present_snapshots(steps, self.now, step, *losses, is_recorded=is_recorded)


def create_training_film(
    results: Iterable[ProbeResult],
    model: ModelKind | None,
    now: int,
    losses: Mapping[int, TrainingAndValidationLoss],
    settings: TrainingFilmSettings | None = None,
) -> TrainingFilm:
    """Create an animation from probe results.

    Parameters
    ----------
    results : iterable of ProbeResult
        The results for a text at different saved steps, in any order.
    model : ModelKind or None
        None for a recorded model.
    now : int
        Number of completed steps.
    losses : mapping
        The losses, keyed by step, if they are known.

    Raises
    ------
    InputError
        If `results` is empty.
    """
    ordered = tuple(sorted(results, key=lambda result: result.step))
    if not ordered:
        sentence = "This run has no snapshots yet. Train for more steps."
        raise InputError("export", sentence)
    if any(result.weights is None for result in ordered):
        raise InputError("export", ATTENTION_MISSING)
    if len({result.tokens for result in ordered}) > 1:
        raise InputError(
            "export", "The text changed during the export. Export the animation again."
        )
    ranges = find_layer_ranges(ordered, model)
    return TrainingFilm(ordered, model, now, losses, settings or TrainingFilmSettings(), ranges)


SAMPLED_FRAMES = 5
SPACING_PX = 8


class TrainingFilmFrames(Struct, frozen=True, eq=False):
    """The frames of an animation, with their layout.

    Parameters
    ----------
    layout : BoardLayout
        The layout of the panels, which is the same in every frame.
    scale_factor : float
        Scale of the panels, relative to that in the window.
    top : float
        The y coordinate at which the panels start, in pixels of the animation.
    """

    film: TrainingFilm
    layout: BoardLayout
    scale_factor: float
    top: float
    size: tuple[int, int]

    def __len__(self) -> int:
        return len(self.film)

    def frame_durations(self, unit_ms: int) -> tuple[int, ...]:
        """Return the number of time units for which each frame is shown."""
        ends = [self.film.settings.ms * (frame + 1) for frame in range(len(self))]
        return round_step_durations(ends, unit_ms)

    def sample_frames(self) -> list[int]:
        """Return the indices of a few frames that are spread over the training."""
        last = len(self) - 1
        return sorted({round(last * part / (SAMPLED_FRAMES - 1)) for part in range(SAMPLED_FRAMES)})

    def frame_pixels(self, frame: int) -> np.ndarray:
        """Paint a frame, and return its pixels as 0xrrggbb, uint32 [row, column]."""
        return image_pixels(self.paint_frame(frame))

    def paint_frame(self, frame: int) -> QImage:
        image, settings = create_image(*self.size), self.film.settings
        theme = PAPER_THEMES[settings.paper]
        image.fill(QColor(theme.paper))
        painter = QPainter(image)
        titled = QRectF(MARGIN, MARGIN / 2, settings.width - 2 * MARGIN, self.top)
        paint_text(painter, titled, settings.title, 20, theme.ink)
        self._paint_panels(painter, frame)
        scrub = self.film.timeline_of_frame(frame)
        line = font_metrics(14).height()
        under = self.top + self.layout.height * self.scale_factor + SPACING_PX
        painter.setFont(scaled_font(14))
        painter.setPen(QColor(theme.ink))
        painter.drawText(QPointF(MARGIN, under + font_metrics(14).ascent()), scrub.description)
        painter.translate(MARGIN, under + line + SPACING_PX)
        SnapshotAxis(scrub, settings.width - 2 * MARGIN).paint(painter, theme)
        painter.end()
        return image

    def _paint_panels(self, painter: QPainter, frame: int) -> None:
        theme = PAPER_THEMES[self.film.settings.paper]
        painter.save()
        painter.translate(self.left, self.top)
        painter.scale(self.scale_factor, self.scale_factor)
        panels = {(one.layer, one.head): one for one in self.film.board_of_frame(frame).heatmaps}
        for slot in self.layout.slots:
            panel = panels[slot.heatmap.layer, slot.heatmap.head]
            panel_paint.paint_panel(painter, replace(slot, heatmap=panel), theme)
        panel_margins_paint.paint_column_headers(painter, self.layout.column_headers, theme)
        painter.restore()

    @property
    def left(self) -> float:
        """The x coordinate at which the centred panels start, in whole pixels."""
        return max(0, round((self.film.settings.width - self.layout.width * self.scale_factor) / 2))


ASPECT_RATIO_LIMITS = (0.62, 0.8, 1.0)
"""Maximum ratios of height to width, tried until panels have at least the preferred size."""
PREFERRED_SIDE_PX = 120
"""Preferred side length of a panel, in pixels; if panels would be smaller, the image is higher."""
ENLARGEMENT_FACTORS = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Factors by which the area is enlarged so that all panels fit; the panels are then scaled down."""


def lay_out_training_film(film: TrainingFilm) -> TrainingFilmFrames:
    """Lay out the frames of an animation; all frames have the same layout."""
    layout, shrunk = _best_layout(film)
    settings = film.settings
    top = math.ceil(text_height(settings.title, 20, settings.width))
    under = 3 * SPACING_PX + font_metrics(14).height() + axis_height()
    high = top + layout.height * shrunk + under
    return TrainingFilmFrames(
        film, layout, shrunk, top, (_round_up_to_even(settings.width), _round_up_to_even(high))
    )


def _best_layout(film: TrainingFilm) -> tuple[BoardLayout, float]:
    """Return the layout with the largest panels, in an image that is no higher than necessary."""
    wished = PREFERRED_SIDE_PX * film.settings.width / TrainingFilmSettings().width
    found: list[tuple[BoardLayout, float]] = []
    for shape in ASPECT_RATIO_LIMITS:
        found.append(_fit_layout(film, shape))
        if _panel_side(*found[-1]) >= wished:
            break
    return max(found, key=lambda each: round(_panel_side(*each)))


def _panel_side(layout: BoardLayout, shrunk: float) -> float:
    return layout.slots[0].cells.width() * shrunk


def _fit_layout(film: TrainingFilm, shape: float) -> tuple[BoardLayout, float]:
    """Find the largest cells with which all panels fit; if none fit, scale everything down."""
    board, width = film.board_of_frame(0), film.settings.width
    rows = board.heatmaps[0].side[0]
    for larger in ENLARGEMENT_FACTORS:
        wide, ratio = width * larger, 1 / larger
        smallest = max(1, math.ceil(MIN_PATTERN_SIDE_PX / rows * ratio))
        largest = max(smallest, int(min(MAX_CELL_PX, wide * shape / rows) * ratio))
        for pixels in range(largest, smallest - 1, -1):
            layout = lay_out_layers(board, wide, wide * shape, ratio, pixels * larger)
            if layout.width <= wide and layout.height <= wide * shape:
                return layout, ratio
    return layout, min(ratio, width / layout.width)


def _round_up_to_even(side: float) -> int:
    return 2 * math.ceil(side / 2 - 0.01)


def write_training_film(
    path: Path, film: TrainingFilm, progress: Progress = ignore_progress
) -> Path:
    """Write an animation in the format that the file's suffix specifies.

    Parameters
    ----------
    progress : callable
        Called with the number of frames that have been written; if it raises an exception, the
        export is cancelled.

    Raises
    ------
    InputError
        If the format is not an animation format, or if the file cannot be written.
    """
    suffix, frames = film_format(path).suffix, lay_out_training_film(film)
    atomic_file.write_atomically(
        path, lambda file: write_frames(suffix, frames, film.settings.loops, file, progress)
    )
    return path


def film_format(path: Path) -> ExportFormat:
    """Return the animation format for a file's suffix.

    Raises
    ------
    InputError
        If the format is not an animation format, or if a package for it is missing.
    """
    found = format_of_file(path.name)
    films = tuple(one for one in FORMATS if one.kind is FormatKind.FILM)
    if found not in films:
        sentence = f"“{path.suffix}” is not a supported animation format."
        raise InputError("export", f"{sentence} Use {list_suffixes(films)}.")
    if reason := unavailable_reason(found.suffix):
        raise InputError(MISSING_PACKAGE, reason)
    return found
