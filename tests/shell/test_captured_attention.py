"""Captured attention is displayed, labelled and closed in the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from tests.support.zoom_gestures import seen
from visualizer import file_opening
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.modules import CausalAttention
from visualizer.documents.open_document import DocumentChange
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.window_input import Hand

    Opened = Callable[..., Hand]

NONE = Qt.KeyboardModifier.NoModifier


def weights(*shape: int) -> np.ndarray:
    shares = np.exp(np.random.default_rng(0).normal(size=shape))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True), np.float32)


@pytest.fixture
def opened(hand: Hand) -> Opened:
    """Return a function that opens captured attention."""

    def open_(array: np.ndarray) -> Hand:
        hand.show_document(Document(captured=CapturedAttention.from_array("attn.npz", array)))
        return hand

    return open_


def is_on(hand: Hand, key: str) -> bool:
    return hand.window.actions_.by_id[key].isEnabled()


def card(hand: Hand) -> str:
    bar = hand.window.settings_bar
    return bar.captured.notice.text() if bar.source_chip.isVisible() else ""


def test_the_panels_are_the_numbers_of_the_file(opened: Opened) -> None:
    array = weights(2, 4, 12, 12)
    hand = opened(array)
    assert hand.stages == ["weights"]
    for head in range(4):
        np.testing.assert_array_equal(hand.panel("weights", head).values, array[0, head])


def test_the_opened_file_appears_in_place_of_the_settings(opened: Opened) -> None:
    hand = opened(weights(2, 4, 12, 12))
    assert card(hand).startswith("Opened from attn.npz: 2 layers × 4 heads × 12 × 12. Only")
    editor = hand.window.settings_bar
    assert not any(row.isVisible() for row in editor.rows.values())
    assert [name for name, chip in editor.chips.items() if chip.isVisible()] == [*editor.chips][-1:]
    assert not editor.lines.isVisible()
    assert hand.sentence.toPlainText() == ""


def test_the_keys_and_the_arrows_step_through_the_layers(opened: Opened) -> None:
    array = weights(3, 2, 5, 5)
    hand = opened(array)
    editor = hand.window.settings_bar
    assert editor.text_number.text() == "Layer 1 of 3"
    hand.press(Qt.Key.Key_PageDown)
    hand.settle()
    assert editor.text_number.text() == "Layer 2 of 3"
    np.testing.assert_array_equal(hand.panel("weights", 1).values, array[1, 1])
    hand.click(editor.text_steps[-1])
    hand.click(editor.text_steps[-1])
    hand.settle()
    assert editor.text_number.text() == "Layer 3 of 3"
    np.testing.assert_array_equal(hand.panel("weights", 0).values, array[2, 0])


@pytest.mark.slow
def test_the_layers_are_side_by_side(opened: Opened) -> None:
    array = weights(3, 2, 5, 5)
    hand = opened(array)
    hand.window.actions_.by_id["view.toggle_side_by_side"].trigger()
    hand.settle()
    assert [panel.label for panel in hand.shown.heatmaps] == ["Layer 1", "Layer 2", "Layer 3"]
    for layer, panel in enumerate(hand.shown.heatmaps):
        np.testing.assert_array_equal(panel.values, array[layer, 0])


@pytest.mark.slow
def test_typed_tokens_name_rows_and_columns(opened: Opened) -> None:
    hand = opened(weights(1, 1, 3, 3))
    assert hand.panel("weights").rows.labels == ("1", "2", "3")
    hand.type_sentence("The cat")
    needed = (
        "You entered 2 tokens, but 3 are needed. Leave the field empty to number the positions."
    )
    hand.until(lambda: hand.text_problem == needed)
    assert hand.panel("weights").rows.labels == ("1", "2", "3")
    hand.type_sentence("The cat sat")
    hand.settle()
    assert hand.text_problem == ""
    panel = hand.panel("weights")
    assert panel.rows.labels == panel.columns.labels == hand.chips == ("The", "cat", "sat")
    hand.type_sentence("")
    hand.settle()
    assert hand.panel("weights").rows.labels == ("1", "2", "3")


@pytest.mark.slow
def test_a_line_each_names_queries_and_keys_that_are_not_as_many(opened: Opened) -> None:
    hand = opened(weights(1, 1, 2, 3))
    hand.paste_sentence("Le chat\nThe cat sat")
    hand.settle()
    panel = hand.panel("weights")
    assert (panel.rows.labels, panel.columns.labels) == (("Le", "chat"), ("The", "cat", "sat"))
    hand.hover(Cell("weights", (0, 1, 2)))
    hand.until(lambda: "chat (query 2) attends to" in hand.said)
    assert "to sat (key 3) with weight" in hand.said


@pytest.mark.slow
def test_the_way_back_leads_to_the_module_and_the_text_there_was(opened: Opened) -> None:
    hand = opened(weights(1, 1, 3, 3))
    hand.type_sentence("a b c")
    hand.settle()
    hand.click(hand.find(QPushButton, "back to a module"))
    hand.settle()
    assert card(hand) == ""
    assert hand.sentence.toPlainText() == Document().text
    assert hand.window.settings_bar.chips["heads"].isVisible()
    assert "context" in hand.stages
    hand.press(Qt.Key.Key_Z)
    hand.settle()
    assert card(hand)
    assert hand.chips == ("a", "b", "c")


@pytest.mark.slow
def test_options_that_require_a_module_are_rejected(opened: Opened) -> None:
    hand = opened(weights(1, 1, 3, 3))
    of_modules = (
        *(
            "module.toggle_causal_mask",
            "mask_edit.toggle",
            "module.toggle_training_mode",
            "workspace.keep_weights",
        ),
        *(
            "workspace.resample seed",
            "module.open_settings",
            "export.copy_script",
            "view.set_weight_transform times-value",
        ),
    )
    assert not any(is_on(hand, key) for key in of_modules)
    assert is_on(hand, "export.open")
    hand.click(hand.find(QPushButton, "back to a module"))
    hand.settle()
    assert all(is_on(hand, key) for key in of_modules)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 5, 40), (1, 1, 40, 5), (1, 2, 1, 30), (2, 1, 30, 1)])
def test_any_sides_are_walked_and_zoomed(opened: Opened, shape: tuple[int, ...]) -> None:
    hand = opened(weights(*shape))
    hand.until(lambda: hand.window.docks.are_heatmaps_shown == (shape[0] == 1))
    hand.window.docks.show_heatmaps()
    hand.settle()
    hand.board.setFocus()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Right):
        hand.key(key)
    hand.settle()
    pinned = hand.window.workspace.view.pinned
    assert pinned
    assert all(at < size for at, size in zip(pinned.place, shape[1:], strict=True))
    for _ in range(3):
        hand.press(Qt.Key.Key_Equal)
    hand.settle()
    zoom = seen(hand)
    assert zoom
    assert pinned.place[1] in zoom.queries
    assert pinned.place[2] in zoom.keys
    assert zoom.queries.stop <= shape[2]
    assert zoom.keys.stop <= shape[3]
    minimap = hand.board.minimap
    assert minimap.isVisible()
    hand.click(minimap, minimap.rect().bottomRight())
    hand.settle()
    zoom = seen(hand)
    assert zoom
    assert (zoom.queries.stop, zoom.keys.stop) == shape[2:]


@pytest.mark.slow
def test_every_pane_shows_captured_attention_or_says_why_not(opened: Opened) -> None:
    hand = opened(weights(2, 2, 4, 6))
    for dock in hand.window.docks.by_id.values():
        dock.show()
        dock.raise_()
        hand.settle()
        assert dock.widget().isVisible()
        if dock.objectName() == "Lines":
            message = hand.window.panes["Lines"].view.panel.message
            assert message.startswith("Lines need a single text")


def test_weights_of_a_module_are_opened_and_computed_with(hand: Hand, tmp_path: Path) -> None:
    module = CausalAttention(3, 4, 6, 0.0, qkv_bias=True)
    torch.save(module.state_dict(), tmp_path / "a.pt")
    workspace = hand.window.workspace
    change = file_opening.read_file(tmp_path / "a.pt", workspace.document)
    assert isinstance(change, DocumentChange)
    assert change.notice == "Causal attention, 3 → 4."
    workspace.show_document(change.document, workspace.requested_view)
    hand.settle()
    run = workspace.run
    assert run
    with torch.no_grad():
        expected = module(torch.tensor(run.trace.read("input"))[None])[0]
    np.testing.assert_allclose(
        run.trace.read(run.trace.output_stage_name), expected, rtol=1e-5, atol=1e-6
    )
    assert hand.text_problem == ""


def test_a_file_is_opened_and_shown(hand: Hand, tmp_path: Path) -> None:
    array = weights(1, 2, 3, 4)
    np.savez(tmp_path / "a.npz", attention=array, query_tokens=np.array(["a", "b", "c"]))
    workspace = hand.window.workspace
    change = file_opening.read_file(tmp_path / "a.npz", workspace.document)
    assert isinstance(change, DocumentChange)
    assert change.notice == ""
    workspace.show_document(change.document, workspace.requested_view)
    hand.settle()
    panel = hand.panel("weights", 1)
    np.testing.assert_array_equal(panel.values, array[0, 1])
    assert panel.rows.labels == ("a", "b", "c")
