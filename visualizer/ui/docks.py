"""The panes around the heatmaps, as docks that can be moved and closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QDockWidget, QLabel, QMainWindow, QToolBar, QWidget

from visualizer.ui.actions import PANES

if TYPE_CHECKING:
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QMenu


def add_dock(window: QMainWindow, name: str, pane: QWidget, side: Qt.DockWidgetArea) -> QDockWidget:
    """Put a pane at a side of the window."""
    dock = QDockWidget(name, window)
    dock.setObjectName(name)
    dock.setWidget(pane)
    title = QLabel(name)
    title.setProperty("role", "pane")
    dock.setTitleBarWidget(title)  # in line with what is under it; can still be dragged
    dock.setFeatures(
        QDockWidget.DockWidgetFeature.DockWidgetMovable
        | QDockWidget.DockWidgetFeature.DockWidgetClosable
    )
    window.addDockWidget(side, dock)
    return dock


def add_to_menu(docks: list[QDockWidget], menu: QMenu) -> None:
    """Let docks be opened and closed from a menu and by their keys."""
    menu.addSeparator()
    for dock in docks:
        dock.toggleViewAction().setShortcut(PANES[dock.objectName()])
        menu.addAction(dock.toggleViewAction())


def add_bar(window: QMainWindow, name: str, widget: QWidget, side: Qt.ToolBarArea) -> None:
    """Put a bar along a whole edge of the window."""
    bar = QToolBar(name, window)
    bar.setObjectName(name)
    bar.setMovable(False)
    bar.addWidget(widget)
    window.addToolBar(side, bar)
