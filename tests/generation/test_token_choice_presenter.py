"""Next-token probabilities as bars: tokens, sums and descriptions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.generation.token_choice_presenter import present_next_tokens
from visualizer.language.sampling import DIVERGED_ERROR, SamplingSettings

SAMPLINGS = st.builds(
    SamplingSettings, st.floats(0, 3), st.none() | st.integers(1, 40), st.floats(0.01, 1)
)
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz \n0123456789")


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=len(LETTERS)), SAMPLINGS, st.integers(1, 15)
)
def test_bars_are_the_largest_and_all_sum_to_one(
    logits: list[float], sampling: SamplingSettings, most: int
) -> None:
    numbers = np.array([[0.0] * len(logits), logits])
    panel = present_next_tokens("ab", numbers, LETTERS[: len(logits)], sampling, most)
    expected = softmax(numbers[1])
    assert sum(bar.model_probability for bar in panel.bars) == pytest.approx(1)
    assert sum(bar.sampling_probability for bar in panel.bars) == pytest.approx(1)
    own = [bar for bar in panel.bars if bar.token is not None]
    assert [bar.model_probability for bar in own] == sorted(
        (bar.model_probability for bar in own), reverse=True
    )
    for bar in own:
        assert bar.token is not None
        assert bar.model_probability == pytest.approx(expected[bar.token])
    assert len(panel.bars) <= most + 1
    assert len(panel.bars) == len(logits) or panel.bars[-1].token is None
    assert all(0 <= bar.model_probability <= panel.end for bar in panel.bars)
    assert all(bar.description in panel.description for bar in panel.bars)


def test_excluded_tokens_are_described() -> None:
    logits = np.log(np.array([[0.6, 0.3, 0.1]]))
    panel = present_next_tokens("a", logits, ("x", " ", "\n"), SamplingSettings(top_k=2))
    assert [bar.description for bar in panel.bars] == [
        "“x”: 60%, sampling probability 67%",
        "“␣”: 30%, sampling probability 33%",
        "“⏎”: 10%, excluded",
    ]
    assert [bar.probabilities_text for bar in panel.bars] == [
        "67% (model 60%)",
        "33% (model 30%)",
        "0% (model 10%)",
    ]
    assert panel.legend.endswith("Excluded: 1 token with 10% of the probability.")
    assert panel.heading == "After “a”"


def test_the_excluded_probability_is_that_after_the_temperature() -> None:
    """Temperature 2 takes the square roots of 0.64, 0.32 and 0.04, which are 0.8, 0.566 and 0.2."""
    logits = np.log(np.array([[0.64, 0.32, 0.04]]))
    panel = present_next_tokens("a", logits, LETTERS[:3], SamplingSettings(2, top_k=2))
    lost = 0.2 / (0.8 + 0.32**0.5 + 0.2)
    assert panel.legend.endswith(
        f"Excluded: 1 token with {100 * lost:.0f}% of the probability at temperature 2."
    )
    always = present_next_tokens("a", logits, LETTERS[:3], SamplingSettings(0))
    assert always.legend.endswith("At temperature 0, the most likely token is always selected.")
    assert [bar.probabilities_text for bar in always.bars][:2] == [
        "100% (model 64%)",
        "0% (model 32%)",
    ]


def test_without_excluded_tokens_there_is_no_legend() -> None:
    panel = present_next_tokens("a", np.zeros((1, 20)), LETTERS[:20], SamplingSettings())
    assert panel.legend == ""
    others = panel.bars[-1]
    assert others.token is None
    assert (others.model_probability, others.sampling_probability) == pytest.approx((0.4, 0.4))
    assert panel.bars[-1].description == "8 others: 40%"
    assert panel.end == 0.5


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_invalid_logits_have_no_bars(broken: float) -> None:
    panel = present_next_tokens("a", np.full((1, 3), broken), LETTERS[:3], SamplingSettings())
    assert panel.bars == ()
    assert panel.legend == DIVERGED_ERROR


def test_a_logit_of_minus_infinity_is_a_probability_of_0() -> None:
    panel = present_next_tokens("a", np.array([[0.0, -np.inf]]), LETTERS[:2], SamplingSettings())
    assert [bar.model_probability for bar in panel.bars] == [1, 0]


def test_without_logits_there_are_no_bars() -> None:
    panel = present_next_tokens((), np.zeros((0, 3)), ("a", "b", "c"), SamplingSettings())
    assert panel.bars == ()
    assert panel.description == ""
