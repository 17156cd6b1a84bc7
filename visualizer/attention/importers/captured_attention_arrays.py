"""Recognition of attention weights among the arrays of a file."""

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
"""Number of copies of the attention in memory while it is opened and displayed."""
LIKELY = re.compile(r"attn|attention|weights", re.IGNORECASE)
AXES = "[layer, head, query, key], optionally with fewer axes or with a batch of 1"


class ArrayChoice(NamedTuple):
    """Arrays of the same shape, and their combined sizes [layer, head, query, key]."""

    entries: list[ArrayEntry]
    sizes: tuple[int, int, int, int]


def read_captured_attention(name: str, contents: FileContents) -> CapturedAttention:
    """Read the attention weights of a file, without tokens.

    Raises
    ------
    InputError
        If the file has no attention, more than one kind, or more than fits into memory.
    """
    entries, sizes = _choose_arrays(contents)
    _check_sizes(sizes, sum(entry.bytes for entry in entries))
    dtype = np.float64 if any(entry.is_double for entry in entries) else np.float32
    whole = np.empty(sizes, dtype)  # layer head query key
    flat = whole.reshape(len(entries), -1)
    for row, entry in zip(flat, entries, strict=True):
        row[:] = entry.read().ravel()
    return CapturedAttention.of(name, whole)


def _choose_arrays(contents: FileContents) -> ArrayChoice:
    usable = [entry for entry in contents.entries if _can_be_attention(entry.shape)]
    likely = [entry for entry in usable if LIKELY.search(entry.name)] or usable
    if not likely:
        raise unreadable_file_error(f"No array has the axes {AXES}. {contents.said}")
    families: dict[tuple[str, tuple[int, ...]], list[ArrayEntry]] = {}
    for entry in likely:
        family = re.sub(r"[0-9]+", "#", entry.name)
        families.setdefault((family, entry.shape), []).append(entry)
    if len(families) > 1:
        descriptions = [_describe_arrays(entries) for entries in families.values()]
        rest = len(descriptions) - NAMED
        more = f" and {rest:,} more" if rest > 0 else ""
        named = ", ".join(descriptions[:NAMED])
        raise unreadable_file_error(
            f"The file contains different kinds of arrays: {named}{more}. Save only one kind."
        )
    (entries,) = families.values()
    return ArrayChoice(entries, _combine_sizes(entries))


def _can_be_attention(shape: tuple[int, ...]) -> bool:
    return 2 <= len(shape) <= 5 and min(shape) > 0


def _describe_arrays(entries: list[ArrayEntry]) -> str:
    count = f"{len(entries)} of " if len(entries) > 1 else ""
    return count + min(entries, key=lambda entry: natural_order_key(entry.name)).said


def _combine_sizes(entries: list[ArrayEntry]) -> tuple[int, int, int, int]:
    """Return the combined sizes [layer, head, query, key] of arrays of the same shape."""
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
            f"Each of the {count} arrays has too many axes: {entries[0].said}. Expected: {AXES}."
        )
    if not first and "head" in entries[0].name.lower():
        return 1, count, queries, keys
    return count, first[0] if first else 1, queries, keys


def _without_batch(entry: ArrayEntry, first: list[int]) -> list[int]:
    """Remove the axis of a batch of 1, which precedes the heads or the layers."""
    at = 1 if len(first) == 3 and first[1] == 1 else 0
    if first[at] != 1:
        raise unreadable_file_error(
            f"{entry.said} is a batch of {first[at]} texts. Save only one of them."
        )
    return first[:at] + first[at + 1 :]


def _check_sizes(sizes: tuple[int, int, int, int], count: int) -> None:
    limits = (MAX_LAYERS, MAX_VALUES["heads"], MAX_TOKENS, MAX_TOKENS)
    names = ("layers", "heads", "queries", "keys")
    for size, largest, name in zip(sizes, limits, names, strict=True):
        if size > largest:
            shape = " × ".join(f"{size:,}" for size in sizes)
            raise unreadable_file_error(
                f"Attention of shape {shape} has {size:,} {name}; the maximum is {largest:,}."
            )
    free = USABLE * device.free_bytes(Device.CPU)
    if COPIES * count > free:
        needed = f"{COPIES * count / 2**30:,.1f} GiB of memory"
        raise unreadable_file_error(
            f"Opening the file needs {needed}, but only {free / 2**30:,.1f} GiB is available. "
            "Save fewer layers or heads."
        )
