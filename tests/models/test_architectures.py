"""Tests that the attention of every architecture is recorded as the model computes it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from tests.support.examples import others_slow
from tests.support.explained_values import result_of, room
from tests.support.screens import resolved
from tests.support.tiny_models import (
    BY_THEMSELVES,
    DECODERS,
    ENCODERS,
    LATENT,
    PAIRS,
    VISION,
    inputs_of,
    tiny_model,
)
from visualizer.attention.captured_attention import numbered_labels
from visualizer.attention.layer_operations import ResidualStream, weight_names
from visualizer.attention.spec import Dtype
from visualizer.attention.stages import Operation
from visualizer.explanations.explain import describe_step, explain
from visualizer.features.explain.presenter import explain_head_cell
from visualizer.models.attention_recorder import AttentionCall, RecordingMethod, record_attention
from visualizer.models.layer_recorder import record_module_calls
from visualizer.models.recorded_runs import LayerGroupRun, create_layer_run, group_calls
from visualizer.models.surrounding_stages import add_surrounding_stages
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.resolved_view import resolve_view
from visualizer.session.timeline import Step, StepSize, Timeline
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import Trace

QUICK = ("llama", "gemma2", "gpt_oss", "bert", "t5", "bloom")
ALL = (*DECODERS, *ENCODERS, *PAIRS, *VISION, *BY_THEMSELVES)
NOT_EXPLAINED = frozenset(BY_THEMSELVES)
"""Architectures with weights that are not explained by queries and keys."""
BETWEEN = {
    "gemma2": frozenset({"scaled", "capped", "masked"}),
    "gpt_oss": frozenset({"scaled", "masked"}),
    **dict.fromkeys(("t5", "mt5", "umt5"), frozenset({"bias", "biased"})),
}
"""Stages between scores and weights, by architecture."""


NOT_FOLLOWED = frozenset({
    "gemma3n_text", "llama4_text", "albert", *BY_THEMSELVES,
})  # fmt: skip
"""Architectures with layer results or queries and keys that are not explained by the layer's input:
repeated layers, norms that run twice, several streams."""
WITH_EXPERTS = frozenset({
    "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "glm4_moe", "gpt_oss",
    "deepseek_v2", "deepseek_v3", "jamba",
})  # fmt: skip
"""Architectures whose expert mixtures are recognized."""


def is_followed(found: LayerGroupRun) -> bool:
    """Return whether queries, keys and values are computed from the known residual stream."""
    rows = {row.name: row.by_layer or (row,) for row in found.run.trace.stages}
    wanted = ("residual", "queries", "keys", "values", "output", "result")
    return {*wanted} <= {*rows} and not any(
        row.operation is Operation.CAPTURED for name in wanted for row in rows[name]
    )


def architectures() -> list[Any]:
    slow = pytest.mark.slow
    return [kind if kind in QUICK else pytest.param(kind, marks=slow) for kind in ALL]


def own_attentions(model: Any, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the attention weights that the model itself returns with eager attention."""
    model.set_attn_implementation("eager")
    model.config._attn_implementation = "eager"  # also for models without the attention interface
    result = model(**given, output_attentions=True)
    sides = (result[name] for name in result if name.endswith("attentions") and result[name])
    return [weights for side in sides for weights in side if weights is not None]


def closest(weights: torch.Tensor, calls: list[AttentionCall]) -> float:
    alike = [call.weights for call in calls if call.weights.shape == weights.shape]
    return min(float((weights - each).abs().max()) for each in alike)


@pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
@pytest.mark.parametrize("kind", architectures())
def test_weights_equal_those_of_the_model_and_its_results_are_unchanged(kind: str) -> None:
    model = tiny_model(kind)
    given = inputs_of(model)
    with torch.no_grad():
        before = model(**given)[0]
        used = model.config._attn_implementation
        with record_attention(model) as calls:
            meanwhile = model(**given)[0]
        assert model.config._attn_implementation == used
        assert torch.equal(model(**given)[0], before)
        assert float((meanwhile - before).abs().max()) <= 2e-6 * max(1, float(before.abs().max()))
        own = own_attentions(model, given)
    assert len(calls) == len(own) > 0
    assert max(closest(weights, calls) for weights in own) <= 1e-6
    method = RecordingMethod.SOFTMAX if kind in BY_THEMSELVES else RecordingMethod.INTERFACE
    assert {call.method for call in calls} == {method}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", architectures())
