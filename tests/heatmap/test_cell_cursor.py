"""The cell under the pointer in a pooled panel, and movement by arrow keys."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.screens import present, resolved
from tests.support.small_runs import a_run, board, panel
from visualizer.attention.spec import MaskKind, NormalisationKind
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.heatmap.board import Board
from visualizer.heatmap.cell_lookup import displayed_cell, move_cursor, panel_of_cell
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.session.zoom_ranges import ZoomRange

SEVEN = a_run("a b c d e f g", d_in=3, d_out=4)
THREE = board(a_run("a b c"), stages=frozenset({"input", "scores", "weights"}))


def test_a_pooled_cell_without_a_number_is_a_cell_without_a_number() -> None:
    naive = NormalisationKind.NAIVE_SOFTMAX
    run = a_run("a b c d e f g", mask=MaskKind.NONE, normalisation=naive, temperature=1e-4)
    pooled = board(run, room=4)
    values = panel(run, "weights", room=4).values
    assert np.isnan(values).any()
    for row, column in zip(*(2 * at for at in np.nonzero(np.isnan(values))), strict=True):
        cell = displayed_cell(
            resolved(run, View(room=4)), pooled, Cell("weights", (0, int(row), int(column)))
        )
        assert np.isnan(run.trace.read("weights", cell.place))


def test_a_cell_that_is_not_pooled_or_not_shown_represents_itself() -> None:
    cell = Cell("weights", (1, 3, 2))
    assert displayed_cell(resolved(SEVEN, View()), board(SEVEN), cell) == cell
    assert displayed_cell(resolved(SEVEN, View(room=4)), Board(), cell) == cell
    assert panel_of_cell(Board(), cell) is None


def test_the_heading_contains_the_number_of_pooled_cells() -> None:
    cell = Cell("weights", (0, 3, 2))
    one, many = (
        present(Document(), View(hovered=cell, room=room), SEVEN, None, False, None).panel(
            CELL_PANEL
        )
        for room in (256, 4)
    )
    assert one
    assert many
    assert many.heading == f"{one.heading} · largest in a block of 2 × 2 cells"
    assert many.plain_text == one.plain_text


@pytest.mark.parametrize(
    ("start", "down", "right", "end"),
    [
        (("scores", 0, 1, 1), 1, 0, ("scores", 0, 2, 1)),
        (("scores", 0, 2, 1), 1, 0, ("scores", 1, 0, 1)),
        (("scores", 1, 0, 1), -1, 0, ("scores", 0, 2, 1)),
        (("scores", 1, 2, 1), 1, 0, ("scores", 1, 2, 1)),
        (("scores", 0, 0, 1), -1, 0, ("scores", 0, 0, 1)),
        (("scores", 1, 2, 2), 0, 1, ("weights", 1, 2, 0)),
        (("weights", 1, 2, 0), 0, -1, ("scores", 1, 2, 2)),
        (("weights", 1, 2, 2), 0, 1, ("weights", 1, 2, 2)),
        (("scores", 1, 2, 0), 0, -1, ("input", 2, 2)),
        (("input", 2, 2), 0, 1, ("scores", 0, 2, 0)),
        (("input", 2, 0), 0, -1, ("input", 2, 0)),
        (("input", 2, 0), 1, 0, ("input", 2, 0)),
    ],
)
def test_movement_across_an_edge_leads_to_the_next_head_or_stage(
    start: tuple[str, *tuple[int, ...]], down: int, right: int, end: tuple[str, *tuple[int, ...]]
) -> None:
    cell = move_cursor(THREE, Cell(start[0], start[1:]), down, right)
    assert cell == Cell(end[0], end[1:])


def test_arrow_keys_move_by_drawn_cells() -> None:
    pooled = board(SEVEN, room=4, stages=frozenset({"weights"}))
    assert move_cursor(pooled, Cell("weights", (0, 3, 3)), 1, 0) == Cell("weights", (0, 4, 2))
    assert move_cursor(pooled, Cell("weights", (0, 6, 1)), 1, 0) == Cell("weights", (1, 0, 0))
    assert move_cursor(pooled, Cell("weights", (1, 1, 1)), -1, 0) == Cell("weights", (0, 6, 0))


@pytest.mark.parametrize("within", [0, 1])
def test_the_last_drawn_cell_is_reached_although_its_block_is_smaller(within: int) -> None:
    pooled = board(SEVEN, room=4, stages=frozenset({"weights"}))
    start, back = Cell("weights", (0, 4 + within, 4 + within)), Cell("weights", (0, 6, 6))
    assert move_cursor(pooled, start, 1, 0) == Cell("weights", (0, 6, 4))
    assert move_cursor(pooled, start, 0, 1) == Cell("weights", (0, 4, 6))
    assert move_cursor(pooled, back, -1, 0) == Cell("weights", (0, 4, 6))


@pytest.mark.parametrize("cell", [None, Cell("context", (0, 0, 0))])
def test_movement_from_a_hidden_cell_starts_at_the_first_cell(cell: Cell | None) -> None:
    assert move_cursor(THREE, cell, 0, 1) == Cell("input", (0, 0))
    assert move_cursor(Board(), cell, 0, 1) is None


def test_movement_starts_in_the_stage_to_predict() -> None:
    asked = frozenset({"scores"})
    assert move_cursor(THREE, None, 0, 1, asked) == Cell("scores", (0, 0, 0))
    assert move_cursor(THREE, Cell("input", (1, 1)), 0, 1, asked) == Cell("input", (1, 2))


def test_movement_starts_at_the_first_visible_cell() -> None:
    zoom = ZoomRange(range(2, 5), range(1, 4))
    near = board(SEVEN, stages=frozenset({"weights"}), zoom=zoom)
    assert move_cursor(near, None, 0, 1) == Cell("weights", (0, 2, 1))
