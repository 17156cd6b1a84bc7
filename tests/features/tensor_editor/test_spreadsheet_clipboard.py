"""Blocks of numbers are copied and pasted; entries that are not numbers are reported."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from visualizer.errors import InputError
from visualizer.features.tensor_editor import spreadsheet_clipboard
from visualizer.features.tensor_editor.spreadsheet_clipboard import (
    format_block,
    parse_block,
    parse_number,
)


def some_numbers(width: int, least: int = 1) -> st.SearchStrategy[np.ndarray]:
    finite = st.floats(width=width, allow_nan=False, allow_infinity=False)  # type: ignore[arg-type]
    sides = st.tuples(st.integers(1, 5), st.integers(least, 5))
    return arrays.arrays(np.dtype(f"f{width // 8}"), sides, elements=finite)


@given(some_numbers(32) | some_numbers(64))
def test_what_is_copied_is_pasted_as_the_very_same(array: np.ndarray) -> None:
    back = parse_block(format_block(array))
    assert back.dtype == np.float64
    assert back.astype(array.dtype).tobytes() == array.tobytes()


@given(some_numbers(64), st.sampled_from("\t;,"), st.sampled_from(["\n", "\r\n", "\r"]))
def test_every_divider_and_line_end_is_understood(
    array: np.ndarray, divider: str, end: str
) -> None:
    text = end.join(divider.join(f"{number:.17e}" for number in row) for row in array) + end
    np.testing.assert_array_equal(parse_block(text), array)


@given(some_numbers(64, least=2), st.sampled_from("\t;"), st.booleans())
def test_decimal_commas_are_understood_between_other_dividers(
    array: np.ndarray, divider: str, quotes: bool
) -> None:
    cells = [[f"{number:.17e}".replace(".", ",") for number in row] for row in array]
    mark = '"' if quotes else ""
    text = "\n".join(divider.join(f"{mark}{cell}{mark}" for cell in row) for row in cells)
    np.testing.assert_array_equal(parse_block(text), array)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0,5\t1,5", [[0.5, 1.5]]),
        ("1\t2\n3\t4\n", [[1, 2], [3, 4]]),
        ("\ufeff1;2\r\n3;4\r\n\r\n", [[1, 2], [3, 4]]),
        ("−1\t+2\t.5\t3.", [[-1, 2, 0.5, 3]]),
        ("1,2,3", [[1, 2, 3]]),
        ("0.1,0.2", [[0.1, 0.2]]),
        ("1, 2\n3, 4", [[1, 2], [3, 4]]),
        ("1,-2", [[1, -2]]),
        ("1e-3,2", [[1e-3, 2]]),
        ("0,5\n1", [[0.5], [1]]),
        ("0,05", [[0.05]]),
        ('"0,5","1,5"', [[0.5, 1.5]]),
        ('"1"\t"2"', [[1, 2]]),
        ("1,5\t1,234", [[1.5, 1.234]]),
        ("7", [[7]]),
        (" 7 \t\u00a08 ", [[7, 8]]),
        ("0,125\t0,250", [[0.125, 0.25]]),
    ],
)
def test_what_can_be_read_in_one_way_is_read(text: str, numbers: list[list[float]]) -> None:
    assert parse_block(text).tolist() == numbers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no numbers"),
        ("\n \n", "no numbers"),
        ("1\t2\n3\tx", "Row 2, column 2: “x” is not a number."),
        ("1\t\t3", "Row 1, column 2: The cell is empty. Enter a number."),
        ("1\n\n3", "Row 2, column 1: The cell is empty. Enter a number."),
        ("1\t2\n3", "same number of cells. Row 1 has 2 cells, and row 2 has 1."),
        ("0,5", "“0,5” is ambiguous: it could be one number or two. Use a decimal point"),
        ("1,2\n3,4", "“1,2” is ambiguous: it could be one number or two."),
        ("1,234\t5", "Row 1, column 1: “1,234” is ambiguous. Use a decimal point"),
        ("1,234.5\t2", "Row 1, column 1: “1,234.5” is not a number."),
        ("1.5\t2,5", "Row 1, column 2: “2,5” is not a number."),
        ("1 234", "“1 234” is not a number."),
        ("1_000", "“1_000” is not a number."),
        ("1e999", "“1e999” is out of range for a 64-bit float."),
        ("nan", "“nan” is not a number."),
        ("1\t-inf", "Row 1, column 2: “-inf” is not a number."),
        ("forbidden", "“forbidden” is not a number."),
        ("٣", "“٣” is not a number."),
        ("0x1p3", "“0x1p3” is not a number."),
        ("x" * 200_000, "text that is not a number"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_block(text)
    assert said in refused.value.sentence
    assert len(refused.value.sentence) < 200


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    with suppress(InputError):
        assert np.isfinite(parse_block(text)).all()


@pytest.mark.parametrize(("text", "number"), [("1,5", 1.5), (" −2.50 ", -2.5), ("0,125", 0.125)])
def test_one_number_may_have_a_decimal_comma(text: str, number: float) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["", "1,234", "1.234,5", "1 2", "abc", "1\t2"])
def test_what_is_no_single_number_is_refused(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_number(text)
    assert "Row" not in refused.value.sentence


def test_more_than_can_be_read_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreadsheet_clipboard, "MAX_CELLS", 5)
    with pytest.raises(InputError, match=r"numbers at once\. Select at most 5, or export"):
        format_block(np.zeros((2, 3)))
    with pytest.raises(InputError, match="Paste at most 5 at once"):
        parse_block("1\t2\n" * 5)
    assert parse_block(format_block(np.ones((5, 1)))).shape == (5, 1)
