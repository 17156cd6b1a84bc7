"""Reads tensor files of all supported types, as captured attention or as a spec with weights."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from visualizer.attention.captured_attention import (
    MAX_LAYERS,
    MAX_TOKENS,
    CapturedAttention,
    numbered_labels,
)
from visualizer.attention.importers import numpy_files, pt_safetensors_files
from visualizer.attention.importers.state_dict import (
    contains_attention_module,
    spec_from_state_dict,
)
from visualizer.attention.importers.tensor_file_listing import (
    MAX_NAMED_ENTRIES,
    MAX_TEXT_CHARACTERS,
    convert_read_errors,
    natural_order_key,
    unreadable_file_error,
)
from visualizer.attention.run import usable_bytes
from visualizer.attention.spec import MAX_VALUES, Device
from visualizer.attention.token_labels import label_tokens
from visualizer.errors import system_error_reason
from visualizer.storage.regular_file import check_regular_file, open_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.attention.importers.tensor_file_listing import ArrayEntry, TensorFileContents
    from visualizer.attention.spec import AttentionSpec

    Texts = dict[str, tuple[str, ...]]


MEMORY_COPIES = 4
"""Number of copies of the attention weights in memory while a file is opened and displayed."""
ATTENTION_NAME_PATTERN = re.compile(r"attn|attention|weights", re.IGNORECASE)
AXES_DESCRIPTION = "[layer, head, query, key], optionally with fewer axes or with a batch of 1"


class CombinableArrays(NamedTuple):
    """Arrays of the same shape, and their combined shape [layer, head, query, key]."""

    entries: list[ArrayEntry]
    sizes: tuple[int, int, int, int]


def read_captured_attention(name: str, contents: TensorFileContents) -> CapturedAttention:
    """Read the attention weights in a file, without tokens.

    Raises
    ------
    InputError
        If the file contains no attention weights, arrays of different kinds, or more numbers than
        fit in memory.
    """
    entries, sizes = _choose_attention_arrays(contents)
    _check_sizes(sizes, sum(entry.bytes for entry in entries))
    dtype = np.float64 if any(entry.is_double for entry in entries) else np.float32
    whole = np.empty(sizes, dtype)  # layer head query key
    flat = whole.reshape(len(entries), -1)
    for row, entry in zip(flat, entries, strict=True):
        row[:] = entry.read().ravel()
    return CapturedAttention.from_array(name, whole)


def _choose_attention_arrays(contents: TensorFileContents) -> CombinableArrays:
    usable = [entry for entry in contents.entries if _can_be_attention(entry.shape)]
    likely = [entry for entry in usable if ATTENTION_NAME_PATTERN.search(entry.name)] or usable
    if not likely:
        raise unreadable_file_error(
            f"No array has the axes {AXES_DESCRIPTION}. {contents.description}"
        )
    families: dict[tuple[str, tuple[int, ...]], list[ArrayEntry]] = {}
    for entry in likely:
        family = re.sub(r"[0-9]+", "#", entry.name)
        families.setdefault((family, entry.shape), []).append(entry)
    if len(families) > 1:
        descriptions = [_describe_arrays(entries) for entries in families.values()]
        rest = len(descriptions) - MAX_NAMED_ENTRIES
        more = f" and {rest:,} more" if rest > 0 else ""
        named = ", ".join(descriptions[:MAX_NAMED_ENTRIES])
        raise unreadable_file_error(
            f"The file contains different kinds of arrays: {named}{more}. Save only one kind."
        )
    (entries,) = families.values()
    return CombinableArrays(entries, _combined_shape(entries))


def _can_be_attention(shape: tuple[int, ...]) -> bool:
    return 2 <= len(shape) <= 5 and min(shape) > 0


def _describe_arrays(entries: list[ArrayEntry]) -> str:
    count = f"{len(entries)} of " if len(entries) > 1 else ""
    return count + min(entries, key=lambda entry: natural_order_key(entry.name)).description


def _combined_shape(entries: list[ArrayEntry]) -> tuple[int, int, int, int]:
    """Return the combined shape [layer, head, query, key] of arrays with the same shape."""
    count, shape = len(entries), entries[0].shape
    *first, queries, keys = shape
    if count == 1:
        outer = first if len(first) < 3 else _without_batch_axis(entries[0], first)
        layers, heads = [1, 1, *outer][-2:]
        return layers, heads, queries, keys
    if len(first) == 2:
        first = _without_batch_axis(entries[0], first)
    if len(first) > 1:
        raise unreadable_file_error(
            f"Each of the {count} arrays has too many axes: {entries[0].description}. Expected: "
            f"{AXES_DESCRIPTION}."
        )
    if not first and "head" in entries[0].name.lower():
        return 1, count, queries, keys
    return count, first[0] if first else 1, queries, keys


def _without_batch_axis(entry: ArrayEntry, first: list[int]) -> list[int]:
    """Remove a batch axis of size 1, which precedes the heads or the layers."""
    at = 1 if len(first) == 3 and first[1] == 1 else 0
    if first[at] != 1:
        raise unreadable_file_error(
            f"{entry.description} is a batch of {first[at]} texts. Save only one text."
        )
    return first[:at] + first[at + 1 :]


def _check_sizes(sizes: tuple[int, int, int, int], count: int) -> None:
    if problem := describe_excessive_size(sizes):
        raise unreadable_file_error(problem)
    free = usable_bytes(Device.CPU)
    if MEMORY_COPIES * count > free:
        needed = f"{MEMORY_COPIES * count / 2**30:,.1f} GiB of memory"
        raise unreadable_file_error(
            f"Opening the file needs {needed}, but only {free / 2**30:,.1f} GiB is available. "
            "Save fewer layers or heads."
        )


def describe_excessive_size(sizes: tuple[int, int, int, int]) -> str:
    """Return a sentence about the first of the sizes [layer, head, query, key] above its limit."""
    limits = (MAX_LAYERS, MAX_VALUES["heads"], MAX_TOKENS, MAX_TOKENS)
    names = ("layers", "heads", "queries", "keys")
    shape = " × ".join(f"{size:,}" for size in sizes)
    for size, largest, name in zip(sizes, limits, names, strict=True):
        if size > largest:
            return f"Attention of shape {shape} has {size:,} {name}; the maximum is {largest:,}."
    return ""


TOKEN_ARRAY_NAMES = ("tokens", "words", "labels")
QUERY_ARRAY_NAMES = ("query_tokens", "queries")
KEY_ARRAY_NAMES = ("key_tokens", "keys")
MAX_TOKEN_LENGTH = 200
SEPARATE_NUMBERING_NOTICE = (
    "Queries and keys are numbered separately, each from 1. If the queries are the last tokens of "
    "the same text, save the tokens of the whole text as “tokens”."
)


def add_tokens(
    path: Path, captured: CapturedAttention, texts: Texts
) -> tuple[CapturedAttention, str]:
    """Add tokens from the file, or else from a file next to it, to captured attention.

    If there are fewer queries than keys, tokens without an axis belong to one text, and the queries
    are its last tokens. Tokens that are given only for the keys belong to a different text.

    Returns
    -------
    CapturedAttention
        The attention, with the tokens if their number matches the axis.
    str
        A notice that tokens do not match or that positions are numbered, or an empty string.
    """
    found = texts or _read_adjacent_tokens(path)
    both, queries, keys = (
        _find_tokens(found, names)
        for names in (TOKEN_ARRAY_NAMES, QUERY_ARRAY_NAMES, KEY_ARRAY_NAMES)
    )
    if len(found) == 1 and not (both or queries or keys):
        (both,) = found.values()
    fitting = with_tokens(captured, both, queries, keys)
    queries, keys = queries or both, keys or both
    has_some = bool(fitting.query_tokens or fitting.key_tokens)
    if not (queries or keys) and captured.queries < captured.keys:
        return fitting, SEPARATE_NUMBERING_NOTICE
    if has_some or not (queries or keys):
        return fitting, ""
    counts = f"{len(queries or keys):,} tokens for {captured.queries:,} queries"
    notice = f"Found {counts} and {captured.keys:,} keys, so positions have numbers, not labels."
    return fitting, notice


def with_tokens(
    captured: CapturedAttention,
    both: tuple[str, ...],
    queries: tuple[str, ...],
    keys: tuple[str, ...],
) -> CapturedAttention:
    """Return captured attention with the tokens that match the sizes of its axes.

    Parameters
    ----------
    both : tuple of str
        Tokens of one text, to which the queries and the keys belong.
    queries, keys : tuple of str
        Tokens of only one axis. If there are only tokens of the keys, the queries are numbered.
    """
    if keys and not queries and not both:
        queries = numbered_labels(captured.queries)
    queries, keys = queries or both, keys or both
    return replace(
        captured,
        query_tokens=queries if len(queries) == captured.queries else (),
        key_tokens=keys if len(keys) == captured.keys else (),
    )


def _find_tokens(found: Texts, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens with the first matching name, comparing only the last dotted part."""
    by_last = {name.rpartition(".")[2].lower(): words for name, words in found.items()}
    words = next((by_last[name] for name in names if name in by_last), ())
    return label_tokens([word[:MAX_TOKEN_LENGTH] for word in words])


