"""A button that toggles at a click and shows its item alone at a double click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QToolButton

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent


class SoloToggleButton(QToolButton):
    """A button of one of several items: a click toggles it, a double click shows it alone."""

    doubled = Signal(object)
    """Carries the item."""

    def __init__(self, item: Any) -> None:
        super().__init__()
        self.item = item
        self.setCheckable(True)
        self.setAutoRaise(True)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.doubled.emit(self.item)
