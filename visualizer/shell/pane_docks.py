"""Dock widgets of the panes: placement, sizes and visibility; panes are created on demand."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from PySide6.QtCore import QChildEvent, QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QMainWindow,
    QTabBar,
    QTabWidget,
    QToolBar,
    QToolButton,
    QWidget,
)
from shiboken6 import isValid

from visualizer.session.pane_spec import PaneArea
from visualizer.shell.central_pane_container import (
    CentralPaneContainer,
    is_visible_only_in_heatmaps,
)
from visualizer.shell.pane_table import PANES
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from PySide6.QtGui import QAction

    from visualizer.session.document import Document
    from visualizer.session.pane_spec import PaneSpec
    from visualizer.session.screen import Screen
    from visualizer.session.view import View


class PaneFocusCycle:
    """Cycle in which the focus moves between the visible panes and bars of a window.

    Parameters
    ----------
    fixed : tuple of QWidget
        The widgets at the start of the cycle, in order.
    visible_panes : callable
        Returns the widgets of the visible panes, in order.
    bars : tuple of QWidget
        The bars that are not always visible; they follow the panes.
    """

    def __init__(
        self,
        fixed: tuple[QWidget, ...],
        visible_panes: Callable[[], list[QWidget]],
        bars: tuple[QWidget, ...],
    ) -> None:
        self._fixed, self._visible_panes, self._bars = fixed, visible_panes, bars

    def move_focus(self, steps: int) -> None:
        """Move the focus by a number of panes or bars, forwards or backwards."""
        parts = {
            part: entry
            for part in self._visible_panes_and_bars()
            if (entry := _first_focusable(part)) is not None
        }
        here = QApplication.focusWidget()
        at = (number for number, part in enumerate(parts) if _contains_widget(part, here))
        before_all = -1 if steps > 0 else 0
        following = [*parts.values()][(next(at, before_all) + steps) % len(parts)]
        following.setFocus(Qt.FocusReason.TabFocusReason)

    def _visible_panes_and_bars(self) -> list[QWidget]:
        return [
            *self._fixed,
            *self._visible_panes(),
            *(bar for bar in self._bars if bar.isVisible()),
        ]


def _contains_widget(part: QWidget, widget: QWidget | None) -> bool:
    return widget is not None and (part is widget or part.isAncestorOf(widget))


def _first_focusable(part: QWidget) -> QWidget | None:
    """Return the first focusable widget in a pane, or the pane itself."""
    chain = (*_focus_chain(part)[1:], part)
    return next(
        (each for each in chain if _contains_widget(part, each) and _accepts_keyboard_focus(each)),
        None,
    )


def _accepts_keyboard_focus(widget: QWidget) -> bool:
    return _is_tab_stop(widget) and widget.isVisible() and widget.isEnabled()


def _focus_chain(widget: QWidget) -> list[QWidget]:
    """List all widgets of the window in tab order, starting with the given widget."""
    ring = [widget]
    while (part := ring[-1].nextInFocusChain()) is not None and part is not widget:
        ring.append(part)
    return ring


def tab_stops(widget: QWidget) -> list[QWidget]:
    """List the tab stops in a widget, in order."""
    return [
        part
        for part in _focus_chain(widget)
        if _contains_widget(widget, part) and _is_tab_stop(part)
    ]


def _is_tab_stop(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


SIDES = {
    PaneArea.LEFT: Qt.DockWidgetArea.LeftDockWidgetArea,
    PaneArea.RIGHT: Qt.DockWidgetArea.RightDockWidgetArea,
}
DEFAULT_WIDTHS_PX = {PaneArea.LEFT: 280, PaneArea.RIGHT: 320}
SCROLL_TOOLTIPS = {"ScrollLeftButton": "Previous panes", "ScrollRightButton": "Next panes"}
"""Tooltips of a tab bar's scroll buttons, by Qt's object names."""
NARROW_WINDOW_PX = 1000
"""Window width, in pixels at normal text size, below which the panes on the right are hidden."""
WIDE_WINDOW_PX = 1800
"""Window width, in pixels, above which pane widths grow in proportion to the window."""
MAX_GROWTH = 1.4


class DefaultPaneWidths(Struct, frozen=True):
    """The values that determine the default widths of the panes.

    Parameters
    ----------
    window : int
        Width of the window in pixels.
    text : float
        Text size as a multiple of the default size.
    """

    window: int
    text: float

    @classmethod
    def for_window(cls, window: QMainWindow) -> DefaultPaneWidths:
        return cls(window.width(), text_scale())

    def default_width(self, pane: PaneSpec) -> int:
        usual = DEFAULT_WIDTHS_PX[pane.area]
        wider = usual * self.window // WIDE_WINDOW_PX if self.window > WIDE_WINDOW_PX else usual
        return max(round(usual * self.text), min(wider, round(MAX_GROWTH * usual)))


class LazyPaneWidgets(dict[str, Any]):
    """The pane widgets by their ids; a missing widget is created on access.

    Parameters
    ----------
    place : callable
        Called with each new widget and its pane.
    """

    def __init__(self, place: Callable[[PaneSpec, QWidget], None]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, id_: str) -> Any:
        pane = next(pane for pane in PANES if pane.id == id_)
        self[id_] = widget = pane.create_widget()
        self._place(pane, widget)
        return widget


class PaneTitle(PlainTextLabel):
    """Title above a pane; it has no height while the pane has a tab."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self.is_shown = True
        self.setProperty("role", "pane")

    def sizeHint(self) -> QSize:
        return super().sizeHint() if self.is_shown else QSize(0, 0)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


