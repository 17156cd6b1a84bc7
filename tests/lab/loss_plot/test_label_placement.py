"""Stacked labels do not overlap, and no other placement is closer to the lines."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.lab.loss_plot.chart_paint import spread_boxes

PLACES = st.lists(st.floats(-100, 300), max_size=6).map(sorted)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[list[float], float, float, float]:
    """Generate preferred positions, a size, and bounds between which all boxes fit."""
    wanted, size, low = draw(PLACES), draw(st.floats(1, 30)), draw(st.floats(-50, 50))
    return wanted, size, low, low + len(wanted) * size + draw(st.floats(0, 200))


@given(tasks())
def test_no_boxes_overlap_and_all_are_inside(task: tuple[list[float], float, float, float]) -> None:
    wanted, size, low, high = task
    places = spread_boxes(wanted, size, low, high)
    assert len(places) == len(wanted)
    for above, below in pairwise(places):
        assert below >= above + size - 1e-9
    assert all(low - 1e-9 <= place <= high - size + 1e-9 for place in places)


@given(tasks(), st.data())
def test_no_other_placement_is_closer(
    task: tuple[list[float], float, float, float], data: st.DataObject
) -> None:
    wanted, size, low, high = task
    free = max(0.0, high - low - len(wanted) * size)
    gaps = sorted(data.draw(st.floats(0, free)) for _ in wanted)
    others = [low + gap + at * size for at, gap in enumerate(gaps)]

    def far(places: list[float]) -> float:
        return sum((place - want) ** 2 for place, want in zip(places, wanted, strict=True))

    assert far(spread_boxes(wanted, size, low, high)) <= far(others) + 1e-6


def test_boxes_with_enough_space_stay() -> None:
    assert spread_boxes([1, 12, 50], 10, 0, 100) == [1, 12, 50]
    assert spread_boxes([40, 40], 10, 0, 100) == [35, 45]
    assert spread_boxes([95, 96, 97], 10, 0, 100) == pytest.approx([70, 80, 90])
    assert spread_boxes([], 10, 0, 5) == []
