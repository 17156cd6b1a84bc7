"""Shortcuts are changed in the editor, apply at once in all windows, and are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.support.window_input import CONTROL, SHIFT
from visualizer.lab.commands import LAB_COMMANDS
from visualizer.widgets.app_settings import load_shortcuts, save_shortcuts
from visualizer.widgets.commands import resolve_shortcuts
from visualizer.widgets.dialogs import ShortcutListDialog
from visualizer.widgets.shortcut_editor import ShortcutEditor

if TYPE_CHECKING:
    from tests.support.window_input import Hand

NONE = Qt.KeyboardModifier.NoModifier


def _open(hand: Hand) -> ShortcutEditor:
    hand.trigger("shortcuts.edit")
    editor = hand.window.findChild(ShortcutEditor)
    assert editor
    hand.until(editor.isVisible)
    return editor


def _choose(editor: ShortcutEditor, words: str) -> None:
    editor.search.clear()
    QTest.keyClicks(editor.search, words)


def _press(editor: ShortcutEditor, key: Qt.Key, modifiers: Qt.KeyboardModifier = CONTROL) -> None:
    editor.field.setFocus()
    QTest.keyClick(editor.field, key, modifiers)


def _keys(hand: Hand, command: str) -> list[str]:
    return [keys.toString() for keys in hand.window.actions_.by_id[command].shortcuts()]


def test_a_new_shortcut_works_at_once_and_is_named(hand: Hand) -> None:
    button = hand.window.view_bar.buttons["view.toggle_aggregate mean"]
    editor = _open(hand)
    _choose(editor, "heads: mean")
    _press(editor, Qt.Key.Key_K)
    assert load_shortcuts() == {"view.toggle_aggregate mean": ("Ctrl+K",)}
    assert "(Ctrl+K)" in button.toolTip()
    editor.close()
    hand.activate()
    hand.board.setFocus()
    hand.press(Qt.Key.Key_K)
    hand.settle()
    assert hand.window.workspace.view.folds


def test_a_conflict_is_shown_and_resolved(hand: Hand) -> None:
    editor = _open(hand)
    _choose(editor, "training mode")
    _press(editor, Qt.Key.Key_M)
    assert "Causal mask" in editor.problem.text()
    assert load_shortcuts() == {}
    assert _keys(hand, "module.toggle_causal_mask") == ["Ctrl+M"]
    hand.click(editor.reassign_button)
    assert _keys(hand, "module.toggle_training_mode") == ["Ctrl+M"]
    assert _keys(hand, "module.toggle_causal_mask") == []
    assert editor.problem.text() == ""
    _choose(editor, "causal mask")
    hand.click(editor.reset_button)
    assert "Training mode" in editor.problem.text()
    hand.click(editor.reassign_button)
    assert _keys(hand, "module.toggle_causal_mask") == ["Ctrl+M"]
    assert _keys(hand, "module.toggle_training_mode") == []
    assert load_shortcuts() == {}
    editor.close()


def test_all_shortcuts_are_reset(hand: Hand) -> None:
    save_shortcuts({"workspace.undo": ["Ctrl+U"], "export.open": []})
    editor = _open(hand)
    hand.click(editor.reset_all_button)
    assert load_shortcuts() == {}
    assert "Ctrl+E" in _keys(hand, "export.open")
    assert not editor.reset_all_button.isEnabled()
    editor.close()


@pytest.mark.parametrize(
    ("key", "modifiers"),
    [
        (Qt.Key.Key_E, CONTROL | Qt.KeyboardModifier.AltModifier),
        (Qt.Key.Key_J, NONE),
        (Qt.Key.Key_Aring, SHIFT),
    ],
)
def test_keys_that_type_are_rejected(
    key: Qt.Key, modifiers: Qt.KeyboardModifier, hand: Hand
) -> None:
    editor = _open(hand)
    _choose(editor, "export")
    _press(editor, key, modifiers)
    assert editor.problem.text()
    assert not editor.reassign_button.isVisible()
    assert load_shortcuts() == {}
    editor.close()


def test_a_letter_of_another_keyboard_layout_can_be_used_with_ctrl(hand: Hand) -> None:
    editor = _open(hand)
    _choose(editor, "export")
    _press(editor, Qt.Key.Key_Aring)
    assert _keys(hand, "export.open") == ["Ctrl+Å"]
    editor.close()


def test_a_shortcut_is_removed_and_found_by_its_keys(hand: Hand) -> None:
    editor = _open(hand)
    _choose(editor, "ctrl+shift+p")
    hand.click(editor.remove_button)
    assert _keys(hand, "command_palette.open") == []
    assert load_shortcuts() == {"command_palette.open": ()}
    assert resolve_shortcuts(LAB_COMMANDS)["command_palette.open"] == ()
    hand.click(editor.reset_button)
    assert _keys(hand, "command_palette.open") == ["Ctrl+Shift+P"]
    editor.close()


def test_the_editor_is_opened_from_the_settings(hand: Hand) -> None:
    hand.trigger("settings.open")
    dialog = hand.window.controllers.settings_controller.dialog
    assert dialog
    hand.click(dialog.shortcuts)
    editor = hand.window.findChild(ShortcutEditor)
    assert editor
    editor.close()
    dialog.close()


def test_the_editor_is_opened_from_the_list_of_shortcuts(hand: Hand) -> None:
    hand.trigger("shortcuts.show")
    listed = hand.window.findChild(ShortcutListDialog)
    assert listed
    (button,) = (each for each in listed.buttons.buttons() if each.text() == "Change…")
    button.click()
    editor = hand.window.findChild(ShortcutEditor)
    assert editor
    assert not listed.isVisible()
    editor.close()


def test_a_key_is_taken_from_the_commands_of_all_windows(hand: Hand) -> None:
    """A shared command takes a key that another command has in each of its windows."""
    editor = _open(hand)
    _choose(editor, "documentation")
    _press(editor, Qt.Key.Key_E)
    for owner in ("Export", "Save training animation"):
        assert owner in editor.problem.text()
    hand.click(editor.reassign_button)
    assert load_shortcuts()["documentation.open"] == ("Ctrl+E",)
    assert "Ctrl+E" not in load_shortcuts()["export.open"]
    assert load_shortcuts()["run_export.save_film"] == ()
    hand.click(editor.reset_button)
    _choose(editor, "save training animation")
    hand.click(editor.reset_button)
    assert editor.problem.text() == ""
    assert resolve_shortcuts(LAB_COMMANDS)["run_export.save_film"] == ("Ctrl+E",)
    editor.close()


def test_the_lab_uses_shared_shortcuts(hand: Hand) -> None:
    save_shortcuts({"window.close": ["Ctrl+F9"]})
    assert resolve_shortcuts(LAB_COMMANDS)["window.close"] == ("Ctrl+F9",)
    editor = _open(hand)
    _choose(editor, "open run folder")
    _press(editor, Qt.Key.Key_F9)
    assert "Close window" in editor.problem.text()
    editor.close()
