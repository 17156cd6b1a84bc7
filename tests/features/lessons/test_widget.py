"""The Lesson pane shows a page with its checks, and emits the navigation of the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocumentFragment
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel

from visualizer.features.lessons.claim_check import CheckedClaim, ClaimCheckResult
from visualizer.features.lessons.presenter import LessonPanel, markup_to_html
from visualizer.features.lessons.widget import EMPTY_MESSAGE, LessonPane
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

MATCHES = CheckedClaim(
    "scores (3.3.1): matches the book to four decimals", ClaimCheckResult.MATCHES
)
DIFFERS = CheckedClaim(
    "weights: differs from the book", ClaimCheckResult.DIFFERS, "Expected 1, computed <2>."
)
WAITING = CheckedClaim("weights: computing", ClaimCheckResult.WAITING)
CHANGED = CheckedClaim(
    "weights: not compared", ClaimCheckResult.CHANGED, "The settings are others."
)
PANEL = LessonPanel(
    "A <lesson>", "3.3", 3, 7, "One & all", markup_to_html("Some **bold** `code`."), (MATCHES,)
)


@pytest.fixture
def pane(qtbot: QtBot) -> LessonPane:
    made = LessonPane()
    qtbot.addWidget(made)
    made.resize(280, 400)
    made.show()
    made.show_lesson(PANEL, LIGHT)
    return made


def said(label: QLabel) -> str:
    return QTextDocumentFragment.fromHtml(label.text()).toPlainText()


def ticks(pane: LessonPane) -> list[str]:
    return [said(row.words) for row in pane.check_rows if row.isVisible()]


def test_a_page_is_shown_with_its_number_and_ticks(pane: LessonPane) -> None:
    assert said(pane.lesson) == "A <lesson> · 3.3"
    assert said(pane.title) == "One & all"
    assert said(pane.text) == "Some bold code."
    assert pane.number.text() == "3 of 7"
    assert ticks(pane) == [MATCHES.words]


def test_ticks_come_and_go_with_the_page(pane: LessonPane) -> None:
    pane.show_lesson(replace(PANEL, checks=(DIFFERS, WAITING, CHANGED)), LIGHT)
    assert ticks(pane) == [
        f"{DIFFERS.words}\nExpected 1, computed <2>.",
        WAITING.words,
        f"{CHANGED.words}\nThe settings are others.",
    ]
    pane.show_lesson(replace(PANEL, checks=()), LIGHT)
    assert ticks(pane) == []


@pytest.mark.parametrize("state", ClaimCheckResult)
def test_every_state_of_a_tick_has_its_mark(pane: LessonPane, state: ClaimCheckResult) -> None:
    drawn = []
    for theme in (LIGHT, DARK):
        pane.show_lesson(replace(PANEL, checks=(CheckedClaim("x", state),)), theme)
        image = pane.check_rows[0].mark.pixmap().toImage()
        size = range(image.width()), range(image.height())
        alphas = [image.pixelColor(x, y).alpha() for x in size[0] for y in size[1]]
        assert max(alphas) > 128
        drawn.append(image)
    assert drawn[0] != drawn[1]  # in a colour of the theme


def test_marks_differ(pane: LessonPane) -> None:
    images = []
    for state in (ClaimCheckResult.MATCHES, ClaimCheckResult.DIFFERS, ClaimCheckResult.WAITING):
        pane.show_lesson(replace(PANEL, checks=(CheckedClaim("x", state),)), LIGHT)
        images.append(pane.check_rows[0].mark.pixmap().toImage())
    assert all(one != other for at, one in enumerate(images) for other in images[:at])


def test_the_buttons_say_where_to(pane: LessonPane, qtbot: QtBot) -> None:
    steps: list[int] = []
    pane.stepped.connect(steps.append)
    QTest.mouseClick(pane.next_button, Qt.MouseButton.LeftButton)
    QTest.mouseClick(pane.back_button, Qt.MouseButton.LeftButton)
    assert steps == [1, -1]
    with qtbot.waitSignal(pane.closed):
        QTest.mouseClick(pane.close_button, Qt.MouseButton.LeftButton)
    assert not pane.return_button.isVisible()
    pane.show_lesson(replace(PANEL, is_changed=True), LIGHT)
    with qtbot.waitSignal(pane.restoreRequested):
        QTest.mouseClick(pane.return_button, Qt.MouseButton.LeftButton)


@pytest.mark.parametrize(("number", "back", "on"), [(1, False, True), (7, True, False)])
def test_there_is_nothing_before_the_first_page_nor_after_the_last(
    pane: LessonPane, number: int, back: bool, on: bool
) -> None:
    pane.show_lesson(replace(PANEL, number=number), LIGHT)
    assert (pane.back_button.isEnabled(), pane.next_button.isEnabled()) == (back, on)


def test_without_a_lesson_it_says_what_would_be_here(pane: LessonPane) -> None:
    pane.show_lesson(None, LIGHT)
    assert said(pane.text) == EMPTY_MESSAGE
    assert ticks(pane) == []
    buttons = pane.findChildren(QAbstractButton)
    assert [button for button in buttons if button.isVisible()] == []
    pane.show_lesson(PANEL, LIGHT)
    assert pane.next_button.isVisible()
    assert said(pane.title) == "One & all"


def test_every_button_has_a_name_and_so_has_the_pane(pane: LessonPane) -> None:
    names = {button.accessibleName() for button in pane.findChildren(QAbstractButton)}
    assert {"Previous page", "Next page", "Close the lesson"} <= names
    assert any("restore the settings of this page" in name for name in names)
    assert pane.accessibleName() == "Lesson"
    assert pane.area.accessibleName() == "Lesson page"


def test_a_long_page_scrolls_and_the_next_begins_at_its_top(pane: LessonPane) -> None:
    long = replace(PANEL, text=markup_to_html("Many words go here. " * 80))
    pane.show_lesson(long, LIGHT)
    pane.resize(pane.minimumWidth(), 300)
    pane.grab()
    bar = pane.area.verticalScrollBar()
    assert bar.maximum() > 0
    bar.setValue(bar.maximum())
    read = bar.value()
    pane.show_lesson(replace(long, is_changed=True), LIGHT)
    assert bar.value() == read  # the same page keeps its scroll position
    pane.show_lesson(replace(long, number=4), LIGHT)
    assert bar.value() == 0
    assert pane.next_button.isVisible()


def test_the_text_is_larger_than_the_rest_and_can_be_selected(pane: LessonPane) -> None:
    assert "font-size:" in pane.text.text()
    assert pane.text.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
    assert 240 <= pane.minimumWidth() <= 400
    inner = pane.area.widget()
    assert inner
    assert inner.minimumSizeHint().width() <= pane.minimumWidth()
