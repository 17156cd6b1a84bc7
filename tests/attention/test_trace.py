"""Reading a trace returns read-only NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.modules import SelfAttentionV2
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    Device,
    Dtype,
    MaskKind,
    Projection,
)
from visualizer.attention.stages import shape, stages
from visualizer.attention.trace import Trace

TEXT = ("Your", "journey", "starts", "with", "one", "step")
SPEC = AttentionSpec(device=Device.CPU, d_out=4)


def holding(array: np.ndarray) -> Trace:
    """Return a trace with the given weights."""
    held = {"weights": CachedTensor(torch.from_numpy(array.copy()))}
    return Trace(SPEC, stages(SPEC), {}, held, frozenset())


# ------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize("dtype", Dtype)
def test_what_is_read_is_numpy_of_the_specs_type(dtype: Dtype) -> None:
    trace = run((TEXT,), replace(SPEC, dtype=dtype)).trace
    for name in [*(stage.name for stage in trace.stages), *trace.parameters]:
        assert isinstance(trace.read(name), np.ndarray)
        assert trace.read(name).dtype == np.dtype(dtype.value)


@pytest.mark.parametrize("index", [(), (0,), (1, slice(2)), (0, 1, 2)])
def test_what_is_read_cannot_be_written(index: tuple[int | slice, ...]) -> None:
    trace = run((TEXT,), SPEC).trace
    numbers = trace.read("weights", index)
    assert (numbers == trace.tensor("weights").numpy()[index]).all()
    with pytest.raises(ValueError, match="read-only"):
        numbers[...] = 1
    with pytest.raises(ValueError, match="read-only"):
        trace.cached_stage_tensor("weights").read_pooled(2, 2)[...] = 1
    with pytest.raises(ValueError, match="read-only"):
        trace.read("W_query.weight")[0] = 1


def test_what_learns_can_be_read_too() -> None:
    trace = SelfAttentionV2(3, 2).trace(torch.ones(4, 3))
    assert trace.tensor("weights").requires_grad
    assert (
        trace.read("weights").shape
        == trace.cached_stage_tensor("weights").read_pooled(1, 1).shape
        == (1, 4, 4)
    )
    assert trace.limits("weights") == (0.25, 0.25)


def test_it_knows_its_own_sizes() -> None:
    trace = run((TEXT, TEXT[:3]), SPEC).trace
    assert (trace.query_count, trace.leading_sizes, trace.output_stage_name) == (6, (2,), "output")
    assert trace.stage("scores").symbol == "QKᵀ"
    assert "masked" in trace
    assert "unmasked" not in trace
    with pytest.raises(KeyError):
        trace.read("unmasked")


def test_bytes_count_each_storage_once() -> None:
    trace = run((TEXT,), replace(SPEC, mask=MaskKind.NONE, output_projection=False)).trace
    cells, vectors = 3 * 2 * 6 * 6, 3 * 6 * 4 + 6 * 3 + 2 * 6 * 4
    assert trace.bytes == 4 * (cells + vectors)
    free = replace(SPEC, projection=Projection.NONE, heads=3, mask=MaskKind.NONE)
    free = replace(free, output_projection=False)
    # Queries, keys and values are the input, and heads of one column are already side by side.
    cells, vectors = 3 * 3 * 6 * 6, 6 * 3 + 6 * 3
    assert run((TEXT,), free).trace.bytes == 4 * (cells + vectors)


# ------------------------------------------------------------------------------------------ pooling

NUMBERS = st.floats(-9, 9, width=32) | st.sampled_from([-np.inf, np.inf, np.nan])


def farthest_from_0(block: np.ndarray) -> np.ndarray:
    """Return the number with the largest magnitude in each block [..., row, column]."""
    found = np.empty(block.shape[:-2], np.float32)
    for place in np.ndindex(found.shape):
        numbers = [float(each) for each in block[place].ravel()]
        finite = [each for each in numbers if each != -np.inf] or numbers
        is_some_nan = any(map(np.isnan, finite))
        found[place] = np.nan if is_some_nan else max(finite, key=lambda each: (abs(each), each))
    return found


@given(
    arrays(np.float32, array_shapes(min_dims=2, max_dims=4, max_side=7), elements=NUMBERS),
    st.integers(1, 9),
    st.integers(1, 9),
)
@example(np.array([[-3, 3], [2, -3]], np.float32), 2, 2)  # a tie of both signs
@example(np.array([[-1, -np.inf]], np.float32), 2, 1)  # fewer rows than in a block
def test_pooling_keeps_what_is_farthest_from_0_of_each_block(
    array: np.ndarray, rows: int, columns: int
) -> None:
    *leading, height, width = array.shape
    expected = np.empty((*leading, -(-height // rows), -(-width // columns)), np.float32)
    for row in range(expected.shape[-2]):
        for column in range(expected.shape[-1]):
            across = slice(column * columns, (column + 1) * columns)
            block = array[..., row * rows : (row + 1) * rows, across]
            expected[..., row, column] = farthest_from_0(block)
    trace = holding(array)
    np.testing.assert_array_equal(
        trace.cached_stage_tensor("weights").read_pooled(rows, columns), expected
    )
    again = trace.cached_stage_tensor("weights").read_pooled(rows, columns, (0,) * len(leading))
    np.testing.assert_array_equal(again, expected[(0,) * len(leading)])


def test_what_was_pooled_is_kept_and_goes_with_a_kept_stage() -> None:
    first = run((TEXT,), SPEC)
    pooled = first.trace.cached_stage_tensor("scores").read_pooled(2, 3)
    later = run((TEXT,), replace(SPEC, mask=MaskKind.NONE), first).trace
    assert np.shares_memory(pooled, later.cached_stage_tensor("scores").read_pooled(2, 3))


# ------------------------------------------------------------------------------------------- limits


@given(arrays(np.float32, array_shapes(min_dims=1, max_dims=4, max_side=4), elements=NUMBERS))
def test_limits_are_those_of_the_finite_numbers(array: np.ndarray) -> None:
    finite = array[np.isfinite(array)]
    expected = (finite.min(), finite.max()) if finite.size else (0, 0)
    assert holding(array).limits("weights") == expected


def test_limits_of_masked_scores_are_those_of_the_allowed() -> None:
    trace = run((TEXT,), SPEC).trace
    masked = trace.read("masked")
    low, high = trace.limits("masked")
    assert (low, high) == (masked[masked > -np.inf].min(), masked.max())
    assert np.isfinite(low)


# ------------------------------------------------------------------------------------------- shapes


@given(cases())
def test_every_trace_has_the_shapes_of_the_table(case: Case) -> None:
    trace = case.trace()
    for stage in trace.stages:
        sizes = shape(case.spec, stage.dims, trace.query_count)
        assert trace.shape(stage.name) == trace.leading_sizes + sizes
    assert trace.tensor("concat").shape[-1] == case.spec.heads * case.spec.d_head


def test_of_largest_numbers_few_counts_are_found_and_kept() -> None:
    rng = np.random.default_rng(5)
    numbers = rng.standard_normal((2, 7, 40))
    held = CachedTensor(torch.from_numpy(numbers))
    order = np.argsort(-np.abs(numbers), axis=-1, kind="stable")
    for count in range(1, 41):
        found, columns = held.read_largest(count, (1,))
        np.testing.assert_array_equal(columns, order[1, :, :count])
        np.testing.assert_array_equal(found, np.take_along_axis(numbers, order, -1)[1, :, :count])
    assert len(held.cached_keys) == 7  # 1, 2, 4, 8, 16, 32 and all
