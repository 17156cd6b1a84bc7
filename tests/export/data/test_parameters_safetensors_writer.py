"""Exported weights load into the book's modules and give the same numbers."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from tests.support.small_runs import a_run
from visualizer.attention.mechanisms import Mechanism, spec_of
from visualizer.attention.modules import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttentionV1,
    SelfAttentionV2,
)
from visualizer.attention.spec import AttentionSpec, Device, Dtype, Position, Projection
from visualizer.errors import InputError
from visualizer.export.data.json_writer import plain_spec
from visualizer.export.data.parameters_safetensors_writer import write_safetensors

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def written(run: Run) -> bytes:
    file = io.BytesIO()
    write_safetensors(run, file)
    return file.getvalue()


def spec(mechanism: Mechanism, **fields: object) -> dict[str, Any]:
    base = spec_of(mechanism, AttentionSpec(d_in=3, d_out=4, heads=2, device=Device.CPU))
    own = {name: getattr(base, name) for name in base.__dataclass_fields__}
    return {**own, "dropout": 0.0, **fields}


MODULES = {
    "V1": (spec(Mechanism.SELF, projection=Projection.UNIFORM), SelfAttentionV1(3, 4)),
    "V2": (spec(Mechanism.SELF, bias=True), SelfAttentionV2(3, 4, True)),
    "causal": (spec(Mechanism.CAUSAL), CausalAttention(3, 4, 8, 0.0)),
    "stacked": (spec(Mechanism.STACKED), MultiHeadAttentionWrapper(3, 4, 8, 0.0, 2)),
    "multi-head": (spec(Mechanism.MULTI_HEAD), MultiHeadAttention(3, 4, 8, 0.0, 2)),
}


@pytest.mark.parametrize("name", MODULES)
def test_the_books_modules_load_them_and_give_the_same_numbers(name: str) -> None:
    fields, module = MODULES[name]
    run = a_run(**fields)
    missing, unexpected = module.load_state_dict(safetensors.torch.load(written(run)), strict=False)
    assert not unexpected
    assert not [one for one in missing if not re.fullmatch(r"(heads\.\d+\.)?mask", one)]
    given = torch.tensor(run.trace.read("input"))
    output = module(given).detach().numpy()
    np.testing.assert_array_equal(output, run.trace.read(run.trace.last))


@pytest.mark.parametrize("dtype", Dtype)
def test_every_weight_is_there_in_its_own_type(dtype: Dtype) -> None:
    run = a_run(dtype=dtype, bias=True, position=Position.LEARNED)
    read = safetensors.numpy.load(written(run))
    assert set(read) == set(run.trace.parameters)
    for name, array in read.items():
        np.testing.assert_array_equal(array, run.trace.read(name))
        assert array.dtype == dtype


def test_columns_stay_columns_where_own_weights_were_turned() -> None:
    run = a_run()
    turned = run.trace.parameters["W_query.weight"].T
    run.trace.parameters["W_query.weight"] = turned  # type: ignore[index]
    read = safetensors.numpy.load(written(run))
    np.testing.assert_array_equal(read["W_query.weight"], turned.numpy())


def test_the_spec_stands_beside_them() -> None:
    run = a_run()
    content = written(run)
    size = int.from_bytes(content[:8], "little")
    said = json.loads(content[8 : 8 + size])["__metadata__"]
    assert json.loads(said["spec"]) == json.loads(json.dumps(plain_spec(run.trace.spec)))
    assert said["program"] == "Attention Visualizer"


def test_without_weights_it_says_so() -> None:
    fields = spec(Mechanism.SIMPLIFIED)
    with pytest.raises(InputError, match="no weights") as refused:
        written(a_run(**fields))
    assert refused.value.field == "export"
