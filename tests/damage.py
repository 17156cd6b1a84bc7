"""Opens damaged files and kills programs: ``python -m tests.damage --files 5000``."""

from __future__ import annotations

import argparse
import io
import os
import random
import sys
import tempfile
import time
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tests.benchmarks.stand import application
from tests.support.damaged_files import damaged, flip, lose, put_in, splice
from tests.support.damaged_run_folders import damaged_runs, made_whole
from tests.support.damaged_settings import damaged_settings, read_all, store, window
from tests.support.screens import present
from tests.support.small_trainings import rows_of
from tests.support.tensor_files import WRITERS, attention
from visualizer.attention.captured_run import create_captured_run, create_recorded_run
from visualizer.documents.document_file import document_bytes, read_document
from visualizer.documents.embedded_document import find_embedded_document
from visualizer.documents.open_document import open_document
from visualizer.documents.recent_files import load_recent_files
from visualizer.documents.recovery_file import find_crash_recovery_files
from visualizer.errors import InputError
from visualizer.file_opening import read_file
from visualizer.lab.runs.store import read_losses
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_run import DivergedError
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.documents.document_file import SavedDocument

SPOILS_OF_BYTES = (flip, lose, put_in, splice)
WATCHED = 60
"""Number of files whose memory use is measured; hostile files come first."""


@dataclass(slots=True)
class Outcome:
    """Counts and limits found while opening the files."""

    files: int = 0
    opened: int = 0
    refused: int = 0
    peak: int = 0
    slowest: float = 0.0
    said: set[str] = field(default_factory=set)


def spoil(files: int, seed: int = 1) -> Outcome:
    """Open damaged files with all functions that open files; each is rejected or valid."""
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
    """Open a file; for the first files and a few others, also measure the memory, which is slow."""
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
    _tried(find_crash_recovery_files(folder)[0].read, outcome)
    (folder / "recent.json").write_bytes(content)
    assert load_recent_files(folder) == ()
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
        if refused.field != "open":
            raise AssertionError(repr(refused)) from refused
        _assert_fit_to_be_shown(refused.sentence)
        outcome.said.add(refused.sentence)
        return None


def _assert_fit_to_be_shown(sentence: str) -> None:
    assert sentence.endswith("."), sentence
    assert sentence.isprintable(), repr(sentence)
    assert len(sentence) < 300, sentence


def _assert_whole(saved: SavedDocument) -> None:
    """Check that a document can be saved and shown, and that its numbers match its settings."""
    again = read_document(io.BytesIO(document_bytes(saved.document, saved.view)))
    # Strings are compared because NaN does not equal NaN.
    is_same = repr(again.document) == repr(saved.document)
    assert is_same
    if saved.recorded and not saved.recorded.missing:
        assert create_recorded_run(saved.document.spec, saved.recorded).trace.names
    if saved.document.captured:
        assert create_captured_run(saved.document.captured).trace.names
    wrong = saved.document.setting_problems()
    refused = InputError(wrong[0].field, wrong[0].sentence, wrong[0].remedy) if wrong else None
    assert present(saved.document, saved.view, None, refused, False, None).panels


def spoil_runs(runs: int, seed: int = 1) -> Outcome:
    """Open damaged run folders as the lab does, and continue training.

    Every run must be rejected with a message or be usable.
    """
    outcome = Outcome()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        made_whole(whole)
        for how, run in damaged_runs(whole, Path(name) / "damaged", runs, seed):
            start = time.perf_counter()
            outcome.files += 1
            try:
                _open_run(RunFolder(run))
                outcome.opened += 1
            except InputError as refused:
                _assert_fit_to_be_shown(refused.sentence.replace(str(run), ""))
                outcome.refused += 1
                outcome.said.add(refused.sentence)
            except Exception as error:
                raise AssertionError(f"{how}: {error!r}") from error
            outcome.slowest = max(outcome.slowest, time.perf_counter() - start)
    return outcome


def _open_run(folder: RunFolder) -> None:
    """Read everything in a run, and continue the training if possible."""
    assert read_losses(folder.path).steps is not None
    opened = OpenedRun(folder, is_held=False)
    try:
        running, last = opened.running, opened.metadata.settings.steps
        assert all(step <= last for step in opened.snapshot_steps())
        refused = [step for step in opened.snapshot_steps() if not _is_read(opened, step)]
        if running and not running.is_done:
            opened.acquire_lock()
            with suppress(DivergedError):  # the weights may be any numbers
                running.train_one_step()
            running.save_checkpoint()
        steps = [row.step for row in rows_of(folder.path)]
        assert steps == sorted({*steps})
        assert all(0 <= step <= last for step in steps) or running is None
        if refused:
            opened.model_at(refused[0])
    finally:
        opened.close()


