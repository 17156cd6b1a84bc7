"""Short representations of possibly large values, for notebooks and debuggers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

MAX_LENGTH = 400
"""Maximum length of the representation of an object, in characters."""
MAX_VALUE_LENGTH, MAX_TUPLE_LENGTH = 60, 15
"""Maximum length of a field's value, in characters, and maximum number of elements of a tuple that
is written in full.
"""


def brief_repr(struct: Any) -> str:
    """Represent a struct by its non-default fields, with shortened values."""
    names, defaults = struct.__struct_fields__, struct.__struct_defaults__
    known = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    values = {name: getattr(struct, name) for name in names}
    parts = [
        f"{name}={_shorten_value(value)}"
        for name, value in values.items()
        if name not in known or _differs_from_default(value, known[name])
    ]
    return truncate(f"{type(struct).__name__}({', '.join(parts)})")


def truncate(text: str, max_length: int = MAX_LENGTH) -> str:
    """Truncate a representation to the maximum length, but keep its last character."""
    return text if len(text) <= max_length else f"{text[: max_length - 2]}…{text[-1]}"


def _differs_from_default(value: Any, default: Any) -> bool:
    is_same = value is default or (type(value) is type(default) and bool(value == default))
    return not is_same


def _shorten_value(value: Any) -> str:
    """Represent a value in full if it is short, and by its type and size otherwise."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"<{kind} {list(shape)}>"
    if isinstance(value, bytes | bytearray):
        return f"<{len(value):,} bytes>"
    if isinstance(value, str):
        return truncate(repr(value[: MAX_VALUE_LENGTH + 1]), MAX_VALUE_LENGTH)
    if isinstance(value, tuple | list) and len(value) <= MAX_TUPLE_LENGTH:
        text = (
            repr(value) if all(isinstance(element, int | float | str) for element in value) else ""
        )
        if 0 < len(text) <= MAX_VALUE_LENGTH:
            return text
    if isinstance(value, Collection) and not hasattr(value, "__struct_fields__"):
        return f"<{kind} of {len(value):,}>"
    return truncate(repr(value), MAX_VALUE_LENGTH)
