"""Where the system has a program keep what is the user's."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QStandardPaths


def own_folder() -> Path:
    """Give the folder of what the program keeps for the user; it need not be there yet."""
    kind = QStandardPaths.StandardLocation.AppDataLocation
    return Path(QStandardPaths.writableLocation(kind))
