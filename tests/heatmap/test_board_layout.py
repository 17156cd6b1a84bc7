"""Panels never overlap, cells are whole pixels, and a point maps to the cell drawn there."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QImage, QPainter

from tests.support.hand_made_panels import LOG, ROW_SCALE, a_board, a_heatmap
from visualizer.heatmap.board_layout import LARGEST_CELL, SMALLEST_SIDE, lay_out, room
from visualizer.heatmap.panel_and_board_types import Axis, Board, Heatmap
from visualizer.heatmap.panel_colour_scale import ColourScale
from visualizer.heatmap.panel_margins import BETWEEN, NARROWEST, RAMP, compact_scale
from visualizer.heatmap.panel_margins_paint import paint_notes, paint_own_ends
from visualizer.session.colour_options import ColourCurve, ColourLimits
from visualizer.widgets.fonts import metrics
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import BoardLayout, PanelSlot

pytestmark = pytest.mark.usefixtures("application")

RATIOS = st.sampled_from([1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 4 / 3])
WIDTHS = st.floats(200, 3000)
HEIGHTS = st.floats(100, 2000) | st.just(math.inf)
BOARDS = st.builds(
    a_board,
    stages=st.integers(1, 6),
    heads=st.integers(1, 5),
    tokens=st.integers(1, 40),
    columns=st.none() | st.integers(1, 80),
    notes=st.sampled_from([(), ("kept ×2",), ("kept ×2", "each cell: largest of 16 × 16")]),
    colour=st.sampled_from(ROW_SCALE),
    sums=st.none() | st.just(np.ones(1)),
)


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_panels_never_overlap(board: Board, width: float, height: float, ratio: float) -> None:
    layout = lay_out(board, width, height, ratio)
    assert len(layout.slots) == len(board.heatmaps)
    for one, other in itertools.combinations(layout.slots, 2):
        assert not one.whole.adjusted(0.01, 0.01, -0.01, -0.01).intersects(other.whole)
    for slot in layout.slots:
        assert slot.whole.contains(slot.cells)
        assert slot.whole.left() >= 0
        assert slot.whole.top() >= layout.head - 1 / ratio
        assert slot.whole.right() <= layout.width
        assert slot.whole.bottom() <= layout.height


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_cells_are_whole_pixels_of_the_screen(
    board: Board, width: float, height: float, ratio: float
) -> None:
    for slot in lay_out(board, width, height, ratio).slots:
        for length in (slot.cell_width, slot.cell_height, slot.cells.left(), slot.cells.top()):
            assert abs(length * ratio - round(length * ratio)) < 1e-6
        assert slot.cell_width * ratio >= 1 - 1e-6
        assert slot.cell_width <= LARGEST_CELL + 1e-6


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_cells_are_square_where_columns_are_tokens(
    board: Board, width: float, height: float, ratio: float
) -> None:
    slots = lay_out(board, width, height, ratio).slots
    for slot in slots:
        rows, columns = slot.heatmap.values.shape
        assert slot.cells.width() == pytest.approx(columns * slot.cell_width)
        assert slot.cells.height() == pytest.approx(rows * slot.cell_height)
        if slot.heatmap.columns.is_token:
            assert slot.cell_width == slot.cell_height
        else:
            few = NARROWEST / slot.heatmap.columns.seen.stop  # few columns are no sliver
            assert slot.cell_width <= max(slot.cell_height, few)
    assert len({slot.cell_height for slot in slots}) == 1


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS, st.data())
def test_a_cells_centre_finds_the_cell(
    board: Board, width: float, height: float, ratio: float, data: st.DataObject
) -> None:
    layout = lay_out(board, width, height, ratio)
    slot = data.draw(st.sampled_from(layout.slots))
    rows, columns = slot.heatmap.values.shape
    row, column = data.draw(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1)))
    centre = slot.cell(row, column).center()
    assert slot.at(centre) == (row, column)
    assert layout.slot_at(centre) is slot


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_the_outermost_edges_belong_to_the_outermost_cells(
    board: Board, width: float, height: float, ratio: float
) -> None:
    for slot in lay_out(board, width, height, ratio).slots:
        rows, columns = slot.heatmap.values.shape
        assert slot.at(slot.cells.topLeft()) == (0, 0)
        assert slot.at(slot.cells.bottomRight()) == (rows - 1, columns - 1)


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_beside_the_cells_there_is_no_cell(
    board: Board, width: float, height: float, ratio: float
) -> None:
    for slot in lay_out(board, width, height, ratio).slots:
        cells = slot.cells
        for point in (
            cells.topLeft() - cells.topLeft() / 1e3 - (cells.bottomRight() - cells.topLeft()),
            cells.bottomRight() * 1.5,
        ):
            assert slot.at(point) is None


# ---------------------------------------------------------------------------------- by example


def by_stage(layout: BoardLayout) -> dict[str, list[PanelSlot]]:
    found: dict[str, list[PanelSlot]] = {}
    for slot in layout.slots:
        found.setdefault(slot.heatmap.stage, []).append(slot)
    return found


def test_stages_are_columns_and_heads_are_rows() -> None:
    layout = lay_out(a_board(3, 2, 6), 1280, 800)
    for slots in by_stage(layout).values():
        assert len({slot.cells.left() for slot in slots}) == 1
        assert slots[0].cells.top() < slots[1].cells.top()
    first = [slots[0] for slots in by_stage(layout).values()]
    assert len({slot.cells.top() for slot in first}) == 1
    assert [slot.has_row_labels for slot in first] == [True, False, False]
    assert [head.left for head in layout.column_heads] == [slot.cells.left() for slot in first]


def test_one_stage_wraps_its_heads_into_a_grid() -> None:
    layout = lay_out(a_board(1, 6, 6), 1280, 800)
    assert 1 < len({slot.cells.left() for slot in layout.slots}) <= 6
    assert all(slot.has_row_labels for slot in layout.slots)
    assert len({(slot.cells.left(), slot.cells.top()) for slot in layout.slots}) == 6
    assert layout.width <= 1280


def test_panels_grow_with_the_window() -> None:
    sizes = [lay_out(a_board(3, 1, 8), width, 900).slots[0].cell_width for width in (800, 1600)]
    assert sizes[0] < sizes[1] <= LARGEST_CELL


def test_a_head_is_seen_whole_where_not_all_of_them_are() -> None:
    one, six = (lay_out(a_board(3, heads, 6), 2500, 700).slots for heads in (1, 6))
    assert one[0].whole.bottom() <= 700
    assert six[0].whole.bottom() <= 700
    assert six[-1].whole.bottom() > 700


def test_all_heads_are_seen_at_once_while_numbers_can_be_read() -> None:
    slots = lay_out(a_board(3, 3, 6), 1280, 800).slots
    assert slots[-1].whole.bottom() <= 800
    assert all(slot.numbers for slot in slots)


def test_keys_are_named_once_unless_they_differ() -> None:
    same = a_board(2, 3, 6)
    assert [slot.has_column_labels for slot in lay_out(same, 1280, 800).slots] == [
        *(True, True), *(False, False), *(False, False),
    ]  # fmt: skip
    other = tuple(
        replace(
            one,
            columns=replace(
                one.columns, labels=tuple("uvwxyz")[:number] + tuple("abcdef")[number:]
            ),
        )
        for number, one in enumerate(a_board(1, 3, 6).columns[0])
    )
    for columns in ((other,), (other, other)):
        assert all(slot.has_column_labels for slot in lay_out(Board(columns), 1280, 800).slots)


def test_notes_that_panels_share_stand_once_over_them() -> None:
    panels = a_board(2, 2, 6, notes=("kept ×2",)).columns
    shared = lay_out(Board(panels), 1280, 800)
    assert [head.notes for head in shared.column_heads] == [("kept ×2",)] * 2
    assert {slot.own_notes for slot in shared.slots} == {()}
    first = (panels[0][0], replace(panels[0][1], notes=("▲ 3 above",)))
    mixed = lay_out(Board((first, panels[1])), 1280, 800)
    assert [head.notes for head in mixed.column_heads] == [(), ("kept ×2",)]
    own = {slot.heatmap: slot.own_notes for slot in mixed.slots}
    assert [own[one] for one in first] == [("kept ×2",), ("▲ 3 above",)]


def test_few_columns_are_no_sliver() -> None:
    slots = lay_out(a_board(2, 8, 64, columns=2), 1280, 800).slots
    assert min(slot.cells.width() for slot in slots) >= NARROWEST


def test_side_by_side_until_they_could_not_be_read() -> None:
    wide = lay_out(a_board(3, 1, 12), 1280, 900)
    assert wide.width <= 1280
    narrow = lay_out(a_board(6, 1, 12), 500, 900)
    assert narrow.width > 500  # to be scrolled to
    assert narrow.slots[0].cells.width() >= SMALLEST_SIDE - 12


def test_pooled_cells_stand_for_their_first() -> None:
    board = a_board(1, 1, 4)
    heatmap = board.heatmaps[0]
    pooled = type(heatmap)(
        **{
            **{name: getattr(heatmap, name) for name in heatmap.__slots__},
            "rows": type(heatmap.rows)("query", tuple("abcdefgh"), 2),
            "columns": type(heatmap.columns)("key", tuple("abcdefgh"), 2),
        }
    )
    slot = lay_out(Board(((pooled,),)), 800, 600).slots[0]
    assert slot.cell(3, 6) == slot.cell(2, 7)
    assert slot.at(slot.cell(3, 6).center()) == (2, 6)


def test_a_heads_row_is_named_by_its_first_panel_with_heads() -> None:
    without, heads = a_board(1, 1, 6).columns[0][0], a_board(2, 3, 6).columns
    board = Board(((replace(without, stage="input", head=None, label=""),), *heads))
    first = [slot for slot in lay_out(board, 1280, 800).slots if slot.has_row_labels]
    assert [slot.heatmap.head for slot in first] == [None, 0, 1, 2]
    lefts = {slot.cells.left() for slot in first if slot.heatmap.head is not None}
    assert len(lefts) == 1
    assert min(lefts) > first[0].cells.right() + first[1].gutter


def test_nothing_takes_no_room() -> None:
    layout = lay_out(Board(), 1280, 800)
    assert (layout.slots, layout.width, layout.height) == ((), 0, 0)


def pooled(heatmap: Heatmap) -> Heatmap:
    """The same panel in blocks of two by two."""
    axes = {name: replace(getattr(heatmap, name), block=2) for name in ("rows", "columns")}
    return replace(heatmap, values=heatmap.values[::2, ::2], **axes)


@given(st.integers(1, 4), st.integers(1, 5), st.floats(1, 9999), HEIGHTS, RATIOS)
def test_room_is_whole_steps_and_does_not_depend_on_what_was_pooled(
    stages: int, heads: int, width: float, height: float, ratio: float
) -> None:
    board = a_board(stages, heads, 64)
    cells = room(board, width, height, ratio)
    assert cells % 8 == 0
    assert cells > 0
    smaller = Board(tuple(tuple(pooled(one) for one in column) for column in board.columns))
    assert cells == room(smaller, width, height, ratio)


@pytest.mark.parametrize(
    "colour",
    [
        *ROW_SCALE,
        LOG,
        ColourScale("CET-CBD1", ColourCurve.LINEAR, ColourLimits.SHARED, -2.69e-3, 2.69e-3),
        ColourScale("CET-CBD1", ColourCurve.LINEAR, ColourLimits.SHARED, -1.5e20, 1.5e20),
    ],
    ids=str,
)
def test_the_texts_of_a_scale_have_room(colour: ColourScale) -> None:
    layout = lay_out(Board(((a_heatmap([[0.5]], colour=colour),),)), 1280, 800)
    (head,) = layout.column_heads
    texts = [text for text in compact_scale(head.heatmap) if text]
    widths = [metrics(12).horizontalAdvance(text) + BETWEEN for text in texts]
    assert RAMP + sum(widths) <= head.width
    assert head.left + head.width <= layout.width


# ------------------------------------------------------------------------------------ of a part


def part_of(heatmap: Heatmap, first: float, share: float) -> Heatmap:
    """Look at some tokens of a panel, from one on."""

    def seen(axis: Axis) -> Axis:
        if not axis.is_token:
            return axis
        count = len(axis.labels)
        size = max(1, round(count * share))
        start = round((count - size) * first)
        return replace(axis, part=range(start, start + size))

    rows, columns = seen(heatmap.rows), seen(heatmap.columns)
    values = np.full((len(rows.seen), len(columns.seen)), 0.5, dtype=np.float32)
    return replace(heatmap, rows=rows, columns=columns, values=values)


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS, st.floats(0, 1), st.floats(0.01, 1))
def test_a_part_takes_no_more_room_than_the_whole(
    board: Board, width: float, height: float, ratio: float, first: float, share: float
) -> None:
    columns = (tuple(part_of(one, first, share) for one in column) for column in board.columns)
    whole = lay_out(board, width, height, ratio)
    part = lay_out(Board(tuple(columns)), width, height, ratio)
    assert part.width <= whole.width + 0.01
    for one, other in zip(part.slots, whole.slots, strict=True):
        assert one.cells.topLeft() == other.cells.topLeft()
        assert one.cells.height() == pytest.approx(other.cells.height())
        assert one.whole.width() <= other.whole.width() + 0.01
        rows, across = one.heatmap.values.shape
        assert one.cell_width * across == pytest.approx(one.cells.width())
        assert one.cell_height * rows == pytest.approx(one.cells.height())
        assert one.cells == other.cells


@pytest.mark.parametrize(
    "notes", [(), ("kept ×1.25",), ("largest: 0.1", "light hatch: A forbids it")]
)
def test_a_foot_has_room_for_letters_that_reach_below_the_line(notes: tuple[str, ...]) -> None:
    colour = ColourScale("viridis", ColourCurve.LINEAR, ColourLimits.PANEL, 0.0, 1.0)
    panels = (a_heatmap([[0.5]], notes=notes, colour=colour), a_heatmap([[0.5]], notes=("other",)))
    slot = lay_out(Board((panels,)), 1280, 800).slots[0]
    assert slot.own_notes == notes
    foot = slot.whole.bottom()
    image = QImage(1280, int(foot) + 40, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFF)
    painter = QPainter(image)
    paint_own_ends(painter, slot, LIGHT)
    paint_notes(painter, slot, LIGHT)
    painter.end()
    below = image.copy(0, math.ceil(foot), 1280, 30)
    assert {below.pixel(x, y) & 0xFFFFFF for x in range(1280) for y in range(30)} == {0xFFFFFF}
