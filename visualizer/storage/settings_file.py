"""Settings file, and other small JSON files that only the user can access.

Qt's `QSettings` waits for the disk on the thread that stores a value, which is the GUI thread.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.storage.regular_file import open_regular_file, read_file_version
from visualizer.storage.symlink_safe_folder import SymlinkSafeFolder, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.storage.regular_file import FileVersion

MAX_BYTES = 2**20
"""Maximum size of a file, in bytes."""
_ENCODING = ("utf-8", "surrogatepass")
"""Encoding and error handler; file names may contain lone surrogates."""


def read_private_json(path: Path) -> object:
    """Return the content of a file, or None if the file does not exist or is damaged."""
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
    file = SymlinkSafeFolder(target.parent, is_private=True).file(target.name)
    file.write(lambda opened: opened.write(text), waits_for_disk=False)


Setting = str | int | bool


class SettingsFile:
    """The values in a settings file, and values that have not been written yet.

    If two programs store values at the same time, the values of one program are lost.

    Parameters
    ----------
    path : Path
        An existing or new file. A damaged file is treated as empty; values that are not a `Setting`
        are ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_values = dict[str, Setting]()
        self._version: FileVersion | None = None
        self._unwritten_values = dict[str, Setting]()

    def value(self, key: str) -> Setting | None:
        """Return the value of a key, or None if the key has no value."""
        with suppress(OSError):  # the most recently read values are the best available
            self._reload_if_changed()
        return (self._read_values | self._unwritten_values).get(key)

    def store(self, values: Mapping[str, Setting]) -> None:
        """Store values; the values of other keys are unchanged.

        Raises
        ------
        OSError
            If the file cannot be read or written. The values are then kept in memory and written
            together with the next values.
        """
        self._unwritten_values |= values
        self._reload_if_changed()
        changed = self._read_values | self._unwritten_values
        if repr(changed) != repr(self._read_values):  # unlike ==, repr distinguishes 1 from True
            write_private_json(self.path, changed)
        self._unwritten_values.clear()

    def clear(self) -> None:
        """Delete the file.

        Raises
        ------
        OSError
            If the file cannot be deleted.
        """
        self.path.unlink(missing_ok=True)
        self._unwritten_values.clear()

    def _reload_if_changed(self) -> None:
        """Read the file again if it has changed; if this fails, the previous values are kept."""
        version = read_file_version(self.path)
        if version != self._version:
            found = read_private_json(self.path)
            pairs = found.items() if isinstance(found, dict) else ()
            self._read_values = {key: value for key, value in pairs if isinstance(value, Setting)}
            self._version = version
