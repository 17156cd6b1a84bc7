"""A pre-norm block computes the same numbers as the blocks of the lecture notes and of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from torch import Tensor, nn
from torch.nn import functional

import visualizer
from tests.support.attention_strategies import Case, cases
from tests.support.small_runs import a_run
from visualizer.attention.attend import attend
from visualizer.attention.custom_weights import are_all_weights_custom, custom_weights_of
from visualizer.attention.mechanisms import (
    Mechanism,
    apply_mechanism,
    mechanism_of,
    with_block_embedding_size,
)
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.run import run
from visualizer.attention.spec import (
    Activation,
    AttentionSpec,
    Device,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    Projection,
    TransformerBlockKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.attention.stages import stages
from visualizer.errors import InputError
from visualizer.session.document import Document

if TYPE_CHECKING:
    from tests.conftest import Machine
    from visualizer.attention.trace import Trace

CPU = torch.device("cpu")
TEXT = (("Your", "journey", "starts", "with", "one", "step"),)
BEFORE = ["residual", "normed"]
AFTER = ["attended", "normed_attended", "up", "hidden", "feed_forward", "result"]


class Head(nn.Module):
    """One head of the lecture notes' attention."""

    def __init__(self, n_embd: int, head_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[-2]
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(torch.tril(torch.ones(tokens, tokens)) == 0, float("-inf"))
        out: Tensor = functional.softmax(wei, dim=-1) @ self.value(x)
        return out


class LectureBlock(nn.Module):
    """The lecture's block: attention, then a feed-forward layer; the notes have no projection."""

    def __init__(
        self, n_embd: int, n_head: int, hidden: int, activation: nn.Module, *, projects: bool
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embd, n_embd // n_head) for _ in range(n_head)])
        self.proj = nn.Linear(n_embd, n_embd) if projects else nn.Identity()
        self.net = nn.Sequential(nn.Linear(n_embd, hidden), activation, nn.Linear(hidden, n_embd))
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.ln1(x)
        x = x + self.proj(torch.cat([head(normed) for head in self.heads], dim=-1))
        result: Tensor = x + self.net(self.ln2(x))
        return result


def a_block(**fields: Any) -> AttentionSpec:
    base = AttentionSpec(d_in=8, device=Device.CPU, mode=DropoutMode.EVAL)
    return replace(apply_mechanism(Mechanism.BLOCK, base), **fields)


def randomised(spec: AttentionSpec, tokens: int) -> dict[str, Tensor]:
    """Draw random weights for a block, including its norms."""
    generator = torch.Generator().manual_seed(spec.seed)
    return {
        name: torch.randn(tensor.shape, generator=generator) if name.startswith("ln") else tensor
        for name, tensor in initialize_parameters(spec, tokens, CPU).items()
    }


def lecture_block(spec: AttentionSpec, parameters: dict[str, Tensor]) -> LectureBlock:
    activation = nn.GELU() if spec.activation is Activation.GELU else nn.ReLU()
    projects = spec.output_projection
    block = LectureBlock(spec.d_in, spec.heads, spec.hidden_width, activation, projects=projects)
    names = {"out_proj": "proj", "linear1": "net.0", "linear2": "net.2", "ln1": "ln1", "ln2": "ln2"}
    state = {
        f"{there}.{kind}": parameters[f"{here}.{kind}"]
        for here, there in names.items()
        if projects or there != "proj"
        for kind in ("weight", "bias")
    }
    for layer in ("query", "key", "value"):
        parts = parameters[f"W_{layer}.weight"].chunk(spec.heads)
        state |= {f"heads.{head}.{layer}.weight": part for head, part in enumerate(parts)}
    block.load_state_dict(state)
    return block.eval()


def computed(spec: AttentionSpec, x: Tensor, parameters: dict[str, Tensor]) -> Trace:
    with torch.no_grad():
        return attend(spec, x, parameters)


SIZES = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 9), st.integers(1, 7))


