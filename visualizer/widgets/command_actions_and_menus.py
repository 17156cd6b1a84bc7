"""The command table's rows, and the actions, shortcuts and menus made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar

from visualizer.widgets.dialogs import ShortcutGroup
from visualizer.widgets.icons import icon
from visualizer.widgets.plain_text_tooltips import plain_tooltip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from PySide6.QtWidgets import QMainWindow, QWidget

    from visualizer.widgets.theme import Theme

ControllersT = TypeVar("ControllersT")
"""What the commands of a window act on."""
StateT = TypeVar("StateT")
"""What decides which commands of a window are enabled and which are checked."""


class Face(Struct, frozen=True):
    """What a button shows for a command whose text or icon changes.

    Parameters
    ----------
    text : str
        Beside the icon; the command's own if empty.
    tip : str
        The command's own if empty.
    entry : str
        In its menu; the command's own if empty.
    """

    icon: str
    text: str = ""
    tip: str = ""
    entry: str = ""


class Command(Struct, Generic[ControllersT, StateT], frozen=True):
    """One row of the command table.

    Parameters
    ----------
    id : str
        The object name of its action.
    menu : str
        Its menu, or a submenu: ``&View>Co&lours``.
    do : callable
        Runs it, given the window's controllers.
    group : str
        Mutually exclusive commands share a group.
    divides : bool
        Whether a separator precedes it in the menu.
    near : bool
        Whether its shortcut works only in the heatmaps and the timeline, as other widgets type
        with it.
    is_enabled : callable, optional
        Whether it is enabled; always, if left out.
    is_checked : callable, optional
        Whether it is checked, or chosen in its group; without it the command is not checkable.
    face : callable, optional
        What its buttons show, where that changes.
    tip : str
        What the tool tips of its buttons say, before its keys; what it does, if empty.
    """

    id: str
    menu: str
    text: str
    do: Callable[[ControllersT], object]
    shortcuts: tuple[str, ...] = ()
    icon: str = ""
    group: str = ""
    divides: bool = False
    near: bool = False
    is_enabled: Callable[[StateT], bool] | None = None
    is_checked: Callable[[StateT], bool] | None = None
    face: Callable[[StateT], Face] | None = None
    tip: str = ""

    @property
    def said(self) -> str:
        """What it does, in words that suffice outside its menu."""
        within = self.menu.partition(">")[2]
        return (f"{within}: {self.text}" if within else self.text).replace("&", "")


def tip_with_keys(tip: str, action: QAction) -> str:
    """Return a tool tip that names the first shortcut of an action."""
    keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    return f"{tip.removesuffix('…')} ({keys})" if keys else tip


class CommandAction(QAction):
    """The action of a command; it acts on the controllers that it was given."""

    def __init__(self, command: Command[Any, Any], window: QMainWindow) -> None:
        super().__init__(command.text, window)
        self.command = command
        self.controllers: object = None
        self.setObjectName(command.id)
        self.setShortcuts([QKeySequence(keys) for keys in command.shortcuts])
        self.setToolTip(plain_tooltip(tip_with_keys(command.tip or command.said, self)))
        self.setCheckable(command.is_checked is not None)
        if command.near:
            self.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.triggered.connect(self._do)

    def _do(self) -> None:
        self.command.do(self.controllers)


def add_separator(menu: QMenu, before: QAction | None = None) -> QAction:
    """Add a separator that may be kept: Python would not learn of the end of one of Qt's own."""
    separator = QAction(menu)
    separator.setSeparator(True)
    if before is None:
        menu.addAction(separator)
    else:
        menu.insertAction(before, separator)
    return separator


class CommandMenus(Generic[ControllersT, StateT]):
    """A window's actions, by the ids of their commands, and its menus."""

    def __init__(
        self, window: QMainWindow, commands: Iterable[Command[ControllersT, StateT]]
    ) -> None:
        self._window = window
        self._commands = tuple(commands)
        # Made here and not by Qt: Python learns of the end of these. Of a bar that Qt made it does
        # not, and would take the next window's at the same address for it, and end its menus.
        self._bar = QMenuBar(window)
        window.setMenuBar(self._bar)
        self.menus: dict[str, QMenu] = {}
        self._groups: dict[str, QActionGroup] = {}
        self._faces: dict[str, Face] = {}
        self.by_id = {command.id: self._make(command) for command in self._commands}
        # Asked at every change of the window, so only commands that can change are listed.
        rows = [(self.by_id[command.id], command) for command in self._commands]
        self._enabling = [(action, row.is_enabled) for action, row in rows if row.is_enabled]
        self._checking = [(action, row.is_checked) for action, row in rows if row.is_checked]
        self._facing = [(action, row.face) for action, row in rows if row.face]

    def _make(self, command: Command[ControllersT, StateT]) -> CommandAction:
        action = CommandAction(command, self._window)
        if command.group:
            group = self._groups.setdefault(command.group, QActionGroup(self._window))
            group.addAction(action)
        menu = self.menu(command.menu)
        if command.divides:
            add_separator(menu)
        menu.addAction(action)
        return action

    def menu(self, path: str) -> QMenu:
        """Return a menu by its name, or a submenu: ``&View>Co&lours``."""
        if path not in self.menus:
            above, _, name = path.rpartition(">")
            parent = self.menu(above) if above else self._bar
            self.menus[path] = QMenu(name, parent)
            parent.addMenu(self.menus[path])
        return self.menus[path]

    def act_on(self, controllers: ControllersT) -> None:
        """Set the controllers that the commands act on."""
        for action in self.by_id.values():
            action.controllers = controllers

    def give_keys(self, *widgets: QWidget) -> None:
        """Enable the shortcuts of `near` commands in some widgets."""
        for command in self._commands:
            if command.near:
                for widget in widgets:
                    widget.addAction(self.by_id[command.id])

    # ------------------------------------------------------------------ showing

    def show_state(self, state: StateT, theme: Theme) -> None:
        """Update which actions are enabled and checked, and what they show."""
        for action, is_enabled in self._enabling:
            action.setEnabled(is_enabled(state))
        for action, is_checked in self._checking:
            is_on = is_checked(state)
            if is_on or not action.command.group:  # Qt unchecks the others of a group
                action.setChecked(is_on)
        for action, face in self._facing:
            self._show_face(action, face(state), theme)

    def _show_face(self, action: CommandAction, face: Face, theme: Theme) -> None:
        if self._faces.get(action.command.id) == face:
            return
        self._faces[action.command.id] = face
        action.setIcon(icon(face.icon, theme.ink))
        if face.text:
            action.setIconText(face.text)
        if face.entry:
            action.setText(face.entry)
        if face.tip:
            action.setToolTip(plain_tooltip(tip_with_keys(face.tip, action)))

    def show_theme(self, theme: Theme) -> None:
        """Draw the icons in a theme's ink."""
        self._faces.clear()  # redrawn with the next state
        for command in self._commands:
            if command.icon:
                self.by_id[command.id].setIcon(icon(command.icon, theme.ink))


def shortcuts_by_menu(commands: Iterable[Command[Any, Any]]) -> list[ShortcutGroup]:
    """Group the shortcuts of commands by the menus of the menu bar."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in commands:
        menu = row.menu.partition(">")[0].replace("&", "")
        if row.shortcuts:
            groups.setdefault(menu, []).append((row.said, ", ".join(row.shortcuts)))
    return [ShortcutGroup(title, tuple(rows)) for title, rows in groups.items()]
