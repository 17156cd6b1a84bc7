"""What is asked for when something is exported: a format and a look, said and remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from visualizer.disk.coding import Coding
from visualizer.state.asked.figures import LARGEST_DPI, SMALLEST_DPI
from visualizer.state.figure import MM_AN_INCH, PIXELS_AN_INCH, PRESETS, Extent, FigureLook, Paper
from visualizer.state.film import WIDTHS, FilmLook
from visualizer.state.formats import FORMATS, Format, Kind, format_of
from visualizer.state.playback.timeline import ORDER, SPEEDS

EXTENTS = {
    Extent.SHOWN: "What is shown",
    Extent.PANEL: "One panel",
    Extent.HEAD: "One head",
    Extent.HEADS: "All heads",
    Extent.STAGES: "All stages",
    Extent.ALL: "All stages, all heads",
}
FILM_EXTENTS = {
    Extent.SHOWN: "The heads that are shown",
    Extent.HEAD: "One head",
    Extent.HEADS: "All heads",
}
"""Of a film, whose stages are those of its steps."""
_HEADS_OF = {
    Extent.PANEL: Extent.HEAD,
    Extent.STAGES: Extent.SHOWN,
    Extent.ALL: Extent.HEADS,
}
PAPERS = {Paper.PRINT: "For print", Paper.LIGHT: "Light", Paper.DARK: "Dark"}
OWN = "Own size"
"""What a look is called that has none of the presets' sizes."""
SHORTEST_MM, LONGEST_MM = 10.0, 5_000.0
LEAST_DPI, MOST_DPI = SMALLEST_DPI, LARGEST_DPI
LEAST_POINTS, MOST_POINTS = 3.0, 144.0
_SIZE = ("paper", "width_mm", "height_mm", "dpi", "points", "is_trimmed")
"""What a preset decides."""
_DECIDE = {
    ".html": ("extent", "paper", "title", "has_caption", "has_marks", "carries_document"),
    ".csv": ("extent",),
    ".md": ("extent",),
}
_FILMS = ("extent", "paper", "points", "title", "has_caption", "has_marks", "film")
_FIGURES = (*_SIZE, "extent", "title", "has_caption", "has_marks", "carries_document")


class Unit(StrEnum):
    """What lengths are given in."""

    MM = "mm"
    INCH = "inch"
    PIXEL = "px"

    def of(self, mm: float, dpi: int) -> float:
        """Give a length in this unit, in pixels of the file where they are it."""
        return mm / self._mm(dpi)

    def mm(self, length: float, dpi: int) -> float:
        """Give in mm what is a length in this unit."""
        return length * self._mm(dpi)

    def _mm(self, dpi: int) -> float:
        return {Unit.MM: 1.0, Unit.INCH: MM_AN_INCH, Unit.PIXEL: MM_AN_INCH / dpi}[self]

    def written(self, mm: float, dpi: int) -> str:
        """Write a length as it is typed."""
        decimals = {Unit.MM: 2, Unit.INCH: 3, Unit.PIXEL: 0}[self]
        text = f"{self.of(mm, dpi):.{decimals}f}"
        return text.rstrip("0").rstrip(".") if decimals else text


@dataclass(frozen=True, slots=True)
class Wish:
    """One way to export.

    Parameters
    ----------
    suffix : str
        Of one of the formats.
    """

    suffix: str = FORMATS[0].suffix
    look: FigureLook = field(default_factory=FigureLook)
    unit: Unit = Unit.MM

    @property
    def format(self) -> Format:
        """What is written."""
        return format_of(f"a{self.suffix}") or FORMATS[0]

    @property
    def deciding(self) -> frozenset[str]:
        """Name the fields of a look that decide what is written in this format."""
        by_kind = {Kind.FIGURE: _FIGURES, Kind.FILM: _FILMS, Kind.NUMBERS: (), Kind.DOCUMENT: ()}
        return frozenset(_DECIDE.get(self.suffix, by_kind[self.format.kind]))

    @property
    def extents(self) -> dict[Extent, str]:
        """What may be in it, in words."""
        return FILM_EXTENTS if self.format.kind is Kind.FILM else EXTENTS

    @property
    def asked(self) -> FigureLook:
        """What is written: what was chosen, and the usual of what this format leaves no choice."""
        look = replace(FigureLook(), **{name: getattr(self.look, name) for name in self.deciding})
        if look.extent in self.extents:
            return look
        return replace(look, extent=_HEADS_OF[look.extent])


def preset_of(look: FigureLook) -> str:
    """Name the preset whose size a look has."""
    return next((name for name, one in PRESETS.items() if _size(one) == _size(look)), OWN)


def sized_as(look: FigureLook, preset: str) -> FigureLook:
    """Give a look the size and the colours of a preset; what is shown of it stays."""
    return replace(look, **_size(PRESETS[preset])) if preset in PRESETS else look


def _size(look: FigureLook) -> dict[str, Any]:
    return {name: getattr(look, name) for name in _SIZE}


def size_in_words(width: float, height: float, dpi: float | None) -> str:
    """Say how large a figure is.

    Parameters
    ----------
    width, height : float
        In pixels of 1/96 inch.
    dpi : float or None
        Pixels an inch of the file; None where it has none.
    """
    mm = MM_AN_INCH / PIXELS_AN_INCH
    words = f"{width * mm:,.0f} × {height * mm:,.0f} mm"
    if dpi is None:
        return words
    ratio = dpi / PIXELS_AN_INCH
    return f"{words} · {round(width * ratio):,} × {round(height * ratio):,} pixels"


# -------------------------------------------------------------------------------- remembered

_CODING = Coding(
    {}, {FigureLook: frozenset({"title"}), FilmLook: frozenset({"most_frames"})}
)  # a title is of one figure only


def written(wish: Wish) -> str:
    """Write a wish so that it can be read back."""
    return json.dumps(_CODING.encode(wish, Wish, "wish", {}))


def read(text: str) -> Wish:
    """Read a wish; one of which anything is not understood is as usual."""
    try:
        found: Wish = _CODING.decode(json.loads(text), Wish, "wish", {})
    except (ValueError, RecursionError):
        return Wish()
    is_known = any(each.suffix == found.suffix for each in FORMATS)
    return found if is_known and _is_possible(found.look) else Wish()


def _is_possible(look: FigureLook) -> bool:
    height = SHORTEST_MM if look.height_mm is None else look.height_mm
    return (
        SHORTEST_MM <= look.width_mm <= LONGEST_MM
        and SHORTEST_MM <= height <= LONGEST_MM
        and LEAST_DPI <= look.dpi <= MOST_DPI
        and LEAST_POINTS <= look.points <= MOST_POINTS
        and _is_film(look.film)
    )


def _is_film(film: FilmLook) -> bool:
    if film.speed not in SPEEDS or film.width not in WIDTHS:
        return False
    if film.span is None:
        return True
    place, last = film.span
    is_placed = min(place.row, place.column) >= 0 and {place.stage, last} <= {*ORDER}
    return is_placed and ORDER.index(place.stage) <= ORDER.index(last)
