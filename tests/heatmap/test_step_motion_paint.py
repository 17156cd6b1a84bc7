"""Moving cells keep the colours of the cells from which they are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage

from tests.support.image_pixels import rgb_of
from tests.support.screens import resolved
from tests.support.small_runs import EVERYTHING, a_run
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import present_board
from visualizer.heatmap.colour_mapping import colour_indices, colour_table
from visualizer.heatmap.flow_placement import place_flow_panels
from visualizer.heatmap.highlights import present_highlights
from visualizer.heatmap.step_motion_paint import MovingCells, create_moving_cells, painted_area
from visualizer.heatmap.step_motion_phases import ease
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize
from visualizer.session.view import View
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.highlights import HighlightedStep

pytestmark = pytest.mark.usefixtures("application")


def played(
    run: Run, place: PlaybackPosition, grain: StepSize = StepSize.ROW, **fields: Any
) -> tuple[tuple[PanelSlot, ...], HighlightedStep]:
    """Lay out the panels of a step, and return its inputs."""
    view = View(**{"stages": EVERYTHING, "playhead": PlaybackState(place, grain), **fields})
    board = present_board(resolved(run, view), Board())
    step = present_highlights(resolved(run, view)).step
    assert step
    return place_flow_panels(board, 1600, 1200, 1).slots, step


def slot_of(slots: tuple[PanelSlot, ...], stage: str, head: int | None = 0) -> PanelSlot:
    return next(one for one in slots if (one.heatmap.stage, one.heatmap.head) == (stage, head))


def starts_within(cells: tuple[MovingCells, ...], slot: PanelSlot) -> list[MovingCells]:
    return [one for one in cells if slot.cells.contains(one.start)]


def test_moving_cells_keep_their_colours_and_move_to_the_result() -> None:
    slots, step = played(a_run(d_out=6), PlaybackPosition("scores", 3))
    cells = create_moving_cells(slots, step, LIGHT)
    keys, scores = slot_of(slots, "keys"), slot_of(slots, "scores")
    words = colour_table(keys.heatmap.colour.map, LIGHT)[colour_indices(keys.heatmap)] & 0xFFFFFF
    found = starts_within(cells, keys)
    assert len(found) == 6
    for key, one in enumerate(found):
        np.testing.assert_array_equal(rgb_of(one.picture), words[key : key + 1])
        assert one.start == keys.cell_area(key, 0).united(keys.cell_area(key, 2))
        assert one.end == scores.cell_area(3, key)
    (query,) = starts_within(cells, slot_of(slots, "queries"))
    assert query.end == scores.cell_area(3, 0).united(scores.cell_area(3, 5))
    assert len(cells) == 6 + 1


def test_invisible_cells_are_omitted() -> None:
    slots, step = played(a_run(d_out=6), PlaybackPosition("scores", 3))
    first = QRectF(slot_of(slots, "queries").cells.united(slot_of(slots, "scores").cells))
    seen = create_moving_cells(slots, step, LIGHT, first)
    assert len(seen) == 7
    without = tuple(one for one in slots if one.heatmap.stage != "queries")
    assert len(create_moving_cells(without, step, LIGHT, first)) == 6
    assert create_moving_cells(slots, step, LIGHT, QRectF(-50, -50, 20, 20)) == ()


def test_only_visible_cells_of_a_zoomed_board_move() -> None:
    zoom = ZoomRange(range(2, 5), range(1, 4))
    slots, step = played(a_run(d_out=6), PlaybackPosition("scores", 3), zoom=zoom)
    cells = create_moving_cells(slots, step, LIGHT)
    found = starts_within(cells, slot_of(slots, "keys"))
    scores = slot_of(slots, "scores")
    both = [key for key in zoom.keys if key in zoom.queries]  # the rows of keys are the queries
    assert [one.end for one in found] == [scores.cell_area(3, key) for key in both]
    for one in cells:
        assert any(slot.cells.contains(one.start) for slot in slots)
        assert any(slot.cells.contains(one.end) for slot in slots)
    slots, step = played(a_run(d_out=6), PlaybackPosition("scores", 0), zoom=zoom)
    assert create_moving_cells(slots, step, LIGHT) == ()


def test_a_pooled_cell_moves_only_as_a_whole() -> None:
    run = a_run(" ".join(64 * ["word"]), heads=1)
    slots, step = played(run, PlaybackPosition("scores", 3), room=16)
    assert slot_of(slots, "queries").heatmap.rows.block == 4
    cells = create_moving_cells(slots, step, LIGHT)
    assert starts_within(cells, slot_of(slots, "queries")) == []  # it also represents others
    assert len(starts_within(cells, slot_of(slots, "keys"))) == 16
    slots, step = played(run, PlaybackPosition("scores"), StepSize.STAGE, room=16)
    assert starts_within(create_moving_cells(slots, step, LIGHT), slot_of(slots, "queries"))


rectangles = st.builds(QRectF, *2 * [st.floats(0, 900)], *2 * [st.floats(1, 90)])


@given(rectangles, rectangles, st.floats(0, 1))
def test_a_motion_is_a_straight_line(start: QRectF, end: QRectF, share: float) -> None:
    one = MovingCells(QImage(1, 1, QImage.Format.Format_RGB32), start, end)
    assert one.area_at(ease(0)) == start
    assert one.area_at(ease(1)).center().x() == pytest.approx(end.center().x())
    area = one.area_at(ease(share))
    assert start.united(end).adjusted(-1e-6, -1e-6, 1e-6, 1e-6).contains(area)
    assert painted_area(area).contains(area.toAlignedRect())
