"""A model's folder is opened in the window: it reads the text that stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QLabel, QPushButton

import visualizer
from tests.support.tiny_models import save_tiny_model
from visualizer.read_files_and_restore_runs import read_file
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models
TEXT = "the cat sat on the mat"


@pytest.fixture
def folder(tiny_model_folder: Path) -> Path:
    return tiny_model_folder


def open_by_menu(hand: Hand, folder: Path) -> None:
    hand.window.actions_.by_id["filer.choose_model_to_open"].trigger()
    (dialog,) = hand.window.findChildren(QFileDialog)
    assert dialog.windowTitle() == "Open the folder of a model"
    dialog.setDirectory(str(folder.parent))
    dialog.fileSelected.emit(str(folder))
    dialog.reject()


def test_a_model_reads_the_text_of_the_window(hand: Hand, folder: Path) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    open_by_menu(hand, folder)
    hand.until(lambda: hand.window.workspace.document.captured is not None)
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert run.texts == (("<s>", *TEXT.split()),)
    assert run.trace.axes == ("layer",)
    expected = visualizer.open_model(folder).attend(TEXT)["weights"]
    np.testing.assert_allclose(run.trace.read("weights"), expected, atol=1e-6)
    assert hand.stages == ["scores", "weights", "context"]
    shown = {label.text() for label in hand.window.setup_pane.findChildren(QLabel)}
    assert any("Queries, keys and values are as they met" in text for text in shown)
    said = hand.window.statusBar().currentMessage()
    assert "Shown: model.layers.*.self_attn, layers 1 to 2." in said
    back = next(
        button
        for button in hand.window.setup_pane.findChildren(QPushButton)
        if button.text() == "Back to a module"
    )
    QTest.mouseClick(back, Qt.MouseButton.LeftButton)
    hand.settle()
    assert hand.window.workspace.document.captured is None
    assert hand.window.workspace.document.text == TEXT


def test_what_is_wrong_with_a_model_is_said_and_the_picture_stays(
    hand: Hand, folder: Path, tmp_path: Path
) -> None:
    before = hand.window.workspace.run
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    hand.window.document_controller.open(tmp_path)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert "“config.json” is damaged: it is not JSON." in box.text() + box.informativeText()
    box.close()
    assert hand.window.workspace.run is before


def test_layers_that_differ_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    mixed = save_tiny_model(tmp_path / "mixed", "gemma2", num_hidden_layers=3)
    change = read_file(mixed, Document(text=TEXT))
    assert "Shown: model.layers.*.self_attn, layers 1, 3." in change.notice
    assert "The command line and notebooks read 1 other layer, too." in change.notice
    assert change.document.captured
    assert change.document.captured.layers == 2
