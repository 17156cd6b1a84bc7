"""The texts of a batch side by side: each has its own tokens, and all share one cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt

from visualizer.attention.spec import AttentionSpec, Device
from visualizer.attention.token_embeddings import PADDING_LABEL
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document, LineGrouping

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint

    from tests.support.window_input import Hand

TEXTS = ("The cat sat", "A dog ran to me", "Birds")


@pytest.fixture
def texts(hand: Hand) -> Hand:
    """Show three texts side by side."""
    spec = AttentionSpec(heads=2, d_out=4, device=Device.CPU)
    hand.show_document(Document("\n".join(TEXTS), lines=LineGrouping.APART, spec=spec))
    hand.window.actions_.by_id["view.toggle_side_by_side"].trigger()
    hand.settle()
    return hand


def place(hand: Hand, text: int, row: int, column: int) -> QPoint:
    slots = hand.board.board_layout.slots
    (slot,) = (
        slot
        for slot in slots
        if slot.heatmap.stage == "weights" and slot.heatmap.leading == (text,)
    )
    return slot.cell_area(row, column).center().toPoint() - hand.board.scroll_offset().toPoint()


def test_every_text_has_a_panel_with_its_own_tokens(texts: Hand) -> None:
    run = texts.window.workspace.run
    assert run is not None
    panels = [shown for shown in texts.shown.heatmaps if shown.stage == "weights"]
    assert [panel.label for panel in panels] == ["Text 1", "Text 2", "Text 3"]
    assert [panel.notes for panel in panels] == 3 * [("head 1",)]
    for number, panel in enumerate(panels):
        np.testing.assert_array_equal(panel.values, run.trace.read("weights", (number, 0)))
        words = tuple(TEXTS[number].split())
        assert panel.rows.labels[: len(words)] == words
        assert set(panel.rows.labels[len(words) :]) <= {PADDING_LABEL}


def test_the_text_under_the_pointer_is_explained(texts: Hand) -> None:
    texts.move_to(place(texts, 1, 2, 1))
    texts.until(lambda: "ran (query 3) attends to" in texts.said)
    assert "dog" in texts.said
    assert texts.chips == tuple(TEXTS[1].split())
    texts.move_to(place(texts, 0, 2, 1))
    texts.until(lambda: "sat (query 3) attends to" in texts.said)


def test_a_click_pins_a_cell_in_its_text_and_arrow_keys_stay_there(texts: Hand) -> None:
    texts.move_to(place(texts, 1, 4, 0))
    texts.click(texts.board.viewport(), place(texts, 1, 4, 0))
    texts.settle()
    view = texts.window.workspace.view
    assert (view.text, view.pinned) == (1, Cell("weights", (0, 4, 0)))
    texts.board.setFocus()
    texts.key(Qt.Key.Key_Down)
    texts.settle()
    view = texts.window.workspace.view
    assert (view.text, view.pinned) == (1, Cell("weights", (0, 4, 0)))  # the last row


def test_another_head_is_shown_by_pinning_or_choosing_it(texts: Hand) -> None:
    texts.window.workspace.change_view(pinned=Cell("weights", (1, 0, 0)))
    texts.settle()
    assert {shown.head for shown in texts.shown.heatmaps if shown.stage == "weights"} == {1}
    texts.window.controllers.cell_selection_controller.unpin_cell()
    texts.window.controllers.view_controller.solo_head(1)
    texts.settle()
    assert {shown.head for shown in texts.shown.heatmaps if shown.stage == "weights"} == {1}


def test_only_one_text_is_shown_during_playback(texts: Hand) -> None:
    texts.window.controllers.playback_controller.seek_stage("weights")
    texts.settle()
    assert {shown.leading for shown in texts.shown.heatmaps} == {(0,)}
    texts.window.controllers.playback_controller.go_to_end()
    texts.settle()
    assert {shown.leading for shown in texts.shown.heatmaps} == {(0,), (1,), (2,)}


def test_a_single_text_cannot_be_shown_side_by_side(hand: Hand) -> None:
    assert not hand.window.actions_.by_id["view.toggle_side_by_side"].isEnabled()
