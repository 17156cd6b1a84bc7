"""Numbers are formatted with their significant digits; small numbers are never shown as 0."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.format import (
    MAX_WORD_LENGTH,
    format_count,
    format_number,
    format_percentage,
    format_size,
    format_two_decimals,
    shorten,
    subscript_symbols,
)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0.0000"),
        (-0.0, "0.0000"),
        (0.4776, "0.4776"),
        (-0.45194, "−0.4519"),
        (12.34567, "12.3457"),
        (1234.5, "1,234.5000"),
        (99_999, "99,999.0000"),
        (1e5, "1.00e+05"),
        (-3.2e-7, "−3.20e-07"),
        (5e-5, "0.0001"),
        (4.9e-5, "4.90e-05"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "NaN"),
    ],
)
def test_number(value: float, written: str) -> None:
    assert format_number(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (4.35e-4, "0.00"),
        (-4e-3, "0.00"),
        (0.006, "0.01"),
        (-0.5, "−0.50"),
        (math.inf, "∞"),
        (2e6, "2.00e+06"),
    ],
)
def test_short_numbers_have_no_small_exponents(value: float, written: str) -> None:
    assert format_two_decimals(value) == written


@given(st.floats(-1e300, 1e300))
def test_a_number_can_be_read_back(value: float) -> None:
    read = float(format_number(value).replace("−", "-").replace(",", ""))
    assert math.isclose(read, value, rel_tol=5.1e-3, abs_tol=5.1e-5 * (abs(value) >= 5e-5))
    assert (read == 0) == (value == 0)
    assert (read < 0) == (value < 0)


@given(st.floats(-10, 10))
def test_decimals_are_those_asked_for(value: float) -> None:
    written = format_number(value, 2)
    assert "e" in written or len(written.partition(".")[2]) == 2


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.52, "52%"),
        (0.0996, "10.0%"),
        (0.05, "5.0%"),
        (0.001, "0.1%"),
        (0.0001, "less than 0.1%"),
        (0.994, "99%"),
        (0.9988, "99.9%"),
        (0.99996, "more than 99.9%"),
        (1 - 1e-7, "100%"),
        (1.0, "100%"),
    ],
)
def test_share(value: float, written: str) -> None:
    assert format_percentage(value) == written


@given(st.floats(0, 1))
def test_a_share_is_true(value: float) -> None:
    written = format_percentage(value)
    if written.startswith("less"):
        assert 0 < value < 0.001
    elif written.startswith("more"):
        assert 0.999 < value < 1
    else:
        tolerance = 0.5001 if "." not in written else 0.05001
        assert abs(float(written.removesuffix("%")) - 100 * value) <= tolerance


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1.5 * 2**20, "1.5 MiB"),
        (12 * 2**30, "12.0 GiB"),
        (2**42, "4,096.0 GiB"),
    ],
)
def test_size(count: float, written: str) -> None:
    assert format_size(count) == written


@pytest.mark.parametrize(
    ("count", "written"), [(0, "0 tokens"), (1, "1 token"), (1024, "1,024 tokens")]
)
def test_counted(count: int, written: str) -> None:
    assert format_count(count, "token") == written


def test_only_long_words_are_cut() -> None:
    assert shorten("journey") == "journey"
    assert shorten("x" * MAX_WORD_LENGTH) == "x" * MAX_WORD_LENGTH
    cut = shorten("x" * 400)
    assert len(cut) == MAX_WORD_LENGTH
    assert cut.endswith("x…")


def test_symbols_have_a_subscript_except_in_tokens() -> None:
    shown = subscript_symbols("column 1 of W_q · W_o[1, 2] · W_query · <b>W_q</b> (key 2)")
    assert shown == (
        "column 1 of W<sub>q</sub> · W<sub>o</sub>[1, 2] · W_query · <b>W_q</b> (key 2)"
    )