def test_cells_of_every_stage_are_explained(kind: str) -> None:
    assert check_architecture(kind, tiny_model(kind))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", others_slow(["cohere2", "smollm3", "exaone4", "modernbert"]))
def test_layers_with_and_without_positions_are_recognized_together(kind: str) -> None:
    (run,) = check_architecture(kind, tiny_model(kind, num_hidden_layers=4), cells=20)
    trace = run.trace
    differing = {row.name: row.by_layer for row in trace.stages if row.by_layer}
    assert {*differing} == ({"normed"} if kind == "modernbert" else {"queries", "keys"})
    still = 0 if kind == "modernbert" else 3  # the layer without a norm or without positions
    for name, rows in differing.items():
        source = rows[still].reads[0]
        at = (still,)
        np.testing.assert_array_equal(trace.read(name, at), trace.read(source, at))
        assert rows[1] == replace(trace.stage(name), by_layer=(), step=rows[1].step)
    assert pickle.loads(pickle.dumps(trace)).stages == trace.stages
    line = Timeline.from_trace(trace, StepSize.ROW)
    for position in range(len(line)):
        place = line.position_of_step(position)
        assert place
        caption = describe_step(run, (still,), line.step_at(place), head=0)
        is_still = place.stage in differing
        assert ("unchanged" in caption and "score" not in caption) == is_still


def check_architecture(kind: str, model: Any, cells: int = 5) -> list[Run]:
    """Check the recognized steps of each stage of a model, and the terms of some cells."""
    runs = []
    with torch.no_grad(), record_module_calls(model) as passed, record_attention(model) as calls:
        model(**inputs_of(model))
    chance = np.random.default_rng(0)
    groups = group_calls(calls)
    assert sum(len(group.layers) for group in groups) == len(calls)
    for group in groups:
        queries, keys = group.calls[0].weights.shape[-2:]
        labels = numbered_labels(queries), () if keys == queries else numbered_labels(keys)
        found = create_layer_run(group, kind, *labels)
        if not group.is_cross:
            found = add_surrounding_stages(found, model, passed, {}, {})
            assert is_followed(found) == (kind not in NOT_FOLLOWED), group.name
            if kind in WITH_EXPERTS:
                fed = found.run.trace.stage("feed_forward")
                rows_of_layers = fed.by_layer or (fed,)
                assert rows_of_layers[-1].operation is Operation.EXPERT_MIXTURE
        run = found.run
        runs.append(run)
        assert {*run.trace.names} >= BETWEEN.get(kind, frozenset()) or group.is_cross
        is_given = run.trace.stage("weights").operation is Operation.CAPTURED
        assert is_given == (kind in NOT_EXPLAINED), group.name
        read = note_weights_read(run.trace)
        for stage in run.trace.stages:
            shape = run.trace.tensor(stage.name).shape
            for _ in range(cells):
                cell = tuple(int(chance.integers(size)) for size in shape)
                read.clear()
                told = explain(run.trace, stage.name, cell)
                step = run.trace.stage_in_layer(stage.name, cell[: len(run.trace.axes)]).step
                if not isinstance(step, ResidualStream):
                    assert read.issubset(weight_names(step) if step else ()), stage.name
                near = max(1e-5, room(told, Dtype.FLOAT32))
                assert result_of(told) == pytest.approx(told.value, abs=near), (stage.name, cell)
    return runs


def note_weights_read(trace: Trace) -> set[str]:
    """Return a set that collects the names of weights when they are read."""
    read: set[str] = set()

    class Noted(dict[str, torch.Tensor]):
        def __getitem__(self, name: str) -> torch.Tensor:
            read.add(name)
            return super().__getitem__(name)

    trace.model_weights = Noted(trace.model_weights)
    return read


