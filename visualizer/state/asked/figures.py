"""Figures that are asked for: how large, in which colours, with what around them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from visualizer.attention.spec import InputError
from visualizer.state.figure import MM_AN_INCH, PRESETS, Extent, FigureLook, Paper
from visualizer.state.film import FilmLook

SIZES = {name.lower().replace(" ", "-"): look for name, look in PRESETS.items()}
"""The figures of the presets, by names that need no quotes."""
SMALLEST_MM, LARGEST_MM = 10.0, 5_000.0
SMALLEST_DPI, LARGEST_DPI = 36, 2_400
_UNITS = {"mm": 1.0, "cm": 10.0, "in": MM_AN_INCH}
_NUMBER = r"(\d+(?:\.\d+)?)"
_LENGTH = re.compile(rf"{_NUMBER}(mm|cm|in|px)")
_AREA = re.compile(rf"{_NUMBER}(mm|cm|in|px)?[x×]{_NUMBER}(mm|cm|in|px)")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a figure is, in a unit; pixels become a length by their number an inch."""

    width: float
    height: float | None
    unit: str

    def mm(self, dpi: int) -> tuple[float, float | None]:
        """Give the width and the height.

        Raises
        ------
        InputError
            When a figure cannot be so small or so large.
        """
        unit = MM_AN_INCH / dpi if self.unit == "px" else _UNITS[self.unit]
        width, height = self.width * unit, self.height and self.height * unit
        sides = (width,) if height is None else (width, height)
        if not all(SMALLEST_MM <= side <= LARGEST_MM for side in sides):
            limits = f"{SMALLEST_MM:g} mm to {LARGEST_MM / 1000:g} m"
            raise InputError("size", f"A figure is {limits} wide and high. Use such a size.")
        return width, height


def size_of(text: str) -> Size:
    """Read a width, such as ``180mm``, or a width and a height, such as ``1920x1080px``."""
    written = text.lower().replace(" ", "")
    if alone := _LENGTH.fullmatch(written):
        return Size(float(alone[1]), None, alone[2])
    area = _AREA.fullmatch(written)
    if area is None or area[2] not in {None, area[4]} or not float(area[1]) * float(area[3]):
        names = ", ".join(SIZES)
        sentence = f"got '{text}', takes a size such as 180mm, 180x120mm, 1920x1080px or 7in"
        raise InputError("size", f"{sentence}, or one of {names}")
    return Size(float(area[1]), float(area[3]), area[4])


def figure_look(
    size: str | None = None,
    *,
    layout: Extent | None = None,
    theme: Paper | None = None,
    dpi: int | None = None,
    title: str = "",
    has_caption: bool = True,
    film: FilmLook | None = None,
) -> FigureLook:
    """Give the look that is asked for; what is not asked for is as a preset has it, or as usual.

    Parameters
    ----------
    size : str, optional
        The name of a preset, or lengths: what has a size is as wide as that, all of it.

    Raises
    ------
    InputError
        When there can be no such figure.
    """
    look = SIZES.get(size or "", FigureLook())
    given = {"extent": layout, "paper": theme, "dpi": dpi}
    look = replace(look, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    if not SMALLEST_DPI <= look.dpi <= LARGEST_DPI:
        sentence = f"A figure has {SMALLEST_DPI} to {LARGEST_DPI:,} pixels an inch."
        raise InputError("dpi", sentence)
    if size and size not in SIZES:
        width, height = size_of(size).mm(look.dpi)
        look = replace(look, width_mm=width, height_mm=height, is_trimmed=False)
    return replace(look, title=title, has_caption=has_caption, film=film or FilmLook())
