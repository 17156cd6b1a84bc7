"""The folder of files that the program can do without, and the room that there is for them."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "attention-visualizer"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the program's cache folder; it may not exist yet.

    Raises
    ------
    OSError
        When the user has no home folder.
    """
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():  # what is not is to be ignored, says the XDG specification
        return given / NAME
    try:
        home = Path.home()
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "the user has no home folder") from error
    if sys.platform == "win32":
        local = Path(environment.get("LOCALAPPDATA", ""))
        return (local if local.is_absolute() else home / "AppData" / "Local") / NAME / "cache"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / NAME


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk on which a folder is, or will be made."""
    return shutil.disk_usage(_existing(folder)).free


def is_in_memory(folder: Path) -> bool:
    """Whether what is written to a folder takes memory, as far as the system tells."""
    there = _existing(folder).resolve()
    mounted = {Path(one.mountpoint): one.fstype for one in psutil.disk_partitions(all=True)}
    kinds = (mounted[each] for each in (there, *there.parents) if each in mounted)
    return next(kinds, "") in {"tmpfs", "ramfs"}


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that there is."""
    return next((each for each in (folder, *folder.parents) if each.is_dir()), Path.cwd())
