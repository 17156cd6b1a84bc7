"""Replaces values in a JSON tree by extreme and contradictory values."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]
NUMBERS: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 7, 1_000, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**31) - 1, -(2**63) + 1),
    *(0.5, -0.5, 1e-320, 1e300, -1e300, "nan", "inf", "-inf"),
)
TEXTS: tuple[Any, ...] = (
    *("", " ", "a", "\0", "\n", "\u202e", "\ud800", "x" * 100_000, "a b " * 300, "/", "//a/b"),
    *("../..", "C:\\a", "%s {0}", "<b>&amp;", "猫" * 50),
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {})


def places(tree: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every value in a tree."""
    if path:
        yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(value, (*path, key))


def value_at(tree: Any, path: Path) -> Any:
    """Return the value at a path."""
    for key in path:
        tree = tree[key]
    return tree


def with_value(tree: Any, path: Path, value: Any) -> Any:
    """Return a tree with another value at a path; all other parts are shared."""
    if not path:
        return value
    key, *below = path
    made = copy.copy(tree)
    made[key] = with_value(tree[key], tuple(below), value)
    return made


def extremes(value: Any) -> Iterator[Any]:
    """Yield replacements for a value: extreme values of its type, and some of other types."""
    if isinstance(value, bool) or value is None:
        yield from (*OTHERS, 0, -1, 2**31, "a")
    elif isinstance(value, int | float):
        yield from (*NUMBERS, *OTHERS)
    elif isinstance(value, str):
        yield from (*TEXTS, *OTHERS, 2**31)
    elif isinstance(value, list):
        yield from (*OTHERS, [*value, *value], value[::-1], value[:1], [*value, None], value * 50)
    else:
        yield from (*OTHERS, {**value, "more": 1})
