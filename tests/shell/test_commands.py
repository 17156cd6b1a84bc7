"""Every feature has an action with a unique shortcut, and every action works."""

from __future__ import annotations

import platform
from collections import Counter
from functools import partial
from itertools import cycle, groupby
from typing import TYPE_CHECKING, Any

import pytest
import torch
from PySide6.QtCore import QObject, QPoint, Qt, qVersion
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QFileDialog, QSpinBox
from shiboken6 import Shiboken, isValid

import visualizer
from tests.support.command_calls import called
from tests.support.window_input import CONTROL
from visualizer.session.cell_address import Cell
from visualizer.session.view_options import (
    AUTOMATIC_MAP,
    ColourCurve,
    ColourLimits,
    ColourMapKind,
    colour_maps_of_kind,
)
from visualizer.shell.commands import COMMANDS, WIDGET_SHORTCUTS, list_shortcuts
from visualizer.shell.settings_dialog import SettingsDialog
from visualizer.widgets.dialogs import ShortcutListDialog
from visualizer.widgets.documentation_window import DocumentationWindow
from visualizer.widgets.icons import icon
from visualizer.widgets.shortcut_editor import ShortcutEditor
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.session.view_options import ColourMap
    from visualizer.shell.window import MainWindow
    from visualizer.widgets.commands import Command


OPENING_BOXES = {
    *("command_palette.open", "documentation.open", "shortcuts.show", "shortcuts.edit"),
    *("about.show", "diagnostics.copy"),
}
"""Commands that open dialogs and call no controller."""


def controller_name(command: Command[Any, Any]) -> str:
    return command.id.partition(".")[0]


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))


COMMAND_GROUPS = {
    group: [command.id for command in commands]
    for group, commands in groupby(sorted(COMMANDS, key=controller_name), key=controller_name)
}
"""Command ids by controller; the commands of a controller are used in one window in order."""


@pytest.mark.slow
@pytest.mark.parametrize("group", COMMAND_GROUPS)
def test_every_action_can_be_used(hand: Hand, group: str) -> None:
    hand.click_cell(Cell("weights", (0, 1, 0)))
    hand.press(Qt.Key.Key_M)
    hand.press(Qt.Key.Key_Z)  # so that there are changes to redo and to undo
    hand.trigger("module.toggle_training_mode")
    hand.settle()
    for key in COMMAND_GROUPS[group]:
        action = hand.window.actions_.by_id[key]
        if key.startswith("view.step_leading"):
            assert not action.isEnabled()
            continue
        action.setEnabled(True)
        action.trigger()
        kinds = (
            *(ShortcutListDialog, ShortcutEditor, DocumentationWindow),
            *(QFileDialog, SettingsDialog),
        )
        for box in (
            *hand.boxes(),
            *(each for kind in kinds for each in hand.window.findChildren(kind)),
        ):
            box.close()
        assert hand.boxes() == []
        if key != "window.close":
            hand.settle()


def test_the_window_can_be_closed_by_keyboard(hand: Hand) -> None:
    worker = hand.window.workspace.requests.worker
    hand.press(Qt.Key.Key_W)
    assert not hand.window.isVisible()
    hand.until(lambda: not isValid(worker))  # wait until its thread has ended


def test_python_learns_of_the_end_of_all_that_menus_are_made_of(window: MainWindow) -> None:
    window.controllers.lesson_controller.load_lesson_menu()
    made: list[QObject] = [window.menuBar(), window.statusBar(), *window.actions_.menus.values()]
    for menu in window.actions_.menus.values():
        made += [action for action in menu.actions() if action.menu() is None]
    assert [thing for thing in made if not Shiboken.createdByPython(thing)] == []


def test_no_two_actions_share_their_keys(window: MainWindow) -> None:
    actions = window.actions_.by_id.values()
    keys = [keys.toString() for action in actions for keys in action.shortcuts()]
    assert all(keys)
    assert [key for key, count in Counter(keys).items() if count > 1] == []


def test_no_menu_uses_a_letter_twice(window: MainWindow) -> None:
    menus = list(window.actions_.menus.values())
    named = [[action.text() for action in menu.actions()] for menu in menus]
    named.append([action.text() for action in window.menuBar().actions()])
    for texts in named:
        letters = [text[text.index("&") + 1].lower() for text in texts if "&" in text]
        assert [letter for letter, count in Counter(letters).items() if count > 1] == [], texts


