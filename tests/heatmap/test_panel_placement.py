"""Panels never overlap, cells are whole pixels, and a point maps to the cell drawn there."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QImage, QPainter

from tests.support.examples import examples
from tests.support.hand_made_panels import LOG, ROW_SCALE, SIGNED, UNIT, a_board, a_heatmap, axis
from visualizer.heatmap import panel_placement
from visualizer.heatmap.board import Board, Heatmap, HeatmapAxis
from visualizer.heatmap.board_arrangement import (
    MAX_CELL_PX,
    MIN_SIDE_PX,
    BoardArranger,
    BoardMetrics,
)
from visualizer.heatmap.board_layout import TitlePlacement
from visualizer.heatmap.panel_colour_scale import ColourScale
from visualizer.heatmap.panel_margins import (
    MIN_GUTTER_PX,
    MIN_RAMP_PX,
    RAMP_MARGIN_PX,
    format_compact_scale,
    head_label_width,
    panel_title_width,
)
from visualizer.heatmap.panel_margins_paint import (
    are_labels_vertical,
    elide_label,
    label_font_size,
    paint_notes,
    paint_own_scale,
    shows_positions,
    visible_column_labels,
    visible_labels,
)
from visualizer.heatmap.panel_placement import lay_out_board
from visualizer.session.view_options import ColourCurve, ColourLimits
from visualizer.widgets.fonts import font_metrics
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
    layout = lay_out_board(board, width, height, ratio)
    assert len(layout.slots) == len(board.heatmaps)
    for one, other in itertools.combinations(layout.slots, 2):
        assert not one.whole_area.adjusted(0.01, 0.01, -0.01, -0.01).intersects(other.whole_area)
    for slot in layout.slots:
        assert slot.whole_area.contains(slot.cells)
        assert slot.whole_area.left() >= 0
        assert slot.whole_area.top() >= layout.head - 1 / ratio
        assert slot.whole_area.right() <= layout.width
        assert slot.whole_area.bottom() <= layout.height


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_cells_measure_whole_screen_pixels(
    board: Board, width: float, height: float, ratio: float
) -> None:
    for slot in lay_out_board(board, width, height, ratio).slots:
        for length in (slot.cell_width, slot.cell_height, slot.cells.left(), slot.cells.top()):
            assert abs(length * ratio - round(length * ratio)) < 1e-6
        assert slot.cell_width * ratio >= 1 - 1e-6
        if slot.heatmap.columns.is_token:
            assert slot.cell_width <= MAX_CELL_PX + 1e-6


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_cells_are_square_if_columns_are_tokens(
    board: Board, width: float, height: float, ratio: float
) -> None:
    slots = lay_out_board(board, width, height, ratio).slots
    for slot in slots:
        rows, columns = slot.heatmap.values.shape
        assert slot.cells.width() == pytest.approx(columns * slot.cell_width)
        assert slot.cells.height() == pytest.approx(rows * slot.cell_height)
        if slot.heatmap.columns.is_token:
            assert slot.cell_width == slot.cell_height
        else:
            assert slot.cell_width <= max(64.0, 96.0 / columns)
            assert slot.cells.width() >= MIN_GUTTER_PX - columns / ratio  # not too narrow
    assert len({slot.cell_height for slot in slots}) == 1


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS, st.data())
def test_a_cell_is_found_at_its_centre(
    board: Board, width: float, height: float, ratio: float, data: st.DataObject
) -> None:
    layout = lay_out_board(board, width, height, ratio)
    slot = data.draw(st.sampled_from(layout.slots))
    rows, columns = slot.heatmap.values.shape
    row, column = data.draw(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1)))
    centre = slot.cell_area(row, column).center()
    assert slot.row_column_at(centre) == (row, column)
    assert layout.slot_at(centre) is slot


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_the_outermost_edges_belong_to_the_outermost_cells(
    board: Board, width: float, height: float, ratio: float
) -> None:
    for slot in lay_out_board(board, width, height, ratio).slots:
        rows, columns = slot.heatmap.values.shape
        assert slot.row_column_at(slot.cells.topLeft()) == (0, 0)
        assert slot.row_column_at(slot.cells.bottomRight()) == (rows - 1, columns - 1)


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS)
def test_no_cell_is_found_outside_the_cells(
    board: Board, width: float, height: float, ratio: float
) -> None:
    for slot in lay_out_board(board, width, height, ratio).slots:
        cells = slot.cells
        for point in (
            cells.topLeft() - cells.topLeft() / 1e3 - (cells.bottomRight() - cells.topLeft()),
            cells.bottomRight() * 1.5,
        ):
            assert slot.row_column_at(point) is None


# ------------------------------------------------------------------------------- random windows

KINDS = ("input", "square", "features", "output")
WINDOWS = st.tuples(st.integers(300, 2600), st.integers(250, 1500))


class Sketch(NamedTuple):
    """A board as the program creates it: stages with and without heads, for any text."""

    heads: int
    tokens: int
    word: str
    stages: list[tuple[str, int, str, bool]]
    """For each stage: kind, number of columns without tokens, title, and whether it is signed."""

    def board(self) -> Board:
        stages = sorted(self.stages, key=lambda stage: KINDS.index(stage[0]))
        return Board(tuple(self._column(at, *stage) for at, stage in enumerate(stages)))

    def _column(
        self, at: int, kind: str, size: int, title: str, is_signed: bool
    ) -> tuple[Heatmap, ...]:
        across = axis("key", self.tokens, word=self.word)
        if kind != "square":
            across = axis("d_head", size, word="")
        panel = a_heatmap(
            np.full((self.tokens, len(across.labels)), 0.5),
            stage=f"{kind}{at}",
            title=title,
            rows=axis("query", self.tokens, word=self.word),
            columns=across,
            colour=SIGNED if is_signed else UNIT,
        )
        if kind in {"input", "output"}:
            return (replace(panel, head=None, label=""),)
        heads = range(self.heads)
        return tuple(replace(panel, head=head, label=f"Head {head + 1}") for head in heads)


SKETCHES = st.builds(
    Sketch,
    st.integers(1, 12),
    st.sampled_from((1, 2, 6, 12, 13, 64, 300)),
    st.sampled_from(("w", "word", "a very long token that is cut ")),
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.integers(1, 40),
            st.sampled_from(("Q", "Weights", "Scaled scores")),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
)


def pooled_to(board: Board, room: int) -> Board:
    """Pool panels that have more rows or columns than fit."""

    def fitted(one: Heatmap) -> Heatmap:
        blocks = [-(-len(side.labels) // room) for side in (one.rows, one.columns)]
        values = one.values[:: blocks[0], :: blocks[1]]
        rows, columns = (
            replace(side, block=block)
            for side, block in zip((one.rows, one.columns), blocks, strict=True)
        )
        return replace(one, values=values, rows=rows, columns=columns, side=values.shape)

    return Board(tuple(tuple(map(fitted, column)) for column in board.columns))


def texts(slot: PanelSlot) -> list[QRectF]:
    """Return the areas of all texts around a panel's cells."""
    found = []
    if slot.has_row_labels:
        small = label_font_size(slot.heatmap.rows, slot.cell_height)
        widths = (font_metrics(small).horizontalAdvance(elide_label(one, slot.longest, small))
                  for _, one in visible_labels(slot.heatmap.rows, slot.cell_height))  # fmt: skip
        widest = max(widths, default=0)
        found.append(
            QRectF(slot.cells.left() - 8 - widest, slot.cells.top(), widest, slot.cells.height())
        )
    if slot.has_column_labels:
        upright = are_labels_vertical(slot) and not shows_positions(
            slot.heatmap.columns, slot.cell_width
        )
        label = label_font_size(slot.heatmap.columns, slot.cell_width)
        for at, one in visible_column_labels(slot):
            wide = font_metrics(label).horizontalAdvance(elide_label(one, slot.longest, label))
            line = font_metrics(label).ascent()
            size = (line, wide) if upright else (wide, line)
            cell = slot.heatmap.columns.cell_index_of(at)
            left = slot.cells.left() + (cell + 0.5) * slot.cell_width - size[0] / 2
            found.append(QRectF(left, slot.cells.top() - 4 - size[1], *size))
    if slot.head_at:
        corner = slot.cells.topLeft() + QPointF(*slot.head_at)
        wide = head_label_width(slot.heatmap, slot.is_head_short)
        found.append(QRectF(corner.x(), corner.y() + 3, wide, 12))
    if slot.title in {TitlePlacement.OWN, TitlePlacement.LINE}:
        is_line = slot.title is TitlePlacement.LINE
        wide = panel_title_width(slot.heatmap) if is_line else slot.column_header.width
        top = slot.cells.top() - 20 if is_line else slot.whole_area.top()
        found.append(QRectF(slot.cells.left(), top, wide, 16 if is_line else 36))
    return found


