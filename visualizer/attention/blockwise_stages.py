"""Query–key stages of a long text, computed in blocks so that no matrix is ever held in full.

The stages before the scores are held in memory. For each row that has been read, the divisor of its
weights is also kept or, for the softmax, the logarithm of the divisor. When a weight is read, it is
recomputed as

    w = exp(s − l),   l = log Σ exp(s) over the keys of the row.

Sources: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax" (2); Rabe and
Staats 2021, "Self-attention Does Not Need O(n²) Memory".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec.structs import replace

from visualizer.attention import masks
from visualizer.attention.blockwise_tensor import (
    BlockExtremes,
    BlockSource,
    BlockwiseTensor,
    block_extremes,
    chunk_size,
    iterate_column_chunks,
    split_columns,
)
from visualizer.attention.layer_operations import ScoreCap
from visualizer.attention.masks import (
    MASKED_STAGES,
    MaskingSpec,
    allowed_cells,
    allowed_key_range,
    are_all_keys_allowed,
    are_pairs_allowed,
)
from visualizer.attention.spec import NormalisationKind
from visualizer.attention.stage_computation import (
    CELLWISE,
    CellIndices,
    StageInputs,
    compute_stage,
    divide_by_normalizer,
)
from visualizer.attention.stages import Operation, Stage, shape, stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from torch import Tensor

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.drawn_tiles import LeadingIndices
    from visualizer.attention.spec import AttentionSpec


MAX_CACHED_CONTEXT_ROWS = 64
"""Maximum number of cached rows of context vectors."""

PAIRS_PER_BLOCK = 512
"""Number of query–key pairs per block; the scores of a block are computed together."""


class _RowStatistics:
    """Divisor and largest weight of each row of a matrix, as far as they are known."""

    def __init__(self, rows: int, dtype: torch.dtype) -> None:
        self.values = torch.zeros(rows, dtype=dtype)
        self.largest = torch.zeros(rows, dtype=dtype)
        self.is_known = torch.zeros(rows, dtype=torch.bool)

    def store(self, rows: Tensor, values: Tensor, largest: Tensor) -> None:
        self.values[rows], self.largest[rows] = values, largest
        self.is_known[rows] = True


class BlockCalculator(ABC):
    """Computes blocks of query–key stages from blocks of their input stages.

    Parameters
    ----------
    rows : iterable of Stage
        All computed stages and their inputs.
    """

    def __init__(self, spec: AttentionSpec, dtype: torch.dtype, rows: Iterable[Stage]) -> None:
        self.spec, self.dtype = spec, dtype
        self.rows = {row.name: row for row in rows}
        self._known: dict[tuple[str, LeadingIndices], _RowStatistics] = {}
        self._contexts: dict[tuple[str, LeadingIndices, int] | None, Tensor] = {}
        """Recently computed single rows, because explaining a cell reads a row several times."""

    # ------------------------------------------------------------------ inputs

    @property
    @abstractmethod
    def leading_sizes(self) -> tuple[int, ...]:
        """Sizes of the axes that precede the heads."""

    @abstractmethod
    def query_key_counts(self) -> tuple[int, int]:
        """Return the numbers of queries and keys."""

    @abstractmethod
    def read_head_vectors(self, name: str, place: LeadingIndices) -> Tensor:
        """Return the queries, keys or values of a head, [token, d]; do not modify them."""

    def text_index(self, place: LeadingIndices) -> int:
        """Return the index, in the batch, of the text that a matrix belongs to."""
        return 0

    def spec_at(self, place: LeadingIndices) -> AttentionSpec:
        """Return the spec with the mask that applies to a matrix."""
        return self.spec

    def sink_logit(self, place: LeadingIndices) -> Tensor | None:
        """Return the sink logit in a head's softmax, or None if the head has no sink."""
        return None

    def row_log_sum_exp(self, place: LeadingIndices) -> Tensor | None:
        """Return the log-sum-exp of each row [query], or None if it is not known in advance."""
        return None

    def compute_vectors(self, row: Stage, leading: LeadingIndices, rows: Tensor) -> Tensor:
        """Compute rows of a stage of vectors, [query, d] or [head, query, d]."""
        heads = range(self.spec.heads)
        return torch.stack([self.compute_context(row, (*leading, head), rows) for head in heads])

    def stage_tensor(self, row: Stage) -> BlockwiseTensor:
        """Return the tensor of a stage, which is computed when read."""
        sizes = (*self.leading_sizes, *shape(self.spec, row.dims, self.query_key_counts()[0]))
        return BlockwiseTensor(sizes, self.create_source(row))

    def create_source(self, row: Stage) -> BlockSource:
        """Return the source that computes blocks of a stage."""
        if row.dims[-1] != "key":
            return _VectorSource(self, row)
        kind = _SoftmaxSource if _is_softmax(self, row) else _QueryKeySource
        return kind(self, row)

    # ------------------------------------------------------------------ query–key cells

    def compute_cells(self, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice) -> Tensor:
        """Compute a block of a stage, [query, key]; the caller may modify the result."""
        if cellwise := CELLWISE.get(row.operation):
            found = [self.compute_cells(self.rows[name], place, rows, keys) for name in row.reads]
            columns = torch.arange(*keys.indices(self.query_key_counts()[1]))
            return cellwise(self._cell_indices(place, rows[:, None], columns), *found)
        return _CELLS[row.operation](self, row, place, rows, keys)

    def _cell_indices(self, place: LeadingIndices, queries: Tensor, keys: Tensor) -> CellIndices:
        return CellIndices(self.spec, self.dtype, torch.tensor(place[-1]), queries, keys)

    def compute_input_cells(
        self, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
    ) -> Tensor:
        """Compute a block of the first input of a stage."""
        return self.compute_cells(self.rows[row.reads[0]], place, rows, keys)

    def allowed_mask(self, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice) -> Tensor:
        masking = MaskingSpec.from_spec(self.spec_at(place), row.name)
        return torch.from_numpy(
            allowed_cells(
                masking, self.query_key_counts(), self.text_index(place), rows.numpy(), keys
            )
        )

    def values_at_keys(
        self, row: Stage, place: LeadingIndices, rows: Tensor, keys: Tensor
    ) -> Tensor:
        """Compute one number in each given row of the softmax weights or of a stage before them."""
        if row.operation is Operation.DOT_PRODUCT:
            queries, others = (self.read_head_vectors(name, place) for name in row.reads)
            # Process a few rows at a time, so that they stay in the processor cache.
            parts = [slice(at, at + PAIRS_PER_BLOCK) for at in range(0, len(rows), PAIRS_PER_BLOCK)]
            return torch.cat([(queries[rows[at]] * others[keys[at]]).sum(-1) for at in parts])
        if cellwise := CELLWISE.get(row.operation):
            found = [self.values_at_keys(self.rows[name], place, rows, keys) for name in row.reads]
            return cellwise(self._cell_indices(place, rows, keys), *found)
        read = self.values_at_keys(self.rows[row.reads[0]], place, rows, keys)
        if row.operation is Operation.MASK_BEFORE_SOFTMAX:
            masking = MaskingSpec.from_spec(self.spec_at(place), row.name)
            sides, text = self.query_key_counts(), self.text_index(place)
            allowed = are_pairs_allowed(masking, sides, text, rows.numpy(), keys.numpy())
            return read.masked_fill_(~torch.from_numpy(allowed), -math.inf)
        if row.operation is Operation.SCALE_SCORES:
            return read.div_(self.spec.divisor)
        if isinstance(row.step, ScoreCap):
            return _apply_softcap(read, row.step)
        assert _is_softmax(self, row)
        return (read - self.row_divisors(row, place, rows)).exp_().to(self.dtype)

    def is_known_unmasked(
        self, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
    ) -> bool:
        """Return whether the mask is known to allow all cells of a block, without computing it."""
        masking = MaskingSpec.from_spec(self.spec_at(place), row.name)
        first, last = int(rows.min()), int(rows.max())
        span = range(*keys.indices(self.query_key_counts()[1]))
        return are_all_keys_allowed(
            masking, self.query_key_counts(), self.text_index(place), (first, last), span
        )

    def rows_with_allowed_keys(self, row: Stage, place: LeadingIndices, rows: Tensor) -> Tensor:
        """Return which queries have allowed keys, as a boolean tensor [query, 1]."""
        keys = slice(0, self.query_key_counts()[1])
        return self.allowed_mask(row, place, rows, keys).any(-1, keepdim=True)

    def keys_to_compute(self, row: Stage, place: LeadingIndices, rows: Tensor) -> range:
        """Return a range of keys outside which all weights are 0, or all masked scores are −∞."""
        if row.role not in MASKED_STAGES or row.is_before_mask:
            return range(self.query_key_counts()[1])
        masking = MaskingSpec.from_spec(self.spec_at(place), row.name)
        first, last = int(rows.min()), int(rows.max())
        return allowed_key_range(
            masking, self.query_key_counts()[1], self.text_index(place), first, last
        )

    def has_undefined_weights(self, row: Stage, place: LeadingIndices, rows: Tensor) -> bool:
        """Return whether forbidden weights are NaN because their rows were divided by NaN."""
        renormalised = next((
            one for one in self.rows.values()
            if one.operation is Operation.RENORMALISE_MASKED_WEIGHTS
        ), None)  # fmt: skip
        if renormalised is None or self.spec.normalisation is not NormalisationKind.SUM:
            return False
        names = [*self.rows]
        is_before = names.index(row.name) < names.index(renormalised.name)
        return not is_before and bool(self.row_divisors(renormalised, place, rows).isnan().any())

    def row_divisors(self, row: Stage, place: LeadingIndices, rows: Tensor) -> Tensor:
        """Return the divisor of each row of weights or, for the softmax, its logarithm."""
        given = self.row_log_sum_exp(place) if _is_softmax(self, row) else None
        if given is not None:
            return given[rows]
        known = self.row_statistics(row, place)
        unknown = rows[~known.is_known[rows]]
        if len(unknown):
            self.compute_divisors(row, place, unknown)
        return known.values[rows]

    def row_statistics(self, row: Stage, place: LeadingIndices) -> _RowStatistics:
        key = (row.name, place)
        if key not in self._known:
            wide = torch.float64 if self.dtype is torch.float64 else torch.float32
            # Another thread may create them at the same time; all threads use those stored first.
            self._known.setdefault(key, _RowStatistics(self.query_key_counts()[0], wide))
        return self._known[key]

    def compute_divisors(self, row: Stage, place: LeadingIndices, rows: Tensor) -> None:
        if _is_softmax(self, row):
            for _ in _iterate_score_maxima(self, row, place, rows, 1):
                pass
            return
        total = torch.zeros(len(rows), dtype=self.row_statistics(row, place).values.dtype)
        for keys in split_columns(self.keys_to_compute(row, place, rows), chunk_size(1, len(rows))):
            if row.operation is Operation.EQUAL_WEIGHTS:
                total += self.allowed_mask(row, place, rows, keys).sum(-1)
            else:
                read = self.compute_input_cells(row, place, rows, keys)
                total += (read.exp_() if _is_naive_softmax(self, row) else read).sum(-1)
        self.row_statistics(row, place).store(rows, total, total)

    def compute_context(self, row: Stage, place: LeadingIndices, rows: Tensor) -> Tensor:
        """Compute rows of one head's context vectors, [query, d_head]."""
        known = (row.name, place, int(rows[0])) if len(rows) == 1 else None
        if known in self._contexts:
            return self._contexts[known].clone()
        weights, values = (self.rows[name] for name in row.reads)
        vectors = self.read_head_vectors(values.name, place)
        found = vectors.new_zeros((len(rows), vectors.shape[-1]))
        for keys in split_columns(
            self.keys_to_compute(weights, place, rows), chunk_size(1, len(rows))
        ):
            found += self.compute_cells(weights, place, rows, keys) @ vectors[keys]
        if known is not None:
            self._contexts = dict([*self._contexts.items()][1 - MAX_CACHED_CONTEXT_ROWS :])
            self._contexts[known] = found.clone()
        return found


