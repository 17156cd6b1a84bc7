"""Writes files atomically: a temporary file in the same folder replaces the target."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from visualizer.errors import InputError, is_out_of_memory, system_error_reason
from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if TYPE_CHECKING:
    from collections.abc import Callable


def write_atomically(
    place: Path | SymlinkSafeFile,
    fill: Callable[[BinaryIO], object],
    *,
    waits_for_disk: bool = True,
    removes_leftovers: bool = True,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Write a file atomically; if this fails, an existing file is unchanged.

    Parameters
    ----------
    place : Path or SymlinkSafeFile
        An existing or new file. If a path is a link, the target of the link is written; a
        `SymlinkSafeFile` that is a link is rejected.
    fill : callable
        Function that writes the content to a binary file.
    waits_for_disk, removes_leftovers, check
        As in `SymlinkSafeFile.write`.

    Raises
    ------
    InputError
        With field ``export`` and the system's reason if the file cannot be written; with field
        ``memory`` if there is not enough memory.
    """
    path = place if isinstance(place, Path) else place.path
    file = (
        SymlinkSafeFile.from_path(Path(os.path.realpath(place)))
        if isinstance(place, Path)
        else place
    )
    try:
        file.write(
            fill, waits_for_disk=waits_for_disk, removes_leftovers=removes_leftovers, check=check
        )
    except OSError as error:
        raise InputError("export", _write_error_message(path, file.path, error)) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sentence = f"There is not enough memory to write “{path.name}”. Use a shorter text."
        raise InputError("memory", sentence) from error


def _write_error_message(path: Path, target: Path, error: OSError) -> str:
    is_elsewhere = os.path.realpath(path.parent) != os.path.realpath(target.parent)
    folder = target.parent if is_elsewhere or path.parent == Path() else path.parent
    return f"Cannot write “{path.name}” to {folder}: {system_error_reason(error)}."
