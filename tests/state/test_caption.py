"""A caption says all that is needed to make a picture again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.state.making import a_run
from visualizer.attention.spec import Mask, Mode, Normalisation, Position, Projection, Route, Scale
from visualizer.state.caption import caption


def said(*texts: str, **fields: Any) -> list[str]:
    return caption(a_run(*texts, **fields)).split(" · ")


def test_the_books_words() -> None:
    assert said() == [
        "Multi-head attention",
        "6 tokens",
        "embedding 3, 2 heads of 1",
        "causal mask",
        "seed 123",
        "float32, CPU",
    ]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"mask": Mask.NONE}, "no mask"),
        ({"mask": Mask.WINDOW, "window": 2}, "window of 2"),
        ({"route": Route.AFTER_RENORMALISED}, "causal mask after softmax, renormalised"),
        ({"dropout": 0.25, "dropout_seed": 4}, "dropout 0.25 (seed 4)"),
        ({"projection": Projection.UNIFORM}, "uniform weights"),
        ({"position": Position.SINUSOIDAL}, "sinusoidal positions"),
        ({"normalisation": Normalisation.NAIVE_SOFTMAX}, "normalisation: naive"),
        ({"scale": Scale.NONE}, "not scaled"),
        ({"temperature": 0.5}, "temperature 0.5"),
        ({"seed": 7}, "seed 7"),
        ({"heads": 1}, "embedding 3, 1 head of 2"),
    ],
)
def test_what_is_not_usual_is_said(fields: dict[str, Any], part: str) -> None:
    assert part in said(**fields)


def test_what_does_not_act_is_not_said() -> None:
    parts = said(dropout=0.5, mode=Mode.EVAL, normalisation=Normalisation.UNIFORM)
    assert not [part for part in parts if "dropout" in part or "÷" in part]
