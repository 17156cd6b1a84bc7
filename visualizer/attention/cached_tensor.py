"""A tensor that caches pooled values, limits and derived tensors; imports no torch."""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from visualizer.attention.display_transforms import (
    WeightTransform,
    aggregate_heads,
    drop_first_key,
    multiply_by_value_norms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    import torch
    from torch import Tensor

    from visualizer.attention.display_transforms import HeadAggregate

Index = tuple[int | slice, ...]
MAX_LOOPED_BLOCK = 3
"""Maximum block size for which comparing cells one by one is twice as fast as a torch reduction."""
RowLimits = tuple["Tensor", "Tensor", float, float]
"""The smallest and the largest finite number of each row, and those of all rows."""


class CachedTensor:
    """A tensor [..., row, column] that caches reductions and derived tensors."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._kept: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Support copying and pickling of the numbers, without caches."""
        return CachedTensor, (self.tensor,)

    def with_separate_tiles(self) -> CachedTensor:
        """Return a tensor with the same numbers and separate tiles, or itself without tiles."""
        return self

    is_in_memory = True
    """Whether the numbers are held in memory."""
    is_computed = False
    """Whether the numbers are computed on every read and take up no memory."""
    is_blockwise = False
    """Whether blocks are computed when read, so that drawings can be incomplete."""
    version = 0
    """Number that is incremented whenever more of a drawing becomes known."""

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def device(self) -> torch.device:
        return self.tensor.device

    @property
    def bytes(self) -> int:
        """Size in bytes of the storage, which other tensors may share."""
        return self.tensor.untyped_storage().nbytes()

    @property
    def bytes_in_file(self) -> int:
        """The part of `bytes` that is stored in a file instead of in memory."""
        return 0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    def cached_reduction(self, key: Hashable, make: Callable[[Tensor], Any]) -> Any:
        """Return the cached result for a key, which is computed from the tensor at the first use.

        Parameters
        ----------
        key : hashable
            Key that identifies the result; different computations need different keys.
        """
        return self.cached_result(key, lambda: make(self.tensor.detach()))

    def cached_result(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the cached result for a key, which is computed at the first use."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def cached_keys(self) -> frozenset[Hashable]:
        """Keys of all cached results."""
        return frozenset(self._kept)

    def read(self, index: Index = ()) -> np.ndarray:
        """Return a read-only array of numbers; axes that the index omits are returned in full."""
        return to_readonly_array(self.tensor[index])

    def read_rows(self, rows: np.ndarray, index: tuple[int, ...] = ()) -> np.ndarray:
        """Return rows at a leading index, in any order, as a read-only array [row, column]."""
        return to_readonly_array(self.tensor[index][rows])

    def sample_evenly_spaced_rows(
        self, place: tuple[int, ...], most_rows: int
    ) -> tuple[np.ndarray, int, np.ndarray]:
        """Return evenly spaced rows of each matrix, or all rows if there are few.

        Returns
        -------
        tuple of ndarray, int and ndarray
            The indices of the rows, the number of columns per block, and the number with the
            largest magnitude in each block, [..., row, block].
        """
        every = self.read(place)
        rows = evenly_spaced_rows(every.shape[-2], most_rows)
        return rows, 1, every if len(rows) == every.shape[-2] else every[..., rows, :]

    def read_pooled(self, rows: int, columns: int, index: Index = ()) -> np.ndarray:
        """Return the number with the largest magnitude in each block of rows × columns.

        If there is a tie, the number is positive. NaN takes precedence over all numbers, and −∞ is
        used only if a block contains nothing else. The last blocks along an axis may be smaller.
        Only the matrices that the index selects are pooled, because a view may show a single head.
        """
        if (rows, columns) == (1, 1):
            return self.read(index)
        numbers = tuple(itertools.takewhile(lambda at: not isinstance(at, slice), index))
        place = numbers[: self.tensor.dim() - 2]
        is_signed = self.limits()[0] < 0
        pool = _pool_magnitudes if is_signed else _pool_blocks
        pooled = self.cached_reduction(
            ("pooled", rows, columns, place), lambda whole: pool(whole[place], rows, columns)
        )
        return to_readonly_array(pooled[index[len(place) :]])

    def read_largest(self, count: int, index: Index = ()) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers with the largest absolute values in each row, and their columns.

        NaN precedes all numbers.
        """
        # Rounded up to a power of two, so that few distinct counts are computed and cached.
        several = min(1 << max(count - 1, 0).bit_length(), self.tensor.shape[-1])
        numbers, columns = self.cached_reduction(
            ("largest", several), lambda whole: _top_magnitudes(whole, several)
        )
        first = (*index, ..., slice(count))
        return to_readonly_array(numbers[first]), to_readonly_array(columns[first])

    def draw_coarse_rows(
        self, rows: int, columns: int, index: Index = (), most_cells: int | None = None
    ) -> bool:
        """Compute a coarse drawing for `read_pooled`; return whether there was anything to compute.

        Parameters
        ----------
        most_cells : int, optional
            Approximate maximum number of values to compute, which may reduce the number of rows.
        """
        return False

    def draw_exact_rows(
        self, rows: int, columns: int, index: Index, is_over: Callable[[], bool]
    ) -> bool:
        """Make the drawing for `read_pooled` exact; return False if this was interrupted."""
        return True

    def rows_represented(self, rows: int, columns: int, index: tuple[int, ...]) -> range:
        """Return the rows that a pooled row, the last number in the index, represents."""
        *_, row = index
        return range(row * rows, min((row + 1) * rows, self.shape[-2]))

    def discard_drawing(self, rows: int, columns: int) -> None:
        """Discard the drawing with this block size, if drawings can be incomplete."""

    def exact_row_share(self, rows: int, columns: int, index: Index = ()) -> float:
        """Return the share of the rows in `read_pooled` that are exact."""
        return 1.0

    def drawn_row_share(self, rows: int, columns: int, index: Index = ()) -> float:
        """Return the share of the rows in `read_pooled` that are at least partly computed."""
        return 1.0

    def rows_per_sample(self, rows: int, columns: int, index: Index = ()) -> int:
        """Return how many rows of the tensor one row represents in a drawing that is not exact."""
        return rows

    def limits(self) -> tuple[float, float]:
        """Return the smallest and the largest finite number, or zeros if no number is finite."""
        limits: tuple[float, float] = self.cached_result("limits", self._compute_limits)
        return limits

    def row_magnitudes(self, index: Index = ()) -> np.ndarray:
        """Return the largest finite absolute value in each row, [..., row]."""
        return to_readonly_array(
            self.cached_result("row magnitudes", lambda: _row_magnitudes(self.row_limits()))[index]
        )

    def row_norms(self) -> Tensor:
        """Return the Euclidean norm of each row, [..., row]."""
        lengths: Tensor = self.tensor.detach().norm(dim=-1)
        return lengths

    def _compute_limits(self) -> tuple[float, float]:
        *_, low, high = self.row_limits()
        return (low, high) if low <= high else (0.0, 0.0)

    def row_limits(self) -> RowLimits:
        """Return the limits of the finite numbers, which are ∞ and −∞ if no number is finite."""
        limits: RowLimits = self.cached_reduction("row limits", row_limits)
        return limits

    def split_by_layer(self) -> tuple[CachedTensor, ...]:
        """Return the layers of a tensor [layer, …, row, column] as separate tensors."""
        return tuple(map(CachedTensor, self.tensor))

    def index_of_largest(self, index: Index = ()) -> tuple[int, ...]:
        """Return the index of the finite number with the largest magnitude in a part."""
        position: tuple[int, ...] = self.cached_reduction(
            ("farthest", index), lambda tensor: _index_of_largest_magnitude(tensor[index])
        )
        return position

    def transform_weights(
        self, transform: WeightTransform, values: CachedTensor | None
    ) -> CachedTensor:
        """Return weights that are transformed for display; see `Trace.displayed_tensor`.

        Parameters
        ----------
        values : CachedTensor or None
            The values that the weights are applied to.
        """
        made: CachedTensor
        if transform is WeightTransform.WITHOUT_FIRST or values is None:
            made = self.cached_reduction(transform, lambda own: CachedTensor(drop_first_key(own)))
            return made
        vectors, own = values, self.tensor.detach()
        made = cached_result_for_values(
            values,
            self,
            transform,
            lambda: CachedTensor(multiply_by_value_norms(own, vectors.row_norms())),
        )
        return made

    def aggregate_heads(self, by: HeadAggregate) -> CachedTensor:
        """Return the aggregate of the heads, which are the axis before the rows."""
        folded: CachedTensor = self.cached_reduction(
            by, lambda tensor: CachedTensor(aggregate_heads(tensor, by))
        )
        return folded

    def subtract(self, other: CachedTensor) -> CachedTensor:
        """Subtract another tensor of the same shape.

        −∞ marks a forbidden cell; if either number is −∞, the difference is 0.
        """
        if self.tensor is other.tensor:  # expanded zeros need no memory
            return CachedTensor(self.tensor.new_zeros(()).expand(self.tensor.shape))
        return CachedTensor(subtract_tensors(self.tensor.detach(), other.tensor.detach()))

    def subtract_heads(self, one: int, other: int) -> CachedTensor:
        """Subtract head ``one`` from head ``other``, [..., row, column]."""
        whole = self.tensor.detach()
        return CachedTensor(subtract_tensors(whole.select(-3, other), whole.select(-3, one)))

    def multiply(self, factors: np.ndarray, divisor: float) -> CachedTensor:
        """Multiply each cell by its factor, and divide all cells by a common divisor."""
        whole = self.tensor.detach()
        return CachedTensor(whole.new_tensor(factors).mul_(whole).div_(divisor))


def evenly_spaced_rows(count: int, most: int) -> np.ndarray:
    """Return the indices of up to ``most`` evenly spaced rows, from the first to the last."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def to_readonly_array(tensor: Tensor) -> np.ndarray:
    """Return the numbers of a tensor as a read-only array; 16-bit types become float32.

    NumPy has no bfloat16, and reductions in float16 overflow.
    """
    whole = tensor.detach().cpu()
    if whole.is_floating_point() and whole.dtype.itemsize < np.dtype(np.float32).itemsize:
        whole = whole.float()
    array: np.ndarray = whole.numpy()
    array.flags.writeable = False
    return array


def cached_result_for_values(
    values: CachedTensor | None, held: CachedTensor, key: Hashable, make: Callable[[], Any]
) -> Any:
    """Return the cached result for a tensor and the values that its weights are applied to.

    Weights may outlive many values, so weak references drop a result together with its values.
    """
    if values is None:
        return held.cached_result(key, make)
    by_values: WeakKeyDictionary[CachedTensor, Any] = held.cached_result(
        (key, "by values"), lambda: WeakKeyDictionary()
    )
    if values not in by_values:
        by_values[values] = make()
    return by_values[values]


def is_cached_for_values(values: CachedTensor | None, held: CachedTensor, key: Hashable) -> bool:
    """Return whether `cached_result_for_values` already has a result."""
    if values is None:
        return key in held.cached_keys
    by_key = (key, "by values")
    return by_key in held.cached_keys and values in held.cached_result(by_key, dict)


def _top_magnitudes(tensor: Tensor, count: int) -> tuple[Tensor, Tensor]:
    columns = tensor.abs().topk(count, -1).indices
    return tensor.gather(-1, columns), columns


def _pool_blocks(tensor: Tensor, rows: int, columns: int, end: str = "amax") -> Tensor:
    return _reduce_blocks(_reduce_blocks(tensor, rows, -2, end), columns, -1, end)


def _reduce_blocks(tensor: Tensor, block: int, axis: int, end: str) -> Tensor:
    """Return the largest (amax) or smallest (amin) number in each block along an axis."""
    if block == 1:
        return tensor
    size = tensor.shape[axis]
    block = min(block, size)
    whole, rest = divmod(size, block)
    blocks = tensor.unfold(axis, block, block)
    if block <= MAX_LOOPED_BLOCK:
        larger = "maximum" if end == "amax" else "minimum"
        ends: Tensor = reduce(lambda one, other: getattr(one, larger)(other), blocks.unbind(-1))
    else:
        ends = getattr(blocks, end)(-1)
    if not rest:
        return ends
    sizes = list(tensor.shape)
    sizes[axis] = whole + 1
    pooled = tensor.new_empty(sizes)
    pooled.narrow(axis, 0, whole).copy_(ends)
    last = getattr(tensor.narrow(axis, whole * block, rest), end)(axis, keepdim=True)
    pooled.narrow(axis, whole, 1).copy_(last)
    return pooled


def _pool_magnitudes(tensor: Tensor, rows: int, columns: int) -> Tensor:
    high, low = (_pool_blocks(tensor, rows, columns, end) for end in ("amax", "amin"))
    if not math.isfinite(float(low.amin())):
        low = low.clone()  # for a single row or column, this is a view of the tensor
        for place, matrix in _iter_without_minus_infinity(tensor):
            low[place] = _pool_blocks(matrix, rows, columns, "amin")
    return low.where(low + high < 0, high)  # not if either is NaN, and not ∞ instead of −∞


def subtract_tensors(tensor: Tensor, other: Tensor) -> Tensor:
    """Return the difference of two tensors, which is 0 if either number is −∞."""
    other = other.to(tensor.device)
    difference = tensor - other
    for one in (tensor, other):
        difference.masked_fill_(one == -math.inf, 0)
    return difference


def _index_of_largest_magnitude(tensor: Tensor) -> tuple[int, ...]:
    at, place = int(tensor.where(tensor.isfinite(), 0).abs().argmax()), []
    for size in reversed(tensor.shape):
        at, axis = divmod(at, size)
        place.append(axis)
    return tuple(reversed(place))


def row_limits(tensor: Tensor) -> RowLimits:
    """Return the finite limits, or ∞ and −∞ if no number is finite."""
    lows, highs = tensor.amin(-1), tensor.amax(-1)
    low, high = float(lows.amin()), float(highs.amax())
    if math.isfinite(low) and math.isfinite(high):
        return lows, highs, low, high
    if math.isfinite(high):  # only −∞ then has to be excluded
        for place, matrix in _iter_without_minus_infinity(tensor):
            lows[place] = matrix.amin(-1)
        return lows, highs, float(lows.amin()), high
    for place, matrix in _iter_matrices(tensor):  # excluding numbers makes copies
        finite = matrix.isfinite()
        lows[place] = matrix.where(finite, math.inf).amin(-1)
        highs[place] = matrix.where(finite, -math.inf).amax(-1)
    return lows, highs, float(lows.amin()), float(highs.amax())


def _row_magnitudes(limits: RowLimits) -> Tensor:
    lows, highs, *_ = limits
    ends = lows.abs().maximum(highs.abs())
    return ends.where(ends.isfinite(), 0)


def _iter_without_minus_infinity(tensor: Tensor) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """Yield each matrix with ∞ instead of −∞, always in the same buffer."""
    room = tensor.new_empty(tensor.shape[-2:])
    for place, matrix in _iter_matrices(tensor):
        yield place, room.copy_(matrix).nan_to_num_(math.nan, math.inf, math.inf)


def _iter_matrices(tensor: Tensor) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    for place in itertools.product(*map(range, tensor.shape[:-2])):
        yield place, tensor[place]


def to_float64_on_cpu(numbers: Tensor) -> Tensor:
    """Return numbers in float64 on the CPU, without their gradients.

    The numbers are moved before the conversion, because Apple's GPU does not support float64.
    """
    return numbers.detach().cpu().double()


class WeightBand(Struct, frozen=True, eq=False):
    """The weights of consecutive queries in some heads, [head, query, key].

    Parameters
    ----------
    queries, keys : range
        Positions of the queries and keys; the weights for all other keys are 0.
    has_others : bool
        Whether there are other keys.
    """

    weights: Tensor
    queries: range
    keys: range
    has_others: bool = False