class PaneDock(QDockWidget):
    """Dock widget that creates its pane before the pane is first shown.

    If a dock is closed while it has the focus, the focus moves to `home`. Qt would move it to the
    next widget in tab order.
    """

    def __init__(
        self, pane: PaneSpec, window: QMainWindow, panes: LazyPaneWidgets, home: QWidget
    ) -> None:
        super().__init__(pane.title, window)
        self._pane, self._panes, self._home = pane, panes, home
        self._is_in_front = False
        self.setObjectName(pane.id)
        self.setFeatures(QDockWidget.DockWidgetFeature.DockWidgetClosable)
        holder = QWidget()  # a dock without a widget would limit the width of all tabs
        self._column = column_layout(holder, (0, 0, 0, 0))
        super().setWidget(holder)
        self._title = PaneTitle(pane.title)
        self.setTitleBarWidget(self._title)
        self.visibilityChanged.connect(self._create_pane_if_in_front)

    def setVisible(self, visible: bool) -> None:
        focused = QApplication.focusWidget()
        if not visible and focused and self.isAncestorOf(focused):
            self._home.setFocus(Qt.FocusReason.OtherFocusReason)
        super().setVisible(visible)

    def setWidget(self, widget: QWidget) -> None:
        self._column.addWidget(widget)
        widget.setVisible(self._is_in_front)

    def _create_pane_if_in_front(self, is_in_front: bool) -> None:
        """Create the pane when it comes to the front, so that panes behind other tabs cost nothing.

        Qt keeps panes behind other tabs visible outside the window, where the Tab key would reach
        them.
        """
        self._is_in_front = is_in_front
        if is_in_front and isValid(self._home):
            self._panes[self._pane.id]
        if self._pane.id in self._panes:
            widget, focused = self._panes[self._pane.id], QApplication.focusWidget()
            if not is_in_front and focused and widget.isAncestorOf(focused) and isValid(self._home):
                self._home.setFocus(Qt.FocusReason.OtherFocusReason)
            widget.setVisible(is_in_front)

    def set_title_visible(self, is_shown: bool) -> None:
        """Show the title, or hide it if the tab shows it."""
        if self._title.is_shown != is_shown:
            self._title.is_shown = is_shown
            self._title.updateGeometry()
            if layout := self.layout():
                layout.invalidate()


