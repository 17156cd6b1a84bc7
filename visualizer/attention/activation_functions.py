"""Activation functions of feed-forward layers and gates, for a single number; no torch.

Sources: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units"; Elfwing et al. 2017 (SiLU); So et
al. 2021 (the squared ReLU of "Primer").
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _apply_sigmoid(number: float) -> float:
    if number >= 0:
        return 1 / (1 + math.exp(-number))
    grown = math.exp(number)  # does not overflow for large negative numbers
    return grown / (1 + grown)


def _apply_gelu(number: float) -> float:
    return number * (1 + math.erf(number / math.sqrt(2))) / 2


def _apply_gelu_by_tanh(number: float) -> float:
    inner = math.sqrt(2 / math.pi) * (number + 0.044715 * number**3)
    return number * (1 + math.tanh(inner)) / 2


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "SiLU": lambda number: number * _apply_sigmoid(number),
    "GELU": _apply_gelu,
    "GELU by tanh": _apply_gelu_by_tanh,
    "quick GELU": lambda number: number * _apply_sigmoid(1.702 * number),
    "ReLU": lambda number: max(number, 0.0),
    "squared ReLU": lambda number: max(number, 0.0) ** 2,
    "tanh": math.tanh,
    "sigmoid": _apply_sigmoid,
}
"""By display name."""
