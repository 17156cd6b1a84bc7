"""The flow board shows the run's stages, and its operands produce the numbers below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.long_texts import long_shot
from tests.support.screens import resolved
from tests.support.small_runs import a_run, replayed
from visualizer.attention.spec import (
    HeadArrangement,
    MaskKind,
    NormalisationKind,
    PositionKind,
    TransformerBlockKind,
)
from visualizer.heatmap import board_presenter
from visualizer.heatmap.board import Board, FlowBoardPanels, Heatmap
from visualizer.heatmap.board_presenter import present_board
from visualizer.heatmap.colour_mapping import colour_indices
from visualizer.session.cell_address import Cell
from visualizer.session.view import View
from visualizer.session.view_options import ColourCurve, ColourLimits, ColourOptions
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def _flow(run: Run, **fields: Any) -> FlowBoardPanels:
    made = present_board(resolved(run, View(flow=True, **fields)), Board()).flow
    assert made is not None
    return made


def _by_stage(flow: FlowBoardPanels) -> dict[str, tuple[Heatmap, Heatmap | None]]:
    return {
        panel.stage: (panel, operand)
        for panel, operand in zip(flow.panels, flow.operands, strict=True)
    }


def _operand(flow: FlowBoardPanels, stage: str) -> np.ndarray:
    operand = _by_stage(flow)[stage][1]
    assert operand is not None
    return operand.values.astype(np.float64)


@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"arrangement": HeadArrangement.STACKED},
        {"bias": True},
        {"d_in": 4, "d_out": 4, "block": TransformerBlockKind.PRE_NORM},
        {"d_in": 8, "d_out": 8, "position": PositionKind.ROTARY},
        {"d_in": 8, "d_out": 8, "heads": 4, "key_value_heads": 2},
    ],
    ids=["plain", "stacked", "bias", "block", "rotary", "grouped"],
)
def test_a_row_times_the_operand_above_is_the_number_below(
    fields: dict[str, Any], head: int
) -> None:
    run = a_run(**{"mask": MaskKind.NONE, **fields})
    flow = _flow(run, heads=frozenset({head}), large="scores")
    shown = {panel.stage: panel.values.astype(np.float64) for panel in flow.panels}
    trace = run.trace
    vectors = trace.read("normed" if "normed" in trace else "input").astype(np.float64)
    for name, layer in (("queries", "W_query"), ("keys", "W_key"), ("values", "W_value")):
        first = f"projected_{name}"
        computed = trace.read(first if first in trace else name, (head,))
        product = vectors @ _operand(flow, name)
        if fields.get("bias"):
            bias = trace.read(f"{layer}.bias")
            size = computed.shape[-1]
            product += bias[head * size : (head + 1) * size]
        np.testing.assert_allclose(product, computed, atol=1e-5)
    scores = trace.read("scores", (head,))
    np.testing.assert_allclose(shown["queries"] @ _operand(flow, "scores"), scores, atol=1e-5)
    weights = shown["weights"]
    np.testing.assert_allclose(
        weights @ _operand(flow, "context"), trace.read("context", (head,)), atol=1e-5
    )


def test_the_head_in_front_is_that_of_the_pinned_cell_or_else_the_chosen_head() -> None:
    run = a_run(heads=2)
    assert _flow(run).front == 0
    assert _flow(run, heads=frozenset({1})).front == 1
    assert _flow(run, heads=frozenset({1}), pinned=Cell("weights", (0, 1, 0))).front == 0


def test_there_is_a_thumbnail_of_the_weights_of_every_head() -> None:
    run = a_run(d_in=8, d_out=8, heads=4)
    thumbnails = _flow(run).thumbnails
    for head, one in enumerate(thumbnails):
        np.testing.assert_array_equal(one.values, run.trace.read("weights", (head,)))
    assert _flow(a_run(heads=1)).thumbnails == ()


def test_the_pinned_state_of_a_matrix_is_shown() -> None:
    run = a_run()
    assert "masked" in _by_stage(_flow(run))
    assert "scores" in _by_stage(_flow(run, pinned=Cell("scores", (0, 1, 0))))
    assert "scaled" in _by_stage(_flow(run, large="scaled"))


def test_a_chosen_stage_is_in_focus() -> None:
    flow = _flow(a_run(), large="queries")
    assert flow.panels[flow.focus].stage == "queries"


def test_the_flow_of_linear_attention_includes_its_sums() -> None:
    run = a_run(normalisation=NormalisationKind.LINEAR, d_in=4, d_out=4)
    flow = _by_stage(_flow(run))
    assert flow["context"][1] is None
    assert "key_value_sums" in flow


def test_the_flow_of_captured_attention_contains_only_captured_stages() -> None:
    flow = _flow(replayed())
    assert [panel.stage for panel in flow.panels] == list(replayed().trace.names)
    assert len(flow.thumbnails) == 2


def test_wide_vectors_are_pooled_unless_they_are_in_focus() -> None:
    run = a_run(d_in=200, d_out=200, heads=2)
    narrow = _by_stage(_flow(run))["queries"][0]
    assert narrow.is_pooled
    assert narrow.values.shape[1] <= 60
    assert not _by_stage(_flow(run, large="queries"))["queries"][0].is_pooled


@given(cases(most_tokens=4))
@examples(2)
def test_the_flow_of_every_module_shows_its_numbers(case: Case) -> None:
    run = case.run()
    made = resolved(run, View(flow=True))
    for panel in _flow(run).panels:
        head = () if panel.head is None else (panel.head,)
        whole = run.trace.read(panel.stage, (*made.leading, *head))
        np.testing.assert_array_equal(panel.values, whole)


@pytest.mark.parametrize("limits", ColourLimits)
@pytest.mark.parametrize("curve", ColourCurve)
def test_transposed_keys_have_the_colours_of_the_keys(
    curve: ColourCurve, limits: ColourLimits
) -> None:
    flow = _by_stage(_flow(a_run(), colouring=ColourOptions(curve, limits)))
    for shown in filter(None, (one for pair in flow.values() for one in pair)):
        assert colour_indices(shown).shape == shown.values.shape
    above, keys = flow["masked"][1], flow["keys"][0]
    assert above is not None
    np.testing.assert_array_equal(colour_indices(above).T, colour_indices(keys))


def test_sums_of_rows_are_next_to_the_matrix_and_not_next_to_thumbnails() -> None:
    flow = _flow(a_run(dropout=0.5, dropout_seed=3))
    assert _by_stage(flow)["dropped"][0].sums is not None
    assert {one.sums is None for one in flow.thumbnails} == {True}


def test_thumbnails_of_a_long_text_are_drawn_with_the_first_picture() -> None:
    shot = long_shot(300, View(flow=True, room=128))
    made = resolved(shot.run, shot.view, shot.document)
    assert made.run.trace.is_blockwise
    assert not board_presenter.has_preview(made)
    board_presenter.draw_preview(made, lambda: False)
    assert board_presenter.has_preview(made)
    shown = present_board(made, Board()).flow
    assert shown is not None
    for head, one in enumerate(shown.thumbnails):
        seen = np.isfinite(one.values)
        assert seen.all()
        assert one.values[-1].max() <= made.run.trace.read("weights", (head,)).max()


def test_the_rows_of_a_zoomed_board_are_the_same_tokens_in_every_matrix() -> None:
    zoom = ZoomRange(range(1, 3), range(3, 6))
    view = View(flow=True, zoom=zoom)
    board = present_board(resolved(a_run("Your journey starts with one step"), view), Board())
    assert board.flow is not None
    assert {panel.rows.visible_range for panel in board.flow.panels} == {zoom.queries}
    keys = {
        operand.columns.visible_range
        for column, operand in zip(board.flow.columns, board.flow.operands, strict=True)
        if operand and column.is_operand_transposed
    }
    assert keys == {zoom.keys}
