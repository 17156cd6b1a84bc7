"""Captured attention with vectors has all stages between the vectors and the weights."""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.explained_values import result_of, room
from visualizer.attention.captured_attention import CapturedAttention, CapturedVectors, LayerMask
from visualizer.attention.captured_run import (
    SINKS_NOTICE,
    UNEXPLAINED_WEIGHTS_NOTICE,
    create_captured_run,
)
from visualizer.attention.spec import BooleanMatrix, Dtype, MaskKind
from visualizer.attention.stages import Operation, has_forbidden_cells
from visualizer.explanations.explain import describe_step, explain
from visualizer.features.explain.presenter import explain_head_cell
from visualizer.format import format_percentage
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import present_board
from visualizer.session.cell_address import Cell
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.document import Document
from visualizer.session.resolved_view import resolve_view
from visualizer.session.timeline import StepSize, Timeline
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.attention.run import Run

LAYERS, HEADS, TOKENS, D_HEAD, D_VALUE = 2, 3, 4, 5, 2
ALLOWED = {
    MaskKind.NONE: np.ones((TOKENS, TOKENS), dtype=bool),
    MaskKind.CAUSAL: np.tri(TOKENS, dtype=bool),
    MaskKind.WINDOW: np.tri(TOKENS, dtype=bool) & ~np.tri(TOKENS, k=-2, dtype=bool),
    MaskKind.OWN: ~np.eye(TOKENS, dtype=bool),
}
BETWEEN = ("queries", "keys", "values", "scores", "scaled", "masked", "weights", "context")


def layer_mask(mask: MaskKind) -> LayerMask:
    own = BooleanMatrix.from_array(ALLOWED[mask]) if mask is MaskKind.OWN else None
    return LayerMask(mask, own, 2 if mask is MaskKind.WINDOW else 0)


def captured(
    *masks: MaskKind,
    scaling: float = 0.3,
    layers: int = LAYERS,
    softcap: float = 0.0,
    bias: np.ndarray | None = None,
    sinks: np.ndarray | None = None,
) -> tuple[CapturedAttention, dict[str, np.ndarray]]:
    """Return attention captured with its vectors, and all stages in float64."""
    chance = np.random.default_rng(5)
    sizes = (layers, HEADS, TOKENS)
    known = {
        "queries": chance.normal(size=(*sizes, D_HEAD)).astype(np.float32),
        "keys": chance.normal(size=(*sizes, D_HEAD)).astype(np.float32),
        "values": chance.normal(size=(*sizes, D_VALUE)).astype(np.float32),
    }
    queries, keys, values = (array.astype(np.float64) for array in known.values())
    scores = queries @ keys.swapaxes(-1, -2)
    first, *others = (layer_mask(mask) for mask in masks or (MaskKind.CAUSAL,))
    allowed = np.stack([ALLOWED[one.mask] for one in (first, *others)])[:, None]
    expected: dict[str, Any] = {**known, "scores": scores, "scaled": scores * scaling}
    now = expected["scaled"]
    if softcap:
        now = expected["capped"] = np.tanh(now / softcap) * softcap
    if bias is not None:
        expected["bias"] = np.broadcast_to(bias, now.shape).astype(np.float64)
        now = expected["biased"] = now + expected["bias"]
    masked = np.where(allowed, now, -np.inf)
    shares = np.exp(masked - masked.max(-1, keepdims=True))
    total = shares.sum(-1, keepdims=True)
    if sinks is not None:
        total += np.exp(sinks[..., None, None].astype(np.float64) - masked.max(-1, keepdims=True))
    weights = shares / total
    expected |= {"masked": masked, "weights": weights, "context": weights @ values}
    vectors = CapturedVectors(
        D_HEAD,
        D_VALUE,
        known["queries"].tobytes(),
        known["keys"].tobytes(),
        known["values"].tobytes(),
        scaling=scaling,
        mask=MaskKind.NONE if others else first.mask,
        own_mask=None if others else first.own_mask,
        window=0 if others else first.window,
        layer_masks=(first, *others) if others else (),
        softcap=softcap,
        bias=None if bias is None else bias.tobytes(),
        sinks=None if sinks is None else sinks.tobytes(),
    )
    made = CapturedAttention.from_array("a model", weights.astype(np.float32), tuple("abca"))
    return replace(made, vectors=vectors), expected


