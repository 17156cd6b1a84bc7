"""Buffers are reused only when no tensor uses them any more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from visualizer.attention import buffer_pool
from visualizer.attention.attend import attend
from visualizer.attention.buffer_pool import BufferPool
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.run import Run, run
from visualizer.attention.spec import (
    AttentionSpec,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    ScaleKind,
)

LIKE = torch.zeros(1)
SIZES = (2, 600, 1024)
SMALLER = (2, 512, 1024)
TEXT = tuple(f"word{number}" for number in range(12))
SPEC = AttentionSpec(d_in=4, d_out=4, dropout=0.25)
CHANGES: list[dict[str, object]] = [
    {"mask": MaskKind.NONE},
    {"mask": MaskKind.WINDOW},
    {"scale": ScaleKind.NONE, "temperature": 2.0},
    {"route": MaskPlacement.AFTER_RENORMALISED},
    {"route": MaskPlacement.AFTER},
    {"normalisation": NormalisationKind.SUM, "mask": MaskKind.NONE},
    {"normalisation": NormalisationKind.NAIVE_SOFTMAX},
    {"dropout_seed": 5},
    {"seed": 7},
]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> BufferPool:
    """Return a pool for tensors of any size."""
    monkeypatch.setattr(buffer_pool, "MIN_POOLED_BYTES", 1)
    return BufferPool()


def lent(pool: BufferPool, sizes: tuple[int, ...] = SIZES) -> torch.Tensor:
    tensor = pool.allocate_tensor(sizes, LIKE)
    assert tensor is not None
    return tensor


def test_memory_is_lent_again_when_its_tensor_has_gone() -> None:
    pool = BufferPool()
    first = lent(pool)
    assert first.shape == SIZES
    assert first.dtype == LIKE.dtype
    place = first.data_ptr()
    del first
    assert pool.free_bytes == 4 * 2 * 600 * 1024
    assert lent(pool).data_ptr() == place


def test_a_view_of_numpy_or_torch_holds_the_memory() -> None:
    pool = BufferPool()
    tensor = lent(pool)
    array, part = tensor.numpy()[1, ::2], tensor.detach()[0].mT
    del tensor
    assert pool.free_bytes == 0
    other = lent(pool)
    other.fill_(3)
    array[:], part[:] = 1, 2
    assert (other == 3).all()
    del array
    assert pool.free_bytes == 0
    del part
    assert pool.free_bytes == 4 * 2 * 600 * 1024


def test_a_little_less_is_lent_from_the_same_memory() -> None:
    pool = BufferPool()
    place = lent(pool).data_ptr()
    smaller = lent(pool, SMALLER)
    assert smaller.data_ptr() == place
    assert smaller.untyped_storage().nbytes() == 4 * 2 * 512 * 1024
    del smaller
    assert lent(pool).data_ptr() == place
    held = lent(pool, (2, 2048, 1024))
    assert held.data_ptr() != place


def test_small_tensors_and_those_elsewhere_are_left_to_torch() -> None:
    pool = BufferPool()
    assert pool.allocate_tensor((2, 3), LIKE) is None
    assert pool.allocate_tensor(SIZES, torch.zeros(1, device="meta")) is None


def test_no_more_than_so_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "MAX_FREE_BYTES", 5 * 2 * 600 * 1024)
    pool = BufferPool()
    first, second = lent(pool), lent(pool)
    place = second.data_ptr()
    del first, second
    assert pool.free_bytes == 4 * 2 * 600 * 1024
    assert lent(pool).data_ptr() == place


def test_what_waits_can_be_released() -> None:
    pool = BufferPool()
    held = lent(pool)
    lent(pool).zero_()
    assert pool.free_bytes
    pool.release_free_blocks()
    assert pool.free_bytes == 0
    held.zero_()


def test_what_comes_back_after_a_release_is_not_kept() -> None:
    pool = BufferPool()
    held = lent(pool)
    pool.release_free_blocks()
    del held
    assert pool.free_bytes == 0
    lent(pool)
    assert pool.free_bytes == 4 * 2 * 600 * 1024


# ----------------------------------------------------------------------------------- with attention


def assert_same(one: Run, other: Run) -> None:
    assert one.trace.names == other.trace.names
    for stage in one.trace.names:
        np.testing.assert_array_equal(one.trace.read(stage), other.trace.read(stage), stage)


@pytest.mark.parametrize("texts", [(TEXT,), (TEXT, TEXT[:5])], ids=["one", "padded"])
def test_numbers_are_the_same_to_the_bit(
    pool: BufferPool, texts: tuple[tuple[str, ...], ...]
) -> None:
    shown = run(texts, SPEC, pool=pool)
    for change in CHANGES:
        spec = replace(SPEC, **change)
        if spec.normalisation is NormalisationKind.SUM and len(texts) > 1:
            continue
        shown = run(texts, spec, shown, pool)
        assert_same(shown, run(texts, spec))
        shown = run(texts, SPEC, shown, pool)
        assert_same(shown, run(texts, SPEC))
    assert pool.free_bytes


def test_an_old_trace_never_changes_under_its_reader(pool: BufferPool) -> None:
    old = run((TEXT,), SPEC, pool=pool)
    seen = {stage: old.trace.read(stage) for stage in old.trace.names}
    part = old.trace.read("weights", (1, slice(3, 9)))
    before = {stage: array.copy() for stage, array in seen.items()}
    row = part.copy()
    shown: Run | None = old
    del old
    for number in range(6):
        mask = (MaskKind.NONE, MaskKind.CAUSAL)[number % 2]
        shown = run((TEXT,), replace(SPEC, mask=mask, seed=number), shown, pool)
    for stage, array in seen.items():
        np.testing.assert_array_equal(array, before[stage], stage)
    del seen
    shown = run((TEXT,), SPEC, shown, pool)
    np.testing.assert_array_equal(part, row)


def test_what_is_to_learn_takes_no_lent_memory(pool: BufferPool) -> None:
    parameters = initialize_parameters(SPEC, 12, torch.device("cpu"))
    given = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    trace = attend(SPEC, given, parameters, pool=pool)
    torch.autograd.backward(trace.tensor("output").sum())
    assert given.grad is not None
    del trace
    assert pool.free_bytes == 0
