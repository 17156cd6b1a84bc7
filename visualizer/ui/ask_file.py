"""Asking for a file or a folder without stopping all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QChildEvent, QEvent, QObject, Qt
from PySide6.QtWidgets import QFileDialog, QMessageBox

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from PySide6.QtWidgets import QWidget


def ask_to_open(parent: QWidget, folder: Path, kinds: str, then: Callable[[str], object]) -> None:
    """Ask for a file that is there; `then` is called with its name."""
    dialog = _dialog(parent, "Open", folder, kinds, then)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.open()


def ask_for_folder(parent: QWidget, title: str, start: Path, then: Callable[[str], object]) -> None:
    """Ask for a folder that is there; `then` is called with its name."""
    dialog = _dialog(parent, title, start, "", then)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
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
    dialog.installEventFilter(_PlainBoxes(dialog))
    return dialog


class _PlainBoxes(QObject):
    """Has the boxes of Qt's own file dialog say the names of files as plain text.

    It asks whether a file is to be replaced, or says that there is none, in a box that takes a name
    for HTML where it looks like it.
    """

    def eventFilter(self, dialog: QObject, event: QEvent) -> bool:
        if isinstance(event, QChildEvent) and event.type() == QEvent.Type.ChildPolished:
            box = event.child()
            if isinstance(box, QMessageBox):  # it is not laid out yet
                box.setTextFormat(Qt.TextFormat.PlainText)
        return super().eventFilter(dialog, event)
