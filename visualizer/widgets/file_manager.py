"""Opens folders in the file manager."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from visualizer.widgets.dialogs import show_message

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QWidget


def open_folder(window: QWidget, title: str, folder: Path) -> None:
    """Open a folder, creating it if missing; show its path if no file manager opens it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        show_message(window, title, f"Cannot create the folder: {escape(str(error))}")
        return
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
        show_message(
            window, title, f"Could not open a file manager. The folder is:<br>{escape(str(folder))}"
        )
