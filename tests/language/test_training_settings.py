"""Problems with training settings are reported by field, with a remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from visualizer.errors import InputError
from visualizer.language.training_settings import (
    SETTING_LIMITS,
    CorpusKind,
    CorpusSource,
    LearningRateDecay,
    ModelKind,
    TrainingSettings,
    check_settings,
    find_settings_problems,
)

WRONG = [
    ({"block": 0}, "block", "The block size cannot be 0. Use 1 or more."),
    ({"batch": 9_999}, "batch", "The batch size cannot be 9,999. Use 4,096 or less."),
    (
        {"width": 64, "heads": 6},
        "heads",
        "The embedding size 64 cannot be split into 6 heads. Use 4 heads.",
    ),
    ({"dropout": 1.0}, "dropout", "The dropout rate must be at least 0 and less than 1."),
    ({"rate": 0.0}, "rate", "The learning rate must be greater than 0"),
    ({"rate": float("nan")}, "rate", "The learning rate must be greater than 0"),
    ({"source": CorpusSource(CorpusKind.FILE)}, "path", "Choose a text file to train on."),
    (
        {"model": ModelKind.BIGRAM, "heads": 65},
        "heads",
        "The number of heads cannot be 65. Use 64 or less.",
    ),
    ({"model": ModelKind.BIGRAM, "layers": -1}, "layers", "The number of layers cannot be -1."),
    ({"source": CorpusSource(CorpusKind.FILE, "a", size=2**62)}, "size", "The text length"),
    ({"source": CorpusSource(seed=2**31)}, "kind", "The text seed must be at least 0 and"),
    ({"source": CorpusSource(size=10)}, "size", "The text length cannot be 10. Use 1,000 or more."),
]


def test_the_default_settings_are_valid() -> None:
    assert find_settings_problems(TrainingSettings()) == ()


@pytest.mark.parametrize(("changes", "field", "sentence"), WRONG)
def test_problems_are_reported(changes: dict[str, object], field: str, sentence: str) -> None:
    (problem,) = find_settings_problems(replace(TrainingSettings(), **changes))
    assert problem.field == field
    assert problem.sentence.startswith(sentence)
    with pytest.raises(InputError, match=r"\."):
        check_settings(replace(TrainingSettings(), **changes))


@pytest.mark.parametrize("model", [ModelKind.BIGRAM, ModelKind.AVERAGE, ModelKind.DOT_PRODUCT])
def test_heads_are_checked_only_for_models_with_heads(model: ModelKind) -> None:
    assert find_settings_problems(TrainingSettings(model=model, heads=7)) == ()


@given(st.sampled_from(sorted(SETTING_LIMITS.keys() - {"size"})), st.integers(-(2**40), 2**40))
def test_remedies_fix_the_problems(name: str, value: int) -> None:
    settings = TrainingSettings(model=ModelKind.BIGRAM)
    settings = replace(settings, **{name: value})
    for problem in find_settings_problems(settings):
        assert problem.remedy
        settings = replace(settings, **{problem.remedy[0]: problem.remedy[1]})
    assert find_settings_problems(settings) == ()


def test_the_learning_rate_warms_up_and_decays_to_0() -> None:
    settings = TrainingSettings(rate=1.0, warmup=4, steps=104, decay=LearningRateDecay.COSINE)
    assert [settings.learning_rate_at(step) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert settings.learning_rate_at(54) == pytest.approx(0.5)
    assert settings.learning_rate_at(104) == settings.learning_rate_at(9_999) == 0
    assert TrainingSettings(rate=0.1).learning_rate_at(10**6) == 0.1
