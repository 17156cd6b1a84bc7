"""A model folder is opened in the window, and the model processes the current text."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFileDialog,
    QLabel,
    QPushButton,
    QTabBar,
)

import visualizer
from tests.support.context_menus import choose_in_context_menu
from tests.support.tiny_models import POSITIONS, VOCABULARY, save_tiny_model
from tests.support.window_fixtures import TEXT_OF_MODEL as TEXT
from tests.support.window_input import PATIENCE_MS, link_in, words
from visualizer.attention.display_transforms import WeightTransform
from visualizer.errors import InputError
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.layer_overview.presenter import LAYERS_PANEL
from visualizer.features.mask_editor import controller
from visualizer.features.mask_editor.presenter import MASK_EDIT_PANEL
from visualizer.file_opening import read_file
from visualizer.format import format_number
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.models import opened_model, surrounding_stages
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.view_options import MaskPattern

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.features.layer_overview.widget import LayerOverviewPane

DIRECT = Qt.FindChildOption.FindDirectChildrenOnly

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models


@pytest.fixture
def folder(tiny_model_folder: Path) -> Path:
    return tiny_model_folder


def pick(box: QComboBox, value: str) -> None:
    """Choose a value by keyboard."""
    box.setFocus()
    steps = box.findData(value) - box.currentIndex()
    for _ in range(abs(steps)):
        QTest.keyClick(box, Qt.Key.Key_Down if steps > 0 else Qt.Key.Key_Up)


def open_by_menu(hand: Hand, folder: Path) -> None:
    hand.window.actions_.by_id["model.open"].trigger()
    chooser = hand.window.controllers.model_chooser_controller.dialog
    assert chooser is not None
    hand.until(chooser.folder_button.isEnabled)
    QTest.mouseClick(chooser.folder_button, Qt.MouseButton.LeftButton)
    (dialog,) = hand.window.findChildren(QFileDialog)
    assert dialog.windowTitle() == "Choose a model folder"
    dialog.setDirectory(str(folder.parent))
    dialog.fileSelected.emit(str(folder))
    dialog.reject()


def test_all_pane_tabs_of_a_model_are_visible(hand: Hand, folder: Path) -> None:
    open_by_menu(hand, folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()

    def tab_bar() -> QTabBar | None:
        bars = hand.window.findChildren(QTabBar, options=DIRECT)
        titles = ((bar, [bar.tabText(at) for at in range(bar.count())]) for bar in bars)
        return next((bar for bar, shown in titles if "Next token" in shown), None)

    hand.until(lambda: bool((bar := tab_bar()) and bar.width() >= bar.sizeHint().width()))
    docks = hand.window.docks
    assert docks.docks["Next token"].width() > docks.docks["Next token"].minimumSizeHint().width()
    assert hand.window.board.width() > hand.window.width() / 2


def test_a_model_reads_the_text_of_the_window(hand: Hand, folder: Path) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    open_by_menu(hand, folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert run.texts == (("<s>", *TEXT.split()),)
    assert run.trace.axes == ("layer",)
    expected = visualizer.open_model(folder).attend(TEXT)["weights"]
    np.testing.assert_allclose(run.trace.read("weights"), expected, atol=1e-6)
    assert hand.stages == ["weights"]
    shown = {label.text() for label in hand.window.settings_bar.findChildren(QLabel)}
    assert any("Queries, keys and values are shown after" in text for text in shown)
    back = next(
        button
        for button in hand.window.settings_bar.findChildren(QPushButton)
        if button.text() == "Return to module"
    )
    QTest.mouseClick(back, Qt.MouseButton.LeftButton)
    hand.settle()
    assert hand.window.workspace.document.has_module
    assert hand.window.workspace.document.text == TEXT


def test_the_table_has_the_heads_of_all_layers_and_shows_one(model_window: Hand) -> None:
    hand = model_window
    hand.window.docks.open_pane("Heads")
    hand.settle()
    view = hand.window.panes["Heads"].view
    assert [row.name for row in view.rows[:5]] == ["1.1", "1.2", "1.3", "1.4", "2.1"]
    assert len(view.rows) == 2 * 4 + 1
    place = view.visualRect(view.model().index(6, 0)).center()
    for heads in (frozenset({2}), None):
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
        hand.settle()
        shown = hand.window.workspace.view
        assert (shown.layer, shown.heads) == (1, heads)


def test_its_weights_can_be_multiplied_by_the_lengths_of_its_values(model_window: Hand) -> None:
    hand = model_window
    hand.trigger("view.set_weight_transform times-value")
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert hand.window.workspace.view.lens is WeightTransform.TIMES_VALUE
    hand.window.workspace.change_view(pinned=Cell("weights", (0, 3, 1)))
    hand.settle()
    layer = hand.window.workspace.view.layer
    weight = run.trace.read("weights", (layer, 0, 3, 1))
    length = np.linalg.norm(run.trace.read("values", (layer, 0, 1)).astype(np.float64))
    panel = hand.window.workspace.screen.panel(CELL_PANEL)
    assert panel
    assert panel.additional_sentences[0].endswith(f" = {format_number(float(weight * length))}")


def test_errors_of_a_model_are_reported_and_the_result_remains(
    hand: Hand, folder: Path, tmp_path: Path
) -> None:
    before = hand.window.workspace.run
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    hand.window.controllers.document_controller.open(tmp_path)
    dialog = hand.window.controllers.model_chooser_controller.dialog
    assert dialog is not None
    hand.until(dialog.problem.isVisible)
    assert dialog.problem.text() == "“config.json” is damaged: it is not valid JSON."
    dialog.close()
    assert hand.window.workspace.run is before


def test_it_reads_what_is_typed(model_window: Hand, folder: Path) -> None:
    hand = model_window
    hand.type_sentence("the mat sat on the cat")
    hand.settle()
    run = hand.window.workspace.run
    assert run
    expected = visualizer.open_model(folder).attend("the mat sat on the cat")
    np.testing.assert_allclose(run.trace.read("weights"), expected["weights"], atol=1e-6)
    hand.type_sentence(" ")
    hand.until(lambda: "The text is empty" in hand.window.settings_bar.problem.text())
    assert hand.window.workspace.run is run


def open_layers(hand: Hand) -> LayerOverviewPane:
    """Bring the overview of all layers to the front."""
    hand.window.docks.open_pane("Layers")
    pane: LayerOverviewPane = hand.window.panes["Layers"]
    hand.until(pane.isVisible)
    hand.settle()
    return pane


def head_in_front(hand: Hand) -> tuple[int, int]:
    """Return the layer and the head that the flow board shows."""
    resolved = hand.window.workspace.screen.resolved
    assert resolved
    assert resolved.flow
    return resolved.leading[0], resolved.flow.head


def test_all_heads_are_visible_together_and_a_click_shows_one(model_window: Hand) -> None:
    hand = model_window
    pane = open_layers(hand)
    panel = hand.window.workspace.screen.panel(LAYERS_PANEL)
    run = hand.window.workspace.run
    assert run
    weights = run.trace.read("weights")
    assert panel.weights is not None
    allowed = ~np.isnan(panel.weights)
    np.testing.assert_array_equal(panel.weights[allowed], weights[allowed])
    assert (weights[~allowed] == 0).all()
    at = panel.places.index((1, 2))
    QTest.mouseMove(pane.grid.viewport(), pane.grid.heatmap_rect(at).center())
    hand.until(lambda: pane.description.text().startswith("Layer 2, head 3"))
    QTest.mouseClick(
        pane.grid.viewport(), Qt.MouseButton.LeftButton, pos=pane.grid.heatmap_rect(at).center()
    )
    hand.settle()
    assert not pane.isVisible()
    assert hand.board.isVisible()
    assert head_in_front(hand) == (1, 2)


def test_heads_are_sorted_by_what_they_do(model_window: Hand) -> None:
    hand = model_window
    open_layers(hand)
    hand.choose("head_order", "Previous token first")
    hand.settle()
    panel = hand.window.workspace.screen.panel(LAYERS_PANEL)
    run = hand.window.workspace.run
    assert run
    weights = run.trace.read("weights")
    previous = np.diagonal(weights, -1, 2, 3).mean(-1)
    ranked = [previous[place] for place in panel.places]
    assert ranked == sorted(ranked, reverse=True)
    hand.choose("head_order", "Similar heads together")
    hand.settle()
    places = hand.window.workspace.screen.panel(LAYERS_PANEL).places
    assert sorted(places) == sorted(panel.places)


def test_keys_go_through_the_heads(model_window: Hand) -> None:
    hand = model_window
    grid = open_layers(hand).grid
    grid.setFocus()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Return):
        QTest.keyClick(grid, key)
    hand.settle()
    assert head_in_front(hand) == (1, 1)


def test_a_head_is_ablated_and_restored(model_window: Hand) -> None:
    hand = model_window
    pane = hand.window.panes["Next token"]
    assert pane.isVisible()
    assert pane.heads.text().startswith("Layer 1, heads 1–4:")
    hand.window.controllers.view_controller.show_head_of_layer(0, 1)
    hand.settle()
    before = pane.bars.rows
    assert pane.heads.text() == "Layer 1, head 2:"
    assert pane.kind.currentText() == "Unedited"
    pick(pane.kind, HeadEditKind.OFF)
    hand.settle()
    assert pane.kind.currentText() == "Ablate (zeros)"
    assert pane.edits.text() == "Edited: layer 1, head 2: off."
    after = {row.token: row for row in pane.bars.rows}
    for row in before:
        if row.token in after:
            assert after[row.token].probability_of_all_heads == pytest.approx(row.probability)
    assert any(row.probability != row.probability_of_all_heads for row in pane.bars.rows)
    open_layers(hand)
    assert {*hand.window.workspace.screen.panel(LAYERS_PANEL).edits} == {(0, 1)}
    hand.window.docks.open_pane("Next token")
    hand.until(pane.isVisible)
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert pane.bars.rows == before
    hand.window.actions_.by_id["head_edit.toggle"].trigger()
    hand.settle()
    QTest.mouseClick(pane.restore_all_button, Qt.MouseButton.LeftButton)
    hand.settle()
    assert pane.bars.rows == before


def test_the_explanation_stays_in_front_of_the_panes_of_a_model(
    hand: Hand, tiny_model_folder: Path
) -> None:
    hand.window.controllers.document_controller.open(tiny_model_folder)
    hand.until(lambda: not hand.window.docks.by_id["Next token"].isHidden())
    hand.settle()
    hand.until(lambda: hand.window.panes["Explain"].isVisible())
    assert not hand.window.panes["Next token"].isVisible()


def test_a_document_opens_without_its_model(model_window: Hand, tmp_path: Path) -> None:
    hand = model_window
    path = tmp_path / "read.attention"
    run = hand.window.workspace.run
    assert run
    hand.window.controllers.document_controller.save_to(str(path))
    hand.until(lambda: hand.window.controllers.document_controller.is_saved and path.exists())
    opened = visualizer.load(path)
    np.testing.assert_array_equal(opened["weights"], run.trace.read("weights"))
    saved = read_file(path, Document())
    model = hand.window.workspace.document.model
    assert model
    assert saved.document.model == replace(model, layers=(0, 1))
    assert saved.document.text == TEXT


def test_heads_are_switched_in_the_overview_and_stay_where_they_are(model_window: Hand) -> None:
    hand = model_window
    grid = open_layers(hand).grid
    hand.choose("head_order", "Sharpest first")
    hand.settle()
    places = hand.window.workspace.screen.panel(LAYERS_PANEL).places
    choose_in_context_menu(grid.viewport(), grid.heatmap_rect(0).center(), "toggle_ablation")
    hand.activate()
    hand.settle()
    panel = hand.window.workspace.screen.panel(LAYERS_PANEL)
    assert panel.places == places
    assert {*panel.edits} == {places[0]}
    grid.setFocus()
    QTest.keyClick(grid, Qt.Key.Key_Right)
    QTest.keyClick(grid, Qt.Key.Key_Delete)
    hand.settle()
    assert {*hand.window.workspace.screen.panel(LAYERS_PANEL).edits} == {*places[:2]}
    assert hand.window.panes["Layers"].description.text().startswith(panel.head_name(places[1]))
    assert ", rank 2 of 8" in hand.window.panes["Layers"].description.text()


def test_the_caption_tells_of_the_head_that_is_shown(model_window: Hand) -> None:
    hand = model_window
    hand.window.controllers.view_controller.show_head_of_layer(1, 2)
    hand.settle()
    hand.window.actions_.by_id["playback.go_to_start"].trigger()
    hand.window.actions_.by_id["playback.skip 1"].trigger()
    hand.settle()
    resolved = hand.window.workspace.screen.resolved
    assert resolved
    assert resolved.caption_head == 2


def test_the_first_heads_are_ablated_together(model_window: Hand) -> None:
    hand = model_window
    pane = open_layers(hand)
    assert not pane.first.isVisible()
    hand.choose("head_order", "Previous token first")
    hand.settle()
    assert pane.first.isVisible()
    places = hand.window.workspace.screen.panel(LAYERS_PANEL).places
    pane.count.setFocus()
    pane.count.selectAll()
    QTest.keyClicks(pane.count, "3")
    QTest.mouseClick(pane.ablate_button, Qt.MouseButton.LeftButton)
    hand.settle()
    assert {*hand.window.workspace.screen.panel(LAYERS_PANEL).edits} == {*places[:3]}
    model = hand.window.workspace.document.model
    assert model
    assert model.edits == tuple(HeadEdit(*place) for place in sorted(places[:3]))
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert not hand.window.workspace.screen.panel(LAYERS_PANEL).edits


def test_a_weight_is_followed_back_to_the_embedding_and_forth(model_window: Hand) -> None:
    hand = model_window
    workspace, pane = hand.window.workspace, hand.window.panes["Explain"]
    hand.window.docks.open_pane("Explain")
    workspace.show_leading_index((1,))
    hand.settle()
    hand.click_cell(Cell("weights", (0, 3, 1)))
    hand.leave()
    met = [(workspace.view.layer, workspace.view.pinned)]
    while "href" in pane.terms.text():
        QApplication.processEvents()  # wait until the pane is laid out
        pane.scroll_area.ensureWidgetVisible(pane.terms)
        hand.click(pane.terms, link_in(pane.terms))
        hand.settle()
        met.append((workspace.view.layer, workspace.view.pinned))
    stages = [cell.stage for _, cell in met if cell]
    layers = [layer for layer, _ in met]
    assert layers == sorted(layers, reverse=True)
    assert {*layers} == {0, 1}
    assert stages[:2] == ["weights", "masked"]
    assert stages.count("residual") == 2
    assert stages[layers.index(0)] == "result"
    assert stages[-1] == "residual"
    assert "the token’s row of embed_tokens" in pane.sentence.text()
    assert pane.terms.text().count("embed_tokens") == 1
    for wanted in reversed(met[:-1]):
        hand.trigger("cell.go -1")
        hand.settle()
        assert (workspace.view.layer, workspace.view.pinned) == wanted


@pytest.mark.slow
def test_shown_heads_are_scaled_set_to_their_mean_and_patched(
    model_window: Hand, folder: Path
) -> None:
    hand = model_window
    pane, model = hand.window.panes["Next token"], visualizer.open_model(folder)
    hand.window.controllers.view_controller.show_head_of_layer(1, 2)
    hand.settle()

    def check(expected: list[tuple[str, float]]) -> None:
        hand.settle()
        shown = {row.token: row.probability for row in pane.bars.rows}
        known = dict(expected)
        assert shown
        for token, share in shown.items():
            assert share == pytest.approx(known[token], abs=1e-6)

    pick(pane.kind, HeadEditKind.MEAN)
    check(model.ablate(TEXT, [(1, 2)], mean=True, most=VOCABULARY))
    pick(pane.kind, HeadEditKind.SCALED)
    hand.settle()
    assert pane.factor.value() == 0.5
    assert pane.factor.hasFocus()
    pane.factor.selectAll()
    QTest.keyClicks(pane.factor, "-2")
    QTest.keyClick(pane.factor, Qt.Key.Key_Return)
    check(model.scale(TEXT, [(1, 2)], -2, most=VOCABULARY))
    assert pane.edits.text() == "Edited: layer 2, head 3: × -2."
    pick(pane.kind, HeadEditKind.PATCHED)
    hand.settle()
    assert pane.source.text() == TEXT
    assert not pane.problem.isVisible()
    pane.source.selectAll()
    QTest.keyClicks(pane.source, "a dog ran to a log")
    check(model.patch(TEXT, "a dog ran to a log", [(1, 2)], most=VOCABULARY))
    assert pane.edits.text() == "Edited: layer 2, head 3: from “a dog ran to a log”."
    assert pane.changes.text().startswith("Largest changes: “")
    before = pane.bars.rows
    QTest.keyClicks(pane.source, " and")
    hand.until(lambda: pane.problem.isVisible())
    assert pane.problem.text() == (
        "The text has 7 tokens, but the text to patch from has 8. Use texts with the same number "
        "of tokens. Differences: “the|cat|sat|on…” → “a|dog|ran|to…”."
    )
    assert pane.bars.rows == before
    assert pane.source.text() == "a dog ran to a log and"
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert pane.source.text() == TEXT
    hand.window.actions_.by_id["head_edit.restore_all"].trigger()
    check(model.next_tokens(TEXT, VOCABULARY))
    assert pane.kind.currentText() == "Unedited"


def test_edges_of_a_head_are_cut_by_painting(model_window: Hand, folder: Path) -> None:
    hand, model = model_window, visualizer.open_model(folder)
    workspace, pane = hand.window.workspace, hand.window.panes["Next token"]
    hand.window.controllers.view_controller.show_head_of_layer(0, 1)
    hand.settle()
    hand.window.actions_.by_id["mask_edit.toggle"].trigger()
    hand.settle()
    bar = hand.window.mask_edit_bar
    assert bar.caption.text() == "Cut edges"
    assert not bar.buttons[MaskPattern.CAUSAL].isVisible()
    hand.click_cell(Cell("weights", (1, 5, 3)))
    hand.settle()
    source = workspace.document.model
    assert source
    assert source.cuts == (CutEdges(0, 1, ((5, 3),)),)
    expected = dict(model.cut(TEXT, [(0, 1, 5, 3)], most=VOCABULARY))
    for row in pane.bars.rows:
        assert row.probability == pytest.approx(expected[row.token], abs=1e-6)
    run = workspace.run
    assert run
    assert run.trace.read("weights", (0, 1, 5, 3)) == 0
    (panel,) = workspace.screen.panel(BOARD_CONTENTS).board.heatmaps
    assert panel.forbidden is not None
    assert panel.forbidden[5, 3]
    assert pane.edits.text() == "Cut in layer 1, head 2: “the” (6) no longer attends to “sat” (4)."
    hand.click_cell(Cell("weights", (1, 2, 4)))  # which no query attends to
    hand.settle()
    assert workspace.document.model == source
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert pane.edits.text() == ""


def test_edges_of_all_shown_heads_are_cut_by_keyboard(model_window: Hand) -> None:
    hand = model_window
    workspace = hand.window.workspace
    hand.click_cell(Cell("weights", (1, 5, 3)))
    hand.window.actions_.by_id["mask_edit.toggle"].trigger()
    hand.settle()
    QTest.mouseClick(hand.window.mask_edit_bar.all_heads, Qt.MouseButton.LeftButton)
    hand.settle()
    hand.window.board.setFocus()
    hand.key(Qt.Key.Key_X)
    hand.settle()
    source = workspace.document.model
    assert source
    assert source.cuts == tuple(CutEdges(0, head, ((5, 3),)) for head in range(4))
    run = workspace.run
    assert run
    assert (run.trace.read("weights", (0, slice(None), 5, 3)) == 0).all()
    QTest.mouseClick(hand.window.mask_edit_bar.restore_all, Qt.MouseButton.LeftButton)
    hand.settle()
    assert workspace.document.model == replace(source, cuts=())


def test_a_query_that_would_read_nothing_is_rejected(model_window: Hand) -> None:
    hand = model_window
    hand.window.controllers.view_controller.show_head_of_layer(1, 0)
    hand.settle()
    before = hand.window.workspace.run
    hand.window.actions_.by_id["mask_edit.toggle"].trigger()
    hand.settle()
    hand.click_cell(Cell("weights", (0, 0, 0)))
    said = "Query 1 of layer 2, head 1 would have no key left. Keep at least one of its edges."
    hand.until(lambda: hand.window.panes["Next token"].problem.text() == said)
    panel = hand.window.workspace.screen.panel(MASK_EDIT_PANEL)
    assert panel
    assert panel.notes == (said,)
    assert hand.window.workspace.run is before


def test_there_are_no_masks_for_a_model_whose_text_is_rejected(model_window: Hand) -> None:
    hand = model_window
    workspace, bar = hand.window.workspace, hand.window.mask_edit_bar
    hand.window.actions_.by_id["mask_edit.toggle"].trigger()
    hand.settle()
    hand.type_sentence(" ")
    hand.until(lambda: "The text is empty" in hand.window.settings_bar.problem.text())
    before = workspace.document
    assert bar.isVisible()
    assert bar.caption.text() == "Cut edges"
    assert not any(button.isVisible() for button in bar.buttons.values())
    for brush in MaskPattern:
        bar.brushChosen.emit(brush)
    for brush in bar.boxes:
        bar.numberChosen.emit(brush, 3)
    assert workspace.document == before


def test_more_cut_edges_than_are_kept_are_rejected_at_the_place(
    model_window: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = model_window
    monkeypatch.setattr(controller, "MAX_CUT_EDGES", 1)
    workspace = hand.window.workspace
    hand.window.controllers.view_controller.show_head_of_layer(1, 0)
    hand.settle()
    hand.window.actions_.by_id["mask_edit.toggle"].trigger()
    hand.settle()
    hand.click_cell(Cell("weights", (0, 5, 3)))
    hand.settle()
    source = workspace.document.model
    said = "At most 1 edge can be cut. Restore some edges before you cut more."
    hand.click_cell(Cell("weights", (0, 5, 2)))
    hand.until(lambda: said in hand.window.mask_edit_bar.notes.toolTip())
    assert hand.window.panes["Next token"].problem.text() == said
    assert workspace.document.model == source
    hand.click_cell(Cell("weights", (0, 5, 3)))  # this joins the heads
    hand.settle()
    assert hand.window.panes["Next token"].problem.text() == ""


def test_the_heads_that_edits_have_changed_most_stand_first(model_window: Hand) -> None:
    hand = model_window
    command = hand.window.actions_.by_id["head_edit.sort_by_change"]
    assert not command.isEnabled()
    before = hand.window.workspace.run
    hand.window.controllers.view_controller.show_head_of_layer(0, 1)
    hand.settle()
    hand.window.actions_.by_id["head_edit.scale"].trigger()
    hand.settle()
    assert hand.window.panes["Next token"].factor.hasFocus()
    command.trigger()
    hand.settle()
    after = hand.window.workspace.run
    assert before
    assert after
    apart = np.abs(after.trace.read("weights") - before.trace.read("weights")).sum(-1).mean(-1) / 2
    panel = hand.window.workspace.screen.panel(LAYERS_PANEL)
    found = [apart[place] for place in panel.places]
    assert found == pytest.approx(sorted(apart.reshape(-1))[::-1], abs=1e-6)
    assert {layer for layer, _ in panel.places[:4]} == {1}
    assert "weights changed by the edits: " in panel.describe_head(panel.places[0])
    grid = hand.window.panes["Layers"].grid
    QTest.mouseClick(grid.viewport(), Qt.MouseButton.LeftButton, pos=grid.heatmap_rect(0).center())
    hand.settle()
    assert head_in_front(hand) == panel.places[0]


def open_and_fail(hand: Hand, folder: Path) -> str:
    """Open a model that rejects the text; close the message box and return its text."""
    hand.window.controllers.document_controller.open(folder)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    said = box.text()
    box.close()
    hand.settle()
    hand.activate()
    return said


def test_a_model_that_cannot_read_the_text_is_not_opened(hand: Hand, folder: Path) -> None:
    text = "the cat " * POSITIONS
    hand.type_sentence(text)
    hand.settle()
    workspace, controller = hand.window.workspace, hand.window.controllers.document_controller
    before, past = workspace.document, workspace.history.undo_description(workspace.document)
    keeps, stages = controller.saves_numbers, workspace.requested_view.stages
    said = open_and_fail(hand, folder)
    assert said.startswith("Cannot open tiny.")
    assert said.endswith(f"tokens; tiny supports at most {POSITIONS}. Use a shorter text.")
    assert workspace.document == before
    assert workspace.requested_view.stages == stages
    assert workspace.history.undo_description(workspace.document) == past
    assert controller.saves_numbers == keeps
    run = workspace.run
    assert run
    assert run.reading is None
    assert run.texts == (tuple(text.split()),)
    assert hand.text_problem == ""
    hand.type_sentence(TEXT)
    hand.settle()
    open_by_menu(hand, folder)
    hand.until(lambda: workspace.document.model is not None)
    hand.settle()
    assert workspace.run
    assert workspace.run.texts == (("<s>", *TEXT.split()),)


def test_a_failing_model_keeps_the_previous_model(model_window: Hand, tmp_path: Path) -> None:
    hand = model_window
    workspace = hand.window.workspace
    before, run = workspace.document, workspace.run
    without_attention = save_tiny_model(tmp_path / "mamba", "mamba", state_size=4)
    said = open_and_fail(hand, without_attention)
    assert said == "Cannot open mamba. No attention could be recorded in mamba."
    assert workspace.document == before
    assert workspace.run is run
    hand.type_sentence("a dog ran")
    hand.settle()
    assert workspace.run
    assert workspace.run.texts == (("<s>", "a", "dog", "ran"),)


def test_a_broken_model_is_not_opened_and_typed_text_stays(
    hand: Hand, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand.type_sentence("a")
    hand.settle()
    workspace, is_typed, broken = hand.window.workspace, Event(), []

    def break_(*given: object) -> None:
        broken.append(given)
        if len(broken) == 1:
            is_typed.wait(PATIENCE_MS / 1000)
            raise InputError("model", "It cannot read this.")
        raise RuntimeError("odd")

    monkeypatch.setattr(opened_model, "create_layer_run", break_)
    hand.window.controllers.document_controller.open(folder)
    hand.until(lambda: workspace.document.model is not None)
    hand.until(lambda: bool(broken))
    hand.type_sentence(TEXT)
    is_typed.set()
    assert "RuntimeError: odd" in hand.details_of_bug()
    hand.settle()
    assert workspace.document.has_module
    assert workspace.document.text == TEXT
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert workspace.document.text == "a"


def test_a_model_waits_for_a_text(hand: Hand, folder: Path) -> None:
    hand.type_sentence(" ")
    hand.until(lambda: hand.text_problem != "")
    hand.window.controllers.document_controller.open(folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.until(lambda: not hand.window.workspace.is_working)
    assert "The text is empty" in hand.text_problem
    assert hand.window.workspace.document.model
    assert not hand.boxes()
    hand.type_sentence(TEXT)
    hand.settle()
    assert hand.window.workspace.run
    assert hand.window.workspace.run.texts == (("<s>", *TEXT.split()),)


def test_stages_that_cannot_be_inferred_are_omitted_with_a_notice(
    hand: Hand, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_(*given: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(surrounding_stages, "recognize_layers", break_)
    hand.type_sentence(TEXT)
    hand.settle()
    open_by_menu(hand, folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    assert not hand.boxes()
    run = hand.window.workspace.run
    assert run
    assert "weights" in run.trace
    assert "residual" not in run.trace
    assert surrounding_stages.STAGES_UNKNOWN_NOTICE in words(hand.window.notice)
    assert caplog.records
    assert all(record.exc_info for record in caplog.records)
    caplog.clear()