@pytest.mark.parametrize(
    ("kind", "stage", "formula", "told"),
    [
        (
            "gemma", "normed", "number ÷ root mean square × (1 + weight)",
            "times (1 + ",
        ),
        (
            "gemma", "residual", "embedding × 5.6569",
            "times 5.6569",
        ),
        ("opt", "queries", "(Σ number × weight + bias) × 0.3536", "times 0.3536"),
        ("granite", "scaled", "score ÷ 64", "divided by 64"),
    ],
)  # fmt: skip
def test_formulas_and_captions_name_the_multiplier(
    kind: str, stage: str, formula: str, told: str
) -> None:
    settings = {"attention_multiplier": 1 / 64} if kind == "granite" else {}
    (run,) = check_architecture(kind, tiny_model(kind, **settings), cells=1)
    rows, columns = run.trace.shape(stage)[-2:]
    place = (0, 2, 1)[-len(run.trace.stage(stage).dims) :]
    panel = explain_head_cell(resolved(run, View()), Cell(stage, place), is_pinned=False)
    assert panel.formula == formula
    step = Step(stage, range(2, 3) if kind == "gemma" else range(rows), range(columns))
    assert told in describe_step(run, (0,), step, head=0)
    if stage == "scaled":
        row = run.trace.stage(stage)
        assert (row.symbol, row.description) == ("QKᵀ/64", "scores divided by 64")


def silu(numbers: np.ndarray) -> np.ndarray:
    made: np.ndarray = numbers / (1 + np.exp(-numbers))
    return made


