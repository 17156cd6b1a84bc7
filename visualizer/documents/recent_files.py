"""The list of recently opened or saved files, stored in the program's data folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from visualizer.storage.settings_file import read_private_json, write_private_json

MAX_RECENT_FILES = 10
_NAME = "recent.json"


def load_recent_files(folder: Path) -> tuple[Path, ...]:
    """Return the recent files, newest first; none if the list is damaged or cannot be read."""
    with suppress(OSError):
        return _read_recent_files(folder)
    return ()


def add_recent_file(folder: Path, path: Path) -> tuple[Path, ...]:
    """Move or add a file to the top of the list, and return the list.

    Raises
    ------
    OSError
        If the list cannot be read or written.
    """
    return _write_recent_files(folder, (path.absolute(), *_read_recent_files(folder)))


def remove_recent_file(folder: Path, path: Path) -> tuple[Path, ...]:
    """Remove a file, such as one that no longer exists, from the list, and return the list.

    Raises
    ------
    OSError
        If the list cannot be read or written.
    """
    return _write_recent_files(
        folder, tuple(one for one in _read_recent_files(folder) if one != path.absolute())
    )


def _read_recent_files(folder: Path) -> tuple[Path, ...]:
    content = read_private_json(folder / _NAME)
    paths = content if isinstance(content, list) else []
    named = [path for path in paths if isinstance(path, str) and path and "\0" not in path]
    return tuple(map(Path, dict.fromkeys(named)))[:MAX_RECENT_FILES]


def _write_recent_files(folder: Path, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    paths = tuple(dict.fromkeys(paths))[:MAX_RECENT_FILES]
    write_private_json(folder / _NAME, [str(path) for path in paths])
    return paths
