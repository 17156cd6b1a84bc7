"""Context menus, which contain commands of the command table and entries for a place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QContextMenuEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QMenu

from visualizer.widgets.commands import add_separator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from PySide6.QtGui import QKeyEvent
    from PySide6.QtWidgets import QWidget

SHIFT = Qt.KeyboardModifier.ShiftModifier


class MenuEntry(Struct, frozen=True):
    """An entry that acts on the place for which the menu is opened."""

    id: str
    text: str
    run: Callable[[], object]


def open_context_menu(
    parent: QWidget, groups: Iterable[Sequence[MenuEntry | QAction]], at: QPoint
) -> QMenu | None:
    """Open a menu at a position on the screen; return None if it would be empty.

    Parameters
    ----------
    groups : iterable of sequence
        Entries and actions of commands; separators are shown between the groups.
    """
    filled = [group for group in groups if group]
    if not filled:
        return None
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    for number, group in enumerate(filled):
        if number:
            add_separator(menu)
        for entry in group:
            if isinstance(entry, QAction):
                menu.addAction(entry)
            else:
                _add_entry(menu, entry)
    menu.popup(at)
    return menu


def _add_entry(menu: QMenu, entry: MenuEntry) -> None:
    action = menu.addAction(entry.text.replace("&", "&&"))
    action.setObjectName(entry.id)
    action.triggered.connect(partial(_run_entry, entry))


def _run_entry(entry: MenuEntry) -> None:
    entry.run()


def handle_menu_shortcut(event: QKeyEvent) -> bool:
    """Open the context menu of the focused widget on Shift+F10; return whether this is the key.

    On X11, Qt opens the menu only for the menu key, which many keyboards lack.
    """
    is_shortcut = event.key() == Qt.Key.Key_F10 and event.modifiers() == SHIFT
    widget = QApplication.focusWidget()
    if is_shortcut and widget:
        at = widget.rect().center()
        reason = QContextMenuEvent.Reason.Keyboard
        menu_event = QContextMenuEvent(reason, at, widget.mapToGlobal(at))
        QApplication.sendEvent(widget, menu_event)
    return is_shortcut


def add_context_menu(widget: QWidget, *groups: Sequence[MenuEntry | QAction]) -> None:
    """Give a widget a context menu; its commands do not get shortcuts in the widget."""
    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(partial(_open_menu_of_widget, widget, groups))


def _open_menu_of_widget(
    widget: QWidget, groups: Sequence[Sequence[MenuEntry | QAction]], at: QPoint
) -> None:
    inner = widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget
    open_context_menu(widget, groups, inner.mapToGlobal(at))
