"""The image of the overview: the position of each small heatmap, and its colours."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage

from tests.features.layer_overview.test_presenter import layers_of, two_layers
from visualizer.features.layer_overview.paint import (
    paint_overview,
    paint_overview_grid,
    uniform_cell_spacing,
)
from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_table
from visualizer.widgets.theme import LIGHT, PRINT

pytestmark = pytest.mark.usefixtures("application")


def colour(image: QImage, x: int, y: int) -> str:
    return QColor(image.pixel(x, y)).name()


def pixels(image: QImage) -> np.ndarray:
    rows, columns = range(image.height()), range(image.width())
    return np.array([[image.pixel(x, y) for x in columns] for y in rows])


@pytest.mark.parametrize("side", [11, 22, 66])
def test_every_cell_has_the_colour_of_its_weight(side: int) -> None:
    panel = layers_of(two_layers())
    made = paint_overview_grid(panel, side, LIGHT)
    assert (made.width(), made.height()) == (2 * side, 2 * side)
    colours = colour_table(panel.map_name, LIGHT)
    inner = side - max(1, round(0.09 * side))
    for layer, head, row, column in np.ndindex(2, 2, 5, 5):
        places = [int((at + 0.5) * inner / 5) for at in (column, row)]
        x, y = layer * side + places[0], head * side + places[1]
        weight = float(two_layers()[layer, head, row, column])
        wanted = QColor(int(colours[round(weight * MAX_COLOUR_INDEX)])).name()
        if column > row:  # no head attends to later tokens
            wanted = QColor(LIGHT.mask).name()
        assert colour(made, x, y) == wanted


def test_small_heatmaps_keep_the_largest_of_cells_that_share_a_pixel() -> None:
    weights = np.zeros((1, 1, 32, 32))
    weights[0, 0, 13, 7] = 1
    panel = layers_of(weights, tuple(map(str, range(32))))
    made = paint_overview_grid(panel, 9, LIGHT)
    brightest = QColor(int(colour_table(panel.map_name, LIGHT)[MAX_COLOUR_INDEX])).name()
    found = [(x, y) for x in range(8) for y in range(8) if colour(made, x, y) == brightest]
    assert found == [(1, 3)]


def test_the_picture_has_room_for_its_words() -> None:
    panel = layers_of(two_layers())
    made = paint_overview(panel, "a title that is wider than two small heatmaps", 24)
    heads = paint_overview_grid(panel, 24, PRINT)
    assert made.width() > heads.width()
    assert made.height() > heads.height()
    corner = QColor(PRINT.paper).name()
    assert colour(made, made.width() - 1, made.height() - 1) == corner
    found = {*pixels(made).ravel().tolist()}
    assert QColor(PRINT.ink).rgb() in found
    assert found <= {*made.colorTable()}


def test_the_picture_has_the_colours_of_the_small_heatmaps() -> None:
    panel, side = layers_of(two_layers()), 66
    made = paint_overview(panel, "", side)
    heads = paint_overview_grid(panel, side, PRINT)
    table = [QColor(each).rgb() for each in colour_table(panel.map_name, PRINT).tolist()]
    merged = {table[at]: table[at & 0xFE] for at in range(MAX_COLOUR_INDEX + 1)}
    expected = pixels(heads)
    for row in expected:
        row[:] = [merged.get(word, word) for word in row.tolist()]
    windows = np.lib.stride_tricks.sliding_window_view(pixels(made), expected.shape)
    places = np.argwhere(windows[:, :, 0, 0] == expected[0, 0])
    assert any(np.array_equal(windows[y, x], expected) for y, x in places)


@pytest.mark.parametrize("cells", [2, 3, 7, 20, 31, 32])
def test_cells_of_a_picture_are_all_of_one_size(cells: int) -> None:
    side = uniform_cell_spacing(cells, 64)
    assert 32 < side < 100
    panel = layers_of(np.eye(cells)[None, None], tuple(map(str, range(cells))))
    made = paint_overview_grid(panel, side, LIGHT)
    brightest = QColor(int(colour_table(panel.map_name, LIGHT)[MAX_COLOUR_INDEX])).name()
    lit = [[colour(made, x, y) == brightest for x in range(side)] for y in range(side)]
    columns = np.array(lit).sum(0)
    inner = side - max(1, round(0.09 * side))
    assert set(columns[:inner]) == {inner // cells}
    assert not columns[inner:].any()
