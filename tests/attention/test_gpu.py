"""A CUDA GPU computes the same numbers as the CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.run import run
from visualizer.attention.spec import AttentionSpec, Device, Dtype, MaskKind, PositionKind

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here"),
]

TEXTS = (("Your", "journey", "starts", "with", "one", "step"), ("猫", "は", "🙂"))


@pytest.mark.parametrize("dtype", Dtype)
@pytest.mark.parametrize("mechanism", Mechanism)
def test_the_cpu_and_the_gpu_agree(mechanism: Mechanism, dtype: Dtype) -> None:
    base = AttentionSpec(d_in=8, d_out=8, dropout=0.25, position=PositionKind.LEARNED, dtype=dtype)
    spec = apply_mechanism(mechanism, base)
    here = run(TEXTS, replace(spec, device=Device.CPU))
    there = run(TEXTS, replace(spec, device=Device.CUDA))
    assert there.device.startswith("CUDA GPU (")
    assert there.notices == ()
    for stage in here.trace.stages:
        actual, expected = there.trace.read(stage.name), here.trace.read(stage.name)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_a_change_keeps_what_is_on_the_gpu() -> None:
    spec = AttentionSpec(device=Device.CUDA)
    first = run(TEXTS, spec)
    second = run(TEXTS, replace(spec, mask=MaskKind.WINDOW), first).trace
    assert second.tensor("scores") is first.trace.tensor("scores")
    assert "masked" in second.recomputed


def test_another_device_keeps_nothing() -> None:
    first = run(TEXTS, AttentionSpec(device=Device.CUDA))
    second = run(TEXTS, AttentionSpec(device=Device.CPU), first).trace
    assert second.recomputed == {stage.name for stage in second.stages}


def test_heads_are_measured_and_folded_where_they_are() -> None:
    spec = AttentionSpec(d_in=8, d_out=8, dropout=0.25)
    here, there = (
        run(TEXTS, replace(spec, device=device)).trace for device in (Device.CPU, Device.CUDA)
    )
    for stage in ("weights", "dropped"):
        one, other = here.head_measures(stage), there.head_measures(stage)
        for field in one.__struct_fields__:
            pair = getattr(other, field), getattr(one, field)
            np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-5)
        for by, lens in itertools.product(HeadAggregate, WeightTransform):
            seen = there.displayed_tensor(stage, lens, by)
            assert seen.tensor.is_cuda
            pair = seen.read(), here.displayed_tensor(stage, lens, by).read()
            np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-5)
