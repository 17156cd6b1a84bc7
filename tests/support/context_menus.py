"""Opens context menus by the mouse or by the menu key, and chooses their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QMenu

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QWidget

PATIENCE_MS = 5_000


def open_context_menu(widget: QWidget, at: QPoint | None = None) -> QMenu:
    """Right-click a widget at a point, or press the menu key if there is none."""
    reason = QContextMenuEvent.Reason
    kind = reason.Keyboard if at is None else reason.Mouse
    place = widget.rect().center() if at is None else at
    QApplication.sendEvent(widget, QContextMenuEvent(kind, place, widget.mapToGlobal(place)))
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    return menu


def entry_ids(menu: QMenu) -> list[str]:
    """Return the ids of the entries of a menu."""
    return [action.objectName() for action in menu.actions() if not action.isSeparator()]


def close_menu(menu: QMenu) -> None:
    """Close a menu."""
    menu.close()
    wait_until(lambda: QApplication.activePopupWidget() is None, PATIENCE_MS)


def choose_in_context_menu(widget: QWidget, at: QPoint | None, id_: str) -> None:
    """Choose an entry of the context menu of a widget."""
    menu = open_context_menu(widget, at)
    next(action for action in menu.actions() if action.objectName() == id_).trigger()
    close_menu(menu)
