"""Whether things may move on the screen; who gets sick of it, or listens, has them stand still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSettings, Qt, Signal
from PySide6.QtWidgets import QApplication

from visualizer.ui.settings import REDUCED_MOTION

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

EFFECTS = (
    Qt.UIEffect.UI_AnimateMenu,
    Qt.UIEffect.UI_FadeMenu,
    Qt.UIEffect.UI_AnimateCombo,
    Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip,
    Qt.UIEffect.UI_AnimateToolBox,
)


def is_reduced() -> bool:
    """Whether the user wants as little motion as can be."""
    return QSettings().value(REDUCED_MOTION, defaultValue=False, type=bool) is True


def set_reduced(is_on: bool) -> None:
    """Remember whether the user wants as little motion as can be."""
    QSettings().setValue(REDUCED_MOTION, is_on)


def style_sheet() -> str:
    """Give the rule by which what the style moves stands still."""
    return "* { widget-animation-duration: 0; }" if is_reduced() else ""


class Motion(QObject):
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