def _is_read(opened: OpenedRun, step: int) -> bool:
    try:
        opened.model_at(step)
    except InputError:
        return False
    return True


def spoil_tensor_files(files: int, seed: int = 1) -> Outcome:
    """Open damaged files of weights, attention and text; each must be rejected or valid."""
    outcome, chance = Outcome(), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for write in WRITERS.values():
            write(folder, attention((2, 3, 4, 4)))
        (folder / "a.txt").write_text("Ein kurzer Text für alle.", encoding="utf-8")
        whole = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        for number in range(files):
            path, spoil = folder / chance.choice([*whole]), chance.choice(SPOILS_OF_BYTES)
            start = time.perf_counter()
            path.write_bytes(spoil(chance, whole[path.name], whole))
            outcome.files += 1
            try:
                read_file(path, Document())
                outcome.opened += 1
            except InputError as refused:
                _assert_fit_to_be_shown(refused.sentence.replace(name, ""))
                outcome.refused += 1
            except Exception as error:
                how = f"{number}, {path.name}, {spoil.__name__}"
                raise AssertionError(f"{how}: {error!r}") from error
            outcome.slowest = max(outcome.slowest, time.perf_counter() - start)
    return outcome


def spoil_settings(files: int, seed: int = 1) -> Outcome:
    """Load damaged settings; a window without a valid stored geometry gets the default."""
    outcome = Outcome()
    made = window()
    stored = store(made)
    for how, content in damaged_settings(stored.read_bytes(), files, seed):
        start = time.perf_counter()
        stored.write_bytes(content)
        outcome.files += 1
        try:
            is_restored = read_all(made)
        except Exception as error:
            raise AssertionError(f"{how}: {error!r}") from error
        outcome.opened += is_restored
        outcome.refused += not is_restored
        outcome.slowest = max(outcome.slowest, time.perf_counter() - start)
    return outcome


def main() -> None:
    """Run the requested numbers of checks, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2_000, help="damaged files to open")
    parser.add_argument(
        "--kills",
        type=int,
        default=40,
        help="programs to kill while they save, while they export, and while they train",
    )
    parser.add_argument("--runs", type=int, default=400, help="damaged run folders to open")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.perf_counter()
    outcome = spoil(options.files, options.seed)
    _print(f"{outcome.files:,} damaged files: {outcome.refused:,} refused in a sentence, ")
    _print(f"{outcome.opened:,} opened whole; {outcome.peak / 2**20:.0f} MiB at most, ")
    _print(f"{outcome.slowest:.2f} s for the slowest, {time.perf_counter() - start:.1f} s in all\n")
    outcome = spoil_runs(options.runs, options.seed)
    _print(f"{outcome.files:,} damaged run folders: {outcome.refused:,} refused in a sentence, ")
    _print(f"{outcome.opened:,} opened; {outcome.slowest:.2f} s for the slowest\n")
    outcome = spoil_tensor_files(options.files, options.seed)
    _print(f"{outcome.files:,} damaged tensor and text files: {outcome.refused:,} refused in a ")
    _print(f"sentence, {outcome.opened:,} opened; {outcome.slowest:.2f} s for the slowest\n")
    if options.kills and hasattr(os, "fork"):
        from tests.support import killed_export as exporting
        from tests.support import killed_saving as saving
        from tests.support import killed_training as training
        from tests.support import killed_training_process as training_process

        for module in (saving, exporting, training, training_process):
            start = time.perf_counter()
            count = module.kill_many(options.kills, options.seed)
            said = ", ".join(f"{number} {what}" for what, number in count.items())
            _print(f"{said}: every file whole ({time.perf_counter() - start:.1f} s)\n")
    # This check is last, because the programs that are killed during an export create their own
    # QApplication.
    with application():
        outcome = spoil_settings(options.files, options.seed)
    _print(f"{outcome.files:,} damaged settings: {outcome.opened:,} with a window’s whole place; ")
    _print(f"{outcome.slowest:.2f} s for the slowest\n")


def _print(text: str) -> None:
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