def test_every_action_is_in_a_menu_and_calls_a_controller(window: MainWindow) -> None:
    listed = {action for menu in window.actions_.menus.values() for action in menu.actions()}
    assert set(window.actions_.by_id.values()) <= listed
    for command in COMMANDS:
        if command.id not in OPENING_BOXES:
            controllers = window.actions_.by_id[command.id].controllers
            assert callable(called(command, controllers))


def test_the_list_of_keys_is_whole(hand: Hand) -> None:
    hand.window.actions_.by_id["shortcuts.show"].trigger()
    (box,) = hand.window.findChildren(ShortcutListDialog)
    said = box.list.toPlainText()
    listed = list_shortcuts()
    for command in COMMANDS:
        assert all(keys in said for keys in command.default_shortcuts)
    rows = [row for group in listed for row in group.rows]
    with_keys = sum(bool(command.default_shortcuts) for command in COMMANDS)
    assert len(rows) == with_keys + len(WIDGET_SHORTCUTS)
    assert {"F5", "F6", "arrow keys", "Esc"} <= {keys for _, keys in rows}
    assert all(keys in said and words in said for words, keys in rows)
    assert {"Layout: Flow of one head", "Causal mask"} <= {words for words, _ in rows}
    titles = [group.title for group in listed]
    assert titles[:3] == ["File", "Edit", "Module"]
    assert {"View", "In the focused widget"} < set(titles)
    assert all(title in said for title in titles)
    box.close()


def test_the_list_of_keys_fits_the_window_and_is_scrolled_by_keyboard(hand: Hand) -> None:
    hand.window.resize(900, 600)
    hand.window.actions_.by_id["shortcuts.show"].trigger()
    (box,) = hand.window.findChildren(ShortcutListDialog)
    hand.until(box.isActiveWindow)
    assert box.height() <= hand.window.height()
    assert box.search.hasFocus()
    assert box.list.horizontalScrollBar().maximum() == 0
    bar = box.list.verticalScrollBar()
    assert bar.maximum() > 0
    QTest.keyClick(box.search, Qt.Key.Key_PageDown)
    assert bar.value() > 0
    QTest.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()


@pytest.mark.parametrize(
    ("typed", "found", "missing"),
    [
        ("MASK causal", {"Causal mask", "Module"}, {"Undo", "Lessons"}),
        ("f5", {"Presenter mode", "F5"}, {"F6"}),
        ("layout", {"Layout: Flow of one head"}, {"Undo"}),
        ("<b>no such thing", {"No shortcuts match “<b>no such thing”."}, {"Undo"}),
    ],
)
def test_the_list_of_keys_is_searched(
    hand: Hand, typed: str, found: set[str], missing: set[str]
) -> None:
    hand.window.actions_.by_id["shortcuts.show"].trigger()
    (box,) = hand.window.findChildren(ShortcutListDialog)
    QTest.keyClicks(box.search, typed)
    said = box.list.toPlainText()
    assert {words for words in found if words not in said} == set()
    assert {words for words in missing if words in said} == set()
    box.search.clear()
    assert "Undo" in box.list.toPlainText()
    box.close()


def test_icons_are_there(window: MainWindow) -> None:
    for command in COMMANDS:
        if command.icon:
            assert not window.actions_.by_id[command.id].icon().isNull()
    drawn = icon("undo", "#ff0000").pixmap(16, 16).toImage()
    assert {drawn.pixelColor(x, y).red() for x in range(16) for y in range(16)} == {0, 255}


# ------------------------------------------------------------------------------------- by keys


def test_colours_by_command(hand: Hand) -> None:
    for command, curve, limits in (
        ("view.set_curve rank", ColourCurve.RANK, ColourLimits.AUTO),
        ("view.set_curve log", ColourCurve.LOG, ColourLimits.AUTO),
        ("view.set_limits row", ColourCurve.LOG, ColourLimits.ROW),
        ("view.set_limits panel", ColourCurve.LOG, ColourLimits.PANEL),
        ("view.set_curve linear", ColourCurve.LINEAR, ColourLimits.PANEL),
        ("view.set_limits automatic", ColourCurve.LINEAR, ColourLimits.AUTO),
    ):
        hand.trigger(command)
        hand.settle()
        colour = hand.panel("weights").colour
        assert (colour.curve, colour.limits) == (curve, limits)
    for key_ in ("view.set_curve linear", "view.set_limits automatic"):
        assert hand.window.actions_.by_id[key_].isChecked()


