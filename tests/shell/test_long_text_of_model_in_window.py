"""A model reads a text too long for its weights to be held: what the window shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import visualizer
from visualizer.features.layer_overview.presenter import LAYERS
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.models import opened_model
from visualizer.read_files_and_restore_runs import read_file
from visualizer.session.document import Document
from visualizer.session.head_order import HeadOrder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models
TEXT = "the cat sat on the mat and the dog ran to a log"


@pytest.fixture
def long(model_window: Hand, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """A window in which a model has read a text block by block."""
    monkeypatch.setattr(opened_model, "HELD_WHOLE", 0)
    hand = model_window
    hand.type_sentence(TEXT)
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert run.trace.is_blockwise
    return hand


def test_every_layer_and_pane_shows_a_long_text(long: Hand) -> None:
    workspace = long.window.workspace
    panel = workspace.screen.panel(LAYERS)
    assert panel.weights is not None
    assert panel.weights.shape == (2, 4, 14, 14)
    assert "A long text" in long.window.panes["Layers"].said.text()
    assert workspace.run
    for layer in (1, 0):
        workspace.show_leading((layer,))
        long.settle()
        (column,) = workspace.screen.panel(BOARD_CONTENTS).board.columns
        for head, heatmap in enumerate(column):
            wanted = workspace.run.trace.read("weights", (layer, head))
            np.testing.assert_allclose(heatmap.values, wanted, atol=1e-6)
    workspace.look(head_order=HeadOrder.PREVIOUS)
    long.settle()
    values = workspace.screen.panel(LAYERS).values["previous"]
    first = workspace.screen.panel(LAYERS).places[0]
    assert values[first] == values.max()


def test_a_saved_document_has_no_numbers_and_is_read_again(long: Hand, tmp_path: Path) -> None:
    path, run = tmp_path / "read.attention", long.window.workspace.run
    assert run
    long.window.document_controller._write_named(str(path))
    long.until(lambda: long.window.document_controller.is_saved and path.exists())
    saved = read_file(path, Document())
    assert saved.document.captured is None
    assert saved.document.text == TEXT
    opened = visualizer.load(path)
    np.testing.assert_array_equal(opened["weights"], run.trace.read("weights"))
