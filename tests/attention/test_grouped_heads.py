"""Grouped key-value heads, compared with transformers and with torch's grouped attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch.nn import functional

from tests.support.screens import resolved
from tests.support.small_runs import a_run
from visualizer.attention.importers.tensor_file_reader import read_tensor_file
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    NumberMatrix,
    Projection,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.explanations.explain import explain
from visualizer.features.explain.presenter import explain_head_cell
from visualizer.session.cell_address import Cell
from visualizer.session.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

TEXT = "one two three four five"
SIZES: dict[str, Any] = {"d_in": 6, "d_out": 8, "heads": 4, "dtype": Dtype.FLOAT64}
GROUPS = (1, 2, 4)
KEPT = BooleanMatrix.from_array(~np.eye(5, dtype=bool))


def own_weights(groups: int) -> tuple[tuple[str, NumberMatrix], ...]:
    columns = {"W_query": 8, "W_key": 2 * groups, "W_value": 2 * groups}
    return tuple(
        (name, NumberMatrix.from_array(np.random.default_rng(0).normal(size=(6, count))))
        for name, count in columns.items()
    )


SETTINGS: dict[str, dict[str, Any]] = {
    "causal": {},
    "no mask": {"mask": MaskKind.NONE},
    "window": {"mask": MaskKind.WINDOW, "window": 2},
    "bias": {"bias": True},
    "own weights": {"own_weights": ()},
    "uniform weights": {"projection": Projection.UNIFORM},
    "keep mask": {"dropout": 0.5, "own_kept": KEPT, "mode": DropoutMode.TRAIN},
    "heads of one column": {"d_out": 4},
}


def grouped(*texts: str, groups: int = 2, **fields: Any) -> Run:
    return a_run(*(texts or (TEXT,)), **{**SIZES, "key_value_heads": groups, **fields})


def projected(run: Run, layer: str, heads: int) -> torch.Tensor:
    """Compute queries, keys or values [..., head, token, d_head] from the weights of a run."""
    x = torch.tensor(run.trace.read("input"))
    raw = run.trace.spec.projection is Projection.UNIFORM
    weight = torch.tensor(run.trace.read(layer if raw else f"{layer}.weight"))
    bias = torch.tensor(run.trace.read(f"{layer}.bias")) if run.trace.spec.bias else None
    made = functional.linear(x, weight.T if raw else weight, bias)
    return torch.unflatten(made, -1, (heads, -1)).transpose(-3, -2)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("texts", [(TEXT,), (TEXT, "six seven eight nine ten")], ids=len)
def test_context_is_that_of_torchs_grouped_attention(
    settings: str, groups: int, texts: tuple[str, ...]
) -> None:
    fields = dict(SETTINGS[settings])
    if "own_weights" in fields:
        fields["own_weights"] = own_weights(groups)
    run = grouped(*texts, groups=groups, **fields)
    queries = projected(run, "W_query", 4)
    keys, values = (projected(run, layer, groups) for layer in ("W_key", "W_value"))
    places = torch.arange(5)
    distance = places[:, None] - places
    limits = {MaskKind.NONE: (-5, 5), MaskKind.WINDOW: (0, 2)}
    low, high = limits.get(run.trace.spec.mask, (0, 5))
    allowed = (distance >= low) & (distance < high)  # query key
    if fields.get("own_kept"):  # torch draws the cells to drop
        values = 2 * values
        weights = functional.scaled_dot_product_attention(
            queries,
            keys,
            torch.eye(5, dtype=torch.float64).expand(*keys.shape[:-2], 5, 5),
            attn_mask=allowed,
            enable_gqa=True,
        )
        repeated = values.repeat_interleave(4 // groups, -3)
        expected = (weights * torch.tensor(KEPT.to_array())) @ repeated
    else:
        expected = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=allowed, enable_gqa=True
        )
    np.testing.assert_allclose(run.trace.read("context"), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", GROUPS)
def test_output_is_that_of_a_llama_without_rotation(groups: int) -> None:
    modeling = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = modeling.LlamaConfig(
        hidden_size=8,
        head_dim=2,
        num_attention_heads=4,
        num_key_value_heads=groups,
        attn_implementation="eager",
    )
    layer = modeling.LlamaAttention(config, layer_idx=0).double().eval()
    run = grouped(groups=groups, d_in=8, own_weights=own_of(layer))
    mask = torch.full((5, 5), -torch.inf, dtype=torch.float64).triu(1)
    unrotated = torch.ones(1, 5, 2, dtype=torch.float64), torch.zeros(1, 5, 2, dtype=torch.float64)
    with torch.no_grad():
        output, weights = layer(torch.tensor(run.trace.read("input"))[None], unrotated, mask[None])
    # Llama computes the softmax in float32.
    np.testing.assert_allclose(run.trace.read("weights"), weights[0], rtol=0, atol=1e-6)
    unbiased = run.trace.read("output") - run.trace.read("out_proj.bias")
    np.testing.assert_allclose(unbiased, output[0], rtol=0, atol=1e-6)


def own_of(layer: Any) -> tuple[tuple[str, NumberMatrix], ...]:
    names = {"W_query": "q_proj", "W_key": "k_proj", "W_value": "v_proj", "W_output": "o_proj"}
    return tuple(
        (name, NumberMatrix.from_array(getattr(layer, theirs).weight.detach().numpy().T))
        for name, theirs in names.items()
    )


def test_as_many_groups_as_heads_is_multi_head_attention() -> None:
    plain, same = a_run(TEXT, **SIZES), grouped(groups=4)
    for stage in plain.trace.names:
        np.testing.assert_array_equal(plain.trace.read(stage), same.trace.read(stage))


def test_one_head_and_stacked_heads_have_no_groups() -> None:
    for fields in ({"heads": 1}, {"arrangement": HeadArrangement.STACKED, "heads": 2}):
        shared = grouped(**fields)
        plain = grouped(groups=0, **fields)
        assert not spec_problems(shared.trace.spec)
        np.testing.assert_array_equal(shared.trace.read("output"), plain.trace.read("output"))


def test_groups_that_do_not_divide_the_heads_are_rejected() -> None:
    (problem,) = spec_problems(AttentionSpec(d_out=8, heads=4, key_value_heads=3))
    assert problem.field == "key_value_heads"
    assert problem.remedy == ("key_value_heads", 2)


def test_a_cell_names_the_heads_that_share_it() -> None:
    run = grouped()
    explanation = explain(run.trace, "keys", (3, 1, 1))
    assert explanation.groups[0].factors[1].source_index(0) == (3, 0)  # row 4 of W_key
    said = explain_head_cell(resolved(run, View()), Cell("keys", (3, 1, 1)), False)
    assert "column 4 of W_k, shared by heads 3 and 4," in said.sentence
    assert explain(run.trace, "queries", (3, 1, 1)).groups[0].factors[1].source_index(0) == (7, 0)


def test_saved_weights_open_with_their_groups(tmp_path: Path) -> None:
    run = grouped(dtype=Dtype.FLOAT32)
    path = tmp_path / "module.safetensors"
    save_file({name: run.trace.read(name) for name in run.trace.parameters}, path)
    spec, _ = read_tensor_file(path, AttentionSpec(d_out=8, heads=4))
    assert isinstance(spec, AttentionSpec)
    assert (spec.heads, spec.key_value_heads) == (4, 2)
    assert not spec_problems(spec)
