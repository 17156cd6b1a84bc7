"""The menu of recently opened and saved files."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction

from visualizer.documents import recent_files
from visualizer.widgets.app_settings import own_folder
from visualizer.widgets.command_actions_and_menus import add_separator

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QMenu


class RecentFilesMenu(QObject):
    """Records files, and lists them whenever the menu is shown."""

    chosen = Signal(object)

    def __init__(self, menu: QMenu, parent: QObject) -> None:
        super().__init__(parent)
        self._folder, self._menu = own_folder(), menu
        self._fixed = menu.actions()
        self._offered: list[QAction] = []
        menu.aboutToShow.connect(self._offer)

    def remember(self, path: Path) -> None:
        """Put a file first."""
        with suppress(OSError):  # failing to record it is not worth a message
            recent_files.remember(self._folder, path)

    def clear(self) -> None:
        """Clear the list."""
        with suppress(OSError):
            for path in recent_files.recent(self._folder):
                recent_files.forget(self._folder, path)

    def _offer(self) -> None:
        for action in self._offered:
            self._menu.removeAction(action)
            action.deleteLater()
        paths = recent_files.recent(self._folder)
        self._offered = [self._action(number, path) for number, path in enumerate(paths, 1)]
        self._offered.append(add_separator(self._menu, self._fixed[0]))

    def _action(self, number: int, path: Path) -> QAction:
        name = path.name.replace("&", "&&")
        action = QAction(f"&{number % 10}  {name}", self._menu)
        action.setStatusTip(str(path))
        action.setData(path)
        action.triggered.connect(self._choose)
        self._menu.insertAction(self._fixed[0], action)
        return action

    def _choose(self) -> None:
        action = self.sender()
        if isinstance(action, QAction):
            self.chosen.emit(action.data())
