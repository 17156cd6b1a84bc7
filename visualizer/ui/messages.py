"""What the window says in boxes of its own: a bug, the shortcuts, what the program is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox

import visualizer
from visualizer.ui.entries import shortcuts

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget


def show_bug(window: QWidget, details: str) -> None:
    """Say that something broke, with what to send to its makers; once at a time."""
    if window.findChild(QMessageBox, "bug"):
        return
    box = QMessageBox(window)
    box.setObjectName("bug")
    box.setIcon(QMessageBox.Icon.Critical)
    box.setText("Something broke that should not have. The last picture stays.")
    box.setDetailedText(details)
    copy = box.addButton("Copy details", QMessageBox.ButtonRole.ActionRole)
    box.addButton(QMessageBox.StandardButton.Close)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(details))
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()


def show_shortcuts(window: QWidget) -> None:
    """List what can be done with which keys."""
    rows = "".join(
        f"<tr><td>{words}</td><td><b>{keys}</b></td></tr>" for words, keys in shortcuts()
    )
    tell(window, "Keyboard shortcuts", f"<table cellpadding=4>{rows}</table>")


def show_about(window: QWidget) -> None:
    """Say what the program is."""
    text = "Real attention modules, computed and shown stage by stage, head by head."
    tell(window, "About", f"<h3>Attention Visualizer {visualizer.__version__}</h3><p>{text}</p>")


def tell(window: QWidget, title: str, text: str) -> None:
    """Say something that is read and closed."""
    box = QMessageBox(window)
    box.setWindowTitle(title)
    box.setText(text)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()
