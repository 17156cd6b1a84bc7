"""The panels of all layers and heads fit into the view, do not overlap, and share their labels."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PySide6.QtGui import QImage, QPainter

from tests.support.probe_results import a_reading
from visualizer.heatmap import colour_mapping
from visualizer.heatmap.board import Board
from visualizer.heatmap.colour_range import AutomaticColourRange
from visualizer.heatmap.panel_margins_paint import (
    are_labels_vertical,
    paint_column_headers,
    paint_head_label,
    paint_labels,
    paint_notes,
    paint_own_scale,
    visible_column_labels,
)
from visualizer.lab.attention_view.layout import (
    MAX_CELL_PX,
    MIN_PATTERN_SIDE_PX,
    cells_per_side,
    lay_out_layers,
)
from visualizer.lab.attention_view.presenter import create_board
from visualizer.language.training_settings import ModelKind
from visualizer.session.view_options import DEFAULT_MAP
from visualizer.widgets.fonts import font_metrics
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.widgets.theme import Theme

pytestmark = pytest.mark.usefixtures("application")

RATIOS = st.sampled_from([1.0, 1.25, 1.5, 2.0, 3.0, 4 / 3])
WIDTHS, HEIGHTS = st.floats(100, 3000), st.floats(60, 2000)


def a_board(layers: int, heads: int, tokens: int, is_scored: bool = True, room: int = 256) -> Board:
    known = np.full((layers, heads), 0.5) if is_scored else None
    reading = a_reading(layers, heads, tokens, attending=known)
    return create_board(reading, ModelKind.TRANSFORMER, room)


BOARDS = st.builds(
    a_board, st.integers(1, 6), st.integers(1, 8), st.integers(1, 80), st.booleans(),
    st.sampled_from([16, 256]),
)  # fmt: skip


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_panels_never_overlap_and_cells_are_whole_pixels(
    board: Board, width: float, height: float, ratio: float
) -> None:
    layout = lay_out_layers(board, width, height, ratio)
    assert {id(slot.heatmap) for slot in layout.slots} == {id(one) for one in board.heatmaps}
    for one, other in itertools.combinations(layout.slots, 2):
        assert not one.whole_area.adjusted(0.01, 0.01, -0.01, -0.01).intersects(other.whole_area)
    for slot in layout.slots:
        assert slot.whole_area.contains(slot.cells)
        assert slot.whole_area.left() >= 0
        assert slot.whole_area.top() >= layout.head - 1 / ratio
        assert slot.whole_area.right() <= layout.width
        assert slot.whole_area.bottom() <= layout.height + 1 / ratio
        assert slot.cell_width == slot.cell_height <= MAX_CELL_PX
        for length in (slot.cell_width, slot.cells.left(), slot.cells.top()):
            assert abs(length * ratio - round(length * ratio)) < 1e-6


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_no_panel_is_too_small_to_read(
    board: Board, width: float, height: float, ratio: float
) -> None:
    for slot in lay_out_layers(board, width, height, ratio).slots:
        assert slot.cells.width() >= min(MIN_PATTERN_SIDE_PX, MAX_CELL_PX) - 1e-6


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 2), (3, 4)])
@pytest.mark.parametrize("tokens", [1, 2, 32, 64])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_usual_models_fit_without_scrolling(
    layers: int, heads: int, tokens: int, ratio: float
) -> None:
    layout = lay_out_layers(a_board(layers, heads, tokens), 640, 440, ratio)
    assert layout.width <= 640
    assert layout.height <= 440


def test_panels_grow_with_the_window() -> None:
    board = a_board(2, 2, 32)
    sizes = [lay_out_layers(board, side, side).slots[0].cell_width for side in (400, 700, 1400)]
    assert sizes == sorted(set(sizes))


def test_shared_labels_are_drawn_once() -> None:
    layout = lay_out_layers(a_board(2, 3, 8), 900, 700)
    named = {(one.heatmap.layer, one.heatmap.head): one for one in layout.slots}
    assert {place for place, one in named.items() if one.has_column_labels} == {
        (0, 0), (0, 1), (0, 2),
    }  # fmt: skip
    assert {place for place, one in named.items() if one.has_row_labels} == {(0, 0), (1, 0)}
    image = QImage(900, 700, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFF)
    painter = QPainter(image)
    for slot in layout.slots:
        paint_own_scale(painter, slot, LIGHT)
    painter.end()
    blank = image.copy()
    blank.fill(0xFFFFFF)
    assert image == blank
    painter = QPainter(image)
    paint_column_headers(painter, layout.column_headers, LIGHT)
    painter.end()
    bar = [image.pixelColor(x, 25) for x in range(900)]
    table = colour_mapping.colour_table(DEFAULT_MAP, LIGHT)
    high = {int(word) for word in table[colour_mapping.MAX_COLOUR_INDEX - 12 :]}
    assert any(colour.rgb() in high for colour in bar)


@given(st.integers(1, 6), st.integers(1, 8), WIDTHS, HEIGHTS, RATIOS)
def test_the_number_of_cells_does_not_depend_on_pooling(
    layers: int, heads: int, width: float, height: float, ratio: float
) -> None:
    cells = {
        cells_per_side(a_board(layers, heads, 64, room=room), width, height, ratio)
        for room in (8, 32, 256)
    }
    assert len(cells) == 1
    assert min(cells) % 8 == 0
    assert min(cells) >= 128


@pytest.mark.parametrize("heads", [1, 4])
def test_a_layers_name_and_range_do_not_cover_the_score_of_its_first_head(heads: int) -> None:
    ranges = (AutomaticColourRange(0.8, True), AutomaticColourRange(1.0, False))
    reading = a_reading(2, heads, 20, attending=np.full((2, heads), 0.92))
    board = create_board(reading, ModelKind.TRANSFORMER, 256, ranges=ranges)
    slots = [slot for slot in lay_out_layers(board, 900, 600).slots if slot.head_at]
    assert len(slots) == 2
    for slot in slots:
        named, scored = ink(slot, paint_head_label), ink(slot, paint_notes)
        assert named.any()
        assert scored.any()
        assert not (named & scored).any()


@pytest.mark.parametrize("tokens", [6, 12, 20, 40])
def test_a_layers_name_does_not_touch_the_first_label_below_it(tokens: int) -> None:
    layout = lay_out_layers(a_board(3, 4, tokens), 900, 600)
    slots = [slot for slot in layout.slots if slot.head_at and not slot.has_column_labels]
    assert len(slots) == 2
    for slot in slots:
        named, labels = ink(slot, paint_head_label), ink(slot, paint_labels)
        assert np.flatnonzero(named.any(1))[-1] + 2 < np.flatnonzero(labels.any(1))[0]


def ink(slot: PanelSlot, paint: Callable[[QPainter, PanelSlot, Theme], None]) -> np.ndarray:
    """Return which pixels of a white image are painted, bool [row, column]."""
    image = QImage(900, 600, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFF)
    painter = QPainter(image)
    paint(painter, slot, LIGHT)
    painter.end()
    pixels = np.frombuffer(bytes(image.constBits()), np.uint32).reshape(600, 900)
    return np.not_equal(pixels, 0xFFFFFFFF)


def test_an_empty_board_takes_no_space() -> None:
    layout = lay_out_layers(Board(), 800, 600)
    assert (layout.slots, layout.width, layout.height) == ((), 0, 0)
    assert cells_per_side(Board(), 800, 600, 1.0) == 128


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_single_characters_are_not_rotated_and_labels_do_not_touch(
    board: Board, width: float, height: float, ratio: float
) -> None:
    slot = lay_out_layers(board, width, height, ratio).slots[0]
    assert not are_labels_vertical(slot)
    wide, cell = font_metrics(12).horizontalAdvance, slot.cell_width
    shown = [
        (slot.heatmap.columns.cell_index_of(at) * cell, wide(text))
        for at, text in visible_column_labels(slot)
    ]
    assert shown
    for (left, one), (right, other) in itertools.pairwise(shown):
        assert right - left >= (one + other) / 2 - 0.01


def test_words_are_rotated_if_they_are_wider_than_cells() -> None:
    reading = replace(a_reading(1, 1, 4), tokens=("Your", "journey", "starts", "with"))
    board = create_board(reading, ModelKind.TRANSFORMER)
    narrow, wide = (lay_out_layers(board, side, side).slots[0] for side in (200, 900))
    widest = font_metrics(12).horizontalAdvance("journey")
    assert narrow.cell_width < widest
    assert are_labels_vertical(narrow)
    assert are_labels_vertical(wide) == (widest > wide.cell_width - 4)
    assert len(visible_column_labels(narrow)) == 4
