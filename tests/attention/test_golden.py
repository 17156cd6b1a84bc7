"""The modules and the spec reproduce the numbers that the chapter and the notes print.

Source: ``tests/golden/chapter3.json``, which states where each number is printed.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from visualizer.attention.attend import attend
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.modules import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttentionV1,
    SelfAttentionV2,
    SimplifiedSelfAttention,
)
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    Projection,
    ScaleKind,
)

BOOK: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "chapter3.json").read_text(encoding="utf-8")
)
TOKENS = tuple(BOOK["tokens"])
INPUTS = torch.tensor(BOOK["inputs"])  # token d_in
TWICE = torch.stack((INPUTS, INPUTS))  # batch token d_in
JOURNEY = 1

SIMPLIFIED = apply_mechanism(Mechanism.SIMPLIFIED, AttentionSpec(device=Device.CPU))
SELF = apply_mechanism(Mechanism.SELF, AttentionSpec(seed=789, device=Device.CPU))
CAUSAL = replace(SELF, mask=MaskKind.CAUSAL)


def section(start: str) -> Any:
    (found,) = (value for name, value in BOOK.items() if name.startswith(start))
    return found


def assert_printed(actual: np.ndarray, printed: object) -> None:
    """Compare numbers with printed numbers, in which null stands for −∞."""
    rows = np.asarray(printed, dtype=float)
    np.testing.assert_allclose(actual, np.where(np.isnan(rows), -np.inf, rows), rtol=0, atol=1e-4)


def linear_of_seed_789() -> SelfAttentionV2:
    torch.manual_seed(789)
    return SelfAttentionV2(3, 2)


def causal_of_seed_789(dropout: float = 0.0) -> CausalAttention:
    module = CausalAttention(3, 2, 6, dropout)
    module.load_state_dict(linear_of_seed_789().state_dict() | {"mask": module.get_buffer("mask")})
    return module


def test_the_inputs_are_the_books() -> None:
    trace = run((TOKENS,), replace(SIMPLIFIED, d_in=3)).trace
    assert_printed(trace.read("input"), BOOK["inputs"])


# ---------------------------------------------------------------------------- §3.3, without weights

RULES = [
    (NormalisationKind.SUM, "weights by sum"),
    (NormalisationKind.NAIVE_SOFTMAX, "weights by naive softmax"),
    (NormalisationKind.SOFTMAX, "weights by softmax"),
]


@pytest.mark.parametrize(("normalisation", "name"), RULES)
def test_3_3_1_weights_of_one_query(normalisation: NormalisationKind, name: str) -> None:
    module = SimplifiedSelfAttention()
    module.spec = replace(module.spec, normalisation=normalisation)
    spec = replace(SIMPLIFIED, normalisation=normalisation)
    for trace in (module.trace(INPUTS), run((TOKENS,), spec).trace):
        assert_printed(trace.read("weights", (0, JOURNEY)), section("3.3.1")[name])


def test_3_3_1_scores_and_context_of_one_query() -> None:
    for trace in (SimplifiedSelfAttention().trace(INPUTS), run((TOKENS,), SIMPLIFIED).trace):
        assert_printed(trace.read("scores", (0, JOURNEY)), section("3.3.1")["scores"])
        assert_printed(trace.read("context", (0, JOURNEY)), section("3.3.1")["context"])


@pytest.mark.parametrize("stage", ["scores", "weights", "context"])
def test_3_3_2_all_queries(stage: str) -> None:
    for trace in (SimplifiedSelfAttention().trace(INPUTS), run((TOKENS,), SIMPLIFIED).trace):
        assert_printed(trace.read(stage, (0,)), section("3.3.2")[stage])


# ------------------------------------------------------------------------------- §3.4, with weights


def test_3_4_1_one_query() -> None:
    printed = section("3.4.1")
    torch.manual_seed(123)
    module = SelfAttentionV1(printed["d_in"], printed["d_out"])
    spec = replace(SELF, projection=Projection.UNIFORM, seed=123)
    for trace in (module.trace(INPUTS), run((TOKENS,), spec).trace):
        assert_printed(trace.read("queries", (0, JOURNEY)), printed["query vector"])
        itself = trace.read("scores", (0, JOURNEY, JOURNEY))
        assert_printed(itself, printed["score of journey with itself"])
        assert_printed(trace.read("scores", (0, JOURNEY)), printed["scores"])
        assert_printed(trace.read("weights", (0, JOURNEY)), printed["weights, scaled by sqrt(2)"])
        assert_printed(trace.read("context", (0, JOURNEY)), printed["context"])


def test_3_4_2_uniform_parameters() -> None:
    printed = section("3.4.2 SelfAttentionV1")["context"]
    torch.manual_seed(123)
    assert_printed(SelfAttentionV1(3, 2)(INPUTS).detach().numpy(), printed)
    spec = replace(SELF, projection=Projection.UNIFORM, seed=123)
    assert_printed(run((TOKENS,), spec).trace.read("concat"), printed)


def test_3_4_2_linear_layers() -> None:
    printed = section("3.4.2 SelfAttentionV2")["context"]
    assert_printed(linear_of_seed_789()(INPUTS).detach().numpy(), printed)
    assert_printed(run((TOKENS,), SELF).trace.read("concat"), printed)


# ---------------------------------------------------------------------------- §3.5, causal, dropout


def test_3_5_1_weights_without_a_mask() -> None:
    for trace in (linear_of_seed_789().trace(INPUTS), run((TOKENS,), SELF).trace):
        assert_printed(trace.read("weights", (0,)), section("3.5.1")["weights, no mask"])


@pytest.mark.parametrize(
    ("route", "stage", "name"),
    [
        (MaskPlacement.AFTER, "unmasked", "weights, no mask"),
        (MaskPlacement.AFTER, "weights", "weights times the mask, not renormalised"),
        (MaskPlacement.AFTER_RENORMALISED, "zeroed", "weights times the mask, not renormalised"),
        (MaskPlacement.AFTER_RENORMALISED, "weights", "weights (both routes"),
        (MaskPlacement.BEFORE, "weights", "weights (both routes"),
    ],
)
def test_3_5_1_routes(route: MaskPlacement, stage: str, name: str) -> None:
    module = causal_of_seed_789()
    module.spec = replace(module.spec, route=route)
    (printed,) = (value for key, value in section("3.5.1").items() if key.startswith(name))
    for trace in (module.trace(INPUTS), run((TOKENS,), replace(CAUSAL, route=route)).trace):
        assert_printed(trace.read(stage, (0,)), printed)


def test_3_5_1_masked_scores() -> None:
    printed = section("3.5.1")["scores masked with -inf (null is -inf)"]  # before they are scaled
    scaled = causal_of_seed_789().trace(INPUTS).read("masked", (0,))
    assert_printed(scaled * math.sqrt(2), printed)
    trace = run((TOKENS,), replace(CAUSAL, scale=ScaleKind.NONE)).trace
    assert_printed(trace.read("masked", (0,)), printed)


@pytest.mark.parametrize("system", ["Linux", "macOS"])
def test_3_5_2_the_masks_of_both_systems(system: str) -> None:
    printed = section("3.5.2")
    weights = np.array(printed[f"causal weights, {system}"])
    spec = replace(CAUSAL, dropout=printed["rate"], own_kept=BooleanMatrix.from_array(weights > 0))
    given = dict(linear_of_seed_789().named_parameters())
    for trace in (run((TOKENS,), spec).trace, attend(spec, INPUTS, given)):
        assert_printed(trace.read("dropped", (0,)), weights)
        # In the output for macOS, the last row of ones is wrong; the weights are right.
        ones = np.array(printed[f"ones, {system}"])[:5]
        assert_printed(trace.read("weights", (0,))[:5] * ones, weights[:5])


@pytest.mark.skipif(sys.platform != "linux", reason="torch draws other masks on other systems")
def test_3_5_2_the_module_draws_as_printed_on_linux() -> None:
    printed = section("3.5.2")
    module = causal_of_seed_789(printed["rate"])
    torch.manual_seed(123)
    trace = module.trace(INPUTS)
    assert_printed(trace.read("dropped", (0,)), printed["causal weights, Linux"])
    given = dict(module.named_parameters())
    torch.manual_seed(123)
    kept = torch.nn.functional.dropout(torch.ones(6, 6), printed["rate"])
    assert_printed(kept.numpy(), printed["ones, Linux"])
    spec = replace(CAUSAL, dropout=printed["rate"])
    again = attend(spec, INPUTS, given, kept=kept > 0)
    assert_printed(again.read("dropped", (0,)), printed["causal weights, Linux"])


def test_3_5_3_a_batch() -> None:
    torch.manual_seed(123)
    module = CausalAttention(3, 2, context_length=6, dropout=0.0)
    spec = replace(CAUSAL, seed=123)
    assert_both_twice(module, spec, section("3.5.3")["context, each item"])


# -------------------------------------------------------------------------------------- §3.6, heads


def test_3_6_1_stacked_heads() -> None:
    torch.manual_seed(123)
    module = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=2)
    spec = apply_mechanism(Mechanism.STACKED, AttentionSpec(seed=123, device=Device.CPU))
    assert_both_twice(module, spec, section("3.6.1")["context, each item"])


def test_3_6_2_weight_split() -> None:
    torch.manual_seed(123)
    module = MultiHeadAttention(3, 2, context_length=6, dropout=0.0, num_heads=2)
    spec = apply_mechanism(Mechanism.MULTI_HEAD, AttentionSpec(seed=123, device=Device.CPU))
    assert_both_twice(module, spec, section("3.6.2")["output, each item"])


def assert_both_twice(module: torch.nn.Module, spec: AttentionSpec, printed: object) -> None:
    trace = run((TOKENS, TOKENS), spec).trace
    for result in (module(TWICE).detach().numpy(), trace.read(trace.output_stage_name)):
        for item in result:
            assert_printed(item, printed)


@pytest.mark.slow
def test_gpt_2_small_size() -> None:
    size = section("GPT-2")
    d_in, heads, tokens = size["d_in"], size["num_heads"], size["context_length"]
    x = torch.zeros(size["batch"], tokens, d_in)
    spec = apply_mechanism(
        Mechanism.MULTI_HEAD, AttentionSpec(d_in=d_in, d_out=size["d_out"], heads=heads)
    )
    spec = replace(spec, heads=heads)
    with torch.no_grad():
        module = MultiHeadAttention(d_in, size["d_out"], tokens, 0.0, heads)
        assert list(module(x).shape) == size["output shape"]
        trace = attend(spec, x, initialize_parameters(spec, tokens, x.device))
    assert list(trace.tensor(trace.output_stage_name).shape) == size["output shape"]
    assert trace.tensor("weights").shape == (size["batch"], heads, tokens, tokens)


# ---------------------------------------------------------------------------------------- the notes


@pytest.mark.parametrize(
    ("mask", "weights"), [(MaskKind.NONE, "uniform weights"), (MaskKind.CAUSAL, "causal weights")]
)
def test_notes_averaging(mask: MaskKind, weights: str) -> None:
    notes = section("notes: averaging")
    x = torch.tensor(notes["x"], dtype=torch.float32)
    results = {
        MaskKind.NONE: [notes["uniform result, each row"]] * len(x),
        MaskKind.CAUSAL: notes["causal result"],
    }
    spec = replace(apply_mechanism(Mechanism.AVERAGE, AttentionSpec(d_in=3)), mask=mask)
    module = SimplifiedSelfAttention()
    module.spec = replace(module.spec, normalisation=NormalisationKind.UNIFORM, mask=mask)
    for trace in (module.trace(x), attend(spec, x, {})):
        assert_printed(trace.read("weights", (0,)), notes[weights])
        assert_printed(trace.read("context", (0,)), results[mask])


def test_notes_self_attention_by_hand() -> None:
    notes = section("notes: self-attention by hand")
    x = torch.tensor(notes["x"], dtype=torch.float32)
    names = ("W_query", "W_key", "W_value")
    weights = {name: torch.tensor(notes[name], dtype=torch.float32) for name in names}
    module = SelfAttentionV1(2, 2)
    module.load_state_dict(weights)
    module.spec = replace(module.spec, mask=MaskKind.CAUSAL, scale=ScaleKind.NONE)
    spec = replace(CAUSAL, d_in=2, d_out=2, projection=Projection.UNIFORM, scale=ScaleKind.NONE)
    for trace in (module.trace(x), attend(spec, x, weights)):
        for stage in ("queries", "keys", "values", "scores", "weights", "context"):
            assert_printed(trace.read(stage, (0,)), notes[stage])


def test_every_section_of_attention_is_held() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    names = [name for name in BOOK if name not in {"_about", "tokens", "inputs"}]
    held = names[: names.index("notes: self-attention by hand") + 1]
    starts = {part.split('"')[0] for part in source.split('section("')[1:]}
    assert [name for name in held if not any(name.startswith(start) for start in starts)] == []
