"""File dialogs and message boxes that do not block the event loop."""

from __future__ import annotations

import platform
import sys
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6 import __version__ as pyside_version
from PySide6.QtCore import (
    QChildEvent,
    QCoreApplication,
    QEvent,
    QObject,
    QSize,
    Qt,
    QTimer,
    qVersion,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QLineEdit,
    QMessageBox,
    QTextBrowser,
    QVBoxLayout,
)
from shiboken6 import isValid

from visualizer.errors import MEMORY_ERROR
from visualizer.version import __version__
from visualizer.widgets.app_settings import restore_file_dialog, save_file_dialog
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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
    restore_file_dialog(dialog)
    _FileDialogGuard(dialog, then)
    return dialog


class _FileDialogGuard(QObject):
    """Makes Qt's own file dialog safe to answer, and deletes it once it is answered.

    Its questions and errors are message boxes on the stack, each with an event loop of its own.
    They quote file names, which Qt would take for HTML where they look like it. And while one is
    open, its list of completions may come up late and pass one more Return to the dialog. So only
    the first name counts; and the dialog is deleted, and the name handed on, once no box is open:
    what is done with the name may close the window, which deletes the dialog as well. A window
    that is deleted while a box is open takes the question back, and is deleted after it.
    """

    def __init__(self, dialog: QFileDialog, then: Callable[[str], object]) -> None:
        super().__init__(dialog)
        self._dialog, self._then = dialog, then
        self._chosen = ""
        self._is_answered = self._is_over = False
        self._watched = [dialog, *_ancestors(dialog)]
        self._deleted_after = list[QObject]()
        dialog.fileSelected.connect(self._choose)
        dialog.finished.connect(self._end)
        for each in self._watched:
            each.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DeferredDelete:
            return self._put_off(watched)
        if watched is self._dialog and isinstance(event, QChildEvent):
            if event.type() == QEvent.Type.ChildPolished:
                box = event.child()
                if isinstance(box, QMessageBox):  # before it is laid out
                    box.setTextFormat(Qt.TextFormat.PlainText)
            elif event.type() == QEvent.Type.ChildRemoved and self._is_answered:
                self._end()
        return False

    def _put_off(self, owner: QObject) -> bool:
        """Return whether the deletion of an owner waits for the boxes that are open."""
        boxes = self._dialog.findChildren(QMessageBox)
        if not boxes:
            self._let_go()
            return False
        self._deleted_after.append(owner)
        for one in (*boxes, self._dialog):
            one.reject()
        return True

    def _choose(self, name: str) -> None:
        self._chosen = self._chosen or name

    def _end(self) -> None:
        """Hand on the answer and delete the dialog, once nothing of it is open."""
        self._is_answered = True
        if self._is_over or self._dialog.findChild(QMessageBox):
            return
        self._is_over = True
        self._let_go()
        self._dialog.deleteLater()
        save_file_dialog(self._dialog)
        for owner in self._deleted_after:
            QTimer.singleShot(0, partial(_delete, owner))
        if self._chosen and not self._deleted_after:
            self._then(self._chosen)

    def _let_go(self) -> None:
        for each in self._watched:  # what they own is removed as they are deleted
            each.removeEventFilter(self)


def _ancestors(widget: QWidget) -> Iterator[QWidget]:
    owner = widget.parentWidget()
    while owner:
        yield owner
        owner = owner.parentWidget()


def _delete(put_off: QObject) -> None:
    """Delete what was to be deleted; `deleteLater` does nothing a second time."""
    if isValid(put_off):
        QCoreApplication.sendEvent(put_off, QEvent(QEvent.Type.DeferredDelete))


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