def _set_up_tab_bar(bar: QTabBar) -> None:
    """Configure a tab bar that Qt created for panes: show full titles, and do not accept focus."""
    bar.setAccessibleName("Panes")
    bar.setDrawBase(False)
    bar.setMovable(False)
    bar.setElideMode(Qt.TextElideMode.ElideNone)
    bar.setUsesScrollButtons(True)
    for button in bar.findChildren(QToolButton):
        button.setToolTip(plain_tooltip(SCROLL_TOOLTIPS.get(button.objectName(), "Panes")))
    bar.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # a menu lists the panes


class PaneDocks(QObject):
    """Manager of the panes of a window: those in docks, and those in place of the heatmaps.

    Parameters
    ----------
    actions : mapping
        By pane id, the action that toggles the pane; it is checked while the pane is visible.
    """

    changed = Signal(object)
    """Emitted with the ids of the panes that are needed; of tabbed panes, only the front one."""

    def __init__(
        self,
        window: QMainWindow,
        finish: Callable[[PaneSpec, Any], object],
        home: QWidget,
        actions: Mapping[str, QAction],
    ) -> None:
        super().__init__(window)
        self._window, self._finish, self.actions = window, finish, actions
        self.visible_pane_ids: frozenset[str] = frozenset()
        """The ids of the visible panes; of tabbed panes, only the front one."""
        self._is_held = False
        self._filled: set[str] = set()
        """Ids of the panes with `opens_with` for which the last screen had content."""
        self._model_folder = ""
        self._subjects: dict[str, str] = {}
        """The subject of each pane in the centre, by the pane's id."""
        self._awaited: frozenset[str] = frozenset()
        """Ids of the panes in the centre that open when their panels have been computed."""
        self._shown: tuple[Document, View] | None = None
        """The document and the view of the last screen."""
        self._to_open: list[str] = []
        """Ids of the panes that are still to be opened, one at a time."""
        self._hidden_together: list[str] = []
        """Ids of the panes that were hidden together; the front one is last."""
        self.is_narrow = False
        self._next = QTimer(self, singleShot=True, interval=1)
        self._next.timeout.connect(self._open_next_pane)
        self.panes = LazyPaneWidgets(self._place_pane)
        self.docks: dict[str, PaneDock] = {}
        self.pages: dict[str, CentralPaneContainer] = {}
        """The panes that are shown in place of the heatmaps."""
        window.installEventFilter(self)  # before Qt creates the tab bars
        window.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        for pane in PANES:
            if pane.area is PaneArea.CENTRE:
                self.pages[pane.id] = CentralPaneContainer(pane, window, self.panes, home)
            else:
                self.docks[pane.id] = dock = PaneDock(pane, window, self.panes, home)
                window.addDockWidget(SIDES[pane.area], dock)
        self.by_id: dict[str, PaneDock | CentralPaneContainer] = {**self.docks, **self.pages}

    def create_initial_panes(self) -> None:
        """Create the panes that exist from the start, and arrange all docks."""
        for pane in PANES:
            if pane.is_created_with_window:
                self.panes[pane.id]
        for dock in self.by_id.values():
            dock.visibilityChanged.connect(self._update_visible_panes)
        self._arrange_docks()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # Before the widget is polished, Python sees only a QWidget and would keep that type.
        child = event.child() if isinstance(event, QChildEvent) and event.polished() else None
        if isinstance(child, QTabBar):
            _set_up_tab_bar(child)  # Qt creates tab bars for tabbed panes
        return False

    def reset_layout(self) -> None:
        """Arrange the panes as in a new window."""
        for pane in PANES:
            if pane.id in self.docks:
                self._window.addDockWidget(SIDES[pane.area], self.docks[pane.id])
        self._arrange_docks()
        self.restore_content_panes()

    def _arrange_docks(self) -> None:
        """Combine the docks of each side into tabs, with the first dock in front."""
        for area in SIDES:
            docks = [self.docks[pane.id] for pane in PANES if pane.area is area]
            for dock in docks[1:]:
                self._window.tabifyDockWidget(docks[0], dock)
        for pane in PANES:
            self.by_id[pane.id].setVisible(pane.is_open)
        self.by_id[next(pane.id for pane in PANES if pane.is_open)].raise_()
        self._resize_to_defaults()

    def _resize_to_defaults(self) -> None:
        scale = DefaultPaneWidths.for_window(self._window)
        self._resize_docks(
            {
                self.docks[pane.id]: scale.default_width(pane)
                for pane in PANES
                if pane.id in self.docks
            }
        )

    def _place_pane(self, pane: PaneSpec, widget: Any) -> None:
        self.by_id[pane.id].setWidget(widget)
        if pane.id in self.pages:
            widget.heatmapsRequested.connect(self.pages[pane.id].hide)
        if not pane.is_created_with_window:
            self._insert_into_tab_order(pane)
        self._finish(pane, widget)

    def _insert_into_tab_order(self, new: PaneSpec) -> None:
        """Insert the controls of a new pane into the tab order, at its position in `PANES`."""
        widget = self.panes[new.id]
        made = [self.panes[pane.id] for pane in PANES if pane.id in self.panes]
        earlier = made[: made.index(widget)]
        before = next((stops for each in reversed(earlier) if (stops := tab_stops(each))), [])
        for first, second in pairwise([*before[-1:], *tab_stops(widget)]):
            QWidget.setTabOrder(first, second)

    def _resize_docks(self, widths: Mapping[PaneDock, int]) -> None:
        horizontal = Qt.Orientation.Horizontal
        self._window.resizeDocks([*widths], [*widths.values()], horizontal)

    def toggle_pane(self, id_: str) -> None:
        """Close a pane if it is in front; otherwise, bring it to the front."""
        if id_ in self.visible_pane_ids:
            self.by_id[id_].hide()
            self._preserve_dock_widths()
        else:
            self.open_pane(id_)
        self.actions[id_].setChecked(id_ in self.visible_pane_ids)

    @property
    def _needed_pane_ids(self) -> frozenset[str]:
        """The ids of the panes that need up-to-date content."""
        return self.visible_pane_ids | self._awaited

    def visible_panes(self) -> list[QWidget]:
        """List the widgets of the visible panes, in the order of `PANES`."""
        return [self.panes[pane.id] for pane in PANES if pane.id in self.visible_pane_ids]

    def open_pane(self, id_: str) -> None:
        """Open a pane and bring its tab to the front."""
        self.by_id[id_].show()
        self.by_id[id_].raise_()

    def update_content_panes(self, screen: Screen) -> None:
        """Open and close the panes that are open only while the screen has content for them."""
        filled = {pane.id for pane in PANES if pane.opens_with and pane.opens_with(screen)}
        changed, self._filled = filled ^ self._filled, filled
        for pane in PANES:
            if pane.id in changed:
                self.by_id[pane.id].setVisible(pane.id in filled)
            if pane.subject:
                self._update_centre_pane(pane, pane.subject(screen))
        if awaited := self._awaited & screen.view.panes:
            self._awaited = frozenset()
            for id_ in awaited:
                self.open_pane(id_)
        view = screen.wanted
        before, self._shown = self._shown, (screen.document, view)
        if before and before[0] is screen.document and is_visible_only_in_heatmaps(before[1], view):
            self.show_heatmaps()

    def _update_centre_pane(self, pane: PaneSpec, subject: str) -> None:
        """Open a pane in the centre for a new subject, or close it if it no longer has one."""
        if subject == self._subjects.get(pane.id, ""):
            return
        self._subjects[pane.id] = subject
        if subject:
            self._schedule_opening([pane.id])
        else:
            self._to_open = [id_ for id_ in self._to_open if id_ != pane.id]
            self._awaited -= {pane.id}
            self.by_id[pane.id].hide()

    def show_heatmaps(self) -> None:
        """Close the pane that is shown in place of the heatmaps."""
        for page in self.pages.values():
            page.hide()

    def show_centre_pane(self) -> None:
        """Open the pane in the centre that has a subject."""
        for id_ in self.pages:
            if self._subjects.get(id_):
                self.open_pane(id_)

    @property
    def are_heatmaps_shown(self) -> bool:
        """Whether no pane is shown in place of the heatmaps."""
        return all(page.isHidden() for page in self.pages.values())

    def restore_content_panes(self) -> None:
        """After a new arrangement, show the panes with `opens_with` only if they have content."""
        for pane in PANES:
            if pane.opens_with:
                self.by_id[pane.id].setVisible(pane.id in self._filled)

    def open_model_panes(self, folder: str) -> None:
        """Open the panes for models behind the others when a new model is shown."""
        is_new, self._model_folder = folder not in ("", self._model_folder), folder
        if is_new:
            panes = [pane.id for pane in PANES if pane.opens_for_model]
            self._schedule_opening([*panes, *self._open_right_pane_ids()[-1:]])

    def _schedule_opening(self, ids: list[str]) -> None:
        self._to_open += [id_ for id_ in ids if id_ not in self._to_open]
        self._next.start()

    def _open_next_pane(self) -> None:
        """Open one pane, and schedule the next one after all pending updates and events.

        Opening all at once would block the window, and Qt brings a tab to the front only after the
        other tabs have been laid out.
        """
        if not self._to_open:
            self._widen_to_tabs()
            return
        id_ = self._to_open.pop(0)
        if id_ in self.pages:  # the heatmaps remain until the pane has content
            self._awaited |= {id_}
            self.changed.emit(self._needed_pane_ids)
        else:
            self.open_pane(id_)
        self._next.start()

    def _widen_to_tabs(self) -> None:
        """Widen the panes on the right so that no tab is cut, unless this takes too much room."""
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        bars = self._window.findChildren(QTabBar, options=direct)
        wanted = max((bar.sizeHint().width() for bar in bars if bar.isVisible()), default=0)
        most = MAX_GROWTH * DEFAULT_WIDTHS_PX[PaneArea.RIGHT] * text_scale()
        right = [self.docks[pane.id] for pane in PANES if pane.area is PaneArea.RIGHT]
        narrower = {dock: wanted for dock in right if dock.isVisible() and dock.width() < wanted}
        if narrower and wanted <= most:
            self._resize_docks(narrower)

    def connect_opening_commands(self, actions: Mapping[str, QAction]) -> None:
        """For each command that has results in a pane, open this pane when the command is used."""
        for pane in PANES:
            for command in pane.opened_by:
                actions[command].triggered.connect(partial(self._open_for_command, pane, command))

    def _open_for_command(self, pane: PaneSpec, command: str) -> None:
        self.open_pane(pane.id)
        self.run_command(command)

    def run_command(self, command: str) -> None:
        """Run a command on the widget of the pane to which the command belongs."""
        for pane in PANES:
            if command in pane.commands:
                pane.commands[command](self.panes[pane.id])

    def open_and_run(self, command: str) -> None:
        """Open the pane to which a command belongs, and run the command on the pane's widget."""
        self.open_pane(next(pane.id for pane in PANES if command in pane.commands))
        self.run_command(command)

    def stop_opening_panes(self) -> None:
        """Stop opening panes; called before the window closes."""
        self._next.stop()

    def update_default_widths(self, before: DefaultPaneWidths) -> None:
        """Adapt the panes that have their default width to a new window width or text size."""
        now, widths = DefaultPaneWidths.for_window(self._window), {}
        for pane in PANES:
            if pane.id not in self.docks:
                continue
            dock = self.docks[pane.id]
            least, was = dock.minimumSizeHint().width(), before.default_width(pane)
            wanted = max(least, now.default_width(pane))
            is_usual = was - 1 <= dock.width() <= max(least, was) + 1
            if dock.isVisible() and is_usual and wanted != dock.width():
                widths[dock] = wanted
        if widths:
            self._resize_docks(widths)
            layout = self._window.layout()
            assert layout is not None
            layout.activate()  # so that the next change starts from these widths

    def adapt_to_window_width(self) -> None:
        """Hide the panes on the right in a narrow window, and show them again in a wide one."""
        was_narrow = self.is_narrow
        self.is_narrow = self._window.width() < NARROW_WINDOW_PX * text_scale()
        if self.is_narrow and not was_narrow:
            self._hide_right_panes()
        elif was_narrow and not self.is_narrow and not self._open_right_pane_ids():
            self._show_right_panes()

    def toggle_right_panes(self) -> None:
        """Hide the panes on the right, or show them again."""
        if self._open_right_pane_ids():
            self._hide_right_panes()
        else:
            self._show_right_panes()

    def _open_right_pane_ids(self) -> list[str]:
        """Return the open panes on the right in reverse order, with the front one last."""
        right = [pane for pane in reversed(PANES) if pane.area is PaneArea.RIGHT]
        shown = [pane for pane in right if not self.by_id[pane.id].isHidden()]
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        bars = self._window.findChildren(QTabBar, options=direct)
        in_front = {bar.tabText(bar.currentIndex()) for bar in bars}
        return [pane.id for pane in sorted(shown, key=lambda pane: pane.title in in_front)]

    def _hide_right_panes(self) -> None:
        self._hidden_together = self._open_right_pane_ids()
        for id_ in self._hidden_together:
            self.by_id[id_].hide()

    def _show_right_panes(self) -> None:
        initially_open = [pane.id for pane in reversed(PANES) if pane.is_open]
        *behind, front = self._hidden_together or initially_open
        with self.batch_changes():
            self.open_pane(front)  # first, so that the panes behind it are not created
            for id_ in behind:
                self.by_id[id_].show()
            self.by_id[front].raise_()
        QTimer.singleShot(0, self, self._resize_to_defaults)  # when the window has been laid out

    def _preserve_dock_widths(self) -> None:
        """Give the space of a closed pane to the heatmaps, not to the remaining panes."""
        widths = {dock: dock.width() for dock in self.docks.values() if dock.isVisible()}
        self._resize_docks(widths)

    def _update_visible_panes(self, is_seen: bool) -> None:
        if not isValid(self._window):  # destroyed by Qt, for example if the display is gone
            return
        id_ = self.sender().objectName()
        others = self.visible_pane_ids - {id_}
        self.visible_pane_ids = others | {id_} if is_seen else others
        self.actions[id_].setChecked(is_seen)
        self._update_dock_titles()
        if not self._is_held:
            self.changed.emit(self._needed_pane_ids)

    def _update_dock_titles(self) -> None:
        open_docks = [dock for dock in self.docks.values() if not dock.isHidden()]
        while open_docks:
            # Qt needs 60 μs to find the tabs of a dock, so find those of each group only once.
            tabbed = self._window.tabifiedDockWidgets(open_docks[0])
            group = [dock for dock in open_docks if dock is open_docks[0] or dock in tabbed]
            for dock in group:
                dock.set_title_visible(len(group) == 1)
            open_docks = [dock for dock in open_docks if dock not in group]

    @contextmanager
    def batch_changes(self) -> Iterator[None]:
        """Context manager in which `changed` is emitted at most once, at the end."""
        before, self._is_held = self._needed_pane_ids, True
        try:
            yield
        finally:
            self._is_held = False
        if self._needed_pane_ids != before:
            self.changed.emit(self._needed_pane_ids)


def add_tool_bar(
    window: QMainWindow, id_: str, title: str, widget: QWidget, side: Qt.ToolBarArea
) -> None:
    """Add a toolbar along an edge of the window; saved window states refer to it by its id."""
    bar = QToolBar(title, window)
    bar.setObjectName(id_)
    bar.setMovable(False)
    bar.addWidget(widget)
    window.addToolBar(side, bar)
