"""Event filters for wheel turns, undo, shortcuts and dropped files."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QDropEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit, QWidget

WINDOW_SHORTCUTS = (QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo)
"""Editing shortcuts of text fields that this program uses for window commands."""


class ControlEventFilter(QObject):
    """Event filter that keeps a control from consuming events that are meant for the window."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_wheel = event.type() == QEvent.Type.Wheel
        if is_wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        if event.type() == QEvent.Type.ShortcutOverride and is_window_shortcut(event):
            event.ignore()
            return True
        # Drag events are subclasses of QDropEvent.
        if isinstance(event, QDropEvent) and event.mimeData().hasUrls():
            event.ignore()  # a field would insert the path and accept the file as moved
            return True
        return False


def is_window_shortcut(event: QEvent) -> bool:
    """Return whether a key event is a window command that a text field would consume."""
    return isinstance(event, QKeyEvent) and any(event.matches(key) for key in WINDOW_SHORTCUTS)


def has_command_modifier(event: QKeyEvent) -> bool:
    """Return whether a key event has a modifier that shortcuts use (Ctrl or Alt)."""
    commanding = Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.ControlModifier
    return bool(event.modifiers() & commanding)


def is_escape(event: QKeyEvent) -> bool:
    """Return whether a key event is Esc without modifiers."""
    return event.key() == Qt.Key.Key_Escape and not event.modifiers()


def install_input_filters(widget: QWidget) -> None:
    """Let the window handle undo and dropped files and, if the control is unfocused, the wheel."""
    widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # otherwise the wheel itself sets the focus
    control_filter = ControlEventFilter(widget)
    # Files are dropped on the inner line edit.
    for part in (widget, *widget.findChildren(QLineEdit)):
        part.installEventFilter(control_filter)


ROTATION_PER_NOTCH = 120
"""Rotation per notch, in Qt's units of 1/8 degree."""


class WheelNotchCounter:
    """Counter of whole wheel notches, which accumulates the small steps of a trackpad."""

    def __init__(self) -> None:
        self._rest = 0.0

    def completed_notches(self, turned: float) -> int:
        """Return the number of notches completed by a rotation; negative towards the user."""
        turned += self._rest
        notches = int(turned / ROTATION_PER_NOTCH)
        self._rest = turned - notches * ROTATION_PER_NOTCH
        return notches
