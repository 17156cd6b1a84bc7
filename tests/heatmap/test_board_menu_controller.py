"""The context menus of the heatmaps contain the commands for their place, and run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QApplication

from visualizer.session.cell_address import Cell
from visualizer.session.token_selection import TokenRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.window_input import Hand
    from visualizer.heatmap.board_layout import FlowPlacement, PanelSlot
    from visualizer.heatmap.board_menu_controller import BoardContextMenuController


class MenuHand:
    """Opens the menus of a board and chooses entries."""

    def __init__(self, hand: Hand) -> None:
        self.hand, self.board = hand, hand.board
        self.controller: BoardContextMenuController = hand.window.controllers.board_menu_controller

    def open_at(self, point: QPoint) -> set[str]:
        """Right-click a point of the viewport; return the ids of the entries."""
        event = QContextMenuEvent(
            QContextMenuEvent.Reason.Mouse, point, self.board.viewport().mapToGlobal(point)
        )
        QApplication.sendEvent(self.board.viewport(), event)
        return self._ids()

    def open_on(self, cell: Cell) -> set[str]:
        """Right-click a cell."""
        area = self.board.area_of_cell(cell)
        assert area is not None
        return self.open_at(area.center())

    def open_by_key(self) -> set[str]:
        """Press the menu key."""
        event = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint())
        QApplication.sendEvent(self.board, event)
        return self._ids()

    def _ids(self) -> set[str]:
        menu = self.controller.menu
        if menu is None:
            return set()
        return {action.objectName() for action in menu.actions() if not action.isSeparator()}

    def choose(self, id_: str) -> None:
        """Choose an entry of the open menu."""
        menu = self.controller.menu
        assert menu is not None
        action = next(action for action in menu.actions() if action.objectName() == id_)
        menu.setActiveAction(action)
        action.trigger()
        self.close()
        self.hand.settle()

    def close(self) -> None:
        """Close the open menu."""
        if self.controller.menu:
            self.controller.menu.close()
        self.hand.until(lambda: self.controller.menu is None)
        self.hand.activate()


@pytest.fixture
def menus(hand: Hand) -> Iterator[MenuHand]:
    """Open menus on the grid."""
    opener = MenuHand(hand)
    yield opener
    opener.close()


@pytest.fixture
def flow_menus(menus: MenuHand) -> MenuHand:
    """Open menus on the flow board."""
    menus.hand.window.controllers.view_controller.show_flow()
    menus.hand.settle()
    return menus


def _placement(menus: MenuHand) -> FlowPlacement:
    found = menus.board.board_layout.flow
    assert found is not None
    return found


def _heading(menus: MenuHand, stage: str) -> QPoint:
    flow = _placement(menus)
    at = next(at for at, one in enumerate(flow.panels.columns) if stage in one.states)
    return QPointF(*flow.layout.columns[at].heading.middle).toPoint()


def _tab(menus: MenuHand, head: int) -> QPoint:
    return QPointF(*_placement(menus).layout.tabs.heads[head].middle).toPoint()


def _slot(menus: MenuHand, stage: str) -> PanelSlot:
    slots = menus.board.board_layout.slots
    return next(slot for slot in slots if slot.heatmap.stage == stage)


# ------------------------------------------------------------------ cells


def test_cell_menu_pins_a_cell_and_copies_its_number(flow_menus: MenuHand) -> None:
    cell = Cell("weights", (0, 3, 1))
    entries = flow_menus.open_on(cell)
    assert entries >= {"copy_value", "explain", "toggle_pair", "export_stage", "follow masked"}
    flow_menus.choose("copy_value")
    assert flow_menus.board.cell_cursor.pinned == cell
    run = flow_menus.hand.window.workspace.run
    assert run is not None
    copied = float(QGuiApplication.clipboard().text())
    assert copied == pytest.approx(float(run.trace.read("weights", cell.place)), rel=1e-6)


def test_a_pinned_cell_stays_pinned(flow_menus: MenuHand) -> None:
    cell = Cell("weights", (0, 3, 1))
    flow_menus.open_on(cell)
    flow_menus.close()
    flow_menus.open_on(cell)
    assert flow_menus.board.cell_cursor.pinned == cell


@pytest.mark.parametrize(
    ("cell", "entry", "source"),
    [
        (Cell("weights", (0, 3, 1)), "follow masked", Cell("masked", (0, 3, 1))),
        (Cell("scaled", (0, 3, 1)), "follow scores", Cell("scores", (0, 3, 1))),
    ],
)
def test_cell_menu_follows_a_number_back_to_its_source(
    menus: MenuHand, cell: Cell, entry: str, source: Cell
) -> None:
    menus.hand.window.controllers.cell_selection_controller.pin_cell(cell)
    menus.hand.settle()
    menus.open_by_key()
    menus.choose(entry)
    assert menus.board.cell_cursor.pinned == source


def test_cell_menu_masks_and_unmasks_a_pair(flow_menus: MenuHand) -> None:
    cell, workspace = Cell("weights", (0, 3, 1)), flow_menus.hand.window.workspace
    flow_menus.open_on(cell)
    flow_menus.choose("toggle_pair")
    assert workspace.run is not None
    assert workspace.run.trace.read("weights", cell.place) == 0
    flow_menus.open_on(cell)
    flow_menus.choose("toggle_pair")
    assert workspace.run.trace.read("weights", cell.place) > 0


def test_only_pairs_can_be_masked(flow_menus: MenuHand) -> None:
    entries = flow_menus.open_on(Cell("queries", (0, 3, 0)))
    assert "copy_value" in entries
    assert "toggle_pair" not in entries


def test_the_menu_key_needs_no_pinned_cell(
    flow_menus: MenuHand,
) -> None:
    assert "export.copy_picture" in flow_menus.open_by_key()  # commands for the whole board
    flow_menus.close()
    flow_menus.hand.click_cell(Cell("context", (0, 2, 0)))
    flow_menus.hand.settle()
    assert {"copy_value", "follow weights", "follow values"} <= flow_menus.open_by_key()


def test_a_covered_cell_can_only_be_marked(flow_menus: MenuHand) -> None:
    controllers = flow_menus.hand.window.controllers
    controllers.playback_controller.toggle_prediction("weights")
    flow_menus.hand.settle()
    cell = Cell("weights", (0, 3, 1))
    assert flow_menus.open_on(cell) == {"mark"}
    flow_menus.choose("mark")
    guess = flow_menus.hand.window.workspace.view.guess
    assert guess is not None
    assert cell in guess.marks


# ------------------------------------------------------------------ headings, heads and tokens


def test_heading_menu_enlarges_and_covers_its_stage(flow_menus: MenuHand) -> None:
    assert "enlarge" not in flow_menus.open_at(_heading(flow_menus, "weights"))
    flow_menus.close()
    flow_menus.open_at(_heading(flow_menus, "context"))
    flow_menus.choose("enlarge")
    panels = _placement(flow_menus).panels
    assert panels.panels[panels.focus].stage == "context"
    flow_menus.open_at(_heading(flow_menus, "context"))
    flow_menus.choose("predict")
    resolved = flow_menus.hand.window.workspace.screen.resolved
    assert resolved is not None
    assert resolved.prediction is not None
    assert resolved.prediction.stage == "context"


def test_heading_menu_shows_its_stage_for_all_heads(flow_menus: MenuHand) -> None:
    flow_menus.open_at(_heading(flow_menus, "queries"))
    flow_menus.choose("show_in_all_heads")
    shown = [(panel.stage, panel.head) for panel in flow_menus.board.board.heatmaps]
    assert shown == [("queries", 0), ("queries", 1)]


def test_heading_menu_exports_its_stage(flow_menus: MenuHand) -> None:
    flow_menus.open_at(_heading(flow_menus, "queries"))
    flow_menus.choose("export_stage")
    controller = flow_menus.hand.window.controllers.export_controller
    flow_menus.hand.until(lambda: controller.dialog is not None)
    assert controller.dialog is not None
    assert controller.dialog.snapshot.view.stages == {"queries"}
    controller.dialog.reject()
    flow_menus.hand.until(lambda: controller.dialog is None)
    assert flow_menus.board.board.flow is not None


def test_tab_menu_brings_its_head_to_the_front_or_shows_only_this_head(
    flow_menus: MenuHand,
) -> None:
    assert "show_head" not in flow_menus.open_at(_tab(flow_menus, 0))
    flow_menus.close()
    flow_menus.open_at(_tab(flow_menus, 1))
    flow_menus.choose("show_head")
    assert _placement(flow_menus).panels.front == 1
    flow_menus.open_at(_tab(flow_menus, 0))
    flow_menus.choose("show_only_head")
    assert flow_menus.board.board.flow is None
    assert {panel.head for panel in flow_menus.board.board.heatmaps} == {0}


def test_a_head_of_a_model_is_ablated_and_restored(menus: MenuHand, model_window: Hand) -> None:
    workspace = model_window.window.workspace
    model_window.window.controllers.view_controller.show_head_flow_of_layer(1, 0)
    model_window.settle()
    for ablated in ([(1, 1)], []):
        assert "toggle_ablation" in menus.open_at(_tab(menus, 1))
        menus.choose("toggle_ablation")
        model = workspace.document.model
        assert model is not None
        assert [edit.layer_and_head for edit in model.edits] == ablated


def test_heads_without_a_model_are_not_ablated(flow_menus: MenuHand) -> None:
    assert "toggle_ablation" not in flow_menus.open_at(_tab(flow_menus, 1))


def test_label_menu_selects_its_token(flow_menus: MenuHand) -> None:
    labels, slot = _placement(flow_menus).layout.row_labels, _slot(flow_menus, "weights")
    row = QPointF(labels.right - 4, slot.cell_area(2, 0).center().y()).toPoint()
    assert flow_menus.open_at(row) == {"select_token"}
    flow_menus.choose("select_token")
    selection = flow_menus.hand.window.workspace.view.tokens
    assert (selection.chosen, selection.role) == (frozenset({2}), TokenRole.QUERY)
    key = QPointF(slot.cell_area(0, 4).center().x(), slot.cells.top() - 8).toPoint()
    assert flow_menus.open_at(key) == {"select_token"}
    flow_menus.choose("select_token")
    selection = flow_menus.hand.window.workspace.view.tokens
    assert (selection.chosen, selection.role) == (frozenset({4}), TokenRole.KEY)


def test_the_grid_has_menus_for_headings_heads_and_tokens(menus: MenuHand) -> None:
    head = menus.board.board_layout.column_headers[-1]
    stage = QPointF(head.left + 10, menus.board.board_layout.head / 2).toPoint()
    assert {"show_in_all_heads", "predict", "export_stage"} <= menus.open_at(stage)
    menus.close()
    slot = menus.board.board_layout.slots[0]
    label = QPointF(slot.cells.left() - 8, slot.cell_area(1, 0).center().y()).toPoint()
    assert {"select_token", "show_head", "show_only_head"} <= menus.open_at(label)
    menus.choose("show_head")
    assert menus.board.board.flow is not None


def test_the_right_button_paints_while_the_mask_is_edited(flow_menus: MenuHand) -> None:
    flow_menus.hand.window.controllers.mask_edit_controller.toggle_editing()
    flow_menus.hand.settle()
    assert flow_menus.open_on(Cell("weights", (0, 3, 1))) == set()
