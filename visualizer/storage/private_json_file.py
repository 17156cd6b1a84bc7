"""Small JSON files in the program's own folders, which are the user's alone.

The window's thread reads and writes them, so that none waits for the disk. Both functions raise
`OSError` where the system refuses.
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
"""In bytes; none is longer."""
_ENCODING = ("utf-8", "surrogatepass")
"""Names of files may hold what no text does."""


def read_private_json(path: Path) -> object:
    """Return the content of a file; None where there is none, or it is damaged."""
    try:
        with open_regular_file(path) as file:
            content = file.read(MAX_BYTES)  # what is longer is damaged by that
    except FileNotFoundError:
        return None
    try:
        found: object = json.loads(content.decode(*_ENCODING))
    except (ValueError, RecursionError):
        return None
    return found


def write_private_json(path: Path, content: object) -> None:
    """Replace the content of a file, or of that it is a link to; its folder may be missing."""
    text = json.dumps(content, ensure_ascii=False, indent=1).encode(*_ENCODING)
    if len(text) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    make_private_folder(path.parent)
    target = Path(os.path.realpath(path))
    file = ContainedFolder(target.parent, is_private=True).file(target.name)
    file.write(lambda opened: opened.write(text), waits_for_disk=False)
