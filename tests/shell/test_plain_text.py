"""Text from files and users appears literally in all panes, tooltips, dialogs and exports."""

from __future__ import annotations

import csv
import html.parser
import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QTimer
from PySide6.QtGui import QFontMetricsF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox

from tests.support.hostile_markup import (
    HOSTILE,
    MARKS,
    hostile_places,
    is_escaped,
    is_hostile,
    rich,
    tip_at,
)
from tests.support.window_input import Hand, words
from visualizer.api.notebook_display import ExplainedValue
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.documents import recent_files
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.writers import export_file
from visualizer.features.explain.presenter import (
    CELL_PANEL,
    CellExplanation,
    FormattedFactor,
    FormattedTerm,
)
from visualizer.features.explain.widget import ExplainPane
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.shell.commands import RECENT_MENU
from visualizer.widgets import dialogs
from visualizer.widgets.app_settings import LESSONS, user_data_folder
from visualizer.widgets.dialogs import ask_save_path
from visualizer.widgets.labels import HtmlLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Open

pytestmark = pytest.mark.slow  # each pane in a separate window

NAME = "<img zqfile>.npz"
TOKENS = (*HOSTILE, "=zq(1)")
BOLD, FILE = HOSTILE[:2]


@pytest.fixture
def captured(open_window: Open, qtbot: QtBot) -> Hand:
    """Open a window with captured attention, a hostile name, hostile tokens and all panes."""
    size = len(TOKENS)
    weights = np.full((2, 2, size, size), 1 / size, np.float32)
    document = Document(captured=CapturedAttention.from_array(NAME, weights, TOKENS))
    hand = Hand(qtbot, open_window(document))
    hand.until(lambda: hand.window.workspace.run is not None)
    hand.settle()
    for dock in hand.window.docks.by_id.values():
        dock.show()
    hand.settle()
    return hand


# ---------------------------------------------------------------------------------- the helpers


@pytest.mark.parametrize(
    "text", [BOLD, FILE, HOSTILE[2], HOSTILE[4], "<s>", "<?xml?><b>", "<!doctype", "a<br/>"]
)
def test_a_tooltip_that_looks_like_html_is_plain(text: str) -> None:
    assert Qt.mightBeRichText(text)
    assert not Qt.mightBeRichText(plain_tooltip(text))
    assert plain_tooltip(text).replace("\N{WORD JOINER}", "") == text


@given(st.text(st.sampled_from("<>/&;! \nabiltp?")))
def test_no_tooltip_is_taken_for_html(text: str) -> None:
    tip = plain_tooltip(text)
    assert not Qt.mightBeRichText(tip)
    assert plain_tooltip(tip) == tip


@pytest.mark.parametrize("text", ["", "cat, token 2: 0.5000", "a < b", "R&D", "one\ntwo"])
def test_another_tooltip_stays_as_it_is(text: str) -> None:
    assert plain_tooltip(text) == text


def test_a_tooltip_that_looks_like_html_is_not_wider(application: QApplication) -> None:
    measures = QFontMetricsF(application.font())
    for text in HOSTILE:
        assert measures.horizontalAdvance(plain_tooltip(text)) == measures.horizontalAdvance(text)


def test_a_label_is_plain_or_rich_and_never_guesses(application: QApplication) -> None:
    label = PlainTextLabel(BOLD)
    assert label.textFormat() is Qt.TextFormat.PlainText
    assert HtmlLabel().textFormat() is Qt.TextFormat.RichText
    # Tags are visible.
    assert label.sizeHint().width() > PlainTextLabel("zqbold").sizeHint().width()


def test_the_check_detects_text_that_qt_takes_for_html(application: QApplication) -> None:
    label = QLabel(BOLD)
    assert rich(label) == [("QLabel text", BOLD)]
    label.setText("")
    label.setToolTip(FILE)
    assert rich(label) == [("QLabel tip", FILE)]
    label.setToolTip(plain_tooltip(FILE))
    assert not rich(label)
    assert not is_escaped(f"<p>{BOLD}</p>")
    assert is_escaped("<p>&lt;b&gt;zqbold&lt;/b&gt;</p>")


# ----------------------------------------------------------------------------------- the window


def test_tokens_and_names_are_plain_in_every_pane(captured: Hand) -> None:
    hand = captured
    window = hand.window
    seen = set()
    for dock in window.docks.by_id.values():
        dock.raise_()
        QApplication.processEvents()
        hand.settle()
        assert rich(window) == []
        seen |= hostile_places(window)
    assert {
        "TokenStrip name",
        "NumberTableView ToolTipRole",
        "NumberTableView DisplayRole",
        "PlainTextLabel text",
        "CodeTextView text",
    } <= seen
    for at in range(len(TOKENS)):
        cell = Cell("weights", (1, at, (at + 1) % len(TOKENS)))
        hand.hover(cell)
        hand.until(lambda: is_hostile(hand.said))
        assert rich(window) == []
        hand.click_cell(cell)
        hand.settle()
        assert rich(window) == []
        seen |= hostile_places(window)
    assert {"WrappingLabel text", "HtmlLabel text", "AttentionLinesView description"} <= seen


