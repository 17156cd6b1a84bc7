"""Export settings: format, figure and animation options, size presets, and their storage."""

from __future__ import annotations

import json
from contextlib import suppress
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    FILM_WIDTHS_PX,
    MAX_DPI,
    MAX_POINTS,
    MAX_SIDE_MM,
    MIN_DPI,
    MIN_POINTS,
    MIN_SIDE_MM,
    MM_PER_INCH,
    PIXELS_PER_INCH,
    AnimationSettings,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.export.formats import FORMATS, ExportFormat, FormatKind, format_of_file
from visualizer.session.timeline import PLAYBACK_SPEEDS
from visualizer.storage.json_codec import JsonCodec

EXTENT_LABELS = {
    FigureExtent.SHOWN: "Current view",
    FigureExtent.FLOW: "Flow of one head",
    FigureExtent.PANEL: "One panel",
    FigureExtent.HEAD: "One head",
    FigureExtent.HEADS: "All heads",
    FigureExtent.STAGES: "All stages",
    FigureExtent.ALL: "All stages, all heads",
    FigureExtent.CELLS: "One panel, one pixel per cell",
}
CELL_FORMAT = ".png"
"""Suffix of the format that supports one pixel per cell."""
PAPER_LABELS = {
    FigureTheme.PRINT: "For print",
    FigureTheme.LIGHT: "Light",
    FigureTheme.DARK: "Dark",
}
CUSTOM_PRESET = "Custom size"
"""Name that is shown instead of a preset for figure settings that match no preset."""
_SIZE = ("paper", "width_mm", "height_mm", "dpi", "points", "is_trimmed", "has_letters")
"""Fields of `FigureSettings` that a preset sets."""
_FILMS = ("paper", "points", "title", "has_caption", "has_marks", "film")
_DOCUMENT = ("carries_document", "has_all_layers")
_CELLS = frozenset({"extent", "paper", "dpi", *_DOCUMENT})
_FIGURES = (*_SIZE, "extent", "title", "has_caption", "has_marks", *_DOCUMENT)


class LengthUnit(StrEnum):
    """Unit of length."""

    MM = "mm"
    INCH = "inch"
    PIXEL = "px"

    def from_mm(self, mm: float, dpi: int) -> float:
        """Convert millimetres to this unit; `dpi` determines the size of a pixel."""
        return mm / self._mm_per_unit(dpi)

    def to_mm(self, length: float, dpi: int) -> float:
        """Convert a length in this unit to millimetres."""
        return length * self._mm_per_unit(dpi)

    def _mm_per_unit(self, dpi: int) -> float:
        return {
            LengthUnit.MM: 1.0,
            LengthUnit.INCH: MM_PER_INCH,
            LengthUnit.PIXEL: MM_PER_INCH / dpi,
        }[self]

    def format_mm(self, mm: float, dpi: int) -> str:
        """Format a length for a text field."""
        decimals = {LengthUnit.MM: 2, LengthUnit.INCH: 3, LengthUnit.PIXEL: 0}[self]
        text = f"{self.from_mm(mm, dpi):.{decimals}f}"
        return text.rstrip("0").rstrip(".") if decimals else text


class ExportSettings(Struct, frozen=True):
    """An export format with its figure settings.

    Parameters
    ----------
    suffix : str
        Suffix of the format.
    """

    suffix: str = FORMATS[0].suffix
    look: FigureSettings = field(default_factory=FigureSettings)
    unit: LengthUnit = LengthUnit.MM

    @property
    def format(self) -> ExportFormat:
        return format_of_file(f"a{self.suffix}") or FORMATS[0]

    @property
    def used_field_names(self) -> frozenset[str]:
        """Names of the fields of `FigureSettings` that this format uses."""
        by_kind = {
            FormatKind.FIGURE: _FIGURES,
            FormatKind.FILM: _FILMS,
            FormatKind.NUMBERS: (),
            FormatKind.DOCUMENT: (),
        }
        if self.is_cell_image:
            return _CELLS
        return frozenset(self.format.used_fields or by_kind[self.format.kind])

    @property
    def is_cell_image(self) -> bool:
        """Whether the export is an image with one pixel per cell of a panel."""
        return self.suffix == CELL_FORMAT and self.look.extent is FigureExtent.CELLS

    @property
    def extent_labels(self) -> dict[FigureExtent, str]:
        """Labels of the extents that this format supports."""
        if self.suffix == CELL_FORMAT:
            return EXTENT_LABELS
        return {one: words for one, words in EXTENT_LABELS.items() if one is not FigureExtent.CELLS}

    @property
    def figure_settings(self) -> FigureSettings:
        """The effective figure settings, with defaults for fields that this format does not use."""
        figure_settings = replace(
            FigureSettings(),
            **{name: getattr(self.look, name) for name in self.used_field_names},
        )
        if figure_settings.extent in self.extent_labels:
            return figure_settings
        return replace(figure_settings, extent=FigureExtent.PANEL)


