"""Whether things may move on the screen; who gets sick of it, or listens, has them stand still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from visualizer.widgets.app_settings import EFFECTS, is_reduced, set_reduced

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow


class ReducedMotionController(QObject):
    """Has a window move, or not, as the user wants."""

    changed = Signal()

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self.is_on = is_reduced()
        """Whether things stand still in this window."""
        self._effects = [effect for effect in EFFECTS if QApplication.isEffectEnabled(effect)]

    def toggle(self) -> None:
        """Have things move, or no longer."""
        set_reduced(not is_reduced())
        self.changed.emit()

    def apply(self) -> None:
        """Do what the user wants: panes, menus, lists and tips come at once, or glide."""
        self.is_on = is_reduced()
        self._window.setAnimated(not self.is_on)
        for effect in self._effects:
            QApplication.setEffectEnabled(effect, not self.is_on)
