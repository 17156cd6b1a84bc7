"""Masks allow the cells they describe; dropout masks are the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.attention_strategies import matrices, specs
from tests.support.reference_attention import is_allowed
from visualizer.attention import masks
from visualizer.attention.masks import draw_keep_mask
from visualizer.attention.spec import AttentionSpec, BooleanMatrix, MaskKind, MaskPlacement
from visualizer.errors import InputError


@given(st.integers(1, 6).flatmap(lambda size: st.tuples(st.just(size), specs(size))))
def test_each_cell_is_allowed_or_not(drawn: tuple[int, AttentionSpec]) -> None:
    size, spec = drawn
    cells = masks.allowed(spec, size)
    expected = [[is_allowed(spec, q, k, size) for k in range(size)] for q in range(size)]
    assert cells.tolist() == expected


def test_a_window_reads_itself_and_those_just_before() -> None:
    cells = masks.allowed(AttentionSpec(mask=MaskKind.WINDOW, window=2), 4)
    assert cells.astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_padding_is_no_key() -> None:
    cells = masks.allowed(AttentionSpec(mask=MaskKind.NONE, lengths=(3, 1)), 3)
    assert cells.shape == (2, 1, 3, 3)
    assert cells[0].all()
    assert cells[1, 0].astype(int).tolist() == 3 * [[1, 0, 0]]


@pytest.mark.parametrize("route", MaskPlacement)
def test_padding_is_no_key_from_the_first_and_the_mask_acts_where_the_route_says(
    route: MaskPlacement,
) -> None:
    spec = AttentionSpec(route=route, lengths=(3, 2))
    padding, whole = 3 * [[1, 1, 0]], [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    first = whole if route is MaskPlacement.BEFORE else padding
    for stage in masks.MASKED_STAGES:
        cells = masks.allowed(spec, 3, stage)[1, 0].astype(int).tolist()
        assert cells == (first if stage in {"masked", "unmasked"} else whole)
    assert masks.allowed(spec, 3, "scores").all()


def test_cells_are_not_to_be_written() -> None:
    for mask in (MaskKind.NONE, MaskKind.CAUSAL, MaskKind.WINDOW):
        with pytest.raises(ValueError, match="read-only"):
            masks.allowed(AttentionSpec(mask=mask), 3)[0, 0] = False


# ------------------------------------------------------------------------------------- custom masks


@given(st.integers(1, 9).flatmap(matrices))
def test_a_matrix_is_read_as_it_is_written(matrix: BooleanMatrix) -> None:
    cells = matrix.to_array()
    assert BooleanMatrix.from_array(cells) == matrix
    for between in ("", " ", ", "):
        text = "\n".join(between.join(str(int(cell)) for cell in row) for row in cells)
        assert masks.parse_mask(f"\n{text}\n\n") == matrix


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The matrix is empty. Enter one row of 0s and 1s for each query."),
        (" \n\n", "The matrix is empty. Enter one row of 0s and 1s for each query."),
        ("10\nx12", "Row 2 contains “x”. Use only 0 and 1."),
        ("100\n10\n111", "Row 2 has 2 cells, but row 1 has 3."),
        ("1 0\n\n1 1 1", "Row 2 has 3 cells, but row 1 has 2."),
    ],
)
def test_where_a_matrix_stops_being_one_is_said(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        masks.parse_mask(text)
    assert (refused.value.field, refused.value.sentence) == ("own_mask", said)


BAND = np.tri(4, dtype=bool) & ~np.tri(4, k=-2, dtype=bool)


@pytest.mark.parametrize(
    ("cells", "kind", "window"),
    [
        (np.tri(4), MaskKind.CAUSAL, 0),
        (np.ones((1, 1)), MaskKind.CAUSAL, 0),
        (np.ones((4, 4)), MaskKind.NONE, 0),
        (np.ones((2, 4)), MaskKind.NONE, 0),
        (BAND, MaskKind.WINDOW, 2),
        (BAND[:, ::-1], MaskKind.OWN, 0),
        (np.tri(2, 4), MaskKind.OWN, 0),
        (np.zeros((4, 4)), MaskKind.OWN, 0),
    ],
)
def test_the_kind_of_a_mask_is_recognized(cells: np.ndarray, kind: MaskKind, window: int) -> None:
    assert masks.classify_mask(cells.astype(bool)) == (kind, window)


def test_a_matrix_of_another_size_is_refused() -> None:
    matrix = masks.parse_mask("100\n110\n111")
    with pytest.raises(InputError, match="matrix is 3 × 3, but the text needs 4 × 4") as refused:
        masks.allowed(AttentionSpec(mask=MaskKind.OWN, own_mask=matrix), 4)
    assert refused.value.remedy == ("mask", MaskKind.CAUSAL)


# ------------------------------------------------------------------------------------------ dropout


def test_kept_cells_stay_what_they_were() -> None:
    # The mask is the same on every machine and in every version, because documents must not change.
    assert draw_keep_mask(0.5, 123, (6, 6)).astype(int).tolist() == [
        [0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 1, 1],
        [1, 0, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 1],
        [1, 0, 0, 0, 1, 1],
    ]
    assert draw_keep_mask(0.2, 0, (2, 3, 3)).astype(int).tolist() == [
        [[0, 0, 1], [1, 1, 0], [0, 1, 1]],
        [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
    ]
    # With an odd number of cells, only the first half of the last drawn word is used.
    assert draw_keep_mask(0.5, 123, (3, 3)).astype(int).tolist() == [
        [0, 1, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]
    odd, even = (draw_keep_mask(0.2, 0, (count,)) for count in (17, 18))
    assert odd.tolist() == even[:17].tolist()


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9, 1 - 2**-40])
def test_the_rate_is_the_share_that_is_dropped(rate: float) -> None:
    assert abs(draw_keep_mask(rate, 7, (1000, 1000)).mean() - (1 - rate)) < 0.002


@given(st.floats(0, 0.999), st.floats(0, 0.999), st.integers(0, 2**63 - 1))
def test_a_higher_rate_drops_more_of_the_same_cells(one: float, other: float, seed: int) -> None:
    low, high = (draw_keep_mask(rate, seed, (3, 7)) for rate in sorted((one, other)))
    assert not (high & ~low).any()


def test_seeds_differ() -> None:
    drawn = {draw_keep_mask(0.5, seed, (8, 8)).tobytes() for seed in (*range(50), 2**63 - 1)}
    assert len(drawn) == 51
