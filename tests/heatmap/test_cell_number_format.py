"""Numbers in cells are shortened before they vanish, and never touch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from PySide6.QtGui import QFontMetricsF

from tests.support.hand_made_panels import a_board, a_heatmap
from visualizer.heatmap.board import HeatmapAxis
from visualizer.heatmap.cell_number_format import (
    MIN_TWO_DECIMAL_VALUE,
    NUMBER_MARGIN_PX,
    SMALLEST_PX,
    CellNumberFormat,
    cell_number_format,
)
from visualizer.heatmap.panel_placement import lay_out_board
from visualizer.widgets.fonts import scaled_font

pytestmark = pytest.mark.usefixtures("qapp")

ONE_FIGURE = CellNumberFormat(0, has_one_figure=True)
NUMBERS = st.one_of(
    st.floats(-3, 3, width=32),
    st.floats(-1e6, 1e6, width=32),
    st.sampled_from([0.0, -0.0, 1e-7, -1e-7, math.inf, -math.inf, math.nan, -0.00004, 9.99996]),
)


def written_width(text: str, pixel_size: int) -> float:
    measured = scaled_font(12)
    measured.setPixelSize(pixel_size)
    return QFontMetricsF(measured).horizontalAdvance(text)


@given(st.lists(NUMBERS, min_size=1, max_size=12), st.integers(9, 160))
@example([0.0, -1e4, -1e5], 63)
def test_neighbours_never_touch(numbers: list[float], cell: int) -> None:
    found = cell_number_format([a_heatmap([numbers])], cell, cell)
    if found is not None:
        assert found.pixel_size >= SMALLEST_PX
        for number in np.array(numbers, dtype=np.float32).tolist():
            if math.isfinite(number):
                assert (
                    written_width(found.format_value(number), found.pixel_size)
                    <= cell - 2 * NUMBER_MARGIN_PX + 1
                )


@given(st.lists(st.floats(-200, 200, width=32), min_size=1, max_size=12))
def test_a_larger_cell_never_has_fewer_decimals(numbers: list[float]) -> None:
    panels = [a_heatmap([numbers])]
    found = [cell_number_format(panels, cell, cell) for cell in range(9, 140)]
    decimals = [-1 if one is None else one.decimals for one in found]
    assert decimals == sorted(decimals)
    if 0 < max(map(abs, numbers)) < MIN_TWO_DECIMAL_VALUE:  # one decimal, and then four
        assert set(decimals) <= {-1, 0, 3, 4}
    assert decimals[-1] == 4 or max(map(abs, numbers)) > 100


@given(st.floats(-1e5, 1e5, width=32), st.integers(0, 3))
def test_written_numbers_are_rounded_values(number: float, decimals: int) -> None:
    text = CellNumberFormat(decimals).format_value(number)
    assert float(text.replace("−", "-")) == float(f"{number:.{decimals}f}")
    assert not (text.startswith("−") and not text.strip("−0."))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1649, ".16"), (0.0, ".00"), (0.004, ".00"), (0.994, ".99"), (0.996, "1.0"), (1.0, "1.0")],
)
def test_shares_omit_the_leading_zero_only_as_a_last_resort(value: float, text: str) -> None:
    assert CellNumberFormat(2, omits_leading_zero=True).format_value(value) == text


def formats(values: object, **fields: object) -> list[CellNumberFormat]:
    found = (cell_number_format([a_heatmap(values, **fields)], cell, cell) for cell in range(9, 99))
    unsized = [replace(one, pixel_size=SMALLEST_PX) for one in found if one]
    return list(dict.fromkeys(unsized))


def test_only_numbers_below_1_omit_the_leading_zero() -> None:
    four, three, two, one = (CellNumberFormat(decimals) for decimals in (4, 3, 2, 1))
    bare = CellNumberFormat(2, omits_leading_zero=True)
    assert formats([[0.25, 0.75]], is_share=True) == [bare, two, three, four]
    assert formats([[0.25, -0.75]]) == [bare, two, three, four]
    assert bare.format_value(-0.256) == "−.26"
    assert formats([[0.25, -1.25]]) == [one, two, three, four]
    assert formats([[0.25, 1.25]], is_share=True) == [one, two, three, four]  # as after dropout


def test_large_numbers_need_fewer_decimals() -> None:
    assert [one.decimals for one in formats([[12.34, -3]])] == [1, 2, 3, 4]
    assert [one.decimals for one in formats([[123.4, -3]])] == [0, 1, 2, 3, 4]


def test_numbers_that_would_all_be_zero_are_not_shortened() -> None:
    assert formats([[0.004, -0.001]]) == [ONE_FIGURE, CellNumberFormat(4)]
    assert formats([[7e-6, 0.0]], is_share=True) == [ONE_FIGURE, CellNumberFormat(4)]
    assert [one.decimals for one in formats([[0.04, -0.001]])] == [2, 3, 4]


@pytest.mark.parametrize(
    ("value", "text"),
    [(7.4e-6, "7e-6"), (-7.4e-6, "−7e-6"), (0.0, "0"), (0.0042, "4e-3"), (1e-12, "1e-12")],
)
def test_small_numbers_are_written_with_one_digit(value: float, text: str) -> None:
    assert ONE_FIGURE.format_value(value) == text


def test_exponents_need_four_decimals_and_room() -> None:
    plain, tiny = formats([[0.5, 0.25]]), formats([[0.5, 1e-7]])
    assert [one.decimals for one in plain] == [one.decimals for one in tiny] == [2, 2, 3, 4]
    cells = [
        next(cell for cell in range(9, 99) if decimals(values, cell) == 4)
        for values in ([[0.5, 0.25]], [[0.5, 1e-7]])
    ]
    assert cells[0] < cells[1]
    assert CellNumberFormat(4).format_value(1e-7) == "1.00e-07"
    assert CellNumberFormat(3).format_value(1e-7) == "0.000"


def decimals(values: object, cell: int) -> int | None:
    found = cell_number_format([a_heatmap(values)], cell, cell)
    return found.decimals if found else None


def test_masked_and_pooled_cells_do_not_count() -> None:
    forbidden = np.array([[False, True]])
    assert formats([[0.5, -12345.0]], forbidden=forbidden) == formats([[0.5, 0.5]])
    pooled = a_heatmap([[0.5, 0.5]], columns=HeatmapAxis("key", ("a", "b", "c", "d"), 2))
    assert cell_number_format([pooled], 99, 99) is None
    assert cell_number_format([a_heatmap([[math.nan]])], 99, 99) is None


def test_all_heads_of_a_stage_have_the_same_number_format() -> None:
    board = a_board(2, 3, 5)
    for column in board.columns:
        column[1].values[:] = -1234.5
    slots = lay_out_board(board, 1400, 900).slots
    for column in board.columns:
        assert len({slot.numbers for slot in slots if slot.heatmap in column}) == 1


def test_numbers_reach_the_normal_text_size_before_they_have_many_decimals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("visualizer.heatmap.cell_number_format.text_scale", lambda: 1.5)
    panel = a_heatmap([[0.1234, 0.5678]], is_share=True)
    small, large = (cell_number_format([panel], cell, cell) for cell in (28, 70))
    assert small
    assert large
    assert small.decimals < large.decimals == 4
    assert min(small.pixel_size, large.pixel_size) >= 13
    tiny = cell_number_format([panel], 18, 18)
    assert tiny
    assert tiny.omits_leading_zero  # the shortest format if none is as large
