"""Zooming by wheel, touch and keyboard; panning; zooming out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication

from tests.support.examples import others_slow
from tests.support.window_input import CONTROL, SHIFT
from tests.support.zoom_gestures import NOTCH, pinch, press, pull, roll, run, seen, turn, under
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.heatmap.widget import WHEEL_ZOOM_FACTOR
from visualizer.session.cell_address import Cell
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.window_input import Hand
    from visualizer.session.view import View

NONE = Qt.KeyboardModifier.NoModifier
ALT = Qt.KeyboardModifier.AltModifier
FORTY = " ".join(f"w{number}" for number in range(40))
THOUSAND = " ".join(f"w{number}" for number in range(1000))


def write(hand: Hand, text: str) -> None:
    hand.paste_sentence(text)
    hand.settle()
    hand.board.setFocus()


def view(hand: Hand) -> View:
    return hand.window.workspace.view


def off(one: Cell | None, other: Cell | None) -> int:
    """Return the number of rows or columns between two cells of a panel."""
    assert one
    assert other
    assert (one.stage, one.head, one.fold) == (other.stage, other.head, other.fold)
    pairs = zip(one.place[-2:], other.place[-2:], strict=True)
    return max(abs(here - there) for here, there in pairs)


# ------------------------------------------------------------------------------------------ wheel


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "stage"),
    [(FORTY, "weights"), (FORTY, "context"), (THOUSAND, "scores")],
    ids=["40", "40 context", "1000"],
)
def test_the_wheel_zooms_at_the_pointer(hand: Hand, text: str, stage: str) -> None:
    write(hand, text)
    tokens = len(text.split())
    column = 0 if stage == "context" else tokens // 3
    at = hand.point(Cell(stage, (0, tokens * 3 // 4, column)))
    before, whole = under(hand, at), hand.panel(stage).rows.block
    sizes = []
    for _ in range(8):
        block, last = hand.panel(stage).rows.block, under(hand, at)
        turn(hand, at, 1)
        zoom = seen(hand)
        assert zoom
        sizes.append(len(zoom.queries))
        assert hand.panel(stage).rows.visible_range.start <= zoom.queries.start
        assert off(last, under(hand, at)) <= max(block, hand.panel(stage).rows.block)
    assert off(before, under(hand, at)) <= 3 * whole
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < tokens / 4
    for _ in range(8):
        turn(hand, at, -1)
    assert seen(hand) is None


def test_fast_wheel_turns_have_the_same_result(hand: Hand) -> None:
    write(hand, THOUSAND)
    at = hand.point(Cell("weights", (0, 750, 330)))
    before, block = under(hand, at), hand.panel("weights").rows.block
    for _ in range(12):
        spin(hand, at, 1)
    hand.settle()
    zoom = seen(hand)
    assert zoom
    assert len(zoom.queries) < 100
    assert off(before, under(hand, at)) <= 2 * block
    for _ in range(12):
        spin(hand, at, -1)
    hand.settle()
    assert seen(hand) is None


def test_pending_wheel_turns_are_combined(hand: Hand) -> None:
    write(hand, THOUSAND)
    at = hand.point(Cell("weights", (0, 750, 330)))
    factors: list[float] = []
    following = hand.board.zoomed.connect(lambda factor, *_: factors.append(factor))
    for _ in range(6):
        spin(hand, at, 1)
    assert factors == [WHEEL_ZOOM_FACTOR]  # the first one immediately
    hand.settle()
    hand.board.zoomed.disconnect(following)
    assert factors == [WHEEL_ZOOM_FACTOR, WHEEL_ZOOM_FACTOR**5]
    zoom = seen(hand)
    assert zoom
    assert len(zoom.queries) == pytest.approx(1000 / WHEEL_ZOOM_FACTOR**6, abs=3)


def spin(hand: Hand, at: QPoint, notches: int) -> None:
    """Turn the wheel without waiting for the window."""
    roll(hand.board, QPoint(0, notches * NOTCH), at, CONTROL)


def test_the_wheel_without_ctrl_scrolls(hand: Hand) -> None:
    hand.type_number("d_out", "6")
    hand.type_number("heads", "6")
    hand.settle()
    turn(hand, hand.point(Cell("weights", (0, 1, 1))), -2, NONE)
    assert hand.board.verticalScrollBar().value() > 0
    assert seen(hand) is None


def test_the_wheel_has_no_effect_outside_the_panels(hand: Hand) -> None:
    turn(hand, QPoint(2, 2), 3)
    assert seen(hand) is None


def test_many_small_turns_equal_one_notch(hand: Hand) -> None:
    write(hand, FORTY)
    at = hand.point(Cell("weights", (0, 20, 10)))
    turn(hand, at, 1)
    once = seen(hand)
    press(hand, Qt.Key.Key_0)
    assert seen(hand) is None
    for _ in range(10):  # like a trackpad
        turn(hand, at, 0.1)
    assert seen(hand) == once
    assert once
    for _ in range(10):
        turn(hand, at, -0.1)
    assert seen(hand) is None


def test_two_fingers_zoom_in_and_out(hand: Hand) -> None:
    write(hand, FORTY)
    at = hand.point(Cell("weights", (0, 20, 10)))
    before = under(hand, at)
    for _ in range(30):
        pinch(hand, at, 0.05)
    zoom = seen(hand)
    assert zoom
    assert 40 / 1.05**30 * 0.6 <= len(zoom.queries) <= 40 / 1.05**30 * 1.6
    assert off(before, under(hand, at)) <= 1
    for _ in range(40):
        pinch(hand, at, -0.05)
    assert seen(hand) is None


@pytest.mark.parametrize("wider", [-1.0, -2.5, 0.0])
def test_fingers_that_meet_are_handled(hand: Hand, wider: float) -> None:
    at = hand.point(Cell("weights", (0, 2, 1)))
    turn(hand, at, 2)
    pinch(hand, at, wider)
    assert (seen(hand) is None) == (wider < 0)


# --------------------------------------------------------------------------------------- keyboard


def test_keys_zoom_in_out_and_reset(hand: Hand) -> None:
    write(hand, FORTY)
    press(hand, Qt.Key.Key_Plus)
    once = seen(hand)
    assert once == ZoomRange(range(7, 33), range(7, 33))
    press(hand, Qt.Key.Key_Plus)
    twice = seen(hand)
    assert twice
    assert len(twice.queries) < len(once.queries)
    press(hand, Qt.Key.Key_Minus)
    press(hand, Qt.Key.Key_Minus)
    assert seen(hand) is None
    press(hand, Qt.Key.Key_Plus)
    press(hand, Qt.Key.Key_0)
    assert seen(hand) is None


@pytest.mark.slow
def test_keys_zoom_at_the_pinned_cell(hand: Hand) -> None:
    write(hand, FORTY)
    hand.click_cell(Cell("weights", (0, 30, 12)))
    hand.leave()
    for _ in range(5):
        press(hand, Qt.Key.Key_Plus)
        zoom = seen(hand)
        assert zoom
        assert 30 in zoom.queries
        assert 12 in zoom.keys
    for _ in range(40):
        run(hand, "view.pan -1 0")
        run(hand, "view.pan 0 1")
    zoom = seen(hand)
    assert zoom
    assert zoom.queries.start == 0
    assert zoom.keys.stop == 40
    press(hand, Qt.Key.Key_Plus)
    zoom = seen(hand)
    assert zoom
    assert 30 in zoom.queries
    assert 12 in zoom.keys


def test_keys_pan_up_to_the_edges(hand: Hand) -> None:
    write(hand, FORTY)
    run(hand, "view.pan 1 0")  # the whole text cannot be panned
    assert seen(hand) is None
    for _ in range(3):
        press(hand, Qt.Key.Key_Plus)
    start = seen(hand)
    assert start
    size = len(start.queries)
    run(hand, "view.pan 1 0")
    moved = seen(hand)
    assert moved
    assert moved.queries.start == start.queries.start + size // 4
    assert moved.keys == start.keys
    for _ in range(20):
        run(hand, "view.pan 0 -1")
        run(hand, "view.pan 1 0")
    assert seen(hand) == ZoomRange(range(40 - size, 40), range(size))


@pytest.mark.slow
@pytest.mark.parametrize("text", [FORTY, THOUSAND], ids=["40", "1000"])
def test_the_visible_range_follows_the_pinned_cell(hand: Hand, text: str) -> None:
    write(hand, text)
    tokens = len(text.split())
    at = hand.point(Cell("weights", (0, tokens // 2, tokens // 3)))
    while (zoom := seen(hand)) is None or len(zoom.queries) > 12:
        turn(hand, at, 3)
    assert hand.panel("weights").rows.block == 1
    hand.click_cell(Cell("weights", (0, zoom.queries.start, zoom.keys.stop - 1)))
    hand.leave()
    for step in range(1, 4):
        press(hand, Qt.Key.Key_Up, NONE)
        press(hand, Qt.Key.Key_Right, NONE)
        row, column = zoom.queries.start - step, zoom.keys.stop - 1 + step
        assert view(hand).pinned == Cell("weights", (0, row, column))
        after = seen(hand)
        assert after
        assert (after.queries.start, after.keys.stop - 1) == (row, column)
        assert len(after.queries) == len(zoom.queries)
        for stage in ("scores", "weights"):
            assert (row, column) in hand_places(hand, stage)


def hand_places(hand: Hand, stage: str) -> set[tuple[int, int]]:
    heatmap = hand.panel(stage)
    return {
        (row, column)
        for row in heatmap.rows.visible_range
        for column in heatmap.columns.visible_range
    }


def test_the_first_pinned_cell_is_in_the_visible_range(hand: Hand) -> None:
    write(hand, FORTY)
    turn(hand, hand.point(Cell("weights", (0, 30, 20))), 5)
    before = seen(hand)
    assert before
    hand.leave()
    press(hand, Qt.Key.Key_Down, NONE)
    pinned = view(hand).pinned
    assert pinned
    assert pinned.place[1:] == (before.queries.start, before.keys.start)
    assert seen(hand) == before


def test_cells_of_pooled_blocks_can_be_hovered(hand: Hand) -> None:
    write(hand, THOUSAND)
    bar = hand.board.horizontalScrollBar().maximum()
    for _ in range(12):
        press(hand, Qt.Key.Key_Plus)
    zoom = seen(hand)
    assert zoom
    area = hand.board.area_of_cell(Cell("context", (0, zoom.queries.start, 0)))
    beside = hand.board.area_of_cell(Cell("weights", (0, zoom.queries.start, zoom.keys.start)))
    assert area
    assert beside
    assert area.width() >= 12
    assert area.height() == beside.height()
    assert hand.board.horizontalScrollBar().maximum() <= bar
    at = area.center()
    assert under(hand, at) == Cell("context", (0, zoom.queries.start, 0))


# --------------------------------------------------------------------------------------- dragging


@pytest.mark.parametrize("text", [FORTY, THOUSAND], ids=["40", "1000"])
def test_the_visible_range_can_be_dragged(hand: Hand, text: str) -> None:
    write(hand, text)
    tokens = len(text.split())
    at = hand.point(Cell("weights", (0, tokens // 2, tokens // 2)))
    turn(hand, at, 4)
    held, before = under(hand, at), seen(hand)
    assert before
    to = at + QPoint(60, -45)
    pull(hand, hand.board.viewport(), at, at + QPoint(20, -15), at + QPoint(45, -20), to)
    after = seen(hand)
    assert after
    assert after.queries.start > before.queries.start
    assert after.keys.start < before.keys.start
    assert len(after.queries) == len(before.queries)
    assert off(held, under(hand, to)) <= hand.panel("weights").rows.block  # it follows the pointer
    assert view(hand).pinned is None
    pull(hand, hand.board.viewport(), at, at + QPoint(3000, 3000))
    edge = seen(hand)
    assert edge
    assert (edge.queries.start, edge.keys.start) == (0, 0)


def test_a_panel_without_keys_is_dragged_only_vertically(hand: Hand) -> None:
    write(hand, FORTY)
    at = hand.point(Cell("context", (0, 20, 0)))
    turn(hand, at, 5)
    before = seen(hand)
    assert before
    pull(hand, hand.board.viewport(), at, at + QPoint(-15, -20), at + QPoint(-40, -80))
    after = seen(hand)
    assert after
    assert after.queries.start > before.queries.start
    assert after.keys == before.keys


@pytest.mark.parametrize("is_closer", [False, True])
def test_a_click_pins_at_any_zoom(hand: Hand, is_closer: bool) -> None:
    write(hand, FORTY)
    at = hand.point(Cell("weights", (0, 20, 10)))
    turn(hand, at, 4 * is_closer)
    cell, before = under(hand, at), seen(hand)
    pull(hand, hand.board.viewport(), at, at + QPoint(1, 1))  # clicks may move the pointer
    assert view(hand).pinned == cell
    assert seen(hand) == before
    pull(hand, hand.board.viewport(), at, at)
    assert view(hand).pinned is None


def test_the_whole_text_cannot_be_dragged(hand: Hand) -> None:
    write(hand, FORTY)
    at = hand.point(Cell("weights", (0, 20, 10)))
    pull(hand, hand.board.viewport(), at, at + QPoint(40, 40), at + QPoint(60, 60))
    assert seen(hand) is None
    assert view(hand).pinned == under(hand, at)


# ----------------------------------------------------------------------------------- other changes


def test_a_shorter_text_is_fully_visible_after_zooming(hand: Hand) -> None:
    write(hand, FORTY)
    turn(hand, hand.point(Cell("weights", (0, 35, 35))), 4)
    before = seen(hand)
    write(hand, "one two three")
    assert seen(hand) is None
    assert hand.panel("weights").rows.visible_range == range(3)
    press(hand, Qt.Key.Key_Plus)
    assert seen(hand) == ZoomRange(range(2), range(2))
    press(hand, Qt.Key.Key_0)
    write(hand, FORTY)
    assert seen(hand) is None
    assert before


def test_zooming_in_a_shorter_text_starts_from_the_visible_range(hand: Hand) -> None:
    write(hand, " ".join(f"w{number}" for number in range(60)))
    view_controller = hand.window.controllers.view_controller
    view_controller.zoom_at(6, "weights", 60, 60)
    hand.settle()
    assert seen(hand) == ZoomRange(range(50, 60), range(50, 60))
    write(hand, " ".join(f"w{number}" for number in range(20)))
    assert seen(hand) == ZoomRange(range(10, 20), range(10, 20))
    view_controller.centre_on(5, 10)
    hand.settle()
    assert seen(hand) == ZoomRange(range(10), range(5, 15))
    press(hand, Qt.Key.Key_Plus)
    assert seen(hand) == ZoomRange(range(2, 8), range(7, 13))


def test_panning_a_shorter_text_uses_the_visible_range(hand: Hand) -> None:
    write(hand, " ".join(f"w{number}" for number in range(60)))
    hand.window.controllers.view_controller.zoom_at(3, "weights", 60, 60)
    write(hand, " ".join(f"w{number}" for number in range(20)))
    hand.window.controllers.view_controller.pan_by_fraction(-1, -1)
    hand.settle()
    assert seen(hand) is None


def test_one_token_cannot_be_zoomed(hand: Hand) -> None:
    write(hand, "one")
    turn(hand, hand.point(Cell("weights", (0, 0, 0))), 5)
    press(hand, Qt.Key.Key_Plus)
    assert seen(hand) is None


def test_a_link_can_leave_the_visible_range(hand: Hand) -> None:
    write(hand, FORTY)
    turn(hand, hand.point(Cell("weights", (0, 30, 20))), 6)
    hand.window.controllers.cell_selection_controller.follow_link(Cell("scores", (1, 2, 1)))
    hand.settle()
    zoom = seen(hand)
    assert zoom
    assert 2 in zoom.queries
    assert 1 in zoom.keys
    assert hand.board.area_of_cell(Cell("scores", (1, 2, 1)))


# ------------------------------------------------------------------------------------- aggregates


@pytest.fixture
def folded(hand: Hand) -> Hand:
    run(hand, "view.toggle_aggregate mean")
    run(hand, "view.toggle_aggregate max")
    hand.settle()
    return hand


def every_fold(hand: Hand) -> list[Cell]:
    return [
        Cell(heatmap.stage, (row, column), heatmap.fold)
        for heatmap in hand.shown.heatmaps
        if heatmap.fold
        for row in (0, heatmap.values.shape[0] - 1)
        for column in (0, heatmap.values.shape[1] - 1)
    ]


def test_mean_and_maximum_have_rows_of_panels(folded: Hand) -> None:
    for column in folded.shown.columns:
        labels = [heatmap.label for heatmap in column]
        assert labels == (["Head 1", "Head 2", "Mean", "Largest"] if column[0].label else [""])


@pytest.mark.slow
def test_cells_of_aggregates_can_be_hovered_and_pinned(folded: Hand) -> None:
    cells = every_fold(folded)
    assert {cell.fold for cell in cells} == set(HeadAggregate)
    for cell in cells:
        folded.board.scroll_to_cell(cell)
        folded.hover(cell)
        assert view(folded).hovered == cell
        folded.click_cell(cell)
        assert view(folded).pinned == cell
        folded.board.viewport().grab()  # paint it as well
        folded.leave()
        folded.click_cell(cell)
        assert view(folded).pinned is None


def test_the_pinned_cell_moves_into_aggregates_and_back(folded: Hand) -> None:
    folded.click_cell(Cell("scores", (1, 5, 0)))
    folded.leave()
    places = []
    for _ in range(8):
        folded.key(Qt.Key.Key_Down)
        places.append(view(folded).pinned)
    assert places[0] == Cell("scores", (0, 0), HeadAggregate.MEAN)
    assert places[6] == Cell("scores", (0, 0), HeadAggregate.MAX)
    for _ in range(8):
        folded.key(Qt.Key.Key_Up)
    assert view(folded).pinned == Cell("scores", (1, 5, 0))
    for _ in range(30):
        folded.key(Qt.Key.Key_Right)
    assert view(folded).pinned


@pytest.mark.parametrize("pane", others_slow(["Numbers", "Heads", "Lines", "Colours"]))
def test_aggregates_can_be_pinned_and_played_with_any_pane(folded: Hand, pane: str) -> None:
    folded.window.docks.open_pane(pane)
    folded.settle()
    QApplication.processEvents()
    cell = Cell("weights", (3, 2), HeadAggregate.MEAN)
    folded.window.controllers.cell_selection_controller.follow_link(cell)
    folded.settle()
    QApplication.processEvents()
    assert view(folded).pinned == cell
    folded.hover(cell)
    folded.board.setFocus()
    folded.key(Qt.Key.Key_Space)
    folded.settle()
    folded.key(Qt.Key.Key_Space)
    folded.settle()


@pytest.mark.parametrize(
    "act",
    others_slow(
        [
            lambda hand: press(hand, Qt.Key.Key_Plus),
            lambda hand: run(hand, "view.show_one_stage"),
            lambda hand: press(hand, Qt.Key.Key_H, CONTROL | SHIFT),
            lambda hand: run(hand, "view.step_head 1"),
            lambda hand: run(hand, "cell.copy"),
            lambda hand: run(hand, "cell.go -1"),
            lambda hand: run(hand, "view.set_weight_transform plain"),
            lambda hand: run(hand, "view.set_weight_transform times-value"),
            lambda hand: write(hand, "one two"),
            lambda hand: run(hand, "view.toggle_aggregate mean"),
            lambda hand: hand.type_number("heads", "1"),
        ],
        first=4,
    ),
)
def test_all_commands_work_with_a_pinned_aggregate(
    folded: Hand, act: Callable[[Hand], None]
) -> None:
    folded.click_cell(Cell("weights", (4, 2), HeadAggregate.MEAN))
    folded.leave()
    folded.board.setFocus()
    act(folded)
    folded.settle()
    folded.board.viewport().grab()
    assert folded.shown.heatmaps
