"""What is asked for when something is exported: a format and a look, said and remembered."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from visualizer.state.figure import MM_AN_INCH, PIXELS_AN_INCH, PRESETS, Extent, FigureLook, Paper
from visualizer.state.formats import FORMATS, Format, format_of

if TYPE_CHECKING:
    from collections.abc import Mapping

EXTENTS = {
    Extent.SHOWN: "What is shown",
    Extent.PANEL: "One panel",
    Extent.HEAD: "One head",
    Extent.HEADS: "All heads",
    Extent.STAGES: "All stages",
    Extent.ALL: "All stages, all heads",
}
PAPERS = {Paper.PRINT: "For print", Paper.LIGHT: "Light", Paper.DARK: "Dark"}
OWN = "Own size"
"""What a look is called that has none of the presets' sizes."""
SHORTEST_MM, LONGEST_MM = 10.0, 5_000.0
LEAST_DPI, MOST_DPI = 36, 2_400
LEAST_POINTS, MOST_POINTS = 3.0, 144.0
_SIZE = ("paper", "width_mm", "height_mm", "dpi", "points", "is_trimmed")
"""What a preset decides."""


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


def written(wish: Wish) -> str:
    """Write a wish so that it can be read back; a title is of one figure only."""
    return json.dumps(asdict(replace(wish, look=replace(wish.look, title=""))))


def read(text: str) -> Wish:
    """Read a wish; what is not understood is as usual."""
    try:
        parts = json.loads(text)
        look = _taken(FigureLook(), parts["look"])
        found = Wish(str(parts["suffix"]), look, Unit(parts["unit"]))
    except (ValueError, KeyError, TypeError):
        return Wish()
    return found if format_of(f"a{found.suffix}") and _is_possible(found.look) else Wish()


def _taken(look: FigureLook, parts: Mapping[str, Any]) -> FigureLook:
    known = {one.name: parts[one.name] for one in fields(look) if one.name in parts}
    kinds = {"extent": Extent, "paper": Paper, "dpi": int, "width_mm": float, "points": float}
    known |= {name: kind(known[name]) for name, kind in kinds.items() if name in known}
    if known.get("height_mm") is not None:
        known["height_mm"] = float(known["height_mm"])
    return replace(look, **known)


def _is_possible(look: FigureLook) -> bool:
    height = SHORTEST_MM if look.height_mm is None else look.height_mm
    return (
        SHORTEST_MM <= look.width_mm <= LONGEST_MM
        and SHORTEST_MM <= height <= LONGEST_MM
        and LEAST_DPI <= look.dpi <= MOST_DPI
        and LEAST_POINTS <= look.points <= MOST_POINTS
    )
