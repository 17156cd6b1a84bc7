"""A spec as plain values, to stand in files beside its numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from visualizer.attention.choices import BooleanMatrix, NumberMatrix

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec


def plain_spec(spec: AttentionSpec) -> dict[str, object]:
    """Give every field by its name, as JSON holds it.

    Choices are their names, own matrices are lists of rows, of 0 and 1 where they say yes and no,
    and own weights are such lists by their names.
    """
    found = {field.name: _plain(getattr(spec, field.name)) for field in fields(spec)}
    found["own_weights"] = {name: _plain(matrix) for name, matrix in spec.own_weights}
    return found


def _plain(value: object) -> object:
    if isinstance(value, BooleanMatrix):
        return value.array().astype(int).tolist()
    if isinstance(value, NumberMatrix):
        return value.array().tolist()
    if isinstance(value, str):  # a choice is more than its name
        return str(value)
    return list(value) if isinstance(value, tuple) else value
