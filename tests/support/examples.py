"""Scales the number of a property's examples, and marks all but the first parameters as slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark import ParameterSet


def examples(times: float, **others: Any) -> settings:
    """Return hypothesis settings with a multiple of the profile's number of examples.

    Parameters
    ----------
    others
        Other settings of hypothesis for this property.
    """
    return settings(max_examples=max(1, round(times * settings().max_examples)), **others)


def others_slow(values: Iterable[Any], first: int = 1) -> list[ParameterSet]:
    """Return the values of a parameter, or tuples of several; all but the first are slow tests."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[pytest.mark.slow] * (at >= first),
        )
        for at, value in enumerate(values)
    ]
