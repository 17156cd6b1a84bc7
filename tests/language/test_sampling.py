"""Sampling of the next token agrees with an implementation that loops over tokens."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from visualizer.errors import InputError
from visualizer.language.sampling import SamplingSettings, sample_token, sampling_probabilities

LOGITS = st.lists(st.floats(-30, 30), min_size=1, max_size=30)
TEMPERATURES = st.floats(0.05, 10)
TOP_K = st.none() | st.integers(1, 40)
TOP_P = st.floats(0.01, 1)


def one_by_one(
    logits: list[float], temperature: float, top_k: int | None, top_p: float
) -> list[float]:
    """Keep the largest tokens until there are enough or they reach `top_p`, with fractions."""
    largest = max(logits)
    powers = [Fraction(math.exp((one - largest) / temperature)) for one in logits]
    order = sorted(range(len(logits)), key=lambda token: (-powers[token], token))[:top_k]
    whole, kept, reached = sum(powers[token] for token in order), [], Fraction(0)
    for token in order:
        if reached >= Fraction(top_p) * whole:
            break
        kept.append(token)
        reached += powers[token]
    return [
        float(powers[token] / reached) if token in kept else 0.0 for token in range(len(logits))
    ]


@given(LOGITS, TEMPERATURES, TOP_K, TOP_P)
def test_the_result_agrees_with_a_loop_over_tokens(
    logits: list[float], temperature: float, top_k: int | None, top_p: float
) -> None:
    found = sampling_probabilities(np.array(logits), SamplingSettings(temperature, top_k, top_p))
    expected = one_by_one(logits, temperature, top_k, top_p)
    if np.allclose(found, expected, atol=1e-12):
        return
    # The kept sets can differ only in tokens that are within rounding of the limit or equal.
    raw = np.array(one_by_one(logits, temperature, top_k, 1.0))
    reached = raw[found > 0].sum()
    assert reached >= top_p - 1e-9
    assert reached - raw[found > 0].min() <= top_p + 1e-9


@given(LOGITS, TEMPERATURES, TOP_K, TOP_P)
def test_probabilities_sum_to_one_and_keep_their_order(
    logits: list[float], temperature: float, top_k: int | None, top_p: float
) -> None:
    found = sampling_probabilities(np.array(logits), SamplingSettings(temperature, top_k, top_p))
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    assert (found > 0).sum() <= (top_k or len(logits))
    raw = sampling_probabilities(np.array(logits), SamplingSettings(temperature))
    kept = found > 0
    assert found[kept] * raw[kept].sum() == pytest.approx(raw[kept])


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=20, unique=True), TOP_K, TOP_P)
def test_near_temperature_0_only_the_largest_is_left(
    logits: list[int], top_k: int | None, top_p: float
) -> None:
    for temperature in (0.0, 1e-320, 1e-9, 0.01):
        found = sampling_probabilities(
            np.array(logits), SamplingSettings(temperature, top_k, top_p)
        )
        assert found.argmax() == np.argmax(logits)
        assert found.max() == pytest.approx(1)


def test_equal_tokens_are_equally_likely() -> None:
    logits = np.array([2.0, 5.0, 5.0, 1.0])
    assert sampling_probabilities(logits, SamplingSettings(0)).tolist() == [0, 0.5, 0.5, 0]
    assert sampling_probabilities(logits, SamplingSettings(1, 1)).tolist() == [0, 1, 0, 0]
    assert sampling_probabilities(np.zeros(4), SamplingSettings(1, None, 0.5)).tolist() == [
        0.5,
        0.5,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("temperature", (-0.1, None, 1.0)),
        ("temperature", (math.nan, None, 1.0)),
        ("temperature", (math.inf, None, 1.0)),
        ("top_k", (1.0, 0, 1.0)),
        ("top_p", (1.0, None, 0.0)),
        ("top_p", (1.0, None, 1.1)),
        ("top_p", (1.0, None, math.nan)),
    ],
)
def test_invalid_sampling_settings_are_rejected(
    field: str, settings: tuple[float, int | None, float]
) -> None:
    with pytest.raises(InputError) as refused:
        sampling_probabilities(np.zeros(3), SamplingSettings(*settings))
    assert refused.value.field == field
    assert refused.value.remedy is not None
    name, value = refused.value.remedy
    sampling_probabilities(np.zeros(3), replace(SamplingSettings(), **{name: value}))


@pytest.mark.parametrize("broken", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]])
def test_logits_that_are_not_finite_are_rejected(broken: list[float]) -> None:
    with pytest.raises(InputError, match="diverged"):
        sampling_probabilities(np.array(broken))


@given(LOGITS, st.integers(0, 2**32 - 1), TOP_K)
def test_excluded_tokens_are_never_sampled(
    logits: list[float], seed: int, top_k: int | None
) -> None:
    chances = sampling_probabilities(np.array(logits), SamplingSettings(1, top_k))
    generator = np.random.default_rng(seed)
    drawn = [sample_token(chances, generator) for _ in range(20)]
    assert all(chances[token] > 0 for token in drawn)
    again = np.random.default_rng(seed)
    assert drawn == [sample_token(chances, again) for _ in range(20)]


def test_tokens_are_sampled_with_their_probabilities() -> None:
    chances, generator = np.array([0.5, 0.0, 0.3, 0.2]), np.random.default_rng(7)
    counts = np.bincount([sample_token(chances, generator) for _ in range(20_000)], minlength=4)
    # Pearson's chi-squared statistic with 2 degrees of freedom exceeds 13.8 for one of a thousand
    # seeds.
    expected = 20_000 * chances[[0, 2, 3]]
    assert (((counts[[0, 2, 3]] - expected) ** 2) / expected).sum() < 13.8
    assert counts[1] == 0


class Almost1:
    """A generator whose random numbers are as large as possible."""

    def random(self) -> float:
        return 1 - 2**-53


@given(LOGITS)
def test_the_largest_random_number_selects_an_existing_token(logits: list[float]) -> None:
    chances = sampling_probabilities(np.array(logits), SamplingSettings(0.1))
    token = sample_token(chances, Almost1())  # type: ignore[arg-type]
    assert chances[token] > 0
