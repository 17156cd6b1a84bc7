"""The flow board fits every canvas: nothing is cut or covered, and a token is one line."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from visualizer.attention.flow_columns import FlowPart
from visualizer.heatmap.flow_layout import (
    FOLD_LEVELS,
    LEGEND_GAP_PX,
    MAX_FOCUS_PX,
    MIN_LEGEND_PX,
    NUMBER_WIDTHS,
    SOURCE_WIDTHS,
    SPINE_PX,
    ColumnConstraints,
    FlowConstraints,
    FlowGeometry,
    lay_out_flow,
)
from visualizer.heatmap.flow_placement import MAX_LABEL_SHARE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.heatmap.flow_layout import Box

ROUNDING_PX = 1e-6
SMALLEST, LARGEST = (420, 380), (2560, 1440)


def _columns(
    tokens: int, d_model: int, d_head: int, heads: int, *, has_block: bool
) -> list[ColumnConstraints]:
    """Return the columns of a module or a block."""
    before, head, after = FlowPart
    model, inner = min(d_model, 60), min(d_head, 40)
    columns = [ColumnConstraints(model, before, 12, fold_level=2)]
    if has_block:
        columns.append(ColumnConstraints(model, before, 50, fold_level=2))
    columns += [
        ColumnConstraints(inner, head, 14, model, fold_level=0),
        ColumnConstraints(inner, head, 14, model, fold_level=6),
        ColumnConstraints(inner, head, 14, model, fold_level=6),
        ColumnConstraints(min(tokens, 64), head, 60, inner, is_query_key=True, is_source=True),
        ColumnConstraints(tokens, head, 66, is_query_key=True, is_focus=True),
        ColumnConstraints(inner, head, 62, min(tokens, 64), has_ribbons=True),
        ColumnConstraints(min(d_head * heads, 60), after, 54, fold_level=1),
        ColumnConstraints(model, after, 54, model, fold_level=3),
    ]
    if has_block:
        hidden = min(4 * d_model, 60)
        columns += [
            ColumnConstraints(model, after, 70, fold_level=3),
            ColumnConstraints(hidden, after, 58, model, fold_level=4),
            ColumnConstraints(model, after, 100, hidden, fold_level=4),
            ColumnConstraints(model, after, 50, fold_level=3),
        ]
    return columns


@st.composite
def boards(draw: st.DrawFn) -> tuple[list[ColumnConstraints], FlowConstraints]:
    """Generate a module and a canvas."""
    tokens, heads = draw(st.integers(1, 64)), draw(st.sampled_from([1, 2, 3, 4, 8, 12, 64]))
    d_head = draw(st.sampled_from([1, 2, 3, 8, 16, 64]))
    has_block = draw(st.booleans())
    columns = _columns(tokens, draw(st.integers(1, 64)), d_head, heads, has_block=has_block)
    size = FlowConstraints(
        width := draw(st.integers(SMALLEST[0], LARGEST[0])),
        draw(st.integers(SMALLEST[1], LARGEST[1])),
        tokens,
        heads,
        min(draw(st.floats(8, 120)), MAX_LABEL_SHARE * width),
        draw(st.floats(20, 72)),
        has_residual=has_block,
        scale=draw(st.sampled_from([1.0, 1.25, 1.5])),
    )
    return columns, size


def _boxes(layout: FlowGeometry) -> list[Box]:
    """Return everything that must not touch: cells, operands, labels and tabs."""
    shown = [column for column in layout.columns if not column.is_hidden]
    operands = [column.operand for column in shown if column.operand]
    legend = [layout.legend] if layout.legend.width else []
    cells = [column.cells for column in shown]
    return [*cells, *operands, layout.row_labels, *layout.tabs.boxes, *legend]


def _overlaps(one: Box, other: Box) -> bool:
    return (
        one.left < other.right - ROUNDING_PX
        and other.left < one.right - ROUNDING_PX
        and one.top < other.bottom - ROUNDING_PX
        and other.top < one.bottom - ROUNDING_PX
    )


@given(boards())
@examples(8)
def test_everything_is_on_the_canvas_and_nothing_covers_another(
    board: tuple[list[ColumnConstraints], FlowConstraints],
) -> None:
    columns, size = board
    layout = lay_out_flow(tuple(columns), size)
    for box in _boxes(layout):
        assert box.left >= -ROUNDING_PX
        assert box.right <= size.width + ROUNDING_PX
    for one, other in itertools.combinations(_boxes(layout), 2):
        assert not _overlaps(one, other)


@given(boards())
@examples(3)
def test_a_token_is_one_horizontal_line(
    board: tuple[list[ColumnConstraints], FlowConstraints],
) -> None:
    layout = lay_out_flow(tuple(board[0]), board[1])
    tops = {column.cells.top for column in layout.columns}
    heights = {column.cells.height for column in layout.columns}
    assert len(tops) == len(heights) == 1
    assert layout.row_labels.top in tops


@given(boards())
@examples(3)
def test_an_operand_is_exactly_above_its_columns(
    board: tuple[list[ColumnConstraints], FlowConstraints],
) -> None:
    layout = lay_out_flow(tuple(board[0]), board[1])
    for placed, column in zip(layout.columns, board[0], strict=True):
        if placed.operand:
            assert placed.operand.left == placed.cells.left
            assert placed.operand.width == pytest.approx(placed.cell_width * column.cells)
            assert placed.operand.bottom < placed.cells.top


@given(boards())
@examples(3)
def test_the_head_in_front_and_its_operands_never_become_spines(
    board: tuple[list[ColumnConstraints], FlowConstraints],
) -> None:
    layout = lay_out_flow(tuple(board[0]), board[1])
    for placed, column in zip(layout.columns, board[0], strict=True):
        if not column.fold_level:
            assert not placed.is_spine
            assert placed.cells.width > 0
    tabs = layout.tabs
    if board[1].heads == 1:
        assert tabs.boxes == ()
    else:
        assert tabs.all_heads
        assert len(tabs.heads) == board[1].heads or (tabs.heads and len(tabs.turns) == 2)


def test_a_change_of_focus_changes_only_widths() -> None:
    columns, size = _columns(12, 16, 4, 4, has_block=False), FlowConstraints(960, 660, 12, 4, 60)
    others = [
        ColumnConstraints(
            one.cells, one.part, one.title_width, one.operand_rows, one.is_query_key,
            at == 6, at == 5, one.fold_level, one.has_ribbons,
        )
        for at, one in enumerate(columns)
    ]  # fmt: skip
    first, second = lay_out_flow(tuple(columns), size), lay_out_flow(tuple(others), size)
    assert first.row_height == second.row_height
    assert first.rows_top == second.rows_top
    focus = next(at for at, one in enumerate(columns) if one.is_focus)
    assert first.columns[focus].cell_width > second.columns[focus].cell_width
    assert second.columns[6].cell_width > first.columns[6].cell_width


def _sacrifices(layout: FlowGeometry) -> int:
    return sum(column.is_spine for column in layout.columns)


def test_a_narrower_canvas_never_has_fewer_sacrifices() -> None:
    columns = tuple(_columns(12, 16, 4, 4, has_block=True))
    counts = [
        _sacrifices(
            lay_out_flow(tuple(columns), FlowConstraints(width, 700, 12, 4, 60, has_residual=True))
        )
        for width in range(500, 2400, 100)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert counts[0] > 0


def test_a_wide_canvas_shows_all_numbers_of_a_short_sentence() -> None:
    layout = lay_out_flow(
        tuple(_columns(6, 3, 2, 1, has_block=False)), FlowConstraints(1580, 930, 6, 1, 60)
    )
    assert min(column.cell_width for column in layout.columns) >= 38
    assert max(column.cell_width for column in layout.columns) <= MAX_FOCUS_PX


def test_a_laptop_shows_the_numbers_of_the_focus_and_of_its_source() -> None:
    columns = _columns(6, 3, 2, 2, has_block=False)[:-1]  # without an output projection
    layout = lay_out_flow(tuple(columns), FlowConstraints(945, 614, 6, 2, 60))
    for placed, column in zip(layout.columns, columns, strict=True):
        if column.is_focus or column.is_source:
            assert placed.cell_width >= (NUMBER_WIDTHS[0] if column.is_focus else SOURCE_WIDTHS[-1])
        assert not placed.is_spine


def test_a_low_window_has_room_for_both_colour_scales() -> None:
    columns = _columns(6, 3, 2, 2, has_block=False)
    legend = lay_out_flow(tuple(columns), FlowConstraints(800, 414, 6, 2, 60)).legend
    assert legend.width >= 2 * MIN_LEGEND_PX + LEGEND_GAP_PX


def test_a_folded_column_has_the_width_of_a_spine() -> None:
    columns = _columns(40, 16, 4, 4, has_block=True)
    layout = lay_out_flow(tuple(columns), FlowConstraints(700, 700, 40, 4, 60, has_residual=True))
    spines = [placed for placed in layout.columns if placed.is_spine and not placed.is_hidden]
    assert spines
    assert {round(placed.cells.width, 6) for placed in spines} == {SPINE_PX}
    assert len(FOLD_LEVELS) > max(column.fold_level for column in columns)


def _widest(layout: FlowGeometry, columns: Sequence[ColumnConstraints]) -> ColumnConstraints:
    at = max(range(len(columns)), key=lambda at: layout.columns[at].cells.width)
    return columns[at]


@pytest.mark.parametrize("tokens", [12, 24, 64])
def test_the_matrix_in_focus_is_the_widest(tokens: int) -> None:
    columns = _columns(tokens, 16, 4, 4, has_block=False)
    layout = lay_out_flow(tuple(columns), FlowConstraints(1264, 900, tokens, 4, 60))
    assert _widest(layout, columns).is_focus
