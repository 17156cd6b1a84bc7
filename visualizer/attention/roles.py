"""Roles of the stages of attention; imports nothing, so that every layer can use them."""

from __future__ import annotations

from enum import StrEnum, auto


class Role(StrEnum):
    """Role of a stage in attention; the value is the name of that stage in traces and files.

    A computation need not have a stage of each role: attention without a query–key matrix has no
    `WEIGHTS`. The stages of a model's layer before and after attention have no role.
    """

    INPUT = auto()
    RESIDUAL = auto()
    NORMED = auto()
    QUERIES = auto()
    KEYS = auto()
    VALUES = auto()
    SCORES = auto()
    SCALED = auto()
    CAPPED = auto()
    BIAS = auto()
    BIASED = auto()
    MASKED = auto()
    UNMASKED = auto()
    ZEROED = auto()
    WEIGHTS = auto()
    DROPPED = auto()
    CONTEXT = auto()
    CONCAT = auto()
    OUTPUT = auto()

    __repr__ = str.__repr__

    @classmethod
    def of(cls, name: str) -> Role | None:
        """Return the role of a stage by its name; None if it has no role."""
        return _BY_NAME.get(name)


VECTOR_ROLES = (Role.QUERIES, Role.KEYS, Role.VALUES)
_BY_NAME: dict[str, Role] = {role.value: role for role in Role}
