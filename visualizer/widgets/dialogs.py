"""File dialogs and message boxes that do not block the event loop."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QChildEvent, QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QMessageBox,
    QTextBrowser,
    QVBoxLayout,
)

from visualizer.version import __version__
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from PySide6.QtWidgets import QWidget


def ask_open_path(parent: QWidget, folder: Path, kinds: str, then: Callable[[str], object]) -> None:
    """Ask for an existing file; `then` is called with its name."""
    dialog = _dialog(parent, "Open", folder, kinds, then)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.open()


def ask_for_folder(parent: QWidget, title: str, start: Path, then: Callable[[str], object]) -> None:
    """Ask for an existing folder; `then` is called with its name."""
    dialog = _dialog(parent, title, start, "", then)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.open()


def ask_save_path(
    parent: QWidget, title: str, start: Path, kinds: str, then: Callable[[str], object]
) -> QFileDialog:
    """Ask for a file to write, confirming before one is replaced."""
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
    """Sets the message boxes of Qt's own file dialog to plain text.

    Its questions and errors quote file names, which Qt would take for HTML where they look
    like it.
    """

    def eventFilter(self, dialog: QObject, event: QEvent) -> bool:
        if isinstance(event, QChildEvent) and event.type() == QEvent.Type.ChildPolished:
            box = event.child()
            if isinstance(box, QMessageBox):  # before it is laid out
                box.setTextFormat(Qt.TextFormat.PlainText)
        return super().eventFilter(dialog, event)


LIST_SIZE = QSize(720, 640)


def message_box(window: QWidget, name: str, icon: QMessageBox.Icon, sentence: str) -> QMessageBox:
    """Make a message box that shows all its texts as plain text."""
    box = QMessageBox(window)
    box.setObjectName(name)
    box.setIcon(icon)
    box.setTextFormat(Qt.TextFormat.PlainText)  # before any text is laid out
    box.setText(sentence)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return box


def show_bug(window: QWidget, details: str) -> None:
    """Report an unexpected exception, with details to send to the developers; one box at a time."""
    if window.findChild(QMessageBox, "bug"):
        return
    said = "Something broke that should not have. The last picture stays."
    box = message_box(window, "bug", QMessageBox.Icon.Critical, said)
    box.setDetailedText(details)
    copy = box.addButton("Copy details", QMessageBox.ButtonRole.ActionRole)
    box.addButton(QMessageBox.StandardButton.Close)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(details))
    box.open()


def ask_unsaved(
    window: QWidget, name: str, save: Callable[[], object], lose: Callable[[], object]
) -> None:
    """Ask whether to save changes; cancelling does nothing. One box at a time."""
    if window.findChild(QMessageBox, "unsaved"):
        return
    said = f"“{name}” has changes that are not saved."
    box = message_box(window, "unsaved", QMessageBox.Icon.Question, said)
    saving = box.addButton(QMessageBox.StandardButton.Save)
    losing = box.addButton("&Don’t save", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(QMessageBox.StandardButton.Save)
    saving.clicked.connect(save)
    losing.clicked.connect(lose)
    box.open()


def ask_overwrite(
    window: QWidget,
    name: str,
    overwrite: Callable[[], object],
    save_as: Callable[[], object],
    cancel: Callable[[], object],
) -> None:
    """Ask what to do with a file that another program has changed. One box at a time."""
    if window.findChild(QMessageBox, "overwrite"):
        return
    said = f"“{name}” was changed by another program since it was opened or saved here."
    box = message_box(window, "overwrite", QMessageBox.Icon.Warning, said)
    box.setInformativeText("To overwrite it loses what the other program has written.")
    overwriting = box.addButton("&Overwrite", QMessageBox.ButtonRole.DestructiveRole)
    saving_as = box.addButton("Save &as…", QMessageBox.ButtonRole.AcceptRole)
    cancelling = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(saving_as)
    overwriting.clicked.connect(overwrite)
    saving_as.clicked.connect(save_as)
    cancelling.clicked.connect(cancel)
    box.open()


def ask_recover(
    window: QWidget, names: str, recover: Callable[[], None], drop: Callable[[], None]
) -> None:
    """Offer recovered documents; if cancelled, they are offered again at the next start."""
    said = "The program ended without having been closed. This was not saved:"
    box = message_box(window, "recover", QMessageBox.Icon.Information, said)
    box.setInformativeText(names)
    again = box.addButton("&Open it again", QMessageBox.ButtonRole.AcceptRole)
    away = box.addButton("&Throw it away", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton("&Later", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(again)
    again.clicked.connect(recover)
    away.clicked.connect(drop)
    box.open()


def refuse(window: QWidget, title: str, sentence: str) -> None:
    """Explain why something was not done."""
    box = message_box(window, "refused", QMessageBox.Icon.Warning, sentence)
    box.setWindowTitle(title)
    box.open()


def show_shortcuts(window: QWidget, keys: Iterable[tuple[str, str]]) -> None:
    """Show the list of shortcuts."""
    ShortcutListDialog(window, keys).open()


class ShortcutListDialog(QDialog):
    """All shortcuts in a scrolling list, which is longer than a screen is high."""

    def __init__(self, window: QWidget, keys: Iterable[tuple[str, str]]) -> None:
        super().__init__(window)
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        rows = (
            f"<tr><td>{escape(words)}</td><td><b>{escape(pressed)}</b></td></tr>"
            for words, pressed in keys
        )
        self.list = QTextBrowser()
        self.list.setAccessibleName("Keyboard shortcuts")
        self.list.setHtml(f"<table cellpadding=4>{''.join(rows)}</table>")
        close = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        close.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(self.list)
        column.addWidget(close)
        self.resize((LIST_SIZE * text_scale()).boundedTo(window.size() * 0.9))
        self.list.setFocus()


def show_about(window: QWidget) -> None:
    """Show the about box."""
    text = "Real attention modules, computed and shown stage by stage, head by head."
    show_message(window, "About", f"<h3>Attention Visualizer {__version__}</h3><p>{text}</p>")


def show_message(window: QWidget, title: str, html: str) -> None:
    """Show a message; texts from elsewhere must be escaped in it."""
    box = message_box(window, "told", QMessageBox.Icon.NoIcon, "")
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.RichText)
    box.setText(html)
    box.open()
