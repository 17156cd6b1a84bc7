"""The table of panes around the heatmaps, their docks, and the focus cycle between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QTabBar, QToolBar, QWidget
from shiboken6 import isValid

from visualizer.features.cell.widget import CellPane
from visualizer.features.code.widget import CodePane
from visualizer.features.setup.widget import SetupPane
from visualizer.shell.pane_connections import (
    connect_cell,
    connect_code,
    connect_colours,
    connect_heads,
    connect_lesson,
    connect_lines,
    connect_numbers,
    connect_setup,
    connect_shapes,
)
from visualizer.widgets.labels import PlainLabel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMenu

    from visualizer.shell.pane_connections import PaneControllers

_DIRECT = Qt.FindChildOption.FindDirectChildrenOnly
LEFT, RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane.

    Parameters
    ----------
    id : str
        The id in saved window states and views, independent of its title.
    make : callable
        Makes its widget, which has ``show_screen(screen, theme)``; called when the pane is first
        shown, and loads the modules that only this pane needs.
    connect : callable
        Leads the widget's signals to what the panes share, or to a controller of its own.
    keys : str
        The shortcut that opens and closes it.
    height : int
        Its height relative to the other panes of its side.
    beside : str
        The id of the pane that it is tabbed with; it is closed at first.
    width : int
        The width of its own column next to the heatmaps; it is closed at first.
    """

    id: str
    title: str
    make: Callable[[], QWidget]
    connect: Callable[[Any, PaneControllers], None]
    keys: str
    side: Qt.DockWidgetArea
    height: int
    beside: str = ""
    width: int = 0

    @property
    def is_closed_at_first(self) -> bool:
        """Whether it is closed until the user opens it."""
        return bool(self.beside or self.width)


def _lesson() -> QWidget:
    from visualizer.features.lessons.widget import LessonPane

    return LessonPane()


def _lines() -> QWidget:
    from visualizer.features.line_view.widget import LinePane

    return LinePane()


def _colours() -> QWidget:
    from visualizer.features.view_bar.colours_widget import ColoursPane

    return ColoursPane()


def _numbers() -> QWidget:
    from visualizer.features.tensor_editor.widget import NumberTablePane

    return NumberTablePane()


def _shapes() -> QWidget:
    from visualizer.features.shapes.widget import ShapesPane

    return ShapesPane()


def _heads() -> QWidget:
    from visualizer.features.head_table.widget import HeadTablePane

    return HeadTablePane()


PANES: tuple[Pane, ...] = (
    Pane("Lesson", "Lesson", _lesson, connect_lesson, "F6", LEFT, 430),
    Pane("Setup", "Setup", SetupPane, connect_setup, "F2", LEFT, 220),
    Pane("Lines", "Lines", _lines, connect_lines, "F9", RIGHT, 0, width=300),
    Pane("Cell", "Cell", CellPane, connect_cell, "F3", RIGHT, 360),
    Pane("Code", "Code", CodePane, connect_code, "F4", RIGHT, 280),
    Pane("Colours", "Colours", _colours, connect_colours, "F11", RIGHT, 280, beside="Code"),
    Pane("Numbers", "Numbers", _numbers, connect_numbers, "F7", RIGHT, 280, beside="Code"),
    Pane("Shapes", "Shapes", _shapes, connect_shapes, "Shift+F4", RIGHT, 280, beside="Code"),
    Pane("Heads", "Heads", _heads, connect_heads, "F8", RIGHT, 280, beside="Code"),
)
MADE_AT_ONCE = frozenset({"Lesson", "Setup", "Cell", "Code"})
"""Panes of the first window and of its lessons; the others are made when they are first shown."""
LEFT_WIDTH, RIGHT_WIDTH = 248, 264


class PaneWidgets(dict[str, Any]):
    """The widgets of the panes made so far, by their ids; makes the others when asked for them.

    Parameters
    ----------
    place : callable
        Called with each new widget and its pane.
    """

    def __init__(self, place: Callable[[Pane, QWidget], None]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, id_: str) -> Any:
        pane = next(pane for pane in PANES if pane.id == id_)
        self[id_] = widget = pane.make()
        self._place(pane, widget)
        return widget


