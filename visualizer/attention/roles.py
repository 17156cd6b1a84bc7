"""Roles of the stages of attention; imports nothing, so that every module can use them."""

from __future__ import annotations

from enum import StrEnum, auto


class Role(StrEnum):
    """Role of a stage in attention; the value is the name of the stage in traces and files.

    A computation may lack the stages of some roles; for example, linear attention has no `SCORES`.
    The stages of a model's layer before and after attention have no role.
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
    def from_stage_name(cls, name: str) -> Role | None:
        """Return the role of a stage by its name, or None if the stage has no role."""
        return _BY_NAME.get(name)


VECTOR_ROLES = (Role.QUERIES, Role.KEYS, Role.VALUES)
_BY_NAME: dict[str, Role] = {role.value: role for role in Role}
