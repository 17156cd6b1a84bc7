"""A file of settings by key, reloaded after another instance of the program has changed it.

Qt's `QSettings` waits for the disk on the thread that stores a value, here the GUI thread.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from visualizer.storage.private_json_file import read_private_json, write_private_json
from visualizer.storage.regular_file import version_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from visualizer.storage.regular_file import FileVersion

Setting = str | int | bool


class SettingsFile:
    """The values in a file, and those that have not been written to it yet.

    If two programs store values at the same moment, those of one are lost.

    Parameters
    ----------
    path : Path
        An existing or new file. A damaged file has no values, and values in it that are not a
        `Setting` are ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_values = dict[str, Setting]()
        self._version: FileVersion | None = None
        self._unwritten_values = dict[str, Setting]()

    def value(self, key: str) -> Setting | None:
        """Return the value of a key; None if it has none."""
        with suppress(OSError):  # the values that were read last are the best available
            self._reload_if_changed()
        return (self._read_values | self._unwritten_values).get(key)

    def store(self, values: Mapping[str, Setting]) -> None:
        """Store values, keeping those of other keys.

        Raises
        ------
        OSError
            If the file cannot be read or written; the values are kept in memory, and written with
            the next ones.
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
            If it cannot be deleted.
        """
        self.path.unlink(missing_ok=True)
        self._unwritten_values.clear()

    def _reload_if_changed(self) -> None:
        """Read the file if it has changed; if it cannot be read, the previous values are kept."""
        version = version_at(self.path)
        if version != self._version:
            found = read_private_json(self.path)
            pairs = found.items() if isinstance(found, dict) else ()
            self._read_values = {key: value for key, value in pairs if isinstance(value, Setting)}
            self._version = version