@given(SIZES, st.sampled_from(Activation), st.booleans(), st.integers(0, 2**31 - 1))
def test_it_is_the_block_of_the_lecture_and_of_the_notes(
    sizes: tuple[int, int, int, int], activation: Activation, projects: bool, seed: int
) -> None:
    heads, d_head, d_ff, tokens = sizes
    width = 1 + heads * d_head  # the norm of a single column is 0
    spec = a_block(d_in=width, d_out=width, heads=1, d_ff=d_ff, activation=activation, seed=seed)
    spec = replace(spec, heads=1 + (width % 2 == 0), output_projection=projects)
    parameters = randomised(spec, tokens)
    x = torch.randn(2, tokens, width, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        expected = lecture_block(spec, parameters)(x)
    result = computed(spec, x, parameters).tensor("result")
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", Activation)
def test_it_is_the_lecture_notes_block_to_a_millionth(activation: Activation) -> None:
    spec = a_block(heads=4, activation=activation)
    trace = run(TEXT, spec).trace
    parameters = {name: trace.tensor(name) for name in trace.parameters}
    with torch.no_grad():
        expected = lecture_block(spec, parameters)(trace.tensor("input"))
    assert float((trace.tensor("result") - expected).abs().max()) <= 1e-6


@pytest.mark.parametrize("activation", Activation)
def test_it_is_torchs_own_layer(activation: Activation) -> None:
    spec = a_block(heads=4, bias=True, d_ff=20, activation=activation)
    parameters, x = randomised(spec, 6), torch.randn(1, 6, 8)
    layer = nn.TransformerEncoderLayer(
        8, 4, 20, dropout=0.0, activation=str(activation), batch_first=True, norm_first=True
    )
    joined = {
        kind: torch.cat([parameters[f"W_{name}.{kind}"] for name in ("query", "key", "value")])
        for kind in ("weight", "bias")
    }
    state = {f"self_attn.in_proj_{kind}": tensor for kind, tensor in joined.items()}
    names = {"out_proj": "self_attn.out_proj", "ln1": "norm1", "ln2": "norm2"}
    for here in ("out_proj", "ln1", "ln2", "linear1", "linear2"):
        for kind in ("weight", "bias"):
            state[f"{names.get(here, here)}.{kind}"] = parameters[f"{here}.{kind}"]
    layer.load_state_dict(state)
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    # Training mode avoids torch's fused path, which rounds differently on the CPU; dropout is off.
    with torch.no_grad():
        expected = layer.train()(x, src_mask=causal)
    trace = computed(spec, x, parameters)
    np.testing.assert_allclose(trace.read("result"), expected.numpy(), rtol=1e-6, atol=2e-6)


def test_by_hand_in_float64() -> None:
    spec = a_block(d_in=4, d_out=4, heads=1, dtype=Dtype.FLOAT64, mask=MaskKind.NONE)
    trace = run((("one", "two"),), spec).trace
    read = {name: trace.read(name) for name in (*trace.names, *trace.parameters)}
    x = read["input"]

    def normed(rows: np.ndarray) -> np.ndarray:
        means = rows.mean(axis=1, keepdims=True)
        made: np.ndarray = (rows - means) / np.sqrt(rows.var(axis=1, keepdims=True) + 1e-5)
        return made

    def linear(rows: np.ndarray, name: str) -> np.ndarray:
        made: np.ndarray = rows @ read[f"{name}.weight"].T + read.get(f"{name}.bias", 0)
        return made

    queries, keys, values = (linear(normed(x), layer) for layer in ("W_query", "W_key", "W_value"))
    powers = np.exp(queries @ keys.T / 2)
    attended = x + linear(powers / powers.sum(axis=1, keepdims=True) @ values, "out_proj")
    hidden = np.maximum(linear(normed(attended), "linear1"), 0)
    result = attended + linear(hidden, "linear2")
    np.testing.assert_allclose(read["normed"], normed(x), atol=1e-12)
    np.testing.assert_allclose(read["attended"], attended, atol=1e-12)
    np.testing.assert_allclose(read["hidden"], hidden, atol=1e-12)
    np.testing.assert_allclose(read["result"], result, atol=1e-12)


# ------------------------------------------------------------------------------ unchanged behaviour


@given(cases(block=TransformerBlockKind.PRE_NORM))
def test_the_block_leaves_the_other_weights_and_stages_as_they_are(case: Case) -> None:
    alone = replace(case.spec, block=TransformerBlockKind.NONE)
    drawn, without = initialize_parameters(case.spec, 3, CPU), initialize_parameters(alone, 3, CPU)
    assert list(without) == [name for name in drawn if name not in case.spec.block_parameter_shapes]
    assert all(torch.equal(drawn[name], tensor) for name, tensor in without.items())
    names = [stage.name for stage in stages(case.spec)]
    around = {*BEFORE, *AFTER}
    without_block = [stage.name for stage in stages(alone)]
    assert [name for name in names if name not in around] == without_block
    assert names[-len(AFTER) :] == AFTER


@given(cases(block=TransformerBlockKind.PRE_NORM, key_value_heads=0))
def test_the_weights_are_those_of_plain_modules_in_their_order(case: Case) -> None:
    spec = replace(case.spec, own_weights=(), dtype=Dtype.FLOAT32)
    drawn = initialize_parameters(spec, 3, CPU)
    assert {
        name: tuple(drawn[name].shape) for name in spec.block_parameter_shapes
    } == spec.block_parameter_shapes
    if spec.projection is not Projection.LINEAR or spec.arrangement is HeadArrangement.STACKED:
        return
    torch.manual_seed(spec.seed)
    for _ in range(3):
        nn.Linear(spec.d_in, spec.d_out, bias=spec.bias)
    if spec.output_projection:
        nn.Linear(spec.concatenated_head_width, spec.concatenated_head_width)
    norm = nn.LayerNorm(spec.d_in)
    linear1 = nn.Linear(spec.d_in, spec.hidden_width)
    linear2 = nn.Linear(spec.hidden_width, spec.d_in)
    for name, module in (("ln1", norm), ("ln2", norm), ("linear1", linear1), ("linear2", linear2)):
        assert torch.equal(drawn[f"{name}.weight"], module.weight)
        assert torch.equal(drawn[f"{name}.bias"], module.bias)


def test_stages_that_did_not_change_are_taken_over() -> None:
    first = a_run(block=TransformerBlockKind.PRE_NORM, d_in=4, d_out=4)
    gelu = run(first.texts, replace(first.trace.spec, activation=Activation.GELU), first)
    assert gelu.trace.recomputed == {"hidden", "feed_forward", "result"}
    wider = run(first.texts, replace(first.trace.spec, d_ff=7), first)
    assert wider.trace.recomputed == {"up", "hidden", "feed_forward", "result"}
    none = run(first.texts, replace(first.trace.spec, block=TransformerBlockKind.NONE), first)
    assert "input" not in none.trace.recomputed
    assert "queries" in none.trace.recomputed


# -------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("d_in", range(1, 7))
def test_the_mechanism_gives_a_block_that_can_be_computed(d_in: int) -> None:
    spec = apply_mechanism(Mechanism.BLOCK, AttentionSpec(d_in=d_in, d_out=5, heads=4))
    assert not spec_problems(spec)
    assert mechanism_of(spec) is Mechanism.BLOCK
    assert spec.hidden_width == 4 * d_in
    for mechanism in Mechanism:
        assert mechanism_of(apply_mechanism(mechanism, spec)) is mechanism


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"d_out": 6}, "d_out", "so both must have the same size: 8, not 6."),
        ({"arrangement": HeadArrangement.STACKED}, "d_out", "8, not 16."),
        ({"arrangement": HeadArrangement.STACKED, "heads": 3}, "arrangement", "8, not 24."),
        (
            {"arrangement": HeadArrangement.STACKED, "projection": Projection.NONE},
            "arrangement",
            "8, not 16.",
        ),
        (
            {"d_ff": -1},
            "d_ff",
            "The feed-forward size must be at least 0 and at most 4,000,000. It is -1.",
        ),
        ({"d_ff": 5_000_000}, "d_ff", "It is 5,000,000."),
    ],
)
def test_sizes_that_do_not_fit_are_said_with_what_helps(
    fields: dict[str, Any], field: str, says: str
) -> None:
    (problem,) = spec_problems(a_block(**fields))
    assert problem.field == field
    assert problem.sentence.endswith(says)
    assert problem.remedy
    name, value = problem.remedy
    mended = replace(a_block(**fields), **{name: value})
    assert field not in {each.field for each in spec_problems(mended)}
    assert not spec_problems(replace(a_block(**fields), block=TransformerBlockKind.NONE, d_ff=0))


