"""Settings of a figure: which panels it shows, its size, paper colours and text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from visualizer.export.film_settings import FilmSettings

MM_AN_INCH = 25.4
PIXELS_AN_INCH = 96
USUAL_POINTS = 9.0
"""The size of the window's usual text: 12 pixels."""


class FigureExtent(StrEnum):
    """Which of the panels are in a figure."""

    SHOWN = "shown"
    PANEL = "panel"
    HEAD = "head"
    HEADS = "heads"
    STAGES = "stages"
    ALL = "all"


class FigurePaper(StrEnum):
    """The colours of a figure."""

    PRINT = "print"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class FigureSettings:
    """How a figure looks.

    Parameters
    ----------
    width_mm : float
        Its width; one that is trimmed is as wide as its panels, laid out for this width.
    height_mm : float or None
        Its height; None for as high as it takes.
    dpi : int
        Pixels an inch, of formats that have pixels.
    points : float
        The size of its text.
    is_trimmed : bool
        Whether paper that nothing is on is left away.
    title : str
        What stands over it; nothing where empty.
    has_caption : bool
        Whether what was computed stands under it.
    has_marks : bool
        Whether the pinned cell and the chosen tokens are marked.
    film : FilmLook
        What of playback is shown, of formats that move.
    carries_document : bool
        Whether its file opens as the document that it was made of.
    """

    extent: FigureExtent = FigureExtent.SHOWN
    paper: FigurePaper = FigurePaper.PRINT
    width_mm: float = 1280 / PIXELS_AN_INCH * MM_AN_INCH
    height_mm: float | None = None
    dpi: int = 192
    points: float = USUAL_POINTS
    is_trimmed: bool = True
    title: str = ""
    has_caption: bool = True
    has_marks: bool = True
    film: FilmSettings = field(default_factory=FilmSettings)
    carries_document: bool = True

    @property
    def width(self) -> float:
        """Its width in pixels of 1/96 inch."""
        return self.width_mm / MM_AN_INCH * PIXELS_AN_INCH

    @property
    def height(self) -> float | None:
        """Its height in pixels of 1/96 inch; None for as high as it takes."""
        return None if self.height_mm is None else self.height_mm / MM_AN_INCH * PIXELS_AN_INCH

    @property
    def enlarged(self) -> float:
        """How much larger than in the window everything is drawn."""
        return self.points / USUAL_POINTS

    @property
    def pixel_ratio(self) -> float:
        """How many pixels of the file a pixel of the window becomes."""
        return self.dpi / PIXELS_AN_INCH * self.enlarged


PRESETS: dict[str, FigureSettings] = {
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
"""Sizes that are often asked for, by what they are for."""
