"""Status bar created in Python rather than by Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QSizePolicy, QStatusBar

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow, QWidget


def add_status_bar(window: QMainWindow, facts: QWidget) -> QStatusBar:
    """Add a status bar with a widget of facts at the left to a window.

    PySide is not notified when a status bar created by Qt is deleted. It would mistake the next
    window's bar at the same address for it and delete its contents with the first window.
    """
    bar = QStatusBar(window)
    bar.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # same as Qt's default
    bar.addWidget(facts, 1)
    window.setStatusBar(bar)
    return bar
