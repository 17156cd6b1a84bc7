"""Numbers beyond entered limits have the colour of the limit and a cut corner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.heatmap.test_panel_paint import SMALL, TINY, Painted, scale
from tests.support.hand_made_panels import a_heatmap
from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_indices
from visualizer.heatmap.panel_colour_scale import ColourScale, out_of_range_masks
from visualizer.heatmap.panel_margins import format_colour_bar_texts
from visualizer.session.view_options import ColourCurve, ColourLimits
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from visualizer.heatmap.board import Heatmap

pytestmark = pytest.mark.usefixtures("application")

TYPED = ColourScale("viridis", ColourCurve.LINEAR, ColourLimits.TYPED, 0.2, 0.6)
SIGNED = ColourScale("CET-CBD1", ColourCurve.LINEAR, ColourLimits.TYPED, -0.5, 0.5)
ROWS = 5


def filled(value: float, colour: ColourScale = TYPED, **fields: Any) -> Heatmap:
    """Return a panel with the given number in the middle, surrounded by numbers within the ends."""
    values = np.full((ROWS, ROWS), 0.4)
    values[2, 2] = value
    return a_heatmap(values, colour=colour, **fields)


def inks(painted: Painted, row: int, column: int) -> list[int]:
    """Return the width of the mark in each pixel row of a cell that contains it, from the top."""
    cell, ratio = painted.slot.cell_area(row, column), painted.ratio
    ground = scale(painted.heatmap, painted.theme)[colour_indices(painted.heatmap)[row, column]]
    xs = range(int((cell.left() + 1) * ratio), int((cell.right() - 1) * ratio))
    ys = range(int((cell.top() + 1) * ratio), int((cell.bottom() - 1) * ratio))
    lines = [sum(painted.image.pixelColor(x, y).name() != ground for x in xs) for y in ys]
    return [line for line in lines if line]


@pytest.mark.slow
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("ratio", [1.0, 2.0])
@pytest.mark.parametrize("colour", [TYPED, SIGNED], ids=str)
def test_the_cut_corner_is_on_the_side_of_the_number(
    colour: ColourScale, ratio: float, theme: Theme
) -> None:
    above = Painted(filled(0.9, colour), SMALL, theme, ratio)
    below = Painted(filled(-0.9, colour), SMALL, theme, ratio)
    assert colour_indices(above.heatmap)[2, 2] == MAX_COLOUR_INDEX
    assert colour_indices(below.heatmap)[2, 2] == 0
    up, down = inks(above, 2, 2), inks(below, 2, 2)
    assert up == sorted(up, reverse=True)
    assert down == sorted(down)
    assert min(up[0], down[-1]) >= 2 * ratio
    for painted in (above, below):
        for row, column in np.ndindex(ROWS, ROWS):
            assert bool(inks(painted, row, column)) == ((row, column) == (2, 2))


@pytest.mark.parametrize("value", [0.2, 0.3, 0.6])
def test_cells_within_the_limits_have_no_cut_corner(value: float) -> None:
    assert inks(Painted(filled(value), SMALL), 2, 2) == []


def test_cells_that_are_too_small_have_no_cut_corner() -> None:
    assert inks(Painted(filled(0.9), TINY - 1), 2, 2) == []


def test_no_cell_is_beyond_the_limits_on_a_rank_scale() -> None:
    ranked = ColourScale("viridis", ColourCurve.RANK, ColourLimits.TYPED, 0.2, 0.6)
    heatmap = filled(0.9, ranked)
    assert out_of_range_masks(heatmap.values, heatmap.cell_masks, ranked) is None
    assert inks(Painted(heatmap, SMALL), 2, 2) == []


@pytest.mark.parametrize("mark", ["forbidden", "dropped", "hidden"])
def test_marked_cells_have_no_cut_corner(mark: str) -> None:
    marks = np.zeros((ROWS, ROWS), dtype=bool)
    marks[2, 2] = True
    given: dict[str, Any] = {mark: marks}
    marked, plain = (filled(value, **given) for value in (0.0, 0.4))
    assert Painted(marked, SMALL).inside(2, 2) == Painted(plain, SMALL).inside(2, 2)
    found = out_of_range_masks(marked.values, marked.cell_masks, TYPED)
    assert found
    assert not found[0].any()


def test_the_colour_bar_has_the_entered_limits() -> None:
    assert format_colour_bar_texts(filled(0.4)) == ("0.20", "weight", "0.60")
    assert format_colour_bar_texts(filled(0.4, SIGNED)) == ("−0.50", "weight", "0.50")


@pytest.mark.parametrize("curve", ColourCurve)
@pytest.mark.parametrize("end", [1e-60, 1e-40, 1e-3, 1e39, 1e300])
@pytest.mark.parametrize("is_signed", [False, True])
def test_limits_of_any_size_can_be_entered(end: float, is_signed: bool, curve: ColourCurve) -> None:
    colour = ColourScale("viridis", curve, ColourLimits.TYPED, -end if is_signed else 0.0, end)
    heatmap = filled(0.5, colour)
    chosen = colour_indices(heatmap)
    assert (chosen <= MAX_COLOUR_INDEX).all()
    if curve is ColourCurve.LINEAR:
        lowest = MAX_COLOUR_INDEX // 2 if is_signed else 0
        assert set(chosen.ravel()) == {MAX_COLOUR_INDEX if end < 0.4 else lowest}
    found = out_of_range_masks(heatmap.values, heatmap.cell_masks, colour)
    assert (found is None) == (curve is ColourCurve.RANK)
    if found:
        assert found[1].all() == (end < 0.4)
        assert not found[0].any()
    assert format_colour_bar_texts(heatmap)[2]
