"""Boxes over each other, each as near as can be to where it is wanted; pure geometry."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def spread(wanted: Sequence[float], size: float, low: float, high: float) -> list[float]:
    """Give where boxes begin of which none overlaps another, in the order that they are given.

    The sum of the squares of how far they are moved is the least that there is.

    Parameters
    ----------
    wanted : sequence of float
        Where each box should begin, rising.
    size : float
        Of each box.
    low, high : float
        Between which all of them are; there is room for all of them.
    """
    # Less what the boxes before take, places need only rise: means of runs that would fall do.
    runs: list[tuple[float, int]] = []
    for at, place in enumerate(wanted):
        mean, count = place - at * size, 1
        while runs and runs[-1][0] > mean:
            before, number = runs.pop()
            mean = (before * number + mean * count) / (number + count)
            count += number
        runs.append((mean, count))
    flat = [mean for mean, count in runs for _ in range(count)]
    last = high - len(flat) * size
    return [min(max(mean, low), last) + at * size for at, mean in enumerate(flat)]
