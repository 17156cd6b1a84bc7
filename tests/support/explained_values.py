"""The value that an explanation's terms give, and how far rounding may put it off."""

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
    """How far the value may be off: the trace rounds to its type, the terms are float64."""
    kind = np.finfo(dtype.value)
    # A term that is an exponential turns the rounding of a score into a relative error.
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
        # A sum near 0, as scores of both signs have, makes every share of it uncertain; and of
        # one below the type's normal numbers too few digits are left.
        if size * off > 0.1 * total or total < 1e6 * kind.tiny:
            return np.inf
        return float(off * (1 + abs(explanation.value)) * size / total)


def _size_before_activation(explanation: Explanation) -> float:
    """Size of a number that GELU is applied to: it is times 1 + erf, which cancels far below 0."""
    factors = (factor for group in explanation.groups for factor in group.factors)
    return max((abs(float(f.read[0])) for f in factors if f.form.startswith("GELU")), default=0.0)


def _size_before_centring(explanation: Explanation) -> float:
    """Size of the numbers whose mean layer norm subtracts: about one deviation, times the gain.

    The mean of a row may be rounded by that size's last digit, however near 0 the cell is.
    """
    step = explanation.stage.step
    if not isinstance(step, NormLayer) or not step.is_centred:
        return 0.0
    return abs(math.prod(float(factor.used[0]) for factor in explanation.groups[0].factors[2:]))


def result_of(explanation: Explanation) -> float:
    """Compute the value from the terms alone."""
    if explanation.is_empty:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        terms = explanation.terms
        if explanation.rule is CombinationRule.SUM:
            return float(terms.sum())
        total = terms.sum() if explanation.rule is CombinationRule.SHARE else 1.0
        return float(terms[explanation.chosen] / total)
