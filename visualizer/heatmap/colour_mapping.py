"""Maps values to colours in tables of 256 entries; the last three are for missing values."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QColor, QImage

from visualizer.heatmap.panel_colour_scale import on_scale_mask
from visualizer.resources import resource_path
from visualizer.session.view_options import ColourCurve, ColourLimits, ColourMapKind

if TYPE_CHECKING:
    from visualizer.heatmap.board import Heatmap
    from visualizer.widgets.theme import Theme

NAN_COLOUR_INDEX, DROPPED, FORBIDDEN = 253, 254, 255
MAX_COLOUR_INDEX = 252
# On a log scale, values at or below this fraction of the maximum have the lowest colour.
LOG_SPAN = 1e-4
MAX_FLOAT32_SAFE = 1e38
TABLE_SIZE = 256
LIGHTEST_REVERSED = 225
"""Entry at which a map that is reversed on a light background begins; lighter entries could not be
told from masked cells."""


@cache
def _load_colour_maps() -> dict[tuple[str, bool], np.ndarray]:
    """Return the colours of all maps, keyed by map id and by whether the background is dark.

    A themed map is close to the background colour at 0, so that large magnitudes stand out; so are
    maps that are reversed on a light background.
    """
    loaded = json.loads(resource_path("colormaps.json").read_text(encoding="utf-8"))
    maps = {
        (name, is_dark): np.array([int(colour[1:], 16) for colour in colours], dtype=np.uint32)
        for kind in ColourMapKind
        for name, colours in loaded[kind].items()
        for is_dark in (False, True)
    }
    for name, variants in loaded["themed"].items():
        for background, is_dark in (("light", False), ("dark", True)):
            variant = variants[background]
            is_other = isinstance(variant, str)
            maps[name, is_dark] = (
                maps[variant, is_dark] if is_other else _interpolate_colours(variant)
            )
    for name in loaded["reversed on light"]:
        entries = np.linspace(LIGHTEST_REVERSED, 0, TABLE_SIZE).round().astype(int)
        maps[name, False] = maps[name, False][entries]
    return {key: 0xFF000000 | colours for key, colours in maps.items()}


def _interpolate_colours(stops: list[str]) -> np.ndarray:
    """Interpolate linearly between colours in sRGB."""
    places = np.linspace(0, len(stops) - 1, TABLE_SIZE)
    words = np.zeros(TABLE_SIZE, dtype=np.uint32)
    for shift in (16, 8, 0):
        ends = [int(stop[1:], 16) >> shift & 255 for stop in stops]
        channel = np.interp(places, range(len(stops)), ends).round().astype(np.uint32)
        words |= channel << np.uint32(shift)
    return words


@cache
def colour_table(name: str, theme: Theme) -> np.ndarray:
    """Return a colour map as 256 integers 0xffrrggbb; the last three are for missing values."""
    is_dark = QColor(theme.paper).lightnessF() < 0.5
    whole = _load_colour_maps()[name, is_dark]
    entries = np.linspace(0, TABLE_SIZE - 1, MAX_COLOUR_INDEX + 1).round().astype(int)
    colours = whole[entries]
    marks = [QColor(colour).rgb() for colour in (theme.warning, theme.paper, theme.mask)]
    return np.concatenate([colours, np.array(marks, dtype=np.uint32)])


@cache
def dark_text_mask(name: str, theme: Theme) -> np.ndarray:
    """Return, for each of the 256 colours, whether it needs dark text."""
    words = colour_table(name, theme)
    channels = np.stack([words >> 16 & 255, words >> 8 & 255, words & 255]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = np.array([0.2126, 0.7152, 0.0722]) @ linear
    light: np.ndarray = luminance > 0.179  # black and white text have equal contrast here
    return light


def colour_indices(heatmap: Heatmap) -> np.ndarray:
    """Return the colour index of each cell, uint8 [row, column]."""
    chosen = _scale_positions(heatmap) * MAX_COLOUR_INDEX + 0.5
    is_finite = bool(np.isfinite(chosen).all())
    if not is_finite:
        chosen = np.nan_to_num(chosen, nan=0, posinf=MAX_COLOUR_INDEX, neginf=0)
    indices: np.ndarray = chosen.clip(0, MAX_COLOUR_INDEX).astype(np.uint8)
    if not is_finite:
        indices[np.isnan(heatmap.values)] = NAN_COLOUR_INDEX
    for blank in (heatmap.dropped, heatmap.hidden):
        if blank is not None:
            indices[blank] = DROPPED
    if heatmap.forbidden is not None:
        indices[heatmap.forbidden] = FORBIDDEN
    return indices


def _scale_positions(heatmap: Heatmap) -> np.ndarray:
    """Map each value to its position on the colour scale, from 0 to 1."""
    values, colour = heatmap.values, heatmap.colour
    if colour.curve is ColourCurve.RANK:
        ranks = _rank_positions(heatmap)
        return _mirror_signed(ranks, values) if colour.is_signed else ranks
    low, high = _scale_ends(heatmap)
    if colour.limits is ColourLimits.TYPED or colour.high - colour.low > MAX_FLOAT32_SAFE:
        values = values.astype(np.float64)  # the ends or their difference may overflow float32
    if colour.curve is ColourCurve.LOG:
        powers = _log_positions(np.abs(values) if colour.is_signed else values, low, high)
        return _mirror_signed(powers, values) if colour.is_signed else powers
    return np.asarray((values - low) / (high - low))


def _mirror_signed(sizes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Map positive values to the upper half of the scale, and negative values to the lower half."""
    return np.asarray((1 + np.sign(values) * sizes) / 2)


