"""The program's folders for data, settings and cached files, and the free disk space."""

from __future__ import annotations

import errno
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from platformdirs import PlatformDirs

FOLDER_NAME = "attention-visualizer"
SETTINGS = "settings.json"
_OLD_NAME = "Attention Visualizer/Attention Visualizer"
"""Name of the folders in earlier versions, in which Qt named them (organization and program)."""


def data_folder() -> Path:
    """Return the folder for the user's data, which may not exist yet.

    Until `move_old_folders` has moved it, this is the folder of earlier versions.

    Raises
    ------
    OSError
        If the user has no home folder.
    """
    old, new = _platform_folders(_OLD_NAME)[0], _platform_folders(FOLDER_NAME)[0]
    return old if old.is_dir() and not new.exists() else new


def settings_path() -> Path:
    """Return the path of the settings file, which may not exist yet.

    Raises
    ------
    OSError
        If the user has no home folder.
    """
    return _platform_folders(FOLDER_NAME)[1] / SETTINGS


def cache_folder() -> Path:
    """Return the folder for cached files, which may not exist yet.

    Raises
    ------
    OSError
        If the user has no home folder.
    """
    return _platform_folders(FOLDER_NAME)[2]


def log_folder() -> Path:
    """Return the folder for log files, which may not exist yet.

    Raises
    ------
    OSError
        If the user has no home folder.
    """
    try:
        return PlatformDirs(FOLDER_NAME, appauthor=False).user_log_path
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "the user has no home folder") from error


def move_old_folders() -> None:
    """Move the data and settings of earlier versions, except data that a process is using.

    A link replaces the old data folder, because documents refer to the weights of runs in that
    folder.
    """
    with suppress(OSError):
        old_data, old_settings, _ = _platform_folders(_OLD_NAME)
        data, settings, _ = _platform_folders(FOLDER_NAME)
        if (old_settings / SETTINGS).is_file() and not (settings / SETTINGS).exists():
            settings.mkdir(0o700, parents=True, exist_ok=True)
            (old_settings / SETTINGS).rename(settings / SETTINGS)
        if old_data.is_dir() and not data.exists() and not _is_data_folder_in_use(old_data):
            old_data.rename(data)
            old_data.symlink_to(data, target_is_directory=True)


def _is_data_folder_in_use(data: Path) -> bool:
    from visualizer.storage.file_lock import is_held  # imported here because it is needed only once

    locks_of_recovery_files, locks_of_runs = data.glob("*/*.lock"), data.glob("*/*/lock")
    return any(map(is_held, (*locks_of_recovery_files, *locks_of_runs)))


def _platform_folders(name: str) -> tuple[Path, Path, Path]:
    """Return the folders for data, settings and cached files."""
    folders = PlatformDirs(name, appauthor=False, roaming=True)
    try:
        data, settings = folders.user_data_path, folders.user_config_path
        cache = folders.user_cache_path
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "the user has no home folder") from error
    if name == _OLD_NAME and sys.platform == "darwin":
        settings = Path.home() / "Library" / "Preferences" / name
    if name == _OLD_NAME and sys.platform == "win32":
        settings = PlatformDirs(name, appauthor=False).user_config_path
    return data, settings, cache


def free_bytes(folder: Path) -> int:
    """Return the number of free bytes on the disk that contains a folder, existing or not."""
    return shutil.disk_usage(_nearest_existing_folder(folder)).free


def is_memory_backed(folder: Path) -> bool:
    """Return whether files in a folder are stored in memory (tmpfs), if the system reports it."""
    import psutil  # importing it at the top would delay every start

    there = _nearest_existing_folder(folder).resolve()
    mounted = {Path(one.mountpoint): one.fstype for one in psutil.disk_partitions(all=True)}
    kinds = (mounted[each] for each in (there, *there.parents) if each in mounted)
    return next(kinds, "") in {"tmpfs", "ramfs"}


def _nearest_existing_folder(folder: Path) -> Path:
    """Return a folder if it exists, otherwise its nearest existing parent."""
    return next((each for each in (folder, *folder.parents) if each.is_dir()), Path.cwd())
