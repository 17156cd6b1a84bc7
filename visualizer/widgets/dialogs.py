"""File dialogs, message boxes that do not block the event loop, and the file manager."""

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
    QUrl,
    qVersion,
)
from PySide6.QtGui import QDesktopServices, QKeyEvent
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

from visualizer.errors import MEMORY_ERROR, system_error_reason
from visualizer.version import __version__
from visualizer.widgets.app_settings import restore_file_dialog, save_file_dialog
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from PySide6.QtWidgets import QWidget


def ask_open_path(parent: QWidget, folder: Path, kinds: str, then: Callable[[str], object]) -> None:
    """Ask for an existing file and call `then` with its path."""
    dialog = _create_file_dialog(parent, "Open", folder, kinds, then)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.open()


def ask_folder_path(
    parent: QWidget, title: str, start: Path, then: Callable[[str], object]
) -> None:
    """Ask for an existing folder and call `then` with its path."""
    dialog = _create_file_dialog(parent, title, start, "", then)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.open()


def ask_save_path(
    parent: QWidget, title: str, start: Path, kinds: str, then: Callable[[str], object]
) -> QFileDialog:
    """Ask for a file to write; Qt asks for confirmation if the file exists."""
    dialog = _create_file_dialog(parent, title, start.parent, kinds, then)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(start.suffix)
    dialog.selectFile(start.name)
    dialog.open()
    return dialog


def _create_file_dialog(
    parent: QWidget, title: str, folder: Path, kinds: str, then: Callable[[str], object]
) -> QFileDialog:
    dialog = QFileDialog(parent, title, str(folder), kinds)
    restore_file_dialog(dialog)
    _FileDialogGuard(dialog, then)
    return dialog


class _FileDialogGuard(QObject):
    """Guard that makes Qt's own file dialog safe to use, and deletes the dialog when it finishes.

    Qt creates the dialog's confirmations and errors as message boxes on the stack, each with its
    own event loop. The boxes quote file names, which Qt interprets as HTML if they look like HTML.
    While a box is open, a late completion popup may send another Return key press to the dialog.
    Therefore only the first name counts, and the dialog is deleted and the name delivered only when
    no box is open: the callback may close the window, which also deletes the dialog. If the window
    is deleted while a box is open, the dialog is cancelled and the deletion deferred until the box
    is closed.
    """

    def __init__(self, dialog: QFileDialog, then: Callable[[str], object]) -> None:
        super().__init__(dialog)
        self._dialog, self._then = dialog, then
        self._chosen = ""
        self._is_answered = self._is_over = False
        self._watched = [dialog, *_ancestor_widgets(dialog)]
        self._deleted_after = list[QObject]()
        dialog.fileSelected.connect(self._store_chosen_path)
        dialog.finished.connect(self._finish_dialog)
        for each in self._watched:
            each.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DeferredDelete:
            return self._defer_deletion(watched)
        if watched is self._dialog and isinstance(event, QChildEvent):
            if event.type() == QEvent.Type.ChildPolished:
                box = event.child()
                if isinstance(box, QMessageBox):  # before it is laid out
                    box.setTextFormat(Qt.TextFormat.PlainText)
            elif event.type() == QEvent.Type.ChildRemoved and self._is_answered:
                self._finish_dialog()
        return False

    def _defer_deletion(self, owner: QObject) -> bool:
        """Defer an owner's deletion until all boxes are closed; return whether a box is open."""
        boxes = self._dialog.findChildren(QMessageBox)
        if not boxes:
            self._remove_filters()
            return False
        self._deleted_after.append(owner)
        for one in (*boxes, self._dialog):
            one.reject()
        return True

    def _store_chosen_path(self, name: str) -> None:
        self._chosen = self._chosen or name

    def _finish_dialog(self) -> None:
        """Deliver the result and delete the dialog once none of its message boxes is open."""
        self._is_answered = True
        if self._is_over or self._dialog.findChild(QMessageBox):
            return
        self._is_over = True
        self._remove_filters()
        self._dialog.deleteLater()
        save_file_dialog(self._dialog)
        for owner in self._deleted_after:
            QTimer.singleShot(0, partial(_send_deferred_delete, owner))
        if self._chosen and not self._deleted_after:
            self._then(self._chosen)

    def _remove_filters(self) -> None:
        for each in self._watched:  # deleted children are removed automatically
            each.removeEventFilter(self)


def _ancestor_widgets(widget: QWidget) -> Iterator[QWidget]:
    owner = widget.parentWidget()
    while owner:
        yield owner
        owner = owner.parentWidget()