def _read_adjacent_tokens(path: Path) -> Texts:
    """Read tokens from a JSON file, or a text file with one token per line, with the same stem."""
    for suffix in (".tokens.json", ".tokens.txt", ".json", ".txt"):
        adjacent = path.with_name(path.stem + suffix)
        if adjacent.is_file():
            return _read_token_file(adjacent)
    return {}


def _read_token_file(path: Path) -> Texts:
    with convert_read_errors(path):
        with open_regular_file(path) as file:
            content = file.read(MAX_TEXT_CHARACTERS + 1)
        if len(content) > MAX_TEXT_CHARACTERS:
            raise unreadable_file_error(f"“{path.name}” is too large for a list of tokens.")
        written = content.decode("utf-8-sig")
        if path.suffix != ".json":
            return {"tokens": tuple(written.splitlines())}
        held = json.loads(written)
    named = held if isinstance(held, dict) else {"tokens": held}
    return {str(name): tuple(words) for name, words in named.items() if _is_token_list(words)}


def _is_token_list(words: Any) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)


READERS: dict[str, Callable[[Path], TensorFileContents]] = {
    ".npy": numpy_files.list_npy_arrays,
    ".npz": numpy_files.list_npz_arrays,
    ".safetensors": pt_safetensors_files.list_safetensors_arrays,
    ".pt": pt_safetensors_files.list_pt_arrays,
    ".pth": pt_safetensors_files.list_pt_arrays,
    ".bin": pt_safetensors_files.list_pt_arrays,
}


