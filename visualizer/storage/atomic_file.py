"""Atomic file writes: to a temporary file in the same folder, then renamed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from visualizer.errors import InputError, is_out_of_memory, reason_of
from visualizer.storage.link_safe_folder import ContainedFile

if TYPE_CHECKING:
    from collections.abc import Callable


def write(
    place: Path | ContainedFile,
    fill: Callable[[BinaryIO], object],
    *,
    waits_for_disk: bool = True,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Write a file atomically; if that fails, an existing file is unchanged.

    Parameters
    ----------
    place : Path or ContainedFile
        An existing or new file. If a path is a link, its target is written; a contained file that
        is a link is refused.
    fill : callable
        Writes the content into a binary file.
    waits_for_disk, check
        As of `ContainedFile.write`.

    Raises
    ------
    InputError
        Of ``export`` with the system's reason, when the folder cannot be written or the disk is
        full; of ``memory`` when the content does not fit into it.
    """
    path = place if isinstance(place, Path) else place.path
    file = ContainedFile.at(Path(os.path.realpath(place))) if isinstance(place, Path) else place
    try:
        file.write(fill, waits_for_disk=waits_for_disk, check=check)
    except OSError as error:
        raise InputError("export", _refusal(path, file.path, error)) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sentence = f"There is not enough memory to write “{path.name}”. Use a shorter text."
        raise InputError("memory", sentence) from error


def _refusal(path: Path, target: Path, error: OSError) -> str:
    is_elsewhere = os.path.realpath(path.parent) != os.path.realpath(target.parent)
    folder = target.parent if is_elsewhere or path.parent == Path() else path.parent
    return f"“{path.name}” could not be written to {folder}: {reason_of(error)}."
