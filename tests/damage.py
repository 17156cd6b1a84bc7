"""Counts over damaged files and killed programs: ``python -m tests.damage --files 5000``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.damaged_files import damaged
from visualizer.attention.run_from_captured_attention import captured_run
from visualizer.attention.run_from_recorded_numbers import recorded_run
from visualizer.documents.document_file import document_bytes, read_document
from visualizer.documents.embedded_document import find_embedded_document
from visualizer.documents.open_document import open_document
from visualizer.documents.recent_files import recent
from visualizer.documents.recovery_file import recovery_files_of_crashes
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.documents.document_file import SavedDocument

WATCHED = 60
"""So many files are meant to take much memory."""


@dataclass(slots=True)
class Outcome:
    """What became of the files."""

    files: int = 0
    opened: int = 0
    refused: int = 0
    peak: int = 0
    slowest: float = 0.0
    said: set[str] = field(default_factory=set)


def spoil(files: int, seed: int = 1) -> Outcome:
    """Give damaged files to everything that opens files; what is no refusal ends it."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name) / "inner", Path.cwd()
        folder.mkdir()
        os.chdir(folder)
        try:
            for how, content in damaged(files, seed):
                _measured(folder, how, content, outcome)
        finally:
            os.chdir(before)
        left = sorted(path.name for path in Path(name).rglob("*"))
        assert left == ["a.recovery", "inner", "recent.json", "x"], left
    return outcome


def _measured(folder: Path, how: str, content: bytes, outcome: Outcome) -> None:
    """Open a file, and of the first ones and some others watch the memory, which takes long."""
    is_watched = outcome.files < WATCHED or outcome.files % 50 == 0
    if is_watched:
        tracemalloc.start()
    try:
        _open(folder, content, outcome)
    except Exception as error:
        raise AssertionError(f"{how}: {error!r}") from error
    finally:
        if is_watched:
            outcome.peak = max(outcome.peak, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()


def _open(folder: Path, content: bytes, outcome: Outcome) -> None:
    start = time.perf_counter()
    (folder / "x").write_bytes(content)
    inside = find_embedded_document(content)
    by_path = _tried(lambda: open_document(folder / "x"), outcome)
    by_file = _tried(lambda: read_document(io.BytesIO(inside or content)), outcome)
    assert (by_path is None) == (by_file is None)
    (folder / "a.recovery").write_bytes(b"null\n" + content)
    _tried(recovery_files_of_crashes(folder)[0].saved, outcome)
    (folder / "recent.json").write_bytes(content)
    assert recent(folder) == ()
    outcome.files += 1
    outcome.slowest = max(outcome.slowest, time.perf_counter() - start)
    if by_path:
        outcome.opened += 1
        _assert_whole(by_path)
    else:
        outcome.refused += 1


def _tried(opener: Callable[[], SavedDocument], outcome: Outcome) -> SavedDocument | None:
    try:
        return opener()
    except InputError as refused:
        said = refused.sentence
        is_fit_to_be_shown = said.endswith(".") and said.isprintable() and len(said) < 300
        if refused.field != "open" or not is_fit_to_be_shown:
            raise AssertionError(repr(refused)) from refused
        outcome.said.add(said)
        return None


def _assert_whole(saved: SavedDocument) -> None:
    """What opens can be written again, and its numbers are those of its settings."""
    again = read_document(io.BytesIO(document_bytes(saved.document, saved.view)))
    is_same = repr(again.document) == repr(saved.document)  # NaN is no NaN's equal
    assert is_same
    if saved.recorded and not saved.recorded.missing:
        assert recorded_run(saved.document.spec, saved.recorded).trace.names
    if saved.document.captured:
        assert captured_run(saved.document.captured).trace.names


def main() -> None:
    """Run as many as asked for, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2_000, help="damaged files to open")
    parser.add_argument(
        "--kills",
        type=int,
        default=40,
        help="programs to kill while they save, while they export, and while they train",
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.perf_counter()
    outcome = spoil(options.files, options.seed)
    _print(f"{outcome.files:,} damaged files: {outcome.refused:,} refused in a sentence, ")
    _print(f"{outcome.opened:,} opened whole; {outcome.peak / 2**20:.0f} MiB at most, ")
    _print(f"{outcome.slowest:.2f} s for the slowest, {time.perf_counter() - start:.1f} s in all\n")
    if options.kills and hasattr(os, "fork"):
        from tests.support import killed_export as exporting
        from tests.support import killed_saving as saving
        from tests.support import killed_training as training

        for module in (saving, exporting, training):
            start = time.perf_counter()
            count = module.kill_many(options.kills, options.seed)
            said = ", ".join(f"{number} {what}" for what, number in count.items())
            _print(f"{said}: every file whole ({time.perf_counter() - start:.1f} s)\n")


def _print(text: str) -> None:
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
