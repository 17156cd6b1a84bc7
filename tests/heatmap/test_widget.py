"""The heatmaps in the window: hovering, keys and repainting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QCursor, QFont, QFontMetricsF, QImage, QPainter, QPixmap
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.examples import others_slow
from tests.support.hand_made_panels import a_board, a_heatmap, axis
from tests.support.window_input import words
from visualizer.heatmap import panel_margins_paint, panel_paint
from visualizer.heatmap.board import Board
from visualizer.heatmap.cell_cursor import CellCursor
from visualizer.heatmap.cell_cursor_paint import paint_cursor
from visualizer.heatmap.highlights import Highlights
from visualizer.heatmap.panel_placement import lay_out_board
from visualizer.heatmap.widget import BoardView
from visualizer.session.cell_address import Cell
from visualizer.widgets.fonts import scaled_font
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand
    from visualizer.heatmap.board_layout import PanelSlot


MAX_SIZE_PX = 2**24 - 1
"""Qt's default for the maximum width and height of widgets."""


def long_text(hand: Hand) -> None:
    hand.paste_sentence(" ".join(f"w{number % 7}" for number in range(700)))
    hand.settle()


def many_heads(hand: Hand) -> None:
    hand.type_number("d_out", "6")
    hand.type_number("heads", "6")
    hand.settle()
    assert hand.board.verticalScrollBar().maximum() > 0


def rest(hand: Hand, at: QPoint) -> None:
    """Move the pointer to a position on the heatmaps, and leave it there."""
    QTest.mouseMove(hand.board.viewport(), at)
    hand.until(hand.board.viewport().underMouse)
    QApplication.processEvents()


# --------------------------------------------------------------------------------- pooled cells


