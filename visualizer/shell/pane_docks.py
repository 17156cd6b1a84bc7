"""The dock widgets of the panes: placement, sizes and visibility; panes are created on demand."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from PySide6.QtCore import (
    QChildEvent,
    QCoreApplication,
    QEvent,
    QObject,
    QPointF,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QMainWindow,
    QTabBar,
    QToolBar,
    QToolButton,
    QWidget,
)
from shiboken6 import isValid

from visualizer.session.pane import Area
from visualizer.shell.pane_table import PANES
from visualizer.widgets.commands import tooltip_with_shortcut
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import PlainLabel, plain_tooltip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMenu

    from visualizer.session.pane import Pane
    from visualizer.session.screen import Screen


class PaneFocusCycle:
    """Cycles the focus between the visible panes and bars of a window.

    Parameters
    ----------
    fixed : tuple of QWidget
        Widgets that a cycle starts with, in order.
    visible_panes : callable
        Lists the widgets of the visible panes, in order.
    bars : tuple of QWidget
        The bars that appear and disappear, after the panes.
    """

    def __init__(
        self,
        fixed: tuple[QWidget, ...],
        visible_panes: Callable[[], list[QWidget]],
        bars: tuple[QWidget, ...],
    ) -> None:
        self._fixed, self._visible_panes, self._bars = fixed, visible_panes, bars

    def go(self, steps: int) -> None:
        """Focus the next or the previous pane or bar."""
        parts = {
            part: entry
            for part in self._visible_parts()
            if (entry := _first_focusable(part)) is not None
        }
        here = QApplication.focusWidget()
        at = (number for number, part in enumerate(parts) if _contains(part, here))
        before_all = -1 if steps > 0 else 0
        following = [*parts.values()][(next(at, before_all) + steps) % len(parts)]
        following.setFocus(Qt.FocusReason.TabFocusReason)

    def _visible_parts(self) -> list[QWidget]:
        return [
            *self._fixed,
            *self._visible_panes(),
            *(bar for bar in self._bars if bar.isVisible()),
        ]


def _contains(part: QWidget, widget: QWidget | None) -> bool:
    return widget is not None and (part is widget or part.isAncestorOf(widget))


def _first_focusable(part: QWidget) -> QWidget | None:
    """Return the first focusable widget within a pane, or the pane itself."""
    chain = (*_focus_chain(part)[1:], part)
    return next((each for each in chain if _contains(part, each) and _takes_keys(each)), None)


def _takes_keys(widget: QWidget) -> bool:
    return _is_stop(widget) and widget.isVisible() and widget.isEnabled()


def _focus_chain(widget: QWidget) -> list[QWidget]:
    """List the window's widgets in tab order, starting with one."""
    ring = [widget]
    while (part := ring[-1].nextInFocusChain()) is not None and part is not widget:
        ring.append(part)
    return ring


def tab_stops(widget: QWidget) -> list[QWidget]:
    """List the tab stops within a widget, in order."""
    return [part for part in _focus_chain(widget) if _contains(widget, part) and _is_stop(part)]


