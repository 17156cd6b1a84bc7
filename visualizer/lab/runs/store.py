"""The stored training runs; each run has a folder, whose name is the name of the run."""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.errors import InputError, system_error_reason
from visualizer.lab.training.loss_history import LossHistory
from visualizer.language.loss_log import (
    MAX_FILE_BYTES,
    create_empty_rows,
    parse_row_blocks,
    rows_to_loss_curves,
)
from visualizer.language.recording import is_recording, read_recording_metadata
from visualizer.language.run_folder import RunFolder, choose_probe_text
from visualizer.storage.atomic_file import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from visualizer.language.recording import RecordingMetadata
    from visualizer.language.run_folder import RunMetadata
    from visualizer.language.training_settings import TrainingSettings
    from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

MAX_PROBE_BYTES = 2**20
"""Maximum size of a stored probe, in bytes."""
_FORBIDDEN_CHARACTERS = set('/\\:*?"<>|\0')


class StoredRun(Struct, frozen=True):
    """The folder of a stored run, and the time of its last training.

    Parameters
    ----------
    changed : float
        Time at which the run was last trained, in seconds since 1970.
    """

    folder: Path
    changed: float

    @property
    def name(self) -> str:
        return self.folder.name


def list_runs(home: Path) -> tuple[StoredRun, ...]:
    """List the runs in a folder, with the newest first."""
    folders = [one for one in home.glob("*") if _metadata_file(one).is_file()]
    found = [StoredRun(one, _last_change(one)) for one in folders]
    return tuple(sorted(found, key=lambda run: (-run.changed, run.name)))


def read_run_metadata(folder: Path) -> RunMetadata | RecordingMetadata:
    """Read the metadata of a run, which was trained in the lab or recorded in another program.

    Raises
    ------
    InputError
        With field ``folder`` if the folder contains no run, or if the run is damaged.
    """
    run = RunFolder(folder)
    return read_recording_metadata(run) if is_recording(run) else run.read_metadata()


def _metadata_file(folder: Path) -> SymlinkSafeFile:
    run = RunFolder(folder)
    return run.recording_file if is_recording(run) else run.metadata_file


def _last_change(folder: Path) -> float:
    found = [0.0]
    for file in (RunFolder(folder).loss_log_file, _metadata_file(folder)):
        with suppress(OSError):  # the run may just have been deleted
            found.append(file.stat().st_mtime)
    return max(found)


def choose_run_folder(home: Path, settings: TrainingSettings, taken: Collection[Path] = ()) -> Path:
    """Return an unused folder for a new run.

    Parameters
    ----------
    taken : collection of Path
        Folders that do not exist yet but will be created.
    """
    name = f"{settings.source.kind}-{settings.model}"
    folders = (home / f"{name}-{number}" for number in itertools.count(1))
    return next(one for one in folders if one not in taken and not os.path.lexists(one))


def rename_run(folder: Path, name: str) -> Path:
    """Rename a run, and return its new folder.

    Raises
    ------
    InputError
        With field ``name`` if the name is not a valid folder name or is already in use.
    """
    name = name.strip()
    if not name or name in {".", ".."} or _FORBIDDEN_CHARACTERS & set(name):
        raise InputError("name", 'A run name cannot be empty or contain / \\ : * ? " < > |')
    target = folder.with_name(name)
    if target == folder:
        return folder
    if os.path.lexists(target):
        raise InputError("name", f"A run named “{name}” already exists. Choose another name.")
    try:
        return folder.rename(target)
    except OSError as error:
        reason = system_error_reason(error)
        raise InputError("name", f"“{folder.name}” could not be renamed: {reason}.") from error


def delete_run(folder: Path) -> None:
    """Delete a run with its files, without following links; this can take several seconds.

    Raises
    ------
    InputError
        With field ``folder`` if the folder is not that of a run or could not be deleted.
    """
    metadata_file = _metadata_file(folder)
    if not metadata_file.is_file():  # other folders of the user must never be deleted
        raise InputError("folder", f"“{folder}” does not contain a run.")
    if folder.is_symlink():
        sentence = f"“{folder.name}” is a link to another folder. Delete that folder instead."
        raise InputError("folder", sentence)
    try:
        if is_recording(RunFolder(folder)):  # the user may have chosen a folder with other files
            RunFolder(folder).delete_recording()
            return
        for path in [*folder.iterdir()]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != metadata_file.path:
                path.unlink()
        # The metadata is deleted last, so that a partly deleted folder is still a run.
        shutil.rmtree(folder)
    except OSError as error:
        reason = system_error_reason(error)
        raise InputError("folder", f"“{folder.name}” could not be deleted: {reason}.") from error


def store_probe(folder: Path, text: str) -> None:
    """Store the last probe of a run, unless its folder cannot be written to."""
    if text and RunFolder(folder).metadata_file.is_file():
        with suppress(InputError):
            probe = RunFolder(folder).probe_file
            write_atomically(probe, lambda file: file.write(text.encode()), waits_for_disk=False)


def read_stored_probe(folder: Path) -> str:
    """Return the last probe of a run, or "" if it is missing or invalid."""
    try:
        return RunFolder(folder).probe_file.read_bytes(MAX_PROBE_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def read_losses(folder: Path, pause: Callable[[], None] = lambda: None) -> LossHistory:
    """Read the losses of a run.

    Parameters
    ----------
    pause : callable
        Called after every thousand steps, so that the thread can yield to other threads.

    Raises
    ------
    InputError
        If the losses cannot be read.
    """
    try:
        with TextIOWrapper(RunFolder(folder).loss_log_file.open(MAX_FILE_BYTES), "utf-8") as lines:
            parts = [create_empty_rows()]
            for table in parse_row_blocks(lines):
                parts.append(table)
                pause()
    except (OSError, UnicodeDecodeError) as error:
        reason = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        sentence = f"Cannot read the losses of “{folder.name}”{reason}."
        raise InputError("losses", sentence) from error
    return LossHistory.of(**rows_to_loss_curves(np.concatenate(parts)))


def choose_initial_probe(folder: Path, sample: str, settings: TrainingSettings) -> str:
    """Return the first probe of an opened run: the stored probe, or the beginning of the sample."""
    return read_stored_probe(folder) or choose_probe_text(sample, settings)
