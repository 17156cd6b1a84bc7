"""Short representations of values that can be large, for a notebook or a debugger."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

MAX_LENGTH = 400
"""Maximum length of the representation of an object."""
MAX_VALUE_LENGTH, MAX_TUPLE_LENGTH = 60, 15
"""Maximum lengths of the value of a field, and of a tuple that is written out."""


def brief_repr(struct: Any) -> str:
    """Represent a struct by its fields that are not the defaults, each in a few letters."""
    names, defaults = struct.__struct_fields__, struct.__struct_defaults__
    known = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    held = {name: getattr(struct, name) for name in names}
    parts = [
        f"{name}={_brief(value)}"
        for name, value in held.items()
        if name not in known or _differ(value, known[name])
    ]
    return shortened(f"{type(struct).__name__}({', '.join(parts)})")


def shortened(text: str) -> str:
    """Cut a representation to its maximum length."""
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 2]}…{text[-1]}"


def _differ(value: Any, default: Any) -> bool:
    is_same = value is default or (type(value) is type(default) and bool(value == default))
    return not is_same


def _brief(value: Any) -> str:
    """Represent a value by its kind and size, if it is not short itself."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"<{kind} {list(shape)}>"
    if isinstance(value, bytes | bytearray):
        return f"<{len(value):,} bytes>"
    if isinstance(value, str):
        return _cut(repr(value[: MAX_VALUE_LENGTH + 1]))
    if isinstance(value, tuple | list) and len(value) <= MAX_TUPLE_LENGTH:
        written = repr(value) if all(isinstance(one, int | float | str) for one in value) else ""
        if 0 < len(written) <= MAX_VALUE_LENGTH:
            return written
    if isinstance(value, Collection) and not hasattr(value, "__struct_fields__"):
        return f"<{kind} of {len(value):,}>"
    return _cut(repr(value))


def _cut(written: str) -> str:
    if len(written) <= MAX_VALUE_LENGTH:
        return written
    return f"{written[: MAX_VALUE_LENGTH - 2]}…{written[-1]}"
