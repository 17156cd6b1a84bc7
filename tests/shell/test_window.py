"""The window follows typing, clicks and drags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QComboBox, QDoubleSpinBox, QSlider, QSpinBox, QWidget

from tests.support.window_input import Hand, words
from visualizer.attention.spec import DropoutMode
from visualizer.cli.document_options import build_document
from visualizer.cli.options import create_parser
from visualizer.format import format_number
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Open


BOOK = ("Your", "journey", "starts", "with", "one", "step")


def test_first_there_are_the_books_words_and_numbers(hand: Hand) -> None:
    assert hand.sentence.toPlainText() == " ".join(BOOK)
    assert hand.chips == BOOK
    assert hand.stages == ["scores", "weights", "context"]
    assert [format_number(weight) for weight in hand.panel("weights").values[1]] == [
        *("0.4776", "0.5224", "0.0000", "0.0000", "0.0000", "0.0000")
    ]
    assert hand.status.startswith("CPU  ·  6 tokens  ·  2 heads of size 1")
    assert "Point at a cell" in hand.said
    assert not hand.window.progress.is_progress_visible


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--dropout", "0.125", "--embedding-size", "8"],
        ["--dropout", "0.1234567"],
        ["--seed", "4000000", "--heads", "4", "--output-size", "64"],
        ["--embedding-size", "200000", "--output-size", "2"],
    ],
    ids=" ".join,
)
def test_the_document_requested_at_startup_stays(
    open_window: Open, qtbot: QtBot, options: list[str]
) -> None:
    document = build_document(create_parser().parse_args(options))
    window = open_window(document)
    hand = Hand(qtbot, window)
    hand.settle()
    assert window.workspace.document == document
    assert not window.actions_.by_id["workspace.undo"].isEnabled()
    hand.press(Qt.Key.Key_M)
    hand.settle()
    assert window.workspace.document == document.with_setting("causal", False)


def test_a_number_is_shown_with_the_decimals_that_it_has(open_window: Open, qtbot: QtBot) -> None:
    hand = Hand(qtbot, open_window(Document().with_setting("dropout", 0.125)))
    box = hand.find(QDoubleSpinBox, "dropout Decimal")
    assert box.text() == "0.125"
    hand.type_number("dropout", "0.3755")
    assert hand.window.workspace.document.spec.dropout == 0.375
    hand.type_number("dropout", "0.5")
    assert box.text() == "0.5"
    hand.settle()


def test_typing_is_followed_by_tokens_and_heatmaps(hand: Hand) -> None:
    hand.type_sentence("the cat sat on")
    hand.settle()
    assert hand.chips == ("the", "cat", "sat", "on")
    for stage in ("scores", "weights"):
        heatmap = hand.panel(stage, 1)
        assert heatmap.rows.labels == heatmap.columns.labels == hand.chips
        assert heatmap.values.shape == (4, 4)
    before = hand.panel("scores").values
    hand.sentence.setFocus()
    hand.press(Qt.Key.Key_End)
    for key in (Qt.Key.Key_Space, Qt.Key.Key_I, Qt.Key.Key_T):
        hand.key(key)
    hand.settle()
    assert " ".join(hand.chips) == "the cat sat on it"
    np.testing.assert_allclose(hand.panel("scores").values[:4, :4], before, atol=1e-6)
    assert "5 tokens" in hand.status


def test_pasting_replaces_the_sentence(hand: Hand) -> None:
    hand.paste_sentence("我爱你 🙂\nسلام")
    hand.settle()
    assert hand.chips == ("我", "爱", "你", "🙂", "سلام")
    assert hand.text_problem == ""


def test_characters_instead_of_words(hand: Hand) -> None:
    hand.choose("tokenizer", "Characters")
    hand.settle()
    assert len(hand.chips) == len(" ".join(BOOK))
    assert hand.chips[:5] == ("Y", "o", "u", "r", "␣")
    hand.choose("tokenizer", "Words")
    hand.settle()
    assert hand.chips == BOOK


def test_a_text_a_line_is_a_batch_to_step_through(hand: Hand) -> None:
    hand.paste_sentence("one two\nthree")
    hand.choose("lines", "One text per line")
    hand.settle()
    assert hand.chips == ("one", "two")
    hand.press(Qt.Key.Key_PageDown)
    assert hand.chips == ("three", "⟨pad⟩")
    assert hand.panel("weights").rows.labels == ("three", "⟨pad⟩")
    hand.press(Qt.Key.Key_PageDown)
    assert hand.chips == ("one", "two")
    hand.press(Qt.Key.Key_PageUp)
    assert hand.chips == ("three", "⟨pad⟩")
    assert "2 texts of 2 tokens" in hand.status


def test_dragging_heads_changes_the_rows_of_panels(hand: Hand) -> None:
    hand.type_number("d_out", "12")
    slider = hand.find(QSlider, "heads Slider")
    hand.drag(slider, 3, 4)
    hand.settle()
    assert len(hand.shown.columns[0]) == 4
    assert hand.find(QSpinBox, "heads QSpinBox").value() == slider.value() == 4
    assert "4 heads of size 3" in hand.status


def test_the_causal_mask_is_switched_off_and_on(hand: Hand) -> None:
    box = hand.find(QComboBox, "mask QComboBox")
    scores = hand.panel("scores")
    hand.choose("mask QComboBox", "None")
    hand.settle()
    assert hand.panel("weights").forbidden is None
    assert hand.panel("weights").values[0, 1] > 0
    assert hand.panel("scores") is scores
    hand.press(Qt.Key.Key_M)
    hand.settle()
    assert box.currentText() == "Causal"
    forbidden = hand.panel("weights").forbidden
    assert forbidden is not None
    assert forbidden[0, 1]


def test_dropout_has_a_panel_and_another_draw(hand: Hand) -> None:
    hand.type_number("dropout", "0.5")
    hand.settle()
    assert hand.stages == ["scores", "weights", "dropped", "context"]
    first, weights = hand.panel("dropped"), hand.panel("weights")
    assert first.notes == ("kept ×2",)
    hand.trigger("workspace.resample dropout_seed")
    hand.settle()
    assert hand.find(QSpinBox, "dropout_seed QSpinBox").value() == 1
    assert (hand.panel("dropped").values != first.values).any()
    np.testing.assert_array_equal(hand.panel("weights").values, weights.values)
    ends = [hand.panel(stage).colour.high for stage in ("weights", "dropped")]
    assert 0 < ends[0] < ends[1]  # kept weights are scaled up
    hand.trigger("module.toggle_training_mode")
    hand.settle()
    assert hand.window.workspace.document.spec.mode is DropoutMode.EVAL
    assert hand.stages == ["scores", "weights", "context"]


def test_choosing_a_mechanism_changes_what_it_decides(hand: Hand) -> None:
    hand.choose("mechanism QComboBox", "Simplified self-attention")
    hand.settle()
    assert hand.find(QComboBox, "mask QComboBox").currentText() == "None"
    assert [format_number(weight) for weight in hand.panel("weights").values[1]] == [
        *("0.1385", "0.2379", "0.2333", "0.1240", "0.1082", "0.1581")
    ]
    assert not hand.window.settings_bar.rows["d_out"].control.isEnabled()


def test_more_settings_are_one_click_away(hand: Hand) -> None:
    temperature = hand.find(QDoubleSpinBox, "temperature Decimal")
    hand.key(Qt.Key.Key_Escape)
    assert not temperature.isVisible()
    hand.click(hand.window.settings_bar.chips["device"])
    assert temperature.isVisible()
    before = hand.panel("weights").values
    hand.type_number("temperature", "0.1")
    hand.settle()
    assert hand.panel("weights").values[5].max() > before[5].max()


def test_an_own_matrix_is_typed(hand: Hand) -> None:
    hand.type_sentence("a b")
    hand.choose("mask QComboBox", "Custom matrix")
    assert "The matrix is empty" in hand.problem("own_mask")
    box = hand.window.settings_bar.rows["own_mask"].control
    box.setFocus()
    for key in (Qt.Key.Key_1, Qt.Key.Key_0, Qt.Key.Key_Return, Qt.Key.Key_X):
        hand.key(key)
    assert hand.problem("own_mask") == "Row 2 contains “x”. Use only 0 and 1."
    for key in (Qt.Key.Key_Backspace, Qt.Key.Key_1, Qt.Key.Key_1):
        hand.key(key)
    hand.settle()
    assert hand.problem("own_mask") == ""
    forbidden = hand.panel("weights").forbidden
    assert forbidden is not None
    assert forbidden.tolist() == [[False, True], [False, False]]


def test_the_error_of_a_matrix_disappears_on_undo(hand: Hand) -> None:
    hand.type_sentence("a")
    hand.choose("mask QComboBox", "Custom matrix")
    box = hand.window.settings_bar.rows["own_mask"].control
    box.setFocus()
    hand.key(Qt.Key.Key_1)
    hand.settle()
    hand.key(Qt.Key.Key_X)
    assert hand.problem("own_mask") == "Row 1 contains “x”. Use only 0 and 1."
    hand.key(Qt.Key.Key_Backspace)
    assert hand.problem("own_mask") == ""


def test_the_error_of_a_matrix_stays_until_it_changes(hand: Hand) -> None:
    hand.type_sentence("a b")
    hand.choose("mask QComboBox", "Custom matrix")
    box = hand.window.settings_bar.rows["own_mask"].control
    box.setFocus()
    hand.key(Qt.Key.Key_1)
    hand.until(lambda: bool(hand.problem("own_mask")))
    said = hand.problem("own_mask")
    assert "1 × 1" in said
    hand.key(Qt.Key.Key_Return)  # the matrix is unchanged
    assert hand.problem("own_mask") == said
    hand.key(Qt.Key.Key_X)
    said = "Row 2 contains “x”. Use only 0 and 1."
    assert hand.problem("own_mask") == said
    hand.trigger("workspace.resample seed")
    assert hand.problem("own_mask") == said
    assert said in words(hand.window.notice)
    hand.press(Qt.Key.Key_M)  # it has no effect with another mask
    hand.settle()
    assert hand.problem("own_mask") == words(hand.window.notice) == ""
    hand.press(Qt.Key.Key_Z)
    assert hand.problem("own_mask") == said
    box.setFocus()
    hand.key(Qt.Key.Key_Backspace)
    hand.until(lambda: "1 × 1" in hand.problem("own_mask"))
    for key in (Qt.Key.Key_Backspace, Qt.Key.Key_0, Qt.Key.Key_Return, Qt.Key.Key_1, Qt.Key.Key_1):
        hand.key(key)
    hand.settle()
    assert hand.problem("own_mask") == ""
    assert not hand.window.notice.isVisible()


def test_the_wheel_over_a_control_changes_nothing(hand: Hand) -> None:
    before = hand.window.workspace.document
    for widget in (
        hand.find(QSpinBox, "d_out QSpinBox"),
        hand.find(QDoubleSpinBox, "temperature Decimal"),
        hand.find(QComboBox, "mask QComboBox"),
        hand.find(QSlider, "heads Slider"),
    ):
        scroll(widget)
        assert not widget.hasFocus()
    assert hand.window.workspace.document == before


def scroll(widget: QWidget) -> None:
    centre = QPointF(widget.rect().center())
    none = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(centre, widget.mapToGlobal(centre), QPoint(), QPoint(0, 120), *none, False)
    QApplication.sendEvent(widget, event)


def test_zooming_in_does_not_move_the_heatmaps(hand: Hand) -> None:
    # In a narrow window, the summary of the text is shorter, and its tooltip is complete.
    bar, board = hand.window.view_bar, hand.board
    hand.window.docks.actions["Lines"].trigger()
    QApplication.processEvents()
    hidden, closer = bar.overflowed_widgets(), bar.buttons["view.zoom_in"]
    places = (board.y(), bar.mapToGlobal(closer.pos()))
    hand.press(Qt.Key.Key_Plus)
    hand.settle()
    QApplication.processEvents()
    assert set(hidden) <= set(bar.overflowed_widgets())
    assert (board.y(), bar.mapToGlobal(closer.pos())) == places
    assert bar.part.toolTip().endswith("of 6")