def test_every_part_of_what_is_said_of_a_cell_is_escaped(application: QApplication) -> None:
    pane = ExplainPane()
    term = FormattedTerm(
        BOLD,
        (FormattedFactor(FILE), FormattedFactor(BOLD, Cell("weights", (0, 0, 0)))),
        FILE,
        is_chosen=True,
    )
    readout = CellExplanation(BOLD, "", "0.5", FILE, (term,), FILE, BOLD, False, (FILE,))
    pane.show_cell(readout, LIGHT)
    assert rich(pane) == []
    for part in (pane.heading, pane.value, pane.terms):
        assert is_hostile(part.text())


def test_tokens_are_plain_in_playback_predictions_and_comparisons(captured: Hand) -> None:
    hand = captured
    window = hand.window
    told = 0
    hand.board.setFocus()
    hand.trigger("playback.set_grain row")
    for _ in range(len(TOKENS) + 1):
        hand.key(Qt.Key.Key_PageDown)
        hand.settle()
        assert rich(window) == []
        told += is_hostile(words(window.playback_bar.caption))
    assert told >= len(HOSTILE)
    hand.trigger("playback.predict")
    hand.settle()
    assert rich(window) == []
    hand.trigger("playback.reveal")
    for command in ("playback.predict", "comparison.compare_heads"):
        hand.settle()
        assert rich(window) == []
        hand.trigger(command)
    hand.settle()
    assert rich(window) == []
    assert window.compare_bar.isVisible()


def test_the_tooltips_of_tokens_are_plain(captured: Hand) -> None:
    strip, grid = captured.window.panes["Tokens"].strip, captured.window.panes["Numbers"].grid
    captured.window.docks.by_id["Numbers"].raise_()
    captured.until(lambda: grid.model().rowCount() == len(TOKENS))
    tips = [
        tip_at(strip.viewport(), strip.chip_rect(chip).center().toPoint())
        for chip in range(len(strip.chips))
    ]
    assert {mark for mark in MARKS for tip in tips if mark in tip} == set(MARKS)
    header = grid.verticalHeader()
    for row in range(len(TOKENS)):
        place = QPoint(4, header.sectionViewportPosition(row) + 4)
        tips.append(tip_at(header.viewport(), place))
    assert sum(map(is_hostile, tips)) >= len(HOSTILE) + 1
    assert [tip for tip in tips if Qt.mightBeRichText(tip)] == []


def test_a_file_of_any_name_is_plain_in_titles_lists_and_bars(
    captured: Hand, tmp_path: Path
) -> None:
    hand = captured
    path = tmp_path / f"{FILE.replace('/', '&#47;')}.attention"
    hand.window.controllers.document_controller.save_to(str(path))
    hand.until(lambda: not hand.window.controllers.document_controller.is_busy)
    assert path.exists()
    assert is_hostile(hand.window.windowTitle())
    assert is_hostile(hand.window.statusBar().currentMessage())
    menu = hand.window.actions_.find_or_create_menu(RECENT_MENU)
    menu.aboutToShow.emit()
    assert any(is_hostile(action.text()) for action in menu.actions())
    assert recent_files.load_recent_files(user_data_folder()) == (path,)
    assert rich(hand.window) == []


LESSON = f"""title = '''{BOLD}'''
section = '''{HOSTILE[4]}'''
[[page]]
title = '''{FILE}'''
says = '''{HOSTILE[2]} **{BOLD}** `{HOSTILE[3]}`'''
stages = ["weights"]
set = {{ heads = 1 }}
"""


def test_a_lesson_and_what_is_wrong_with_one_are_plain(hand: Hand) -> None:
    folder = user_data_folder() / LESSONS
    folder.mkdir(parents=True)
    (folder / "good.toml").write_text(LESSON, encoding="utf-8")
    (folder / f"{BOLD.replace('/', '')}.toml").write_text(
        LESSON.replace('["weights"]', '["<a zqlink>"]'), encoding="utf-8"
    )
    hand.window.controllers.lesson_controller.load_lesson_menu()
    hand.window.actions_.menus["&Lessons"].actions()[9].trigger()
    hand.settle()
    pane = hand.window.panes["Lesson"]
    assert words(pane.title) == FILE
    assert BOLD in words(pane.text)
    assert rich(hand.window) == []
    hand.window.controllers.lesson_controller.show_lesson_errors()
    (box,) = hand.boxes()
    assert "&lt;b&gt;zqbold" in box.text()
    assert "&lt;a zqlink" in box.text()
    assert not re.search("<[ab]", box.text())
    box.close()


