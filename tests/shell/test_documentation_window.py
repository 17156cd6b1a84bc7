"""The documentation window works by mouse and keyboard, and in the program's theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QMouseEvent, QTextDocument
from PySide6.QtTest import QSignalSpy, QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QTreeWidgetItem, QWidget
from shiboken6 import Shiboken

from tests.support.accessible_text import heard
from tests.support.window_input import CONTROL, LEFT, SHIFT, Hand
from visualizer.lab.window import LabWindow
from visualizer.resources import documentation_path
from visualizer.widgets import app_settings
from visualizer.widgets.documentation_pages import read_documentation_pages
from visualizer.widgets.documentation_window import DocumentationWindow
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtGui import QColor
    from pytestqt.qtbot import QtBot

NONE = Qt.KeyboardModifier.NoModifier
ALT = Qt.KeyboardModifier.AltModifier
SOURCES = "explanation/background.md"
"""A page with web links."""
READ_PAGES = tuple(read_documentation_pages(documentation_path()))
PAGES = [page.name for page in READ_PAGES]
PAGE_TITLES = [page.title for page in READ_PAGES]


@pytest.fixture
def pages(hand: Hand) -> Iterator[DocumentationWindow]:
    """Open the documentation by its shortcut."""
    hand.press(Qt.Key.Key_F1, Qt.KeyboardModifier.NoModifier)
    (opened,) = hand.window.findChildren(DocumentationWindow)
    hand.until(opened.isActiveWindow)
    yield opened
    if Shiboken.isValid(opened):
        opened.close()


def shown(pages: DocumentationWindow) -> str:
    """Return the first line of the displayed page."""
    return pages.browser.document().firstBlock().text()


def top_of(pages: DocumentationWindow) -> str:
    """Return the first visible line."""
    return pages.browser.cursorForPosition(QPoint(30, 5)).block().text()


def visible_lines(pages: DocumentationWindow) -> list[str]:
    """Return the first line of each visible paragraph."""
    height = pages.browser.viewport().height()
    points = (QPoint(30, y) for y in range(0, height, 10))
    return [pages.browser.cursorForPosition(point).block().text() for point in points]


def focused(pages: DocumentationWindow) -> QWidget:
    """Return the widget that has the focus."""
    widget = pages.focusWidget()
    assert widget is not None
    return widget


def press(pages: DocumentationWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
    QTest.keyClick(focused(pages), key, modifiers)


def place_of(pages: DocumentationWindow, text: str) -> QPoint:
    """Scroll to a text and return its position in the view."""
    cursor = pages.browser.document().find(text)
    cursor.setPosition(cursor.selectionStart() + 1)
    pages.browser.setTextCursor(cursor)
    pages.browser.ensureCursorVisible()
    return pages.browser.cursorRect(cursor).center()


def click(pages: DocumentationWindow, text: str) -> None:
    at, view = place_of(pages, text), pages.browser.viewport()
    where = view.mapToGlobal(at).toPointF()
    moved = QMouseEvent(
        QEvent.Type.MouseMove, at.toPointF(), where, Qt.MouseButton.NoButton,
        Qt.MouseButton.NoButton, NONE,
    )  # fmt: skip
    QApplication.sendEvent(view, moved)
    QTest.mouseClick(view, LEFT, pos=at)


def listed(pages: DocumentationWindow) -> list[str]:
    """List the titles of the pages and of the sections that were found."""
    tops = map(pages.results.topLevelItem, range(pages.results.topLevelItemCount()))
    found: list[QTreeWidgetItem | None] = []
    for top in filter(None, tops):
        found += [top, *map(top.child, range(top.childCount()))]
    return [item.text(0) for item in found if item]


# ------------------------------------------------------------------------------------- pages


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_shown_whole_with_its_images(pages: DocumentationWindow, name: str) -> None:
    pages.browser.open_page(name)
    assert shown(pages) == pages.pages[name].title
    assert pages.browser.horizontalScrollBar().maximum() == 0
    markdown = pages.pages[name].markdown
    assert len(pages.browser.images) == markdown.count("![")
    for image in pages.browser.images:
        name = image.charFormat().toImageFormat().name()
        kind = QTextDocument.ResourceType.ImageResource.value
        assert not pages.browser.document().resource(kind, QUrl(name)).isNull()
    assert pages.grab().width() == pages.width()


def test_a_second_call_brings_the_window_back(pages: DocumentationWindow, hand: Hand) -> None:
    pages.browser.open_page("reference/lab.md")
    hand.activate()
    hand.press(Qt.Key.Key_F1, Qt.KeyboardModifier.NoModifier)
    assert hand.window.findChildren(DocumentationWindow) == [pages]
    hand.until(pages.isActiveWindow)
    assert shown(pages) == "The language lab"


def test_escape_closes_it_and_the_program_stays_usable_in_the_meantime(
    pages: DocumentationWindow, hand: Hand
) -> None:
    assert not pages.isModal()
    gone = QSignalSpy(pages.destroyed)
    press(pages, Qt.Key.Key_Escape)
    assert not pages.isVisible()
    hand.until(lambda: gone.count() > 0)
    assert hand.window.findChildren(DocumentationWindow) == []


@pytest.mark.slow
def test_a_link_leads_to_its_section_and_back(pages: DocumentationWindow) -> None:
    pages.resize(900, 500)
    press(pages, Qt.Key.Key_PageDown)
    place_of(pages, "presenter mode")
    left_at = pages.browser.verticalScrollBar().value()
    click(pages, "presenter mode")
    assert shown(pages) == "The window"
    assert "Presenter mode" in visible_lines(pages)
    current = pages.contents.currentItem()
    assert current
    assert current.text(0) == "Presenter mode"
    press(pages, Qt.Key.Key_Left, ALT)
    assert shown(pages) == "Documentation"
    assert pages.browser.verticalScrollBar().value() == left_at
    QTest.mouseClick(pages.forward, LEFT)
    assert shown(pages) == "The window"
    assert not pages.forward.isEnabled()


def test_a_link_is_reached_and_followed_by_keyboard(pages: DocumentationWindow) -> None:
    pages.browser.setFocus()
    press(pages, Qt.Key.Key_Tab)
    press(pages, Qt.Key.Key_Return)
    assert shown(pages) == "The first five minutes"


@pytest.mark.slow
def test_the_web_is_opened_by_a_click_only(
    pages: DocumentationWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_url(url: QUrl) -> bool:
        opened.append(url.toString())
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", open_url)
    for name in PAGES:
        pages.browser.open_page(name)
    pages.browser.open_page(SOURCES)
    assert opened == []
    click(pages, "Let's build GPT")
    assert [address.partition("?")[0] for address in opened] == ["https://www.youtube.com/watch"]
    assert shown(pages) == "Background"


def test_without_a_browser_the_address_is_shown(
    pages: DocumentationWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _: False)
    pages.browser.open_page(SOURCES)
    click(pages, "Let's build GPT")
    (box,) = pages.findChildren(QMessageBox)
    assert "https://www.youtube.com/watch" in box.text()
    box.close()


def test_going_to_another_section_does_not_render_the_page_again(
    pages: DocumentationWindow,
) -> None:
    pages.browser.open_page("reference/window.md")
    formatted = QSignalSpy(pages.browser.document().contentsChanged)
    pages.contents.setFocus()
    press(pages, Qt.Key.Key_Down)
    assert top_of(pages) == "Parts of the window"
    assert pages.browser.verticalScrollBar().value() > 0
    press(pages, Qt.Key.Key_Up)
    assert pages.browser.verticalScrollBar().value() == 0
    assert formatted.count() == 0


# ------------------------------------------------------------------------------------- finding


def test_the_search_lists_sections_of_all_pages(pages: DocumentationWindow) -> None:
    assert pages.search.hasFocus()
    assert pages.contents.isVisible()
    QTest.keyClicks(pages.search, "projector BLANKS")
    assert listed(pages)[:2] == ["The window", "Presenter mode"]
    press(pages, Qt.Key.Key_Return)
    assert shown(pages) == "The window"
    assert pages.browser.hasFocus()
    marked = {mark.cursor.selectedText().lower() for mark in pages.browser.extraSelections()}
    assert marked == {"projector", "blank"}
    press(pages, Qt.Key.Key_F, CONTROL)
    assert pages.search.hasFocus()
    press(pages, Qt.Key.Key_Backspace)
    pages.search.clear()
    assert listed(pages) == []
    assert pages.contents.isVisible()
    assert not pages.results.isVisible()
    assert pages.browser.extraSelections() == []


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("tril", "explanation/background.md"),
        ("masked_fill", "explanation/background.md"),
        ("register_buffer", "explanation/background.md"),
        ("Bahdanau", "explanation/background.md"),
        ("overflow", "lessons/1-one-query.md"),
        ("Shakespeare", "reference/lab.md"),
        ("MultiHeadAttentionWrapper", "reference/modules.md"),
        ("CausalAttention", "reference/modules.md"),
        ("exercise 3.2", "lessons/6-many-heads.md"),
    ],
)
def test_the_search_finds_lessons_and_names_of_the_code(
    pages: DocumentationWindow, words: str, page: str
) -> None:
    QTest.keyClicks(pages.search, words)
    assert pages.pages[page].title in listed(pages)
    pages.browser.open_page(page)
    assert pages.browser.extraSelections()


def test_a_lesson_is_read_among_the_pages(pages: DocumentationWindow) -> None:
    QTest.keyClicks(pages.search, "naive softmax overflows")
    press(pages, Qt.Key.Key_Return)
    assert shown(pages) == "Lesson 1: A context vector by hand"
    assert "Where the naive softmax overflows" in visible_lines(pages)


def test_searches_without_matches_are_reported(pages: DocumentationWindow) -> None:
    QTest.keyClicks(pages.search, "<b>qqq <i>zzz")
    assert pages.no_results_label.isVisible()
    assert pages.no_results_label.text() == "No pages match “<b>qqq <i>zzz”."
    assert pages.no_results_label.textFormat() is Qt.TextFormat.PlainText
    assert listed(pages) == []
    pages.search.clear()
    assert not pages.no_results_label.isVisible()


def test_the_contents_are_walked_by_keyboard(pages: DocumentationWindow) -> None:
    press(pages, Qt.Key.Key_Down)
    assert pages.contents.hasFocus()
    press(pages, Qt.Key.Key_End)
    assert shown(pages) == PAGE_TITLES[-1]
    press(pages, Qt.Key.Key_Return)
    assert pages.browser.hasFocus()


def test_the_search_leaves_scrolling_to_the_page(pages: DocumentationWindow) -> None:
    pages.browser.open_page("reference/window.md")
    press(pages, Qt.Key.Key_PageDown)
    assert pages.search.hasFocus()
    assert pages.browser.verticalScrollBar().value() > 0


def test_matches_in_the_page_are_selected_one_after_the_other(pages: DocumentationWindow) -> None:
    pages.browser.open_page("reference/modules.md")
    QTest.keyClicks(pages.search, "SOFTMAX")
    matches = [each.cursor.selectionStart() for each in pages.browser.extraSelections()]
    assert len(matches) > 1

    def selected() -> int:
        assert pages.browser.textCursor().selectedText().lower() == "softmax"
        return pages.browser.textCursor().selectionStart()

    for start in (*matches, matches[0]):
        press(pages, Qt.Key.Key_F3)
        assert selected() == start
    press(pages, Qt.Key.Key_F3, SHIFT)
    assert selected() == matches[-1]
    pages.search.setText("(")
    press(pages, Qt.Key.Key_F3)
    assert pages.browser.textCursor().selectedText() == "("
    pages.search.setText("words of no page")
    pages.search.clear()
    press(pages, Qt.Key.Key_F3)
    assert pages.browser.textCursor().selectedText() == "("


# ------------------------------------------------------------------------------------- appearance


def ink_of(pages: DocumentationWindow, text: str) -> QColor:
    cursor = pages.browser.document().find(text)
    return cursor.charFormat().foreground().color()


def test_the_page_follows_the_theme(pages: DocumentationWindow, hand: Hand) -> None:
    pages.browser.open_page(SOURCES)
    for theme in (DARK, LIGHT):
        hand.window.set_colour_scheme(theme.name)
        assert pages.browser.palette().text().color().name() == theme.ink.lower()
        assert ink_of(pages, "Let's build GPT").name() == theme.accent.lower()
        ground = pages.browser.grab().toImage().pixelColor(5, 5)
        assert ground.name() == theme.field.lower()


@pytest.mark.slow
def test_the_page_follows_the_text_size(pages: DocumentationWindow, hand: Hand) -> None:
    usual = pages.browser.document().defaultFont().pixelSize()
    pages.browser.open_page("reference/window.md", "playback")
    try:
        app_settings.save_text_size(200)
        hand.window.apply_stored_text_size()
        assert pages.browser.document().defaultFont().pixelSize() == 2 * usual
        assert top_of(pages) == "Playback"
    finally:
        app_settings.save_text_size(100)
        hand.window.apply_stored_text_size()
    assert pages.browser.document().defaultFont().pixelSize() == usual
    assert top_of(pages) == "Playback"


def test_images_and_lines_fit_a_narrow_window(pages: DocumentationWindow) -> None:
    pages.browser.open_page("reference/lab.md")
    wide = picture_width(pages)
    pages.resize(640, 500)
    assert picture_width(pages) < wide
    assert picture_width(pages) <= pages.browser.viewport().width()
    pages.resize(1600, 900)
    assert picture_width(pages) < 1000  # longer lines would be hard to read


def picture_width(pages: DocumentationWindow) -> float:
    layout = pages.browser.document().documentLayout()
    return layout.blockBoundingRect(pages.browser.images[0].block()).width()


def test_texts_for_screen_readers_are_plain(pages: DocumentationWindow) -> None:
    named = (pages.search, pages.contents, pages.browser, pages.back, pages.forward)
    assert [heard(widget).name for widget in named] == [
        *("Search all pages", "Contents", "Documentation page", "Back", "Forward")
    ]


# ------------------------------------------------------------------------------------- the lab


def test_the_lab_opens_its_page(application: QApplication, qtbot: QtBot) -> None:
    lab = LabWindow()
    qtbot.addWidget(lab)
    lab.show()
    qtbot.waitExposed(lab)
    lab.menus.by_id["documentation.open"].trigger()
    (pages,) = lab.findChildren(DocumentationWindow)
    assert shown(pages) == "The language lab"
    pages.close()
    lab.lab.close_run()
