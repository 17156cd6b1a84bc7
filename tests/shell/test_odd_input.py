"""Unusual, empty and huge input is rejected next to its control; the last result remains."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextOption
from PySide6.QtWidgets import QApplication, QDoubleSpinBox, QLabel, QPlainTextEdit, QSlider

from tests.support.examples import others_slow
from tests.support.window_input import link_in, words
from visualizer.attention import device as attention_device
from visualizer.attention.settings import SETTINGS
from visualizer.attention.spec import BooleanMatrix, Device, NumberMatrix
from visualizer.documents.open_document import (
    MAX_LINE_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    longest_permitted_prefix,
)
from visualizer.session.document import Document, LineGrouping, truncate_text_to_tokens

if TYPE_CHECKING:
    from tests.support.window_input import Hand

pytestmark = pytest.mark.slow  # texts of the maximum length


# --------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize("text", ["", " ", "\n\t \u2028"])
def test_no_text(hand: Hand, text: str) -> None:
    board = hand.shown
    hand.paste_sentence(text) if text else hand.type_sentence("")
    hand.until(lambda: bool(hand.text_problem))
    assert "The text is empty" in hand.text_problem
    assert hand.shown is board
    hand.compose("again")
    hand.settle()
    assert hand.text_problem == ""
    assert hand.chips == ("again",)


def test_one_token(hand: Hand) -> None:
    hand.type_sentence("alone")
    hand.settle()
    assert hand.panel("weights").values.tolist() == [[1.0]]
    assert "1 token  ·" in hand.status


@pytest.mark.parametrize(
    ("text", "chips"),
    [
        ("👩\u200d👩\u200d👧 👍🏽", ("👩\u200d👩\u200d👧", "👍🏽")),
        ("السلام عليكم", ("السلام", "عليكم")),
        ("我爱你", ("我", "爱", "你")),
        ("a\x07b", ("a", "␇", "b")),
        ("\u200b\ufeff", ("U+200B", "U+FEFF")),
        ("cafe\u0301", ("cafe\u0301",)),
        ("tab\tnew\nline", ("tab", "new", "line")),
        ("<b>&amp;", ("<", "b", ">", "&", "amp", ";")),
        ("x" * 400, ("x" * 400,)),
    ],
)
def test_texts_in_every_format_are_plain(hand: Hand, text: str, chips: tuple[str, ...]) -> None:
    hand.sentence.selectAll()
    hand.compose(text)
    hand.settle()
    assert hand.chips == chips
    assert hand.panel("weights").rows.labels == chips
    assert hand.text_problem == ""
    assert not hand.window.grab().isNull()


def test_more_than_fits_into_memory(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    hand.type_number("d_out", "12")
    hand.drag(hand.find(QSlider, "heads Slider"), 12)
    hand.settle()
    board = hand.shown
    monkeypatch.setattr(attention_device, "free_device_bytes", lambda device: 2**28)
    hand.paste_sentence("word " * 10_000)
    hand.until(lambda: bool(hand.text_problem))
    assert hand.text_problem.startswith("10,000 tokens × 12 heads need ")
    found = re.search(r"About (\S+) tokens fit\. Use the first (\S+) tokens$", hand.text_problem)
    assert found
    assert found[1] == found[2]
    assert "The heatmaps were not updated." in words(hand.window.notice)
    assert hand.shown is board
    mend_text(hand)
    hand.settle()
    assert hand.text_problem == ""
    run = hand.window.workspace.run
    assert run
    assert run.trace.query_count == int(found[1].replace(",", ""))
    for _ in range(2):
        hand.press(Qt.Key.Key_Z)
    hand.settle()
    assert hand.text_problem == ""


def mend_text(hand: Hand) -> None:
    """Click the suggested fix at the end of the error message of the text."""
    label = hand.window.settings_bar.problem
    hand.until(lambda: label.isVisible() and label.height() > label.fontMetrics().height())
    hand.window.settings_bar.reveal_control(label)
    hand.click(label, link_in(label))


@pytest.mark.parametrize("apart", [False, True])
def test_the_first_tokens_of_a_text_are_found(apart: bool) -> None:
    lines = LineGrouping.APART if apart else LineGrouping.TOGETHER
    document = Document("One, two  three\nfour five", lines=lines)
    assert truncate_text_to_tokens(document, 3) == ("One, two\nfour five" if apart else "One, two")
    assert truncate_text_to_tokens(document, 99).split() == document.text.split()


def test_a_novel_offers_its_beginning_up_to_a_word(hand: Hand) -> None:
    line = "word " * 9_999 + "word\n"
    hand.paste_sentence(line * 12 + "longer words follow")
    assert "The text has 600,019 characters" in hand.text_problem
    assert hand.text_problem.endswith("Use the first 599,999 characters")
    assert (
        longest_permitted_prefix(line * 11 + "word " * 9_999 + "longer") == (line * 12).strip()[:-5]
    )
    assert (
        longest_permitted_prefix("x\n" * MAX_TEXT_CHARACTERS)
        == ("x\n" * MAX_TEXT_CHARACTERS)[: MAX_TEXT_CHARACTERS - 1]
    )
    hand.window.controllers.setup_controller.report_long_text("It is too long.", "the first part")
    mend_text(hand)
    hand.settle()
    assert hand.chips == ("the", "first", "part")
    assert hand.text_problem == ""


def test_more_tokens_than_allowed(hand: Hand) -> None:
    board, before = hand.shown, hand.sentence.toPlainText()
    hand.paste_sentence("x" * 1_000_000)
    assert "The text has 1,000,000 characters" in hand.text_problem
    assert longest_permitted_prefix("x" * 1_000_000) == "x" * MAX_LINE_CHARACTERS
    hand.paste_sentence("x" * (MAX_LINE_CHARACTERS + 1))
    assert "A line has 100,001 characters" in hand.text_problem
    assert hand.text_problem.endswith("Use the first 100,000 characters")
    assert hand.sentence.toPlainText() == before
    assert hand.shown is board
    said = hand.text_problem
    assert "The heatmaps were not updated." in words(hand.window.notice)
    hand.trigger("workspace.resample seed")
    hand.settle()
    assert hand.text_problem == said
    hand.compose("again")
    hand.settle()
    assert (hand.text_problem, words(hand.window.notice)) == ("", "")


def test_an_endless_word_is_never_wrapped_at_words(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    box, endless, words_ = hand.sentence, "x" * 5_000, "word " * 1_000
    wrapped: list[tuple[QTextOption.WrapMode, int]] = []
    change = type(box).setWordWrapMode

    def set_mode(edit: QPlainTextEdit, mode: QTextOption.WrapMode) -> None:
        wrapped.append((mode, max(map(len, edit.toPlainText().split()))))
        change(edit, mode)

    monkeypatch.setattr(type(box), "setWordWrapMode", set_mode)
    for paste in (hand.paste_sentence, hand.window.workspace.set_text):
        for text in (endless, words_):
            paste(text)
            hand.settle()
    anywhere, at_words = (
        QTextOption.WrapMode.WrapAnywhere,
        QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere,
    )
    assert [mode for mode, _ in wrapped] == 2 * [anywhere, at_words]
    assert all(longest < 100 for _, longest in wrapped)


def test_replaced_text_does_not_count_towards_the_limit(hand: Hand) -> None:
    text = "x" * MAX_LINE_CHARACTERS
    hand.paste_sentence(text)
    hand.settle()
    hand.paste_sentence(text.upper())
    hand.settle()
    assert hand.chips == (text.upper(),)
    QApplication.clipboard().setText("y")
    hand.press(Qt.Key.Key_V)
    assert "A line has 100,001 characters" in hand.text_problem


def test_many_tokens_are_pooled_and_say_so(hand: Hand) -> None:
    hand.paste_sentence("word " * 600)
    hand.settle()
    rows, columns = hand.panel("weights").values.shape
    assert rows == columns < 600
    assert hand.panel("weights").notes[0].startswith("each cell: largest of ")
    hand.window.grab()
    assert hand.window.panes["Tokens"].says.text().count("600 tokens") == 1


def test_a_larger_window_has_room_for_more_cells(hand: Hand) -> None:
    hand.window.resize(900, 700)
    hand.paste_sentence("word " * 900)
    hand.settle()
    before = hand.panel("weights")
    hand.window.resize(1900, 1300)
    hand.until(lambda: hand.panel("weights").values.shape > before.values.shape)
    hand.settle()
    after = hand.panel("weights")
    assert after.rows.block < before.rows.block
    assert after.values.max() == before.values.max()


# -------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("setting", "typed", "sentence"),
    others_slow(
        [
            ("dropout", "1", "The dropout rate must be"),
            ("dropout", "1.0", "The dropout rate must be"),
            ("dropout", "1.5", "The dropout rate must be"),
            ("dropout", "-0.5", "The dropout rate must be"),
            (
                "heads",
                "3",
                "The output size 2 cannot be split into 3 heads. Use 2 heads, or the output size",
            ),
            ("heads", "0", "The number of heads must be"),
            ("d_in", "0", "The embedding size must be"),
            ("d_out", "3", "The output size 3 cannot be split into 2 heads."),
            ("temperature", "0", "The temperature must be"),
            ("temperature", "-2", "The temperature must be"),
        ],
        first=5,
    ),
)
def test_a_wrong_number_is_reported_next_to_it(
    hand: Hand, setting: str, typed: str, sentence: str
) -> None:
    board = hand.shown
    hand.type_number(setting, typed)
    where = "heads" if setting == "d_out" else setting
    assert sentence in hand.problem(where)
    assert hand.shown is board
    assert hand.window.settings_bar.rows[where].problem.isVisible()
    assert "heatmaps were not updated" in words(hand.window.notice)
    assert hand.window.notice.isVisible()
    mend(hand, where)
    hand.settle()
    assert hand.problem(where) == ""
    assert not hand.window.notice.isVisible()


def mend(hand: Hand, setting: str) -> None:
    """Click the suggested fix at the end of the error message of a setting."""
    label = hand.window.settings_bar.rows[setting].problem
    row = next(row for row in SETTINGS if row.name == setting)
    assert re.search(rf" Set “(Output size|{row.label})” to \d\S*$", words(label))
    hand.until(lambda: label.isVisible() and label.height() > label.fontMetrics().height())
    hand.window.settings_bar.reveal_control(label)
    hand.click(label, link_in(label))


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_the_offer_to_fix_can_be_read_in_every_theme(hand: Hand, scheme: str) -> None:
    hand.type_number("dropout", "1.5")
    hand.window.set_colour_scheme("light" if scheme == "dark" else "dark")
    hand.window.set_colour_scheme(scheme)
    label = hand.window.settings_bar.rows["dropout"].problem
    hand.until(lambda: label.height() > label.fontMetrics().height())
    image = label.grab().toImage()
    area = ((x, y) for x in range(image.width()) for y in range(image.height()))
    colours = {image.pixelColor(x, y).name() for x, y in area}
    theme = hand.window.theme
    assert {theme.accent.lower(), theme.warning.lower()} <= colours


def test_fixes_work_by_keyboard(hand: Hand) -> None:
    hand.type_number("dropout", "1.5")
    label = hand.window.settings_bar.rows["dropout"].problem
    label.setFocus(Qt.FocusReason.TabFocusReason)
    hand.key(Qt.Key.Key_Tab)
    hand.key(Qt.Key.Key_Return)
    hand.settle()
    assert hand.problem("dropout") == ""


def test_typed_text_is_not_changed(hand: Hand) -> None:
    hand.type_number("dropout", "1")
    box = hand.find(QDoubleSpinBox, "dropout Decimal")
    seen = [(box.text(), hand.window.workspace.document.spec.dropout)]
    for key in (Qt.Key.Key_Period, Qt.Key.Key_5, Qt.Key.Key_Backspace):
        hand.key(key)
        seen.append((box.text(), hand.window.workspace.document.spec.dropout))
    assert seen == [("1", 1), ("1.", 1), ("1.5", 1.5), ("1.", 1)]


def test_one_dimension(hand: Hand) -> None:
    hand.type_number("heads", "1")
    hand.type_number("d_out", "1")
    hand.type_number("d_in", "1")
    hand.settle()
    hand.toggle_stage("input")
    hand.toggle_stage("output")
    hand.settle()
    assert hand.panel("input", None).values.shape == (6, 1)
    assert hand.panel("output", None).values.shape == (6, 1)
    assert hand.panel("weights").values.shape == (6, 6)


def test_a_large_size_is_pooled_across(hand: Hand) -> None:
    hand.type_number("heads", "1")
    hand.type_number("d_out", "3000")
    hand.settle()
    context = hand.panel("context")
    assert context.values.shape[1] < 3000
    assert context.notes == (f"each cell: largest magnitude of 1 × {context.columns.block}",)
    assert np.isfinite(context.values).all()


def test_fixing_is_one_step_to_undo(hand: Hand) -> None:
    hand.type_number("dropout", "1.5")
    mend(hand, "dropout")
    assert hand.window.workspace.document.spec.dropout == 0.5
    hand.window.setFocus()
    hand.press(Qt.Key.Key_Z)
    assert hand.window.workspace.document.spec.dropout == 1.5
    assert "dropout rate must be" in hand.problem("dropout")


# -------------------------------------------------------------------------------------- device


def test_an_absent_device_is_reported_and_the_cpu_computes(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_device, "available_devices", lambda: (Device.CPU,))
    weights = hand.panel("weights")
    hand.choose("device QComboBox", "CUDA GPU")
    hand.settle()
    notice: QLabel = hand.window.notice
    assert notice.isVisible()
    assert words(notice) == "A CUDA GPU is not available; the CPU was used instead."
    assert hand.status.startswith("CPU  ·  6 tokens")
    np.testing.assert_array_equal(hand.panel("weights").values, weights.values)
    hand.choose("device QComboBox", "CPU")
    hand.settle()
    assert words(notice) == ""


def test_rows_that_may_read_nothing_are_reported_above_the_heatmaps(hand: Hand) -> None:
    cells = np.tri(6, dtype=bool)
    cells[0] = False
    hand.window.workspace.change_setting("painted", BooleanMatrix.from_array(cells))
    hand.settle()
    assert "1 of 6 queries attend to nothing" in words(hand.window.notice)
    assert hand.window.notice.isVisible()
    hand.press(Qt.Key.Key_Z)
    hand.settle()
    assert not hand.window.notice.isVisible()


def test_numbers_that_overflow_are_reported_above_the_heatmaps(hand: Hand) -> None:
    vectors = NumberMatrix.from_array(np.full((6, 3), 1e38))
    hand.window.workspace.change_setting("own_input", vectors)
    hand.settle()
    assert "Overflow: some scores" in words(hand.window.notice)
    assert hand.window.notice.isVisible()