def test_another_embedding_size_takes_the_output_size_with_it() -> None:
    assert not spec_problems(with_block_embedding_size(a_block(), 6))
    stacked = a_block(arrangement=HeadArrangement.STACKED, heads=2, d_out=4)
    assert not spec_problems(stacked)
    assert with_block_embedding_size(stacked, 6).d_out == 3


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"d_in": 3000, "d_out": 3000}, "d_in", "With the embedding size 3,000, one token needs "),
        ({"d_ff": 900_000}, "d_ff", "With the feed-forward size 900,000, one token needs "),
    ],
)
def test_a_size_that_takes_too_much_memory_is_said_with_one_that_fits(
    fields: dict[str, Any], field: str, says: str, machine: Machine
) -> None:
    machine.set_free_bytes(6 * 2**20)
    document = Document(spec=a_block(heads=4, **fields))
    with pytest.raises(InputError) as refused:
        run(TEXT, document.spec)
    assert refused.value.field == field
    assert refused.value.sentence.startswith(says)
    assert refused.value.remedy
    mended = document.with_setting(*refused.value.remedy).spec
    assert getattr(mended, field) > 8
    assert not spec_problems(mended)
    assert "result" in run(TEXT, mended).trace


def test_own_weights_of_a_block_take_the_place_of_drawn_ones() -> None:
    rows = np.arange(24.0).reshape(4, 6) / 10
    given = {"linear1": rows, "linear2": rows.T, "ln2": np.full(4, 2.0), "linear1.bias": rows[0]}
    made = visualizer.attend("one two", mechanism="block", embedding_size=4, weights=given)
    assert made.spec.hidden_width == 6
    gained = made["normed_attended"]
    np.testing.assert_allclose(gained.std(axis=1), 2, atol=1e-3)
    np.testing.assert_allclose(made["up"], gained @ rows + rows[0], rtol=1e-5)
    hidden = np.maximum(made["up"], 0)
    bias = made.parameters["linear2.bias"]
    np.testing.assert_allclose(made["feed_forward"], hidden @ rows.T + bias, rtol=1e-5)
    for name, numbers in given.items():
        np.testing.assert_array_equal(made.weights[name], numbers.astype(np.float32))
    drawn = visualizer.attend("one two", mechanism="block", embedding_size=4)
    np.testing.assert_array_equal(made["attended"], drawn["attended"])


def test_all_kept_weights_of_a_block_are_those_that_it_had() -> None:
    spec = a_block(d_ff=5, seed=3)
    trace = run(TEXT, spec).trace
    kept = run(TEXT, replace(spec, own_weights=custom_weights_of(trace))).trace
    assert are_all_weights_custom(kept.spec)
    for name in trace.parameters:
        np.testing.assert_array_equal(kept.read(name), trace.read(name))
    assert not are_all_weights_custom(replace(kept.spec, own_weights=kept.spec.own_weights[:4]))
