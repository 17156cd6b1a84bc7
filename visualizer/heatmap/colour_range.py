"""The automatic range of a colour scale, with the same rule for all images of the same numbers.

All heads of a layer share a range. The largest number would be a poor end: under a causal mask,
the first weight is always 1, and a few outliers would leave all other cells with the same colour.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.cached_tensor import evenly_spaced_rows
from visualizer.attention.masks import MaskingSpec
from visualizer.format import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.trace import LeadingIndex, Trace

WEIGHT_ENDS = (0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
"""Possible ends of the range of weights."""
MAX_EXCEEDING_SHARE = 0.1
"""Maximum share of all allowed weights that exceed the end."""
MANY_KEYS = 4
"""Minimum number of allowed keys at which the weights of a query are not large by necessity."""
MAX_EXCEEDING_SHARE_OF_MANY = 0.02
"""Maximum share of the weights of queries with many allowed keys that exceed the end."""
PERCENTILE = 98
"""Percentile of the magnitudes that is the end of the range for numbers other than weights."""
MAX_SAMPLED_CELLS = 2**18
"""Maximum number of cells of a layer that are counted; larger layers are sampled by rows."""
MAX_COMPUTED_CELLS = 2**22
"""Maximum number of scores of a layer that are computed to sample a stage block by block.

