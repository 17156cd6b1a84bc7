"""The user enters a second text for a model, and the window shows another kind of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox

import visualizer
from tests.support.tiny_models import POSITIONS, VOCABULARY, save_tiny_model
from tests.support.window_input import words
from visualizer.file_opening import read_file
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.attention.run import Run

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT, SECOND = "the cat sat on the mat", "a dog ran"
MAX_TOKENS = VOCABULARY
"""Maximum number of tokens of the small models."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny_bert", "bert")


@pytest.fixture(scope="module")
def with_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny_bart", "bart")


def open_model(hand: Hand, folder: Path) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    hand.window.controllers.document_controller.open(folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()


def type_second(hand: Hand, text: str) -> None:
    """Focus the second text by its command and replace it."""
    hand.window.actions_.by_id["text.edit_second"].trigger()
    field = hand.window.settings_bar.second
    hand.until(field.hasFocus)
    QTest.keyClicks(field, text)
    hand.settle()


def run_of(hand: Hand) -> Run:
    run = hand.window.workspace.run
    assert run
    return run


def test_a_pair_is_read_as_it_is_typed_and_taken_back(hand: Hand, encoder: Path) -> None:
    setup = hand.window.settings_bar
    assert not setup.second_part.isVisible()
    assert not hand.window.actions_.by_id["text.edit_second"].isEnabled()
    open_model(hand, encoder)
    assert setup.second_part.isVisible()
    assert words(setup.second_label) == "Second text of the pair"
    assert not setup.part.isVisible()
    type_second(hand, SECOND)
    expected = visualizer.open_model(encoder).attend(TEXT, SECOND)
    assert run_of(hand).texts == (expected.tokens,)
    assert run_of(hand).texts[0][-3:] == tuple(SECOND.split())
    np.testing.assert_allclose(run_of(hand).trace.read("weights"), expected["weights"], atol=1e-6)
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert setup.second.toPlainText() == "a dog "  # word by word, like the first text
    while setup.second.toPlainText():
        hand.window.actions_.by_id["workspace.undo"].trigger()
        hand.settle()
    assert run_of(hand).texts[0][1:] == tuple(TEXT.split())
    hand.window.workspace.change_setting("captured", None)
    hand.settle()
    assert not setup.second_part.isVisible()


def test_errors_of_a_second_text_appear_next_to_it(hand: Hand, encoder: Path) -> None:
    open_model(hand, encoder)
    before, setup = run_of(hand), hand.window.settings_bar
    hand.window.workspace.set_text("cat " * POSITIONS, "second")
    hand.until(setup.second_problem.isVisible)
    said = words(setup.second_problem)
    count = 1 + len(TEXT.split()) + 1 + POSITIONS
    assert (
        said == f"The two texts have {count} tokens; tiny_bert supports at most {POSITIONS}. "
        "Use a shorter text."
    )
    assert hand.text_problem == ""
    assert hand.window.notice.isVisible()
    assert run_of(hand) is before
    type_second(hand, SECOND)
    assert not setup.second_problem.isVisible()
    hand.window.settings_bar.textTooLong.emit("It is too long.", "a cat", "second")
    assert words(setup.second_problem).endswith("Use the first 5 characters")
    setup.second_problem.linkActivated.emit("mend")
    hand.settle()
    assert setup.second.toPlainText() == "a cat"


def test_each_kind_of_attention_of_a_decoder_is_shown(
    hand: Hand, with_decoder: Path, tmp_path: Path
) -> None:
    open_model(hand, with_decoder)
    setup = hand.window.settings_bar
    assert words(setup.second_label) == "Start of the decoder text"
    box = hand.find(QComboBox, "part")
    kinds = [box.itemText(at) for at in range(box.count())]
    assert kinds == ["Encoder", "Decoder", "Decoder to encoder (cross)"]
    assert box.currentText() == "Encoder"
    assert not any("Shown:" in notice for notice in run_of(hand).notices)
    type_second(hand, SECOND)
    assert box.currentText() == "Decoder"  # the entered text is displayed
    seen = visualizer.open_model(with_decoder).attend(TEXT, SECOND)
    for kind, name in zip(kinds, seen.parts, strict=True):
        hand.choose("part", kind)
        hand.settle()
        expected = seen.part(name)
        assert box.currentText() == kind
        weights = run_of(hand).trace.read("weights")
        np.testing.assert_allclose(weights, expected["weights"], atol=1e-6)
    assert run_of(hand).texts[0][-3:] == tuple(SECOND.split())
    assert run_of(hand).key_tokens[1:] == tuple(TEXT.split())
    hand.window.actions_.by_id["model.show_next_part"].trigger()
    hand.settle()
    assert box.currentText() == "Encoder"
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert box.currentText() == kinds[-1]
    path = tmp_path / "read.attention"
    hand.window.controllers.document_controller.save_to(str(path))
    hand.until(lambda: hand.window.controllers.document_controller.is_saved and path.exists())
    model = read_file(path, Document()).document.model
    assert model
    assert (model.second, model.part) == (SECOND, seen.parts[-1])


def test_the_second_text_is_reached_by_keyboard(hand: Hand, with_decoder: Path) -> None:
    open_model(hand, with_decoder)
    setup = hand.window.settings_bar
    setup.sentence.setFocus()
    QTest.keyClick(setup.sentence, Qt.Key.Key_Tab)
    assert setup.second.hasFocus()
    QTest.keyClick(setup.second, Qt.Key.Key_Tab)
    assert setup.part.hasFocus()