def _send_deferred_delete(owner: QObject) -> None:
    """Delete an object with a deferred deletion; a second `deleteLater` would have no effect."""
    if isValid(owner):
        QCoreApplication.sendEvent(owner, QEvent(QEvent.Type.DeferredDelete))


SHORTCUT_LIST_SIZE = QSize(720, 640)


def create_message_box(
    window: QWidget, name: str, icon: QMessageBox.Icon, sentence: str
) -> QMessageBox:
    """Create a message box that shows its texts as plain text."""
    box = QMessageBox(window)
    box.setObjectName(name)
    box.setIcon(icon)
    box.setTextFormat(Qt.TextFormat.PlainText)  # before any text is laid out
    box.setText(sentence)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return box


def show_exception(window: QWidget, details: str) -> None:
    """Report an unexpected exception; a button copies the details. Only one box is shown."""
    if window.findChild(QMessageBox, "bug"):
        return
    message = "An unexpected error occurred. The window keeps showing the last valid result."
    box = create_message_box(window, "bug", QMessageBox.Icon.Critical, message)
    box.setDetailedText(details)
    copy = box.addButton("Copy details", QMessageBox.ButtonRole.ActionRole)
    box.addButton(QMessageBox.StandardButton.Close)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(details))
    box.open()


def show_out_of_memory(window: QWidget) -> None:
    """Report that the memory is insufficient; only one box is shown at a time."""
    if not window.findChild(QMessageBox, "memory"):
        create_message_box(window, "memory", QMessageBox.Icon.Warning, MEMORY_ERROR).open()


