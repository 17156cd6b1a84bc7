"""Small JSON files in the program's own folders, which are accessible to the user only.

The GUI thread reads and writes them, so they are not flushed to disk. Both functions raise
`OSError` if the system denies access.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from visualizer.storage.link_safe_folder import ContainedFolder
from visualizer.storage.private_folder import make_private_folder
from visualizer.storage.regular_file import open_regular_file

MAX_BYTES = 2**20
"""Maximum size of a file."""
_ENCODING = ("utf-8", "surrogatepass")
"""File names may contain lone surrogates."""


def read_private_json(path: Path) -> object:
    """Return the content of a file; None if it does not exist or is damaged."""
    try:
        with open_regular_file(path) as file:
            content = file.read(MAX_BYTES)  # a longer file is damaged anyway
    except FileNotFoundError:
        return None
    try:
        found: object = json.loads(content.decode(*_ENCODING))
    except (ValueError, RecursionError):
        return None
    return found


def write_private_json(path: Path, content: object) -> None:
    """Replace the content of a file or of a link's target; a missing folder is created."""
    text = json.dumps(content, ensure_ascii=False, indent=1).encode(*_ENCODING)
    if len(text) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    make_private_folder(path.parent)
    target = Path(os.path.realpath(path))
    file = ContainedFolder(target.parent, is_private=True).file(target.name)
    file.write(lambda opened: opened.write(text), waits_for_disk=False)
