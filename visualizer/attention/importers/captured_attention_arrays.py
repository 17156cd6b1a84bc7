"""Captured attention from a file's arrays: recognition of arrays and axes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from visualizer.attention import device
from visualizer.attention.captured_attention import (
    MAX_LAYERS,
    MAX_TOKENS,
    CapturedAttention,
)
from visualizer.attention.importers.file_contents import NAMED
from visualizer.attention.importers.reader_checks_and_errors import (
    natural_order_key,
    unreadable_file_error,
)
from visualizer.attention.run import USABLE
from visualizer.attention.spec import MAX_VALUES, Device

if TYPE_CHECKING:
    from visualizer.attention.importers.file_contents import ArrayEntry, FileContents

COPIES = 4
"""Copies of the attention in memory while it is opened and shown."""
LIKELY = re.compile(r"attn|attention|weights", re.IGNORECASE)
AXES = "[layer, head, query, key], with fewer axes, or with a batch of 1"


class ArrayChoice(NamedTuple):
    """Arrays of one shape, and their joint sizes [layer, head, query, key]."""

    entries: list[ArrayEntry]
    sizes: tuple[int, int, int, int]


def read_captured_attention(name: str, contents: FileContents) -> CapturedAttention:
    """Read the attention of a file, without its tokens.

    Raises
    ------
    InputError
        When there is none, more than one kind, or more than fits into memory.
    """
    entries, sizes = _chosen(contents)
    _check_sizes(sizes, sum(entry.bytes for entry in entries))
    dtype = np.float64 if any(entry.is_double for entry in entries) else np.float32
    whole = np.empty(sizes, dtype)  # layer head query key
    flat = whole.reshape(len(entries), -1)
    for row, entry in zip(flat, entries, strict=True):
        row[:] = entry.read().ravel()
    return CapturedAttention.of(name, whole)


def _chosen(contents: FileContents) -> ArrayChoice:
    usable = [entry for entry in contents.entries if _may_be(entry.shape)]
    likely = [entry for entry in usable if LIKELY.search(entry.name)] or usable
    if not likely:
        raise unreadable_file_error(f"No array in it is {AXES}. {contents.said}")
    families: dict[tuple[str, tuple[int, ...]], list[ArrayEntry]] = {}
    for entry in likely:
        family = re.sub(r"[0-9]+", "#", entry.name)
        families.setdefault((family, entry.shape), []).append(entry)
    if len(families) > 1:
        said = [_said(entries) for entries in families.values()]
        more = f" and {len(said) - NAMED:,} more" if len(said) > NAMED else ""
        named = ", ".join(said[:NAMED])
        raise unreadable_file_error(
            f"These do not fit together: {named}{more}. Save one kind by itself."
        )
    (entries,) = families.values()
    return ArrayChoice(entries, _together(entries))


def _may_be(shape: tuple[int, ...]) -> bool:
    return 2 <= len(shape) <= 5 and min(shape) > 0


def _said(entries: list[ArrayEntry]) -> str:
    count = f"{len(entries)} of " if len(entries) > 1 else ""
    return count + min(entries, key=lambda entry: natural_order_key(entry.name)).said


def _together(entries: list[ArrayEntry]) -> tuple[int, int, int, int]:
    """Return the joint sizes [layer, head, query, key] of arrays of one shape."""
    count, shape = len(entries), entries[0].shape
    *first, queries, keys = shape
    if count == 1:
        outer = first if len(first) < 3 else _without_batch(entries[0], first)
        layers, heads = [1, 1, *outer][-2:]
        return layers, heads, queries, keys
    if len(first) == 2:
        first = _without_batch(entries[0], first)
    if len(first) > 1:
        raise unreadable_file_error(
            f"Of {count} arrays each is {entries[0].said}: more axes than {AXES}."
        )
    if not first and "head" in entries[0].name.lower():
        return 1, count, queries, keys
    return count, first[0] if first else 1, queries, keys


def _without_batch(entry: ArrayEntry, first: list[int]) -> list[int]:
    """Remove the axis of a batch of 1, which stands before heads or before layers."""
    at = 1 if len(first) == 3 and first[1] == 1 else 0
    if first[at] != 1:
        raise unreadable_file_error(
            f"{entry.said} is of a batch of {first[at]} texts. Save one of them."
        )
    return first[:at] + first[at + 1 :]


def _check_sizes(sizes: tuple[int, int, int, int], count: int) -> None:
    most = (MAX_LAYERS, MAX_VALUES["heads"], MAX_TOKENS, MAX_TOKENS)
    names = ("layers", "heads", "queries", "keys")
    for size, largest, name in zip(sizes, most, names, strict=True):
        if size > largest:
            said = " × ".join(f"{size:,}" for size in sizes)
            raise unreadable_file_error(
                f"Of {said}, {size:,} would be {name}, and {largest:,} can be shown."
            )
    free = USABLE * device.free_bytes(Device.CPU)
    if COPIES * count > free:
        said = f"{COPIES * count / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB can be used"
        raise unreadable_file_error(f"It needs {said}. Save fewer layers or heads.")
