"""A tensor that is computed block by block when it is read, for matrices that exceed memory."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from visualizer.attention.cached_tensor import (
    CachedTensor,
    WeightBand,
    evenly_spaced_rows,
    to_readonly_array,
)
from visualizer.attention.display_transforms import WeightTransform, aggregate_heads
from visualizer.attention.drawn_tiles import (
    FIRST_ROWS,
    DrawnRegion,
    DrawnTiles,
    LeadingIndices,
    PreviewLayout,
    largest_magnitude,
    middle_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from torch import Tensor

    from visualizer.attention.cached_tensor import Index
    from visualizer.attention.display_transforms import HeadAggregate

BAND_ROWS = 512
"""Number of rows that are computed together."""
CHUNK_COLUMNS = 1024
"""Number of columns that are computed together, so that a band of rows fits in the CPU cache."""
MAX_FULL_ROW_COLUMNS = 2**12
"""Maximum number of columns for which computing whole rows is as fast as computing parts."""
MAX_CACHED_ROW_BYTES = 2**22
"""Maximum size, in bytes, of a tensor's cache of whole rows."""
MAX_DRAWN_BAND_CELLS = 2**24
"""Number of cells in a drawn band; small, so that drawing yields quickly to newer requests."""
MAX_MEASURED_BAND_CELLS = 2**22
"""Number of cells in a band of rows that is measured."""
CACHE_BLOCK_CELLS = 2**19
"""Number of cells that are processed together, so that they stay in the processor cache."""

BlockExtremes = tuple["Tensor", "Tensor | None"]
"""Largest and smallest finite number of each block; the smallest is None for unsigned numbers."""


class BlockSource(ABC):
    """Computes blocks of a tensor; can be called on any thread."""

    is_signed = True
    """Whether numbers may be negative."""
    is_in_memory = False
    """Whether all numbers are held in memory and none have to be computed."""
    starts_with_preview = False
    """Whether a drawing starts with a coarse preview, because each read is slow."""
    outside = 0.0
    """Value of all numbers in columns that `readable` excludes."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Data type of the numbers."""

    @property
    def bytes(self) -> int:
        """Size in bytes of the numbers that are held by this source only."""
        return 0

    @property
    def bytes_in_file(self) -> int:
        """The part of `bytes` that is stored in a file instead of in memory."""
        return 0

    @property
    def can_compute_single_values(self) -> bool:
        """Whether individual numbers of a row can be computed without the rest of the row."""
        return False

    @abstractmethod
    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        """Compute the given rows and columns, [row, column]; the caller owns the result."""

    def values_at_keys(self, place: LeadingIndices, rows: Tensor, keys: Tensor) -> Tensor:
        """Compute one number in each given row, [row]; requires `can_compute_single_values`."""
        raise NotImplementedError

    def columns_to_compute(self, place: LeadingIndices, rows: Tensor, columns: range) -> range:
        """Return the subset of the given columns that can differ from `outside`."""
        return columns

    def row_maxima(self, place: LeadingIndices, rows: Tensor) -> Tensor | None:
        """Return the largest number of each given row, or None if it is unknown."""
        return None

    def column_extremes(
        self, place: LeadingIndices, rows: Tensor, columns: range, block: int
    ) -> BlockExtremes:
        """Compute the largest and smallest number per row and block of columns, [row, block].

        Parameters
        ----------
        columns : range
            Columns, which start at a multiple of the block.
        """
        high = torch.full((len(rows), math.ceil(len(columns) / block)), self.outside)
        high = high.to(self.dtype)
        low = torch.full_like(high, math.inf) if self.is_signed else None
        for keys, to in iterate_column_chunks(
            columns, self.columns_to_compute(place, rows, columns), block, len(rows)
        ):
            cells = self.compute_cells(place, rows, keys)
            high[:, to] = block_extremes(cells, block, "amax")
            if low is not None:
                cells.masked_fill_(cells == -math.inf, math.inf)
                low[:, to] = block_extremes(cells, block, "amin")
        return high, low


class DerivedSource(BlockSource):
    """Base class for sources of numbers that are computed from another source."""

    def __init__(self, source: BlockSource) -> None:
        self._source, self.is_signed = source, source.is_signed

    @property
    def dtype(self) -> torch.dtype:
        return self._source.dtype


