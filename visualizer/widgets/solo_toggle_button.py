"""Button that toggles its item on click and shows only that item on double-click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QToolButton

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent


class SoloToggleButton(QToolButton):
    """Button for one of several items; double-clicking it shows only that item."""

    doubled = Signal(object)
    """Carries the item."""

    def __init__(self, item: Any) -> None:
        super().__init__()
        self.item = item
        self.setCheckable(True)
        self.setAutoRaise(True)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.doubled.emit(self.item)
