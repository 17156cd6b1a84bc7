"""Undo goes back by what a person would call one change, wherever the focus is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QCheckBox, QPlainTextEdit, QSlider, QSpinBox

from tests.ui.hand import CONTROL, SHIFT, Hand
from visualizer.attention.spec import BooleanMatrix
from visualizer.state.document import Document

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from visualizer.ui.window import Window

Z, Y = Qt.Key.Key_Z, Qt.Key.Key_Y
BOOK = "Your journey starts with one step"


def can(hand: Hand) -> tuple[bool, bool]:
    by_key = hand.window.actions_.by_key
    return by_key["undo"].isEnabled(), by_key["redo"].isEnabled()


def test_typing_is_undone_word_by_word(hand: Hand) -> None:
    hand.sentence.setFocus()
    hand.press(Qt.Key.Key_End)
    QTest.keyClicks(hand.sentence, " for all of us")
    seen = []
    for _ in range(9):
        if can(hand)[0]:
            hand.press(Z)
            seen.append(hand.sentence.toPlainText().removeprefix(BOOK))
    assert seen == [" for all of ", " for all ", " for ", " ", ""]
    assert hand.sentence.hasFocus()
    for text in (*seen[-2::-1], " for all of us"):
        hand.press(Z, CONTROL | SHIFT)
        assert hand.sentence.toPlainText() == BOOK + text
    hand.settle()
    assert hand.chips[-1] == "us"
    assert can(hand) == (True, False)


def test_a_drag_is_one_step(hand: Hand) -> None:
    slider = hand.find(QSlider, "d_in Slider")
    hand.drag(slider, 10, 20, 30, 40)
    hand.drag(slider, 50, 60)
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
    assert hand.window.workspace.document.get(setting) == pytest.approx(
        0.25 if setting == "dropout" else 25
    )


def test_settings_are_undone_in_turn(hand: Hand) -> None:
    hand.type_sentence("a b")
    hand.press(Qt.Key.Key_M)
    hand.choose("mechanism QComboBox", "Simplified self-attention")
    hand.settle()
    causal = hand.find(QCheckBox, "causal QCheckBox")
    hand.press(Z)
    hand.press(Z)
    assert causal.isChecked()
    assert hand.sentence.toPlainText() == "a b"
    hand.settle()
    assert "output" in hand.window.rail._buttons
    hand.press(Z, CONTROL | SHIFT)
    assert not causal.isChecked()


def test_the_numbers_come_back_with_the_settings(hand: Hand) -> None:
    before = hand.panel("weights").values
    hand.type_sentence("quite another text")
    hand.settle()
    for _ in range(9):
        hand.press(Z)
    assert can(hand) == (False, True)
    hand.settle()
    assert (hand.panel("weights").values == before).all()
    assert hand.chips == tuple(BOOK.split())


def test_a_new_change_forgets_what_was_undone(hand: Hand) -> None:
    hand.press(Qt.Key.Key_M)
    hand.press(Z)
    assert can(hand) == (False, True)
    hand.press(Qt.Key.Key_R, CONTROL | SHIFT)
    assert can(hand) == (True, False)


def test_an_own_matrix_is_undone_where_it_is_typed(hand: Hand) -> None:
    hand.type_sentence("a")
    hand.choose("mask QComboBox", "Own matrix")
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


def test_a_matrix_that_is_undone_leaves_no_complaint(hand: Hand) -> None:
    hand.type_sentence("a")
    hand.choose("mask QComboBox", "Own matrix")
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


@pytest.mark.parametrize("text", ["a\r\nb", "a\u2028b", "a\u00a0b"])
def test_what_qt_writes_otherwise_is_no_change(
    open_window: Callable[..., Window], qtbot: QtBot, text: str
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
