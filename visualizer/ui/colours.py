"""From numbers to colours: a table of 256, of which the last three are no numbers of the scale."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QColor, QImage

from visualizer.assets import resource
from visualizer.state.view import AUTOMATIC, ColourScale

if TYPE_CHECKING:
    from visualizer.state.heatmaps import Colour, Heatmap
    from visualizer.ui.theme import Theme

NOT_A_NUMBER, DROPPED, FORBIDDEN = 253, 254, 255
LARGEST = 252
# On a log scale the lowest colour is for this share of the largest number, and for all below.
LOG_SPAN = 1e-4
HUGE = 1e38
# Signed numbers: 0 is near the paper, so that it is what is far from 0 that is seen.
LIGHT_CENTRED, DARK_CENTRED = "CET-CBD1", "CET-D6"


@cache
def _tables() -> dict[str, np.ndarray]:
    loaded = json.loads(resource("colormaps.json").read_text(encoding="utf-8"))
    maps = {**loaded["sequential"], **loaded["diverging"]}
    return {
        name: np.array([0xFF000000 | int(colour[1:], 16) for colour in colours], dtype=np.uint32)
        for name, colours in maps.items()
    }


@cache
def table(name: str, theme: Theme) -> np.ndarray:
    """Give a colour map as 256 words 0xffrrggbb, the last three for what is no number."""
    whole = _tables()[_map_name(name, theme)]
    colours = whole[np.linspace(0, 255, LARGEST + 1).round().astype(int)]
    marks = [QColor(colour).rgb() for colour in (theme.warning, theme.raised, theme.paper)]
    return np.concatenate([colours, np.array(marks, dtype=np.uint32)])


def _map_name(name: str, theme: Theme) -> str:
    if name != AUTOMATIC:
        return name
    return DARK_CENTRED if QColor(theme.paper).lightnessF() < 0.5 else LIGHT_CENTRED


@cache
def light_entries(name: str, theme: Theme) -> np.ndarray:
    """Say for each of the 256 colours whether dark text reads better on it."""
    words = table(name, theme)
    channels = np.stack([words >> 16 & 255, words >> 8 & 255, words & 255]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = np.array([0.2126, 0.7152, 0.0722]) @ linear
    light: np.ndarray = luminance > 0.179  # where black and white have the same contrast
    return light


def entries(heatmap: Heatmap) -> np.ndarray:
    """Choose each cell's colour, uint8 [row, column]."""
    position = _position(heatmap.values, heatmap.colour)
    chosen = position * LARGEST + 0.5
    is_finite = bool(np.isfinite(chosen).all())
    if not is_finite:
        chosen = np.nan_to_num(chosen, nan=0, posinf=LARGEST, neginf=0)
    indices: np.ndarray = chosen.clip(0, LARGEST).astype(np.uint8)
    if not is_finite:
        indices[np.isnan(heatmap.values)] = NOT_A_NUMBER
    if heatmap.dropped is not None:
        indices[heatmap.dropped] = DROPPED
    if heatmap.forbidden is not None:
        indices[heatmap.forbidden] = FORBIDDEN
    return indices


def _position(values: np.ndarray, colour: Colour) -> np.ndarray:
    if colour.scale is ColourScale.LOG:
        floor = np.maximum(values / colour.high, LOG_SPAN)
        return np.asarray(1 - np.log(floor) / np.log(LOG_SPAN))
    if colour.high - colour.low > HUGE:  # their difference is more than float32 holds
        values = values.astype(np.float64)
    low: float | np.ndarray = colour.low
    high: float | np.ndarray = colour.high
    if colour.scale is ColourScale.ROW:
        finite = np.where(np.isfinite(values), np.abs(values), 0)
        high = np.maximum(finite.max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        low = -high if colour.low < 0 else np.zeros_like(high)
    return np.asarray((values - low) / (high - low))


def image(indices: np.ndarray, map_name: str, theme: Theme) -> QImage:
    """Make a picture of one pixel a cell."""
    words = np.ascontiguousarray(table(map_name, theme)[indices])
    rows, columns = words.shape
    made = QImage(words.data, columns, rows, 4 * columns, QImage.Format.Format_RGB32)
    return made.copy()  # the words go away with this function
