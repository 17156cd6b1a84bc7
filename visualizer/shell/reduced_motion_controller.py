"""Turns the animations of a window on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from visualizer.widgets.app_settings import ANIMATION_EFFECTS, is_motion_reduced, set_motion_reduced

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow


class ReducedMotionController(QObject):
    """Applies the user's choice of reduced motion to a window."""

    changed = Signal()

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self.is_on = is_motion_reduced()
        """Whether animations are off in this window."""
        self._effects = [
            effect for effect in ANIMATION_EFFECTS if QApplication.isEffectEnabled(effect)
        ]

    def toggle(self) -> None:
        set_motion_reduced(not is_motion_reduced())
        self.changed.emit()

    def apply(self) -> None:
        """Turn the animations of panes, menus, lists and tooltips on or off."""
        self.is_on = is_motion_reduced()
        self._window.setAnimated(not self.is_on)
        for effect in self._effects:
            QApplication.setEffectEnabled(effect, not self.is_on)
