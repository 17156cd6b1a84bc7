"""Controls which parts of the lab's window are collapsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.widgets import app_settings

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

LEFT, LOSSES = "left", "losses"
NARROW_SCREEN_PX = 800
"""Screen width, in pixels, below which the settings are initially collapsed."""


class CollapsedSectionsController(QObject):
    """Collapses and expands parts of the lab, and stores which ones are collapsed."""

    changed = Signal()

    def __init__(self, window: QWidget, left: QWidget, losses: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._parts = {LEFT: left, LOSSES: losses}

    @property
    def collapsed_sections(self) -> frozenset[str]:
        """The names of the collapsed parts."""
        return frozenset(name for name, part in self._parts.items() if part.isHidden())

    def restore_sections(self) -> None:
        """Restore the stored state; if none is stored, collapse the settings on a narrow screen."""
        folded = app_settings.load_collapsed_sections()
        if folded is None:
            is_narrow = self._window.screen().availableGeometry().width() < NARROW_SCREEN_PX
            folded = frozenset({LEFT} if is_narrow else ())
        for name in self._parts:
            self._set_part_visible(name, name not in folded)

    def toggle_section(self, name: str) -> None:
        self._set_part_visible(name, name in self.collapsed_sections)
        app_settings.save_collapsed_sections(self.collapsed_sections)

    def expand_left(self) -> None:
        """Expand the part with the settings and the runs."""
        if LEFT in self.collapsed_sections:
            self.toggle_section(LEFT)

    def _set_part_visible(self, name: str, is_shown: bool) -> None:
        self._parts[name].setVisible(is_shown)
        self.changed.emit()
