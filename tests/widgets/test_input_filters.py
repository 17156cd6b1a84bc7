"""Keys that a text field would consume instead of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QSpinBox

from visualizer.widgets.input_filters import ControlEventFilter

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


class BoundKey(QKeyEvent):
    """A key that the platform binds to one standard action."""

    def __init__(self, meaning: QKeySequence.StandardKey) -> None:
        control = Qt.KeyboardModifier.ControlModifier
        super().__init__(QEvent.Type.ShortcutOverride, Qt.Key.Key_U, control)
        self._meaning = meaning

    def matches(self, key: QKeySequence.StandardKey) -> bool:
        return key is self._meaning


@pytest.mark.parametrize(
    ("meaning", "is_of_window"),
    [
        (QKeySequence.StandardKey.Undo, True),
        (QKeySequence.StandardKey.Redo, True),
        (QKeySequence.StandardKey.DeleteCompleteLine, False),
        (QKeySequence.StandardKey.Copy, False),
    ],
)
def test_a_number_field_does_not_consume_window_commands(
    qtbot: QtBot, meaning: QKeySequence.StandardKey, is_of_window: bool
) -> None:
    box = QSpinBox()
    qtbot.addWidget(box)
    event = BoundKey(meaning)
    event.accept()
    assert ControlEventFilter(box).eventFilter(box, event) is is_of_window
    assert event.isAccepted() is not is_of_window