def _scale_ends(heatmap: Heatmap) -> tuple[float | np.ndarray, float | np.ndarray]:
    colour = heatmap.colour
    if heatmap.ends is None:
        return colour.low, colour.high
    high = np.maximum(heatmap.ends, np.finfo(np.float32).tiny)
    return (-high if colour.is_signed else np.zeros_like(high)), high


def _log_positions(
    sizes: np.ndarray, low: float | np.ndarray, high: float | np.ndarray
) -> np.ndarray:
    span = np.maximum(low / high, LOG_SPAN)
    return np.asarray(1 - np.log(np.maximum(sizes / high, span)) / np.log(span))


def _rank_positions(heatmap: Heatmap) -> np.ndarray:
    """Return the quantile of each value within its panel or its own range; ties count half."""
    sizes = np.abs(heatmap.values) if heatmap.colour.is_signed else heatmap.values
    counts = on_scale_mask(sizes, heatmap.cell_masks)
    if heatmap.ends is None:
        return _rank_among(sizes, sizes[counts])
    if heatmap.ends.shape != (len(sizes), 1):  # transposed: a range per column
        return _rank_rows(sizes.T, counts.T).T
    return _rank_rows(sizes, counts)


def _rank_rows(sizes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    rows = [_rank_among(row, row[own]) for row, own in zip(sizes, counts, strict=True)]
    return np.stack(rows)


def _rank_among(sizes: np.ndarray, among: np.ndarray) -> np.ndarray:
    if not len(among):
        return np.where(np.isnan(sizes), np.nan, 0)
    steps = (
        np.linspace(0, len(among) - 1, min(len(among), MAX_COLOUR_INDEX + 1)).round().astype(int)
    )
    edges = np.sort(among)[steps]  # at most one per colour
    places = np.searchsorted(edges, sizes) + np.searchsorted(edges, sizes, side="right")
    return np.where(np.isnan(sizes), np.nan, places / (2 * len(edges)))


def create_colour_image(indices: np.ndarray, map_name: str, theme: Theme) -> QImage:
    """Create an image with one pixel per cell."""
    words = np.ascontiguousarray(colour_table(map_name, theme)[indices])
    rows, columns = words.shape
    made = QImage(words.data, columns, rows, 4 * columns, QImage.Format.Format_RGB32)
    return made.copy()  # the buffer is freed with this function


def create_indexed_image(indices: np.ndarray, map_name: str, theme: Theme) -> QImage:
    """Create an indexed image with one pixel per cell, which makes files four times smaller."""
    rows, columns = indices.shape
    words = np.ascontiguousarray(indices)
    made = QImage(words.data, columns, rows, columns, QImage.Format.Format_Indexed8)
    made.setColorTable(colour_table(map_name, theme).tolist())
    return made.copy()  # the buffer is freed with this function
