"""Filters events from controls for the window: wheel scrolling, undo, shortcuts, dropped files."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QDropEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit, QWidget

WINDOW_SHORTCUTS = (
    *(QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo),
    # On X11 Ctrl+U and Ctrl+K would empty a number field.
    *(QKeySequence.StandardKey.DeleteCompleteLine, QKeySequence.StandardKey.DeleteEndOfLine),
)
"""Keys of text fields that are commands of the window."""


class ControlEventFilter(QObject):
    """Keeps a control from consuming the window's events."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_wheel = event.type() == QEvent.Type.Wheel
        if is_wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        if event.type() == QEvent.Type.ShortcutOverride and is_of_window(event):
            event.ignore()
            return True
        if isinstance(event, QDropEvent) and event.mimeData().hasUrls():  # or one of dragging
            event.ignore()  # a field would insert the path, and let the file be moved
            return True
        return False


def is_of_window(event: QEvent) -> bool:
    """Whether a key event is a command of the window that a text field would take."""
    return isinstance(event, QKeyEvent) and any(event.matches(key) for key in WINDOW_SHORTCUTS)


def is_command(event: QKeyEvent) -> bool:
    """Whether a key event is some action's shortcut, enabled or not."""
    commanding = Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.ControlModifier
    return bool(event.modifiers() & commanding)


def install_input_filters(widget: QWidget) -> None:
    """Let the wheel scroll the page unless a control has the focus; undo acts on the document.

    Files are left to the window to open.
    """
    widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # otherwise the wheel itself gives the focus
    control_filter = ControlEventFilter(widget)
    for part in (widget, *widget.findChildren(QLineEdit)):  # files are dropped on the inner one
        part.installEventFilter(control_filter)
