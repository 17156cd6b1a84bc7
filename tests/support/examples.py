"""How many examples a property is tried on: one profile says it for all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(times: float, **others: Any) -> settings:
    """Try so many times as many examples as the profile says is usual.

    Parameters
    ----------
    others
        What else hypothesis is to do for this property.
    """
    return settings(max_examples=max(1, round(times * settings().max_examples)), **others)
