"""The start page appears first, opens the content of its images, and closes for documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel

from tests.support.accessible_text import heard
from tests.support.window_input import PATIENCE_MS, Hand
from visualizer.documents import recent_files
from visualizer.documents.document_file import DOCUMENT_SUFFIX, SavedDocument, document_bytes
from visualizer.features.next_token.presenter import NEXT_TOKEN_PANEL
from visualizer.features.start_page.examples import (
    EXAMPLE_TEXTS,
    StartPageExample,
    load_picture_data,
)
from visualizer.language.example_run import ESSENTIAL_HEAD, EXPECTED_CELL, HEAD
from visualizer.session.document import Document, default_document
from visualizer.session.view import LessonPosition, View
from visualizer.widgets import app_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from visualizer.features.start_page.widget import StartPage
    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager

ALT = Qt.KeyboardModifier.AltModifier
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def hand(windows: WindowManager, qtbot: QtBot) -> Hand:
    """Return a hand for a window at the first start."""
    windows.open_first_window(None, None)
    window = windows.all[0]
    window.resize(1280, 800)
    qtbot.waitExposed(window)
    hand = Hand(qtbot, window)
    hand.settle()
    return hand


def page_of(window: MainWindow) -> StartPage:
    page = window.controllers.start_page.page
    assert page is not None
    assert page.isVisible()
    return page


def choose(hand: Hand, example: StartPageExample) -> None:
    card = page_of(hand.window).cards[example]
    QTest.mouseClick(card, LEFT, pos=card.rect().center())


def test_the_first_start_shows_the_page_over_the_starting_document(hand: Hand) -> None:
    page = page_of(hand.window)
    assert hand.window.workspace.document == default_document()
    assert hand.window.workspace.run is not None  # computed behind the start page
    top = page.mapTo(hand.window, page.rect().topLeft())
    assert top.y() == hand.window.menuBar().geometry().bottom() + 1
    assert page.width() == hand.window.width()
    hand.window.resize(1000, 700)
    hand.until(lambda: page.width() == hand.window.width())


def test_the_page_can_be_closed_and_comes_again(hand: Hand) -> None:
    QTest.mouseClick(page_of(hand.window).close_button, LEFT)
    assert hand.window.controllers.start_page.page is None
    hand.until(hand.board.hasFocus)
    hand.window.actions_.by_id["start_page.open"].trigger()
    page_of(hand.window)
    hand.key(Qt.Key.Key_Escape)
    assert hand.window.controllers.start_page.page is None


def test_the_status_line_describes_only_what_is_seen(hand: Hand) -> None:
    window = hand.window
    for _ in range(2):
        page_of(window)
        assert window.facts.text() == ""
        assert not window.provenance.isVisible()
        window.controllers.start_page.close_page()
        assert "6 tokens" in window.facts.text()
        assert window.provenance.isVisible()
        window.actions_.by_id["start_page.open"].trigger()


def test_the_page_closed_for_good_stays_away(hand: Hand, windows: WindowManager) -> None:
    page = page_of(hand.window)
    assert page.show_at_start_box.isChecked()
    page.show_at_start_box.setFocus()
    hand.key(Qt.Key.Key_Space)
    assert not app_settings.shows_start_page()
    windows.open_first_window(None, None)
    assert len(windows.all) == 2
    assert windows.all[1].controllers.start_page.page is None
    assert hand.window.controllers.start_page.page is page


def test_page_and_settings_agree_on_whether_it_comes_at_the_start(hand: Hand) -> None:
    page = page_of(hand.window)
    hand.press(Qt.Key.Key_Comma)
    dialog = hand.window.controllers.settings_controller.dialog
    assert dialog
    hand.until(dialog.isActiveWindow)
    QTest.keyClick(dialog.start_page, Qt.Key.Key_Space)
    assert not app_settings.shows_start_page()
    assert not page.show_at_start_box.isChecked()
    QTest.keyClick(page.show_at_start_box, Qt.Key.Key_Space)
    assert app_settings.shows_start_page()
    assert dialog.start_page.isChecked()


def test_the_lesson_opens_before_lessons_are_loaded(hand: Hand) -> None:
    hand.window.controllers.lesson_controller.lessons = ()  # as before the window was painted
    choose(hand, StartPageExample.LESSON)
    hand.settle()
    assert hand.window.panes["Lesson"].isVisible()


@pytest.mark.slow
@pytest.mark.parametrize("given", ["document", "file", "last"])
def test_a_document_comes_without_the_page(
    windows: WindowManager, qtbot: QtBot, tmp_path: Path, given: str
) -> None:
    document = Document(text="of mine")
    path = tmp_path / f"mine{DOCUMENT_SUFFIX}"
    path.write_bytes(document_bytes(document, View()))
    saved = None if given == "last" else SavedDocument(document, View())
    if given == "last":
        app_settings.save_last_file(path)
    windows.open_first_window(saved, path if given == "file" else None)
    hand = Hand(qtbot, windows.all[0])
    hand.until(lambda: hand.chips == ("of", "mine"))
    assert hand.window.controllers.start_page.page is None


def test_the_book_is_what_lies_behind(hand: Hand, windows: WindowManager) -> None:
    run = hand.window.workspace.run
    choose(hand, StartPageExample.BOOK)
    assert hand.window.controllers.start_page.page is None
    assert hand.window.workspace.run is run
    assert run is not None
    opened = run.trace.read("context")
    np.testing.assert_allclose(opened, load_picture_data().book, atol=1e-4)
    assert len(windows.all) == 1


def test_the_book_opens_next_to_what_would_be_lost(hand: Hand, windows: WindowManager) -> None:
    hand.key(Qt.Key.Key_Escape)
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.window.actions_.by_id["start_page.open"].trigger()
    choose(hand, StartPageExample.BOOK)
    hand.until(lambda: len(windows.all) == 2)
    hand.until(lambda: windows.all[1].workspace.computed == default_document())
    assert hand.window.workspace.document != default_document()


@pytest.mark.filterwarnings("ignore")  # transformers warns about small models
def test_the_trained_example_is_a_model_whose_copying_breaks_without_a_head(hand: Hand) -> None:
    pytest.importorskip("transformers.modeling_utils")  # the first import takes long
    choose(hand, StartPageExample.TRAINED)
    assert hand.window.controllers.start_page.page is None
    hand.until(lambda: hand.chips[:7] == tuple("journey"))
    hand.settle()
    layer, head = ESSENTIAL_HEAD
    assert hand.window.workspace.view.heads == frozenset({head})
    assert hand.panel("weights", head).values[EXPECTED_CELL] > 0.95
    said = " ".join(label.text() for label in hand.window.panes["Explain"].findChildren(QLabel))
    assert "with weight more than 99.9%" in said
    assert not hand.window.isWindowModified()  # the page can be reopened at any time
    assert recent_files.load_recent_files(app_settings.user_data_folder()) == ()
    hand.until(hand.window.panes["Layers"].isVisible)
    hand.until(lambda: not hand.window.docks.by_id["Next token"].isHidden())
    hand.settle()
    hand.window.docks.open_pane("Next token")
    hand.until(lambda: bool(hand.window.workspace.screen.panel(NEXT_TOKEN_PANEL).rows))
    before = hand.window.workspace.screen.panel(NEXT_TOKEN_PANEL).rows[0]
    assert (before.token, before.probability > 0.99) == ("j", True)
    pane = hand.window.panes["Next token"]
    assert f"layer {layer + 1}, head {head + 1}" in pane.heads.text().lower()
    hand.trigger("head_edit.toggle")
    hand.settle()
    after = hand.window.workspace.screen.panel(NEXT_TOKEN_PANEL).rows[0]
    assert after.token == "j"
    assert after.probability < 0.6 < after.probability_of_all_heads


def test_without_transformers_the_trained_example_is_a_layer(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visualizer.models.lab_model_files.can_open_models", lambda: False)
    choose(hand, StartPageExample.TRAINED)
    hand.until(lambda: hand.chips[:7] == tuple("journey"))
    hand.settle()
    assert hand.window.workspace.view.heads == frozenset({HEAD})
    assert hand.panel("weights", HEAD).values[EXPECTED_CELL] > 0.95
    assert not hand.window.isWindowModified()


def test_the_lesson_opens(hand: Hand) -> None:
    choose(hand, StartPageExample.LESSON)
    hand.settle()
    assert hand.window.controllers.start_page.page is None
    assert hand.window.panes["Lesson"].isVisible()
    position = hand.window.controllers.lesson_controller.position
    assert position is not None
    lesson = hand.window.controllers.lesson_controller.lessons[0]
    assert position == LessonPosition(lesson.name, 0)
    assert EXAMPLE_TEXTS[StartPageExample.LESSON].title == lesson.title


@pytest.mark.slow
def test_the_lab_opens_and_trains(hand: Hand, windows: WindowManager, qtbot: QtBot) -> None:
    choose(hand, StartPageExample.TRAINING)
    qtbot.waitUntil(lambda: bool(windows.lab and windows.lab.isVisible()), timeout=PATIENCE_MS)
    lab = windows.lab
    assert lab is not None
    qtbot.waitUntil(lambda: lab.lab.run is not None, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: bool(lab.lab.run and lab.lab.run.step > 0), timeout=6 * PATIENCE_MS)
    run = lab.lab.run
    choose(hand, StartPageExample.TRAINING)  # the page is still open and does not restart
    assert lab.lab.run is not None
    assert run is not None
    assert lab.lab.run.folder == run.folder


def test_a_recent_document_is_opened(windows: WindowManager, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / f"R&D <b>{DOCUMENT_SUFFIX}"
    path.write_bytes(document_bytes(Document(text="seen before"), View()))
    recent_files.add_recent_file(app_settings.user_data_folder(), path)
    windows.open_first_window(None, None)
    hand = Hand(qtbot, windows.all[0])
    (button,) = page_of(hand.window).recent
    assert button.text() == f"R&&D <b>{DOCUMENT_SUFFIX}"
    assert str(tmp_path) in button.toolTip()
    assert not page_of(hand.window).no_recent_label.isVisible()
    QTest.mouseClick(button, LEFT)
    hand.until(lambda: hand.chips == ("seen", "before"))
    hand.until(lambda: hand.window.controllers.start_page.page is None)


def test_another_document_can_be_looked_for(hand: Hand) -> None:
    QTest.mouseClick(page_of(hand.window).open, LEFT)
    (dialog,) = hand.window.findChildren(QFileDialog)
    dialog.close()
    assert hand.window.controllers.start_page.page is page_of(hand.window)  # still open


def test_the_keyboard_stays_on_the_page(hand: Hand) -> None:
    page = page_of(hand.window)
    hand.until(page.cards[StartPageExample.BOOK].hasFocus)
    seen = []
    for _ in range(len(EXAMPLE_TEXTS) + 4):
        focused = QApplication.focusWidget()
        assert focused is not None
        assert page.isAncestorOf(focused)
        assert heard(focused).name
        seen.append(focused)
        hand.key(Qt.Key.Key_Tab)
    assert len(set(seen)) == len(EXAMPLE_TEXTS) + 3  # and back to the first
    hand.press(Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    page.cards[StartPageExample.LESSON].setFocus()
    hand.key(Qt.Key.Key_Return)
    assert hand.window.controllers.start_page.page is None


def test_a_command_for_what_is_covered_uncovers_it(hand: Hand) -> None:
    hand.window.actions_.by_id["theme.set_scheme dark"].trigger()  # a change of theme hides nothing
    page = page_of(hand.window)
    hand.window.actions_.by_id["theme.set_scheme light"].trigger()
    assert page_of(hand.window) is page
    hand.window.actions_.by_id["module.toggle_causal_mask"].trigger()
    assert hand.window.controllers.start_page.page is None
    hand.settle()


def test_each_image_is_painted_in_both_themes(hand: Hand) -> None:
    papers = {}
    for scheme in ("light", "dark"):
        hand.window.set_colour_scheme(scheme)
        for example, card in page_of(hand.window).cards.items():
            image = card.grab().toImage()
            step = 7
            colours = {
                image.pixel(x, y)
                for x in range(0, image.width(), step)
                for y in range(0, image.height(), step)
            }
            assert len(colours) > 8, example
            papers[scheme] = image.pixelColor(8, 8).name().upper()
        assert papers[scheme] == hand.window.theme.field
    assert papers["light"] != papers["dark"]
    assert app_settings.load_value("start page") is None
