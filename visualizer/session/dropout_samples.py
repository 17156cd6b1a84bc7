"""Samples of dropout: seed after seed, counted cell by cell, so that a mean grows step by step.

Source: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from
Overfitting", §10 (what is kept is scaled up by 1/(1−p), so that its expectation stays the same).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import kept

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.tensor_cache import CachedTensor


@dataclass(slots=True, eq=False)
class SampleTally:
    """In how many of the samples each cell was kept; more are added to what was counted before."""

    key: tuple[float, int, tuple[int, ...]] | None = None
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int16))
    drawn: int = 0

    def upto(self, spec: AttentionSpec, shape: tuple[int, ...], count: int) -> np.ndarray:
        """Count so many samples, [..., head, query, key]."""
        key = (spec.dropout, spec.dropout_seed, shape)
        if self.key != key or self.drawn > count:
            self.key, self.counts, self.drawn = key, np.zeros(shape, np.int16), 0
        while self.drawn < count:
            self.counts += kept(spec.dropout, seed_of(spec, self.drawn), shape)
            self.drawn += 1
        return self.counts


LARGEST_COUNT = 256
# Of a long text fewer samples are drawn: so many cells take about three seconds.
DRAWN_CELLS = 2**28


def seed_of(spec: AttentionSpec, sample: int) -> int:
    """Give the seed of a sample: the first is the one that is shown."""
    return (spec.dropout_seed + sample) % 2**31


def why_none(spec: AttentionSpec) -> str:
    """Say why no samples can be drawn; empty where they can."""
    if spec.dropout == 0:
        return "Nothing is dropped: set a dropout rate above 0 to see its samples."
    if not spec.drops:
        return "Dropout is off in evaluation: have it act as in training to see its samples."
    if spec.own_kept:
        return "The dropped cells are your own, so every sample is the same."
    return ""


def most_samples(run: Run) -> int:
    """Give how many samples may be asked for: fewer, the larger the weights are."""
    cells = math.prod(run.trace.tensor("weights").shape)
    return min(LARGEST_COUNT, 1 << max(0, (DRAWN_CELLS // cells).bit_length() - 1))


def mean_of(run: Run, count: int, tally: SampleTally) -> CachedTensor:
    """Average what dropout leaves of the weights, over so many samples."""
    spec, weights = run.trace.spec, run.trace.holding("weights")
    counts = tally.upto(spec, tuple(weights.tensor.shape), count)
    return weights.times(counts, count * (1 - spec.dropout))