class PaneDock(QDockWidget):
    """A dock that asks for its pane before it is first shown."""

    def __init__(self, pane: Pane, window: QMainWindow, panes: PaneWidgets) -> None:
        super().__init__(pane.title, window)
        self._pane, self._panes = pane, panes

    def setVisible(self, visible: bool) -> None:
        if visible:
            self._panes[self._pane.id]
        super().setVisible(visible)


class PaneDocks(QObject):
    """The window's docks, by the ids of their panes."""

    changed = Signal(object)
    """The ids of the visible panes; of tabs, the front one."""

    def __init__(self, window: QMainWindow, finish: Callable[[Pane, Any], object]) -> None:
        super().__init__(window)
        self._window, self._finish = window, finish
        self._seen: frozenset[str] = frozenset()
        self.panes = PaneWidgets(self._place)
        self.by_id: dict[str, PaneDock] = {}
        for pane in PANES:
            self.by_id[pane.id] = _dock(window, pane, self.panes)
            if pane.id in MADE_AT_ONCE:
                self.panes[pane.id]
        for dock in self.by_id.values():
            dock.visibilityChanged.connect(self._see)
            dock.toggleViewAction().triggered.connect(self._keep_widths)
        for pane in PANES:
            if pane.width:
                self._set_apart(pane)
        for pane in PANES:
            if pane.beside:
                window.tabifyDockWidget(self.by_id[pane.beside], self.by_id[pane.id])
                self.by_id[pane.id].hide()
        usual = {LEFT: LEFT_WIDTH, RIGHT: RIGHT_WIDTH}
        widths = [pane.width or usual[pane.side] for pane in PANES]
        docks = list(self.by_id.values())
        window.resizeDocks(docks, widths, Qt.Orientation.Horizontal)
        self.share_height(RIGHT)

    def _place(self, pane: Pane, widget: QWidget) -> None:
        self.by_id[pane.id].setWidget(widget)
        if pane.id not in MADE_AT_ONCE:
            self._order_tabs(pane)
        self._finish(pane, widget)

    def _order_tabs(self, new: Pane) -> None:
        """Put the controls of a new pane at its place in the tab order, that of `PANES`."""
        ids = [pane.id for pane in PANES]
        earlier = [id_ for id_ in ids[: ids.index(new.id)] if id_ in self.panes]
        stops = [stop for id_ in earlier for stop in _stops(self.panes[id_])]
        before = stops[-1]
        for part in _stops(self.panes[new.id]):
            QWidget.setTabOrder(before, part)
            before = part

    def _set_apart(self, pane: Pane) -> None:
        """Give a pane the whole height of its side; the others follow outwards."""
        apart = self.by_id[pane.id]
        others = [self.by_id[other.id] for other in PANES if _is_beyond(other, pane)]
        self._window.splitDockWidget(apart, others[0], Qt.Orientation.Horizontal)
        for above, below in pairwise(others):
            self._window.splitDockWidget(above, below, Qt.Orientation.Vertical)
        apart.hide()

    def share_height(self, side: Qt.DockWidgetArea) -> None:
        """Give the panes of a side their usual heights."""
        panes = [pane for pane in PANES if pane.side is side and not pane.is_closed_at_first]
        docks = [self.by_id[pane.id] for pane in panes]
        heights = [pane.height for pane in panes]
        self._window.resizeDocks(docks, heights, Qt.Orientation.Vertical)

    def add_to_menu(self, menu: QMenu) -> None:
        """Add the panes' actions, with their shortcuts, to a menu."""
        for pane in PANES:
            self.actions[pane.id].setShortcut(pane.keys)
            menu.addAction(self.actions[pane.id])

    @property
    def actions(self) -> dict[str, QAction]:
        """The action that opens and closes each pane."""
        return {id_: dock.toggleViewAction() for id_, dock in self.by_id.items()}

    @property
    def seen(self) -> frozenset[str]:
        """The ids of the visible panes; of tabs, the front one."""
        return self._seen

    def _keep_widths(self) -> None:
        """Let the heatmaps, not the remaining panes, take the room of a pane that closes."""
        staying = [dock for dock in self.by_id.values() if dock.isVisible()]
        widths = [dock.width() for dock in staying]
        self._window.resizeDocks(staying, widths, Qt.Orientation.Horizontal)

    def _see(self, is_seen: bool) -> None:
        if not isValid(self._window):  # destroyed from outside, as when the display has gone
            return
        pane = frozenset({self.sender().objectName()})
        self._seen = self._seen | pane if is_seen else self._seen - pane
        for bar in self._window.findChildren(QTabBar, options=_DIRECT):
            bar.setAccessibleName("Panes")
            bar.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # every pane has its own shortcut
        self.changed.emit(self._seen)


