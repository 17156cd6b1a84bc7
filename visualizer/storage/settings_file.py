"""A file of settings by key, read again when another program of the user's has changed it.

Qt's `QSettings` waits for the disk on the thread that stores a value, which is the window's.
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
    """The values of a file, and those that could not be written to it so far.

    Of two programs that store at the same moment, the values of one are lost.

    Parameters
    ----------
    path : Path
        An existing or new file. One that is damaged has no values, and what is no `Setting` in it
        is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = dict[str, Setting]()
        self._version: FileVersion | None = None
        self._unwritten = dict[str, Setting]()

    def value(self, key: str) -> Setting | None:
        """Return the value of a key; None where it has none."""
        with suppress(OSError):  # what was read last is as good as can be
            self._read_again()
        return (self._read | self._unwritten).get(key)

    def store(self, values: Mapping[str, Setting]) -> None:
        """Store values, and leave those of other keys as they are.

        Raises
        ------
        OSError
            When the file cannot be read or written; the values are kept in memory, and written
            with the next ones.
        """
        self._unwritten |= values
        self._read_again()
        changed = self._read | self._unwritten
        if repr(changed) != repr(self._read):  # 1 is not True here
            write_private_json(self.path, changed)
        self._unwritten.clear()

    def clear(self) -> None:
        """Delete the file.

        Raises
        ------
        OSError
            When it cannot be deleted.
        """
        self.path.unlink(missing_ok=True)
        self._unwritten.clear()

    def _read_again(self) -> None:
        """Read the file if it has changed; one that cannot be read leaves what was read before."""
        version = version_at(self.path)
        if version != self._version:
            found = read_private_json(self.path)
            pairs = found.items() if isinstance(found, dict) else ()
            self._read = {key: value for key, value in pairs if isinstance(value, Setting)}
            self._version = version
