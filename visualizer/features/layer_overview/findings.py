"""The strongest head for each attention pattern, if the pattern is clearly stronger than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.format import format_percentage
from visualizer.session.head_order import HeadOrder, find_head_order_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

PATTERNS = (
    HeadOrder.INDUCTION,
    HeadOrder.PREVIOUS,
    HeadOrder.DUPLICATE,
    HeadOrder.OWN,
    HeadOrder.FIRST,
)
MIN_SHARE_ABOVE_CHANCE = 0.25
"""Minimum value of a finding, as a fraction of the distance from chance to a weight of 1."""
MIN_SHARE_OF_UNIFORM_ENTROPY = 0.75
"""Minimum entropy of a head that attends to many tokens, relative to uniform attention."""
SPREAD_TITLE, SPREAD_READS = "Spread", "attends to many tokens"


class Finding(Struct, frozen=True):
    """The strongest head for a pattern.

    Parameters
    ----------
    place : tuple of int
        The index of the layer in the run, and the head.
    reads : str
        The description of the keys that the head attends to.
    value, chance : str
        The formatted measure of the head, and the value for uniform attention.
    """

    title: str
    place: tuple[int, int]
    reads: str
    value: str
    chance: str


def find_strongest_heads(
    values: Mapping[str, np.ndarray], uniform: Mapping[str, float]
) -> tuple[Finding, ...]:
    """Return the strongest head for each pattern that is clearly stronger than chance.

    Parameters
    ----------
    values : mapping
        Each measure of every head, [layer, head]; NaN if a head has none.
    uniform : mapping
        Each measure of a head with uniform attention.
    """
    findings: list[Finding] = []
    for order in PATTERNS if uniform else ():
        row = find_head_order_spec(order)
        place, value = _find_largest_head(values[row.measure])
        chance = uniform[row.measure]
        if value >= chance + MIN_SHARE_ABOVE_CHANCE * (1 - chance) and chance < 1:
            shares = f"mean weight {format_percentage(value)}", format_percentage(chance)
            title = row.title.removesuffix(" first")
            findings.append(Finding(title, place, row.behaviour, *shares))
    chance = uniform.get("entropy", 0.0)
    if chance > 0:
        place, value = _find_largest_head(values["entropy"])
        if value >= MIN_SHARE_OF_UNIFORM_ENTROPY * chance:
            entropies = f"entropy {value:.2f} bits", f"{chance:.2f} bits"
            findings.append(Finding(SPREAD_TITLE, place, SPREAD_READS, *entropies))
    return tuple(findings)


def _find_largest_head(values: np.ndarray) -> tuple[tuple[int, int], float]:
    """Return the head with the largest value, and this value (NaN if all values are NaN)."""
    if np.isnan(values).all():
        return (0, 0), float("nan")
    layer, head = divmod(int(np.nanargmax(values)), values.shape[1])
    return (layer, head), float(values[layer, head])
