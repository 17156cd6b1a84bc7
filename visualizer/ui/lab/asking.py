"""What the lab asks before something would be interrupted or lost; nothing else waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMessageBox

from visualizer.ui.messages import message_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget


def ask_leaving(
    window: QWidget, name: str, stop: Callable[[], object], go_on: Callable[[], object]
) -> None:
    """Ask what becomes of a training that is left; called off, nothing happens. Once at a time."""
    if window.findChild(QMessageBox, "leaving"):
        return
    said = f"“{name}” is training."
    box = message_box(window, "leaving", QMessageBox.Icon.Question, said)
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
    said = f"Delete “{name}”, its losses and all weights that were kept?"
    box = message_box(window, "delete", QMessageBox.Icon.Question, said)
    box.setInformativeText("This cannot be undone.")
    deleting = box.addButton("&Delete", QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    deleting.clicked.connect(delete)
    box.open()