def show_out_of_memory(window: QWidget) -> None:
    """Say that memory ran out, at most in one box."""
    if not window.findChild(QMessageBox, "memory"):
        message_box(window, "memory", QMessageBox.Icon.Warning, MEMORY_ERROR).open()


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
    said: str,
    lost: str,
    overwrite: Callable[[], object],
    save_as: Callable[[], object],
    cancel: Callable[[], object],
) -> None:
    """Ask whether to overwrite a file that nobody was asked about. One box at a time.

    Parameters
    ----------
    said : str
        A sentence on the file.
    lost : str
        What is lost with it.
    """
    if window.findChild(QMessageBox, "overwrite"):
        return
    box = message_box(window, "overwrite", QMessageBox.Icon.Warning, said)
    box.setInformativeText(f"To overwrite it loses {lost}.")
    overwriting = box.addButton("&Overwrite", QMessageBox.ButtonRole.DestructiveRole)
    saving_as = box.addButton("Save &as…", QMessageBox.ButtonRole.AcceptRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(saving_as)
    overwriting.clicked.connect(overwrite)
    saving_as.clicked.connect(save_as)
    box.rejected.connect(cancel)  # by the button, by Escape, or as it is closed
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


class ShortcutGroup(Struct, frozen=True):
    """Shortcuts of one subject.

    Parameters
    ----------
    rows : tuple of (str, str)
        What is done, and by which keys.
    """

    title: str
    rows: tuple[tuple[str, str], ...]

    def matching(self, text: str) -> ShortcutGroup:
        """Return the rows that contain every word of a text; all, if its title does."""
        words = text.casefold().split()
        if all(word in self.title.casefold() for word in words):
            return self
        rows = (row for row in self.rows if all(_is_in(word, self.title, row) for word in words))
        return ShortcutGroup(self.title, tuple(rows))


def _is_in(word: str, title: str, row: tuple[str, str]) -> bool:
    return any(word in text.casefold() for text in (title, *row))


def show_shortcuts(window: QWidget, groups: Iterable[ShortcutGroup]) -> None:
    """Show the list of shortcuts."""
    ShortcutListDialog(window, groups).open()


SCROLLS = {Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown}


class ShortcutListDialog(QDialog):
    """All shortcuts in groups, in a scrolling list that can be searched."""

    def __init__(self, window: QWidget, groups: Iterable[ShortcutGroup]) -> None:
        super().__init__(window)
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._groups = tuple(groups)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search what is done, or keys")
        self.search.setAccessibleName("Search the shortcuts")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._show)
        self.search.installEventFilter(self)
        self.list = QTextBrowser()
        self.list.setAccessibleName("Keyboard shortcuts")
        close = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        close.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        for part in (self.search, self.list, close):
            column.addWidget(part)
        self.resize((LIST_SIZE * text_scale()).boundedTo(window.size() * 0.9))
        self._show("")
        self.search.setFocus()

    def _show(self, text: str) -> None:
        found = [group for each in self._groups if (group := each.matching(text)).rows]
        tables = _table_row(" ").join(map(_table, found))
        none = f"<p>No shortcut is for “{escape(text)}”.</p>"
        self.list.setHtml(f"<table cellpadding=4 width='100%'>{tables}</table>" if found else none)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Scroll the list by the keys that mean nothing in the search."""
        pressed = event if event.type() == QEvent.Type.KeyPress else None
        if isinstance(pressed, QKeyEvent) and pressed.key() in SCROLLS:
            QApplication.sendEvent(self.list, event)
            return True
        return super().eventFilter(watched, event)


def _table(group: ShortcutGroup) -> str:
    head = _table_row(f"<b>{escape(group.title)}</b>")
    rows = (
        f"<tr><td width='62%'>{escape(words)}</td><td>{escape(pressed)}</td></tr>"
        for words, pressed in group.rows
    )
    return head + "".join(rows)


def _table_row(html: str) -> str:
    return f"<tr><td colspan=2>{html}</td></tr>"


LICENCE = "https://opensource.org/license/mit"
BOOK = "https://github.com/rasbt/LLMs-from-scratch"


def versions() -> tuple[tuple[str, str], ...]:
    """List what the program runs on; torch, which it loads late, only once it is there."""
    torch = sys.modules.get("torch")
    return (
        ("Attention Visualizer", __version__),
        ("Python", platform.python_version()),
        ("Qt", f"{qVersion()} (PySide6 {pyside_version})"),
        ("PyTorch", str(torch.__version__) if torch else "not loaded yet"),
        ("System", platform.platform(terse=True)),
    )


def show_about(window: QWidget) -> None:
    """Show the about box."""
    found = versions()
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(version)}</td></tr>" for name, version in found[1:]
    )
    text = "Real attention modules, computed and shown stage by stage, head by head."
    links = (
        f"Free software under the <a href='{LICENCE}'>MIT licence</a>. The book’s chapter: "
        f"<a href='{BOOK}'>Build a Large Language Model (From Scratch)</a>."
    )
    table = f"<table cellpadding=2>{rows}</table>"
    box = message_box(window, "told", QMessageBox.Icon.NoIcon, "")
    box.setWindowTitle("About")
    box.setTextFormat(Qt.TextFormat.RichText)
    box.setText(f"<h3>Attention Visualizer {__version__}</h3><p>{text}</p>{table}<p>{links}</p>")
    copy = box.addButton("Copy versions", QMessageBox.ButtonRole.ActionRole)
    copy.setToolTip("For a report of what does not work")
    box.addButton(QMessageBox.StandardButton.Close)
    box.setDefaultButton(QMessageBox.StandardButton.Close)
    copied = "\n".join(f"{name}: {version}" for name, version in found)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(copied))
    box.open()


def show_message(window: QWidget, title: str, html: str) -> None:
    """Show a message; texts from elsewhere must be escaped in it."""
    box = message_box(window, "told", QMessageBox.Icon.NoIcon, "")
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.RichText)
    box.setText(html)
    box.open()
