"""The modules match the book's: names, shapes, initial weights, outputs and gradients."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor, nn
from torch.func import functional_call

from visualizer.attention.modules import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttentionV1,
    SelfAttentionV2,
    SimplifiedSelfAttention,
)
from visualizer.attention.spec import BooleanMatrix, MaskKind, MaskPlacement
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.modules import AttentionModule

D_IN, D_OUT, LENGTH, HEADS = 3, 4, 6, 2

# State of the book's modules, by name and shape.
Shapes = dict[str, tuple[int, ...]]
LINEAR: Shapes = {"W_query.weight": (4, 3), "W_key.weight": (4, 3), "W_value.weight": (4, 3)}
BIASES: Shapes = {"W_query.bias": (4,), "W_key.bias": (4,), "W_value.bias": (4,)}
MASK: Shapes = {"mask": (6, 6)}
HEAD = LINEAR | MASK
STATES: dict[str, tuple[Callable[[], AttentionModule], Shapes]] = {
    "SimplifiedSelfAttention": (SimplifiedSelfAttention, {}),
    "SelfAttentionV1": (
        lambda: SelfAttentionV1(D_IN, D_OUT),
        {"W_query": (3, 4), "W_key": (3, 4), "W_value": (3, 4)},
    ),
    "SelfAttentionV2": (lambda: SelfAttentionV2(D_IN, D_OUT), LINEAR),
    "SelfAttentionV2, bias": (lambda: SelfAttentionV2(D_IN, D_OUT, True), LINEAR | BIASES),
    "CausalAttention": (lambda: CausalAttention(D_IN, D_OUT, LENGTH, 0.5), HEAD),
    "CausalAttention, bias": (
        lambda: CausalAttention(D_IN, D_OUT, LENGTH, 0.5, qkv_bias=True),
        HEAD | BIASES,
    ),
    "MultiHeadAttentionWrapper": (
        lambda: MultiHeadAttentionWrapper(D_IN, D_OUT, LENGTH, 0.5, HEADS),
        {f"heads.{head}.{name}": shape for head in range(2) for name, shape in HEAD.items()},
    ),
    "MultiHeadAttentionWrapper, one head, bias": (
        lambda: MultiHeadAttentionWrapper(D_IN, D_OUT, LENGTH, 0.5, 1, qkv_bias=True),
        {f"heads.0.{name}": shape for name, shape in (HEAD | BIASES).items()},
    ),
    "MultiHeadAttention": (
        lambda: MultiHeadAttention(D_IN, D_OUT, LENGTH, 0.5, HEADS),
        HEAD | {"out_proj.weight": (4, 4), "out_proj.bias": (4,)},
    ),
    "MultiHeadAttention, bias": (
        lambda: MultiHeadAttention(D_IN, D_OUT, LENGTH, 0.5, HEADS, qkv_bias=True),
        HEAD | BIASES | {"out_proj.weight": (4, 4), "out_proj.bias": (4,)},
    ),
}
MAKERS = {name: make for name, (make, _) in STATES.items()}


def inputs(*leading: int, tokens: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*leading, tokens, D_IN, generator=generator)


@pytest.fixture(params=MAKERS)
def module(request: pytest.FixtureRequest) -> AttentionModule:
    torch.manual_seed(0)
    return MAKERS[request.param]()


# ------------------------------------------------------------------------------- the book's modules


@pytest.mark.parametrize("name", STATES)
def test_names_and_shapes_are_the_books(name: str) -> None:
    make, shapes = STATES[name]
    assert {key: tuple(kept.shape) for key, kept in make().state_dict().items()} == shapes


@pytest.mark.parametrize("name", STATES)
def test_a_state_of_the_books_loads_and_counts(name: str) -> None:
    make, shapes = STATES[name]
    mask = torch.triu(torch.ones(LENGTH, LENGTH), diagonal=1)
    state = {
        key: mask if key.endswith("mask") else torch.full(shape, 0.25)
        for key, shape in shapes.items()
    }
    module = make().eval()
    module.load_state_dict(state)
    trace = module.trace(inputs())
    assert all((trace.tensor(key) == 0.25).all() for key in trace.parameters)
    assert len(trace.parameters) == sum(not key.endswith("mask") for key in shapes)


def test_the_masks_of_a_state_mark_what_comes_later() -> None:
    mask = CausalAttention(D_IN, D_OUT, LENGTH, 0.0).state_dict()["mask"]
    assert mask[2].tolist() == [0, 0, 0, 1, 1, 1]


# ------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("training", [False, True])
def test_forward_is_the_end_of_the_trace_to_the_bit(
    module: AttentionModule, training: bool
) -> None:
    module.train(training)
    x = inputs(2)
    torch.manual_seed(7)
    result = module(x)
    torch.manual_seed(7)
    trace = module.trace(x)
    assert torch.equal(result, trace.tensor(trace.output_stage_name))


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_leading_dims_are_texts_of_their_own(
    module: AttentionModule, leading: tuple[int, ...]
) -> None:
    module.eval()
    x = inputs(*leading)
    result = module(x)
    assert result.shape[:-1] == x.shape[:-1]
    for place in np.ndindex(*leading):
        torch.testing.assert_close(result[place], module(x[place]))


def test_evaluation_drops_nothing(module: AttentionModule) -> None:
    assert "dropped" not in module.eval().trace(inputs())


CELLS: dict[str, list[tuple[int, ...]]] = {
    "CausalAttention": [(2, 5, 5)],
    "MultiHeadAttentionWrapper": [(2, 5, 5), (2, 5, 5)],
    "MultiHeadAttention": [(2, 2, 5, 5)],
}


@pytest.mark.parametrize("name", CELLS)
def test_training_drops_what_torchs_dropout_drops(name: str) -> None:
    module, dropout = MAKERS[name](), nn.Dropout(0.5)
    torch.manual_seed(3)
    trace = module.trace(inputs(2))
    torch.manual_seed(3)
    drawn = [dropout(torch.ones(shape)) for shape in CELLS[name]]  # as in the book
    expected = drawn[0] if drawn[0].dim() == 4 else torch.stack(drawn, dim=1)
    actual = trace.tensor("dropped") / trace.tensor("weights")  # NaN at forbidden cells
    assert torch.equal(actual[actual == actual], expected[actual == actual])
    assert 0 < (actual == 0).sum() < actual.numel()


def test_a_rate_of_0_draws_nothing() -> None:
    module = CausalAttention(D_IN, D_OUT, LENGTH, 0.0)
    torch.manual_seed(5)
    first = torch.rand(1)
    torch.manual_seed(5)
    assert "dropped" not in module.trace(inputs())
    assert torch.equal(first, torch.rand(1))


# -------------------------------------------------------------------------------------------- fused

WHOLE = [name for name in MAKERS if "Wrapper" not in name]
"""Modules that can be computed without storing stages."""


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_without_stages_the_result_is_the_same_but_for_rounding(
    module: AttentionModule, leading: tuple[int, ...], training: bool
) -> None:
    module.train(training)
    x = inputs(*leading)
    torch.manual_seed(7)
    expected = module(x)
    torch.manual_seed(7)  # dropout drops the same weights
    torch.testing.assert_close(module.fused(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_without_stages_no_trace_is_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def trace(*_: object) -> None:
        raise AssertionError("a stage was made")

    module = MAKERS[name]()
    monkeypatch.setattr(module, "trace", trace)
    assert module.fused(inputs()).isfinite().all()


def test_without_stages_the_biases_and_the_masks_count() -> None:
    matrix = BooleanMatrix.from_array(np.array([[1, 0, 0], [1, 0, 1], [1, 1, 1]]))
    module = MAKERS["MultiHeadAttention, bias"]().eval()
    x = inputs(tokens=3)
    with torch.no_grad():
        for bias in (parameter for name, parameter in module.named_parameters() if "bias" in name):
            bias.uniform_(-1, 1)
    for mask in (MaskKind.NONE, MaskKind.CAUSAL, MaskKind.WINDOW, MaskKind.OWN):
        for route in MaskPlacement:
            module.spec = replace(module.spec, mask=mask, window=2, own_mask=matrix, route=route)
            torch.testing.assert_close(module.fused(x), module(x), rtol=1e-5, atol=1e-6)


def test_without_stages_too_many_tokens_are_refused_too() -> None:
    module = MAKERS["MultiHeadAttention"]()
    with pytest.raises(InputError, match=r"7 tokens exceed the context length of 6\."):
        module.fused(inputs(tokens=LENGTH + 1))


# ----------------------------------------------------------------------------------------- learning


def assert_gradients(module: AttentionModule) -> None:
    module = module.double().eval()
    names = [name for name, _ in module.named_parameters()]
    values = [value.detach().clone().requires_grad_() for _, value in module.named_parameters()]
    x = inputs(2, tokens=3).double().requires_grad_()

    def call(x: Tensor, *parameters: Tensor) -> Tensor:
        result: Tensor = functional_call(module, dict(zip(names, parameters, strict=True)), (x,))
        return result

    assert torch.autograd.gradcheck(call, (x, *values))


@pytest.mark.slow
def test_gradients_are_right(module: AttentionModule) -> None:
    assert_gradients(module)


def test_without_stages_the_gradients_are_the_same(module: AttentionModule) -> None:
    module = module.double()
    x = inputs(2).double().requires_grad_()
    learned = [x, *module.parameters()]
    found = []
    for call in (module, module.fused):
        torch.manual_seed(7)
        result: Tensor = call(x)
        found.append(torch.autograd.grad(result.square().sum(), learned))
    for fused, staged in zip(*found, strict=True):
        torch.testing.assert_close(fused, staged, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("route", MaskPlacement)
def test_a_row_that_may_read_nothing_has_gradients(route: MaskPlacement) -> None:
    matrix = BooleanMatrix.from_array(np.array([[0, 0, 0], [1, 0, 1], [1, 1, 1]]))
    module = SelfAttentionV2(D_IN, D_OUT)
    module.spec = replace(module.spec, mask=MaskKind.OWN, own_mask=matrix, route=route)
    assert_gradients(module)


def test_a_step_of_training_reaches_every_parameter(module: AttentionModule) -> None:
    result = module.eval()(inputs(2))
    if not list(module.parameters()):
        return
    result.square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0 or name.endswith("key.bias"), name


# ------------------------------------------------------------------------------------------- errors


def test_heads_that_do_not_divide_are_refused() -> None:
    said = "The output size 6 cannot be split into 4 heads. Use 3 or 6 heads, or the output size 8."
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        MultiHeadAttention(D_IN, 6, LENGTH, 0.0, num_heads=4)
    assert refused.value.field == "heads"


@pytest.mark.parametrize(
    "name", ["CausalAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention"]
)
def test_more_tokens_than_the_context_length_are_refused(name: str) -> None:
    module = MAKERS[name]()
    assert module(inputs(tokens=LENGTH)).shape[-2] == LENGTH
    with pytest.raises(InputError, match=r"7 tokens exceed the context length of 6\."):
        module(inputs(tokens=LENGTH + 1))


@pytest.mark.parametrize("name", [name for name in MAKERS if "Simplified" not in name])
def test_vectors_of_another_size_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="vectors of size 5, but d_in is 3"):
        MAKERS[name]()(torch.ones(2, 5))


@pytest.mark.parametrize("rate", [1.0, -0.1, 1.5])
def test_a_rate_that_is_no_share_is_refused(rate: float) -> None:
    with pytest.raises(InputError) as refused:
        CausalAttention(D_IN, D_OUT, LENGTH, rate)
    assert refused.value.field == "dropout"


@pytest.mark.parametrize("tokens", [4, 6])
def test_a_loaded_mask_counts_cut_to_the_tokens(tokens: int) -> None:
    module = CausalAttention(D_IN, D_OUT, LENGTH, 0.0)
    mask = torch.eye(LENGTH)  # no token attends to itself
    module.load_state_dict({**module.state_dict(), "mask": mask})
    weights = module.trace(torch.ones(tokens, D_IN)).tensor("weights")[0]
    assert torch.equal(weights == 0, mask[:tokens, :tokens] == 1)
    module.load_state_dict(CausalAttention(D_IN, D_OUT, LENGTH, 0.0).state_dict())
    assert module.spec.mask is MaskKind.CAUSAL


def test_heads_with_different_masks_are_refused() -> None:
    module = MultiHeadAttentionWrapper(D_IN, D_OUT, LENGTH, 0.0, HEADS)
    with pytest.raises(InputError, match="different masks"):
        module.load_state_dict({**module.state_dict(), "heads.1.mask": torch.eye(LENGTH)})
