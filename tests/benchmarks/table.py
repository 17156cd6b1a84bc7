"""Formats measurements as lines of a table."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 58


class Line(Struct, frozen=True):
    """A measured value with its target, if it has one, and whether the target is met."""

    words: str
    figure: str
    target: str = ""
    is_kept: bool = True


def times(words: str, seconds: Sequence[float], below_p95_ms: float = 0) -> Line:
    """Return a line with the median and the 95th percentile; a target applies to the percentile."""
    middle, high = median(seconds) * 1000, p95(seconds) * 1000
    figure = f"{middle:9.2f} ms   p95 {high:9.2f} ms"
    if not below_p95_ms:
        return Line(words, figure)
    return Line(words, figure, f"p95 < {below_p95_ms:g} ms", high < below_p95_ms)


def middle(words: str, seconds: Sequence[float], at_most_ms: float) -> Line:
    """Return a line like `times`, with a target for the median."""
    shown = times(words, seconds)
    is_kept = median(seconds) * 1000 <= at_most_ms
    return replace(shown, target=f"≤ {at_most_ms:g} ms", is_kept=is_kept)


def ratio(
    words: str,
    over: Sequence[float],
    under: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Line:
    """Return a line with the median ratio of pairs of measurements.

    Parameters
    ----------
    at_most, at_least : float, optional
        The target of the median.
    """
    quotients = [high / low for high, low in zip(over, under, strict=True)]
    middle = median(quotients)
    figure = f"{middle:9.2f} ×    p95 {p95(quotients):9.2f} ×"
    if at_most is not None:
        return Line(words, figure, f"≤ {at_most:g} ×", middle <= at_most)
    if at_least is not None:
        return Line(words, figure, f"≥ {at_least:g} ×", middle >= at_least)
    return Line(words, figure)


def p95(samples: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return float(np.percentile(samples, 95))


def show(title: str, lines: Sequence[Line]) -> int:
    """Print a table; return the number of missed targets."""
    print(f"\n{title}")
    for line in lines:
        verdict = ("ok" if line.is_kept else "FALLS SHORT") if line.target else ""
        print(
            f"  {line.words:{WIDTH}}{line.figure:34}{line.target:16}{verdict}".rstrip(), flush=True
        )
    return sum(not line.is_kept for line in lines)
