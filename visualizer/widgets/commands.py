"""Rows of the command table, and the actions, shortcuts and menus that are built from them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar

from visualizer.storage.log_file import ProgramText
from visualizer.widgets.app_settings import load_shortcuts
from visualizer.widgets.dialogs import ShortcutGroup
from visualizer.widgets.icons import icon
from visualizer.widgets.labels import plain_tooltip
from visualizer.widgets.shortcuts import (
    add_platform_shortcut,
    format_shortcuts,
    shortcut_problem,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from PySide6.QtWidgets import QMainWindow, QWidget

    from visualizer.session.screen import PanelId
    from visualizer.widgets.theme import Theme

    PartOfState = str | PanelId[Any]
    """Name of an attribute of a window's state, or id of one of its panels."""

_logger = logging.getLogger(__name__)
ControllersT = TypeVar("ControllersT")
"""Type of the controllers that a window's commands act on."""
StateT = TypeVar("StateT")
"""Type of the state that determines which commands are enabled and checked."""


class CommandAppearance(Struct, frozen=True):
    """Current appearance of a command with a variable text or icon.

    Parameters
    ----------
    text : str
        Button text next to the icon; if empty, the command's text.
    tip : str
        Tooltip; if empty, the command's tooltip.
    entry : str
        Menu text; if empty, the command's text.
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
        Object name of the command's action.
    menu : str
        Path of the command's menu or submenu, such as ``&View>Co&lours``.
    run : callable
        Runs the command, given the window's controllers.
    group : str
        Name shared by mutually exclusive commands; empty if there are none.
    shortcuts : tuple of str
        The default shortcuts; a `standard` shortcut of the platform precedes them.
    standard : QKeySequence.StandardKey, optional
        The platform's standard command with the same meaning, whose shortcut is used.
    has_separator : bool
        Whether a separator precedes the command in the menu.
    has_local_shortcut : bool
        Whether the shortcut works only in some widgets, because others use the key for typing or
        moving: in the heatmaps and the timeline or, in the lab, in the list of runs. In the main
        window, characters also work in widgets that ignore them.
    is_enabled : callable, optional
        Whether the command is enabled; if omitted, it is always enabled.
    is_checked : callable, optional
        Whether the command is checked, or selected in its group; if omitted, it is not checkable.
    appearance : callable, optional
        The current appearance of the command, if it changes.
    tip : str
        Tooltip of the command's buttons, without the shortcut; if empty, `description`.
    """

    id: str
    menu: str
    text: str
    run: Callable[[ControllersT], object]
    shortcuts: tuple[str, ...] = ()
    standard: QKeySequence.StandardKey | None = None
    icon: str = ""
    group: str = ""
    has_separator: bool = False
    has_local_shortcut: bool = False
    is_enabled: Callable[[StateT], bool] | None = None
    is_checked: Callable[[StateT], bool] | None = None
    appearance: Callable[[StateT], CommandAppearance] | None = None
    tip: str = ""

    @property
    def description(self) -> str:
        """Description of the command that is clear outside its menu."""
        within = self.menu.partition(">")[2]
        return (f"{within}: {self.text}" if within else self.text).replace("&", "")

    @property
    def default_shortcuts(self) -> tuple[str, ...]:
        """The default shortcuts on this platform."""
        return add_platform_shortcut(self.shortcuts, self.standard)

    def usable_shortcuts(self, shortcuts: Iterable[str]) -> tuple[str, ...]:
        """Return the given shortcuts without those that the command cannot have."""
        return tuple(
            QKeySequence(keys).toString()
            for keys in shortcuts
            if not shortcut_problem(keys, is_local=self.has_local_shortcut)
        )


