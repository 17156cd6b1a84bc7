"""Settings of a figure: which panels it shows, its size, paper colours and text."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from visualizer.brief_repr import brief_repr
from visualizer.export.film_settings import FilmSettings

MM_PER_INCH = 25.4
PIXELS_PER_INCH = 96
DEFAULT_POINTS = 9.0
"""Text size of the window in points (12 pixels)."""
MIN_SIDE_MM, MAX_SIDE_MM = 10.0, 5_000.0
MIN_DPI, MAX_DPI = 36, 2_400
MIN_POINTS, MAX_POINTS = 3.0, 144.0


class FigureExtent(StrEnum):
    """The panels that a figure includes."""

    SHOWN = "shown"
    PANEL = "panel"
    HEAD = "head"
    HEADS = "heads"
    STAGES = "stages"
    ALL = "all"
    CELLS = "cells"
    """One panel with one pixel per cell; formats other than PNG treat it as `PANEL`."""


class FigurePaper(StrEnum):
    """The colours of a figure."""

    PRINT = "print"
    LIGHT = "light"
    DARK = "dark"


class FigureSettings(Struct, frozen=True):
    """The settings of a figure.

    Parameters
    ----------
    width_mm : float
        The width; a trimmed figure is as wide as its panels, laid out for this width.
    height_mm : float or None
        The height; None to fit the content.
    dpi : int
        Pixels per inch, for raster formats.
    points : float
        The text size in points.
    is_trimmed : bool
        Whether empty margins are removed.
    title : str
        The title over the panels; may be empty.
    has_caption : bool
        Whether a caption describes the computation.
    has_marks : bool
        Whether the pinned cell and the chosen tokens are marked.
    film : FilmSettings
        What a film shows, for animated formats.
    carries_document : bool
        Whether the document is attached to the file.
    has_all_layers : bool
        Whether the attached document has all layers of captured attention instead of only the
        values that the figure shows.
    """

    extent: FigureExtent = FigureExtent.SHOWN
    paper: FigurePaper = FigurePaper.PRINT
    width_mm: float = 1280 / PIXELS_PER_INCH * MM_PER_INCH
    height_mm: float | None = None
    dpi: int = 192
    points: float = DEFAULT_POINTS
    is_trimmed: bool = True
    title: str = ""
    has_caption: bool = True
    has_marks: bool = True
    film: FilmSettings = field(default_factory=FilmSettings)
    carries_document: bool = True
    has_all_layers: bool = False

    __repr__ = brief_repr

    @property
    def width(self) -> float:
        """Its width in pixels of 1/96 inch."""
        return self.width_mm / MM_PER_INCH * PIXELS_PER_INCH

    @property
    def height(self) -> float | None:
        """Its height in pixels of 1/96 inch; None to fit the content."""
        return None if self.height_mm is None else self.height_mm / MM_PER_INCH * PIXELS_PER_INCH

    @property
    def enlarged(self) -> float:
        """The scale relative to the window."""
        return self.points / DEFAULT_POINTS

    @property
    def pixel_ratio(self) -> float:
        """Pixels of the file per pixel of the window."""
        return self.dpi / PIXELS_PER_INCH * self.enlarged


FIGURE_PRESETS: dict[str, FigureSettings] = {
    "As in the window": FigureSettings(),
    "Paper column": FigureSettings(width_mm=85, dpi=600, points=7, is_trimmed=False),
    "Paper page": FigureSettings(width_mm=178, dpi=600, points=8, is_trimmed=False),
    "Slide": FigureSettings(
        paper=FigurePaper.LIGHT,
        width_mm=338.667,
        height_mm=190.5,
        dpi=144,
        points=14,
        is_trimmed=False,
    ),
    "Poster": FigureSettings(width_mm=594, dpi=300, points=24, is_trimmed=False),
}
"""Common figure sizes by purpose."""
