"""Keyboard shortcuts follow the platform, type nothing and belong to one command each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from PySide6.QtGui import QKeySequence

from visualizer.lab.commands import LAB_COMMANDS
from visualizer.shell.commands import COMMANDS
from visualizer.widgets import shortcuts
from visualizer.widgets.app_settings import load_shortcuts, save_shortcuts, store_values
from visualizer.widgets.commands import Command, resolve_shortcuts
from visualizer.widgets.shortcuts import shortcut_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtWidgets import QApplication

pytestmark = pytest.mark.usefixtures("qapp")
TABLES: dict[str, Sequence[Command[Any, Any]]] = {"main window": COMMANDS, "lab": LAB_COMMANDS}


def _command(id_: str, *keys: str, is_local: bool = False) -> Command[Any, Any]:
    return Command(id_, "Menu", id_, lambda _: None, keys, has_local_shortcut=is_local)


@pytest.mark.parametrize("table", TABLES)
def test_default_shortcuts_are_usable_and_unambiguous(table: str) -> None:
    keys = [keys for row in TABLES[table] for keys in row.default_shortcuts]
    assert len(keys) == len(set(keys))
    for row in TABLES[table]:
        for each in row.default_shortcuts:
            assert shortcut_problem(each, is_local=row.has_local_shortcut) == "", row.id


@pytest.mark.parametrize(("table", "maximum"), [("main window", 40), ("lab", 15)])
def test_only_frequent_commands_have_shortcuts(table: str, maximum: int) -> None:
    assert sum(bool(row.default_shortcuts) for row in TABLES[table]) <= maximum


def test_the_windows_use_the_same_keys_for_the_same_command() -> None:
    main, lab = ({row.id: row.default_shortcuts for row in table} for table in TABLES.values())
    shared = main.keys() & lab.keys()
    assert {"window.close", "command_palette.open", "documentation.open"} <= shared
    assert {id_: main[id_] for id_ in shared} == {id_: lab[id_] for id_ in shared}


def test_the_shortcut_of_the_platform_is_first(qapp: QApplication) -> None:
    redo = next(row for row in COMMANDS if row.id == "workspace.redo")
    platform = QKeySequence.keyBindings(QKeySequence.StandardKey.Redo)[0].toString()
    assert redo.default_shortcuts[0] == platform
    assert set(redo.shortcuts) <= set(redo.default_shortcuts)


@pytest.mark.parametrize("keys", ["Ctrl+Alt+Q", "Ctrl+Alt+2", "Meta+L", "Alt+F4", "Shift+F10"])
def test_keys_of_keyboard_layouts_and_desktops_are_rejected(keys: str) -> None:
    assert shortcut_problem(keys, is_local=False)
    assert shortcut_problem(keys, is_local=True)


@pytest.mark.parametrize("keys", ["P", "Shift+P", "ł", "Space", "Return", "Home", "Del", "/"])
def test_keys_that_edit_text_are_for_commands_outside_fields(keys: str) -> None:
    assert shortcut_problem(keys, is_local=False)
    assert shortcut_problem(keys, is_local=True) == ""


@pytest.mark.parametrize("keys", ["", "Ctrl", "Ctrl+K, Ctrl+S", "nonsense", "Tab", "Left", "Alt+E"])
def test_keys_that_cannot_be_shortcuts_are_rejected(keys: str) -> None:
    assert shortcut_problem(keys, is_local=False)


def test_macos_keeps_its_key_for_minimizing(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = next(row for row in COMMANDS if row.id == "module.toggle_causal_mask")
    assert mask.default_shortcuts == ("Ctrl+M",)
    monkeypatch.setattr(shortcuts, "IS_MAC", True)
    assert mask.default_shortcuts == ("Meta+M",)


def test_own_shortcuts_are_stored_and_precede_defaults() -> None:
    rows = [_command("one", "Ctrl+1"), _command("two", "Ctrl+2", "Ctrl+3"), _command("three")]
    save_shortcuts({"three": ["Ctrl+2"], "one": []})
    assert load_shortcuts() == {"three": ("Ctrl+2",), "one": ()}
    expected = {"one": (), "two": ("Ctrl+3",), "three": ("Ctrl+2",)}
    assert resolve_shortcuts(rows) == expected


@pytest.mark.parametrize(
    "stored",
    [7, True, "\t\t\n\n", "one", "one\tnonsense", "one\tCtrl+Alt+A\tA", "\x00\tCtrl+A", "one\tTab"],
)
def test_damaged_shortcuts_are_ignored(stored: str | int) -> None:
    store_values({"shortcuts": stored})
    rows = [_command("one", "Ctrl+1"), _command("two", "Ctrl+2")]
    found = resolve_shortcuts(rows)
    assert found["two"] == ("Ctrl+2",)
    assert found["one"] in {(), ("Ctrl+1",)}
