"""The flow board in the window: hovering, links, and changes of the head and the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractSpinBox, QApplication

from tests.support.image_pixels import rgb_of
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.attention.spec import layer_symbol
from visualizer.features.comparison_bar.presenter import COMPARISON_PANEL, GRID_NOTICE
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.format import format_number, subscript_symbols
from visualizer.heatmap.flow_labels_paint import board_labels
from visualizer.heatmap.flow_timeline_paint import (
    KNOB_PX,
    FlowTimeline,
    computed_share,
    heading_line,
)
from visualizer.heatmap.pixmap_caches import FlowPixmapCache
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import PlaybackPosition

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.heatmap.board import FlowBoardPanels
    from visualizer.heatmap.board_layout import FlowPlacement, PanelSlot
    from visualizer.heatmap.flow_layout import Box


@pytest.fixture
def flow_hand(hand: Hand) -> Hand:
    """Switch from the panels to the flow board."""
    hand.click(hand.window.view_bar.buttons["view.show_flow"])
    hand.settle()
    return hand


def _placement(hand: Hand) -> FlowPlacement:
    found = hand.board.board_layout.flow
    assert found is not None
    return found


def _panels(hand: Hand) -> FlowBoardPanels:
    return _placement(hand).panels


def _shown(hand: Hand) -> list[str]:
    return [panel.stage for panel in _panels(hand).panels]


def _middle(box: Box) -> QPoint:
    x, y = box.middle
    return QPoint(round(x), round(y))


def _click_heading(hand: Hand, stage: str) -> None:
    at = next(at for at, one in enumerate(_panels(hand).columns) if stage in one.states)
    hand.click(hand.board.viewport(), _middle(_placement(hand).layout.columns[at].heading))
    hand.settle()


def _click_tab(hand: Hand, number: int) -> None:
    hand.click(hand.board.viewport(), _middle(_placement(hand).layout.tabs.boxes[number]))
    hand.settle()


def test_the_whole_computation_of_a_head_is_shown_from_tokens_to_output(flow_hand: Hand) -> None:
    assert _shown(flow_hand) == [
        *("input", "queries", "keys", "values", "masked", "weights", "context"),
        *("concat", "output"),
    ]
    assert {panel.head for panel in _panels(flow_hand).panels} == {0, None}


def test_the_cell_under_the_pointer_is_explained(flow_hand: Hand) -> None:
    cell = Cell("weights", (0, 3, 1))
    flow_hand.hover(cell)
    flow_hand.until(lambda: flow_hand.board.cell_cursor.hovered == cell)
    flow_hand.settle()
    numbers = flow_hand.window.workspace.run
    assert numbers is not None
    value = float(numbers.trace.read("weights", (0, 3, 1)))
    assert f"{value:.0%}" in flow_hand.said


@pytest.mark.parametrize(("matrix", "stage"), [("masked", "keys"), ("context", "values")])
def test_the_pointer_finds_cells_above_a_matrix(flow_hand: Hand, matrix: str, stage: str) -> None:
    placement = _placement(flow_hand)
    at = next(at for at, one in enumerate(placement.panels.columns) if matrix in one.states)
    slot, token = placement.operands[at], 4
    assert slot is not None
    across = stage == "keys"  # transposed: a token is a column
    area = slot.cell_area(0, token) if across else slot.cell_area(token, 0)
    flow_hand.move_to(area.center().toPoint())
    wanted = Cell(stage, (0, token, 0))
    flow_hand.until(lambda: flow_hand.board.cell_cursor.hovered == wanted)


def test_a_click_pins_and_escape_unpins(flow_hand: Hand) -> None:
    cell = Cell("weights", (0, 3, 1))
    flow_hand.click_cell(cell)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned == cell
    flow_hand.key(Qt.Key.Key_Down)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned == Cell("weights", (0, 4, 1))
    flow_hand.key(Qt.Key.Key_Escape)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned is None


def test_arrow_keys_continue_in_the_next_matrix(flow_hand: Hand) -> None:
    flow_hand.click_cell(Cell("queries", (0, 2, 0)))
    flow_hand.settle()
    flow_hand.key(Qt.Key.Key_Right)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned == Cell("keys", (0, 2, 0))


def test_a_tab_brings_its_head_to_the_front_with_the_pinned_cell(flow_hand: Hand) -> None:
    flow_hand.click_cell(Cell("weights", (0, 3, 1)))
    flow_hand.settle()
    _click_tab(flow_hand, 1)
    assert _panels(flow_hand).front == 1
    assert flow_hand.board.cell_cursor.pinned == Cell("weights", (1, 3, 1))
    run = flow_hand.window.workspace.run
    assert run is not None
    shown = flow_hand.panel("weights", 1).values
    np.testing.assert_array_equal(shown, run.trace.read("weights", (1,)))


def test_the_last_tab_shows_the_weights_of_all_heads(flow_hand: Hand) -> None:
    _click_tab(flow_hand, 2)
    assert flow_hand.shown.flow is None
    assert [(one.stage, one.head) for one in flow_hand.shown.heatmaps] == [
        ("weights", 0),
        ("weights", 1),
    ]


def test_digits_choose_heads(flow_hand: Hand) -> None:
    flow_hand.board.setFocus()
    flow_hand.key(Qt.Key.Key_2)
    flow_hand.settle()
    assert _panels(flow_hand).front == 1
    flow_hand.key(Qt.Key.Key_9)  # there are two
    flow_hand.settle()
    assert _panels(flow_hand).front == 1
    flow_hand.key(Qt.Key.Key_0)
    flow_hand.settle()
    assert flow_hand.shown.flow is None


def test_character_keys_work_in_widgets_that_ignore_them(flow_hand: Hand) -> None:
    chip = next(each for each in flow_hand.window.settings_bar.chips.values() if each.isVisible())
    chip.setFocus()
    flow_hand.key(Qt.Key.Key_2)
    flow_hand.settle()
    assert chip.hasFocus()
    assert _panels(flow_hand).front == 1
    chip.clearFocus()
    assert QApplication.focusWidget() is None
    flow_hand.key(Qt.Key.Key_1)
    flow_hand.key(Qt.Key.Key_Space)
    flow_hand.settle()
    assert _panels(flow_hand).front == 0
    assert flow_hand.window.workspace.view.playhead.is_playing


def test_typed_characters_do_not_act_on_the_board(flow_hand: Hand) -> None:
    window = flow_hand.window
    bar = window.settings_bar
    bar.reveal_control(bar.rows["seed"].control)
    number = bar.rows["seed"].control.findChild(QAbstractSpinBox)
    for field in (number, window.playback_bar.grain, window.playback_bar.question):
        assert field
        field.show()
        field.setFocus()
        assert field.hasFocus()
        flow_hand.key(Qt.Key.Key_2)
        flow_hand.settle()
        assert _panels(flow_hand).front == 0


def test_a_typed_space_does_not_start_playback(flow_hand: Hand) -> None:
    flow_hand.type_sentence("1 2 x 2")
    flow_hand.settle()
    assert flow_hand.sentence.toPlainText() == "1 2 x 2"
    assert _panels(flow_hand).front == 0
    assert not flow_hand.window.workspace.view.playhead.is_playing


def test_a_heading_enlarges_its_matrix_and_then_shows_its_next_state(flow_hand: Hand) -> None:
    before = _placement(flow_hand).layout
    _click_heading(flow_hand, "masked")
    focused = _placement(flow_hand).layout
    assert _shown(flow_hand)[_panels(flow_hand).focus] == "masked"
    assert focused.rows_top == before.rows_top
    assert focused.row_height == before.row_height
    _click_heading(flow_hand, "masked")
    assert "scores" in _shown(flow_hand)


def test_a_changed_setting_keeps_the_flow(flow_hand: Hand) -> None:
    flow_hand.type_sentence("one two three four five six seven eight")
    flow_hand.settle()
    assert _panels(flow_hand).panels[0].values.shape[0] == 8
    flow_hand.window.workspace.change_setting("heads", 1)
    flow_hand.settle()
    assert _placement(flow_hand).layout.tabs.boxes == ()


def test_playback_shows_the_flow_with_empty_cells(flow_hand: Hand) -> None:
    flow_hand.window.controllers.playback_controller.seek_stage("scores")
    flow_hand.settle()
    assert "scores" in _shown(flow_hand)
    reached = {one.stage: one.rows for one in flow_hand.board.highlights.computed_extents}
    assert reached["weights"] == 0
    assert len(_shown(flow_hand)) == 9


def _is_blank(hand: Hand, slot: PanelSlot) -> bool:
    """Return whether the cells of a slot only have the paper colour."""
    inside = slot.cells.adjusted(2, 2, -2, -2).toAlignedRect()
    image = rgb_of(hand.board.viewport().grab().toImage())
    seen = image[inside.top() : inside.bottom(), inside.left() : inside.right()]
    paper = QColor(hand.window.theme.paper).rgb() & 0xFFFFFF
    return bool((seen == paper).all())


def _slots_of(hand: Hand, stage: str) -> list[PanelSlot]:
    """Return the operand or the thumbnails that show a stage outside its own column."""
    placement = _placement(hand)
    pairs = zip(placement.panels.columns, placement.operands, strict=True)
    operands = [slot for column, slot in pairs if slot and column.operand == stage]
    return [*operands, *(one for one in placement.thumbnails if one.heatmap.stage == stage)]


@pytest.mark.parametrize(("before", "after", "stage"), [
    ("queries", "scores", "keys"), ("keys", "weights", "values"), ("masked", "context", "weights"),
])  # fmt: skip
def test_operands_and_thumbnails_are_empty_until_playback_has_computed_them(
    flow_hand: Hand, before: str, after: str, stage: str
) -> None:
    playback = flow_hand.window.controllers.playback_controller
    playback.seek_stage(before)
    flow_hand.settle()
    assert all(_is_blank(flow_hand, slot) for slot in _slots_of(flow_hand, stage))
    playback.seek_stage(after)
    flow_hand.settle()
    slots = _slots_of(flow_hand, stage)
    assert slots
    assert not any(_is_blank(flow_hand, slot) for slot in slots)


def test_thumbnails_do_not_reveal_a_prediction(flow_hand: Hand) -> None:
    flow_hand.trigger("playback.predict")
    flow_hand.settle()
    assert "weights" in flow_hand.board.highlights.hidden_stages
    assert all(_is_blank(flow_hand, slot) for slot in _slots_of(flow_hand, "weights"))


def _colours(hand: Hand, area: QRectF) -> np.ndarray:
    return rgb_of(hand.board.viewport().grab(area.toAlignedRect()).toImage())


def _ribbon_gap(hand: Hand) -> np.ndarray:
    """Return the colours between the weights and the values that the ribbons lead to."""
    slots = {slot.heatmap.stage: slot.cells for slot in _placement(hand).slots if slot}
    gap = QRectF(slots["weights"].topRight(), slots["context"].bottomLeft())
    return _colours(hand, gap.adjusted(3, 0, -3, 0))


def test_ribbons_do_not_reveal_a_predicted_weight(flow_hand: Hand) -> None:
    flow_hand.trigger("playback.predict")
    flow_hand.settle()
    covered = _ribbon_gap(flow_hand)
    flow_hand.hover(Cell("weights", (0, 3, 1)))
    np.testing.assert_array_equal(_ribbon_gap(flow_hand), covered)
    flow_hand.key(Qt.Key.Key_Escape)
    flow_hand.settle()
    flow_hand.hover(Cell("weights", (0, 3, 2)))
    assert (_ribbon_gap(flow_hand) != covered).any()


@pytest.mark.parametrize("head", [0, 1])
def test_a_number_of_concat_leads_to_its_own_head(flow_hand: Hand, head: int) -> None:
    placement = _placement(flow_hand)
    slots = {slot.heatmap.stage: slot for slot in placement.slots if slot}
    width = len(slots["context"].heatmap.columns.labels)
    source = slots["context"].cell_area(3, 0)
    tab = placement.thumbnails[head].cells
    framed = QRectF(source if head == placement.panels.front else tab).adjusted(-2, -2, 2, 2)
    before = _colours(flow_hand, framed), _colours(flow_hand, source)
    flow_hand.hover(Cell("concat", (3, head * width)))
    after = _colours(flow_hand, framed), _colours(flow_hand, source)
    assert (after[0] != before[0]).any()
    assert (after[1] != before[1]).any() == (head == placement.panels.front)


def test_a_heading_is_part_of_the_timeline_during_playback(flow_hand: Hand) -> None:
    flow_hand.window.controllers.playback_controller.seek_stage("scores")
    flow_hand.settle()
    _click_heading(flow_hand, "weights")
    place = flow_hand.window.workspace.screen.view.playhead.place
    assert place is not None
    assert place.stage == "weights"


def test_two_quick_clicks_on_a_heading_both_count(flow_hand: Hand) -> None:
    flow_hand.window.controllers.view_controller.focus_stage("masked")
    flow_hand.settle()
    at = next(at for at, one in enumerate(_panels(flow_hand).columns) if "masked" in one.states)
    states = _panels(flow_hand).columns[at].states
    heading = _placement(flow_hand).layout.columns[at].heading
    where = QPoint(round(heading.right - 4), round(heading.bottom - 14))  # next to all names
    viewport, left = flow_hand.board.viewport(), Qt.MouseButton.LeftButton
    QTest.mouseClick(viewport, left, pos=where)
    flow_hand.settle()
    QTest.mouseDClick(viewport, left, pos=where)  # a press without its release
    QTest.mouseRelease(viewport, left, pos=where)
    flow_hand.settle()
    expected = states[(states.index("masked") + 2) % len(states)]
    assert _panels(flow_hand).panels[at].stage == expected


def test_headings_take_the_place_of_the_view_bar(flow_hand: Hand) -> None:
    assert not flow_hand.window.view_bar.isVisible()
    flow_hand.window.controllers.view_controller.show_all_panels()
    flow_hand.settle()
    assert flow_hand.window.view_bar.isVisible()


def test_a_very_narrow_board_shows_the_head_with_its_operands(flow_hand: Hand) -> None:
    flow_hand.narrow(440)
    flow_hand.until(lambda: flow_hand.board.viewport().width() < 480)
    flow_hand.settle()
    assert _shown(flow_hand) == ["queries", "masked", "weights", "context"]
    slots = {slot.heatmap.stage: slot for slot in flow_hand.board.board_layout.slots}
    assert max(slots, key=lambda stage: slots[stage].cells.width()) == "weights"
    assert slots["weights"].cell_width >= 3


def test_the_other_layout_can_be_chosen_again(flow_hand: Hand) -> None:
    flow_hand.window.controllers.view_controller.show_all_panels()
    flow_hand.settle()
    assert flow_hand.shown.flow is None


# ------------------------------------------------------------------ many heads


@pytest.fixture
def many_heads(flow_hand: Hand) -> Hand:
    """Show more heads than there is room for."""
    workspace = flow_hand.window.workspace
    for name in ("d_in", "d_out", "heads"):
        workspace.change_setting(name, 64)
        flow_hand.settle()
    return flow_hand


def test_all_heads_are_reached_by_turning_pages(many_heads: Hand) -> None:
    seen: set[int] = set()
    while True:
        placement = _placement(many_heads)
        heads = (slot.heatmap.head for slot in placement.thumbnails)
        shown = {head for head in heads if head is not None}
        assert placement.panels.front in shown
        seen |= shown
        if placement.adjacent_page_heads[1] is None:
            break
        many_heads.click(many_heads.board.viewport(), _middle(placement.layout.tabs.turns[1]))
        many_heads.settle()
    assert seen == {*range(64)}
    many_heads.click(
        many_heads.board.viewport(), _middle(_placement(many_heads).layout.tabs.turns[0])
    )
    many_heads.settle()
    assert _panels(many_heads).front < min(shown)


def test_mean_and_maximum_of_heads_are_further_tabs(flow_hand: Hand) -> None:
    for by in HeadAggregate:
        flow_hand.window.controllers.view_controller.toggle_head_aggregate(by)
        flow_hand.settle()
    run, placement = flow_hand.window.workspace.run, _placement(flow_hand)
    assert run is not None
    weights = run.trace.read("weights")
    pictures = {slot.heatmap.fold: slot.heatmap.values for slot in placement.thumbnails}
    np.testing.assert_allclose(pictures[HeadAggregate.MEAN], weights.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(pictures[HeadAggregate.MAX], weights.max(axis=0), rtol=1e-6)
    flow_hand.click(flow_hand.board.viewport(), _middle(placement.layout.tabs.heads[2]))
    flow_hand.settle()
    assert flow_hand.shown.flow is None
    assert {panel.fold for panel in flow_hand.shown.heatmaps} == {None, *HeadAggregate}


def test_a_toggled_mask_changes_all_thumbnails(flow_hand: Hand) -> None:
    viewport = flow_hand.board.viewport()
    before: dict[tuple[int, bool], int] = {}
    for is_causal in (True, False, True):
        flow_hand.window.workspace.change_setting("causal", is_causal)
        flow_hand.settle()
        picture = viewport.grab().toImage()
        for at, slot in enumerate(_placement(flow_hand).thumbnails):
            corner = slot.cell_area(0, 5).center().toPoint()
            colour = picture.pixel(corner * picture.devicePixelRatio())
            assert before.setdefault((at, is_causal), colour) == colour
    assert before[0, True] != before[0, False]
    assert before[1, True] != before[1, False]


def test_parts_that_are_not_painted_again_are_as_before(flow_hand: Hand) -> None:
    board, workspace = flow_hand.board, flow_hand.window.workspace
    size, theme, ratio = board.viewport().size(), board._theme, board.devicePixelRatioF()
    words = workspace.document.text.split()
    for text in (" ".join([*words[:-1], "end"]), " ".join(["start", *words[1:]])):
        workspace.set_text(text)
        flow_hand.settle()
        flow = _placement(flow_hand)
        shown = board._flow_pixmaps.pixmap(flow, size, theme, ratio).toImage()
        assert shown == FlowPixmapCache().pixmap(flow, size, theme, ratio).toImage()


def test_a_notice_states_that_comparisons_are_not_shown_as_a_flow(flow_hand: Hand) -> None:
    controllers = flow_hand.window.controllers
    controllers.comparison_controller.keep_as_side_a()
    flow_hand.settle()
    panel = flow_hand.window.workspace.screen.panel(COMPARISON_PANEL)
    assert panel is not None
    assert GRID_NOTICE in panel.summary
    controllers.comparison_controller.end_comparison()
    flow_hand.settle()
    assert flow_hand.shown.flow is not None


def _drag_headings(hand: Hand, stage: str, *others: str) -> list[tuple[str, float]]:
    """Drag the line of a stage to the middle of others, and return the seek positions."""
    viewport, timeline = hand.board.viewport(), FlowTimeline(_placement(hand))
    sought: list[tuple[str, float]] = []
    began: list[None] = []
    hand.board.motion.began.connect(lambda: began.append(None))
    hand.board.scrubbed.connect(lambda stage, share: sought.append((stage, share)))

    def point(name: str, share: float) -> QPoint:
        x = timeline.x_of_stage(name, share)
        assert x is not None
        return QPoint(round(x), round(heading_line(timeline.placement, 0).center().y()))

    QTest.mousePress(viewport, Qt.MouseButton.LeftButton, pos=point(stage, 0.1))
    for other in others:
        QTest.mouseMove(viewport, point(other, 0.5))
        hand.settle()
    QTest.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=point(others[-1], 0.5))
    hand.settle()
    assert began == []  # nothing moves while seeking
    return sought


def test_dragging_a_heading_seeks(flow_hand: Hand) -> None:
    before = _placement(flow_hand).layout
    sought = _drag_headings(flow_hand, "input", "queries", "weights", "context")
    assert [stage for stage, _ in sought] == ["queries", "weights", "context"]
    assert all(share == pytest.approx(0.5, abs=0.1) for _, share in sought)
    playhead = flow_hand.window.workspace.screen.view.playhead
    assert playhead.place in [PlaybackPosition("context", row) for row in (2, 3)]  # of 6
    assert not playhead.is_playing
    assert not flow_hand.board.motion.is_moving
    assert _placement(flow_hand).layout == before


def test_a_click_on_a_heading_does_not_seek_outside_playback(flow_hand: Hand) -> None:
    sought: list[str] = []
    flow_hand.board.scrubbed.connect(sought.append)
    _click_heading(flow_hand, "context")
    assert sought == []
    assert flow_hand.window.workspace.screen.view.playhead.place is None
    assert _shown(flow_hand)[_panels(flow_hand).focus] == "context"


def test_playback_moves_no_panel(flow_hand: Hand) -> None:
    playback = flow_hand.window.controllers.playback_controller
    assert flow_hand.window.workspace.run
    layouts = []
    for stage in flow_hand.window.workspace.run.trace.names:
        playback.seek_stage(stage)
        flow_hand.settle()
        layouts.append(_placement(flow_hand).layout)
    assert all(layout == layouts[0] for layout in layouts)


def test_every_stage_has_a_part_of_a_heading_line(flow_hand: Hand) -> None:
    timeline = FlowTimeline(_placement(flow_hand))
    assert flow_hand.window.workspace.run
    for stage in flow_hand.window.workspace.run.trace.names:
        for share in (0.01, 0.5, 0.99):
            x = timeline.x_of_stage(stage, share)
            assert x is not None
            found, where = timeline.stage_and_share_at(x)
            assert found == stage
            assert where == pytest.approx(share)


def test_the_knob_is_where_playback_is(flow_hand: Hand) -> None:
    playback = flow_hand.window.controllers.playback_controller
    playback.seek_within_stage("weights", 0.5)
    flow_hand.settle()
    timeline = FlowTimeline(_placement(flow_hand))
    share = computed_share(timeline.placement, flow_hand.board.highlights, "weights")
    assert share == pytest.approx(4 / 6)
    assert computed_share(timeline.placement, flow_hand.board.highlights, "masked") == 1
    assert computed_share(timeline.placement, flow_hand.board.highlights, "context") == 0
    x = timeline.x_of_stage("weights", share)
    assert x is not None
    flow_hand.board.motion.skip_motion()
    image = flow_hand.board.viewport().grab().toImage()
    below = round(heading_line(timeline.placement, 0).center().y() + KNOB_PX / 2 - 2)
    ink = flow_hand.window.theme.ink
    assert image.pixelColor(round(x), below).name() == ink.lower()
    assert image.pixelColor(round(x) + KNOB_PX, below).name() != ink.lower()


def test_the_playback_bar_has_a_fixed_height(flow_hand: Hand) -> None:
    bar = flow_hand.window.playback_bar
    height = bar.height()
    flow_hand.hover(Cell("weights", (0, 3, 1)))
    assert flow_hand.caption
    assert bar.equation.full_text.startswith("weight")
    flow_hand.window.controllers.playback_controller.seek_stage("scores")
    flow_hand.settle()
    assert bar.height() == height
    flow_hand.window.controllers.view_controller.show_all_panels()
    flow_hand.settle()
    assert bar.height() == height


def test_playback_from_other_panels_is_on_the_flow_board(flow_hand: Hand) -> None:
    flow_hand.window.controllers.view_controller.show_all_panels()
    flow_hand.settle()
    assert flow_hand.shown.flow is None
    flow_hand.window.controllers.playback_controller.seek_stage("scores")
    flow_hand.settle()
    assert flow_hand.shown.flow is not None
    flow_hand.window.controllers.playback_controller.go_to_end()
    flow_hand.settle()
    assert flow_hand.shown.flow is None


def test_numbers_of_a_matrix_stay_until_its_next_state_is_computed(flow_hand: Hand) -> None:
    playback = flow_hand.window.controllers.playback_controller
    flow_hand.window.controllers.view_controller.focus_stage("masked")
    pictures = []
    for stage, share in (("scaled", 1), ("masked", 0.5), ("masked", 1)):
        playback.seek_within_stage(stage, share)
        flow_hand.settle()
        flow_hand.board.motion.skip_motion()
        pictures.append(rgb_of(flow_hand.board.viewport().grab().toImage()))
    placement = _placement(flow_hand)
    at = next(at for at, one in enumerate(placement.panels.columns) if "masked" in one.states)
    slot = placement.slots[at]
    assert slot is not None
    row = slot.cell_area(4, 0).united(slot.cell_area(4, 5)).adjusted(4, 4, -4, -4).toAlignedRect()
    scaled, halfway, masked = (
        picture[row.top() : row.bottom(), row.left() : row.right()] for picture in pictures
    )
    assert (scaled == halfway).all()
    assert (masked != halfway).any()
    assert placement.panels.earlier is not None
    assert placement.panels.earlier.stage == "scaled"


def _layer_cell(hand: Hand, stage: str, row: int, column: int) -> QPoint:
    at = next(at for at, one in enumerate(_panels(hand).columns) if stage in one.states)
    slot = _placement(hand).operands[at]
    assert slot is not None
    return slot.cell_area(row, column).center().toPoint()


@pytest.mark.parametrize(("stage", "name"), [("keys", "W_key"), ("output", "out_proj")])
def test_a_weight_of_a_layer_is_pinned_and_explained(
    flow_hand: Hand, stage: str, name: str
) -> None:
    flow_hand.window.controllers.view_controller.focus_stage(stage)
    flow_hand.settle()
    row, column = 1, 0
    flow_hand.click(flow_hand.board.viewport(), _layer_cell(flow_hand, stage, row, column))
    flow_hand.leave()
    flow_hand.settle()
    screen = flow_hand.window.workspace.screen
    panel = screen.panel(CELL_PANEL)
    assert panel
    assert panel.is_pinned
    assert layer_symbol(name) in panel.heading
    pane = flow_hand.window.panes["Explain"]
    for label in (pane.heading, pane.sentence):
        assert subscript_symbols(layer_symbol(name)) in label.text()
    pane.copy_explanation()
    assert layer_symbol(name) in QGuiApplication.clipboard().text()
    assert "seed 123" in panel.formula
    assert screen.resolved
    trace = screen.resolved.run.trace
    weights = trace.read(next(one for one in trace.parameters if f"{name}.weight" in one))
    assert panel.value == format_number(float(weights[column, row]))
    (used,) = panel.dependent_cells
    assert used.cell.stage == stage
    assert used.cell.place[-1] == column
    flow_hand.hover(Cell("weights", (0, 3, 1)))
    flow_hand.until(lambda: "attends" in flow_hand.window.panes["Explain"].sentence.text())
    flow_hand.leave()
    flow_hand.settle()
    flow_hand.board.setFocus()
    flow_hand.key(Qt.Key.Key_Escape)
    flow_hand.settle()
    assert flow_hand.window.workspace.screen.panel(CELL_PANEL) is None


def test_a_cell_replaces_a_pinned_weight(flow_hand: Hand) -> None:
    flow_hand.click(flow_hand.board.viewport(), _layer_cell(flow_hand, "keys", 0, 0))
    flow_hand.settle()
    assert flow_hand.window.workspace.view.pinned_parameter
    cell = Cell("weights", (0, 3, 1))
    flow_hand.click_cell(cell)
    flow_hand.settle()
    assert flow_hand.window.workspace.view.pinned_parameter is None
    assert flow_hand.window.workspace.view.pinned == cell


def test_the_view_of_all_heads_names_the_head_and_escape_leaves_it(flow_hand: Hand) -> None:
    flow_hand.key(Qt.Key.Key_0)
    flow_hand.settle()
    assert flow_hand.board.board_layout.flow is None
    flow_hand.hover(Cell("weights", (1, 3, 1)))
    flow_hand.until(lambda: "head 2" in flow_hand.caption)
    flow_hand.leave()
    flow_hand.settle()
    flow_hand.board.setFocus()
    flow_hand.key(Qt.Key.Key_Escape)
    flow_hand.settle()
    assert flow_hand.board.board_layout.flow


@pytest.mark.parametrize("cell", [Cell("weights", (0, 5, 2)), Cell("masked", (0, 5, 2))])
def test_bands_do_not_cover_numbers(flow_hand: Hand, cell: Cell) -> None:
    flow_hand.window.controllers.view_controller.focus_stage(cell.stage)
    flow_hand.settle()
    at = next(at for at, one in enumerate(_panels(flow_hand).columns) if cell.stage in one.states)
    slot = _placement(flow_hand).slots[at]
    assert slot
    assert slot.numbers
    crossed = [slot.cell_area(*place).toAlignedRect() for place in ((5, 0), (5, 1), (3, 2), (4, 2))]

    def inside() -> list[list[list[int]]]:
        picture = rgb_of(flow_hand.board.viewport().grab().toImage())
        return [
            picture[area.top() + 4 : area.bottom() - 4, area.left() + 4 : area.right() - 4].tolist()
            for area in crossed
        ]

    flow_hand.leave()
    flow_hand.settle()
    before = inside()
    flow_hand.hover(cell)
    flow_hand.until(lambda: flow_hand.board.cell_cursor.hovered == cell)
    flow_hand.settle()
    assert inside() == before


def test_bands_do_not_change_the_colours_of_matrices_that_they_pass(flow_hand: Hand) -> None:
    flow_hand.window.resize(800, 600)
    flow_hand.leave()
    flow_hand.settle()
    columns = _panels(flow_hand).columns
    at = next(at for at, one in enumerate(columns) if "values" in one.states)
    slot = _placement(flow_hand).slots[at]
    assert slot
    area = slot.cells.toAlignedRect().adjusted(2, 2, -2, -2)

    def inside() -> list[int]:
        picture = rgb_of(flow_hand.board.viewport().grab().toImage())
        found = picture[area.top() : area.bottom(), area.left() : area.right()]
        return [int(pixel) for pixel in found.ravel()]

    before = inside()
    cell = Cell("masked", (0, 4, 2))  # whose band leads from Q past K and V
    flow_hand.hover(cell)
    flow_hand.until(lambda: flow_hand.board.cell_cursor.hovered == cell)
    flow_hand.settle()
    assert inside() == before != []


def test_words_above_the_keys_are_whole_in_a_small_window(flow_hand: Hand) -> None:
    flow_hand.window.resize(800, 600)
    flow_hand.settle()
    texts = {label.text for label in board_labels(_placement(flow_hand)) if label.is_upright}
    run = flow_hand.window.workspace.run
    assert run
    assert texts == {*run.texts[0]}
