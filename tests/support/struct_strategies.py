"""Draws structs from the strategies for their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import strategies as st

if TYPE_CHECKING:
    from msgspec import Struct

Kind = TypeVar("Kind", bound="Struct")


def structs(kind: type[Kind], /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Kind]:
    """Draw structs; all other fields have their defaults.

    ``builds`` would read the types of all fields, but many modules import these types only for type
    checking.
    """
    return st.fixed_dictionaries(fields).map(lambda drawn: kind(**drawn))