def test_the_visible_number_of_a_pooled_cell_is_explained(hand: Hand) -> None:
    long_text(hand)
    heatmap = hand.panel("weights")
    block, workspace = heatmap.rows.block, hand.window.workspace
    assert block > 1
    for row, column in ((0, 0), (3, 1), (8, 8), (10, 2)):
        first = Cell("weights", (0, row * block, column * block))
        hand.hover(first)
        told = workspace.view.hovered
        assert told
        assert [at // block for at in told.place[1:]] == [row, column]
        assert workspace.run
        assert workspace.run.trace.read("weights", told.place) == heatmap.values[row, column]
        assert f"largest in a block of {block} × {block} cells" in words(
            hand.window.panes["Explain"].heading
        )
    hand.click_cell(first)
    assert workspace.view.pinned == told
    hand.click_cell(first)
    assert workspace.view.pinned is None


def test_arrow_keys_move_from_drawn_cell_to_drawn_cell(hand: Hand) -> None:
    long_text(hand)
    block = hand.panel("scores").rows.block
    hand.board.setFocus()
    seen = []
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Right):
        hand.key(key)
        pinned = hand.window.workspace.view.pinned
        assert pinned
        seen.append(tuple(at // block for at in pinned.place[1:]))
    assert seen == [(0, 0), (1, 0), (2, 0), (2, 1)]


# ---------------------------------------------------------------------------------- the pointer


def test_a_new_cell_under_a_resting_pointer_is_explained(hand: Hand) -> None:
    many_heads(hand)
    rest(hand, hand.point(Cell("weights", (1, 2, 1))))
    view = hand.window.workspace.view
    assert view.hovered == Cell("weights", (1, 2, 1))
    hand.board.turn_page(1)
    hovered = hand.window.workspace.view.hovered
    assert hovered
    assert hovered.stage == "weights"
    assert hovered.place[0] > 1  # of the head at this position on the next page
    assert hovered.place[1:] == (2, 1)


def test_turning_a_page_of_heads_shows_its_number(hand: Hand) -> None:
    many_heads(hand)
    hand.board.turn_page(1)
    said = hand.window.statusBar().currentMessage()
    pages = re.fullmatch(r"Page 2 of (\d): Head (\d+) to Head (\d+)", said)
    assert pages, said
    top = hand.board.scroll_offset().y()
    shown = {slot.heatmap.head for slot in hand.board.board_layout.slots
             if top < slot.cells.top()
             and slot.cells.bottom() < top + hand.board.height()}  # fmt: skip
    assert {int(pages[2]) - 1, int(pages[3]) - 1} <= shown
    hand.board.turn_page(-1)
    assert hand.window.statusBar().currentMessage().startswith("Page 1 of ")


def test_a_new_board_under_a_resting_pointer_is_explained(hand: Hand) -> None:
    rest(hand, hand.point(Cell("weights", (0, 5, 5))))
    assert "step (query 6) attends to " in hand.said
    hand.window.workspace.set_text("one two three")
    hand.settle()
    hand.until(lambda: hand.window.workspace.view.hovered != Cell("weights", (0, 5, 5)))
    hovered = hand.window.workspace.view.hovered
    point = hand.board.viewport().mapFromGlobal(QCursor.pos())
    assert hovered == hand.board.cell_at(QPointF(point))


def test_a_resting_pointer_does_not_interrupt_arrow_keys(hand: Hand) -> None:
    many_heads(hand)
    rest(hand, hand.point(Cell("weights", (0, 2, 1))))
    hand.window.controllers.cell_selection_controller.pin_cell(Cell("weights", (3, 5, 0)))
    hand.board.setFocus()
    before = hand.board.verticalScrollBar().value()
    hand.key(Qt.Key.Key_Down)
    QApplication.processEvents()
    assert hand.board.verticalScrollBar().value() > before
    assert hand.window.workspace.view.hovered is None
    assert words(hand.window.panes["Explain"].heading).startswith(
        "Weights · head 5, query 1, key 1"
    )


def test_scroll_bars_and_minimap_are_between_the_bars(hand: Hand) -> None:
    workspace = hand.window.workspace
    workspace.change_view(stages=frozenset({"queries", "keys"}), zoom=None)
    hand.settle()
    assert not hand.board.horizontalScrollBar().maximum()
    workspace.change_view(stages=frozenset(workspace.run.trace.names if workspace.run else ()))
    many_heads(hand)
    hand.window.controllers.view_controller.zoom(2, (3, 3))
    hand.settle()
    board = hand.board
    board.setFixedSize(260, 200)
    hand.settle()
    across, down, size = (
        board.horizontalScrollBar(),
        board.verticalScrollBar(),
        board.viewport().size(),
    )
    assert across.maximum() == round(board.board_layout.width) - size.width() > 0
    assert down.maximum() == round(board.board_layout.height) - size.height() > 0
    corner = board.minimap.geometry().bottomRight()
    assert corner == board.viewport().rect().bottomRight() - QPoint(12, 12)
    board.setMinimumSize(0, 0)
    board.setMaximumSize(MAX_SIZE_PX, MAX_SIZE_PX)


def test_neither_scroll_bar_is_shown_only_because_of_the_other(qtbot: QtBot) -> None:
    board = BoardView()
    qtbot.addWidget(board)
    bars = (board.horizontalScrollBar(), board.verticalScrollBar())
    board.resize(100, 100)
    board.show()
    board.show_board(a_board(1, 1, 6), CellCursor(), Highlights(), LIGHT, "")
    QApplication.processEvents()
    assert all(bar.isVisible() for bar in bars)
    board.resize(186, 138)  # the whole board fits, but not next to either bar
    QApplication.processEvents()
    size, layout = board.maximumViewportSize(), board.board_layout
    assert layout.width <= size.width() < layout.width + bars[1].width()
    assert layout.height <= size.height() < layout.height + bars[0].height()
    assert not any(bar.isVisible() for bar in bars)


# ------------------------------------------------------------------- enlarged stages and links


def slots(hand: Hand) -> dict[tuple[str, int | None], PanelSlot]:
    return {(one.heatmap.stage, one.heatmap.head): one for one in hand.board.board_layout.slots}


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("is_flow", [False, True], ids=["grid", "flow"])
def test_a_double_click_pins_a_cell_and_enlarges_its_stage(
    hand: Hand, is_flow: bool, is_pinned: bool
) -> None:
    cell = Cell("scores", (1, 3, 2))
    if is_flow:
        hand.window.controllers.view_controller.show_head_flow(1)
        hand.settle()
        cell = Cell("masked", (1, 3, 2))
    if is_pinned:
        hand.click_cell(cell)
        hand.settle()
    at = hand.point(cell)
    QTest.mouseClick(hand.board.viewport(), Qt.MouseButton.LeftButton, pos=at)
    QTest.mouseDClick(hand.board.viewport(), Qt.MouseButton.LeftButton, pos=at)
    hand.settle()
    view = hand.window.workspace.view
    assert (view.large, view.heads, view.pinned) == (cell.stage, frozenset({1}), cell)
    flow = hand.shown.flow
    assert flow is not None
    assert (flow.front, flow.panels[flow.focus].stage) == (1, cell.stage)


def test_a_link_to_a_hidden_panel_leads_to_the_flow_and_back(hand: Hand) -> None:
    hand.type_number("d_out", "4")
    hand.type_number("heads", "2")
    hand.settle()
    before = {key: slot.cells for key, slot in slots(hand).items()}
    hand.click_cell(Cell("weights", (1, 4, 1)))
    hand.window.controllers.cell_selection_controller.follow_link(Cell("values", (1, 1, 0)))
    hand.settle()
    flow = hand.shown.flow
    assert flow is not None
    assert flow.front == 1
    assert hand.board.area_of_cell(Cell("values", (1, 1, 0))) is not None
    QTest.keyClick(hand.board, Qt.Key.Key_Escape)
    hand.settle()
    assert {key: slot.cells for key, slot in slots(hand).items()} == before
    assert hand.window.workspace.view.pinned == Cell("weights", (1, 4, 1))  # the origin of the link


def test_the_stage_bar_keeps_a_panel_to_which_a_link_led(hand: Hand) -> None:
    hand.click_cell(Cell("weights", (0, 4, 1)))
    hand.window.controllers.cell_selection_controller.follow_link(Cell("values", (0, 1, 0)))
    hand.settle()
    hand.toggle_stage("values")
    hand.settle()
    view = hand.window.workspace.view
    assert "values" in view.stages
    assert view.pinned == Cell("values", (0, 1, 0))
    assert ("values", 0) in slots(hand)


# -------------------------------------------------------------------------------- painting


def has_frame(hand: Hand) -> bool:
    image = hand.board.viewport().grab().toImage()
    accent, edge = QColor(hand.window.theme.accent), image.rect().adjusted(1, 1, -1, -1)
    return all(
        image.pixelColor(point) == accent
        for point in (edge.topLeft(), edge.bottomLeft(), edge.bottomRight(), edge.topRight())
    )


def test_keyboard_focus_shows_a_frame(hand: Hand) -> None:
    hand.sentence.setFocus()
    hand.click_cell(Cell("weights", (0, 1, 0)))
    assert hand.board.hasFocus()
    assert not has_frame(hand)  # a click needs no frame
    hand.sentence.setFocus()
    hand.board.setFocus(Qt.FocusReason.TabFocusReason)
    assert has_frame(hand)
    hand.key(Qt.Key.Key_Tab)
    assert not hand.board.hasFocus()
    assert not has_frame(hand)


def test_another_screen_has_its_own_pixmaps(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    check_picture(hand, float(hand.board.devicePixelRatioF()))
    sizes = [slot.cell_width for slot in hand.board.board_layout.slots]
    monkeypatch.setattr(hand.board, "devicePixelRatioF", lambda: 1.75)
    QApplication.sendEvent(hand.board, QEvent(QEvent.Type.DevicePixelRatioChange))
    check_picture(hand, 1.75)
    assert sizes != [slot.cell_width for slot in hand.board.board_layout.slots]
    for slot in hand.board.board_layout.slots:
        assert slot.cell_width * 1.75 == pytest.approx(round(slot.cell_width * 1.75))


@pytest.mark.slow
@pytest.mark.parametrize("ratio", others_slow([1.75, 1.0, 2.0]))
def test_values_on_a_reused_pixmap_match_those_on_a_new_pixmap(
    hand: Hand, monkeypatch: pytest.MonkeyPatch, ratio: float
) -> None:
    """The head label, which is cached separately, also matches."""
    hand.type_number("d_out", "4")
    hand.type_number("heads", "2")
    hand.settle()
    monkeypatch.setattr(hand.board, "devicePixelRatioF", lambda: ratio)
    QApplication.sendEvent(hand.board, QEvent(QEvent.Type.DevicePixelRatioChange))
    hand.window.workspace.change_setting("dropout", 0.5)
    hand.settle()
    mask, mode = "module.toggle_causal_mask", "module.toggle_training_mode"
    for change in (mask, mask, mode, mask, mode, "workspace.resample dropout_seed"):
        hand.board.viewport().grab()
        hand.window.actions_.by_id[change].trigger()
        hand.settle()
        labels = {slot.heatmap.label for slot in hand.board.board_layout.slots}
        assert labels >= {"Head 1", "Head 2"}
        check_picture(hand, ratio)
    hand.window.workspace.change_setting("dropout", 0.0)
    hand.settle()
    hand.window.controllers.view_controller.set_stage_limits("weights", 0.0, 0.2)
    for _ in range(2):  # a different number of cells beyond the limits, with the same width
        hand.window.actions_.by_id["module.toggle_causal_mask"].trigger()
        hand.settle()
        check_picture(hand, ratio)


def check_picture(hand: Hand, ratio: float) -> None:
    """Check that every panel is painted as on a blank image, whatever was painted before."""
    board, edge = hand.board, 4
    seen = QRectF(board.viewport().rect()).translated(board.scroll_offset())
    seen.setTop(seen.top() + board.board_layout.head + edge)  # the titles cover everything above
    shown = _picture(board.viewport().size(), ratio, hand.window.theme)
    board.viewport().render(shown)
    anew = _picture(board.viewport().size(), ratio, hand.window.theme)
    painter = QPainter(anew)
    painter.translate(-board.scroll_offset())
    for slot in board.board_layout.slots:
        panel_paint.paint_panel(painter, slot, hand.window.theme)
    painter.end()
    parts = (slot.whole_area.intersected(seen) for slot in board.board_layout.slots)
    areas = [area for area in parts if not area.isEmpty()]
    assert areas
    for area in areas:
        part = area.translated(-board.scroll_offset())
        pixels = QRectF(part.topLeft() * ratio, part.size() * ratio).toRect()
        pair = (_channels(one.toImage().copy(pixels)) for one in (shown, anew))
        # Lines are rounded differently, and letters between whole pixels are smoothed differently;
        # another letter would differ by more than 150.
        most = 1 if ratio.is_integer() else 64
        assert np.ptp(np.stack([*pair]), axis=0).max() <= most


def _channels(image: QImage) -> np.ndarray:
    """Return the channels of all pixels, int16."""
    return np.frombuffer(image.constBits(), dtype=np.uint8).astype(np.int16)


def _picture(size: QSize, ratio: float, theme: Theme) -> QPixmap:
    made = QPixmap(size * ratio)
    made.setDevicePixelRatio(ratio)
    made.fill(QColor(theme.paper))
    return made


def lit(slot: PanelSlot, cursor: CellCursor, theme: Theme) -> QImage:
    whole = slot.whole_area.adjusted(0, 0, 60, 30)
    size = (round(whole.right()), round(whole.bottom()))
    image = QImage(*size, QImage.Format.Format_RGB32)
    image.fill(QColor(theme.paper))
    painter = QPainter(image)
    panel_paint.paint_panel(painter, slot, theme)
    paint_cursor(painter, slot, cursor, theme)
    painter.end()
    return image


def colours(image: QImage, area: QRectF) -> set[str]:
    part = image.copy(area.toAlignedRect())
    points = ((x, y) for x in range(part.width()) for y in range(part.height()))
    return {part.pixelColor(x, y).name().upper() for x, y in points}


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("value", [0.0, 0.3, 0.6, 1.0])
def test_the_frame_of_a_cell_is_visible_on_every_colour(value: float, theme: Theme) -> None:
    heatmap = a_heatmap([[value] * 12] * 12)
    slot = lay_out_board(Board(((heatmap,),)), 600, 600).slots[0]
    cell = Cell("weights", (0, 5, 5))
    for cursor in (CellCursor(hovered=cell), CellCursor(pinned=cell)):
        seen = colours(lit(slot, cursor, theme), slot.cell_area(5, 5).adjusted(-3, -3, 3, 3))
        assert {theme.accent.upper(), theme.paper.upper()} <= seen


@pytest.mark.usefixtures("application")
def test_a_highlighted_label_hides_labels_that_it_would_overlap() -> None:
    heatmap = a_heatmap([[0.5] * 60] * 60)
    placed = lay_out_board(Board(((heatmap,),)), 500, 500).slots[0]
    assert (
        panel_margins_paint.space_per_label(heatmap.rows, placed.cell_height) > placed.cell_height
    )
    shown = {at for at, _ in panel_margins_paint.visible_labels(heatmap.rows, placed.cell_height)}
    row = next(at for at in range(1, 59) if at not in shown)
    image = lit(placed, CellCursor(query=row, key=row), LIGHT)
    box = panel_margins_paint.row_label_box(placed, row)
    assert LIGHT.accent.upper() in colours(image, box)
    neighbours = panel_margins_paint.row_label_box(
        placed, row - 1
    ) | panel_margins_paint.row_label_box(placed, row + 1)
    assert LIGHT.ink.upper() not in colours(image, neighbours)
    assert LIGHT.ink.upper() in colours(lit(placed, CellCursor(), LIGHT), neighbours)


@pytest.mark.usefixtures("application")
def test_a_highlighted_label_hides_no_other_if_every_row_is_labelled() -> None:
    boards = (Board(((a_heatmap([[0.5] * count] * count),),)) for count in range(20, 60))
    slots = (lay_out_board(board, 500, 500).slots[0] for board in boards)
    small = panel_margins_paint.SMALL_LABEL
    placed = next(
        slot
        for slot in slots
        if panel_margins_paint.label_font_size(slot.heatmap.rows, slot.cell_height) == small
    )
    images = [lit(placed, cursor, LIGHT) for cursor in (CellCursor(), CellCursor(query=7, key=7))]
    for row in (6, 8):
        box = panel_margins_paint.row_label_box(placed, row)
        middle = box.adjusted(0, 4, 0, -4).toRect()
        before, after = (image.copy(middle) for image in images)
        assert before == after
        assert len(colours(images[1], QRectF(middle))) > 1  # the number is there


def width_of_ink(image: QImage, area: QRectF) -> int:
    """Return the number of columns from the first to the last one with ink."""
    part, paper = image.copy(area.toAlignedRect()), QColor(LIGHT.paper)
    rows = range(part.height())
    inked = [
        x for x in range(part.width()) if any(part.pixelColor(x, y) != paper for y in rows)
    ]  # fmt: skip
    return max(inked) - min(inked) + 1


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("word", ["word", "mmmmmmmm", "a long word "])
def test_the_widest_label_is_not_cut_when_highlighted(word: str) -> None:
    heatmap = a_heatmap([[0.5] * 12] * 12, rows=axis("query", 12, word=word))
    placed = lay_out_board(Board(((heatmap,),)), 500, 500).slots[0]
    box = panel_margins_paint.row_label_box(placed, 11).adjusted(-12, 2, 4, -2)
    plain, bold = (lit(placed, one, LIGHT) for one in (CellCursor(), CellCursor(query=11, key=0)))
    size = panel_margins_paint.label_font_size(heatmap.rows, placed.cell_height)
    text = panel_margins_paint.elide_label(heatmap.rows.labels[11], placed.longest, size)
    measured = [
        QFontMetricsF(scaled_font(size, weight)).tightBoundingRect(text).width()
        for weight in (QFont.Weight.Normal, QFont.Weight.DemiBold)
    ]
    seen = [width_of_ink(plain, box), width_of_ink(bold, box)]
    assert seen == pytest.approx(measured, abs=2)


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("block", [1, 3])
def test_rows_and_columns_of_selected_tokens_are_framed(block: int) -> None:
    rows, columns = axis("query", 12, block), axis("key", 12, block)
    heatmap = a_heatmap([[0.5] * 12] * 12, rows=rows, columns=columns)
    placed = lay_out_board(Board(((heatmap,),)), 600, 600).slots[0]
    chosen = frozenset({2 * block, 2 * block + 1, 3 * block, 7 * block, 999})

    def framed(cursor: CellCursor) -> tuple[set[int], set[int]]:
        image, accent = lit(placed, cursor, LIGHT), LIGHT.accent.upper()

        def is_lit(row: int, column: int, wide: float, high: float) -> bool:
            middle = placed.cell_area(row * block, column * block).center()
            area = QRectF(middle.x() - wide / 2, middle.y() - high / 2, wide, high)
            return accent in colours(image, area)

        height, width = placed.cell_height + 2, placed.cell_width + 2
        down = {row for row in range(12) if is_lit(row, 10, 2, height)}
        return down, {column for column in range(12) if is_lit(10, column, width, 2)}

    assert framed(CellCursor()) == (set(), set())
    down, across = framed(CellCursor(queries=chosen))
    assert {2, 3, 7} <= down <= {1, 2, 3, 4, 6, 7, 8}
    assert across == set()
    down, across = framed(CellCursor(keys=chosen))
    assert {2, 3, 7} <= across <= {1, 2, 3, 4, 6, 7, 8}
    assert down == set()
