"""The flow board describes layer weights, tokens, states and colour scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtGui import QColor

from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.tensor_editor.presenter import NUMBER_TABLE_PANEL
from visualizer.format import format_number
from visualizer.heatmap.flow_descriptions import tooltip_at
from visualizer.heatmap.flow_headings_paint import operand_name_and_area, state_label_positions
from visualizer.heatmap.flow_labels_paint import board_labels
from visualizer.session.token_selection import TokenRole
from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.attention.trace import Trace
    from visualizer.heatmap.board_layout import FlowPlacement
    from visualizer.heatmap.flow_layout import Box


def _placement(hand: Hand) -> FlowPlacement:
    found = hand.board.board_layout.flow
    assert found is not None
    return found


def _trace(hand: Hand) -> Trace:
    run = hand.window.workspace.run
    assert run is not None
    return run.trace


def _column(hand: Hand, stage: str) -> int:
    columns = _placement(hand).panels.columns
    return next(at for at, one in enumerate(columns) if stage in one.states)


def _tooltip(hand: Hand, point: QPointF) -> str:
    return tooltip_at(_placement(hand), point, frozenset())


def _middle(box: Box) -> QPointF:
    return QPointF(*box.middle)


@pytest.fixture
def flow_hand(hand: Hand) -> Hand:
    hand.window.controllers.view_controller.show_flow()
    hand.settle()
    return hand


@pytest.mark.parametrize("stage", ["queries", "output"])
def test_a_layer_weight_is_described_with_its_number(flow_hand: Hand, stage: str) -> None:
    at = _column(flow_hand, stage)
    slot, trace = _placement(flow_hand).operands[at], _trace(flow_hand)
    assert slot is not None
    before = flow_hand.board.viewport().grab().toImage()
    hint = flow_hand.caption
    flow_hand.move_to(slot.cell_area(1, 0).center().toPoint())
    flow_hand.until(lambda: flow_hand.caption != hint)
    name = {"queries": "W_query.weight", "output": "out_proj.weight"}[stage]
    weight = float(trace.parameters[name][0, 1])  # [out, in]
    flow_hand.settle()
    panel = flow_hand.window.workspace.screen.panel(CELL_PANEL)
    assert panel is not None
    assert panel.equation is not None
    assert (panel.value, panel.equation.plain_text) == (
        format_number(weight), f"{slot.heatmap.title}[2, 1] = {format_number(weight)}"
    )  # fmt: skip
    assert flow_hand.caption == panel.plain_text
    assert flow_hand.board.viewport().grab().toImage() != before
    assert slot.heatmap.title in flow_hand.caption
    flow_hand.leave()
    flow_hand.until(lambda: flow_hand.caption == hint)


def test_a_click_on_a_layer_name_shows_its_numbers(flow_hand: Hand) -> None:
    _, area = operand_name_and_area(_placement(flow_hand), _column(flow_hand, "keys"))
    at = QPoint(round(area.left()) + 4, round(area.center().y()))
    flow_hand.click(flow_hand.board.viewport(), at)
    flow_hand.settle()
    table = flow_hand.window.workspace.screen.panel(NUMBER_TABLE_PANEL)
    assert table is not None
    assert table.name == "W_key"


def test_a_token_label_describes_and_selects_its_token(flow_hand: Hand) -> None:
    placement, token = _placement(flow_hand), 3
    at = board_labels(placement)[token].area.center().toPoint()
    flow_hand.move_to(at)
    flow_hand.until(lambda: flow_hand.board.hover_description != "")
    weights = _trace(flow_hand).read("weights", (0, token))
    labels = placement.panels.panels[0].rows.labels
    assert f"“{labels[int(weights.argmax())]}” {weights.max():.0%}" in flow_hand.caption
    for expected in ({token}, set()):
        flow_hand.click(flow_hand.board.viewport(), at)
        flow_hand.settle()
        tokens = flow_hand.window.workspace.requested_view.tokens
        assert tokens.chosen == expected
        assert tokens.role is TokenRole.QUERY


def test_a_token_label_does_not_reveal_a_prediction(flow_hand: Hand) -> None:
    at = board_labels(_placement(flow_hand))[3].area.center()
    flow_hand.window.controllers.playback_controller.toggle_prediction("weights")
    flow_hand.settle()
    flow_hand.move_to(at.toPoint())
    flow_hand.until(lambda: flow_hand.board.hover_description != "")
    assert "%" not in flow_hand.board.hover_description


def test_a_click_on_a_state_shows_it(flow_hand: Hand) -> None:
    at = _column(flow_hand, "masked")
    for stage in _placement(flow_hand).panels.columns[at].states:
        places = state_label_positions(_placement(flow_hand), at)
        place = next((one for one in places if one.stage == stage and not one.is_shown), None)
        assert place is not None
        assert place.title in _tooltip(flow_hand, place.area.center())
        flow_hand.click(flow_hand.board.viewport(), place.area.center().toPoint())
        flow_hand.settle()
        assert _placement(flow_hand).panels.panels[at].stage == stage
        if stage == "scaled":
            break


def test_the_legend_describes_the_range_of_each_matrix(flow_hand: Hand) -> None:
    placement = _placement(flow_hand)
    told = _tooltip(flow_hand, _middle(placement.layout.legend))
    for column, titles, panel in zip(
        placement.panels.columns, placement.panels.titles, placement.panels.panels, strict=True
    ):
        assert titles[column.states.index(panel.stage)] in told
    assert len(told.splitlines()) >= len(placement.panels.panels)


def test_a_heading_describes_its_operation(flow_hand: Hand) -> None:
    placement, at = _placement(flow_hand), _column(flow_hand, "output")
    told = _tooltip(flow_hand, _middle(placement.layout.columns[at].heading))
    assert placement.panels.operations[at] in told
    has_bias = "out_proj.bias" in _trace(flow_hand).parameters
    assert placement.panels.operations[at].endswith("bias") is has_bias


def test_concat_shows_the_colours_of_its_heads(flow_hand: Hand) -> None:
    slot = _placement(flow_hand).slots[_column(flow_hand, "concat")]
    assert slot is not None
    picture = flow_hand.board.viewport().grab().toImage()
    ratio, heads = picture.devicePixelRatio(), _placement(flow_hand).panels.heads
    y = slot.cells.top() - 3
    for head in range(heads):
        x = slot.cells.left() + (head + 0.5) * slot.cells.width() / heads
        seen = picture.pixelColor(round(x * ratio), round(y * ratio))
        assert seen == QColor(head_colour(head, flow_hand.window.theme))


def test_the_same_head_is_in_front_after_the_view_of_all_heads(flow_hand: Hand) -> None:
    view = flow_hand.window.controllers.view_controller
    view.bring_to_front(1)
    flow_hand.settle()
    for leave in (view.show_one_stage, view.show_all_panels):
        leave()
        flow_hand.settle()
        assert flow_hand.board.board_layout.flow is None
        view.show_flow()
        flow_hand.settle()
        assert _placement(flow_hand).panels.front == 1
    np.testing.assert_array_equal(
        flow_hand.panel("weights", 1).values, _trace(flow_hand).read("weights", (1,))
    )
