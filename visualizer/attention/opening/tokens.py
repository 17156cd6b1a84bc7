"""The tokens of captured attention: in its file, or in one beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from visualizer.attention.opening.contents import MOST_LETTERS, reading, refused

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.captured import Captured

    Texts = dict[str, tuple[str, ...]]

BOTH = ("tokens", "words", "labels")
QUERIES = ("query_tokens", "queries")
KEYS = ("key_tokens", "keys")
LONGEST = 200


def with_tokens(path: Path, captured: Captured, texts: Texts) -> tuple[Captured, str]:
    """Name the queries and keys by what is in the file, or else beside it.

    Returns
    -------
    Captured
        With tokens where there are as many as places.
    str
        Which tokens did not fit, in a sentence; empty where all did.
    """
    found = texts or _beside(path)
    both, queries, keys = (_first(found, names) for names in (BOTH, QUERIES, KEYS))
    if len(found) == 1 and not (both or queries or keys):
        (both,) = found.values()
    queries, keys = queries or both, keys or both
    fitting = replace(
        captured,
        query_tokens=queries if len(queries) == captured.queries else (),
        key_tokens=keys if len(keys) == captured.keys else (),
    )
    has_some = bool(fitting.query_tokens or fitting.key_tokens)
    if has_some or not (queries or keys):
        return fitting, ""
    counts = f"{len(queries or keys):,} tokens, and there are {captured.queries:,} queries"
    return fitting, f"There are {counts} and {captured.keys:,} keys, so places are numbered."


def _first(found: Texts, names: tuple[str, ...]) -> tuple[str, ...]:
    """Give a list by what it may be called; of names in dicts the last part counts."""
    by_last = {name.rpartition(".")[2].lower(): words for name, words in found.items()}
    words = next((by_last[name] for name in names if name in by_last), ())
    return tuple(word[:LONGEST] for word in words)


def _beside(path: Path) -> Texts:
    """Read tokens from a file of the same name: JSON, or a token a line."""
    for suffix in (".tokens.json", ".tokens.txt", ".json", ".txt"):
        beside = path.with_name(path.stem + suffix)
        if beside.is_file():
            return _read(beside)
    return {}


def _read(path: Path) -> Texts:
    with reading(path):
        if path.stat().st_size > MOST_LETTERS:
            raise refused(f"“{path.name}” is too long to be a list of tokens.")
        written = path.read_text(encoding="utf-8-sig")
        if path.suffix != ".json":
            return {"tokens": tuple(written.splitlines())}
        held = json.loads(written)
    named = held if isinstance(held, dict) else {"tokens": held}
    return {str(name): tuple(words) for name, words in named.items() if _is_text(words)}


def _is_text(words: Any) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)
