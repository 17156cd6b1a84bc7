"""Actions, shortcuts and menus made from a table of entries."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence

from visualizer.ui.icons import icon

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtWidgets import QMainWindow, QMenu, QWidget

    from visualizer.ui.entries import Entry
    from visualizer.ui.theme import Theme


class Action(QAction):
    """An entry of the table; done by the window that it belongs to."""

    def __init__(self, entry: Entry, window: QMainWindow) -> None:
        super().__init__(entry.words, window)
        self.entry = entry
        self.setObjectName(entry.key)
        self.setShortcuts([QKeySequence(keys) for keys in entry.keys])
        if entry.near:
            self.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.triggered.connect(self._do)

    def _do(self) -> None:
        attrgetter(self.entry.name)(self.parent())(*self.entry.arguments)


class Menus:
    """A window's actions, by key, and its menus."""

    def __init__(self, window: QMainWindow, entries: Iterable[Entry]) -> None:
        self._window = window
        self.menus: dict[str, QMenu] = {}
        self._groups: dict[str, QActionGroup] = {}
        self.by_key = {entry.key: self._make(entry) for entry in entries}

    def _make(self, entry: Entry) -> Action:
        action = Action(entry, self._window)
        action.setCheckable(entry.ticks)
        if entry.group:
            action.setCheckable(True)
            group = self._groups.setdefault(entry.group, QActionGroup(self._window))
            group.addAction(action)
        menu = self.menu(entry.menu)
        if entry.divides:
            menu.addSeparator()
        menu.addAction(action)
        return action

    def menu(self, path: str) -> QMenu:
        """Give a menu by its name, or one within another: ``View>Colours``."""
        if path not in self.menus:
            above, _, name = path.rpartition(">")
            parent = self.menu(above) if above else self._window.menuBar()
            self.menus[path] = parent.addMenu(name)
        return self.menus[path]

    def give_keys(self, *widgets: QWidget) -> None:
        """Have the keys work that work only near some widgets."""
        for action in self.by_key.values():
            if action.entry.near:
                for widget in widgets:
                    widget.addAction(action)

    def enable(self, key: str, is_enabled: bool) -> None:
        """Let an action be used or not."""
        self.by_key[key].setEnabled(is_enabled)

    def check(self, key: str, is_on: bool = True) -> None:
        """Mark the chosen one of a group, or what is on."""
        self.by_key[key].setChecked(is_on)

    def show_theme(self, theme: Theme) -> None:
        """Draw the icons in a theme's ink."""
        for action in self.by_key.values():
            if action.entry.icon:
                action.setIcon(icon(action.entry.icon, theme.ink))
