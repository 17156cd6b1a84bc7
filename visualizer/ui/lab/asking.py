"""What the lab asks before something would be interrupted or lost; nothing else waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget


def ask_leaving(
    window: QWidget, name: str, stop: Callable[[], object], go_on: Callable[[], object]
) -> None:
    """Ask what becomes of a training that is left; called off, nothing happens. Once at a time."""
    if window.findChild(QMessageBox, "leaving"):
        return
    box = _box(window, "leaving", f"“{name}” is training.")
    box.setInformativeText(
        "It can stop here, with a checkpoint to go on from, or go on without a window until it is "
        "done. Opened again, it is shown wherever it is by then."
    )
    stopping = box.addButton("&Stop here", QMessageBox.ButtonRole.AcceptRole)
    going = box.addButton("&Go on in the background", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(stopping)
    stopping.clicked.connect(stop)
    going.clicked.connect(go_on)
    box.open()


def ask_delete(window: QWidget, name: str, delete: Callable[[], object]) -> None:
    """Ask whether a run may be deleted for good."""
    if window.findChild(QMessageBox, "delete"):
        return
    box = _box(window, "delete", f"Delete “{name}”, its losses and all weights that were kept?")
    box.setInformativeText("This cannot be undone.")
    deleting = box.addButton("&Delete", QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    deleting.clicked.connect(delete)
    box.open()


def _box(window: QWidget, name: str, text: str) -> QMessageBox:
    box = QMessageBox(window)
    box.setObjectName(name)
    box.setIcon(QMessageBox.Icon.Question)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(text)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return box