class ModuleBlockCalculator(BlockCalculator):
    """Computes blocks of a module's scores and later stages.

    Parameters
    ----------
    held : mapping
        Stages that are held in full: all stages before the scores.
    """

    def __init__(self, work: StageInputs, held: Mapping[str, CachedTensor]) -> None:
        super().__init__(work.spec, work.given.dtype, stages(work.spec))
        self.work, self.held = work, dict(held)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle the inputs, without cached results."""
        return ModuleBlockCalculator, (replace(self.work, pool=None), self.held)

    @property
    def leading_sizes(self) -> tuple[int, ...]:
        return tuple(self.work.given.shape[:-2])

    def query_key_counts(self) -> tuple[int, int]:
        return self.work.token_count, self.work.token_count

    def read_head_vectors(self, name: str, place: LeadingIndices) -> Tensor:
        found: Tensor = self.held[name].tensor.detach()[place]
        return found

    def text_index(self, place: LeadingIndices) -> int:
        return place[0] if self.work.given.ndim > 2 else 0

    def compute_vectors(self, row: Stage, leading: LeadingIndices, rows: Tensor) -> Tensor:
        """Compute rows of a stage of vectors, [query, d] or [head, query, d]."""
        if row.name in self.held:
            whole: Tensor = self.held[row.name].tensor.detach()[leading]
            return whole[..., rows, :]
        if row.operation is Operation.WEIGHTED_SUM:
            return super().compute_vectors(row, leading, rows)
        read = [self.compute_vectors(self.rows[name], leading, rows) for name in row.reads]
        return compute_stage(self.work, row, read)


def _is_softmax(blocks: BlockCalculator, row: Stage) -> bool:
    is_usual = blocks.spec.normalisation is NormalisationKind.SOFTMAX
    is_whole = row.operation is Operation.SCORES_TO_WEIGHTS and is_usual
    return is_whole or row.operation is Operation.SOFTMAX_WITH_SINK


def _is_naive_softmax(blocks: BlockCalculator, row: Stage) -> bool:
    is_naive = blocks.spec.normalisation is NormalisationKind.NAIVE_SOFTMAX
    return row.operation is Operation.SCORES_TO_WEIGHTS and is_naive


def _iterate_score_maxima(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, block: int
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the block maxima of the given rows' scores, and store the rows' log-sum-exp.

    The scores are computed once, one chunk of keys at a time.

    Yields
    ------
    tuple of slice and Tensor
        Keys, and the largest score of each block of keys, [query, block].
    """
    read = blocks.rows[row.reads[0]]
    numbers = blocks.row_statistics(row, place)
    wide = numbers.values.dtype
    most = torch.full((len(rows),), -math.inf, dtype=wide)
    total = torch.zeros(len(rows), dtype=wide)
    readable = blocks.keys_to_compute(read, place, rows)
    for keys in split_columns(
        range(readable.start // block * block, readable.stop), chunk_size(block, len(rows))
    ):
        scores = blocks.compute_cells(read, place, rows, keys).to(wide)
        ends = block_extremes(scores, block, "amax")
        yield keys, ends
        higher = torch.maximum(most, ends.amax(-1))
        level = higher.masked_fill(higher == -math.inf, 0)
        total = total * (most - level).exp() + scores.sub_(level[:, None]).exp_().sum(-1)
        most = higher
    is_empty = most == -math.inf
    logarithms = total.log() + most.masked_fill(is_empty, 0)
    if (sink := blocks.sink_logit(place)) is not None:
        logarithms = torch.logaddexp(logarithms, sink.to(wide))
    # If all keys are forbidden, every weight is exp(−∞ − ∞) = 0.
    logarithms.masked_fill_(is_empty, math.inf)
    largest = (most - logarithms).exp().masked_fill_(is_empty, 0)
    numbers.store(rows, logarithms, largest)


# ---------------------------------------------------------------------- operations


def _dot_product(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    return _compute_products(blocks, row, place, rows, keys, 1.0)


def _compute_products(
    blocks: BlockCalculator,
    row: Stage,
    place: LeadingIndices,
    rows: Tensor,
    keys: slice,
    divisor: float,
) -> Tensor:
    """Compute scores, applying the divisor to the queries because these have fewer numbers."""
    queries, others = (blocks.read_head_vectors(name, place) for name in row.reads)
    few = queries[rows] if divisor == 1 else queries[rows].div_(divisor)
    return (others[keys] @ few.mT).mT  # contiguous keys; see `block_extremes`


def _scale_scores(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    read = blocks.rows[row.reads[0]]
    if read.operation is Operation.DOT_PRODUCT:
        return _compute_products(blocks, read, place, rows, keys, blocks.spec.divisor)
    return blocks.compute_input_cells(row, place, rows, keys).div_(blocks.spec.divisor)


def _cap_scores(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    assert isinstance(row.step, ScoreCap)
    return _apply_softcap(blocks.compute_input_cells(row, place, rows, keys), row.step)


def _apply_softcap(scores: Tensor, cap: ScoreCap) -> Tensor:
    return scores.div_(cap.limit).tanh_().mul_(cap.limit)


def _mask_cells(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    value = -math.inf if row.operation is Operation.MASK_BEFORE_SOFTMAX else 0
    read = blocks.compute_input_cells(row, place, rows, keys)
    if blocks.is_known_unmasked(row, place, rows, keys):
        return read
    return read.masked_fill_(~blocks.allowed_mask(row, place, rows, keys), value)


def _normalise_rows(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    divisor = blocks.row_divisors(row, place, rows)[:, None]
    read = blocks.compute_input_cells(row, place, rows, keys)
    if _is_softmax(blocks, row):
        weights = read.to(divisor.dtype).sub_(divisor).exp_()
    elif _is_naive_softmax(blocks, row):
        weights = read.exp_().div_(divisor)
        if row.has_masked_input:
            weights.masked_fill_(~blocks.rows_with_allowed_keys(row, place, rows), 0)
    else:
        weights = read.div_(divisor)
    return weights.to(blocks.dtype)


def _average_allowed(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    counts = blocks.row_divisors(row, place, rows).clamp(min=1)[:, None]
    return (blocks.allowed_mask(row, place, rows, keys).to(counts.dtype) / counts).to(blocks.dtype)


def _renormalise_rows(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    sums = blocks.row_divisors(row, place, rows)[:, None]
    read = blocks.compute_input_cells(row, place, rows, keys)
    # A row of zeros stays zero.
    return (read / sums.masked_fill(sums == 0, 1)).to(blocks.dtype)


def _apply_dropout(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    spec = blocks.spec
    weights = blocks.compute_input_cells(row, place, rows, keys).div_(1 - spec.dropout)
    columns = range(*keys.indices(blocks.query_key_counts()[1]))
    return weights.masked_fill_(
        ~torch.from_numpy(_dropout_keep_mask(blocks, place, rows, columns)), 0
    )


def _compute_implied_weights(
    blocks: BlockCalculator, row: Stage, place: LeadingIndices, rows: Tensor, keys: slice
) -> Tensor:
    queries, others, normalizer = (blocks.read_head_vectors(name, place) for name in row.reads)
    weights = divide_by_normalizer((others[keys] @ queries[rows].mT).mT, normalizer[rows])
    if blocks.is_known_unmasked(row, place, rows, keys):
        return weights
    return weights.masked_fill_(~blocks.allowed_mask(row, place, rows, keys), 0)


def _dropout_keep_mask(
    blocks: BlockCalculator, place: LeadingIndices, rows: Tensor, keys: range
) -> np.ndarray:
    spec, (queries, count) = blocks.spec, blocks.query_key_counts()
    if spec.own_kept is not None:
        own: np.ndarray = spec.own_kept.to_array()[rows.numpy()][:, keys.start : keys.stop]
        return own
    matrix = blocks.text_index(place) * spec.heads + place[-1]
    starts = ((matrix * queries + row) * count + keys.start for row in rows.tolist())
    return np.stack([
        masks.sample_dropout_keep_mask_range(spec.dropout, spec.dropout_seed, start, len(keys))
        for start in starts
    ])  # fmt: skip


_CELLS: dict[
    Operation, Callable[[BlockCalculator, Stage, LeadingIndices, Tensor, slice], Tensor]
] = {
    Operation.DOT_PRODUCT: _dot_product,
    Operation.SCALE_SCORES: _scale_scores,
    Operation.CAP_SCORES: _cap_scores,
    Operation.MASK_BEFORE_SOFTMAX: _mask_cells,
    Operation.SCORES_TO_WEIGHTS: _normalise_rows,
    Operation.SOFTMAX_WITH_SINK: _normalise_rows,
    Operation.EQUAL_WEIGHTS: _average_allowed,
    Operation.MASK_AFTER_SOFTMAX: _mask_cells,
    Operation.RENORMALISE_MASKED_WEIGHTS: _renormalise_rows,
    Operation.DROPOUT: _apply_dropout,
    Operation.IMPLIED_WEIGHTS: _compute_implied_weights,
}


# ---------------------------------------------------------------------- sources


class _StageBlockSource(BlockSource):
    """Base class for the sources of a stage's blocks."""

    def __init__(self, blocks: BlockCalculator, row: Stage) -> None:
        self.matrix_blocks, self.row = blocks, row

    def __reduce__(self) -> tuple[object, ...]:
        return _source_of_stage, (self.matrix_blocks, self.row.name)

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix_blocks.dtype


def _source_of_stage(blocks: BlockCalculator, name: str) -> BlockSource:
    return blocks.create_source(blocks.rows[name])


class _QueryKeySource(_StageBlockSource):
    """Source of a query–key stage."""

    def __init__(self, blocks: BlockCalculator, row: Stage) -> None:
        super().__init__(blocks, row)
        self.is_signed = not row.is_weights or blocks.spec.normalisation is NormalisationKind.SUM
        self.outside = 0.0 if row.is_weights else -math.inf

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        return self.matrix_blocks.compute_cells(self.row, place, rows, columns)

    def columns_to_compute(self, place: LeadingIndices, rows: Tensor, columns: range) -> range:
        found = self.matrix_blocks.keys_to_compute(self.row, place, rows)
        if self.matrix_blocks.has_undefined_weights(self.row, place, rows):
            return columns
        return range(max(columns.start, found.start), min(columns.stop, found.stop))


class _SoftmaxSource(_QueryKeySource):
    """Source of softmax weights, in which the largest scores have the largest weights."""

    def column_extremes(
        self, place: LeadingIndices, rows: Tensor, columns: range, block: int
    ) -> BlockExtremes:
        """Compute the largest score of each block, and then only the weights of these scores."""
        blocks, row = self.matrix_blocks, self.row
        numbers = blocks.row_statistics(row, place)
        count = math.ceil(len(columns) / block)
        high = torch.full((len(rows), count), -math.inf, dtype=numbers.values.dtype)
        is_whole = columns == range(blocks.query_key_counts()[1])
        if is_whole and not numbers.is_known[rows].all():
            for keys, ends in _iterate_score_maxima(blocks, row, place, rows, block):
                to = slice(keys.start // block, keys.start // block + ends.shape[1])
                high[:, to] = ends
        else:
            read = blocks.rows[row.reads[0]]
            readable = self.columns_to_compute(place, rows, columns)
            for keys, to in iterate_column_chunks(columns, readable, block, len(rows)):
                high[:, to] = block_extremes(
                    blocks.compute_cells(read, place, rows, keys), block, "amax"
                )
        divisor = blocks.row_divisors(row, place, rows)
        return high.sub_(divisor[:, None]).exp_().to(self.dtype), None

    @property
    def can_compute_single_values(self) -> bool:
        place = (0,) * (len(self.matrix_blocks.leading_sizes) + 1)
        return self.matrix_blocks.row_log_sum_exp(place) is not None

    def values_at_keys(self, place: LeadingIndices, rows: Tensor, keys: Tensor) -> Tensor:
        return self.matrix_blocks.values_at_keys(self.row, place, rows, keys)

    def row_maxima(self, place: LeadingIndices, rows: Tensor) -> Tensor | None:
        return self.matrix_blocks.row_statistics(self.row, place).largest[rows]


class _VectorSource(_StageBlockSource):
    """Source of a stage with one vector per query."""

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        if self.row.operation is Operation.WEIGHTED_SUM:
            return self.matrix_blocks.compute_context(self.row, place, rows)[:, columns]
        return self.matrix_blocks.compute_vectors(self.row, place, rows)[:, columns].clone()