def test_texts_of_dialogs_are_plain(captured: Hand) -> None:
    hand = captured
    window = hand.window
    all_of_them = "\n".join(HOSTILE)
    dialogs.show_warning(window, "Not opened", FILE)
    dialogs.ask_to_save_changes(window, BOLD, lambda: None, lambda: None)
    dialogs.ask_to_recover_documents(
        window, f"{BOLD}: {FILE}\n{all_of_them}", lambda: None, lambda: None
    )
    dialogs.show_exception(window, FILE)
    window.controllers.export_controller.show_error(FILE)
    assert len(hand.boxes()) == 5
    for box in hand.boxes():
        assert {label.textFormat() for label in box.findChildren(QLabel) if label.text()} == {
            Qt.TextFormat.PlainText
        }
        assert rich(box) == []
        assert hostile_places(box)
        box.close()
    dialogs.show_shortcuts(window, [dialogs.ShortcutGroup(BOLD, ((BOLD, FILE),))])
    (keys,) = window.findChildren(dialogs.ShortcutListDialog)
    assert is_hostile(keys.list.toPlainText())
    assert rich(keys) == []
    keys.close()


def test_the_export_dialog_says_what_is_typed_as_it_is(captured: Hand) -> None:
    hand = captured
    hand.press(Qt.Key.Key_E)
    hand.until(lambda: hand.window.controllers.export_controller.dialog is not None)
    dialog = hand.window.controllers.export_controller.dialog
    assert dialog
    title = dialog.figure.title
    title.setFocus()
    QTest.keyClicks(title, FILE)
    hand.until(lambda: dialog.settings.look.title == FILE)
    assert rich(hand.window, dialog) == []
    dialog.reject()


def test_the_file_dialog_asks_about_a_file_of_any_name(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    name = "<img zqfile src=x.png>.csv"
    (tmp_path / name).write_text("kept", encoding="utf-8")
    dialog = ask_save_path(hand.window, "Export", tmp_path / name, "(*.csv)", lambda _: None)
    asked: list[tuple[str, object]] = []

    def answer() -> None:
        (box,) = dialog.findChildren(QMessageBox)
        asked.append((box.text(), box.textFormat()))
        box.button(QMessageBox.StandardButton.No).click()

    QTimer.singleShot(0, answer)  # the dialog runs its own event loop
    dialog.accept()
    dialog.reject()
    ((said, form),) = asked
    assert name in said
    assert Qt.mightBeRichText(said)
    assert form is Qt.TextFormat.PlainText


# ------------------------------------------------------------------------------------- exports


class Elements(html.parser.HTMLParser):
    """Parser that collects the elements of a page and the text of its board."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes += [value for _, value in attrs]


@pytest.fixture
def exported(captured: Hand, tmp_path: Path) -> dict[str, str]:
    """Return all text exports, with hostile tokens, a hostile title and a hostile caption."""
    snapshot = captured.window.workspace.snapshot
    assert snapshot
    files = {}
    for suffix in (".html", ".svg", ".md", ".csv", ".json"):
        path = export_file(tmp_path / f"figure{suffix}", snapshot, FigureSettings(title=FILE))
        files[suffix] = path.read_text(encoding="utf-8-sig")
    return files


def test_a_web_page_holds_tokens_as_data(exported: dict[str, str]) -> None:
    text = exported[".html"]
    page = Elements(text)
    assert not page.found & {"b", "img", "a", "iframe", "object"}
    assert text.count("<svg") == 1  # the heading of the page above the heatmaps
    assert not any(is_hostile(value or "") for value in page.attributes)
    assert (
        text.count("<script")
        == text.count("</script>")
        == len(re.findall("<script type|<script>", text))
    )
    description = json.loads(text.partition('id="page">')[2].partition("</script>")[0])
    assert list(TOKENS) in description["labels"]
    assert description["title"] == FILE
    assert is_escaped(text.partition("<title>")[2].partition("</title>")[0])


def test_an_svg_holds_tokens_as_text(exported: dict[str, str]) -> None:
    tree = ElementTree.fromstring(exported[".svg"])
    names = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert not names & {"b", "a", "img", "script", "foreignObject"}
    assert FILE in {element.text for element in tree.iter() if element.tag.endswith("title")}
    said = "".join(tree.itertext())
    assert "<b>zqbold" in said


def test_a_table_of_markdown_holds_tokens_as_text(exported: dict[str, str]) -> None:
    text = exported[".md"]
    assert is_hostile(text)
    assert re.findall(r"(?<!\\)[<&]", text) == []


def test_a_spreadsheet_holds_tokens_and_no_formula(exported: dict[str, str]) -> None:
    rows = list(csv.reader(exported[".csv"].splitlines()))
    cells = {cell for row in rows for cell in row}
    assert {*HOSTILE, "'=zq(1)"} <= cells
    assert "=zq(1)" not in cells


def test_json_holds_tokens_as_they_are(exported: dict[str, str]) -> None:
    assert json.loads(exported[".json"])["texts"][0] == list(TOKENS)


def test_notebook_output_is_escaped(captured: Hand) -> None:
    captured.hover(Cell("weights", (0, 0, 1)))
    captured.until(lambda: is_hostile(captured.said))
    readout = captured.window.workspace.screen.panel(CELL_PANEL)
    assert readout
    shown = ExplainedValue(readout, 0.5)._repr_html_()
    assert is_hostile(shown)
    assert is_escaped(shown)
    assert shown.count("<b>") == 2  # one for each of the two tokens
