"""The list of recently opened or saved files, kept in the program's data folder."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from visualizer.storage.atomic_file import write
from visualizer.storage.link_safe_folder import ContainedFolder
from visualizer.storage.private_folder import make_private_folder
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

MOST = 10
_NAME = "recent.json"
_LARGEST = 2**20


def recent(folder: Path) -> tuple[Path, ...]:
    """Return the files, newest first; none if the list is damaged."""
    kind = type(folder)
    try:
        with open_regular_file(folder / _NAME) as file:
            given = json.loads(file.read(_LARGEST).decode("utf-8", "surrogatepass"))
    except (OSError, ValueError, RecursionError):
        return ()
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
    make_private_folder(folder)
    file = ContainedFolder(folder, is_private=True).file(_NAME)
    write(file, partial(_fill, paths), waits_for_disk=False)  # the window's thread writes it
    return paths


def _fill(paths: tuple[Path, ...], file: BinaryIO) -> None:
    text = json.dumps([str(path) for path in paths], ensure_ascii=False, indent=1)
    file.write(text.encode("utf-8", "surrogatepass"))
