"""Parses export options of the command line and the Python API: size, stages and speed."""

from __future__ import annotations

import math
import re

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.errors import InputError
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    MAX_DPI,
    MAX_SIDE_MM,
    MIN_DPI,
    MIN_SIDE_MM,
    MM_PER_INCH,
    AnimationSettings,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.session.document_builder import check_stage_names
from visualizer.session.timeline import PlaybackPosition

SIZE_PRESETS = {name.lower().replace(" ", "-"): look for name, look in FIGURE_PRESETS.items()}
"""Figure presets, keyed by a name that requires no quotation marks on a command line."""
_UNITS = {"mm": 1.0, "cm": 10.0, "in": MM_PER_INCH}
_NUMBER = r"(\d+(?:\.\d+)?)"
_LENGTH = re.compile(rf"{_NUMBER}(mm|cm|in|px)")
_AREA = re.compile(rf"{_NUMBER}(mm|cm|in|px)?[x×]{_NUMBER}(mm|cm|in|px)")


class FigureSize(Struct, frozen=True):
    """Figure size; if the unit is pixels, the size in mm depends on the resolution."""

    width: float
    height: float | None
    unit: str

    def to_mm(self, dpi: int) -> tuple[float, float | None]:
        """Return the width and the height in mm.

        Raises
        ------
        InputError
            If the size is out of range.
        """
        unit = MM_PER_INCH / dpi if self.unit == "px" else _UNITS[self.unit]
        width, height = self.width * unit, self.height and self.height * unit
        sides = (width,) if height is None else (width, height)
        if not all(MIN_SIDE_MM <= side <= MAX_SIDE_MM for side in sides):
            limits = f"{MIN_SIDE_MM:g} mm to {MAX_SIDE_MM / 1000:g} m"
            raise InputError("size", f"The width and height of a figure must be {limits}.")
        return width, height


def parse_figure_size(text: str) -> FigureSize:
    """Parse a width, such as ``180mm``, or a width and a height, such as ``1920x1080px``."""
    normalized = text.lower().replace(" ", "")
    if length := _LENGTH.fullmatch(normalized):
        return FigureSize(float(length[1]), None, length[2])
    area = _AREA.fullmatch(normalized)
    if area is None or area[2] not in {None, area[4]} or not float(area[1]) * float(area[3]):
        names = ", ".join(SIZE_PRESETS)
        sentence = (
            f"invalid value '{text}': must be a size such as 180mm, 180x120mm, 1920x1080px or 7in"
        )
        raise InputError("size", f"{sentence}, or one of {names}")
    return FigureSize(float(area[1]), float(area[3]), area[4])


def create_figure_settings(
    size: str | None = None,
    *,
    layout: FigureExtent | None = None,
    theme: FigureTheme | None = None,
    dpi: int | None = None,
    title: str = "",
    has_caption: bool = True,
    has_letters: bool | None = None,
    has_all_layers: bool = False,
    film: AnimationSettings | None = None,
) -> FigureSettings:
    """Create figure settings from options; the preset or the defaults supply the others.

    Parameters
    ----------
    size : str, optional
        The name of a preset, or a width and optionally a height; a figure with the given lengths is
        not trimmed. An animation has as many pixels as an image of this size.

    Raises
    ------
    InputError
        If an option is invalid.
    """
    settings = SIZE_PRESETS.get(size or "", FigureSettings())
    options = {"extent": layout, "paper": theme, "dpi": dpi, "has_letters": has_letters}
    changes = {name: value for name, value in options.items() if value is not None}
    settings = replace(settings, **changes)
    if not MIN_DPI <= settings.dpi <= MAX_DPI:
        sentence = f"The resolution must be at least {MIN_DPI} and at most {MAX_DPI:,} dpi."
        raise InputError("dpi", sentence)
    if size and size not in SIZE_PRESETS:
        width, height = parse_figure_size(size).to_mm(settings.dpi)
        settings = replace(settings, width_mm=width, height_mm=height, is_trimmed=False)
    film = film or AnimationSettings()
    if size:
        film = replace(film, width=round(settings.width_mm / MM_PER_INCH * settings.dpi))
    return replace(
        settings, title=title, has_caption=has_caption, has_all_layers=has_all_layers, film=film
    )


def parse_stage_range(text: str) -> tuple[PlaybackPosition, str]:
    """Parse a range of stages, such as ``scores..context``; ``scores:2..weights`` starts at row 2.

    An empty side stands for the first or the last stage.
    """
    first, dots, last = text.partition("..")
    name, colon, row = first.partition(":")
    name, last = name or STAGE_ORDER[0], last or STAGE_ORDER[-1]
    check_stage_names([name, last])
    is_row = not colon or (row.isascii() and row.isdigit() and int(row) > 0)
    if not (dots and is_row) or STAGE_ORDER.index(name) > STAGE_ORDER.index(last):
        sentence = f"invalid value '{text}': must be stages in order, such as scores..context"
        raise InputError("span", f"{sentence}, or start at a row: scores:2..weights")
    return PlaybackPosition(name, int(row) - 1 if row else 0), last


def parse_speed(text: str) -> float:
    """Parse a playback speed, as a multiple of the normal speed."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.05 <= value <= 100:
        raise InputError("speed", f"invalid value '{text}': must be at least 0.05 and at most 100")
    return value
