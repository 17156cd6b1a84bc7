"""Scales the number of examples of a property test by the profile."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(times: float, **others: Any) -> settings:
    """Multiply the profile's number of examples.

    Parameters
    ----------
    others
        Further settings of hypothesis for this property.
    """
    return settings(max_examples=max(1, round(times * settings().max_examples)), **others)
