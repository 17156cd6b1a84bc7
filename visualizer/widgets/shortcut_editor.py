"""Editor of keyboard shortcuts; each change takes effect immediately in all windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QFont, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QKeySequenceEdit,
    QLineEdit,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
)

from visualizer.widgets.app_settings import load_shortcuts, save_shortcuts
from visualizer.widgets.commands import resolve_shortcuts
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.shortcuts import format_shortcuts, shortcut_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PySide6.QtWidgets import QHBoxLayout, QWidget

    from visualizer.widgets.commands import Command

SIZE_PX = QSize(720, 560)
COLUMN_WIDTHS_PX = {1: 200, 2: 150}
"""Widths of the menus and of the shortcuts; the descriptions have the rest."""


class ShortcutItem(QTreeWidgetItem):
    """Row of a command."""

    def __init__(self, command: Command[Any, Any], place: str) -> None:
        super().__init__([command.description, place])
        self.command = command


class ShortcutEditor(QDialog):
    """List of all commands, with a field for the shortcut of the selected one.

    Parameters
    ----------
    tables : mapping
        The commands of each window, by the name of the window. A command with the same id in
        several windows has the same shortcuts in them.
    """

    changed = Signal()
    """Emitted when the stored shortcuts have changed."""

    def __init__(self, window: QWidget, tables: Mapping[str, Sequence[Command[Any, Any]]]) -> None:
        super().__init__(window)
        self.setWindowTitle("Change keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._tables = dict(tables)
        self._own: dict[str, tuple[str, ...]] = {}
        """The user's own shortcuts by command id."""
        self._current: dict[str, dict[str, tuple[str, ...]]] = {}
        """The current shortcuts by command id, for each window."""
        self._owners: tuple[Command[Any, Any], ...] = ()
        """The other commands that have the shortcut in the field, at most one per window."""
        self.search, self.list = QLineEdit(), QTreeWidget()
        self.field, self.problem = QKeySequenceEdit(), PlainTextLabel()
        self.reassign_button = QPushButton("Reassign")
        self.remove_button = QPushButton("Remove")
        self.reset_button, self.reset_all_button = QPushButton("Reset"), QPushButton("Reset all")
        column = column_layout(self, (16, 16, 16, 16), spacing=8)
        self._set_up_widgets()
        for part in (self.search, self.list):
            column.addWidget(part)
        column.addLayout(self._build_field_row())
        column.addLayout(self._build_problem_row())
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.addButton(self.reset_all_button, QDialogButtonBox.ButtonRole.ResetRole)
        buttons.rejected.connect(self.reject)
        column.addWidget(buttons)
        self.resize((SIZE_PX * text_scale()).boundedTo(window.size() * 0.9))
        self._fill_list()
        self._connect_signals()
        self._show_shortcuts()
        self.list.setCurrentItem(self._items()[0])
        self.search.setFocus()

    def _set_up_widgets(self) -> None:
        self.search.setPlaceholderText("Search by command or shortcut")
        self.search.setAccessibleName("Search commands")
        self.search.setClearButtonEnabled(True)
        self.list.setAccessibleName("Commands")
        self.list.setHeaderLabels(["Command", "Menu", "Shortcut"])
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setStyleSheet("QTreeView::item { padding: 3px 0 }")
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column, width in COLUMN_WIDTHS_PX.items():
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
            header.resizeSection(column, round(width * text_scale()))
        self.field.setMaximumSequenceLength(1)
        self.field.setAccessibleName("Shortcut")
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "warning")
        self.reassign_button.setToolTip(
            "Remove the shortcut from its command and use it for this one"
        )
        self.remove_button.setToolTip("Remove the shortcut of this command")
        self.reset_button.setToolTip("Restore the default shortcut of this command")
        self.reset_all_button.setToolTip("Restore the default shortcuts of all commands")
        for button in (
            *(self.reassign_button, self.remove_button),
            *(self.reset_button, self.reset_all_button),
        ):
            button.setAutoDefault(False)

    def _build_field_row(self) -> QHBoxLayout:
        row, label = row_layout(spacing=8), PlainTextLabel("Shortcut")
        label.setBuddy(self.field)
        row.addWidget(label)
        row.addWidget(self.field, 1)
        row.addWidget(self.remove_button)
        row.addWidget(self.reset_button)
        return row

    def _build_problem_row(self) -> QHBoxLayout:
        row = row_layout(spacing=8)
        row.addWidget(self.problem, 1)
        row.addWidget(self.reassign_button)
        self.problem.setMinimumHeight(self.reassign_button.sizeHint().height())
        return row

    def _fill_list(self) -> None:
        listed = set[str]()
        for window, commands in self._tables.items():
            for command in commands:
                if command.id not in listed:
                    listed.add(command.id)
                    menu = command.menu.partition(">")[0].replace("&", "")
                    is_first = commands is next(iter(self._tables.values()))
                    place = menu if is_first else f"{window} › {menu}"
                    self.list.addTopLevelItem(ShortcutItem(command, place))

    def _connect_signals(self) -> None:
        self.search.textChanged.connect(self._filter_rows)
        self.list.currentItemChanged.connect(self._show_chosen_command)
        self.list.itemActivated.connect(self.field.setFocus)
        self.field.keySequenceChanged.connect(self._try_shortcut)
        self.reassign_button.clicked.connect(self._reassign_shortcut)
        self.remove_button.clicked.connect(self._remove_shortcuts)
        self.reset_button.clicked.connect(self._reset_command)
        self.reset_all_button.clicked.connect(self._reset_all)

    # ------------------------------------------------------------------ showing

    def _items(self) -> list[ShortcutItem]:
        rows = map(self.list.topLevelItem, range(self.list.topLevelItemCount()))
        return [row for row in rows if isinstance(row, ShortcutItem)]

    @property
    def _command(self) -> Command[Any, Any] | None:
        """The selected command."""
        item = self.list.currentItem()
        return item.command if isinstance(item, ShortcutItem) else None

    def _filter_rows(self, text: str) -> None:
        words = text.casefold().split()
        for item in self._items():
            said = " ".join(item.text(column) for column in range(3)).casefold()
            item.setHidden(not all(word in said for word in words))
        shown = [item for item in self._items() if not item.isHidden()]
        if shown and self.list.currentItem() not in shown:
            self.list.setCurrentItem(shown[0])

    def _show_shortcuts(self) -> None:
        """Show the current shortcuts of all commands; those of the user are bold."""
        self._own = load_shortcuts()
        self._current = {name: resolve_shortcuts(rows) for name, rows in self._tables.items()}
        font = QFont(self.list.font())
        font.setWeight(QFont.Weight.DemiBold)
        for item in self._items():
            item.setText(2, format_shortcuts(self._shortcuts_of(item.command)))
            item.setFont(2, font if item.command.id in self._own else self.list.font())
        self._show_chosen_command()

    def _show_chosen_command(self) -> None:
        command = self._command
        keys = self._shortcuts_of(command) if command else ()
        with QSignalBlocker(self.field):
            self.field.setKeySequence(QKeySequence(keys[0]) if keys else QKeySequence())
        self.field.setEnabled(command is not None)
        self.remove_button.setEnabled(bool(keys))
        self.reset_button.setEnabled(command is not None and command.id in self._own)
        self.reset_all_button.setEnabled(bool(self._own))
        self._show_problem("")

    def _show_problem(self, sentence: str, owners: Sequence[Command[Any, Any]] = ()) -> None:
        self._owners = tuple(owners)
        self.problem.setText(sentence)
        self.reassign_button.setVisible(bool(owners))

    # ------------------------------------------------------------------ changes

    def _shortcuts_of(self, command: Command[Any, Any]) -> tuple[str, ...]:
        return next(found[command.id] for found in self._current.values() if command.id in found)

    def _find_owners(self, keys: str, command: Command[Any, Any]) -> list[Command[Any, Any]]:
        """Return the other commands that have a shortcut in the windows of the given command."""
        owners = {
            row.id: row
            for window, current in self._current.items()
            if command.id in current
            for row in self._tables[window]
            if row.id != command.id and keys in current[row.id]
        }
        return [*owners.values()]

    def _try_shortcut(self, sequence: QKeySequence) -> None:
        """Set the shortcut in the field if it can be used, or show why it cannot."""
        command, keys = self._command, sequence.toString()
        if command is None or not keys:  # the field is cleared before it takes another key
            return
        problem = shortcut_problem(keys, is_local=command.has_local_shortcut)
        owners = [] if problem else self._find_owners(keys, command)
        if problem or owners:
            self._show_problem(problem or _describe_conflict(keys, owners), owners)
        else:
            self._store(command, (keys, *self._shortcuts_of(command)[1:]))

    def _remove_shortcuts(self) -> None:
        if command := self._command:
            self._store(command, ())

    def _reassign_shortcut(self) -> None:
        command, keys, own = self._command, self.field.keySequence().toString(), self._own
        if command and self._owners:
            for owner in self._owners:
                kept = tuple(each for each in self._shortcuts_of(owner) if each != keys)
                own = self._with_shortcuts(own, owner, kept)
            mine = (keys, *self._shortcuts_of(command)[1:])
            self._save(self._with_shortcuts(own, command, mine))

    def _reset_command(self) -> None:
        command = self._command
        if command is None:
            return
        self._save({id_: keys for id_, keys in self._own.items() if id_ != command.id})
        for keys in command.default_shortcuts:  # another command may have it now
            if owners := self._find_owners(keys, command):
                with QSignalBlocker(self.field):
                    self.field.setKeySequence(QKeySequence(keys))
                self._show_problem(_describe_conflict(keys, owners), owners)
                return

    def _reset_all(self) -> None:
        self._save({})

    def _store(self, command: Command[Any, Any], shortcuts: tuple[str, ...]) -> None:
        self._save(self._with_shortcuts(self._own, command, shortcuts))

    @staticmethod
    def _with_shortcuts(
        own: Mapping[str, tuple[str, ...]],
        command: Command[Any, Any],
        shortcuts: tuple[str, ...],
    ) -> dict[str, tuple[str, ...]]:
        """Return own shortcuts with those of a command; default shortcuts are not stored."""
        unique = tuple(dict.fromkeys(shortcuts))
        others = {id_: keys for id_, keys in own.items() if id_ != command.id}
        return others if unique == command.default_shortcuts else {**others, command.id: unique}

    def _save(self, own: Mapping[str, tuple[str, ...]]) -> None:
        save_shortcuts(own)
        self._show_shortcuts()
        self.changed.emit()


def _describe_conflict(keys: str, owners: Sequence[Command[Any, Any]]) -> str:
    names = " and ".join(f"“{owner.description}”" for owner in owners)
    return f"{format_shortcuts([keys])} is used by {names}."
