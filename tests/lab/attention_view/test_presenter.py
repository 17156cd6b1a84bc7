"""The attention of a model in training is presented in panels, and cells are described."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.probe_results import a_reading
from visualizer.lab.attention_view.presenter import (
    ATTENTION_MISSING,
    NON_CAUSAL_NOTE,
    TEXT_REQUIRED,
    LabAttentionPanel,
    LabCellSelection,
    create_board,
    describe_cell,
    layer_head_index,
    present_attention,
    strongest_cell,
)
from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.language.training_settings import ModelKind
from visualizer.language.wire_format import Message, MessageUnpacker
from visualizer.session.cell_address import Cell
from visualizer.session.view_options import ColourLimits, ColourOptions

KNOWN = np.array([[0.1, 0.25], [0.938, 0.5]])


def shown(
    reading: ProbeResult | None, model: ModelKind = ModelKind.TRANSFORMER, **also: object
) -> LabAttentionPanel:
    return present_attention(reading, model, LabCellSelection(), **also)  # type: ignore[arg-type]


def test_a_result_contains_what_the_message_contains() -> None:
    made = a_reading(2, 3, 5, step=70, attending=np.full((2, 3), 0.5), cut=4)
    assert made.weights is not None
    assert made.partner_weights is not None
    arrays = {
        "weights": made.weights,
        "logits": made.logits,
        "mean_partner_weight": made.partner_weights,
    }
    sent = Message("read", {"id": 1, "step": 70, "tokens": list(made.tokens), "cut": 4}, arrays)
    (message,) = MessageUnpacker().unpack_piece(sent.pack())
    read = ProbeResult.of(message)
    assert (read.step, read.tokens, read.cut, read.layers, read.heads) == (
        70, made.tokens, 4, 2, 3,
    )  # fmt: skip
    assert read.weights is not None
    assert np.array_equal(read.weights, made.weights)
    assert np.array_equal(read.logits, made.logits)


def test_a_row_is_a_layer_and_a_column_is_a_head() -> None:
    reading = a_reading(3, 2, 6)
    board = create_board(reading, ModelKind.TRANSFORMER)
    assert reading.weights is not None
    assert [len(column) for column in board.columns] == [3, 3]
    for head, column in enumerate(board.columns):
        for layer, panel in enumerate(column):
            assert (panel.layer, panel.head) == (layer, head)
            assert (panel.label, panel.title) == (f"Layer {layer + 1}", f"Head {head + 1}")
            assert np.array_equal(panel.values, reading.weights[layer, head])
            assert (panel.rows.name, panel.columns.name) == ("query", "key")
            assert (panel.colour.low, panel.colour.high) == (0, 1)
            assert panel.sums is None


def test_later_keys_are_masked_except_for_the_average() -> None:
    reading = a_reading(1, 1, 4)
    (panel,) = create_board(reading, ModelKind.DOT_PRODUCT).heatmaps
    assert panel.forbidden is not None
    assert {tuple(at) for at in np.argwhere(panel.forbidden).tolist()} == {
        (query, key) for query in range(4) for key in range(4) if key > query
    }
    uniform = replace(reading, weights=np.full((1, 1, 4, 4), 0.25))
    found = shown(uniform, ModelKind.AVERAGE)
    assert found.board.heatmaps[0].forbidden is None
    assert found.notices == (NON_CAUSAL_NOTE,)


def test_a_model_without_attention_shows_a_message() -> None:
    found = shown(replace(a_reading(), weights=None), ModelKind.BIGRAM)
    assert found.message == ATTENTION_MISSING
    assert not found.board.heatmaps
    assert shown(None).message == "Computing attention…"


def test_scores_are_shown_and_the_best_head_is_marked() -> None:
    board = create_board(a_reading(attending=KNOWN), ModelKind.ATTENTION_ONLY)
    notes = {(panel.layer, panel.head): panel.notes for panel in board.heatmaps}
    words = {place: " ".join(note[0].split()) for place, note in notes.items()}
    assert words[1, 0] == "94%"
    assert words[0, 0] == "10%"
    assert [(one.layer, one.head) for one in board.heatmaps if one.is_marked] == [(1, 0)]
    assert len({len(note[0]) for note in notes.values()}) == 1
    assert {panel.unit for panel in board.heatmaps} == {"weights;  % on target"}


def test_the_largest_score_within_noise_is_not_marked() -> None:
    """For eight tokens, the score by chance is 0.34; a quarter of the distance to 1 is at 0.505."""
    for best, marked in ((0.2, []), (0.5, []), (0.51, [(0, 1)]), (1.0, [(0, 1)])):
        reading = a_reading(2, 2, 8, attending=np.array([[0.1, best], [np.nan, 0.15]]))
        panels = create_board(reading, ModelKind.ATTENTION_ONLY).heatmaps
        assert [(one.layer, one.head) for one in panels if one.is_marked] == marked


def test_unknown_scores_are_not_shown() -> None:
    unknown = a_reading(attending=np.full((2, 2), np.nan))
    board = create_board(unknown, ModelKind.ATTENTION_ONLY)
    assert not any(panel.notes or panel.is_marked for panel in board.heatmaps)
    assert {panel.unit for panel in board.heatmaps} == {"weights"}
    assert unknown.best_head is None


@given(st.integers(1, 30), st.integers(1, 12))
def test_cells_of_a_change_have_the_largest_magnitude_of_their_blocks(
    tokens: int, room: int
) -> None:
    now, before = a_reading(1, 2, tokens, step=9), a_reading(1, 2, tokens, step=2)
    assert now.weights is not None
    before = replace(before, weights=now.weights[:, ::-1])
    change = now.change_since(before)
    assert change is not None
    assert change.reference_step == 2
    for panel in create_board(change, ModelKind.TRANSFORMER, room).heatmaps:
        block, head = panel.rows.block, panel.head or 0
        own = now.weights[0, head] - now.weights[0, 1 - head]
        for (row, column), value in np.ndenumerate(panel.values):
            part = own[row * block : (row + 1) * block, column * block : (column + 1) * block]
            assert abs(value) == np.abs(part).max()
            assert value in part
        assert panel.colour.low == -panel.colour.high
    assert now.change_since(a_reading(1, 2, tokens + 1)) is None


def test_a_change_on_later_keys_is_not_masked() -> None:
    before, now = np.array([[0.4, 0.6], [0.5, 0.5]]), np.array([[0.7, 0.3], [0.5, 0.5]])
    results = [
        ProbeResult(step, ("a", "b"), np.empty((2, 0)), weights[None, None])
        for step, weights in enumerate((before, now))
    ]
    change = results[1].change_since(results[0])
    assert change is not None
    assert not change.is_causal


def test_omitted_tokens_are_reported() -> None:
    assert shown(a_reading(cut=1)).notices == (
        "The first token is omitted because the text is longer than the block.",
    )
    assert "3 tokens are" in shown(a_reading(cut=3)).notices[0]


def test_equal_inputs_give_the_same_board() -> None:
    reading = a_reading()
    before = shown(reading)
    pointed = present_attention(
        reading, ModelKind.TRANSFORMER, LabCellSelection(Cell("layer 1", (0, 3, 1))), before=before
    )
    assert pointed.board is before.board
    assert (pointed.cursor.query, pointed.cursor.key) == (3, 1)
    assert shown(a_reading(), before=before).board is not before.board


def test_the_colour_range_per_row_ends_at_the_row_maximum() -> None:
    reading = a_reading(2, 2, 6)
    board = create_board(
        reading, ModelKind.TRANSFORMER, 256, ColourOptions(limits=ColourLimits.ROW)
    )
    assert reading.weights is not None
    for panel in board.heatmaps:
        assert panel.ends is not None
        assert panel.layer is not None
        own = reading.weights[panel.layer, panel.head]
        assert np.array_equal(panel.ends, own.max(axis=1, keepdims=True))


@given(st.integers(1, 40), st.integers(1, 12))
def test_pooled_cells_are_the_maximum_of_their_blocks(tokens: int, room: int) -> None:
    reading = a_reading(1, 2, tokens)
    board = create_board(reading, ModelKind.TRANSFORMER, room)
    assert reading.weights is not None
    for panel in board.heatmaps:
        block, own = panel.rows.block, reading.weights[0, panel.head]
        assert max(panel.values.shape) <= room
        for (row, column), value in np.ndenumerate(panel.values):
            part = own[row * block : (row + 1) * block, column * block : (column + 1) * block]
            assert value == part.max()
            cell = Cell("layer 1", (panel.head or 0, row * block, column * block))
            query, key = strongest_cell(reading, board, cell).place[-2:]
            assert own[query, key] == value
            assert panel.forbidden is not None
            assert panel.forbidden[row, column] == (column > row)
        assert panel.is_pooled == any("largest of" in note for note in panel.notes)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), st.data())
def test_moving_the_pin_stays_on_the_board_and_reaches_the_next_layer(
    layers: int, heads: int, tokens: int, data: st.DataObject
) -> None:
    board = create_board(a_reading(layers, heads, tokens), ModelKind.TRANSFORMER)
    pointing = LabCellSelection()
    steps = st.sampled_from([(1, 0), (-1, 0), (0, 1), (0, -1)])
    for down, right in data.draw(st.lists(steps, max_size=30)):
        pointing = pointing.with_moved_pin(board, down, right)
        assert pointing.pinned is not None
        assert layer_head_index(board, pointing.pinned) is not None
    last = (
        LabCellSelection(pinned=Cell("layer 1", (0, tokens - 1, 0)))
        .with_moved_pin(board, 1, 0)
        .pinned
    )
    expected = Cell("layer 2", (0, 0, 0)) if layers > 1 else Cell("layer 1", (0, tokens - 1, 0))
    assert last == expected


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (Cell("layer 2", (0, 4, 1)), "weight 93% from query “b” (5) to “o” (2), layer 2, head 1"),
        (
            Cell("layer 1", (1, 1, 2)),
            "query “o” (2) cannot attend to “␣” (3), which comes later; layer 1, head 2",
        ),
        (Cell("layer 3", (0, 0, 0)), ""),
        (Cell("layer 1", (0, 8, 0)), ""),
    ],
)
def test_a_cell_is_described(cell: Cell, said: str) -> None:
    reading = a_reading()
    assert reading.weights is not None
    weights = reading.weights.copy()
    weights[1, 0, 4, 1] = 0.93
    words = ("t", "o", " ", "a", "b", "c", "d", "e")
    reading = replace(reading, weights=weights, tokens=words)
    assert describe_cell(reading, create_board(reading, ModelKind.TRANSFORMER), cell) == said


def test_nan_weights_are_reported() -> None:
    reading = a_reading(1, 1, 4)
    broken = replace(reading, weights=np.full((1, 1, 4, 4), np.nan, np.float32))
    found = present_attention(
        broken, ModelKind.TRANSFORMER, LabCellSelection(pinned=Cell("layer 1", (0, 2, 1)))
    )
    assert found.description == ("query “␣” (3) has no valid weights (NaN); layer 1, head 1")


def test_a_pooled_cell_describes_its_largest_weight() -> None:
    reading = a_reading(1, 1, 12)
    assert reading.weights is not None
    pointing = LabCellSelection(Cell("layer 1", (0, 8, 4)))
    found = present_attention(reading, ModelKind.TRANSFORMER, pointing, room=3)
    block = reading.weights[0, 0, 8:12, 4:8]
    query, key = (int(at) for at in np.unravel_index(block.argmax(), block.shape))
    assert (found.cursor.query, found.cursor.key) == (8 + query, 4 + key)
    assert f"({9 + query}) to" in found.description
    assert f"({5 + key}), layer 1" in found.description


def test_without_tokens_a_message_is_shown() -> None:
    empty = replace(a_reading(1, 1, 1), tokens=(), weights=np.zeros((1, 1, 0, 0)))
    assert shown(empty).message == TEXT_REQUIRED


def test_a_second_click_unpins() -> None:
    cell = Cell("layer 1", (0, 1, 0))
    pinned = LabCellSelection().with_toggled_pin(cell)
    assert pinned.pinned == cell
    assert pinned.with_hovered_cell(None).pinned == cell
    assert pinned.with_toggled_pin(cell).pinned is None
    assert pinned.with_toggled_pin(None).pinned is None