def test_light_and_dark_by_command(hand: Hand) -> None:
    papers = {}
    for theme in (DARK, LIGHT):
        hand.window.actions_.by_id[f"theme.set_scheme {theme.name}"].trigger()
        assert hand.window.theme is theme
        hand.until(hand.window.updatesEnabled)  # painting is delayed
        image = hand.window.grab().toImage()
        inside = hand.board.mapTo(hand.window, hand.board.rect().bottomRight() - QPoint(4, 4))
        ratio = image.devicePixelRatio()
        papers[theme.name] = image.pixelColor(inside * ratio).name().upper()
        assert papers[theme.name] == theme.paper
        assert hand.window.actions_.by_id[f"theme.set_scheme {theme.name}"].isChecked()
    assert papers["dark"] != papers["light"]


def test_seeds_by_command(hand: Hand) -> None:
    before = hand.panel("scores")
    hand.trigger("workspace.resample seed")
    hand.settle()
    assert hand.window.workspace.document.spec.seed == 124
    assert (hand.panel("scores").values != before.values).any()


def test_the_sentence_by_keyboard(hand: Hand) -> None:
    hand.board.setFocus()
    hand.press(Qt.Key.Key_L)
    assert hand.sentence.hasFocus()
    assert hand.sentence.textCursor().selectedText() == hand.sentence.toPlainText()


@pytest.mark.parametrize("letters", ["ąćęłńóśźżĄĆĘŁŃÓŚŹŻ", "@€{[]}~|µ²–"], ids=["Polish", "German"])
def test_letters_typed_with_altgr_reach_the_sentence_and_run_no_command(
    letters: str, hand: Hand
) -> None:
    ran: list[str] = []
    for id_, action in hand.window.actions_.by_id.items():
        action.triggered.connect(partial(ran.append, id_))
    hand.type_sentence("")
    control, alt = CONTROL, Qt.KeyboardModifier.AltModifier
    for letter, key in zip(letters, cycle("ACELNOSXZQE7890M2"), strict=False):
        # Windows reports AltGr as Ctrl+Alt, with the key of the letter without AltGr.
        QTest.sendKeyEvent(
            QTest.KeyAction.Click, hand.sentence, Qt.Key(ord(key)), letter, control | alt
        )
    assert hand.sentence.toPlainText() == letters
    hand.settle()
    assert ran == []


def test_every_setting_by_command(hand: Hand) -> None:
    seed = hand.window.findChild(QSpinBox, "seed QSpinBox")
    assert seed
    assert not seed.isVisible()
    hand.trigger("module.open_settings")
    assert hand.window.settings_bar.tokenizer.hasFocus()  # the first editor
    hand.until(lambda: not seed.visibleRegion().isEmpty())
    hand.key(Qt.Key.Key_Escape)
    assert not seed.isVisible()
    assert hand.find(QComboBox, "mask QComboBox").isVisible()


def in_turn(kind: ColourMapKind) -> list[ColourMap]:
    """Return the maps of a kind, the default last, so that every command changes the map."""
    usual, *others = colour_maps_of_kind(kind)
    return [*others, usual]


def test_colour_maps_by_command(hand: Hand) -> None:
    for each in in_turn(ColourMapKind.SEQUENTIAL):
        hand.window.actions_.by_id[f"view.set_map {each.id}"].trigger()
        assert hand.panel("weights").colour.map == each.id
        assert hand.panel("scores").colour.map == AUTOMATIC_MAP
        assert hand.window.actions_.by_id[f"view.set_map {each.id}"].isChecked()


def test_colours_of_signed_numbers_by_command(hand: Hand) -> None:
    for each in in_turn(ColourMapKind.DIVERGING):
        hand.window.actions_.by_id[f"view.set_diverging {each.id}"].trigger()
        assert hand.panel("scores").colour.map == each.id
        assert hand.window.actions_.by_id[f"view.set_diverging {each.id}"].isChecked()


def test_active_commands_are_checked(hand: Hand) -> None:
    by_id = hand.window.actions_.by_id
    assert by_id["module.toggle_causal_mask"].isChecked()
    assert by_id["module.toggle_training_mode"].isChecked()
    hand.press(Qt.Key.Key_M)
    hand.trigger("module.toggle_training_mode")
    assert not by_id["module.toggle_causal_mask"].isChecked()
    assert not by_id["module.toggle_training_mode"].isChecked()
    hand.settle()


