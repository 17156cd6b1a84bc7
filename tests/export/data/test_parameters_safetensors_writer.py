"""The book's modules load exported weights and compute the same values."""

from __future__ import annotations

import io
import json
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from msgspec.structs import replace

from tests.support import book_modules
from tests.support.small_runs import a_run
from visualizer.attention import modules
from visualizer.attention.importers.tensor_file_reader import read_tensor_file
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    Dtype,
    MaskKind,
    PositionKind,
    Projection,
)
from visualizer.errors import InputError
from visualizer.export.data.data_writers import spec_to_json, write_safetensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import nn

    from visualizer.attention.run import Run


def written(run: Run) -> bytes:
    file = io.BytesIO()
    write_safetensors(run, file)
    return file.getvalue()


def spec(mechanism: Mechanism, **fields: object) -> dict[str, Any]:
    base = apply_mechanism(mechanism, AttentionSpec(d_in=3, d_out=4, heads=2, device=Device.CPU))
    own = {name: getattr(base, name) for name in base.__struct_fields__}
    return {**own, "dropout": 0.0, **fields}


TOKENS = 6  # the number of tokens in the book's sentence
Modules = types.ModuleType
MODULES: dict[str, tuple[dict[str, Any], Callable[[Modules], nn.Module]]] = {
    "v1": (
        spec(Mechanism.SELF, projection=Projection.UNIFORM),
        lambda of: getattr(of, "SelfAttention_v1", modules.SelfAttentionV1)(3, 4),
    ),
    "v2": (
        spec(Mechanism.SELF, bias=True),
        lambda of: getattr(of, "SelfAttention_v2", modules.SelfAttentionV2)(3, 4, True),
    ),
    "causal": (spec(Mechanism.CAUSAL), lambda of: of.CausalAttention(3, 4, TOKENS, 0.0)),
    "causal with bias": (
        spec(Mechanism.CAUSAL, bias=True),
        lambda of: of.CausalAttention(3, 4, TOKENS, 0.0, True),
    ),
    "stacked": (
        spec(Mechanism.STACKED, heads=3),
        lambda of: of.MultiHeadAttentionWrapper(3, 4, TOKENS, 0.0, 3),
    ),
    "multi-head": (
        spec(Mechanism.MULTI_HEAD),
        lambda of: of.MultiHeadAttention(3, 4, TOKENS, 0.0, 2),
    ),
    "multi-head with bias": (
        spec(Mechanism.MULTI_HEAD, bias=True),
        lambda of: of.MultiHeadAttention(3, 4, TOKENS, 0.0, 2, True),
    ),
}
ODD = BooleanMatrix.from_array(np.array([[1, 1, 0, 0, 1, 1], *np.eye(6)[1:]], dtype=bool))
MASKS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "window": {"mask": MaskKind.WINDOW, "window": 2},
    "own": {"mask": MaskKind.OWN, "own_mask": ODD},
}


@pytest.mark.parametrize("of", [book_modules, modules], ids=["the book's", "the program's"])
@pytest.mark.parametrize("masking", MASKS)
@pytest.mark.parametrize("name", MODULES)
def test_the_books_classes_load_them_strictly_and_give_the_same_numbers(
    name: str, masking: str, of: Modules
) -> None:
    fields, make = MODULES[name]
    run = a_run(**fields | (MASKS[masking] if not name.startswith("v") else {}))
    module = make(of)
    result = module.load_state_dict(safetensors.torch.load(written(run)), strict=True)
    assert not result.missing_keys
    assert not result.unexpected_keys
    given = torch.tensor(run.trace.read("input"))
    output = module(given).detach().numpy()
    np.testing.assert_allclose(
        output, run.trace.read(run.trace.output_stage_name), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", ["stacked", "multi-head"])
def test_heads_without_a_mask_have_one_that_forbids_nothing(name: str) -> None:
    fields, make = MODULES[name]
    run, module = a_run(**fields | {"mask": MaskKind.NONE}), make(book_modules)
    module.load_state_dict(safetensors.torch.load(written(run)), strict=True)
    output = module(torch.tensor(run.trace.read("input"))).detach().numpy()
    np.testing.assert_allclose(
        output, run.trace.read(run.trace.output_stage_name), rtol=1e-6, atol=1e-6
    )


def test_the_mask_of_a_padded_batch_is_that_of_the_longest_text() -> None:
    run = a_run("a b c", "a b", **spec(Mechanism.CAUSAL))
    mask = safetensors.numpy.load(written(run))["mask"]
    np.testing.assert_array_equal(mask, np.triu(np.ones((3, 3)), 1))


@pytest.mark.parametrize("mechanism", [Mechanism.CAUSAL, Mechanism.STACKED, Mechanism.MULTI_HEAD])
@pytest.mark.parametrize("masking", MASKS)
def test_they_open_again_with_their_mask(
    mechanism: Mechanism, masking: str, tmp_path: Path
) -> None:
    run = a_run(**spec(mechanism) | MASKS[masking])
    (tmp_path / "a.safetensors").write_bytes(written(run))
    base = replace(run.trace.spec, mask=MaskKind.NONE, window=9, own_mask=None)
    found, _ = read_tensor_file(tmp_path / "a.safetensors", base, TOKENS)
    assert isinstance(found, AttentionSpec)
    fields = ("mask", *MASKS[masking])
    assert [getattr(found, field) for field in fields] == [
        getattr(run.trace.spec, field) for field in fields
    ]
    again = a_run(**{name: getattr(found, name) for name in found.__struct_fields__})
    np.testing.assert_array_equal(
        again.trace.read(again.trace.output_stage_name), run.trace.read(run.trace.output_stage_name)
    )


@pytest.mark.parametrize("dtype", Dtype)
def test_every_weight_is_there_in_its_own_type(dtype: Dtype) -> None:
    run = a_run(dtype=dtype, bias=True, position=PositionKind.LEARNED)
    read = safetensors.numpy.load(written(run))
    assert set(read) == {*run.trace.parameters, "mask"}
    for name in run.trace.parameters:
        array = read[name]
        np.testing.assert_array_equal(array, run.trace.read(name))
        assert array.dtype == dtype


def test_columns_stay_columns_where_own_weights_were_turned() -> None:
    run = a_run()
    turned = run.trace.parameters["W_query.weight"].T
    run.trace.parameters["W_query.weight"] = turned  # type: ignore[index]
    read = safetensors.numpy.load(written(run))
    np.testing.assert_array_equal(read["W_query.weight"], turned.numpy())


def test_the_spec_stands_next_to_them() -> None:
    run = a_run()
    content = written(run)
    size = int.from_bytes(content[:8], "little")
    said = json.loads(content[8 : 8 + size])["__metadata__"]
    assert json.loads(said["spec"]) == json.loads(json.dumps(spec_to_json(run.trace.spec)))
    assert said["program"] == "Attention Visualizer"


def test_files_without_weights_report_this() -> None:
    fields = spec(Mechanism.SIMPLIFIED)
    with pytest.raises(InputError, match="no trainable weights") as refused:
        written(a_run(**fields))
    assert refused.value.field == "export"