class AggregatedHeadsSource(DerivedSource):
    """Source that aggregates several heads into one."""

    def __init__(self, source: BlockSource, heads: int, by: HeadAggregate) -> None:
        super().__init__(source)
        self._heads, self._by = heads, by

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        each = [
            self._source.compute_cells((*place, head), rows, columns) for head in range(self._heads)
        ]
        return aggregate_heads(torch.stack(each), self._by)


class WithoutFirstKeySource(DerivedSource):
    """Source of weights without the first key, with each row divided by its new sum."""

    def __init__(
        self, source: BlockSource, sums: Callable[[LeadingIndices, Tensor], Tensor]
    ) -> None:
        super().__init__(source)
        self._sums = sums

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        rest = self._sums(place, rows)[:, None]
        cells = self._source.compute_cells(place, rows, columns)
        if not columns.start:
            cells[:, 0] = 0
        return cells / rest.masked_fill(rest == 0, 1)


class ValueWeightedSource(DerivedSource):
    """Source of weights that are multiplied by the norm of the key's value vector."""

    def __init__(self, source: BlockSource, lengths: Callable[[LeadingIndices], Tensor]) -> None:
        super().__init__(source)
        self._lengths = lengths

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        return self._source.compute_cells(place, rows, columns) * self._lengths(place)[columns]


class DifferenceSource(DerivedSource):
    """Source of the difference of two tensors, which is 0 in cells where either tensor is −∞."""

    def __init__(self, one: BlockSource, other: BlockSource) -> None:
        super().__init__(one)
        self.is_signed, self._sides = True, (one, other)
        self.places: tuple[LeadingIndices, LeadingIndices] = (), ()
        """Indices that are appended to the leading index of each tensor."""

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        one, other = (
            source.compute_cells((*place, *more), rows, columns)
            for source, more in zip(self._sides, self.places, strict=True)
        )
        forbidden = (one == -math.inf) | (other == -math.inf)
        return (one - other).masked_fill_(forbidden, 0)