def given_stages(run: Run) -> set[str]:
    return {row.name for row in run.trace.stages if row.operation is Operation.CAPTURED}


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mask", MaskKind)
def test_every_stage_is_that_of_float64(mask: MaskKind, layers: int) -> None:
    attention, expected = captured(mask, layers=layers)
    run = create_captured_run(attention)
    left_out = {"masked"} if mask is MaskKind.NONE else set()
    assert set(run.trace.names) == set(BETWEEN) - left_out
    assert given_stages(run) == {"queries", "keys", "values"}
    assert run.notices == ()
    for name in run.trace.names:
        whole = expected[name] if layers > 1 else expected[name][0]
        np.testing.assert_allclose(run.trace.read(name), whole, atol=1e-5)


@pytest.mark.parametrize(
    "masks", [(MaskKind.NONE, MaskKind.WINDOW), (MaskKind.CAUSAL, MaskKind.OWN)]
)
def test_each_layer_is_hatched_and_explained_by_its_own_mask(
    masks: tuple[MaskKind, MaskKind],
) -> None:
    attention, expected = captured(*masks)
    trace = create_captured_run(attention).trace
    for layer, mask in enumerate(masks):
        np.testing.assert_allclose(trace.read("weights", (layer,)), expected["weights"][layer],
                                   atol=1e-6)  # fmt: skip
        assert has_forbidden_cells(trace.spec_at((layer,)), "masked") == (mask is not MaskKind.NONE)
        np.testing.assert_array_equal(trace.allowed_mask("masked", (layer,)), ALLOWED[mask])
        for cell in np.ndindex(HEADS, TOKENS, TOKENS):
            found = explain(trace, "masked", (layer, *cell))
            assert (found.chosen == 0) == ALLOWED[mask][cell[1:]]
            assert result_of(found) == pytest.approx(expected["masked"][(layer, *cell)], abs=1e-5)
    copied = pickle.loads(pickle.dumps(trace))
    assert copied.layer_masks == trace.layer_masks
    alike = [measured.entropy.item() for measured in (
        trace.uniform_head_measures("weights", (layer,)) for layer in range(LAYERS)
    )]  # fmt: skip
    counts = [ALLOWED[mask].sum(-1) for mask in masks]
    assert alike == pytest.approx([np.log2(each).mean() for each in counts])


