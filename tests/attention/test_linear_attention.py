"""Linear attention, compared with the recurrence of Katharopoulos et al. 2020 (eq. 16 to 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.small_runs import a_run
from visualizer.attention.settings import no_effect_reason
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Dtype,
    MaskKind,
    NormalisationKind,
    NumberMatrix,
)

if TYPE_CHECKING:
    from visualizer.attention.run import Run

TEXT = "one two three four five"
OTHER = "six seven eight nine ten"
FIELDS: dict[str, Any] = {
    "normalisation": NormalisationKind.LINEAR,
    "d_in": 6,
    "d_out": 8,
    "dtype": Dtype.FLOAT64,
}
OWN = BooleanMatrix.from_array(np.array([
    [0, 1, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0], [1, 0, 0, 0, 1],
], dtype=bool))  # fmt: skip
LARGE = tuple(
    (name, NumberMatrix.from_array(30 * np.random.default_rng(0).normal(size=(6, 8))))
    for name in ("W_query", "W_key")
)


def features(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def recurrence(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compute one head of causal linear attention token by token, as an RNN with two states."""
    state, total = np.zeros((keys.shape[1], values.shape[1])), np.zeros(keys.shape[1])
    found = []
    for query, key, value in zip(features(queries), features(keys), values, strict=True):
        state = state + np.outer(key, value)
        total = total + key
        found.append(query @ state / (query @ total))
    return np.array(found)


def over_allowed_keys(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Compute one head of linear attention by sums over the allowed keys; 0 without keys."""
    found = np.zeros((len(queries), values.shape[1]))
    for at, query in enumerate(features(queries)):
        own = features(keys[allowed[at]])
        if len(own):
            found[at] = query @ (own.T @ values[allowed[at]]) / (query @ own.sum(0))
    return found


def vectors(run: Run, *place: int) -> list[np.ndarray]:
    return [run.trace.read(name, place) for name in ("queries", "keys", "values")]


SETTINGS: dict[str, dict[str, Any]] = {
    "two heads": {},
    "heads of one column": {"d_out": 2},
    "one head of one column": {"heads": 1, "d_out": 1},
    "shared keys": {"heads": 4, "key_value_heads": 2},
    "large scores": {"own_weights": LARGE},
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("texts", [(TEXT,), (TEXT, OTHER)], ids=len)
def test_causal_context_is_that_of_the_recurrence(settings: str, texts: tuple[str, ...]) -> None:
    run = a_run(*texts, **{**FIELDS, **SETTINGS[settings]})
    context = run.trace.read("context")
    for place in np.ndindex(context.shape[:-2]):
        queries, keys, values = vectors(run, *place)
        expected = recurrence(queries, keys, values)
        np.testing.assert_allclose(context[place], expected, rtol=1e-12, atol=1e-12)


MASKS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "no mask": ({"mask": MaskKind.NONE}, np.ones((5, 5), dtype=bool)),
    "window": (
        {"mask": MaskKind.WINDOW, "window": 2},
        np.tri(5, dtype=bool) & ~np.tri(5, k=-2, dtype=bool),
    ),
    "own matrix": ({"mask": MaskKind.OWN, "own_mask": OWN}, OWN.to_array()),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_context_is_summed_over_the_allowed_keys(settings: str, mask: str) -> None:
    fields, allowed = MASKS[mask]
    run = a_run(TEXT, **{**FIELDS, **SETTINGS[settings], **fields})
    for head in range(run.trace.spec.heads):
        queries, keys, values = vectors(run, head)
        expected = over_allowed_keys(queries, keys, values, allowed)
        found = run.trace.read("context", (head,))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_padding_adds_nothing() -> None:
    fields = {**FIELDS, "mask": MaskKind.NONE}
    padded, alone = a_run(TEXT, "six seven", **fields), a_run("six seven", **fields)
    np.testing.assert_allclose(
        padded.trace.read("context", (1,))[:, :2], alone.trace.read("context"), atol=1e-12
    )


def test_implied_weights_mix_the_values_and_are_labelled() -> None:
    run = a_run(TEXT, **FIELDS)
    weights = run.trace.read("weights")
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-12)
    mixed = weights @ run.trace.read("values")
    np.testing.assert_allclose(mixed, run.trace.read("context"), atol=1e-12)
    assert "mplied" in run.trace.stage("weights").title
    assert all("weights" not in stage.reads for stage in run.trace.stages)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("scale", {}),
        ("temperature", {"temperature": 2.0}),
        ("dropout", {"dropout": 0.5}),
        ("dropout_seed", {"dropout": 0.5}),
        ("mode", {"dropout": 0.5}),
        ("own_kept", {"own_kept": OWN}),
        ("route", {}),
    ],
)
def test_settings_of_weights_have_no_effect(name: str, fields: dict[str, Any]) -> None:
    spec = AttentionSpec(**{**FIELDS, **fields})
    reason = no_effect_reason(spec, name, lambda setting, value: f"{setting} {value}")
    assert "normalisation linear" in reason
    np.testing.assert_array_equal(
        a_run(TEXT, **FIELDS).trace.read("output"),
        a_run(TEXT, **{**FIELDS, **fields}).trace.read("output"),
    )
