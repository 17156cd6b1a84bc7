"""What is asked for when something is exported: a format and a look, said and remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from visualizer.export.figure_settings import (
    MM_AN_INCH,
    PIXELS_AN_INCH,
    PRESETS,
    FigureExtent,
    FigurePaper,
    FigureSettings,
)
from visualizer.export.film_settings import WIDTHS, FilmSettings
from visualizer.export.formats import FORMATS, ExportFormat, FormatKind, format_of
from visualizer.export.option_parsing import LARGEST_DPI, SMALLEST_DPI
from visualizer.session.timeline import ORDER, SPEEDS
from visualizer.storage.json_coding import JsonCoding

EXTENTS = {
    FigureExtent.SHOWN: "What is shown",
    FigureExtent.PANEL: "One panel",
    FigureExtent.HEAD: "One head",
    FigureExtent.HEADS: "All heads",
    FigureExtent.STAGES: "All stages",
    FigureExtent.ALL: "All stages, all heads",
}
FILM_EXTENTS = {
    FigureExtent.SHOWN: "The heads that are shown",
    FigureExtent.HEAD: "One head",
    FigureExtent.HEADS: "All heads",
}
"""Of a film, whose stages are those of its steps."""
_HEADS_OF = {
    FigureExtent.PANEL: FigureExtent.HEAD,
    FigureExtent.STAGES: FigureExtent.SHOWN,
    FigureExtent.ALL: FigureExtent.HEADS,
}
PAPERS = {FigurePaper.PRINT: "For print", FigurePaper.LIGHT: "Light", FigurePaper.DARK: "Dark"}
OWN = "Own size"
"""What a look is called that has none of the presets' sizes."""
SHORTEST_MM, LONGEST_MM = 10.0, 5_000.0
LEAST_DPI, MOST_DPI = SMALLEST_DPI, LARGEST_DPI
LEAST_POINTS, MOST_POINTS = 3.0, 144.0
_SIZE = ("paper", "width_mm", "height_mm", "dpi", "points", "is_trimmed")
"""What a preset decides."""
_FILMS = ("extent", "paper", "points", "title", "has_caption", "has_marks", "film")
_FIGURES = (*_SIZE, "extent", "title", "has_caption", "has_marks", "carries_document")


class LengthUnit(StrEnum):
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
        return {
            LengthUnit.MM: 1.0,
            LengthUnit.INCH: MM_AN_INCH,
            LengthUnit.PIXEL: MM_AN_INCH / dpi,
        }[self]

    def written(self, mm: float, dpi: int) -> str:
        """Write a length as it is typed."""
        decimals = {LengthUnit.MM: 2, LengthUnit.INCH: 3, LengthUnit.PIXEL: 0}[self]
        text = f"{self.of(mm, dpi):.{decimals}f}"
        return text.rstrip("0").rstrip(".") if decimals else text


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """One way to export.

    Parameters
    ----------
    suffix : str
        Of one of the formats.
    """

    suffix: str = FORMATS[0].suffix
    look: FigureSettings = field(default_factory=FigureSettings)
    unit: LengthUnit = LengthUnit.MM

    @property
    def format(self) -> ExportFormat:
        """What is written."""
        return format_of(f"a{self.suffix}") or FORMATS[0]

    @property
    def deciding(self) -> frozenset[str]:
        """Name the fields of a look that decide what is written in this format."""
        by_kind = {
            FormatKind.FIGURE: _FIGURES,
            FormatKind.FILM: _FILMS,
            FormatKind.NUMBERS: (),
            FormatKind.DOCUMENT: (),
        }
        return frozenset(self.format.decided_by or by_kind[self.format.kind])

    @property
    def extents(self) -> dict[FigureExtent, str]:
        """What may be in it, in words."""
        return FILM_EXTENTS if self.format.kind is FormatKind.FILM else EXTENTS

    @property
    def asked(self) -> FigureSettings:
        """What is written: what was chosen, and the usual of what this format leaves no choice."""
        look = replace(
            FigureSettings(), **{name: getattr(self.look, name) for name in self.deciding}
        )
        if look.extent in self.extents:
            return look
        return replace(look, extent=_HEADS_OF[look.extent])


def preset_of(look: FigureSettings) -> str:
    """Name the preset whose size a look has."""
    return next((name for name, one in PRESETS.items() if _size(one) == _size(look)), OWN)


def sized_as(look: FigureSettings, preset: str) -> FigureSettings:
    """Give a look the size and the colours of a preset; what is shown of it stays."""
    return replace(look, **_size(PRESETS[preset])) if preset in PRESETS else look


def _size(look: FigureSettings) -> dict[str, Any]:
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

_CODING = JsonCoding(
    {}, {FigureSettings: frozenset({"title"}), FilmSettings: frozenset({"most_frames"})}
)  # a title is of one figure only


def settings_to_json(wish: ExportSettings) -> str:
    """Write a wish so that it can be read back."""
    return json.dumps(_CODING.encode(wish, ExportSettings, "wish", {}))


def settings_from_json(text: str) -> ExportSettings:
    """Read a wish; one of which anything is not understood is as usual."""
    try:
        found: ExportSettings = _CODING.decode(json.loads(text), ExportSettings, "wish", {})
    except (ValueError, RecursionError):
        return ExportSettings()
    is_known = any(each.suffix == found.suffix for each in FORMATS)
    return found if is_known and _is_possible(found.look) else ExportSettings()


def _is_possible(look: FigureSettings) -> bool:
    height = SHORTEST_MM if look.height_mm is None else look.height_mm
    return (
        SHORTEST_MM <= look.width_mm <= LONGEST_MM
        and SHORTEST_MM <= height <= LONGEST_MM
        and LEAST_DPI <= look.dpi <= MOST_DPI
        and LEAST_POINTS <= look.points <= MOST_POINTS
        and _is_film(look.film)
    )


def _is_film(film: FilmSettings) -> bool:
    if film.speed not in SPEEDS or film.width not in WIDTHS:
        return False
    if film.span is None:
        return True
    place, last = film.span
    is_placed = min(place.row, place.column) >= 0 and {place.stage, last} <= {*ORDER}
    return is_placed and ORDER.index(place.stage) <= ORDER.index(last)