CHANCE = np.random.default_rng(6)
BIAS = CHANCE.normal(size=(LAYERS, HEADS, TOKENS, TOKENS)).astype(np.float32)
SINKS = CHANCE.normal(size=(LAYERS, HEADS)).astype(np.float32)
STEPS: dict[str, dict[str, Any]] = {
    "cap": {"softcap": 1.5},
    "bias of all layers": {"bias": BIAS[0]},
    "bias by layer": {"bias": BIAS},
    "sinks": {"sinks": SINKS},
    "all": {"softcap": 1.5, "bias": BIAS, "sinks": SINKS},
    "all of one layer": {"softcap": 1.5, "bias": BIAS[:1], "sinks": SINKS[:1], "layers": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("mask", [MaskKind.NONE, MaskKind.CAUSAL])
@pytest.mark.parametrize("steps", STEPS)
def test_what_models_do_to_scores_are_stages(steps: str, mask: MaskKind) -> None:
    attention, expected = captured(mask, **STEPS[steps])
    run = create_captured_run(attention)
    left_out = {"masked"} if mask is MaskKind.NONE else set()
    assert set(run.trace.names) == {*expected} - left_out
    assert given_stages(run) == {"queries", "keys", "values", "bias"} & {*expected}
    assert run.notices[:1] == ((SINKS_NOTICE,) if "sinks" in STEPS[steps] else ())
    for name in run.trace.names:
        whole = expected[name] if attention.layers > 1 else expected[name][0]
        np.testing.assert_allclose(run.trace.read(name), whole, atol=1e-5)
        for cell in np.ndindex(whole.shape):
            found = explain(run.trace, name, cell)
            near = max(1e-5, room(found, Dtype.FLOAT32))
            assert result_of(found) == pytest.approx(whole[cell], abs=near), (name, cell)
    copied = pickle.loads(pickle.dumps(run.trace))
    assert copied.stages == run.trace.stages
    for name in run.trace.names:
        np.testing.assert_array_equal(copied.read(name), run.trace.read(name))


@pytest.mark.parametrize("grain", StepSize)
def test_what_models_do_to_scores_is_said(grain: StepSize) -> None:
    run = create_captured_run(captured(**STEPS["all"])[0])
    line = Timeline.from_trace(run.trace, grain)
    places = [line.position_of_step(position) for position in range(len(line))]
    said = {place.stage: describe_step(run, (1,), line.step_at(place), head=2)
            for place in places if place}  # fmt: skip
    assert "capped at ±1.5" in said["capped"]
    assert "add" in said["biased"]
    assert "sink" in said["weights"]


def test_what_models_do_to_scores_is_in_the_caption() -> None:
    assert describe_value_origin(create_captured_run(captured(**STEPS["all"])[0])) == (
        "a model · 2 layers × 3 heads × 4 × 4 · scores within ±1.5 · biases added to scores · rows "
        "with a sink"
    )
    assert (
        describe_value_origin(create_captured_run(captured()[0]))
        == "a model · 2 layers × 3 heads × 4 × 4"
    )


def test_what_was_given_and_not_understood_is_named() -> None:
    attention, _ = captured()
    assert attention.vectors
    vectors = replace(attention.vectors, is_plain=False, not_understood=("indices", "flags"))
    run = create_captured_run(replace(attention, vectors=vectors))
    assert run.trace.names == ("queries", "keys", "values", "weights", "context")
    assert run.notices == (
        "The weights are shown as captured. The attention also received “indices”, “flags”, with "
        "an unknown effect on the scores, so the scores are omitted.",
    )


def test_a_usual_scaling_is_named_by_its_size() -> None:
    attention, _ = captured(scaling=1 / math.sqrt(D_HEAD))
    assert attention.spec.divisor == pytest.approx(math.sqrt(D_HEAD))
    assert attention.spec.temperature == 1
    unscaled, _ = captured(scaling=1.0)
    assert "scaled" not in create_captured_run(unscaled).trace


@pytest.mark.parametrize("reason", ["other scaling", "other weights", "not plain"])
def test_weights_that_do_not_follow_stay_as_they_are(reason: str) -> None:
    attention, expected = captured()
    assert attention.vectors
    changed = {
        "other scaling": replace(attention, vectors=replace(attention.vectors, scaling=0.31)),
        "not plain": replace(attention, vectors=replace(attention.vectors, is_plain=False)),
        "other weights": replace(
            attention, numbers=(expected["weights"] * 0.9).astype(np.float32).tobytes()
        ),
    }[reason]
    run = create_captured_run(changed)
    assert run.trace.names == ("queries", "keys", "values", "scores", "weights", "context")
    assert given_stages(run) == {"queries", "keys", "values", "weights"}
    assert run.notices[0] == UNEXPLAINED_WEIGHTS_NOTICE
    np.testing.assert_array_equal(run.trace.read("weights"), changed.to_array())


def test_the_terms_give_the_value() -> None:
    run = create_captured_run(captured()[0])
    for stage in run.trace.names:
        for cell in np.ndindex(run.trace.read(stage).shape):
            found = explain(run.trace, stage, cell)
            near = max(1e-5, room(found, Dtype.FLOAT32))
            assert result_of(found) == pytest.approx(found.value, abs=near), (stage, cell)


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("grain", StepSize)
def test_every_step_has_its_sentence(grain: StepSize, is_plain: bool) -> None:
    attention, _ = captured()
    assert attention.vectors
    attention = replace(attention, vectors=replace(attention.vectors, is_plain=is_plain))
    run = create_captured_run(attention)
    line = Timeline.from_trace(run.trace, grain)
    said = []
    for position in range(len(line)):
        place = line.position_of_step(position)
        assert place
        said.append(describe_step(run, (1,), line.step_at(place), head=2))
    assert all(sentence.endswith(".") for sentence in said)
    assert "read from a" in said[0]


@pytest.mark.parametrize("stage", BETWEEN)
def test_every_cell_has_its_sentence(stage: str) -> None:
    attention, expected = captured()
    document = Document().with_setting("captured", attention)
    run = create_captured_run(attention)
    resolved = resolve_view(document, View(layer=1), run, document)
    for place in np.ndindex(expected[stage].shape[1:]):
        panel = explain_head_cell(resolved, Cell(stage, place), is_pinned=False)
        assert panel.sentence.endswith((".", "</b>"))
        assert panel.value


@pytest.mark.parametrize(
    ("stage", "sentence", "formula"),
    [
        ("capped", "capped at ±1.5, is ", "tanh(score ÷ 1.5) × 1.5"),
        ("bias", "The bias of <b>c</b> (query 3) and <b>a</b> (key 1) is ", "read from "),
        ("biased", "and its bias, ", "score + bias"),
        ("weights", " The sink in head 2 receives ", "exp(score) ÷ (Σ exp(score) + exp(sink))"),
    ],
)
def test_cells_of_what_models_do_to_scores_are_told(
    stage: str, sentence: str, formula: str
) -> None:
    attention, expected = captured(MaskKind.CAUSAL, **STEPS["all"])
    document, run = Document().with_setting("captured", attention), create_captured_run(attention)
    resolved = resolve_view(document, View(layer=1), run, document)
    panel = explain_head_cell(resolved, Cell(stage, (1, 2, 0)), is_pinned=False)
    assert sentence in panel.sentence
    assert panel.formula.startswith(formula)
    if stage == "weights":
        assert [line.name for line in panel.terms] == ["a", "b", "c", "a", "sink"]
        taken = 1 - expected["weights"][1, 1, 2].sum()
        assert panel.sentence.endswith(f" receives {format_percentage(taken)}.")


def test_the_same_numbers_are_not_computed_again() -> None:
    attention, _ = captured()
    first = create_captured_run(attention)
    again = create_captured_run(attention, ("w", "x", "y", "z"), previous=first)
    assert again.trace is first.trace
    assert again.texts == (("w", "x", "y", "z"),)


READ_TOKENS = tuple("vwxyz")
NOT_ALL = np.random.default_rng(7).random((TOKENS, len(READ_TOKENS))) < 0.7
NOT_ALL[:, 0] = True


def captured_of_other_keys(*, is_masked: bool) -> tuple[CapturedAttention, dict[str, np.ndarray]]:
    """Return a decoder's attention to an encoder's tokens, and all stages in float64."""
    chance = np.random.default_rng(8)
    keys = len(READ_TOKENS)
    sizes = {"queries": (TOKENS, D_HEAD), "keys": (keys, D_HEAD), "values": (keys, D_VALUE)}
    known = {
        name: chance.normal(size=(LAYERS, HEADS, *size)).astype(np.float32)
        for name, size in sizes.items()
    }
    expected: dict[str, Any] = {name: each.astype(np.float64) for name, each in known.items()}
    expected["scores"] = expected["queries"] @ expected["keys"].swapaxes(-1, -2)
    expected["scaled"] = expected["scores"] * 0.3
    now = expected["scaled"]
    if is_masked:
        now = expected["masked"] = np.where(NOT_ALL, now, -np.inf)
    shares = np.exp(now)
    expected["weights"] = shares / shares.sum(-1, keepdims=True)
    expected["context"] = expected["weights"] @ expected["values"]
    made = CapturedAttention.from_array(
        "a model", expected["weights"].astype(np.float32), tuple("abca"), READ_TOKENS
    )
    vectors = CapturedVectors(
        D_HEAD,
        D_VALUE,
        known["queries"].tobytes(),
        known["keys"].tobytes(),
        known["values"].tobytes(),
        scaling=0.3,
        mask=MaskKind.OWN if is_masked else MaskKind.NONE,
        own_mask=BooleanMatrix.from_array(NOT_ALL) if is_masked else None,
    )
    return replace(made, vectors=vectors), expected


@pytest.mark.slow
@pytest.mark.parametrize("is_masked", [False, True])
def test_stages_of_other_keys_are_those_of_float64(is_masked: bool) -> None:
    attention, expected = captured_of_other_keys(is_masked=is_masked)
    run = create_captured_run(attention)
    assert set(run.trace.names) == {*expected}
    assert run.trace.query_key_counts == (TOKENS, len(READ_TOKENS))
    assert given_stages(run) == {"queries", "keys", "values"}
    document = Document().with_setting("captured", attention)
    resolved = resolve_view(document, View(layer=1), run, document)
    for name in run.trace.names:
        np.testing.assert_allclose(run.trace.read(name), expected[name], atol=1e-5)
        for cell in np.ndindex(expected[name].shape):
            found = explain(run.trace, name, cell)
            near = max(1e-5, room(found, Dtype.FLOAT32))
            assert result_of(found) == pytest.approx(expected[name][cell], abs=near), (name, cell)
            if cell[0] == 1:
                panel = explain_head_cell(resolved, Cell(name, cell[1:]), is_pinned=False)
                assert panel.sentence.endswith((".", "</b>"))
    allowed = run.trace.allowed_mask("weights", (0,))
    np.testing.assert_array_equal(allowed, NOT_ALL if is_masked else np.ones_like(NOT_ALL))


@pytest.mark.parametrize("grain", StepSize)
def test_steps_of_other_keys_name_their_tokens(grain: StepSize) -> None:
    run = create_captured_run(captured_of_other_keys(is_masked=True)[0])
    line = Timeline.from_trace(run.trace, grain)
    said = {}
    for position in range(len(line)):
        place = line.position_of_step(position)
        assert place
        said[place.stage, place.row] = describe_step(run, (1,), line.step_at(place), head=2)
    assert all(sentence.endswith(".") for sentence in said.values())
    if grain is not StepSize.STAGE:
        assert "<b>y</b>" in said["keys", 3]
        assert "<b>b</b>" in said["queries", 1]
        assert any(f"<b>{token}</b> (key" in said["scores", 1] for token in READ_TOKENS)


def test_rows_of_other_keys_have_their_labels() -> None:
    attention, _ = captured_of_other_keys(is_masked=True)
    document, run = Document().with_setting("captured", attention), create_captured_run(attention)
    stages = frozenset(run.trace.names)
    resolved = resolve_view(document, View(stages=stages), run, document)
    labels = {each.stage: each.rows.labels for each in present_board(resolved, Board()).heatmaps}
    assert labels["keys"] == labels["values"] == READ_TOKENS
    assert labels["queries"] == labels["weights"] == labels["context"] == tuple("abca")
    forbidden = {each.stage: each.forbidden for each in present_board(resolved, Board()).heatmaps}
    np.testing.assert_array_equal(forbidden["masked"], ~NOT_ALL)
