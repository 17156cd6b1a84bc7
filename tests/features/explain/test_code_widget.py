"""The code in Explain shows its lines, marks the current one, and works by keyboard alone."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontInfo, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from visualizer.features.explain.code_presenter import CodeContents, DisplayedCodeLine
from visualizer.features.explain.code_widget import (
    EMPTY_MESSAGE,
    LINE_BAR_WIDTH_PX,
    CodeSection,
)
from visualizer.session.view import CodeDialect
from visualizer.widgets.theme import DARK, LIGHT, create_style_sheet

if TYPE_CHECKING:
    from PySide6.QtGui import QTextCharFormat
    from pytestqt.qtbot import QtBot

WRITTEN = (
    ("# Written out: for a reason.", ""),
    ("x = inputs", "# (6, 3) token d_in"),
    ("*batch, num_tokens, d_in = x.shape", ""),
    ("scores = x @ x.transpose(-2, -1)", "# (1, 6, 6) head query key"),
    ("weights = F.softmax(scores, dim=-1)", "# (1, 6, 6) head query key"),
)


def a_twin(
    lit: int | None = None, dialect: CodeDialect = CodeDialect.BOOK, times: int = 1, shape: str = ""
) -> CodeContents:
    lines = tuple(
        DisplayedCodeLine(text, shape or there, number == lit)
        for number, (text, there) in enumerate(WRITTEN * times)
    )
    return CodeContents("Weights in code", dialect, lines)


@pytest.fixture
def pane(qtbot: QtBot) -> CodeSection:
    made = CodeSection()
    made.show_all.setChecked(True)
    qtbot.addWidget(made)
    made.resize(320, 240)
    made.show()
    qtbot.waitExposed(made)
    return made


def form(pane: CodeSection, line: int, column: int) -> QTextCharFormat:
    cursor = QTextCursor(pane.code.document().findBlockByNumber(line))
    cursor.setPosition(cursor.position() + column + 1)
    return cursor.charFormat()


def ink(pane: CodeSection, line: int, column: int) -> str:
    return form(pane, line, column).foreground().color().name().upper()


def is_bold(pane: CodeSection, line: int) -> bool:
    return form(pane, line, 0).fontWeight() == QFont.Weight.Bold


def bars(pane: CodeSection) -> set[int]:
    """The numbers of the lines that have a bar of the accent beside them."""
    image = pane.code.viewport().grab().toImage()
    scale = image.devicePixelRatio()
    found = set()
    for number in range(pane.code.blockCount()):
        block = pane.code.document().findBlockByNumber(number)
        place = pane.code.blockBoundingGeometry(block).translated(pane.code.contentOffset())
        middle = round(place.center().y() * scale)
        if 0 <= middle < image.height() and image.pixelColor(1, middle) == QColor(LIGHT.accent):
            found.add(number)
    return found


def test_the_code_is_shown_with_the_shapes_at_the_ends(pane: CodeSection) -> None:
    assert pane.code.placeholderText() == EMPTY_MESSAGE
    assert not pane.copy.isEnabled()
    pane.show_code(a_twin(), LIGHT)
    expected = [f"{text}  {shape}" if shape else text for text, shape in WRITTEN]
    assert pane.code.toPlainText().splitlines() == expected
    assert pane.running.accessibleDescription() == "Weights in code"
    pane.copy.setEnabled(True)
    assert pane.copy.isEnabled()
    assert bars(pane) == set()
    pane.show_code(None, LIGHT)
    assert pane.code.toPlainText() == ""


def test_what_runs_has_a_bar_and_stands_out(pane: CodeSection) -> None:
    pane.show_code(a_twin(lit=3), LIGHT)
    assert bars(pane) == {3}
    assert [is_bold(pane, line) for line in range(5)] == [False, False, False, True, False]
    assert pane.code.accessibleDescription().startswith("Current code: scores = x @ x")
    pane.show_code(a_twin(lit=4), LIGHT)
    assert bars(pane) == {4}
    assert [is_bold(pane, line) for line in range(5)] == [False, False, False, False, True]
    pane.show_code(a_twin(), LIGHT)
    assert bars(pane) == set()
    assert not any(is_bold(pane, line) for line in range(5))
    assert pane.code.accessibleDescription() == ""


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_comments_and_shapes_are_quiet(pane: CodeSection, theme: object) -> None:
    colours = DARK if theme is DARK else LIGHT
    pane.show_code(a_twin(lit=3), LIGHT)
    pane.show_code(a_twin(lit=3), colours)
    assert ink(pane, 0, 0) == colours.quiet
    for line in (1, 3, 4):
        assert ink(pane, line, 0) == colours.ink
        assert ink(pane, line, len(WRITTEN[line][0]) + 2) == colours.quiet


def test_what_runs_is_scrolled_into_sight(pane: CodeSection) -> None:
    bar = pane.code.verticalScrollBar()
    pane.show_code(a_twin(lit=0, times=20), LIGHT)
    assert bar.value() == 0
    pane.show_code(a_twin(lit=90, times=20), LIGHT)
    assert bars(pane) == {90}
    there = bar.value()
    pane.show_code(a_twin(lit=89, times=20), LIGHT)
    assert bar.value() == there  # it was in sight
    pane.show_code(a_twin(lit=2, times=20), LIGHT)
    assert bars(pane) == {2}
    pane.resize(320, 160)
    assert bars(pane) == {2}


def test_other_numbers_leave_the_scrolling_and_what_is_selected_alone(pane: CodeSection) -> None:
    pane.resize(260, 240)
    pane.show_code(a_twin(times=20), LIGHT)
    across, down = pane.code.horizontalScrollBar(), pane.code.verticalScrollBar()
    across.setValue(across.maximum())
    down.setValue(30)
    assert across.value() > 0
    pane.show_code(a_twin(times=20, shape="# (2, 7, 7) head query key"), LIGHT)
    assert (across.value(), down.value()) == (across.maximum(), 30)
    pane.code.selectAll()
    pane.show_code(a_twin(times=20, shape="# (2, 7, 7) head query key", lit=31), LIGHT)
    assert pane.code.textCursor().hasSelection()
    assert down.value() == 30


def test_a_bar_stays_in_place_while_the_text_moves_across(pane: CodeSection) -> None:
    pane.show_code(a_twin(lit=1), LIGHT)
    pane.code.viewport().grab()
    across = pane.code.horizontalScrollBar()
    across.setValue(across.maximum())
    QApplication.processEvents()
    assert bars(pane) == {1}
    assert LINE_BAR_WIDTH_PX > 1


def test_a_dialect_is_chosen_by_keys(pane: CodeSection, qtbot: QtBot) -> None:
    pane.show_code(a_twin(), LIGHT)
    pane.box.setFocus()
    with qtbot.waitSignal(pane.dialectChosen) as chosen:
        QTest.keyClick(pane.box, Qt.Key.Key_Down)
    assert chosen.args == [CodeDialect.LECTURE]
    assert pane.box.currentText() == "Book"  # until the answer comes
    pane.show_code(a_twin(dialect=CodeDialect.LECTURE), LIGHT)
    assert pane.box.currentText() == "Lecture notes"
    with qtbot.waitSignal(pane.dialectChosen) as chosen:
        QTest.keyClick(pane.box, Qt.Key.Key_Down)
    assert chosen.args == [CodeDialect.SDPA]


def test_a_script_is_asked_for_by_keys(pane: CodeSection, qtbot: QtBot) -> None:
    pane.show_code(a_twin(), LIGHT)
    pane.copy.setEnabled(True)
    pane.copy.setFocus()
    with qtbot.waitSignal(pane.scriptRequested):
        QTest.keyClick(pane.copy, Qt.Key.Key_Space)
    assert pane.copy.text() == "Copy as script"


def test_the_code_is_read_and_selected_by_keys_and_never_written(pane: CodeSection) -> None:
    pane.show_code(a_twin(), LIGHT)
    before = pane.code.toPlainText()
    pane.code.setFocus()
    QTest.keyClicks(pane.code, "nonsense")
    QTest.keyClick(pane.code, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert pane.code.toPlainText() == before
    assert pane.code.textCursor().selectedText().replace("\u2029", "\n") == before
    QTest.keyClick(pane.code, Qt.Key.Key_Tab)
    assert not pane.code.hasFocus()


def test_readers_of_the_screen_are_told_the_names(pane: CodeSection) -> None:
    assert pane.box.accessibleName() == "Code style"
    assert pane.code.accessibleName() == "Code"


def test_the_code_keeps_its_fixed_font_under_the_programs_style(pane: CodeSection) -> None:
    pane.setStyleSheet(create_style_sheet())
    pane.show_code(a_twin(), LIGHT)
    QApplication.processEvents()
    family = QFontInfo(pane.code.font()).family()
    assert family == QFontInfo(pane.code.document().defaultFont()).family()
    widths = {pane.code.fontMetrics().horizontalAdvance(letter) for letter in "iWm.#"}
    assert len(widths) == 1


def test_showing_the_same_again_or_another_lit_line_takes_no_time(pane: CodeSection) -> None:
    twins = [a_twin(lit=lit, times=4) for lit in (3, 4)]
    pane.show_code(twins[0], LIGHT)
    same, other = [], []
    for number in range(200):
        started = time.perf_counter()
        pane.show_code(twins[number % 2], LIGHT)
        middle = time.perf_counter()
        pane.show_code(a_twin(lit=(3, 4)[number % 2], times=4), LIGHT)
        other.append(middle - started)
        same.append(time.perf_counter() - middle)
    assert median(other) < 1e-3
    assert median(same) < 1e-3