Each row needs the scores of all keys: without this limit, the sample of the context vectors of
100,000 tokens in 4 heads of size 8 took two minutes."""
MIN_SAMPLED_ROWS = 24
"""Minimum number of rows of each matrix that are counted."""
SHARE_ROUNDING_TOLERANCE = 1e-3
"""Maximum relative amount by which rounding to 16 bits may raise a share of 1 above 1."""


class ColourRangeSample(Struct, frozen=True, eq=False):
    """The cells that determine a range.

    Parameters
    ----------
    sizes : numpy.ndarray
        Magnitudes of the finite numbers in allowed cells, [cell].
    has_many_keys : numpy.ndarray
        Boolean array [cell]: whether the query of the cell may attend to at least `MANY_KEYS` keys.
    largest : float
        The largest known magnitude; it may belong to a row that is not in the sample.
    """

    sizes: np.ndarray
    has_many_keys: np.ndarray
    largest: float


class AutomaticColourRange(Struct, frozen=True):
    """The magnitude at the end of a scale, and whether any number exceeds it."""

    end: float
    is_exceeded: bool

    def __str__(self) -> str:
        """Format the end, followed by a plus sign if any number exceeds it."""
        end = f"{self.end:g}" if self.end in WEIGHT_ENDS else format_number(self.end, 2)
        return end + "+" * self.is_exceeded


def find_cached_range(
    shown: Sequence[tuple[Trace | None, CachedTensor]],
    leadings: Sequence[LeadingIndex],
    stage: str = "",
    is_share: bool = False,
    smallest: float = 0.0,
) -> AutomaticColourRange:
    """Return the common range of tensors, and cache it with the first of them.

    Parameters
    ----------
    shown : sequence of (Trace, CachedTensor)
        The tensors, each with its trace.
    leadings : sequence of tuple of int
        The layers and texts that share the range.
    stage : str, optional
        The stage of weights with the mask that determines which cells count; by default, all cells
        count.
    is_share, smallest : bool and float
        As for `find_range_of_samples`.
    """
    samples = tuple(
        _sample_tensor(tensor, leading, trace if stage else None, stage)
        for trace, tensor in shown
        for leading in leadings
    )
    key = ("automatic range", samples, is_share, smallest)
    found: AutomaticColourRange = shown[0][1].cached_result(
        key, lambda: find_range_of_samples(samples, is_share, smallest)
    )
    return found


def find_range_of_samples(
    samples: Sequence[ColourRangeSample], is_share: bool = False, smallest: float = 0.0
) -> AutomaticColourRange:
    """Return the common range of all samples.

    For weights, the range ends at the smallest of `WEIGHT_ENDS` that at most 10 % of all allowed
    weights exceed, and at most 2 % of the weights of queries with at least 4 allowed keys. For
    other numbers, and if too many weights exceed 1, it ends at the 98th percentile of the
    magnitudes, or at the largest magnitude if that percentile is 0.

    Parameters
    ----------
    is_share : bool
        Whether the numbers are weights, which are shares of a row.
    smallest : float
        Only magnitudes above this number count, unless it is 0.
    """
    sizes = np.concatenate([sample.sizes for sample in samples])
    largest = max(sample.largest for sample in samples)
    ends: Iterable[float] = ()
    if is_share:
        has_many_keys = np.concatenate([sample.has_many_keys for sample in samples])
        ends = (end for end in WEIGHT_ENDS if _is_rarely_exceeded(sizes, has_many_keys, end))
    elif smallest:
        sizes = sizes[sizes > smallest]
    end = next(iter(ends), 0.0)
    if not end and sizes.size:
        end = float(np.percentile(sizes, PERCENTILE))
    end = end or largest or 1.0
    return AutomaticColourRange(end, largest > end_with_tolerance(end))


def _is_rarely_exceeded(sizes: np.ndarray, has_many_keys: np.ndarray, end: float) -> bool:
    beyond = sizes > sizes.dtype.type(end_with_tolerance(end))  # both sides are rounded alike
    of_many = np.count_nonzero(beyond & has_many_keys)
    return bool(
        np.count_nonzero(beyond) <= MAX_EXCEEDING_SHARE * len(sizes)
        and of_many <= MAX_EXCEEDING_SHARE_OF_MANY * np.count_nonzero(has_many_keys)
    )


def end_with_tolerance(end: float) -> float:
    """Return the largest number that does not exceed an end; for an end of 1, allow rounding."""
    return end * (1 + SHARE_ROUNDING_TOLERANCE) if end == WEIGHT_ENDS[-1] else end


def _sample_tensor(
    tensor: CachedTensor, leading: LeadingIndex, trace: Trace | None, stage: str
) -> ColourRangeSample:
    """Sample all heads of a tensor in one layer and text.

    A layer with more than `MAX_SAMPLED_CELLS` is estimated from evenly spaced rows, whether its
    matrices are stored or computed block by block. For a long text on a model server, the range is
    estimated from the rows of the coarse preview, in which a block of columns counts as its largest
    magnitude. Neither estimate depends on the drawn part, so colours do not change during drawing.
    """
    masking = (MaskingSpec.from_spec(trace.spec_at(leading), stage), trace.cut) if trace else None

    def sample() -> ColourRangeSample:
        heads = tensor.shape[len(leading) : -2]
        most_rows = _max_sampled_rows(math.prod(heads), tensor.shape[-1])
        if tensor.is_blockwise:  # even a short row is computed from all keys
            computable = MAX_COMPUTED_CELLS // max(1, math.prod(heads) * tensor.shape[-2])
            most_rows = min(most_rows, max(MIN_SAMPLED_ROWS, computable))
        has_own_cells = tensor.is_blockwise or (trace is not None and trace.cut)
        found = []
        for head in np.ndindex(heads) if has_own_cells else [()]:
            rows, block, values = tensor.sample_evenly_spaced_rows((*leading, *head), most_rows)
            at = head[0] if head else None
            allowed = trace.allowed_mask(stage, leading, at, rows) if trace else None
            is_part = len(rows) < tensor.shape[-2] and not tensor.is_blockwise
            largest = tensor.row_magnitudes((*leading, *head)).max() if is_part else 0.0
            found.append(sample_cells(values, allowed, block, float(largest)))
        return join_samples(found)

    made: ColourRangeSample = tensor.cached_result(("range sample", leading, masking), sample)
    return made


def sample_layer_weights(weights: np.ndarray, allowed: np.ndarray) -> ColourRangeSample:
    """Sample the weights of a layer, [head, query, key], in the same rows as for a tensor.

    Parameters
    ----------
    allowed : numpy.ndarray
        Boolean array [query, key]: which cells the mask allows.
    """
    rows = evenly_spaced_rows(len(allowed), _max_sampled_rows(len(weights), len(allowed)))
    found = sample_cells(weights[:, rows], allowed[rows])
    return replace(found, largest=max(found.largest, float(np.nan_to_num(weights).max(initial=0))))


def _max_sampled_rows(matrices: int, columns: int) -> int:
    """Return the maximum number of rows that are sampled per matrix of a layer."""
    return max(MIN_SAMPLED_ROWS, MAX_SAMPLED_CELLS // max(1, matrices * columns))


def sample_cells(
    values: np.ndarray, allowed: np.ndarray | None = None, block: int = 1, largest: float = 0.0
) -> ColourRangeSample:
    """Sample rows of one or more matrices with the same mask.

    Parameters
    ----------
    values : numpy.ndarray
        Numbers [..., row, block of columns].
    allowed : numpy.ndarray, optional
        Boolean array [row, column]: which cells the mask allows; by default, all cells.
    block : int
        Number of columns in a block.
    largest : float
        A known largest magnitude of rows that are not sampled.
    """
    counts = np.isfinite(values)
    has_many_keys = np.full(values.shape, allowed is None and values.shape[-1] >= MANY_KEYS)
    if allowed is not None:
        has_many_keys |= allowed.sum(axis=-1, keepdims=True) >= MANY_KEYS
        starts = np.arange(0, allowed.shape[-1], block)
        counts &= allowed if block == 1 else np.logical_or.reduceat(allowed, starts, axis=-1)
    sizes = np.abs(values[counts])
    return ColourRangeSample(
        sizes, has_many_keys[counts], max(largest, float(sizes.max(initial=0)))
    )


def join_samples(samples: Sequence[ColourRangeSample]) -> ColourRangeSample:
    """Join the samples of the matrices of a layer."""
    return ColourRangeSample(
        np.concatenate([sample.sizes for sample in samples]),
        np.concatenate([sample.has_many_keys for sample in samples]),
        max(sample.largest for sample in samples),
    )