def read_tensor_file(
    path: Path, base: AttentionSpec, tokens: int | None = None
) -> tuple[CapturedAttention | AttentionSpec, str]:
    """Read a tensor file without running code in the file or trusting the sizes that it declares.

    Parameters
    ----------
    base : AttentionSpec
        The current spec, which supplies settings that a file of weights does not contain.
    tokens : int, optional
        Number of tokens in the current text; the mask of a module is cut to this size.

    Returns
    -------
    CapturedAttention or AttentionSpec
        Attention weights, or the spec of a module if the file contains its weights.
    str
        A notice for the user, which may be empty.

    Raises
    ------
    InputError
        With the field ``open`` and a message that states the problem and what to do.
    """
    contents = list_arrays(path)
    if contains_attention_module(contents):
        return spec_from_state_dict(contents, base, tokens)
    return add_tokens(path, read_captured_attention(path.name, contents), contents.texts)


def list_arrays(path: Path) -> TensorFileContents:
    """List the arrays in a tensor file; see `read_tensor_file`."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise unreadable_file_error(
            f"Cannot open “{path.name}”: unsupported file type. Supported: {known}."
        )
    try:
        # Torch and safetensors open paths themselves, and a pipe would block.
        check_regular_file(path)
    except FileNotFoundError as error:
        sentence = f"The file “{path.name}” was not found in {path.absolute().parent}."
        raise unreadable_file_error(sentence) from error
    except OSError as error:
        sentence = f"“{path.name}” could not be opened: {system_error_reason(error)}."
        raise unreadable_file_error(sentence) from error
    return reader(path)
