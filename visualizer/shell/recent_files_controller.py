"""The menu of recently opened and saved files."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction

from visualizer.documents import recent_files
from visualizer.widgets.app_settings import user_data_folder
from visualizer.widgets.commands import add_separator

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QMenu


class RecentFilesController(QObject):
    """Controller that records opened and saved files, and lists them when the menu is shown."""

    chosen = Signal(object)

    def __init__(self, menu: QMenu, parent: QObject) -> None:
        super().__init__(parent)
        self._folder, self._menu = user_data_folder(), menu
        self._fixed = menu.actions()
        self._listed: list[QAction] = []
        menu.aboutToShow.connect(self._update_menu)

    def add_to_recent_files(self, path: Path) -> None:
        """Move a file to the top of the list."""
        with suppress(OSError):  # a failure to record the file is not worth a message
            recent_files.add_recent_file(self._folder, path)

    def clear(self) -> None:
        """Clear the list."""
        with suppress(OSError):
            for path in recent_files.load_recent_files(self._folder):
                recent_files.remove_recent_file(self._folder, path)

    def _update_menu(self) -> None:
        for action in self._listed:
            self._menu.removeAction(action)
            action.deleteLater()
        paths = recent_files.load_recent_files(self._folder)
        self._listed = [
            self._insert_file_action(number, path) for number, path in enumerate(paths, 1)
        ]
        self._listed.append(add_separator(self._menu, self._fixed[0]))

    def _insert_file_action(self, number: int, path: Path) -> QAction:
        name = path.name.replace("&", "&&")
        action = QAction(f"&{number % 10}  {name}", self._menu)
        action.setStatusTip(str(path))
        action.setData(path)
        action.triggered.connect(self._emit_chosen_file)
        self._menu.insertAction(self._fixed[0], action)
        return action

    def _emit_chosen_file(self) -> None:
        action = self.sender()
        if isinstance(action, QAction):
            self.chosen.emit(action.data())
