"""The window shows a model's text that is too long to store the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt

import visualizer
from tests.support.held_reading import HeldReading, read_few_tokens_at_once
from visualizer.features.layer_overview.presenter import LAYERS_PANEL
from visualizer.features.line_view.long_text_lines import MAX_LONG_TEXT_LINES
from visualizer.features.line_view.presenter import LINES_PANEL
from visualizer.features.mask_editor import presenter as mask_edit
from visualizer.features.mask_editor.presenter import MASK_EDIT_PANEL
from visualizer.file_opening import read_file
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.models import long_text_runner
from visualizer.session.document import Document
from visualizer.session.head_order import HeadOrder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT = "the cat sat on the mat and the dog ran to a log"


@pytest.fixture
def long(model_window: Hand, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Open a window in which a model has processed a text in blocks."""
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    hand = model_window
    hand.type_sentence(TEXT)
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert run.trace.is_blockwise
    return hand


def test_every_layer_and_pane_shows_a_long_text(long: Hand) -> None:
    workspace = long.window.workspace
    long.window.docks.open_pane("Layers")
    long.until(lambda: workspace.screen.panel(LAYERS_PANEL).weights is not None)
    long.settle()
    panel = workspace.screen.panel(LAYERS_PANEL)
    assert panel.weights is not None
    assert panel.weights.shape == (2, 4, 14, 14)
    assert "This text is long" in long.window.panes["Layers"].description.text()
    assert workspace.run
    for layer in (1, 0):
        workspace.show_leading_index((layer,))
        long.settle()
        (column,) = workspace.screen.panel(BOARD_CONTENTS).board.columns
        for head, heatmap in enumerate(column):
            wanted = workspace.run.trace.read("weights", (layer, head))
            np.testing.assert_allclose(heatmap.values, wanted, atol=1e-6)
    workspace.change_view(head_order=HeadOrder.PREVIOUS)
    long.settle()
    values = workspace.screen.panel(LAYERS_PANEL).values["previous"]
    first = workspace.screen.panel(LAYERS_PANEL).places[0]
    assert values[first] == values.max()


def test_lines_are_those_of_the_layer_that_is_shown(long: Hand) -> None:
    workspace = long.window.workspace
    long.window.docks.actions["Lines"].trigger()
    for layer in (1, 0):
        workspace.show_leading_index((layer,))
        long.settle()
        assert workspace.run
        weights = workspace.run.trace.read("weights", (layer,))
        wanted = np.sort(weights.ravel())[-MAX_LONG_TEXT_LINES:]

        def is_read(wanted: np.ndarray = wanted) -> bool:
            panel = workspace.screen.panel(LINES_PANEL)
            drawn = panel.lines.weights if panel else np.zeros(0)
            return drawn.shape == wanted.shape and np.allclose(drawn, wanted, rtol=1e-5)

        long.until(is_read)


def test_edges_of_a_text_of_very_many_tokens_are_not_cut(
    long: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mask_edit, "MAX_EDITABLE_MASK_TOKENS", 9)
    long.window.actions_.by_id["mask_edit.toggle"].trigger()
    long.until(lambda: long.window.workspace.screen.panel(MASK_EDIT_PANEL) is not None)
    panel = long.window.workspace.screen.panel(MASK_EDIT_PANEL)
    assert panel
    assert panel.notes == ("the text is too long to cut edges: shorten the text to 9 tokens",)
    assert (panel.allowed, panel.targets) == (None, frozenset())


def test_a_saved_document_has_no_numbers_and_is_read_again(long: Hand, tmp_path: Path) -> None:
    path, run = tmp_path / "read.attention", long.window.workspace.run
    assert run
    long.window.controllers.document_controller.save_to(str(path))
    long.until(lambda: long.window.controllers.document_controller.is_saved and path.exists())
    saved = read_file(path, Document())
    assert saved.document.captured is None
    assert saved.document.text == TEXT
    opened = visualizer.load(path)
    np.testing.assert_array_equal(opened["weights"], run.trace.read("weights"))


@pytest.fixture
def slowly(long: Hand, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Process the text a few tokens at a time, and report all progress."""
    read_few_tokens_at_once(monkeypatch)
    return long


def test_how_much_is_read_is_shown_and_typing_ends_it(
    slowly: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = slowly.window
    facts, workspace = window.facts, window.workspace
    before = workspace.run
    shown: list[object] = []
    following = workspace.changed.connect(lambda: shown.append(workspace.run))
    held = HeldReading(6, monkeypatch)
    slowly.key(Qt.Key.Key_S)
    slowly.until(lambda: facts.text() == "Running on 14 tokens … 71%")
    assert workspace.run is before
    slowly.until(lambda: window.progress.is_progress_visible)
    slowly.key(Qt.Key.Key_Backspace)
    slowly.settle()
    assert held.calls == 6
    assert not facts.text().startswith("Reading")
    assert workspace.document.text == TEXT
    workspace.changed.disconnect(following)
    assert set(shown) == {before}


def test_leaving_the_model_ends_reading(slowly: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = slowly.window.workspace
    held = HeldReading(3, monkeypatch)
    slowly.key(Qt.Key.Key_S)
    slowly.until(lambda: slowly.window.facts.text() == "Running on 14 tokens … 28%")
    slowly.until(lambda: held.calls == held.at)
    workspace.change_setting("captured", None)
    slowly.settle()
    assert held.calls == 3
    assert workspace.run
    assert workspace.run.reading is None
    assert slowly.window.facts.text().startswith("CPU  ·  13 tokens")