def _is_stop(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


SIDES = {
    Area.LEFT: Qt.DockWidgetArea.LeftDockWidgetArea,
    Area.RIGHT: Qt.DockWidgetArea.RightDockWidgetArea,
}
DEFAULT_WIDTHS_PX = {Area.LEFT: 248, Area.RIGHT: 264}
SCROLL_TOOLTIPS = {"ScrollLeftButton": "Previous panes", "ScrollRightButton": "Next panes"}
"""Tooltips of a tab bar's scroll buttons, by Qt's object names."""
DROP_TIMEOUT_MS = 400
"""Maximum time until a dropped pane reaches its place; Qt's animation takes 200 ms."""
PRESS_EVENTS = {QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick}
WIDE_WINDOW_PX = 1500
"""Window width, in pixels, above which pane widths grow in proportion."""


class PaneScale(Struct, frozen=True):
    """Inputs of the default pane widths.

    Parameters
    ----------
    window : int
        Width of the window in pixels.
    text : float
        Factor on the default text size.
    """

    window: int
    text: float

    @classmethod
    def of(cls, window: QMainWindow) -> PaneScale:
        return cls(window.width(), text_scale())

    def default_width(self, pane: Pane) -> int:
        """Return the default width of a pane."""
        others = (other.width for other in PANES if other.id == pane.beside)
        usual = pane.width or next(others, 0) or DEFAULT_WIDTHS_PX[pane.area]
        return max(round(usual * self.text), usual * self.window // WIDE_WINDOW_PX)


class PaneWidgets(dict[str, Any]):
    """The pane widgets by their ids; missing ones are created on access.

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
        self[id_] = widget = pane.create_widget()
        self._place(pane, widget)
        return widget


class PaneDock(QDockWidget):
    """A dock widget that creates its pane before it is first shown.

    If it is closed while it has the focus, the focus moves to `home`. Qt would move it to the next
    widget in the tab order.
    """

    def __init__(self, pane: Pane, window: QMainWindow, panes: PaneWidgets, home: QWidget) -> None:
        super().__init__(pane.title, window)
        self._pane, self._panes, self._home = pane, panes, home

    def setVisible(self, visible: bool) -> None:
        focused = QApplication.focusWidget()
        if visible:
            self._panes[self._pane.id]
        elif focused and self.isAncestorOf(focused):
            self._home.setFocus(Qt.FocusReason.OtherFocusReason)
        super().setVisible(visible)


def _set_up_tab_bar(bar: QTabBar) -> None:
    """Configure a tab bar that Qt created for panes: full titles, no stop in the tab order."""
    bar.setAccessibleName("Panes")
    bar.setElideMode(Qt.TextElideMode.ElideNone)
    bar.setUsesScrollButtons(True)
    for button in bar.findChildren(QToolButton):
        button.setToolTip(plain_tooltip(SCROLL_TOOLTIPS.get(button.objectName(), "Panes")))
    bar.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # every pane has its own shortcut


class PaneDocks(QObject):
    """The window's dock widgets, by the ids of their panes."""

    changed = Signal(object)
    """The ids of the visible panes; for tabbed panes, only the front one."""

    def __init__(
        self, window: QMainWindow, finish: Callable[[Pane, Any], object], home: QWidget
    ) -> None:
        super().__init__(window)
        self._window, self._finish = window, finish
        self._seen: frozenset[str] = frozenset()
        self._is_held = False
        self._filled: set[str] = set()
        """Panes with `opens_with` for which the last screen had content."""
        self._model_folder = ""
        self._to_open: list[str] = []
        """Panes to open for a new model, one at a time."""
        self._next = QTimer(self, singleShot=True, interval=1)
        self._next.timeout.connect(self._open_next)
        self.panes = PaneWidgets(self._place_pane)
        self.by_id: dict[str, PaneDock] = {}
        window.installEventFilter(self)  # before Qt creates the tab bars
        for pane in PANES:
            self.by_id[pane.id] = _make_dock(window, pane, self.panes, home)

    def fill(self) -> None:
        """Create the panes that are created at once, and arrange all."""
        for pane in PANES:
            if pane.is_made_at_once:
                self.panes[pane.id]
        for dock in self.by_id.values():
            dock.visibilityChanged.connect(self._update_visible_panes)
            dock.toggleViewAction().triggered.connect(self._keep_widths)
        self._arrange_docks()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """End a drag when a dialog opens, because the window does not receive its release then.

        Edges between panes ignore presses until a dropped pane has reached its place: Qt stores
        the layout to restore in one place for both and would lose the layout of all panes. Tabs
        also ignore them: Qt may delete their bar and would still move the tab.
        """
        if isinstance(event, QChildEvent):
            # Before it is polished, Python sees only a QWidget and would keep that type.
            if event.polished() and isinstance(bar := event.child(), QTabBar):
                _set_up_tab_bar(bar)  # Qt creates them for tabbed panes
                bar.installEventFilter(self)
            return False
        is_press = event.type() in PRESS_EVENTS
        ends_drag = is_press or event.type() is QEvent.Type.WindowBlocked
        return bool(ends_drag and self._release_drags() and is_press)

    def after_drop(self, then: Callable[[], object], most_waits: int = 2) -> None:
        """End the drag of a pane, tab or edge, and call `then` when the pane has reached its place.

        `then` is called immediately if no pane is being dragged. Drags that start while waiting are
        also ended; `most_waits` bounds the wait, because a pane may stay floating.
        """
        if self._release_drags() and most_waits:
            QTimer.singleShot(DROP_TIMEOUT_MS, self, partial(self.after_drop, then, most_waits - 1))
        else:
            then()

    def end_drag(self) -> None:
        """End a drag and put the pane back into the window immediately.

        A pane floats until it reaches its place, and Qt keeps the previous layout: if the panes are
        rearranged or the window is deleted before that, Qt accesses freed memory.
        """
        for dock in self._release_drags():
            dock.setFloating(False)

    def _release_drags(self) -> list[PaneDock]:
        """Release the mouse on all panes, tabs and edges; return the floating panes."""
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        floating = [dock for dock in self.by_id.values() if dock.isFloating()]
        bars = self._window.findChildren(QTabBar, options=direct)
        for widget in (*bars, *floating, self._window):
            _release_mouse(widget)
        return floating

    def reset(self) -> None:
        """Arrange the panes as in a new window."""
        self.end_drag()
        for dock in self.by_id.values():
            self._window.removeDockWidget(dock)
        for pane in PANES:
            self._window.addDockWidget(SIDES[pane.area], self.by_id[pane.id])
            self.by_id[pane.id].setVisible(not pane.is_initially_closed)
        self._arrange_docks()
        self.restore_content_panes()

    def _arrange_docks(self) -> None:
        """Split and tabify the docks, which are stacked vertically on each side."""
        window = self._window
        for pane in PANES:
            if pane.width:
                self._set_apart(pane)
        for pane in PANES:
            if pane.beside:
                window.tabifyDockWidget(self.by_id[pane.beside], self.by_id[pane.id])
                self.by_id[pane.id].hide()
        scale = PaneScale.of(window)
        widths = {self.by_id[pane.id]: scale.default_width(pane) for pane in PANES}
        self._resize_docks(widths, Qt.Orientation.Horizontal)
        self.share_height(Area.RIGHT)

    def _place_pane(self, pane: Pane, widget: QWidget) -> None:
        self.by_id[pane.id].setWidget(widget)
        if not pane.is_made_at_once:
            self._insert_into_tab_order(pane)
        self._finish(pane, widget)

    def _insert_into_tab_order(self, new: Pane) -> None:
        """Insert the controls of a new pane into the tab order, in the order of `PANES`.

        A floating pane is a window with its own tab order.
        """
        widget = self.panes[new.id]
        made = [self.panes[pane.id] for pane in PANES if pane.id in self.panes]
        earlier = [each for each in made[: made.index(widget)] if each.window() is widget.window()]
        before = next((stops for each in reversed(earlier) if (stops := tab_stops(each))), [])
        for first, second in pairwise([*before[-1:], *tab_stops(widget)]):
            QWidget.setTabOrder(first, second)

    def _set_apart(self, pane: Pane) -> None:
        """Give a pane the full height of its side; the others are placed further out."""
        apart = self.by_id[pane.id]
        others = [other for other in PANES[PANES.index(pane) + 1 :] if _is_beyond(other, pane)]
        docks = [self.by_id[other.id] for other in others]
        self._window.splitDockWidget(apart, docks[0], Qt.Orientation.Horizontal)
        if not others[0].width:  # otherwise they are placed with the next separate pane
            for above, below in pairwise(docks):
                self._window.splitDockWidget(above, below, Qt.Orientation.Vertical)
        apart.hide()

    def share_height(self, area: Area) -> None:
        """Give the panes of one area their default heights."""
        panes = [pane for pane in PANES if pane.area is area and not pane.is_initially_closed]
        heights = {self.by_id[pane.id]: pane.height for pane in panes}
        self._resize_docks(heights, Qt.Orientation.Vertical)

    def _resize_docks(self, sizes: Mapping[PaneDock, int], along: Qt.Orientation) -> None:
        """Resize panes, except one that is being dragged and has no place in the window."""
        nowhere = Qt.DockWidgetArea.NoDockWidgetArea
        kept = [dock for dock in sizes if self._window.dockWidgetArea(dock) is not nowhere]
        self._window.resizeDocks(kept, [sizes[dock] for dock in kept], along)

    def add_to_menu(self, menu: QMenu) -> None:
        """Add the panes' actions to a menu."""
        for pane in PANES:
            menu.addAction(self.actions[pane.id])

    @property
    def actions(self) -> dict[str, QAction]:
        """The action that opens and closes each pane."""
        return {id_: dock.toggleViewAction() for id_, dock in self.by_id.items()}

    @property
    def visible_pane_ids(self) -> frozenset[str]:
        """The ids of the visible panes; for tabbed panes, only the front one."""
        return self._seen

    def visible_panes(self) -> list[QWidget]:
        """List the widgets of the visible panes, in the order of `PANES`."""
        return [self.panes[pane.id] for pane in PANES if pane.id in self._seen]

    def open(self, id_: str) -> None:
        """Open a pane, in front of the panes it is tabbed with."""
        self.by_id[id_].show()
        self.by_id[id_].raise_()

    def show_pane_of(self, widget: QWidget) -> Any:
        """Show the pane that holds a widget, and return it."""
        id_ = next(id_ for id_, dock in self.by_id.items() if dock.isAncestorOf(widget))
        self.by_id[id_].show()
        return self.panes[id_]

    def follow_screen(self, screen: Screen) -> None:
        """Open and close the panes that are open only while a screen has content for them."""
        filled = {pane.id for pane in PANES if pane.opens_with and pane.opens_with(screen)}
        changed, self._filled = filled ^ self._filled, filled
        for pane in PANES:
            if pane.id in changed:
                self.by_id[pane.id].setVisible(pane.id in filled)
                self.share_height(pane.area)

    def restore_content_panes(self) -> None:
        """Show only those panes that the last screen had content for, after a new arrangement."""
        for pane in PANES:
            if pane.opens_with:
                self.by_id[pane.id].setVisible(pane.id in self._filled)

    def follow_model(self, folder: str) -> None:
        """Open the panes that only models use, when a new model starts to run."""
        is_new, self._model_folder = folder not in ("", self._model_folder), folder
        if is_new:
            self._to_open = [pane.id for pane in PANES if pane.opens_for_model]
            self._next.start()

    def _open_next(self) -> None:
        """Open one pane, and the next one after pending updates and events.

        Opening all at once would block the window, and Qt brings a tab to the front only after the
        other tabs have been laid out.
        """
        self.open(self._to_open.pop(0))
        if self._to_open:
            self._next.start()

    def open_for_commands(self, actions: Mapping[str, QAction]) -> None:
        """Open the pane of a command's results when the command is used."""
        for pane in PANES:
            for command in pane.opened_by:
                actions[command].triggered.connect(partial(self._open_for_command, pane, command))

    def _open_for_command(self, pane: Pane, command: str) -> None:
        self.open(pane.id)
        self.run_command(command)

    def run_command(self, command: str) -> None:
        """Run a command on the widget of the pane that has it."""
        for pane in PANES:
            if command in pane.commands:
                pane.commands[command](self.panes[pane.id])

    def stop(self) -> None:
        """End a drag and open no more panes, before the window closes."""
        self.end_drag()
        self._next.stop()

    def update_default_widths(self, before: PaneScale) -> None:
        """Adapt panes of default width to a new window width or text size."""
        now, widths = PaneScale.of(self._window), {}
        for pane in PANES:
            dock = self.by_id[pane.id]
            least, was = dock.minimumSizeHint().width(), before.default_width(pane)
            wanted = max(least, now.default_width(pane))
            is_usual = was - 1 <= dock.width() <= max(least, was) + 1
            if dock.isVisible() and is_usual and wanted != dock.width():
                widths[dock] = wanted
        if widths:
            self._resize_docks(widths, Qt.Orientation.Horizontal)
            layout = self._window.layout()
            assert layout is not None
            layout.activate()  # so that the next change starts from these widths

    def _keep_widths(self) -> None:
        """Give the space of a closed pane to the heatmaps, not to the remaining panes."""
        widths = {dock: dock.width() for dock in self.by_id.values() if dock.isVisible()}
        self._resize_docks(widths, Qt.Orientation.Horizontal)

    def _update_visible_panes(self, is_seen: bool) -> None:
        if not isValid(self._window):  # destroyed by Qt, for example if the display is gone
            return
        pane = frozenset({self.sender().objectName()})
        self._seen = self._seen | pane if is_seen else self._seen - pane
        if not self._is_held:
            self.changed.emit(self._seen)

    @contextmanager
    def batch_changes(self) -> Iterator[None]:
        """Emit `changed` at most once, at the end of the context."""
        before, self._is_held = self._seen, True
        try:
            yield
        finally:
            self._is_held = False
        if self._seen != before:
            self.changed.emit(self._seen)


def _release_mouse(widget: QWidget) -> None:
    """Send a mouse release to a widget, outside its area so that it triggers nothing."""
    kind, at, left = QEvent.Type.MouseButtonRelease, QPointF(-1, -1), Qt.MouseButton.LeftButton
    no_button, no_key = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    release = QMouseEvent(kind, at, widget.mapToGlobal(at), left, no_button, no_key)
    QCoreApplication.sendEvent(widget, release)


def _is_beyond(pane: Pane, apart: Pane) -> bool:
    return pane.area is apart.area and not pane.beside


def _make_dock(window: QMainWindow, pane: Pane, panes: PaneWidgets, home: QWidget) -> PaneDock:
    dock = PaneDock(pane, window, panes, home)
    dock.setObjectName(pane.id)
    title = PlainLabel(pane.title)
    title.setProperty("role", "pane")
    dock.setTitleBarWidget(title)  # aligned with the panes below; the dock can still be dragged
    dock.setFeatures(
        QDockWidget.DockWidgetFeature.DockWidgetMovable
        | QDockWidget.DockWidgetFeature.DockWidgetClosable
    )
    window.addDockWidget(SIDES[pane.area], dock)
    # A tabbed pane opened from the menu comes to the front.
    action = dock.toggleViewAction()
    action.triggered.connect(dock.raise_)
    action.setShortcut(pane.shortcut)
    action.setToolTip(plain_tooltip(tooltip_with_shortcut(pane.tip, action)))
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
