"""Conversion of numbers to float64, wherever they were computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def float64_on_cpu(numbers: Tensor) -> Tensor:
    """Return numbers in float64 on the CPU, without their gradients.

    They are moved first: Apple's GPU has no float64, and raises an error even if the result would
    be moved to the CPU.
    """
    return numbers.detach().cpu().double()
