"""A model of the language lab is opened in the window like any other model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import visualizer
from visualizer.documents.open_document import DocumentChange
from visualizer.features.next_token.presenter import NEXT_TOKEN_PANEL
from visualizer.file_opening import read_file
from visualizer.language.example_run import EXAMPLE_FOLDER, EXAMPLE_TEXT, SNAPSHOT_STEPS
from visualizer.language.run_folder import RunFolder
from visualizer.session.document import BOOK_SENTENCE, Document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models


@pytest.fixture(scope="module", autouse=True)
def transformers() -> object:
    """Import the library before the tests, because the first import takes long."""
    return pytest.importorskip("transformers.modeling_utils")


def open_in(hand: Hand, path: Path) -> None:
    hand.window.controllers.document_controller.open(path)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()


def weights(hand: Hand) -> np.ndarray:
    run = hand.window.workspace.run
    assert run
    found: np.ndarray = run.trace.read("weights")
    return found


def test_it_reads_what_it_has_learned_where_it_does_not_know_the_text(hand: Hand) -> None:
    hand.type_sentence(BOOK_SENTENCE)
    hand.settle()
    open_in(hand, EXAMPLE_FOLDER)
    model = visualizer.open_model(EXAMPLE_FOLDER)
    known = model.opened.folder.initial_text
    assert hand.sentence.toPlainText() == known
    assert "sample text" in hand.window.statusBar().currentMessage()
    np.testing.assert_allclose(weights(hand), model.attend(known)["weights"], atol=1e-6)
    assert hand.window.workspace.screen.panel(NEXT_TOKEN_PANEL).rows
    run = hand.window.workspace.run
    hand.type_sentence(BOOK_SENTENCE)
    hand.until(lambda: "vocabulary" in hand.window.settings_bar.problem.text())
    assert hand.window.settings_bar.problem.text().startswith(
        "“Y”, “␣” are not in the model’s vocabulary"
    )
    assert hand.window.workspace.run is run
    hand.type_sentence(EXAMPLE_TEXT)
    hand.settle()
    np.testing.assert_allclose(weights(hand), model.attend(EXAMPLE_TEXT)["weights"], atol=1e-6)


def test_a_text_that_it_knows_stays_and_undo_takes_the_model_back(hand: Hand) -> None:
    hand.type_sentence(EXAMPLE_TEXT)
    hand.settle()
    snapshot = RunFolder(EXAMPLE_FOLDER).snapshot_file(SNAPSHOT_STEPS[0]).path
    open_in(hand, snapshot)
    assert hand.sentence.toPlainText() == EXAMPLE_TEXT
    model = hand.window.workspace.document.model
    assert model
    assert model.name == f"trained_example, step {SNAPSHOT_STEPS[0]}"
    expected = visualizer.open_model(snapshot).attend(EXAMPLE_TEXT)["weights"]
    np.testing.assert_allclose(weights(hand), expected, atol=1e-6)
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert hand.window.workspace.document.has_module
    assert hand.sentence.toPlainText() == EXAMPLE_TEXT


def test_without_transformers_a_file_of_weights_has_its_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("visualizer.models.lab_model_files.can_open_models", lambda: False)
    found = read_file(RunFolder(EXAMPLE_FOLDER).snapshot_file(SNAPSHOT_STEPS[0]).path, Document())
    assert isinstance(found, DocumentChange)
    assert found.document.model is None
    assert (found.document.spec.d_in, len(found.document.spec.own_weights)) == (64, 5)