def _ring(widget: QWidget) -> list[QWidget]:
    """List the widgets of the window in their tab order, from one on."""
    ring = [widget]
    while (part := ring[-1].nextInFocusChain()) is not None and part is not widget:
        ring.append(part)
    return ring


def _stops(widget: QWidget) -> list[QWidget]:
    """List what the tab key stops at within a widget, in its order."""
    return [part for part in _ring(widget) if _holds(widget, part) and _is_stop(part)]


def _is_stop(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


def _is_beyond(pane: Pane, apart: Pane) -> bool:
    return pane.side is apart.side and pane is not apart and not pane.beside


def _dock(window: QMainWindow, pane: Pane, panes: PaneWidgets) -> PaneDock:
    dock = PaneDock(pane, window, panes)
    dock.setObjectName(pane.id)
    title = PlainLabel(pane.title)
    title.setProperty("role", "pane")
    dock.setTitleBarWidget(title)  # aligned with the panes below; the dock can still be dragged
    dock.setFeatures(
        QDockWidget.DockWidgetFeature.DockWidgetMovable
        | QDockWidget.DockWidgetFeature.DockWidgetClosable
    )
    window.addDockWidget(pane.side, dock)
    # A tabbed pane opened from the menu comes to the front.
    dock.toggleViewAction().triggered.connect(dock.raise_)
    return dock


def add_bar(
    window: QMainWindow, id_: str, title: str, widget: QWidget, side: Qt.ToolBarArea
) -> None:
    """Add a toolbar along a whole edge of the window; saved window states name it by its id."""
    bar = QToolBar(title, window)
    bar.setObjectName(id_)
    bar.setMovable(False)
    bar.addWidget(widget)
    window.addToolBar(side, bar)


class PaneFocusCycle:
    """Cycles the focus between the visible panes and bars of a window.

    Parameters
    ----------
    fixed : tuple of QWidget
        Widgets that a cycle starts with, in order.
    panes : mapping
        By their ids.
    bars : tuple of QWidget
        The bars that appear and disappear, after the panes.
    """

    def __init__(
        self,
        fixed: tuple[QWidget, ...],
        panes: Mapping[str, QWidget],
        docks: PaneDocks,
        bars: tuple[QWidget, ...],
    ) -> None:
        self._fixed, self._panes, self._docks, self._bars = fixed, panes, docks, bars

    def go(self, steps: int) -> None:
        """Focus the next pane or bar, or the one before."""
        parts = {part: entry for part in self._seen() if (entry := _entry(part)) is not None}
        here = QApplication.focusWidget()
        at = (number for number, part in enumerate(parts) if _holds(part, here))
        before_all = -1 if steps > 0 else 0
        following = [*parts.values()][(next(at, before_all) + steps) % len(parts)]
        following.setFocus(Qt.FocusReason.TabFocusReason)

    def _seen(self) -> list[QWidget]:
        panes = [self._panes[pane.id] for pane in PANES if pane.id in self._docks.seen]
        return [*self._fixed, *panes, *(bar for bar in self._bars if bar.isVisible())]


def _holds(part: QWidget, widget: QWidget | None) -> bool:
    return widget is not None and (part is widget or part.isAncestorOf(widget))


def _entry(part: QWidget) -> QWidget | None:
    """Return the first focusable widget within a pane, or the pane itself."""
    widget = part.nextInFocusChain()
    while widget is not None and widget is not part:
        if part.isAncestorOf(widget) and _takes_keys(widget):
            return widget
        widget = widget.nextInFocusChain()
    return part if _takes_keys(part) else None


def _takes_keys(widget: QWidget) -> bool:
    return _is_stop(widget) and widget.isVisible() and widget.isEnabled()
