"""The widgets of the setup pane apart from a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.window_input import CONTROL
from visualizer.documents.open_document import MAX_TEXT_CHARACTERS, longest_permitted_prefix
from visualizer.features.setup.text_edit_widget import InputTextEdit, has_word_longer_than

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


@given(st.text("ab \n\t\u00a0\u2028", max_size=40), st.integers(1, 9))
def test_a_long_word_is_found_wherever_it_stands(text: str, length: int) -> None:
    assert has_word_longer_than(text, length) == any(len(word) > length for word in text.split())


def test_what_is_offered_of_a_long_text_has_it_where_the_cursor_stands(qtbot: QtBot) -> None:
    box = InputTextEdit()
    qtbot.addWidget(box)
    box.setPlainText("😀😁 after")
    QTest.keyClick(box, Qt.Key.Key_Right)
    pasted = "word " * (MAX_TEXT_CHARACTERS // 5)
    QApplication.clipboard().setText(pasted)
    with qtbot.waitSignal(box.textLimitExceeded) as refused:
        QTest.keyClick(box, Qt.Key.Key_V, CONTROL)
    assert refused.args[1] == longest_permitted_prefix(f"😀{pasted}😁 after")
    QApplication.clipboard().clear()


def test_no_letter_is_scrolled_out_of_the_field(qtbot: QtBot) -> None:
    box = InputTextEdit()
    qtbot.addWidget(box)
    box.resize(300, 50)
    box.show()
    for count in range(1, 80):
        box.show_text("il " * count)
        QTest.keyClicks(box, "x")
        assert box.horizontalScrollBar().value() == 0


def test_another_text_is_shown_from_its_beginning(qtbot: QtBot) -> None:
    box = InputTextEdit()
    qtbot.addWidget(box)
    box.resize(300, 50)
    box.show()
    for first in ("The cat sat on the mat", "A dog ran"):
        box.show_text("\n".join([first, *["It was tired"] * 9]))
        assert box.firstVisibleBlock().text() == first
