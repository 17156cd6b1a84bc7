"""Stages of several layers, which are computed layer by layer when read."""

from __future__ import annotations

import math
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch

from visualizer.attention.cached_tensor import (
    CachedTensor,
    Index,
    cached_result_for_values,
    row_limits,
)
from visualizer.attention.display_transforms import (
    WeightTransform,
    aggregate_heads,
    drop_first_key,
    multiply_by_value_norms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from visualizer.attention.cached_tensor import RowLimits
    from visualizer.attention.display_transforms import HeadAggregate

    Tensor = torch.Tensor

MAX_CACHED_BYTES = 2**25
"""Maximum size, in bytes, of the cache of computed layers."""


class ComputedStageCache:
    """LRU cache of computed stages, which all stages and layers of a trace share."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, int], Tensor] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str, layer: int) -> Tensor | None:
        """Return a stage of a layer, or None if the stage is not cached."""
        with self._lock:
            found = self._found.get((name, layer))
            if found is not None:
                self._found.move_to_end((name, layer))
            return found

    def put(self, layer: int, tensors: Mapping[str, Tensor]) -> None:
        """Add stages of a layer to the cache, and discard the least recently used stages."""
        with self._lock:
            for name, tensor in tensors.items():
                self._found[name, layer] = tensor
                self._found.move_to_end((name, layer))
            total = sum(each.nbytes for each in self._found.values())
            while total > MAX_CACHED_BYTES and self._found:
                total -= self._found.popitem(last=False)[1].nbytes


class LazyStageTensor(CachedTensor):
    """A stage of one layer, which is computed when read.

    Parameters
    ----------
    name : str
        Name of the stage.
    layer : int
        Index of the layer in the trace.
    sizes : sequence of int
        Shape of the stage, [head, row, column] or [row, column].
    compute : callable
        Returns stages of the layer by name, including this one; all of these are cached.
    """

    def __init__(
        self,
        name: str,
        layer: int,
        sizes: Sequence[int],
        dtype: torch.dtype,
        compute: Callable[[int], Mapping[str, Tensor]],
        cache: ComputedStageCache,
    ) -> None:
        self._kept = {}
        self._name, self._layer = name, layer
        self._sizes, self._dtype = tuple(sizes), dtype
        self._compute, self._cache = compute, cache

    def __reduce__(self) -> tuple[object, ...]:
        """Support copying and pickling, which compute the numbers."""
        return CachedTensor, (self.tensor,)

    is_computed = True

    @property
    def tensor(self) -> Tensor:  # type: ignore[override]
        found = self._cache.get(self._name, self._layer)
        if found is None:
            with torch.no_grad():
                tensors = self._compute(self._layer)
            self._cache.put(self._layer, tensors)
            found = tensors[self._name]
        return found

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def shape(self) -> tuple[int, ...]:
        return self._sizes

    @property
    def bytes(self) -> int:
        """Size in bytes of all numbers, whether or not they are in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def cache_row_limits(self, tensor: Tensor) -> None:
        """Cache the row limits of this stage's numbers, which were computed for another stage."""
        self.cached_result("row limits", lambda: row_limits(tensor))

    def transform_weights(
        self, transform: WeightTransform, values: CachedTensor | None
    ) -> CachedTensor:
        made: CachedTensor
        if transform is WeightTransform.WITHOUT_FIRST or values is None:
            made = self.cached_result(
                transform, lambda: self._derive_tensor(drop_first_key, self._sizes)
            )
            return made
        lengths = values.row_norms()
        made = cached_result_for_values(
            values,
            self,
            transform,
            lambda: self._derive_tensor(
                lambda own: multiply_by_value_norms(own, lengths), self._sizes
            ),
        )
        return made

    def aggregate_heads(self, by: HeadAggregate) -> CachedTensor:
        made: CachedTensor = self.cached_result(
            by, lambda: self._derive_tensor(lambda own: aggregate_heads(own, by), self._sizes[-2:])
        )
        return made

    def _derive_tensor(
        self, make: Callable[[Tensor], Tensor], sizes: Sequence[int]
    ) -> LazyStageTensor:
        """Return a tensor that is computed from this one when read."""
        return LazyStageTensor(
            self._name,
            self._layer,
            sizes,
            self._dtype,
            lambda _: {self._name: make(self.tensor)},
            ComputedStageCache(),
        )


class LayeredTensor(CachedTensor):
    """A stage of several layers, [layer, …, row, column], which are computed when read.

    Parameters
    ----------
    parts : sequence of CachedTensor
        One tensor per layer, all of the same shape.
    """

    def __init__(self, parts: Sequence[CachedTensor]) -> None:
        self._kept = {}
        self.parts = tuple(parts)

    def __reduce__(self) -> tuple[object, ...]:
        """Support copying and pickling, which compute the numbers of all layers."""
        return CachedTensor, (self.tensor,)

    is_computed = True

    @property
    def tensor(self) -> Tensor:  # type: ignore[override]
        """All layers, which are computed on every access."""
        whole = torch.empty(self.shape, dtype=self.dtype)
        for layer, part in enumerate(self.parts):
            whole[layer] = part.tensor
        return whole

    @property
    def dtype(self) -> torch.dtype:
        return self.parts[0].dtype

    @property
    def device(self) -> torch.device:
        return self.parts[0].device

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.parts), *self.parts[0].shape)

    @property
    def bytes(self) -> int:
        """Size in bytes of all numbers, whether or not they are in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, index: Index = ()) -> np.ndarray:
        """Return numbers, read-only; only the layers in the index are computed."""
        at, *rest = index or (slice(None),)
        if not isinstance(at, slice):
            return self.parts[at].read(tuple(rest))
        some = self.parts[at]
        if not some:
            return super().read(index)
        first = some[0].read(tuple(rest))
        found = np.empty((len(some), *first.shape), first.dtype)
        found[0] = first
        for place, part in enumerate(some[1:], 1):
            found[place] = part.read(tuple(rest))
        found.flags.writeable = False
        return found

    def read_rows(self, rows: np.ndarray, index: tuple[int, ...] = ()) -> np.ndarray:
        layer, *rest = index
        return self.parts[layer].read_rows(rows, tuple(rest))

    def read_pooled(self, rows: int, columns: int, index: Index = ()) -> np.ndarray:
        at, *rest = index or (slice(None),)
        if isinstance(at, slice):
            return super().read_pooled(rows, columns, index)
        return self.parts[at].read_pooled(rows, columns, tuple(rest))

    def read_largest(self, count: int, index: Index = ()) -> tuple[np.ndarray, np.ndarray]:
        at, *rest = index or (slice(None),)
        if isinstance(at, slice):
            return super().read_largest(count, index)
        return self.parts[at].read_largest(count, tuple(rest))

    def row_magnitudes(self, index: Index = ()) -> np.ndarray:
        at, *rest = index or (slice(None),)
        if isinstance(at, slice):
            return super().row_magnitudes(index)
        return self.parts[at].row_magnitudes(tuple(rest))

    def row_norms(self) -> Tensor:
        return torch.stack([part.row_norms() for part in self.parts])

    def row_limits(self) -> RowLimits:
        limits: RowLimits = self.cached_result("row limits", self._row_limits_of_layers)
        return limits

    def _row_limits_of_layers(self) -> RowLimits:
        each = [part.row_limits() for part in self.parts]
        lows = torch.stack([one[0] for one in each])
        highs = torch.stack([one[1] for one in each])
        return lows, highs, min(one[2] for one in each), max(one[3] for one in each)

    def index_of_largest(self, index: Index = ()) -> tuple[int, ...]:
        at, *rest = index or (slice(None),)
        if isinstance(at, slice):
            return super().index_of_largest(index)
        return self.parts[at].index_of_largest(tuple(rest))

    def transform_weights(
        self, transform: WeightTransform, values: CachedTensor | None
    ) -> CachedTensor:
        def made() -> LayeredTensor:
            vectors = [None] * len(self.parts) if values is None else values.split_by_layer()
            pairs = zip(self.parts, vectors, strict=True)
            return LayeredTensor([part.transform_weights(transform, own) for part, own in pairs])

        found: CachedTensor = cached_result_for_values(values, self, transform, made)
        return found

    def aggregate_heads(self, by: HeadAggregate) -> CachedTensor:
        found: CachedTensor = self.cached_result(
            by, lambda: LayeredTensor([part.aggregate_heads(by) for part in self.parts])
        )
        return found

    def split_by_layer(self) -> tuple[CachedTensor, ...]:
        return self.parts
