"""Small JSON files in the program's own folders, which are the user's alone.

The window's thread reads and writes them: none waits for the disk, and one that is damaged counts
as missing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from visualizer.errors import InputError, reason_of
from visualizer.storage.atomic_file import write
from visualizer.storage.link_safe_folder import ContainedFolder
from visualizer.storage.private_folder import make_private_folder
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 2**20
"""In bytes; what is longer is cut, and so damaged."""
_ENCODING = ("utf-8", "surrogatepass")
"""Names of files may hold what no text does."""


def read_private_json(path: Path) -> object:
    """Return the content of a file; None where there is none, or it is damaged."""
    try:
        with open_regular_file(path) as file:
            found: object = json.loads(file.read(LARGEST).decode(*_ENCODING))
            return found
    except (OSError, ValueError, RecursionError):
        return None


def write_private_json(path: Path, content: object) -> None:
    """Replace the content of a file, whose folder is made where there is none.

    Raises
    ------
    InputError
        Of ``export`` with the system's reason, when the folder cannot be written.
    """
    text = json.dumps(content, ensure_ascii=False, indent=1).encode(*_ENCODING)
    try:
        make_private_folder(path.parent)
    except OSError as error:
        sentence = f"“{path.name}” could not be written to {path.parent}: {reason_of(error)}."
        raise InputError("export", sentence) from error
    file = ContainedFolder(path.parent, is_private=True).file(path.name)
    write(file, lambda file: file.write(text), waits_for_disk=False)
