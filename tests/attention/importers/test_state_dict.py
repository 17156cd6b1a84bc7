"""A ``state_dict`` of the book's modules becomes a spec that computes the module's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import save_file
from torch import nn

from visualizer.attention.attend import attend
from visualizer.attention.importers.tensor_file_reader import read_tensor_file
from visualizer.attention.masks import allowed
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.modules import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttentionV1,
    SelfAttentionV2,
)
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.spec import (
    Activation,
    AttentionSpec,
    Dtype,
    MaskKind,
    TransformerBlockKind,
)
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODULES: dict[str, Callable[[], nn.Module]] = {
    "raw": lambda: SelfAttentionV1(3, 4),
    "linear": lambda: SelfAttentionV2(3, 4),
    "linear with bias": lambda: SelfAttentionV2(3, 4, qkv_bias=True),
    "causal": lambda: CausalAttention(3, 4, 6, 0.0),
    "stacked": lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, num_heads=3),
    "stacked with bias": lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, 3, qkv_bias=True),
    "one stacked head": lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, num_heads=1),
    "multi-head": lambda: MultiHeadAttention(3, 4, 6, 0.0, num_heads=2),
    "multi-head with bias": lambda: MultiHeadAttention(3, 4, 6, 0.0, 2, qkv_bias=True),
}


def opened(
    path: Path, base: AttentionSpec | None = None, tokens: int | None = None
) -> tuple[AttentionSpec, str]:
    found, notice = read_tensor_file(path, base or AttentionSpec(), tokens)
    assert isinstance(found, AttentionSpec)
    return found, notice


def with_masks(path: Path, masks: list[np.ndarray]) -> None:
    """Save the state of stacked heads with a mask for each head."""
    state = MultiHeadAttentionWrapper(3, 2, 6, 0.0, len(masks)).state_dict()
    own = {f"heads.{at}.mask": torch.tensor(mask) for at, mask in enumerate(masks)}
    torch.save({**state, **own}, path)


def computed(spec: AttentionSpec, x: torch.Tensor) -> torch.Tensor:
    trace = attend(spec, x, initialize_parameters(spec, len(x), torch.device("cpu")))
    return trace.tensor(trace.output_stage_name)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("suffix", ["pt", "safetensors", "npz"])
def test_it_computes_what_the_module_does(name: str, suffix: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, path = MODULES[name](), tmp_path / f"a.{suffix}"
    for parameter in module.parameters():
        nn.init.normal_(parameter)  # biases must not be small
    state = module.state_dict()
    if suffix == "npz":
        np.savez(path, **{name: tensor.numpy() for name, tensor in state.items()})
    else:
        (torch.save if suffix == "pt" else save_file)(state, path)
    spec, _ = opened(path)
    x = torch.randn(6, 3)
    with torch.no_grad():
        expected = module(x[None])[0]
        torch.testing.assert_close(computed(spec, x), expected, rtol=1e-5, atol=1e-5)


def test_the_heads_of_split_columns_are_as_before_and_that_is_said(tmp_path: Path) -> None:
    torch.save(MultiHeadAttention(3, 12, 6, 0.0, 4).state_dict(), tmp_path / "a.pt")
    spec, notice = opened(tmp_path / "a.pt", AttentionSpec(heads=4, d_out=8))
    assert spec.heads == 4
    assert notice == (
        "Multi-head attention, 3 → 12. The file does not contain the number of heads; 4 is used."
    )
    spec, notice = opened(tmp_path / "a.pt", AttentionSpec(heads=5, d_out=10))
    assert (spec.heads, notice.split("; ")[1]) == (1, "1 is used.")
    for heads in (0, 9_999_999):  # as in a text that is being entered
        assert opened(tmp_path / "a.pt", AttentionSpec(heads=heads))[0].heads == 1


@pytest.mark.parametrize("suffix", ["pt", "safetensors", "npz"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_it_computes_what_torchs_own_module_does(
    heads: int, bias: bool, suffix: str, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    module, path = nn.MultiheadAttention(8, heads, bias=bias), tmp_path / f"a.{suffix}"
    for name, parameter in module.named_parameters():
        nn.init.normal_(parameter, std=0.5)  # biases must not be 0
        assert bias or "bias" not in name
    state = module.state_dict()
    if suffix == "npz":
        np.savez(path, **{name: tensor.numpy() for name, tensor in state.items()})
    else:
        (torch.save if suffix == "pt" else save_file)(state, path)
    spec, notice = opened(path, AttentionSpec(d_out=8, heads=heads))
    assert notice.startswith("Multi-head attention, 8 → 8.")
    assert (spec.bias, spec.mask) == (bias, MaskKind.NONE)
    x = torch.randn(6, 8)
    masks = {MaskKind.NONE: None, MaskKind.CAUSAL: torch.ones(6, 6, dtype=torch.bool).triu(1)}
    for mask, forbidden in masks.items():
        with torch.no_grad():
            expected, weights = module(x, x, x, attn_mask=forbidden, average_attn_weights=False)
            masked = replace(spec, mask=mask, dtype=Dtype.FLOAT32)
            trace = attend(masked, x, initialize_parameters(masked, 6, torch.device("cpu")))
        torch.testing.assert_close(trace.tensor("output"), expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(trace.tensor("weights"), weights, rtol=0, atol=1e-6)


def test_torchs_module_is_found_in_a_whole_layer(tmp_path: Path) -> None:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=5, dropout=0.0)
    torch.save({"layers.0." + name: one for name, one in layer.state_dict().items()},
               tmp_path / "a.pt")  # fmt: skip
    spec, _ = opened(tmp_path / "a.pt", AttentionSpec(d_out=8, heads=2))
    x = torch.randn(6, 8)
    with torch.no_grad():
        expected, _ = layer.self_attn(x, x, x)
        torch.testing.assert_close(computed(spec, x), expected, rtol=0, atol=1e-6)


def test_torchs_projections_may_be_separate(tmp_path: Path) -> None:
    torch.manual_seed(1)
    module = nn.MultiheadAttention(8, 2)
    state = module.state_dict()
    parts = zip("qkv", state.pop("in_proj_weight").chunk(3), strict=True)
    state |= {f"{letter}_proj_weight": part.clone() for letter, part in parts}
    torch.save(state, tmp_path / "a.pt")
    spec, _ = opened(tmp_path / "a.pt", AttentionSpec(d_out=8, heads=2))
    x = torch.randn(6, 8)
    with torch.no_grad():
        torch.testing.assert_close(computed(spec, x), module(x, x, x)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.MultiheadAttention(8, 2, kdim=6), "k_proj_weight (8 × 6) is not square: queries"),
        (nn.MultiheadAttention(8, 2, vdim=4), "v_proj_weight (8 × 4) is not square: queries"),
        (nn.MultiheadAttention(8, 2, add_bias_kv=True), "bias_k (1 × 1 × 8) adds a key or value"),
    ],
)
def test_modules_of_torch_that_cannot_be_read_are_refused_with_the_reason(
    module: nn.Module, said: str, tmp_path: Path
) -> None:
    torch.save(module.state_dict(), tmp_path / "a.pt")
    with pytest.raises(InputError) as caught:
        opened(tmp_path / "a.pt")
    assert caught.value.sentence.startswith(said)


def test_a_torch_matrix_that_is_not_of_three_layers_is_refused(tmp_path: Path) -> None:
    state = nn.MultiheadAttention(8, 2).state_dict()
    torch.save({**state, "in_proj_bias": torch.zeros(12)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="W_query has the wrong shape"):
        opened(tmp_path / "a.pt", AttentionSpec(d_out=8))


def test_a_block_without_an_output_projection_is_known_by_its_layers(tmp_path: Path) -> None:
    block = replace(apply_mechanism(Mechanism.BLOCK, AttentionSpec(d_in=4)), d_ff=5, heads=1)
    block = replace(block, output_projection=False)
    state, x = block_state(block), torch.randn(6, 4)
    save_file(state, tmp_path / "a.safetensors")
    spec, notice = opened(tmp_path / "a.safetensors", AttentionSpec(d_out=4))
    assert notice.startswith("Transformer block, 4 → 4.")
    assert not spec.output_projection
    with torch.no_grad():
        expected = attend(replace(spec, own_weights=()), x, state).tensor("result")
        assert torch.equal(computed(spec, x), expected)


def block_state(spec: AttentionSpec) -> dict[str, torch.Tensor]:
    """Draw the state of a block whose norms and biases differ from their initial values."""
    generator = torch.Generator().manual_seed(1)
    drawn = initialize_parameters(spec, 6, torch.device("cpu"))
    return {name: torch.randn(each.shape, generator=generator) for name, each in drawn.items()}


def test_a_block_is_known_by_its_layers(tmp_path: Path) -> None:
    block = replace(apply_mechanism(Mechanism.BLOCK, AttentionSpec(d_in=4)), d_ff=5, seed=9)
    state, x = block_state(block), torch.randn(6, 4)
    save_file(state, tmp_path / "a.safetensors")
    base = AttentionSpec(d_out=4, activation=Activation.GELU)
    spec, notice = opened(tmp_path / "a.safetensors", base)
    assert notice.startswith(
        "Transformer block, 4 → 4. The file does not contain the number of heads or the "
        "activation; 2 heads and gelu are used."
    )
    with torch.no_grad():
        expected = attend(replace(spec, own_weights=()), x, state).tensor("result")
        assert torch.equal(computed(spec, x), expected)
    del state["ln2.bias"]  # which is then not a block
    save_file(state, tmp_path / "b.safetensors")
    assert opened(tmp_path / "b.safetensors", base)[0].block is TransformerBlockKind.NONE


@pytest.mark.parametrize("shape", [(), (5,), (0, 4), (5, 3)])
def test_a_block_whose_sizes_do_not_fit_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    state = block_state(apply_mechanism(Mechanism.BLOCK, AttentionSpec(d_in=4)))
    torch.save(state | {"linear1.weight": torch.ones(shape)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"(linear1|linear2) has the wrong shape"):
        opened(tmp_path / "a.pt")


BLOCKS = np.kron(np.array([[0, 1], [0, 0]]), np.ones((3, 3)))  # the first three are a prefix
WINDOW = np.ones((6, 6)) - (np.tri(6) - np.tri(6, k=-2))
MASKS = {
    "the book's": (np.triu(np.ones((6, 6)), 1), MaskKind.CAUSAL, ""),
    "nothing": (np.zeros((6, 6)), MaskKind.NONE, "Its mask allows all keys."),
    "window": (WINDOW, MaskKind.WINDOW, "Its mask is a sliding window of 2 tokens."),
    "booleans": (BLOCKS > 0, MaskKind.OWN, "Its mask is used as a custom mask."),
    "everything": (np.ones((6, 6)), MaskKind.OWN, "Its mask is used as a custom mask."),
}


@pytest.mark.parametrize("name", MASKS)
def test_the_mask_in_a_file_counts(name: str, tmp_path: Path) -> None:
    mask, kind, said = MASKS[name]
    with_masks(tmp_path / "a.pt", [mask, mask])
    spec, notice = opened(tmp_path / "a.pt", tokens=6)
    assert (spec.mask, notice.partition(". ")[2]) == (kind, said)
    np.testing.assert_array_equal(allowed(spec, 6), mask == 0)


def test_a_longer_mask_is_cut_to_the_text_as_the_book_does(tmp_path: Path) -> None:
    with_masks(tmp_path / "a.pt", [BLOCKS, BLOCKS])
    spec, notice = opened(tmp_path / "a.pt", tokens=5)
    assert notice.endswith("Its mask for 6 tokens was cut to 5 and is used as a custom mask.")
    np.testing.assert_array_equal(allowed(spec, 5), BLOCKS[:5, :5] == 0)


def test_a_shorter_mask_is_refused_unless_its_kind_is_known(tmp_path: Path) -> None:
    with_masks(tmp_path / "a.pt", [BLOCKS, BLOCKS])
    with pytest.raises(InputError) as refused:
        opened(tmp_path / "a.pt", tokens=7)
    assert refused.value.sentence == (
        "The mask is for 6 tokens, but the text has 7. Shorten the text and open the file again."
    )
    with_masks(tmp_path / "a.pt", [WINDOW, WINDOW])
    spec, notice = opened(tmp_path / "a.pt", tokens=7)
    assert (spec.mask, spec.window) == (MaskKind.WINDOW, 2)
    assert notice.endswith("It was created for at most 6 tokens; this text has 7.")


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        (
            [BLOCKS, BLOCKS.T],
            "The heads have different masks, but all heads must have the same mask.",
        ),
        ([BLOCKS[:5], BLOCKS[:5]], "heads.0.mask (5 × 6) is not a square mask."),
        ([BLOCKS[0], BLOCKS[0]], "heads.0.mask (6) is not a square mask."),
        ([BLOCKS, BLOCKS[:5, :5]], "heads.1.mask (5 × 5) is not a square mask."),
    ],
)
def test_masks_that_cannot_count_are_refused(
    masks: list[np.ndarray], said: str, tmp_path: Path
) -> None:
    with_masks(tmp_path / "a.pt", masks)
    with pytest.raises(InputError) as refused:
        opened(tmp_path / "a.pt", tokens=6)
    assert refused.value.sentence == said


def test_a_mask_too_large_to_be_read_is_taken_for_the_books(tmp_path: Path) -> None:
    mask = np.zeros((4_097, 4_097), bool)
    with_masks(tmp_path / "a.pt", [mask])
    spec, notice = opened(tmp_path / "a.pt", tokens=6)
    assert spec.mask is MaskKind.CAUSAL
    assert "Its mask for 4,097 tokens is too large to read" in notice


@pytest.mark.parametrize("dtype", Dtype)
def test_numbers_of_twice_the_digits_are_computed_with_all_of_them(
    dtype: Dtype, tmp_path: Path
) -> None:
    module = SelfAttentionV2(3, 4).to(getattr(torch, dtype))
    torch.save(module.state_dict(), tmp_path / "a.pt")
    spec, _ = opened(tmp_path / "a.pt")
    assert spec.dtype is dtype
    assert opened(tmp_path / "a.pt", AttentionSpec(dtype=Dtype.FLOAT64))[0].dtype is Dtype.FLOAT64
    taken = dict(spec.own_weights)["W_query"].to_array()
    np.testing.assert_array_equal(taken, module.state_dict()["W_query.weight"].numpy().T)


def test_of_a_whole_model_the_first_module_is_taken(tmp_path: Path) -> None:
    blocks = {
        f"trf_blocks.{number}.att.{name}": tensor
        for number in (10, 2)
        for name, tensor in MultiHeadAttention(3, 4, 6, 0.0, 2).state_dict().items()
    }
    torch.save({**blocks, "tok_emb.weight": torch.ones(9, 3)}, tmp_path / "a.pt")
    spec, notice = opened(tmp_path / "a.pt")
    expected = blocks["trf_blocks.2.att.W_query.weight"].numpy().T
    np.testing.assert_array_equal(dict(spec.own_weights)["W_query"].to_array(), expected)
    assert "The file contains 2 modules; this is the first: trf_blocks.2.att." in notice


def test_what_an_optimiser_remembers_is_no_module(tmp_path: Path) -> None:
    weights = MultiHeadAttention(3, 4, 6, 0.0, num_heads=2).state_dict()
    whole = {f"model/layers.0.attention.{name}": each for name, each in weights.items()}
    for moment in ("exp_avg", "exp_avg_sq"):
        whole |= {
            f"optimiser/{moment}/layers.0.attention.{name}": torch.full_like(each, 7)
            for name, each in weights.items()
        }
    save_file(whole, tmp_path / "checkpoint.safetensors")
    spec, notice = opened(tmp_path / "checkpoint.safetensors")
    assert "modules" not in notice
    found = dict(spec.own_weights)["W_query"].to_array()
    np.testing.assert_array_equal(found, weights["W_query.weight"].T)


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("W_key.weight", torch.ones(4, 2), "W_key has the wrong shape for the module: found"),
        ("out_proj.weight", torch.ones(3, 4), "out_proj has the wrong shape for the module: found"),
        ("W_query.weight", torch.ones(4), "W_query.weight (4) is not a matrix."),
        ("W_value.weight", torch.full((4, 3), torch.nan), "W_value contains numbers that are not"),
    ],
)
def test_what_does_not_fit_is_named(
    name: str, tensor: torch.Tensor, said: str, tmp_path: Path
) -> None:
    state = MultiHeadAttention(3, 4, 6, 0.0, 2).state_dict()
    torch.save({**state, name: tensor}, tmp_path / "a.pt")
    with pytest.raises(InputError) as caught:
        read_tensor_file(tmp_path / "a.pt", AttentionSpec())
    assert caught.value.sentence.startswith(said)
