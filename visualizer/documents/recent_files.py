"""The list of recently opened or saved files, kept in the program's data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.storage.private_json_file import read_private_json, write_private_json

if TYPE_CHECKING:
    from pathlib import Path

MOST = 10
_NAME = "recent.json"


def recent(folder: Path) -> tuple[Path, ...]:
    """Return the files, newest first; none if the list is damaged."""
    kind, given = type(folder), read_private_json(folder / _NAME)
    paths = given if isinstance(given, list) else []
    named = [path for path in paths if isinstance(path, str) and path and "\0" not in path]
    return tuple(map(kind, dict.fromkeys(named)))[:MOST]


def remember(folder: Path, path: Path) -> tuple[Path, ...]:
    """Put a file first and return the list.

    Raises
    ------
    InputError
        When the folder cannot be written.
    """
    return _kept(folder, (path.absolute(), *recent(folder)))


def forget(folder: Path, path: Path) -> tuple[Path, ...]:
    """Remove a file, such as one that no longer exists, and return the list."""
    return _kept(folder, tuple(one for one in recent(folder) if one != path.absolute()))


def _kept(folder: Path, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    paths = tuple(dict.fromkeys(paths))[:MOST]
    write_private_json(folder / _NAME, [str(path) for path in paths])
    return paths