def ask_to_save_changes(
    window: QWidget, name: str, save: Callable[[], object], discard: Callable[[], object]
) -> None:
    """Ask whether to save changes; cancelling has no effect. Only one box is shown at a time."""
    if window.findChild(QMessageBox, "unsaved"):
        return
    message = f"“{name}” has unsaved changes."
    box = create_message_box(window, "unsaved", QMessageBox.Icon.Question, message)
    saving = box.addButton(QMessageBox.StandardButton.Save)
    discarding = box.addButton("&Don’t save", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(QMessageBox.StandardButton.Save)
    saving.clicked.connect(save)
    discarding.clicked.connect(discard)
    box.open()


def ask_overwrite(
    window: QWidget,
    message: str,
    lost_content: str,
    overwrite: Callable[[], object],
    save_as: Callable[[], object],
    cancel: Callable[[], object],
) -> None:
    """Ask whether to overwrite a file; only one box is shown at a time.

    Needed only if no file dialog has already asked this question.

    Parameters
    ----------
    message : str
        A sentence about the file.
    lost_content : str
        The content that would be lost, as a noun phrase.
    """
    if window.findChild(QMessageBox, "overwrite"):
        return
    box = create_message_box(window, "overwrite", QMessageBox.Icon.Warning, message)
    box.setInformativeText(f"Overwriting the file discards {lost_content}.")
    overwriting = box.addButton("&Overwrite", QMessageBox.ButtonRole.DestructiveRole)
    saving_as = box.addButton("Save &as…", QMessageBox.ButtonRole.AcceptRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(saving_as)
    overwriting.clicked.connect(overwrite)
    saving_as.clicked.connect(save_as)
    box.rejected.connect(cancel)  # by the button, Esc or closing the box
    box.open()


def ask_to_recover_documents(
    window: QWidget, names: str, recover: Callable[[], None], discard: Callable[[], None]
) -> None:
    """Ask whether to recover documents; if the user cancels, ask again at the next start."""
    message = "The program did not exit normally. These documents have unsaved changes:"
    box = create_message_box(window, "recover", QMessageBox.Icon.Information, message)
    box.setInformativeText(names)
    recovering = box.addButton("&Recover", QMessageBox.ButtonRole.AcceptRole)
    discarding = box.addButton("&Discard", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton("&Later", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(recovering)
    recovering.clicked.connect(recover)
    discarding.clicked.connect(discard)
    box.open()


def show_warning(window: QWidget, title: str, sentence: str) -> None:
    """Explain why an action was not performed."""
    box = create_message_box(window, "refused", QMessageBox.Icon.Warning, sentence)
    box.setWindowTitle(title)
    box.open()


class ShortcutGroup(Struct, frozen=True):
    """A titled group of shortcuts.

    Parameters
    ----------
    rows : tuple of (str, str)
        The description of each action, and its keys.
    """

    title: str
    rows: tuple[tuple[str, str], ...]

    def filter_rows(self, text: str) -> ShortcutGroup:
        """Return the rows that, together with the title, contain all words of a text."""
        words = text.casefold().split()
        texts = (" ".join((self.title, *row)).casefold() for row in self.rows)
        matches = zip(self.rows, texts, strict=True)
        rows = (row for row, text in matches if all(word in text for word in words))
        return ShortcutGroup(self.title, tuple(rows))


def show_shortcuts(
    window: QWidget, groups: Iterable[ShortcutGroup], change: Callable[[], object] | None = None
) -> None:
    """Open the list of shortcuts, with a button for changing them if `change` is given."""
    dialog = ShortcutListDialog(window, groups)
    if change:
        button = dialog.buttons.addButton("Change…", QDialogButtonBox.ButtonRole.ActionRole)
        button.setAutoDefault(False)
        button.clicked.connect(dialog.accept)
        button.clicked.connect(change)
    dialog.open()


SCROLL_KEYS = {Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown}


class ShortcutListDialog(QDialog):
    """Searchable, grouped list of all shortcuts."""

    def __init__(self, window: QWidget, groups: Iterable[ShortcutGroup]) -> None:
        super().__init__(window)
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._groups = tuple(groups)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search by command or shortcut")
        self.search.setAccessibleName("Search shortcuts")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._show_matches)
        self.search.installEventFilter(self)
        self.list = QTextBrowser()
        self.list.setAccessibleName("Keyboard shortcuts")
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        for part in (self.search, self.list, self.buttons):
            column.addWidget(part)
        self.resize((SHORTCUT_LIST_SIZE * text_scale()).boundedTo(window.size() * 0.9))
        self._show_matches("")
        self.search.setFocus()

    def _show_matches(self, text: str) -> None:
        found = [group for each in self._groups if (group := each.filter_rows(text)).rows]
        tables = _table_row(" ").join(map(_format_group, found))
        none = f"<p>No shortcuts match “{escape(text)}”.</p>"
        self.list.setHtml(f"<table cellpadding=4 width='100%'>{tables}</table>" if found else none)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Scroll the list with the keys that have no effect in the search field."""
        pressed = event if event.type() == QEvent.Type.KeyPress else None
        if isinstance(pressed, QKeyEvent) and pressed.key() in SCROLL_KEYS:
            QApplication.sendEvent(self.list, event)
            return True
        return super().eventFilter(watched, event)


def _format_group(group: ShortcutGroup) -> str:
    head = _table_row(f"<b>{escape(group.title)}</b>")
    rows = (
        f"<tr><td width='62%'>{escape(action)}</td><td>{escape(keys)}</td></tr>"
        for action, keys in group.rows
    )
    return head + "".join(rows)


def _table_row(html: str) -> str:
    return f"<tr><td colspan=2>{html}</td></tr>"


LICENCE_URL = "https://opensource.org/license/mit"
BOOK_URL = "https://github.com/rasbt/LLMs-from-scratch"


def list_library_versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of the program and its libraries, without importing torch."""
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
    found = list_library_versions()
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(version)}</td></tr>" for name, version in found[1:]
    )
    text = "Runs real attention modules and shows every stage of every head."
    links = (
        f"Free software under the <a href='{LICENCE_URL}'>MIT licence</a>. Lessons follow the book "
        f"<a href='{BOOK_URL}'>Build a Large Language Model (From Scratch)</a>."
    )
    table = f"<table cellpadding=2>{rows}</table>"
    html = f"<h3>Attention Visualizer {__version__}</h3><p>{text}</p>{table}<p>{links}</p>"
    box = _create_html_box(window, "About", html)
    copy = box.addButton("Copy versions", QMessageBox.ButtonRole.ActionRole)
    copy.setToolTip("Copy this information for a bug report")
    box.addButton(QMessageBox.StandardButton.Close)
    box.setDefaultButton(QMessageBox.StandardButton.Close)
    copied = "\n".join(f"{name}: {version}" for name, version in found)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(copied))
    box.open()


def show_message(window: QWidget, title: str, html: str) -> None:
    """Show an HTML message; the caller escapes text from files and from the user."""
    _create_html_box(window, title, html).open()


def _create_html_box(window: QWidget, title: str, html: str) -> QMessageBox:
    box = create_message_box(window, "told", QMessageBox.Icon.NoIcon, "")
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.RichText)
    box.setText(html)
    return box


def open_folder(window: QWidget, title: str, folder: Path) -> None:
    """Open a folder in the file manager, creating it if necessary; if this fails, show the path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = system_error_reason(error)
        show_message(window, title, escape(f"Cannot create the folder {folder}: {reason}."))
        return
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
        show_message(
            window, title, f"Could not open a file manager. The folder is:<br>{escape(str(folder))}"
        )
