"""Undo reverts one user-visible change, regardless of the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QPlainTextEdit, QSlider, QSpinBox, QToolButton

from tests.support.window_input import CONTROL, SHIFT, Hand
from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.spec import BooleanMatrix
from visualizer.session.document import BOOK_SENTENCE, Document

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from visualizer.shell.window import MainWindow

Z, Y = Qt.Key.Key_Z, Qt.Key.Key_Y


def can(hand: Hand) -> tuple[bool, bool]:
    by_id = hand.window.actions_.by_id
    return by_id["workspace.undo"].isEnabled(), by_id["workspace.redo"].isEnabled()


def test_the_menu_names_what_is_undone(hand: Hand) -> None:
    by_id = hand.window.actions_.by_id
    undo, redo = (by_id[f"workspace.{name}"] for name in ("undo", "redo"))
    before = undo.toolTip(), undo.iconText()
    hand.type_sentence("one & two")
    hand.settle()
    assert (undo.text(), redo.text()) == ("&Undo: text", "&Redo")
    hand.window.workspace.change_setting("d_in", 6)
    hand.settle()
    assert undo.text() == "&Undo: Embedding size"
    undo.trigger()
    hand.settle()
    assert (undo.text(), redo.text()) == ("&Undo: text", "&Redo: Embedding size")
    hand.window.workspace.change_setting("mechanism", Mechanism.SIMPLIFIED)
    hand.settle()
    assert (undo.text(), redo.text()) == ("&Undo", "&Redo")
    assert (undo.toolTip(), undo.iconText()) == before


def test_typing_is_undone_word_by_word(hand: Hand) -> None:
    hand.sentence.setFocus()
    hand.press(Qt.Key.Key_End)
    QTest.keyClicks(hand.sentence, " for all of us")
    seen = []
    for _ in range(9):
        if can(hand)[0]:
            hand.press(Z)
            seen.append(hand.sentence.toPlainText().removeprefix(BOOK_SENTENCE))
    assert seen == [" for all of ", " for all ", " for ", " ", ""]
    assert hand.sentence.hasFocus()
    for text in (*seen[-2::-1], " for all of us"):
        hand.press(Z, CONTROL | SHIFT)
        assert hand.sentence.toPlainText() == BOOK_SENTENCE + text
    hand.settle()
    assert hand.chips[-1] == "us"
    assert can(hand) == (True, False)


def test_pasting_is_a_separate_undo_step(hand: Hand) -> None:
    hand.type_sentence("one")
    hand.paste_sentence("pasted words")
    hand.key(Qt.Key.Key_Backspace)
    hand.key(Qt.Key.Key_Backspace)
    QTest.keyClicks(hand.sentence, "d")
    seen = []
    while can(hand)[0]:
        hand.press(Z)
        seen.append(hand.sentence.toPlainText())
    assert seen == ["pasted words", "one", "", BOOK_SENTENCE]
    hand.settle()


def test_cutting_and_replacing_text_are_separate_undo_steps(hand: Hand) -> None:
    hand.type_sentence("ab")
    hand.press(Qt.Key.Key_A)
    hand.key(Qt.Key.Key_X)
    hand.press(Qt.Key.Key_A)
    hand.press(Qt.Key.Key_X)
    seen = []
    while can(hand)[0]:
        hand.press(Z)
        seen.append(hand.sentence.toPlainText())
    assert seen == ["x", "ab", "", BOOK_SENTENCE]
    hand.settle()


@pytest.mark.parametrize("place", [0, 4, 12, len(BOOK_SENTENCE)])
def test_undo_shows_where_the_text_changed(hand: Hand, place: int) -> None:
    hand.sentence.setFocus()
    cursor = hand.sentence.textCursor()
    cursor.setPosition(place)
    hand.sentence.setTextCursor(cursor)
    hand.compose("quite new")
    hand.press(Qt.Key.Key_End)
    hand.press(Z)
    assert hand.sentence.textCursor().position() == place
    hand.press(Y)
    assert hand.sentence.textCursor().position() == place + len("quite new")
    hand.settle()


@pytest.mark.parametrize(("text", "place", "more"), [("😀 ab", 3, "cd"), ("a😀b", 3, "😀")])
def test_undo_shows_where_the_text_changed_next_to_emoji(
    hand: Hand, text: str, place: int, more: str
) -> None:
    hand.type_sentence("")
    hand.compose(text)
    cursor = hand.sentence.textCursor()
    cursor.setPosition(place)
    hand.sentence.setTextCursor(cursor)
    hand.compose(more)
    hand.press(Qt.Key.Key_Home)
    hand.press(Z)
    assert hand.sentence.toPlainText() == text
    assert hand.sentence.textCursor().position() == place
    hand.settle()


def test_a_drag_is_one_step(hand: Hand) -> None:
    slider = hand.find(QSlider, "d_in Slider")
    hand.drag(slider, 10, 20, 30, 40)
    hand.drag(slider, 50, 60)
    hand.settle()
    assert hand.find(QSpinBox, "d_in QSpinBox").value() == 60
    hand.press(Z)
    assert hand.find(QSpinBox, "d_in QSpinBox").value() == 40
    hand.press(Z)
    assert slider.value() == 3
    assert can(hand) == (False, True)
    hand.press(Y)
    hand.settle()
    assert slider.value() == 40
    assert hand.window.workspace.document.spec.d_in == 40


def test_each_key_on_a_slider_is_a_step(hand: Hand) -> None:
    slider = hand.find(QSlider, "d_in Slider")
    slider.setFocus()
    hand.key(Qt.Key.Key_Right)
    hand.key(Qt.Key.Key_Right)
    assert slider.value() == 5
    hand.press(Z)
    assert slider.value() == 4


@pytest.mark.parametrize("setting", ["d_in", "dropout", "seed"])
def test_a_number_typed_is_one_step(hand: Hand, setting: str) -> None:
    before = hand.window.workspace.document
    hand.type_number(setting, "0.25" if setting == "dropout" else "25")
    hand.press(Z)
    assert hand.window.workspace.document == before
    assert can(hand) == (False, True)
    hand.press(Z, CONTROL | SHIFT)
    assert hand.window.workspace.document.get_setting(setting) == pytest.approx(
        0.25 if setting == "dropout" else 25
    )


def test_settings_are_undone_in_turn(hand: Hand) -> None:
    hand.type_sentence("a b")
    hand.press(Qt.Key.Key_M)
    hand.choose("mechanism QComboBox", "Simplified self-attention")
    hand.settle()
    mask = hand.find(QComboBox, "mask QComboBox")
    hand.press(Z)
    hand.press(Z)
    assert mask.currentText() == "Causal"
    assert hand.sentence.toPlainText() == "a b"
    hand.settle()
    assert "context" in hand.stages
    hand.press(Z, CONTROL | SHIFT)
    assert mask.currentText() == "None"


def test_the_numbers_come_back_with_the_settings(hand: Hand) -> None:
    before = hand.panel("weights").values
    hand.type_sentence("quite another text")
    hand.settle()
    for _ in range(9):
        hand.press(Z)
    assert can(hand) == (False, True)
    hand.settle()
    assert (hand.panel("weights").values == before).all()
    assert hand.chips == tuple(BOOK_SENTENCE.split())


def test_a_new_change_forgets_what_was_undone(hand: Hand) -> None:
    hand.press(Qt.Key.Key_M)
    hand.press(Z)
    assert can(hand) == (False, True)
    hand.trigger("workspace.resample seed")
    assert can(hand) == (True, False)


def test_an_own_matrix_is_undone_where_it_is_typed(hand: Hand) -> None:
    hand.type_sentence("a")
    hand.choose("mask QComboBox", "Custom matrix")
    box = hand.find(QPlainTextEdit, "own_mask QPlainTextEdit")
    box.setFocus()
    hand.key(Qt.Key.Key_1)
    hand.press(Z)
    assert box.toPlainText() == ""
    assert hand.window.workspace.document.spec.own_mask is None
    hand.press(Y)
    assert box.toPlainText() == "1"
    own = hand.window.workspace.document.spec.own_mask
    assert own == BooleanMatrix(1, 1, b"\x80")
    hand.settle()


def test_each_edit_of_a_matrix_is_a_step(hand: Hand) -> None:
    hand.type_sentence("a b")
    hand.choose("mask QComboBox", "Custom matrix")
    box = hand.find(QPlainTextEdit, "own_mask QPlainTextEdit")
    box.setFocus()
    for key in (Qt.Key.Key_1, Qt.Key.Key_0, Qt.Key.Key_Return, Qt.Key.Key_1, Qt.Key.Key_1):
        hand.key(key)
    hand.settle()
    seen = []
    while hand.window.workspace.document.spec.own_mask is not None:
        hand.press(Z)
        seen.append(box.toPlainText())
    assert seen[0] == "1 0"  # “1 0, 1” is not a matrix, so it was never set
    assert seen[-1] == ""
    assert hand.problem("own_mask").startswith("The matrix is empty.")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dropout_seed", "seed"])
def test_the_last_seed_is_followed_by_the_first(
    open_window: Callable[..., MainWindow], qtbot: QtBot, name: str
) -> None:
    hand = Hand(
        qtbot, open_window(Document().with_setting("dropout", 0.5).with_setting(name, 2**31 - 1))
    )
    hand.settle()
    hand.trigger(f"workspace.resample {name}")
    hand.settle()
    assert hand.window.workspace.document.get_setting(name) == 0
    hand.press(Z)
    assert hand.window.workspace.document.get_setting(name) == 2**31 - 1
    hand.click(hand.window.settings_bar.rows[name].control.findChildren(QToolButton)[0])
    assert hand.window.workspace.document.get_setting(name) == 0
    hand.settle()


def test_a_matrix_that_is_undone_leaves_no_complaint(hand: Hand) -> None:
    hand.type_sentence("a")
    hand.choose("mask QComboBox", "Custom matrix")
    hand.find(QPlainTextEdit, "own_mask QPlainTextEdit").setFocus()
    hand.key(Qt.Key.Key_1)
    hand.choose("mask QComboBox", "Causal")
    for _ in range(9):
        hand.press(Z)
    assert can(hand) == (False, True)
    assert hand.problem("own_mask") == ""
    hand.settle()


def test_the_place_of_the_cursor_stays_in_the_text(hand: Hand) -> None:
    hand.type_sentence("a ")
    hand.compose("👩\u200d👩\u200d👧")
    hand.press(Z)
    hand.press(Z)
    assert hand.sentence.textCursor().position() <= len(hand.sentence.toPlainText())
    QTest.keyClicks(hand.sentence, "x")
    hand.settle()
    assert "x" in hand.sentence.toPlainText()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a\r\nb", "a\u2028b", "a\u00a0b"])
def test_differences_in_qt_output_are_not_changes(
    open_window: Callable[..., MainWindow], qtbot: QtBot, text: str
) -> None:
    window = open_window(Document(text))
    hand = Hand(qtbot, window)
    hand.settle()
    assert can(hand) == (False, False)
    assert window.workspace.document.text == text
    assert hand.chips == ("a", "b")
    hand.press(Qt.Key.Key_M)
    hand.press(Z)
    assert can(hand) == (False, True)
    hand.sentence.setFocus()
    hand.press(Qt.Key.Key_End)
    hand.press(Qt.Key.Key_End)
    QTest.keyClicks(hand.sentence, " c")
    hand.press(Z)
    hand.press(Z)
    assert window.workspace.document.text == text
    hand.settle()
