"""Dropout samples with consecutive seeds, counted per cell so that means can be extended.

Source: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
§10 (kept weights are scaled by 1/(1−p), which preserves the expectation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import draw_keep_mask
from visualizer.attention.roles import Role
from visualizer.progress import check_cancelled

if TYPE_CHECKING:
    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec


@dataclass(slots=True, eq=False)
class DropoutSampleCounts:
    """The number of samples that keep each cell; further samples are added to these counts."""

    key: tuple[float, int, tuple[int, ...]] | None = None
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int16))
    drawn: int = 0

    def count_first_samples(
        self, spec: AttentionSpec, shape: tuple[int, ...], count: int
    ) -> np.ndarray:
        """Return the counts over the first `count` samples, [..., head, query, key]."""
        key = (spec.dropout, spec.dropout_seed, shape)
        if self.key != key or self.drawn > count:
            self.key, self.counts, self.drawn = key, np.zeros(shape, np.int16), 0
        while self.drawn < count:
            check_cancelled()
            self.counts += draw_keep_mask(spec.dropout, sample_seed(spec, self.drawn), shape)
            self.drawn += 1
        return self.counts


MAX_SAMPLES = 256
# Maximum number of sampled cells; drawing so many takes about three seconds. Long texts get fewer
# samples.
MAX_DRAWN_CELLS = 2**28


def sample_seed(spec: AttentionSpec, sample: int) -> int:
    """Return the seed of a sample; the first sample is the one that is displayed."""
    return (spec.dropout_seed + sample) % 2**31


def no_samples_reason(spec: AttentionSpec) -> str:
    """Return why no samples can be drawn, or an empty string if samples can be drawn."""
    if spec.dropout == 0:
        return "Set a dropout rate above 0 to compare dropout samples."
    if not spec.is_dropout_active:
        return (
            "Dropout is off in evaluation mode. Turn on training mode to compare dropout samples."
        )
    if spec.own_kept:
        return "The dropped cells were chosen manually, so all samples are the same."
    return ""


def max_sample_count(run: Run) -> int:
    """Return the largest allowed number of samples, which is smaller for larger matrices."""
    cells = math.prod(run.trace.shape(Role.WEIGHTS))
    return min(MAX_SAMPLES, 1 << max(0, (MAX_DRAWN_CELLS // cells).bit_length() - 1))


def drawable_sample_count(run: Run, count: int) -> int:
    """Return the number of samples to draw, which is at most the maximum for the run."""
    return min(count, max_sample_count(run))


def mean_of_dropout_samples(run: Run, count: int, tally: DropoutSampleCounts) -> CachedTensor:
    """Return the mean of the weights after dropout over the given number of samples."""
    spec, weights = run.trace.spec, run.trace.cached_stage_tensor(Role.WEIGHTS)
    counts = tally.count_first_samples(spec, tuple(weights.tensor.shape), count)
    return weights.multiply(counts, count * (1 - spec.dropout))
