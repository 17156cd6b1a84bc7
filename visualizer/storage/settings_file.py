"""A file of settings by key, read again when another program of the user's has changed it.

Qt's `QSettings` waits for the disk on the thread that stores a value, which is the window's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.storage.private_json_file import read_private_json, write_private_json
from visualizer.storage.regular_file import version_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from visualizer.storage.regular_file import FileVersion

Setting = str | int | bool
"""The types of a value that is stored; of the file, a value may have any other."""


class SettingsFile:
    """The values of a file; those that cannot be written are kept as long as this object is.

    Parameters
    ----------
    path : Path
        An existing or new file. One that is damaged has no values.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values: dict[str, object] = {}
        self._version: FileVersion | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The keys that have a value."""
        return frozenset(self._current())

    def value(self, key: str) -> object:
        """Return the value of a key, of any type; None where it has none."""
        return self._current().get(key)

    def store(self, values: Mapping[str, Setting]) -> None:
        """Store values, and leave those of other keys as they are.

        Raises
        ------
        InputError
            When the file cannot be written; the values are kept in memory.
        """
        self._values = {**self._current(), **values}
        write_private_json(self.path, self._values)

    def clear(self) -> None:
        """Delete the file.

        Raises
        ------
        OSError
            When it cannot be deleted.
        """
        self.path.unlink(missing_ok=True)
        self._values = {}

    def _current(self) -> dict[str, object]:
        version = self._version_now()
        if version != self._version:
            found = read_private_json(self.path)
            self._values = found if isinstance(found, dict) else {}
            self._version = version
        return self._values

    def _version_now(self) -> FileVersion | None:
        try:
            return version_at(self.path)
        except OSError:  # of a folder that may not be read
            return None
