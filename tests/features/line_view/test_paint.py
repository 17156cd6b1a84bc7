"""Thin lines are short pieces along the curves of wide lines; columns have room for labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.features.line_view.paint import (
    LABEL_GAP_PX,
    MAX_PIECE_LENGTH_PX,
    AttentionLinesLayout,
    curve_path,
    lay_out_lines,
    path_from_elements,
    polyline_elements,
)
from visualizer.widgets.fonts import font_metrics

ROWS = AttentionLinesLayout(count=64, left=90.0, right=430.0, height=20.0, top=30.0)
PLACES = st.floats(0, 3000)
LINES = st.lists(st.tuples(PLACES, PLACES), min_size=1, max_size=5)


@given(LINES)
def test_pieces_follow_the_curve_and_are_short(lines: list[tuple[float, float]]) -> None:
    begins, ends = np.array(lines).T
    for pieces, begin, end in zip(polyline_elements(ROWS, begins, ends), begins, ends, strict=True):
        curve = curve_path(ROWS, np.array([begin]), np.array([end]))
        corners = np.array([(point.x, point.y) for point in map(curve.elementAt, range(4))])
        times = np.linspace(0, 1, len(pieces))
        if end > begin:
            times = times[::-1]
        shares = np.stack([(1 - times) ** 3, 3 * (1 - times) ** 2 * times,
                           3 * (1 - times) * times**2, times**3])  # fmt: skip
        x, y = corners.T @ shares
        assert np.allclose(pieces["x"], x)
        assert np.allclose(pieces["y"], y)
        assert (np.diff(pieces["y"]) <= 1e-9).all()  # from the lower end up
        lengths = np.hypot(np.diff(pieces["x"]), np.diff(pieces["y"]))
        assert (lengths <= 1.5 * MAX_PIECE_LENGTH_PX).all()


@given(LINES)
def test_a_path_has_every_piece_and_a_beginning_for_each_line(
    lines: list[tuple[float, float]],
) -> None:
    begins, ends = np.array(lines).T
    pieces = polyline_elements(ROWS, begins, ends)
    path = path_from_elements(pieces)
    assert path.elementCount() == pieces.size
    elements = [path.elementAt(at) for at in range(pieces.size)]
    assert [one.isMoveTo() for one in elements] == [at % len(pieces[0]) == 0
                                                    for at in range(pieces.size)]  # fmt: skip
    assert np.allclose([(one.x, one.y) for one in elements],
                       np.stack([pieces["x"].ravel(), pieces["y"].ravel()], axis=1))  # fmt: skip


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("labels", [("a", "b"), ("journey", "storm")])
def test_the_words_over_the_columns_are_not_cut(labels: tuple[str, ...]) -> None:
    rows = lay_out_lines(labels, (0, 1), 300, 500)
    for text in (*labels, "query", "key"):
        assert font_metrics(12).horizontalAdvance(text) <= rows.left - LABEL_GAP_PX
        assert font_metrics(12).horizontalAdvance(text) <= 300 - rows.right - LABEL_GAP_PX


@pytest.mark.parametrize("heads", [(0,), (3,), (1, 4), (0, 2, 5)])
@pytest.mark.usefixtures("application")
def test_the_drawn_heads_are_spread_evenly_around_the_middle_of_a_row(
    heads: tuple[int, ...],
) -> None:
    rows = lay_out_lines(("a", "b"), heads, 300, 500)
    ends = rows.line_ends(np.array(heads), np.zeros(len(heads), int))
    assert ends.mean() == pytest.approx(rows.row_middle(0))
    assert (np.diff(ends) > 0).all()
