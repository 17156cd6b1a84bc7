"""For a long text, only parts are read, explained and drawn, never an entire matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.long_texts import held_shot, long_shot
from visualizer.api import attention_api
from visualizer.api.attention_api import Attention
from visualizer.errors import InputError
from visualizer.file_opening import EXPORT_VIEW

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = 120
LONG, HELD = (
    Attention(one.document, EXPORT_VIEW, one.run)
    for one in (make(TOKENS, heads=2, d_out=4) for make in (long_shot, held_shot))
)


def indices(size: int) -> st.SearchStrategy[int | slice]:
    ends = st.one_of(st.none(), st.integers(-size - 3, size + 3))
    steps = st.one_of(st.none(), st.integers(1, 5))
    return st.one_of(st.integers(-size, size - 1), st.builds(slice, ends, ends, steps))


@examples(1)
@given(st.sampled_from(LONG.stages), st.data())
def test_a_part_is_that_of_numpy(stage: str, data: st.DataObject) -> None:
    whole = HELD[stage]
    index = tuple(data.draw(indices(size)) for size in whole.shape)
    index = index[: data.draw(st.integers(0, len(index)))]
    for one in (HELD, LONG):
        found = one[(stage, *index)]
        assert found.shape == whole[index].shape
        np.testing.assert_allclose(found, whole[index], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ((2,), "Index 2 is out of range. Valid indices are 0 to 1"),
        ((0, 0, 0, 0), "has 3 axes: head, query, key"),
        ((0, slice(None, None, -1)), "An index must be a whole number or a slice"),
        ((0.5,), "It is 0.5"),
        ((True,), "It is True"),
        ((slice("a", None),), "An index must be"),
        ((None,), "An index must be"),
    ],
)
def test_unknown_parts_are_rejected(index: tuple[Any, ...], said: str) -> None:
    for one in (HELD, LONG):
        with pytest.raises(InputError, match=said):
            one[("weights", *index)]


def test_a_whole_matrix_is_rejected_with_a_part_that_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention_api, "MAX_READ_BYTES", 10 * TOKENS * 4 + 7)
    with pytest.raises(InputError, match=r"2 × 120 × 120 numbers.*\[\"weights\", 0, :10\]"):
        LONG["weights"]
    assert LONG["weights", 0, :10].shape == (10, TOKENS)
    with pytest.raises(InputError, match="11 × 120 numbers"):
        LONG["weights", 0, 5:16]
    assert LONG["queries"].shape == (2, TOKENS, 2)
    assert HELD["weights"].shape == (2, TOKENS, TOKENS)


def test_a_number_is_explained() -> None:
    found = LONG.explain("weights", head=1, query=90, key=80)
    wanted = HELD.explain("weights", head=1, query=90, key=80)
    assert math.isclose(found.value, wanted.value, rel_tol=1e-5)
    assert found.formula == wanted.formula


def test_animations_are_rejected_and_images_are_written(tmp_path: Path, qapp: object) -> None:
    with pytest.raises(InputError, match="complete matrices"):
        LONG.figure().save(tmp_path / "a.gif")
    LONG.figure("weights", heads=0).save(tmp_path / "a.png", tmp_path / "a.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a.csv"}
