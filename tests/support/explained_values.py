"""Computes the value from an explanation's terms, and its tolerance for rounding errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.layer_operations import NormLayer
from visualizer.explanations.cell_terms import CombinationRule

if TYPE_CHECKING:
    from visualizer.attention.spec import Dtype
    from visualizer.explanations.cell_terms import Explanation


def room(explanation: Explanation, dtype: Dtype) -> float:
    """Return the tolerance: the trace rounds to its dtype, but the terms are float64."""
    kind = np.finfo(dtype.value)
    # If a term is an exponential, it turns the rounding error of a score into a relative error.
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.abs(explanation.terms.astype(np.float64))
        total, size = np.abs(explanation.terms.sum()), terms.sum()
        reads = np.concatenate([f.read for group in explanation.groups for f in group.factors])
        largest = np.abs(reads[np.isfinite(reads)]).max(initial=0)
        off = (
            16 * kind.eps * (1 + largest)
            if explanation.rule is CombinationRule.SHARE
            else 16 * kind.eps
        )
        if explanation.rule is CombinationRule.CHOICE:
            return float(off * abs(explanation.value) + kind.tiny)
        if explanation.rule is CombinationRule.SUM:
            before = max(_size_before_activation(explanation), _size_before_centring(explanation))
            return float(off * max(size, before) + kind.tiny)
        # A sum near 0, such as one of scores with both signs, makes all shares uncertain, and
        # a subnormal sum has too few digits left.
        if size * off > 0.1 * total or total < 1e6 * kind.tiny:
            return np.inf
        return float(off * (1 + abs(explanation.value)) * size / total)


def _size_before_activation(explanation: Explanation) -> float:
    """Return the absolute input of GELU, which cancels digits of inputs far below 0 (1 + erf)."""
    factors = (factor for group in explanation.groups for factor in group.factors)
    return max((abs(float(f.read[0])) for f in factors if f.form.startswith("GELU")), default=0.0)


def _size_before_centring(explanation: Explanation) -> float:
    """Return the size of the numbers from which layer norm subtracts the mean.

    It is about one standard deviation times the gain. The mean of a row may have a rounding error
    of this size's last digit, even if the cell is close to 0.
    """
    step = explanation.stage.step
    if not isinstance(step, NormLayer) or not step.is_centred:
        return 0.0
    return abs(math.prod(float(factor.used[0]) for factor in explanation.groups[0].factors[2:]))


def result_of(explanation: Explanation) -> float:
    """Compute the value from the terms only."""
    if explanation.is_empty:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        terms = explanation.terms
        if explanation.rule is CombinationRule.SUM:
            return float(terms.sum())
        total = terms.sum() if explanation.rule is CombinationRule.SHARE else 1.0
        return float(terms[explanation.chosen] / total)
