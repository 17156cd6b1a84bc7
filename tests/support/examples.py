"""Scales the examples of a test: of a property by the profile, of a parameter by its slow ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark import ParameterSet


def examples(times: float, **others: Any) -> settings:
    """Multiply the profile's number of examples.

    Parameters
    ----------
    others
        Further settings of hypothesis for this property.
    """
    return settings(max_examples=max(1, round(times * settings().max_examples)), **others)


def others_slow(values: Iterable[Any], first: int = 1) -> list[ParameterSet]:
    """Give the values of a parameter, or tuples of several, of which all but the first are slow."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[pytest.mark.slow] * (at >= first),
        )
        for at, value in enumerate(values)
    ]
