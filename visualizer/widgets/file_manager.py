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
    """Open a folder, which is made if it is missing; name it where no file manager opens it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        show_message(window, title, f"The folder could not be made: {escape(str(error))}")
        return
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
        show_message(window, title, f"The folder is here:<br>{escape(str(folder))}")
