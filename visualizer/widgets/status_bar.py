"""The status bar of a window, made in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QSizePolicy, QStatusBar

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow, QWidget


def add_status_bar(window: QMainWindow, facts: QWidget) -> QStatusBar:
    """Give a window a status bar with its facts at the left.

    Python does not learn of the end of a bar that Qt made: it would take the next window's at the
    same address for it, and end what is on it together with the first window.
    """
    bar = QStatusBar(window)
    bar.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # as of Qt's own
    bar.addWidget(facts, 1)
    window.setStatusBar(bar)
    return bar
