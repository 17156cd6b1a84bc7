"""A state dict of the book's modules opens as a spec that computes the module's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from visualizer.attention.attend import attend
from visualizer.attention.importers.readers_by_suffix import read_tensor_file
from visualizer.attention.modules import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttentionV1,
    SelfAttentionV2,
)
from visualizer.attention.parameter_init import draw
from visualizer.attention.spec import AttentionSpec, Dtype
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


def opened(path: Path, base: AttentionSpec | None = None) -> tuple[AttentionSpec, str]:
    found, notice = read_tensor_file(path, base or AttentionSpec())
    assert isinstance(found, AttentionSpec)
    return found, notice


def computed(spec: AttentionSpec, x: torch.Tensor) -> torch.Tensor:
    trace = attend(spec, x, draw(spec, len(x), torch.device("cpu")))
    return trace.tensor(trace.last)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("suffix", ["pt", "safetensors", "npz"])
def test_it_computes_what_the_module_does(name: str, suffix: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, path = MODULES[name](), tmp_path / f"a.{suffix}"
    for parameter in module.parameters():
        nn.init.normal_(parameter)  # biases are not to be small
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
        "Multi-head attention, 3 → 12. How many heads it has is not in the file: 4 was taken."
    )
    spec, notice = opened(tmp_path / "a.pt", AttentionSpec(heads=5, d_out=10))
    assert (spec.heads, notice.split(": ")[1]) == (1, "1 was taken.")
    for heads in (0, 9_999_999):  # as while they are typed
        assert opened(tmp_path / "a.pt", AttentionSpec(heads=heads))[0].heads == 1


@pytest.mark.parametrize("dtype", Dtype)
def test_numbers_of_twice_the_digits_are_computed_with_all_of_them(
    dtype: Dtype, tmp_path: Path
) -> None:
    module = SelfAttentionV2(3, 4).to(getattr(torch, dtype))
    torch.save(module.state_dict(), tmp_path / "a.pt")
    spec, _ = opened(tmp_path / "a.pt")
    assert spec.dtype is dtype
    assert opened(tmp_path / "a.pt", AttentionSpec(dtype=Dtype.FLOAT64))[0].dtype is Dtype.FLOAT64
    taken = dict(spec.own_weights)["W_query"].array()
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
    np.testing.assert_array_equal(dict(spec.own_weights)["W_query"].array(), expected)
    assert "Of 2 modules in it, this is the first: trf_blocks.2.att." in notice


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("W_key.weight", torch.ones(4, 2), "For W_key there is W_key.weight (4 × 2)"),
        ("out_proj.weight", torch.ones(3, 4), "For out_proj there is out_proj.weight (3 × 4)"),
        ("W_query.weight", torch.ones(4), "W_query.weight (4) is no matrix."),
        ("W_value.weight", torch.full((4, 3), torch.nan), "Among the numbers of W_value are some"),
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