def test_panes_by_keyboard(hand: Hand) -> None:
    for pane in ("Tokens", "Explain"):
        if pane not in hand.window.docks.visible_pane_ids:
            hand.run_in_palette(f"panes {pane}")  # this brings the pane's tab to the front
        hand.until(hand.window.docks.actions[pane].isChecked)
        hand.run_in_palette(f"panes {pane}")
        hand.until(hand.window.docks.by_id[pane].isHidden)
        hand.run_in_palette(f"panes {pane}")
        hand.until(hand.window.panes[pane].isVisible)
        assert pane in hand.window.docks.visible_pane_ids


READING = ("lesson.step 1", "lesson.step -1", "lesson.restore_page", "lesson.close")
CONTINUING = tuple(
    f"model_generation.{name}"
    for name in (
        "toggle",
        "sample",
        "step_back",
        "step_forward",
        "switch_branch",
        "use_as_text",
        "start_again",
        "toggle_chat",
    )
)
COMPARING = (
    *("comparison.swap", "comparison.add_sample", "comparison.go_to_largest", "comparison.stop"),
    *("comparison.scale_samples 1", "comparison.scale_samples -1"),
)


HEAD_EDITS = (
    *("head_edit.toggle", "head_edit.restore_all", "head_edit.set_mean", "head_edit.scale"),
    *("head_edit.patch", "head_edit.sort_by_change"),
)


def test_unavailable_commands_are_disabled(hand: Hand) -> None:
    by_id = hand.window.actions_.by_id
    idle = {key for key, action in by_id.items() if not action.isEnabled()}
    assert idle == {
        *("workspace.undo", "workspace.redo", "cell.copy", "cell.unpin", "playback.reveal"),
        "document.revert",
        *("cell.mark", "cell.go -1", "cell.go 1", "presenter_mode.blank"),
        *(
            "shapes.toggle_split",
            "token_selection.clear",
            "token_selection.go_to_largest_weight",
            "mask_edit.paint_pinned",
        ),
        *("view.reset_zoom", "view.zoom_out"),
        *HEAD_EDITS,
        "attribution.toggle_ablations",
        "head_measurement.toggle",
        *("text.edit_second", "model.show_next_part", "model_image.choose"),
        *("view.step_leading 1", "view.step_leading -1", "view.toggle_side_by_side"),
        *(*READING, *COMPARING, *CONTINUING),
    }
    hand.press(Qt.Key.Key_Plus)
    hand.settle()
    assert by_id["view.reset_zoom"].isEnabled()
    assert by_id["view.zoom_out"].isEnabled()
    hand.press(Qt.Key.Key_0)
    hand.settle()
    assert not by_id["view.reset_zoom"].isEnabled()
    hand.hover(Cell("weights", (0, 1, 0)))
    assert not by_id["cell.unpin"].isEnabled()
    hand.click_cell(Cell("weights", (0, 1, 0)))
    hand.press(Qt.Key.Key_M)
    hand.settle()
    idle = {key for key, action in by_id.items() if not action.isEnabled()}
    assert idle == {
        *(
            "workspace.redo",
            "cell.mark",
            "playback.reveal",
            "presenter_mode.blank",
            "document.revert",
        ),
        *("cell.go -1", "cell.go 1", "shapes.toggle_split", "token_selection.clear"),
        *("mask_edit.paint_pinned", "view.reset_zoom", "view.zoom_out"),
        *HEAD_EDITS,
        "attribution.toggle_ablations",
        "head_measurement.toggle",
        *("text.edit_second", "model.show_next_part", "model_image.choose"),
        *("view.step_leading 1", "view.step_leading -1", "view.toggle_side_by_side"),
        *(*READING, *COMPARING, *CONTINUING),
    }


def test_the_program_describes_itself(hand: Hand) -> None:
    hand.window.actions_.by_id["about.show"].trigger()
    (box,) = hand.boxes()
    said = box.text()
    assert f"Attention Visualizer {visualizer.__version__}" in said
    assert torch.__version__ in said
    assert platform.python_version() in said
    assert qVersion() in said
    assert "MIT licence" in said
    assert "https://" in said
    (copy,) = (button for button in box.buttons() if button.text() == "Copy versions")
    hand.click(copy)
    assert f"Python: {platform.python_version()}" in QApplication.clipboard().text()
    hand.until(lambda: hand.boxes() == [])


def test_f11_fills_the_screen_and_restores_the_window(hand: Hand) -> None:
    before = hand.window.geometry()
    hand.key(Qt.Key.Key_F11)
    hand.until(hand.window.isFullScreen)
    hand.key(Qt.Key.Key_F11)
    hand.until(lambda: not hand.window.isFullScreen())
    assert hand.window.geometry() == before