def faults(sketch: Sketch, window: tuple[int, int], ratio: float) -> list[tuple[QRectF, ...]]:
    """Return the texts and panels that are cut, and those that overlap others."""
    board = sketch.board()
    layout = lay_out_board(board, *window, ratio, is_paged=True)
    for _ in range(3):  # notes on pooling also need room
        layout = lay_out_board(pooled_to(board, layout.room), *window, ratio, is_paged=True)
    assert layout.placed_panels
    page = layout.placed_panels.page
    if page is None and (layout.width > window[0] or layout.height > window[1]):
        return []  # no room for the smallest one: the board scrolls
    height = page or window[1]
    by_page: dict[int, list[QRectF]] = {}
    for slot in layout.slots:
        number = int(slot.cells.top() // height)
        parts = [*texts(slot), slot.cells]
        if slot.title is TitlePlacement.PINNED:
            head = slot.column_header
            parts.append(QRectF(head.left, number * height, head.width, layout.head))
        by_page.setdefault(number, []).extend(parts)
    found: list[tuple[QRectF, ...]] = []
    for number, parts in by_page.items():
        seen = QRectF(0, number * height, window[0], height).adjusted(-0.5, -0.5, 0.5, 0.5)
        found += [(part,) for part in parts if not seen.contains(part)]
        found += [
            (one, other)
            for one, other in itertools.combinations(parts, 2)
            if one.adjusted(0.6, 0.6, -0.6, -0.6).intersects(other)
        ]
    return found


ANY_WINDOW = given(SKETCHES, WINDOWS, st.sampled_from([1.0, 1.25, 2.0]))


@ANY_WINDOW
def test_texts_are_neither_cut_nor_overlapping_in_any_window(
    sketch: Sketch, window: tuple[int, int], ratio: float
) -> None:
    assert faults(sketch, window, ratio) == []


@pytest.mark.slow
@examples(20)  # 4,000 before a release
@ANY_WINDOW
def test_texts_are_never_cut_in_thousands_of_windows(
    sketch: Sketch, window: tuple[int, int], ratio: float
) -> None:
    assert faults(sketch, window, ratio) == []


@examples(1)
@given(SKETCHES, WINDOWS, st.sampled_from([1.0, 1.25, 2.0]), st.data())
def test_panels_are_as_large_as_possible_in_any_window(
    sketch: Sketch, window: tuple[int, int], ratio: float, data: st.DataObject
) -> None:
    """Compare the arrangement with an exhaustive search over all sizes."""
    measures = BoardMetrics(sketch.board(), *window, ratio)
    arranger = BoardArranger(measures)
    chosen = arranger.best_arrangement
    candidates = [*arranger.candidate_arrangements(chosen.heads)]
    other, worth = data.draw(st.sampled_from(candidates))
    sizes = [one for one in measures.panel_sides() if measures.fits(other, one, window[1])]
    side = data.draw(st.sampled_from(measures.panel_sides()))
    assert measures.arrangement_height(other, side) == pytest.approx(
        measures.cell_top_edges(other, side)[1]
    )
    for band in other.bands:
        wide = measures.cell_left_edges(other, band, side)[1]
        assert measures.band_width(other, band, side) == pytest.approx(wide)
    own = next(
        worth
        for one, worth in candidates
        if (one.bands, one.groups, one.longest) == (chosen.bands, chosen.groups, chosen.longest)
    )
    assert chosen.side * own >= max(sizes, default=0) * worth - 1e-6


# ---------------------------------------------------------------------------------- by example


def by_stage(layout: BoardLayout) -> dict[str, list[PanelSlot]]:
    found: dict[str, list[PanelSlot]] = {}
    for slot in layout.slots:
        found.setdefault(slot.heatmap.stage, []).append(slot)
    return found


def test_stages_are_columns_and_heads_are_rows() -> None:
    layout = lay_out_board(a_board(3, 2, 6), 1280, 800)
    for slots in by_stage(layout).values():
        assert len({slot.cells.left() for slot in slots}) == 1
        assert slots[0].cells.top() < slots[1].cells.top()
    first = [slots[0] for slots in by_stage(layout).values()]
    assert len({slot.cells.top() for slot in first}) == 1
    assert [slot.has_row_labels for slot in first] == [True, False, False]
    assert [head.left for head in layout.column_headers] == [slot.cells.left() for slot in first]


def test_one_stage_wraps_its_heads_into_a_grid() -> None:
    layout = lay_out_board(a_board(1, 6, 6), 1280, 800, is_paged=True)
    lefts = sorted({slot.cells.left() for slot in layout.slots})
    assert 1 < len(lefts) < 6
    named = [slot for slot in layout.slots if slot.has_row_labels]
    assert {slot.cells.left() for slot in named} == {lefts[0]}
    assert len({(slot.cells.left(), slot.cells.top()) for slot in layout.slots}) == 6
    assert all(slot.head_at for slot in layout.slots)
    assert len(layout.column_headers) == 1
    (head,) = layout.column_headers
    assert head.left + head.width == max(slot.cells.right() for slot in layout.slots)
    order = sorted(layout.slots, key=lambda slot: (slot.cells.top(), slot.cells.left()))
    assert [slot.heatmap.head for slot in order] == [*range(6)]  # right, then down
    assert layout.width <= 1280


def test_panels_grow_with_the_window() -> None:
    sizes = [
        lay_out_board(a_board(3, 1, 8), width, 900).slots[0].cell_width for width in (800, 1600)
    ]
    assert sizes[0] < sizes[1] <= MAX_CELL_PX


def test_heads_that_do_not_fit_are_on_further_pages() -> None:
    layout = lay_out_board(a_board(3, 6, 12), 800, 640, is_paged=True)
    page = layout.placed_panels.page if layout.placed_panels else None
    assert page == 640
    pages = [int(slot.cells.top() // page) for slot in layout.slots]
    assert max(pages) >= 1
    assert layout.height == (max(pages) + 1) * page
    for number in set(pages):  # the same on all pages
        places = {
            (slot.cells.left(), slot.cells.top() - number * page)
            for slot, at in zip(layout.slots, pages, strict=True)
            if at == number
        }
        assert places <= {
            (slot.cells.left(), slot.cells.top())
            for slot, at in zip(layout.slots, pages, strict=True)
            if at == 0
        }
    for slot, at in zip(layout.slots, pages, strict=True):
        assert slot.whole_area.bottom() <= (at + 1) * page
        assert slot.has_column_labels == any(
            other.cells.top() == slot.cells.top() and other.has_column_labels
            for other in layout.slots
        )


def test_stages_wrap_into_bands_if_that_makes_cells_larger() -> None:
    layout = lay_out_board(a_board(4, 1, 8), 700, 900, is_paged=True)
    assert len({slot.cells.top() for slot in layout.slots}) == 2
    below = [slot for slot in layout.slots if slot.title is TitlePlacement.OWN]
    assert len(below) == 2
    assert all(slot.has_column_labels for slot in layout.slots)


def test_groups_of_heads_are_side_by_side_in_a_wide_window() -> None:
    layout = lay_out_board(a_board(3, 8, 64, columns=2), 1373, 933, is_paged=True)
    first = [slot for slot in layout.slots if slot.heatmap.stage == "stage0"]
    assert len({slot.cells.left() for slot in first}) == 2
    tops = [slot.cells.top() for slot in sorted(first, key=lambda slot: slot.heatmap.head or 0)]
    assert tops[:4] == sorted(tops[:4]) == tops[4:]  # down, then right
    assert len(layout.column_headers) == 6


def test_the_arrangement_stays_unless_another_is_one_and_a_half_times_as_good() -> None:
    board = a_board(4, 1, 8)
    wide = lay_out_board(board, 1400, 900, is_paged=True)
    assert wide.placed_panels
    assert len(wide.placed_panels.arrangement.bands) == 1
    kept = lay_out_board(board, 980, 900, present=wide.placed_panels.arrangement, is_paged=True)
    anew = lay_out_board(board, 980, 900, is_paged=True)
    assert kept.placed_panels
    assert anew.placed_panels
    assert len(kept.placed_panels.arrangement.bands) == 1
    assert len(anew.placed_panels.arrangement.bands) == 2
    left = lay_out_board(board, 500, 900, present=wide.placed_panels.arrangement, is_paged=True)
    assert left.placed_panels
    assert len(left.placed_panels.arrangement.bands) > 1


def test_neighbouring_stages_without_heads_share_a_column() -> None:
    heads = a_board(2, 3, 6).columns
    one = replace(a_board(1, 1, 6, columns=4).columns[0][0], head=None, label="")
    board = Board((*heads, (replace(one, stage="concat"),), (replace(one, stage="output"),)))
    layout = lay_out_board(board, 1280, 800, is_paged=True)
    concat, output = (
        next(slot for slot in layout.slots if slot.heatmap.stage == name)
        for name in ("concat", "output")
    )
    assert concat.cells.left() == output.cells.left()
    assert concat.cells.top() < output.cells.top()
    assert (concat.title, output.title) == (TitlePlacement.PINNED, TitlePlacement.LINE)
    second = next(slot for slot in layout.slots if slot.heatmap.head == 1)
    assert output.cells.top() == second.cells.top()  # level with the second head


def test_all_heads_are_visible_while_numbers_are_readable() -> None:
    slots = lay_out_board(a_board(3, 3, 6), 1280, 800).slots
    assert slots[-1].whole_area.bottom() <= 800
    assert all(slot.numbers for slot in slots)


def test_keys_are_labelled_once_unless_they_differ() -> None:
    same = a_board(2, 3, 6)
    assert [slot.has_column_labels for slot in lay_out_board(same, 700, 1300).slots] == [
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
        assert all(
            slot.has_column_labels for slot in lay_out_board(Board(columns), 1280, 800).slots
        )


def test_shared_notes_appear_once_above_the_panels() -> None:
    panels = a_board(2, 2, 6, notes=("kept ×2",)).columns
    shared = lay_out_board(Board(panels), 1280, 800)
    assert [head.notes for head in shared.column_headers] == [("kept ×2",)] * 2
    assert {slot.panel_notes for slot in shared.slots} == {()}
    first = (panels[0][0], replace(panels[0][1], notes=("◥ 3 above",)))
    mixed = lay_out_board(Board((first, panels[1])), 1280, 800)
    assert [head.notes for head in mixed.column_headers] == [(), ("kept ×2",)]
    own = {slot.heatmap: slot.panel_notes for slot in mixed.slots}
    assert [own[one] for one in first] == [("kept ×2",), ("◥ 3 above",)]


def test_panels_with_few_columns_are_not_too_narrow() -> None:
    slots = lay_out_board(a_board(2, 8, 64, columns=2), 1280, 800).slots
    assert min(slot.cells.width() for slot in slots) >= MIN_GUTTER_PX


def test_panels_without_room_are_scrolled_to() -> None:
    narrow = lay_out_board(a_board(6, 1, 12), 150, 120, is_paged=True)
    assert narrow.height > 120
    assert narrow.slots[0].cells.width() >= MIN_SIDE_PX


def test_a_pooled_cell_is_found_as_the_first_cell_of_its_block() -> None:
    board = a_board(1, 1, 4)
    heatmap = board.heatmaps[0]
    pooled = type(heatmap)(
        **{
            **{name: getattr(heatmap, name) for name in heatmap.__struct_fields__},
            "rows": type(heatmap.rows)("query", tuple("abcdefgh"), 2),
            "columns": type(heatmap.columns)("key", tuple("abcdefgh"), 2),
        }
    )
    slot = lay_out_board(Board(((pooled,),)), 800, 600).slots[0]
    assert slot.cell_area(3, 6) == slot.cell_area(2, 7)
    assert slot.row_column_at(slot.cell_area(3, 6).center()) == (2, 6)


def test_the_first_panel_with_heads_has_the_head_label() -> None:
    without, heads = a_board(1, 1, 6).columns[0][0], a_board(2, 3, 6).columns
    board = Board(((replace(without, stage="input", head=None, label=""),), *heads))
    slots = lay_out_board(board, 1280, 1300).slots
    rows = [slot.heatmap.head for slot in slots if slot.has_row_labels]
    assert rows == [None, 1, 2]  # next to the input, and where it does not continue
    whose = [slot for slot in slots if slot.head_at]
    assert [slot.heatmap.head for slot in whose] == [0, 1, 2]
    assert len({slot.cells.left() for slot in whose}) == 1


def test_an_empty_board_needs_no_room() -> None:
    layout = lay_out_board(Board(), 1280, 800)
    assert (layout.slots, layout.width, layout.height) == ((), 0, 0)


def pooled(heatmap: Heatmap) -> Heatmap:
    """Return the same panel in blocks of 2 × 2."""
    axes = {name: replace(getattr(heatmap, name), block=2) for name in ("rows", "columns")}
    return replace(heatmap, values=heatmap.values[::2, ::2], **axes)


@given(st.integers(1, 4), st.integers(1, 5), st.floats(1, 9999), HEIGHTS, RATIOS)
def test_room_does_not_depend_on_pooling(
    stages: int, heads: int, width: float, height: float, ratio: float
) -> None:
    board = a_board(stages, heads, 64)
    cells = lay_out_board(board, width, height, ratio, is_paged=height < math.inf).room
    smaller = Board(tuple(tuple(pooled(one) for one in column) for column in board.columns))
    again = lay_out_board(smaller, width, height, ratio, is_paged=height < math.inf)
    assert 0 < cells == again.room


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
def test_there_is_room_for_the_texts_of_a_scale(colour: ColourScale) -> None:
    layout = lay_out_board(Board(((a_heatmap([[0.5]], colour=colour),),)), 1280, 800)
    (head,) = layout.column_headers
    texts = [text for text in format_compact_scale(head.heatmap) if text]
    widths = [font_metrics(12).horizontalAdvance(text) + RAMP_MARGIN_PX for text in texts]
    assert MIN_RAMP_PX + sum(widths) <= head.width
    assert head.left + head.width <= layout.width


# ------------------------------------------------------------------------------------ zoomed


def part_of(heatmap: Heatmap, first: float, share: float) -> Heatmap:
    """Return the panel with only some of its tokens visible, starting at a given one."""

    def seen(axis: HeatmapAxis) -> HeatmapAxis:
        if not axis.is_token:
            return axis
        count = len(axis.labels)
        size = max(1, round(count * share))
        start = round((count - size) * first)
        return replace(axis, part=range(start, start + size))

    rows, columns = seen(heatmap.rows), seen(heatmap.columns)
    values = np.full((len(rows.visible_range), len(columns.visible_range)), 0.5, dtype=np.float32)
    return replace(heatmap, rows=rows, columns=columns, values=values)


@given(BOARDS, WIDTHS, HEIGHTS, RATIOS, st.floats(0, 1), st.floats(0.01, 1))
def test_a_zoomed_panel_needs_no_more_room_than_the_whole_panel(
    board: Board, width: float, height: float, ratio: float, first: float, share: float
) -> None:
    columns = (tuple(part_of(one, first, share) for one in column) for column in board.columns)
    whole = lay_out_board(board, width, height, ratio)
    part = lay_out_board(Board(tuple(columns)), width, height, ratio)
    assert part.width <= whole.width + 0.01
    for one, other in zip(part.slots, whole.slots, strict=True):
        assert one.cells.topLeft() == other.cells.topLeft()
        assert one.cells.height() == pytest.approx(other.cells.height())
        assert one.whole_area.width() <= other.whole_area.width() + 0.01
        rows, across = one.heatmap.values.shape
        assert one.cell_width * across == pytest.approx(one.cells.width())
        assert one.cell_height * rows == pytest.approx(one.cells.height())
        assert one.cells == other.cells


@pytest.mark.parametrize(
    "notes", [(), ("kept ×1.25",), ("largest: 0.1", "light hatching: forbidden in A only")]
)
def test_the_footer_has_room_for_descenders(notes: tuple[str, ...]) -> None:
    colour = ColourScale("viridis", ColourCurve.LINEAR, ColourLimits.PANEL, 0.0, 1.0)
    panels = (a_heatmap([[0.5]], notes=notes, colour=colour), a_heatmap([[0.5]], notes=("other",)))
    slot = lay_out_board(Board((panels,)), 1280, 800).slots[0]
    assert slot.panel_notes == notes
    foot = slot.whole_area.bottom()
    image = QImage(1280, int(foot) + 40, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFF)
    painter = QPainter(image)
    paint_own_scale(painter, slot, LIGHT)
    paint_notes(painter, slot, LIGHT)
    painter.end()
    below = image.copy(0, math.ceil(foot), 1280, 30)
    assert {below.pixel(x, y) & 0xFFFFFF for x in range(1280) for y in range(30)} == {0xFFFFFF}


def test_another_thread_may_drop_cached_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel_placement, "MAX_CACHED_LAYOUTS", 1)
    board, widths = a_board(stages=1, heads=1, tokens=2), (400, 500, 600)
    expected = {width: lay_out_board(board, width, 300).slots[0].whole_area for width in widths}

    def lay_out(width: int) -> bool:
        return lay_out_board(board, width, 300).slots[0].whole_area == expected[width]

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lay_out, widths * 200))