def matching_preset(figure_settings: FigureSettings) -> str:
    """Return the name of the preset with the same size and colours."""
    return next(
        (
            name
            for name, one in FIGURE_PRESETS.items()
            if _preset_fields(one) == _preset_fields(figure_settings)
        ),
        CUSTOM_PRESET,
    )


def apply_preset(figure_settings: FigureSettings, preset: str) -> FigureSettings:
    """Return settings with the size and colours of a preset, and the same content."""
    return (
        replace(figure_settings, **_preset_fields(FIGURE_PRESETS[preset]))
        if preset in FIGURE_PRESETS
        else figure_settings
    )


def _preset_fields(figure_settings: FigureSettings) -> dict[str, Any]:
    return {name: getattr(figure_settings, name) for name in _SIZE}


TALL_NOTE = ", taller than a page"
"""Addition to the size of a figure that leaves no room for its legend on a page."""


def describe_figure_size(width: float, height: float, dpi: float | None) -> str:
    """Describe the size of a figure.

    Parameters
    ----------
    width, height : float
        The size in pixels of 1/96 inch.
    dpi : float or None
        Pixels per inch in the file; None for vector graphics.
    """
    mm = MM_PER_INCH / PIXELS_PER_INCH
    size = f"{width * mm:,.0f} × {height * mm:,.0f} mm"
    if dpi is None:
        return size
    ratio = dpi / PIXELS_PER_INCH
    return f"{size} · {round(width * ratio):,} × {round(height * ratio):,} pixels"


# -------------------------------------------------------------------------------- storing

_CODING = JsonCodec(
    {}, {FigureSettings: frozenset({"title"}), AnimationSettings: frozenset({"max_frames"})}
)  # a title applies to only one figure, so it is not stored


def settings_to_json(settings: ExportSettings) -> str:
    """Serialize export settings as JSON."""
    return json.dumps(_CODING.encode(settings, ExportSettings, "wish", {}))


def settings_from_json(text: str) -> ExportSettings:
    """Parse export settings from JSON; return the defaults if anything is invalid."""
    try:
        stored = _migrate_stored_fields(json.loads(text))
        settings: ExportSettings = _CODING.decode(stored, ExportSettings, "wish", {})
    except (ValueError, RecursionError):
        return ExportSettings()
    is_known = any(each.suffix == settings.suffix for each in FORMATS)
    return settings if is_known and _is_valid_figure(settings.look) else ExportSettings()


def _migrate_stored_fields(stored: Any) -> Any:
    """Add defaults for fields that earlier versions did not store, and remove obsolete fields."""
    with suppress(TypeError, KeyError, AttributeError):  # the decoder rejects any other structure
        stored["look"]["film"].pop("panels", None)
        stored["look"]["film"].setdefault("has_motion", AnimationSettings().has_motion)
        stored["look"].setdefault("has_all_layers", FigureSettings().has_all_layers)
    return stored


def _is_valid_figure(figure_settings: FigureSettings) -> bool:
    height = MIN_SIDE_MM if figure_settings.height_mm is None else figure_settings.height_mm
    return (
        MIN_SIDE_MM <= figure_settings.width_mm <= MAX_SIDE_MM
        and MIN_SIDE_MM <= height <= MAX_SIDE_MM
        and MIN_DPI <= figure_settings.dpi <= MAX_DPI
        and MIN_POINTS <= figure_settings.points <= MAX_POINTS
        and _is_valid_film(figure_settings.film)
    )


def _is_valid_film(film: AnimationSettings) -> bool:
    if film.speed not in PLAYBACK_SPEEDS or film.width not in FILM_WIDTHS_PX:
        return False
    if film.span is None:
        return True
    first, last = film.span
    is_known = min(first.row, first.column) >= 0 and {first.stage, last} <= {*STAGE_ORDER}
    return is_known and STAGE_ORDER.index(first.stage) <= STAGE_ORDER.index(last)
