"""Asking for a file without stopping all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from PySide6.QtWidgets import QWidget


def ask_to_open(parent: QWidget, folder: Path, kinds: str, then: Callable[[str], object]) -> None:
    """Ask for a file that is there; `then` is called with its name."""
    dialog = _dialog(parent, "Open", folder, kinds, then)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.open()


def ask_to_save(
    parent: QWidget, title: str, start: Path, kinds: str, then: Callable[[str], object]
) -> QFileDialog:
    """Ask for a file to be written; one that is there is asked about."""
    dialog = _dialog(parent, title, start.parent, kinds, then)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(start.suffix)
    dialog.selectFile(start.name)
    dialog.open()
    return dialog


def _dialog(
    parent: QWidget, title: str, folder: Path, kinds: str, then: Callable[[str], object]
) -> QFileDialog:
    dialog = QFileDialog(parent, title, str(folder), kinds)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(then)
    return dialog