class BlockwiseTensor(CachedTensor):
    """A tensor [..., row, column] that is computed when read, with cached tiles and rows."""

    is_blockwise = True

    def __init__(
        self, shape: tuple[int, ...], source: BlockSource, *, keeps_all: bool = False
    ) -> None:
        self._shape, self._source, self._keeps_all = shape, source, keeps_all
        self._kept = {}
        rows, columns = shape[-2:]
        dtype = _numpy_type(source.dtype)
        self.tiles = DrawnTiles(
            (rows, columns), dtype, is_signed=source.is_signed, keeps_all=keeps_all
        )
        self._rows: OrderedDict[tuple[LeadingIndices, int], np.ndarray] = OrderedDict()
        self._row_magnitudes: dict[LeadingIndices, np.ndarray] = {}
        self._low, self._high = math.inf, -math.inf
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        """Support copying and pickling of the inputs, without drawn tiles."""
        return BlockwiseTensor, (self._shape, self._source)

    def with_separate_tiles(self) -> BlockwiseTensor:
        """Return a tensor with the same numbers and a separate copy of the drawn tiles.

        The new tensor keeps all of its tiles until `drop` is called.
        """
        made = BlockwiseTensor(self._shape, self._source, keeps_all=True)
        made.tiles.copy_from(self.tiles)
        magnitudes = [*self._row_magnitudes.items()]
        made._row_magnitudes = {place: ends.copy() for place, ends in magnitudes}
        made._low, made._high = self._low, self._high
        made._kept = {key: _copy_with_separate_tiles(kept) for key, kept in [*self._kept.items()]}
        return made

    def discard_drawing(self, rows: int, columns: int) -> None:
        """Discard the drawing with this block size, but keep the colour limits found so far."""
        self.tiles.discard_drawings((rows, columns))

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.tiles.version

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> torch.dtype:
        return self._source.dtype

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def bytes(self) -> int:
        """Size in bytes of the tiles, the cached rows, and the inputs of the computation."""
        rows = sum(row.nbytes for row in [*self._rows.values()])
        return self._source.bytes + self.tiles.bytes + rows

    @property
    def bytes_in_file(self) -> int:
        return self._source.bytes_in_file

    # ------------------------------------------------------------------ derived tensors

    def _derive_tensor(
        self, key: Hashable, shape: tuple[int, ...], source: Callable[[], BlockSource]
    ) -> BlockwiseTensor:
        if key not in self._kept:
            self._kept[key] = BlockwiseTensor(shape, source(), keeps_all=self._keeps_all)
        made: BlockwiseTensor = self._kept[key]
        return made

    def aggregate_heads(self, by: HeadAggregate) -> CachedTensor:
        """Return the aggregate of the heads, computed when read."""
        *leading, heads, rows, columns = self._shape
        return self._derive_tensor(
            by, (*leading, rows, columns), lambda: AggregatedHeadsSource(self._source, heads, by)
        )

    def transform_weights(
        self, transform: WeightTransform, values: CachedTensor | None
    ) -> CachedTensor:
        """Return weights that are transformed for display, computed when read."""
        if transform is WeightTransform.WITHOUT_FIRST or values is None:
            return self._derive_tensor(
                transform,
                self._shape,
                lambda: WithoutFirstKeySource(self._source, self._sum_rows_without_first_column),
            )
        kept: WeakKeyDictionary[CachedTensor, BlockwiseTensor]
        kept = self._kept.setdefault(transform, WeakKeyDictionary())
        if values not in kept:
            source = ValueWeightedSource(self._source, row_lengths(values))
            kept[values] = BlockwiseTensor(self._shape, source, keeps_all=self._keeps_all)
        return kept[values]

    def subtract(self, other: CachedTensor) -> CachedTensor:
        """Subtract another tensor of the same shape; see `CachedTensor.subtract`."""
        assert isinstance(other, BlockwiseTensor)
        return BlockwiseTensor(self._shape, DifferenceSource(self._source, other._source))

    def subtract_heads(self, one: int, other: int) -> CachedTensor:
        """Subtract head ``one`` from head ``other``."""
        *leading, _, rows, columns = self._shape
        source = DifferenceSource(self._source, self._source)
        source.places = (other,), (one,)
        return BlockwiseTensor((*leading, rows, columns), source)

    def _sum_rows_without_first_column(self, place: LeadingIndices, rows: Tensor) -> Tensor:
        """Sum the rows without their first column, [row]."""
        total = torch.zeros(len(rows), dtype=torch.float64)
        columns = range(1, self._shape[-1])
        for keys in split_columns(
            self._source.columns_to_compute(place, rows, columns), CHUNK_COLUMNS
        ):
            total += self._source.compute_cells(place, rows, keys).sum(-1, dtype=torch.float64)
        return total.to(self.dtype)

    # ------------------------------------------------------------------ numbers

    def read(self, index: Index = ()) -> np.ndarray:
        """Compute numbers, one band of rows at a time."""
        rest = [slice(None)] * (len(self._shape) - len(index))
        whole: tuple[int | slice, ...] = (*index, *rest)
        ranges = [
            range(at, at + 1) if not isinstance(at, slice) else range(*at.indices(size))
            for at, size in zip(whole, self._shape, strict=True)
        ]
        *leading, rows, columns = ranges
        if len(rows) == 1 and all(len(each) == 1 for each in leading):
            row = self._read_whole_row(tuple(each[0] for each in leading), rows[0], columns)
            if row is not None:
                return row.reshape(*map(len, ranges))[_index_without_integer_axes(whole)]
        across = slice(columns.start, columns.stop)
        out = torch.empty(*map(len, ranges), dtype=self._source.dtype)
        for to in itertools.product(*(range(len(each)) for each in leading)):
            place = tuple(each[at] for each, at in zip(leading, to, strict=True))
            for start in range(0, len(rows), BAND_ROWS):
                band = torch.tensor(rows[start : start + BAND_ROWS])
                cells = self._source.compute_cells(place, band, across)
                out[to][start : start + BAND_ROWS] = cells[:, :: columns.step]
        return to_readonly_array(out)[_index_without_integer_axes(whole)]

    def read_rows(self, rows: np.ndarray, index: tuple[int, ...] = ()) -> np.ndarray:
        """Compute the given rows, [row, column], in any order; at most `BAND_ROWS` rows."""
        every = slice(0, self._shape[-1])
        return to_readonly_array(self._source.compute_cells(index, torch.from_numpy(rows), every))

    def _read_whole_row(self, place: LeadingIndices, row: int, columns: range) -> np.ndarray | None:
        """Return part of a row from the cache of whole rows, or None if computing it is faster.

        A row that is not in the cache is computed in full and cached, because explaining a cell and
        its inputs reads the same rows several times.
        """
        key = (place, row)
        with self._lock:
            whole = self._rows.get(key)
            if whole is not None:
                self._rows.move_to_end(key)
        if whole is None:
            is_part = len(columns) < self._shape[-1] or columns.step != 1
            if is_part and self._shape[-1] > MAX_FULL_ROW_COLUMNS:
                return None
            cells = self._source.compute_cells(
                place, torch.tensor([row]), slice(0, self._shape[-1])
            )
            whole = to_readonly_array(cells[0])
            with self._lock:
                self._rows[key] = whole
                while len(self._rows) * whole.nbytes > MAX_CACHED_ROW_BYTES and len(self._rows) > 1:
                    self._rows.popitem(last=False)
        return whole[columns.start : columns.stop : columns.step]

    @property
    def can_compute_single_values(self) -> bool:
        """Whether `values_at_keys` takes time proportional to the number of values."""
        return self._source.can_compute_single_values

    def values_at_keys(
        self, place: LeadingIndices, rows: np.ndarray, keys: np.ndarray
    ) -> np.ndarray:
        """Compute one number, at the given key, in each given row, [row]."""
        return to_readonly_array(
            self._source.values_at_keys(place, torch.from_numpy(rows), torch.from_numpy(keys))
        )

    def compute_cells(self, place: LeadingIndices, rows: np.ndarray, columns: slice) -> np.ndarray:
        """Compute the given rows and columns, [row, column]."""
        return to_readonly_array(self._source.compute_cells(place, torch.from_numpy(rows), columns))

    def column_extremes(
        self, place: LeadingIndices, rows: np.ndarray, columns: range, block: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute the largest and smallest number per row and block of columns, [row, block].

        Parameters
        ----------
        columns : range
            Columns, which start at a multiple of the block.

        Returns
        -------
        tuple of ndarray and ndarray or None
            The largest and the smallest finite numbers; None for the smallest if none is negative.
        """
        high, low = self._source.column_extremes(place, torch.from_numpy(rows), columns, block)
        return to_readonly_array(high), None if low is None else to_readonly_array(low)

    @property
    def is_in_memory(self) -> bool:  # type: ignore[override]
        return self._source.is_in_memory

    def sample_pooled_rows(self, block: int, place: LeadingIndices) -> np.ndarray:
        """Return one row per block of rows, pooled to the largest numbers, [row, column].

        Unlike a drawing, this result is not cached.
        """
        rows = torch.from_numpy(middle_rows(block, self._shape[-2]))
        high, _ = self._source.column_extremes(place, rows, range(self._shape[-1]), block)
        return to_readonly_array(high)

    def sample_evenly_spaced_rows(
        self, place: LeadingIndices, most_rows: int
    ) -> tuple[np.ndarray, int, np.ndarray]:
        """Compute evenly spaced rows of a matrix, or the rows of the preview if reads are slow."""
        if not self._source.starts_with_preview:
            spaced = evenly_spaced_rows(self._shape[-2], most_rows)
            return spaced, 1, self.read_rows(spaced, place)
        first = PreviewLayout.from_matrix_sizes(self._shape)
        return (
            first.rows,
            first.blocks[1],
            _largest_magnitudes(*self._preview_extremes(place, first)),
        )

    @property
    def tensor(self) -> Tensor:  # type: ignore[override]
        """All vectors, which must be held in memory, as a tensor that the caller owns."""
        if not self._source.is_in_memory:
            raise AttributeError("The numbers are not held in memory.")
        places = itertools.product(*map(range, self._shape[:-2]))
        return torch.stack([self.compute_matrix(place) for place in places]).view(self._shape)

    def row_norms(self) -> Tensor:
        """Compute the norm of each row [..., row], one matrix at a time."""
        places = itertools.product(*map(range, self._shape[:-2]))
        lengths = [self.compute_matrix(place).norm(dim=-1) for place in places]
        return torch.stack(lengths).view(self._shape[:-1])

    def compute_matrix(self, place: LeadingIndices) -> Tensor:
        """Compute a matrix of vectors, [row, column]."""
        return self._source.compute_cells(
            place, torch.arange(self._shape[-2]), slice(0, self._shape[-1])
        )

    def new_zeros(self, sizes: tuple[int, ...]) -> Tensor:
        """Create a tensor of zeros with this tensor's dtype."""
        return torch.zeros(sizes, dtype=self._source.dtype)

    def iterate_bands(self, place: LeadingIndices, rows: int) -> Iterator[WeightBand]:
        """Yield the first `rows` rows of one head's matrix, band by band."""
        columns = range(self._shape[-1])
        several = min(BAND_ROWS, max(1, MAX_MEASURED_BAND_CELLS // len(columns)))
        for start in range(0, rows, several):
            asked = torch.arange(start, min(start + several, rows))
            keys = self._source.columns_to_compute(place, asked, columns)
            cells = torch.empty((len(asked), len(keys)), dtype=self._source.dtype)
            for some in split_columns(keys, CHUNK_COLUMNS):
                to = slice(some.start - keys.start, some.stop - keys.start)
                cells[:, to] = self._source.compute_cells(place, asked, some)
            few = max(1, CACHE_BLOCK_CELLS // max(1, len(keys)))
            for at in range(0, len(asked), few):
                part = cells[None, at : at + few]
                first = start + at
                has_others = len(keys) < self._shape[-1]
                yield WeightBand(part, range(first, first + part.shape[1]), keys, has_others)

    # ------------------------------------------------------------------ drawn tiles

    def limits(self) -> tuple[float, float]:
        """Return the smallest and the largest finite number drawn so far."""
        low, high = self._low, self._high
        return (low, high) if low <= high else (0.0, 0.0)

    def row_magnitudes(self, index: Index = ()) -> np.ndarray:
        """Return the largest finite absolute value of each row, or 0 for rows not drawn yet."""
        ends = self._row_magnitudes.get(tuple(index))  # type: ignore[arg-type]
        return np.zeros(self._shape[-2], np.float32) if ends is None else ends

    def drawn_region(self, rows: int, columns: int, index: Index) -> DrawnRegion:
        """Return the drawn region that an index of `read_pooled` refers to."""
        count = len(self._shape) - 2
        place = tuple(int(at) for at in index[:count] if not isinstance(at, slice))
        sides = [
            range(math.ceil(size / block))
            for size, block in zip(self._shape[-2:], (rows, columns), strict=True)
        ]
        cells = [*index[count:], slice(None), slice(None)][:2]
        across = (side[at] for side, at in zip(sides, cells, strict=True) if isinstance(at, slice))
        down, right = across
        return DrawnRegion(place, (rows, columns), down, right)

    def read_pooled(self, rows: int, columns: int, index: Index = ()) -> np.ndarray:
        """Return the known numbers of a drawn region; see `DrawnTiles.read_region`."""
        return self.tiles.read_region(self.drawn_region(rows, columns, index))

    def exact_row_share(self, rows: int, columns: int, index: Index = ()) -> float:
        """Return the share of the drawn rows that are exact."""
        part = self.drawn_region(rows, columns, index)
        _, read = self.tiles.row_progress(part)
        return float((read >= part.blocks[0]).mean()) if len(read) else 1.0

    def drawn_row_share(self, rows: int, columns: int, index: Index = ()) -> float:
        """Return the share of the drawn rows that are at least partly computed."""
        is_begun, _ = self.tiles.row_progress(self.drawn_region(rows, columns, index))
        return float(is_begun.mean()) if len(is_begun) else 1.0

    def rows_per_sample(self, rows: int, columns: int, index: Index = ()) -> int:
        """Return how many rows of the tensor one computed row represents."""
        part = self.drawn_region(rows, columns, index)
        is_begun, _ = self.tiles.row_progress(part)
        found = [round(rows / float(is_begun.mean()))] if is_begun.any() else []
        if part.place in self.tiles.previews:
            found.append(max(rows, PreviewLayout.from_matrix_sizes(self._shape).blocks[0]))
        return min(found, default=rows)

    # ------------------------------------------------------------------ drawing

    def draw_coarse_rows(
        self, rows: int, columns: int, index: Index = (), most_cells: int | None = None
    ) -> bool:
        """Compute one row in each block without a computed row; return whether any was computed.

        If this would exceed ``most_cells``, compute evenly spaced rows, or only the preview.
        """
        part = self.drawn_region(rows, columns, index)
        is_begun, _ = self.tiles.row_progress(part)
        block, first = part.blocks[0], part.rows.start
        unknown = np.flatnonzero(~is_begun) + first
        if most_cells is not None and not self._source.is_in_memory:
            if self._source.starts_with_preview and self._ensure_preview(part):
                return True
            step = -(-len(unknown) * max(self._shape[-2:]) // most_cells)  # a row reads all keys
            is_part = len(is_begun) < math.ceil(self._shape[-2] / block)
            if self._source.starts_with_preview and is_part and not is_begun.any():
                step = max(step, len(unknown) // FIRST_ROWS)
            step = max(1, min(step, len(unknown)))
            unknown = unknown[step // 2 :: step]
        for start in range(0, len(unknown), BAND_ROWS // 2):
            few = unknown[start : start + BAND_ROWS // 2]
            self._draw_rows(part, np.minimum(few * block + block // 2, self._shape[-2] - 1))
            if block == 1:
                self.tiles.record_read_rows(part, few, 1)
        return len(unknown) > 0

    def _ensure_preview(self, part: DrawnRegion) -> bool:
        """Compute the preview of a matrix if nothing is drawn yet and the preview is coarser.

        Return whether it was computed.
        """
        first, place = PreviewLayout.from_matrix_sizes(self._shape), part.place
        if self.tiles.is_drawn(place) or first.blocks[0] <= part.blocks[0]:
            return False
        high, low = self._preview_extremes(place, first)
        self._record_extremes(place, first.rows, high, low)
        self.tiles.store_preview(place, _largest_magnitudes(high, low))
        return True

    def _preview_extremes(self, place: LeadingIndices, first: PreviewLayout) -> BlockExtremes:
        rows, columns = torch.from_numpy(first.rows), range(first.sizes[1])
        return self._source.column_extremes(place, rows, columns, first.blocks[1])

    def draw_exact_rows(
        self, rows: int, columns: int, index: Index, is_over: Callable[[], bool]
    ) -> bool:
        """Compute rows until all cells are exact or ``is_over()``; return whether all are exact.

        ``is_over`` is called after each band of rows.
        """
        part = self.drawn_region(rows, columns, index)
        block, size = part.blocks[0], self._shape[-2]
        _, read = self.tiles.row_progress(part)
        waiting = np.flatnonzero(read < block) + part.rows.start
        band = max(1, min(BAND_ROWS, MAX_DRAWN_BAND_CELLS // self._shape[-1]))
        several = max(1, band // block)
        for at in range(0, len(waiting), several):
            few = waiting[at : at + several]
            for start in range(int(read[few - part.rows.start].min()), block, band):
                stop = min(start + band, block)
                read_now = (few[:, None] * block + np.arange(start, stop)).ravel()
                read_now = read_now[read_now < size]
                if len(read_now):
                    self._draw_rows(part, read_now)
                self.tiles.record_read_rows(part, few, stop)
                if is_over():
                    return stop == block and at + several >= len(waiting)
        return True

    def _draw_rows(self, part: DrawnRegion, rows: np.ndarray) -> None:
        """Compute rows, in ascending order, and merge them into the tiles of a region."""
        columns = part.whole_tile_columns(self._shape[-1])
        high, low = self._source.column_extremes(
            part.place, torch.from_numpy(rows), columns, part.blocks[1]
        )
        self._record_extremes(part.place, rows, high, low)
        lows = None if low is None else _to_array(low)
        self.tiles.store_rows(part, rows, _to_array(high), lows)

    def _record_extremes(
        self, place: LeadingIndices, rows: np.ndarray, high: Tensor, low: Tensor | None
    ) -> None:
        least = high if low is None else low
        largest = self._source.row_maxima(place, torch.from_numpy(rows))
        if largest is None:
            largest = torch.maximum(high.amax(-1), -least.amin(-1)).abs()
        known = self._row_magnitudes.setdefault(place, np.zeros(self._shape[-2], np.float32))
        found = np.nan_to_num(_to_array(largest), nan=0, posinf=0, neginf=0)
        known[rows] = np.maximum(known[rows], found)
        ends = [float(high.amax()), float(least.amin())]
        if not all(map(math.isfinite, ends)):  # checking each number takes longer
            finite_high, finite_low = high[high.isfinite()], least[least.isfinite()]
            if not finite_high.numel():
                return
            lowest = finite_low if finite_low.numel() else finite_high  # none is negative
            ends = [float(finite_high.max()), float(lowest.min())]
        self._high, self._low = max(self._high, ends[0]), min(self._low, ends[1])

    def rows_represented(self, rows: int, columns: int, index: tuple[int, ...]) -> range:
        """Return the rows that a pooled row represents so far: all of its rows, or a single row."""
        *place, row = index
        return self.tiles.rows_represented(tuple(place), (rows, columns), row)


def row_lengths(vectors: CachedTensor) -> Callable[[LeadingIndices], Tensor]:
    """Return a function that computes the norms of the vectors at a leading index, [row]."""

    @cache
    def found(place: LeadingIndices) -> Tensor:
        if isinstance(vectors, BlockwiseTensor):
            rows = vectors.compute_matrix(place)
        else:
            rows = vectors.tensor.detach()[place]
        lengths: Tensor = rows.norm(dim=-1)
        return lengths

    return found


def _index_without_integer_axes(index: Index) -> Index:
    """Return an index that removes the axes indexed by a number and keeps those with a slice."""
    return tuple(slice(None) if isinstance(at, slice) else 0 for at in index)


def _copy_with_separate_tiles(kept: Any) -> Any:
    """Return a copy of a derived tensor, or of a mapping of such tensors, with separate tiles."""
    if isinstance(kept, BlockwiseTensor):
        return kept.with_separate_tiles()
    if isinstance(kept, WeakKeyDictionary):
        return WeakKeyDictionary(
            {values: _copy_with_separate_tiles(made) for values, made in [*kept.items()]}
        )
    return kept


def split_columns(columns: range, step: int) -> Iterator[slice]:
    """Split columns into slices that start at multiples of the step."""
    if not columns:
        return
    start = columns.start // step * step
    for at in range(start, columns.stop, step):
        yield slice(max(at, columns.start), min(at + step, columns.stop))


def chunk_size(block: int, rows: int) -> int:
    """Return the number of columns to compute together, which is a multiple of the block size.

    Few rows are computed in wide chunks, because the calls of many narrow chunks would take most of
    the time: a context vector of 100,000 keys takes 2.3 ms instead of 8.4 ms.
    """
    columns = CHUNK_COLUMNS * max(1, BAND_ROWS // max(1, rows))
    return block * max(1, columns // block)


def iterate_column_chunks(
    columns: range, readable: range, block: int, rows: int
) -> Iterator[tuple[slice, slice]]:
    """Yield the columns chunk by chunk, with the indices of the blocks in each chunk."""
    start = max(columns.start, readable.start // block * block)
    stop = min(columns.stop, -(-readable.stop // block) * block)
    first = columns.start // block
    for keys in split_columns(range(start, stop), chunk_size(block, rows)):
        yield keys, slice(keys.start // block - first, -(-keys.stop // block) - first)


def block_extremes(cells: Tensor, block: int, end: str) -> Tensor:
    """Return the largest (amax) or smallest (amin) number of each block of columns.

    This is many times faster if the columns, rather than the rows, are contiguous in memory.
    """
    if block == 1:
        return cells.clone()
    columns = cells.mT
    whole = len(columns) // block * block
    ends: Tensor = getattr(columns[:whole].reshape(-1, block, len(cells)), end)(1)
    if whole < len(columns):
        ends = torch.cat([ends, getattr(columns[whole:], end)(0, keepdim=True)])
    return ends.mT


def _largest_magnitudes(high: Tensor, low: Tensor | None) -> np.ndarray:
    return largest_magnitude(_to_array(high), None if low is None else _to_array(low))


def _to_array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def _numpy_type(dtype: torch.dtype) -> np.dtype:
    return np.dtype(np.float64 if dtype is torch.float64 else np.float32)
