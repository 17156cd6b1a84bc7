"""Confirmation dialogs before a run is deleted or a training run is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import (
    QMessageBox,
    QWidget,
)

from visualizer.widgets.dialogs import message_box

if TYPE_CHECKING:
    from collections.abc import Callable


def ask_leaving(
    window: QWidget,
    name: str,
    lost: str,
    stop: Callable[[], object],
    go_on: Callable[[], object],
) -> None:
    """Ask whether training stops or continues in the background, replacing an open dialog.

    The newest dialog is kept because its follow-up may have been requested elsewhere, such as by
    quitting the program. ``lost`` describes steps that both choices may lose, if any.
    """
    for open_dialog in window.findChildren(QMessageBox, "leaving"):
        open_dialog.close()
    question = f"“{name}” is training. {lost}".rstrip()
    box = message_box(window, "leaving", QMessageBox.Icon.Question, question)
    box.setInformativeText(
        "Stop now (you can resume from the checkpoint), or keep training in the background? Reopen "
        "the run at any time to see its progress."
    )
    stopping = box.addButton("&Stop", QMessageBox.ButtonRole.AcceptRole)
    going = box.addButton("&Keep training", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(stopping)
    stopping.clicked.connect(stop)
    going.clicked.connect(go_on)
    box.open()


def ask_losing(window: QWidget, name: str, lost: str, close: Callable[[], object]) -> None:
    """Ask whether to close a run that may lose steps, as described by ``lost``."""
    for open_dialog in window.findChildren(QMessageBox, "losing"):
        open_dialog.close()
    box = message_box(window, "losing", QMessageBox.Icon.Warning, f"Close “{name}”? {lost}")
    closing = box.addButton("C&lose anyway", QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    closing.clicked.connect(close)
    box.open()


def ask_delete(window: QWidget, name: str, delete: Callable[[], object]) -> None:
    """Ask whether to delete a run permanently."""
    if window.findChild(QMessageBox, "delete"):
        return
    question = f"Delete “{name}”, its losses and all saved weights?"
    box = message_box(window, "delete", QMessageBox.Icon.Question, question)
    box.setInformativeText("This cannot be undone.")
    deleting = box.addButton("&Delete", QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    deleting.clicked.connect(delete)
    box.open()
