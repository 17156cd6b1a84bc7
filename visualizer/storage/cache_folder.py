"""The folder for cached files, and its free disk space."""

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
    """Return the program's cache folder, which may not exist yet.

    Raises
    ------
    OSError
        If the user has no home folder.
    """
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():  # the XDG specification ignores relative paths
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
    """Return the free bytes of the disk of an existing or future folder."""
    return shutil.disk_usage(_nearest_existing(folder)).free


def is_in_memory(folder: Path) -> bool:
    """Whether files in a folder are stored in memory (tmpfs), as far as the system reports."""
    there = _nearest_existing(folder).resolve()
    mounted = {Path(one.mountpoint): one.fstype for one in psutil.disk_partitions(all=True)}
    kinds = (mounted[each] for each in (there, *there.parents) if each in mounted)
    return next(kinds, "") in {"tmpfs", "ramfs"}


def _nearest_existing(folder: Path) -> Path:
    """Return a folder if it exists, otherwise its nearest existing parent."""
    return next((each for each in (folder, *folder.parents) if each.is_dir()), Path.cwd())
