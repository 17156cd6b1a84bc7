"""What controls leave to the window: the wheel that scrolls the page, undo, redo, actions."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QWidget

UNDO = (QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo)


class ControlEventFilter(QObject):
    """Turns away what a control would take for itself."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_wheel = event.type() == QEvent.Type.Wheel
        if is_wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        if event.type() == QEvent.Type.ShortcutOverride and is_undo(event):
            event.ignore()
            return True
        return False


def is_undo(event: QEvent) -> bool:
    """Whether keys are pressed that undo or redo."""
    return isinstance(event, QKeyEvent) and any(event.matches(key) for key in UNDO)


def is_command(event: QKeyEvent) -> bool:
    """Whether keys are an action's, whether it can be done now or not."""
    commanding = Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.ControlModifier
    return bool(event.modifiers() & commanding)


def install_input_filters(widget: QWidget) -> None:
    """Have the wheel scroll the page unless a control was clicked into; undo is the document's."""
    widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # else the wheel itself gives the focus
    widget.installEventFilter(ControlEventFilter(widget))
