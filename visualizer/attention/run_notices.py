"""Notices about unexpected results of a computation: overflow, empty rows, unusual weights.

Query–key matrices may have billions of cells, so they are searched only if smaller tensors give a
reason to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from visualizer.attention.masks import MASKED_SCORES, allowed
from visualizer.attention.roles import Role
from visualizer.attention.spec import MaskKind, NormalisationKind
from visualizer.attention.stages import Operation

if TYPE_CHECKING:
    from torch import Tensor

    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace


def run_notices(trace: Trace) -> tuple[str, ...]:
    """Return one sentence for each unexpected property of a computed trace."""
    spec, notices = trace.spec, []
    if trace.is_blockwise:
        return (*_divisor_notices(trace), *_empty_row_notices(trace))
    if spec.normalisation is NormalisationKind.NAIVE_SOFTMAX and _has_nan_weights(trace):
        notices.append(
            f"The naive softmax overflowed: exp(score) is beyond the range of {spec.dtype}, or 0 "
            "for a whole row, so these rows are NaN. Use Softmax, which subtracts the maximum of "
            "each row first."
        )
    if spec.normalisation is NormalisationKind.SUM and _has_weights_outside_unit_range(trace):
        notices.append(
            "Dividing by the sum gave weights below 0 or above 1, because a row has positive and "
            "negative scores."
        )
    if spec.normalisation is NormalisationKind.SUM and _has_nonfinite_weights(trace):
        notices.append("Dividing by the sum gave NaN or infinite weights in rows that sum to 0.")
    return (
        *notices,
        *_overflow_notices(trace),
        *_divisor_notices(trace),
        *_empty_row_notices(trace),
    )


def _has_nan_weights(trace: Trace) -> bool:
    normalised = trace.stage_of(Role.UNMASKED) or trace.stage_of(Role.WEIGHTS)
    return normalised is not None and bool(trace.tensor(normalised.name).isnan().any())


def _has_nonfinite_weights(trace: Trace) -> bool:
    stages = [stage for stage in (Role.UNMASKED, Role.WEIGHTS) if stage in trace]
    return not all(trace.tensor(stage).isfinite().all() for stage in stages)


def _has_weights_outside_unit_range(trace: Trace) -> bool:
    low, high = trace.limits(Role.WEIGHTS) if Role.WEIGHTS in trace else (0.0, 1.0)
    return low < 0 or high > 1


def _overflow_notices(trace: Trace) -> list[str]:
    """Name the first stage with numbers outside the range of the dtype."""
    if not _can_overflow(trace):
        return []
    spec = trace.spec
    stage = next((one for one in trace.stages if _has_overflowed(trace, one)), None)
    is_reported = spec.normalisation in {NormalisationKind.NAIVE_SOFTMAX, NormalisationKind.SUM}
    if stage is None or (stage.is_weights and is_reported):
        return []
    largest = torch.finfo(getattr(torch, spec.dtype)).max
    advice = " or a larger temperature" if spec.divisor < 1 else ""
    return [
        f"Overflow: some {stage.nouns} are beyond the range of {spec.dtype} (±{largest:.2g}), and "
        f"results computed from them may be NaN. Use smaller vectors or weights{advice}."
    ]


def _can_overflow(trace: Trace) -> bool:
    vectors = [stage for stage in trace.stages if not {"query", "key"} <= {*stage.dims}]
    if not all(trace.holding(stage.name).keep("finite sum", _has_finite_sum) for stage in vectors):
        return True
    products = (one for one in trace.stages if one.operation is Operation.DOT_PRODUCT)
    largest = torch.finfo(getattr(torch, trace.spec.dtype)).max
    # A score is at most the product of the norms of its vectors (Cauchy–Schwarz).
    return any(
        not _largest_norm_product(trace, stage) / min(1, trace.spec.divisor) < largest
        for stage in products
    )


def _largest_norm_product(trace: Trace, stage: Stage) -> float:
    """Return the product of the largest norms of the vectors that a stage multiplies."""
    lengths = [trace.holding(name).keep("longest vector", _largest_norm) for name in stage.reads]
    return float(np.prod(lengths))


def _largest_norm(vectors: Tensor) -> float:
    return float(vectors.norm(dim=-1).max())


def _has_finite_sum(numbers: Tensor) -> bool:
    """Return False if any number is not finite, and possibly if finite numbers are very large."""
    return bool(numbers.sum().isfinite())


def _has_overflowed(trace: Trace, stage: Stage) -> bool:
    is_masked = stage.name in MASKED_SCORES  # their −∞ is intended
    return not is_masked and not bool(trace.tensor(stage.name).isfinite().all())


def _divisor_notices(trace: Trace) -> list[str]:
    spec = trace.spec
    smallest = torch.finfo(getattr(torch, spec.dtype)).tiny
    if Role.SCALED not in trace or spec.divisor >= smallest:
        return []
    return [
        f"The scores are divided by {spec.divisor:.3g}, but {spec.dtype} loses precision below "
        f"{smallest:.2g}. Use a larger temperature."
    ]


def _empty_row_notices(trace: Trace) -> list[str]:
    spec = trace.spec
    if spec.mask is not MaskKind.OWN:  # every other mask lets a query attend to itself
        return []
    attends = np.asarray(allowed(spec, trace.tokens).any(-1))  # query, or text 1 query
    if spec.lengths:
        is_real = np.arange(trace.tokens) < np.array(spec.lengths)[:, None]  # text query
        attends = attends[:, 0][is_real]
    count = attends.size - int(attends.sum())
    if not count:
        return []
    return [
        f"{count:,} of {attends.size:,} queries attend to nothing: the mask forbids all their keys."
    ]