@pytest.mark.filterwarnings("ignore")
def test_terms_of_experts_are_router_weights_and_expert_outputs() -> None:
    (run,) = check_architecture("qwen2_moe", tiny_model("qwen2_moe"), cells=1)
    trace, layer = run.trace, 1
    block = tiny_model("qwen2_moe").model.layers[layer].mlp
    parts = {name: part.detach().double().numpy() for name, part in block.named_parameters()}
    stream = trace.read("normed_attended", (layer,)).astype(np.float64)
    logits = stream @ parts["gate.weight"].T
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    gates = 1 / (1 + np.exp(-(stream @ parts["shared_expert_gate.weight"].T)))
    up = silu(stream @ parts["shared_expert.gate_proj.weight"].T)
    up *= stream @ parts["shared_expert.up_proj.weight"].T
    shared = gates * (up @ parts["shared_expert.down_proj.weight"].T)
    for token, column in ((0, 3), (4, 17), (8, 31)):
        found = explain(trace, "feed_forward", (layer, token, column))
        chosen = np.argsort(-shares[token])[:2]
        wanted = []
        for expert in chosen:
            gate, wide = np.split(parts["experts.gate_up_proj"][expert] @ stream[token], 2)
            made = parts["experts.down_proj"][expert] @ (silu(gate) * wide)
            wanted.append((shares[token, expert], made[column]))
        weights, results = (factor.read for factor in found.groups[0].factors)
        np.testing.assert_allclose(np.stack([weights, results], -1), wanted, atol=1e-6)
        np.testing.assert_allclose(found.terms[-1], shared[token, column], atol=1e-6)
        assert found.value == pytest.approx(found.terms.sum(), abs=1e-6)
        resolved = resolve_view(Document(), View(layer=layer), run)
        panel = explain_head_cell(resolved, Cell("feed_forward", (token, column)), is_pinned=True)
        names = [f"expert {expert + 1}" for expert in chosen]
        assert [line.name for line in panel.terms] == [*names, "shared"]
    words = describe_step(
        run, (layer,), Timeline.from_trace(trace, StepSize.ROW).step_at(row_of(run)), head=0
    )
    assert "the shared expert" in words
    assert "expert " in words


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("deepseek_v3", {"v_head_dim": 8}),  # values have fewer columns than queries and keys
        pytest.param("deepseek_v2", {}, marks=pytest.mark.slow),
        pytest.param("deepseek_v3", {"rope_interleave": False}, marks=pytest.mark.slow),
    ],
)
def test_keys_and_values_computed_from_a_latent_vector_are_recognized(
    kind: str, settings: dict[str, Any]
) -> None:
    model = tiny_model(kind, **settings)
    has_latent_queries = "v_head_dim" in settings
    if not has_latent_queries:
        model.config.q_lora_rank = None
        model = type(model)(model.config).eval()
    (run,) = check_architecture(kind, model, cells=20)
    trace = run.trace
    assert ("latent_queries" in trace) == has_latent_queries
    attention = model.model.layers[1].self_attn
    own = {name: part.detach().double().numpy() for name, part in attention.named_parameters()}
    stream = trace.read("normed", (1,)).astype(np.float64)
    latent, shared = np.split(stream @ own["kv_a_proj_with_mqa.weight"].T, [LATENT], -1)
    latent /= np.sqrt(np.square(latent).mean(-1, keepdims=True) + 1e-6)
    wide = (latent * own["kv_a_layernorm.weight"]) @ own["kv_b_proj.weight"].T
    keys, values = np.split(wide.reshape(len(stream), 4, -1).transpose(1, 0, 2), [8], -1)
    np.testing.assert_allclose(trace.read("values", (1,)), values, atol=1e-5)
    np.testing.assert_allclose(trace.read("keys", (1,))[..., :8], keys, atol=1e-5)
    np.testing.assert_allclose(trace.read("shared_keys", (1,)), shared, atol=1e-5)
    turned = {factor.name for factor in explain(trace, "keys", (1, 2, 4, 9)).groups[0].factors}
    assert turned == {"projected_keys", "rotary.cos"}
    (part,) = explain(trace, "projected_keys", (1, 2, 4, 9)).groups
    assert [factor.name for factor in part.factors] == ["shared_keys"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", others_slow(["granite", "granitemoe", "dinov2", "dinov3_vit"]))
def test_factors_applied_before_a_residual_addition_are_recognized(kind: str) -> None:
    """Sets the multiplier or column factors, because they are 1 in the tiny models."""
    by_column = kind.startswith("dino")
    model = tiny_model(kind, **({} if by_column else {"residual_multiplier": 0.22}))
    factors = torch.full((2, 32), 0.22)
    if by_column:
        torch.manual_seed(1)
        factors = torch.rand(2, 32) + 0.5
        named = [part for name, part in model.named_parameters() if "layer_scale1" in name]
        for part, own in zip(named, factors, strict=True):
            part.data[:] = own
    (run,) = check_architecture(kind, model, cells=10)
    trace = run.trace
    output = trace.read("output").astype(np.float64)
    wanted = trace.read("residual") + output * factors.numpy()[:, None]
    np.testing.assert_allclose(trace.read("attended"), wanted, atol=1e-5)
    found = explain(trace, "scaled_output", (1, 4, 7))
    assert found.groups[0].factors[1].read[0] == pytest.approx(float(factors[1, 7]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", others_slow(["t5", "bart"]))
def test_the_residual_stream_of_a_decoder_includes_its_cross_attention(kind: str) -> None:
    model = tiny_model(kind)
    (run,) = (one for one in check_architecture(kind, model, 10) if "crossed" in one.trace)
    trace = run.trace
    with torch.no_grad():
        result = model(**inputs_of(model), output_hidden_states=True)
    states = [state[0].numpy() for state in result.decoder_hidden_states]
    for layer in range(2):
        np.testing.assert_allclose(trace.read("residual", (layer,)), states[layer], atol=1e-5)
        crossed = trace.read("cross_output", (layer,))
        before = {row.name: row for row in trace.stages}["crossed"].reads[0]
        np.testing.assert_array_equal(
            trace.read("crossed", (layer,)), trace.read(before, (layer,)) + crossed
        )
    found = explain(trace, "residual", (1, 2, 3))
    assert [factor.name for group in found.groups for factor in group.factors] == ["result"]


@pytest.mark.filterwarnings("ignore")
def test_a_sink_after_the_softmax_scales_the_head_outputs() -> None:
    """Compares Granite's outputs, which include a sink, with those of a softmax with a sink."""
    model = tiny_model("granite_swa")
    sinks = torch.linspace(-1, 2, 4)
    for layer in model.model.layers:
        layer.self_attn.sinks.data[:] = sinks
    (run,) = check_architecture("granite_swa", model, cells=20)
    trace = run.trace
    scores = trace.read("masked").astype(np.float64)  # layer head query key
    powers = np.exp(scores)
    with_sink = powers.sum(-1, keepdims=True) + np.exp(sinks.numpy()[:, None, None])
    wanted = (powers / with_sink) @ trace.read("values").astype(np.float64)
    np.testing.assert_allclose(trace.read("gated_context"), wanted, atol=1e-5)
    joined = wanted.transpose(0, 2, 1, 3).reshape(trace.read("concat").shape)
    np.testing.assert_allclose(trace.read("concat"), joined, atol=1e-5)
    np.testing.assert_allclose(trace.read("weights").sum(-1), 1, atol=1e-6)


def row_of(run: Run) -> Any:
    line = Timeline.from_trace(run.trace, StepSize.ROW)
    places = (line.position_of_step(position) for position in range(len(line)))
    return next(place for place in places if place and place.stage == "feed_forward")
