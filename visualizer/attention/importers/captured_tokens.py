"""Tokens of captured attention, read from its file or from a file next to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from visualizer.attention.captured_attention import position_labels
from visualizer.attention.importers.file_contents import MAX_TEXT_CHARACTERS
from visualizer.attention.importers.reader_checks_and_errors import (
    as_input_errors,
    unreadable_file_error,
)
from visualizer.attention.token_labels import readable_tokens
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.captured_attention import CapturedAttention

    Texts = dict[str, tuple[str, ...]]

BOTH = ("tokens", "words", "labels")
QUERIES = ("query_tokens", "queries")
KEYS = ("key_tokens", "keys")
MAX_TOKEN_LENGTH = 200
NUMBERED_APART = (
    "Queries and keys are numbered separately, each from 1. If the queries are the last tokens of "
    "the same text, save the tokens of the whole text as “tokens”."
)


def with_tokens(
    path: Path, captured: CapturedAttention, texts: Texts
) -> tuple[CapturedAttention, str]:
    """Add tokens from the file, or else from a file next to it, to captured attention.

    If there are fewer queries than keys, tokens given for both belong to one text, and the queries
    are its last tokens. Tokens given for the keys only belong to a different text.

    Returns
    -------
    CapturedAttention
        With tokens on each axis whose size matches their number.
    str
        A notice if tokens do not match or about the numbering of positions; else empty.
    """
    found = texts or _read_adjacent_tokens(path)
    both, queries, keys = (_find_tokens(found, names) for names in (BOTH, QUERIES, KEYS))
    if len(found) == 1 and not (both or queries or keys):
        (both,) = found.values()
    if keys and not queries and not both:
        queries = position_labels(captured.queries)
    queries, keys = queries or both, keys or both
    fitting = replace(
        captured,
        query_tokens=queries if len(queries) == captured.queries else (),
        key_tokens=keys if len(keys) == captured.keys else (),
    )
    has_some = bool(fitting.query_tokens or fitting.key_tokens)
    if not (queries or keys) and captured.queries < captured.keys:
        return fitting, NUMBERED_APART
    if has_some or not (queries or keys):
        return fitting, ""
    counts = f"{len(queries or keys):,} tokens for {captured.queries:,} queries"
    notice = f"Found {counts} and {captured.keys:,} keys, so positions are numbered instead."
    return fitting, notice


def _find_tokens(found: Texts, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens of the first matching name; in dotted names, only the last part counts."""
    by_last = {name.rpartition(".")[2].lower(): words for name, words in found.items()}
    words = next((by_last[name] for name in names if name in by_last), ())
    return readable_tokens([word[:MAX_TOKEN_LENGTH] for word in words])


def _read_adjacent_tokens(path: Path) -> Texts:
    """Read tokens from a file with the same stem: JSON, or text with one token per line."""
    for suffix in (".tokens.json", ".tokens.txt", ".json", ".txt"):
        adjacent = path.with_name(path.stem + suffix)
        if adjacent.is_file():
            return _read_tokens(adjacent)
    return {}


def _read_tokens(path: Path) -> Texts:
    with as_input_errors(path):
        with open_regular_file(path) as file:
            content = file.read(MAX_TEXT_CHARACTERS + 1)
        if len(content) > MAX_TEXT_CHARACTERS:
            raise unreadable_file_error(f"“{path.name}” is too large for a list of tokens.")
        written = content.decode("utf-8-sig")
        if path.suffix != ".json":
            return {"tokens": tuple(written.splitlines())}
        held = json.loads(written)
    named = held if isinstance(held, dict) else {"tokens": held}
    return {str(name): tuple(words) for name, words in named.items() if _is_text(words)}


def _is_text(words: Any) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)