def resolve_shortcuts(commands: Iterable[Command[Any, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the current shortcuts of a window's commands by command id.

    Each shortcut belongs to a single command, because Qt ignores ambiguous shortcuts: the user's
    own shortcuts precede the defaults. Unusable ones, for example in damaged settings, are ignored.
    """
    rows, own = tuple(commands), load_shortcuts()
    owners: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: row.id not in own):
        is_own = row.id in own
        wanted = row.usable_shortcuts(own[row.id]) if is_own else row.default_shortcuts
        for keys in wanted:
            owners.setdefault(keys, row.id)
    return {
        row.id: tuple(keys for keys, owner in owners.items() if owner == row.id) for row in rows
    }


class CommandAction(QAction):
    """Action that runs a command on the current controllers."""

    toolTipChanged = Signal(str)

    def __init__(self, command: Command[Any, Any], window: QMainWindow) -> None:
        super().__init__(command.text, window)
        self.command = command
        self.controllers: object = None
        self._tip = command.tip or command.description
        self.setObjectName(command.id)
        self.set_tip(self._tip)
        self.setCheckable(command.is_checked is not None)
        if command.has_local_shortcut:
            self.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.triggered.connect(self._run_command)

    def _run_command(self) -> None:
        _logger.info("Command %s", ProgramText(self.command.id))
        self.command.run(self.controllers)

    def set_shortcuts(self, shortcuts: tuple[str, ...]) -> None:
        """Set the shortcuts, and name the first one in the tooltip."""
        self.setShortcuts([QKeySequence(keys) for keys in shortcuts])
        self.set_tip(self._tip)

    def set_tip(self, tip: str) -> None:
        """Set the tooltip, to which the shortcut is added."""
        self._tip = tip
        keys = self.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        before = self.toolTip()
        self.setToolTip(plain_tooltip(f"{tip.removesuffix('…')} ({keys})" if keys else tip))
        if self.toolTip() != before:
            self.toolTipChanged.emit(self.toolTip())


def show_command_tooltip(button: QWidget, action: QAction) -> None:
    """Give a button the tooltip of a command, also after the command's shortcut has changed."""
    button.setToolTip(plain_tooltip(action.toolTip()))
    if isinstance(action, CommandAction):
        action.toolTipChanged.connect(button.setToolTip)


def add_separator(menu: QMenu, before: QAction | None = None) -> QAction:
    """Add a separator to which a reference can be kept safely.

    PySide is not notified when a separator that Qt has created is deleted.
    """
    separator = QAction(menu)
    separator.setSeparator(True)
    if before is None:
        menu.addAction(separator)
    else:
        menu.insertAction(before, separator)
    return separator


class _StateAccessRecorder:
    """Proxy for a window's state that records which parts a condition reads."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.parts_read: set[PartOfState] = set()

    def __getattr__(self, name: str) -> Any:
        self.parts_read.add(name)
        return getattr(self._state, name)

    def panel(self, wanted: PanelId[Any]) -> Any:
        self.parts_read.add(wanted)
        return self._state.panel(wanted)


class CachedStateConditions:
    """Functions of a window's state; each is evaluated only if a part that it reads has changed."""

    def __init__(self, conditions: Iterable[Callable[[Any], Any]]) -> None:
        self._stale = dict.fromkeys(conditions)
        self._readers: dict[PartOfState, set[Callable[[Any], Any]]] = {}
        self._seen: dict[PartOfState, object] = {}
        self.results: dict[Callable[[Any], Any], Any] = {}
        """The newest result of each function."""

    def evaluate(self, state: object) -> None:
        """Evaluate the functions that read a part of the state that has changed."""
        for part, before in self._seen.items():
            self._seen[part] = now = _read_state_part(state, part)
            if now is not before and not (isinstance(now, str) and now == before):
                self._stale |= dict.fromkeys(self._readers[part])
        reader = _StateAccessRecorder(state)
        for condition in self._stale:
            reader.parts_read.clear()
            self.results[condition] = condition(reader)
            for part in reader.parts_read:
                self._readers.setdefault(part, set()).add(condition)
        self._stale = {}
        for part in self._readers.keys() - self._seen.keys():
            self._seen[part] = _read_state_part(state, part)


def _read_state_part(state: Any, part: PartOfState) -> object:
    return getattr(state, part) if isinstance(part, str) else state.panel(part)


class CommandMenus(Generic[ControllersT, StateT]):
    """A window's menus, and its actions by command id."""

    def __init__(
        self, window: QMainWindow, commands: Iterable[Command[ControllersT, StateT]]
    ) -> None:
        self._window = window
        self._commands = tuple(commands)
        # Create the menu bar here, because PySide is not notified when a bar that Qt has created is
        # deleted. It would mistake the next window's bar, at the same address, for the deleted one
        # and delete its menus.
        self._bar = QMenuBar(window)
        window.setMenuBar(self._bar)
        self.menus: dict[str, QMenu] = {}
        self._groups: dict[str, QActionGroup] = {}
        self._appearances: dict[str, CommandAppearance] = {}
        self.by_id = {command.id: self._create_action(command) for command in self._commands}
        self.update_shortcuts()
        self._conditions = CachedStateConditions(
            condition
            for row in self._commands
            for condition in (row.is_enabled, row.is_checked, row.appearance)
            if condition
        )

    def _create_action(self, command: Command[ControllersT, StateT]) -> CommandAction:
        action = CommandAction(command, self._window)
        if command.group:
            group = self._groups.setdefault(command.group, QActionGroup(self._window))
            group.addAction(action)
        menu = self.find_or_create_menu(command.menu)
        if command.has_separator:
            add_separator(menu)
        menu.addAction(action)
        return action

    def find_or_create_menu(self, path: str) -> QMenu:
        """Return a menu or submenu by its path (``&View>Co&lours``), creating it if needed."""
        if path not in self.menus:
            above, _, name = path.rpartition(">")
            parent = self.find_or_create_menu(above) if above else self._bar
            self.menus[path] = QMenu(name, parent)
            parent.addMenu(self.menus[path])
        return self.menus[path]

    def set_controllers(self, controllers: ControllersT) -> None:
        """Set the controllers that the commands act on."""
        for action in self.by_id.values():
            action.controllers = controllers

    def update_shortcuts(self) -> None:
        """Use the current shortcuts of all commands."""
        for id_, shortcuts in resolve_shortcuts(self._commands).items():
            self.by_id[id_].set_shortcuts(shortcuts)

    def enable_shortcuts(self, *widgets: QWidget) -> None:
        """Enable the shortcuts of commands with local shortcuts in the given widgets."""
        for command in self._commands:
            if command.has_local_shortcut:
                for widget in widgets:
                    widget.addAction(self.by_id[command.id])

    def run_local_shortcut(self, keys: QKeySequence) -> bool:
        """Run the enabled command with a local shortcut; return whether there is one."""
        for command in self._commands:
            action = self.by_id[command.id]
            if command.has_local_shortcut and action.isEnabled() and keys in action.shortcuts():
                action.trigger()
                return True
        return False

    # ------------------------------------------------------------------ showing

    def show_state(self, state: StateT, theme: Theme) -> None:
        """Update which actions are enabled and checked, and their appearance.

        Actions are set even if nothing has changed, because triggering an action toggles it.
        """
        self._conditions.evaluate(state)
        results = self._conditions.results
        for row in self._commands:
            action = self.by_id[row.id]
            if row.is_enabled:
                action.setEnabled(results[row.is_enabled])
            if row.is_checked and (results[row.is_checked] or not row.group):
                action.setChecked(results[row.is_checked])  # Qt unchecks the rest of a group
            if row.appearance:
                self._apply_appearance(action, results[row.appearance], theme)

    def _apply_appearance(
        self, action: CommandAction, appearance: CommandAppearance, theme: Theme
    ) -> None:
        if self._appearances.get(action.command.id) == appearance:
            return
        self._appearances[action.command.id] = appearance
        action.setIcon(icon(appearance.icon, theme.ink))
        if appearance.text:
            action.setIconText(appearance.text)
        if appearance.entry:
            action.setText(appearance.entry)
        if appearance.tip:
            action.set_tip(appearance.tip)

    def show_theme(self, theme: Theme) -> None:
        """Draw the icons in the theme's text colour."""
        self._appearances.clear()  # redrawn with the next state
        for command in self._commands:
            if command.icon:
                self.by_id[command.id].setIcon(icon(command.icon, theme.ink))


def shortcuts_by_menu(commands: Sequence[Command[Any, Any]]) -> list[ShortcutGroup]:
    """Group the current shortcuts of commands by menu."""
    groups: dict[str, list[tuple[str, str]]] = {}
    current = resolve_shortcuts(commands)
    for row in commands:
        menu = row.menu.partition(">")[0].replace("&", "")
        if current[row.id]:
            words = row.description, format_shortcuts(current[row.id])
            groups.setdefault(menu, []).append(words)
    return [ShortcutGroup(title, tuple(rows)) for title, rows in groups.items()]
