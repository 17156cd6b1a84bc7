"""Mask editing in a window: by mouse, keyboard and brush; a stroke is one undoable change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu

from tests.support.accessible_text import heard
from tests.support.window_input import CONTROL, LEFT, SHIFT, Hand, words
from visualizer.attention.spec import MaskKind, MaskPlacement, NormalisationKind
from visualizer.features.mask_editor.presenter import HINT, MASK_EDIT_PANEL, SIZE_MISMATCH
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.session.document import Document, LineGrouping
from visualizer.session.view_options import MaskPattern
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from PySide6.QtGui import QImage
    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Gate, Open

NONE = Qt.KeyboardModifier.NoModifier
NO_BUTTON, RIGHT = Qt.MouseButton.NoButton, Qt.MouseButton.RightButton
CAUSAL = np.tri(6, dtype=int).tolist()


def weights(query: int, key: int, head: int = 0) -> Cell:
    return Cell("weights", (head, query, key))


class Painter:
    """Input to the mask editor, and the mask that it shows."""

    def __init__(self, hand: Hand) -> None:
        self.hand, self.window, self.board = hand, hand.window, hand.board
        self.bar, self.workspace = hand.window.mask_edit_bar, hand.window.workspace
        hand.board.setFocus()
        self.toggle()

    def toggle(self) -> None:
        self.hand.trigger("mask_edit.toggle")
        self.settle()

    def settle(self) -> None:
        """Wait until the layout of the window is also complete."""
        for _ in range(3):
            self.hand.settle()
            QApplication.processEvents()

    def key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
        self.hand.press(key, modifiers)
        self.settle()

    def press(
        self, cell: Cell, button: Qt.MouseButton = LEFT, modifiers: Qt.KeyboardModifier = NONE
    ) -> None:
        QTest.mousePress(self.board.viewport(), button, modifiers, self.hand.point(cell))

    def move(self, to: Cell | QPoint, button: Qt.MouseButton = LEFT) -> None:
        at = QPointF(to if isinstance(to, QPoint) else self.hand.point(to))
        where = QPointF(self.board.viewport().mapToGlobal(at))
        event = QMouseEvent(QEvent.Type.MouseMove, at, where, NO_BUTTON, button, NONE)
        QApplication.sendEvent(self.board.viewport(), event)

    def release(self, cell: Cell, button: Qt.MouseButton = LEFT) -> None:
        QTest.mouseRelease(self.board.viewport(), button, NONE, self.hand.point(cell))

    def stroke(
        self,
        *cells: Cell,
        button: Qt.MouseButton = LEFT,
        modifiers: Qt.KeyboardModifier = NONE,
    ) -> None:
        self.press(cells[0], button, modifiers)
        for cell in cells[1:]:
            self.move(cell, button)
        self.release(cells[-1], button)
        self.settle()

    def choose(self, brush: MaskPattern) -> None:
        self.hand.click(self.bar.buttons[brush])
        self.settle()

    @property
    def document(self) -> Document:
        return self.workspace.document

    @property
    def mask(self) -> list[list[int]]:
        """The mask as shown by the tint of the cells."""
        forbidden = self.hand.panel("weights").forbidden
        if forbidden is None:
            forbidden = np.zeros(self.hand.panel("weights").values.shape, bool)
        return [[int(not cell) for cell in row] for row in forbidden]

    @property
    def notes(self) -> str:
        return self.bar.notes.toolTip()

    def colours(self, cell: Cell) -> set[str]:
        area = self.board.area_of_cell(cell)
        assert area is not None
        image: QImage = self.board.viewport().grab(area.adjusted(3, 3, -3, -3)).toImage()
        across = ((x, y) for x in range(image.width()) for y in range(image.height()))
        return {image.pixelColor(*at).name().upper() for at in across}


@pytest.fixture
def painter(hand: Hand) -> Painter:
    hand.settle()
    return Painter(hand)


def painted(*cells: tuple[int, int], allow: int = 1) -> list[list[int]]:
    """Return a causal mask in which the given cells are painted."""
    mask = np.tri(6, dtype=int)
    for cell in cells:
        mask[cell] = allow
    return [[int(cell) for cell in row] for row in mask]


# ------------------------------------------------------------------------------ the mouse


def test_a_click_allows_what_is_forbidden_and_forbids_what_is_allowed(painter: Painter) -> None:
    before = painter.document
    painter.stroke(weights(1, 4))
    assert painter.mask == painted((1, 4))
    assert painter.document.spec.mask is MaskKind.OWN
    numbers = painter.hand.panel("weights").values
    assert numbers[1, 4] > 0
    assert numbers.sum(axis=1) == pytest.approx(1, abs=1e-5)
    painter.stroke(weights(1, 4))
    assert painter.mask == CAUSAL
    painter.hand.press(Qt.Key.Key_Z)
    painter.hand.press(Qt.Key.Key_Z)
    assert painter.document is before


def test_a_drag_paints_all_it_passes_without_a_gap_and_is_one_change(painter: Painter) -> None:
    before = painter.document
    painter.stroke(weights(0, 1), weights(0, 5))
    assert painter.mask == painted(*((0, key) for key in range(1, 6)))
    after = painter.document
    painter.stroke(weights(5, 0), weights(3, 2), weights(3, 0))
    gone = painted((5, 0), (4, 1), (3, 2), (3, 1), (3, 0), allow=0)
    gone[0] = [1] * 6
    assert painter.mask == gone
    painter.hand.press(Qt.Key.Key_Z)
    assert painter.document is after
    painter.hand.press(Qt.Key.Key_Z)
    assert painter.document is before
    painter.settle()
    assert painter.mask == CAUSAL


@pytest.mark.parametrize(("button", "modifiers"), [(RIGHT, NONE), (LEFT, SHIFT)])
def test_the_right_button_and_shift_spread_what_a_cell_is(
    painter: Painter, button: Qt.MouseButton, modifiers: Qt.KeyboardModifier
) -> None:
    before = painter.document
    painter.stroke(weights(0, 0), button=button, modifiers=modifiers)
    assert painter.document is before
    painter.stroke(weights(0, 0), weights(0, 2), button=button, modifiers=modifiers)
    assert painter.mask == painted((0, 1), (0, 2))
    painter.stroke(weights(1, 2), weights(1, 0), button=button, modifiers=modifiers)
    expected = painted((0, 1), (0, 2))
    expected[1] = [0] * 6
    assert painter.mask == expected
    assert painter.notes == "query 2 attends to no key"


def test_a_drag_stays_in_its_panel(painter: Painter) -> None:
    edge = painter.hand.point(weights(2, 5)) + QPoint(300, 0)
    painter.press(weights(2, 3))
    painter.move(edge)
    painter.release(weights(2, 5))
    painter.settle()
    assert painter.mask == painted((2, 3), (2, 4), (2, 5))


def test_any_panel_of_queries_and_keys_is_painted_in_and_others_are_not(painter: Painter) -> None:
    painter.stroke(Cell("scores", (1, 0, 3)))
    assert painter.mask == painted((0, 3))
    context = Cell("context", (0, 2, 0))
    painter.stroke(context)
    assert painter.workspace.view.pinned == context
    assert painter.mask == painted((0, 3))


def test_a_click_pins_nothing_while_one_paints_and_again_afterwards(painter: Painter) -> None:
    painter.stroke(weights(3, 1))
    assert painter.workspace.view.pinned is None
    painter.key(Qt.Key.Key_Escape)
    painter.hand.click_cell(weights(3, 1))
    assert painter.workspace.view.pinned == weights(3, 1)
    assert painter.mask == painted((3, 1), allow=0)


def test_quick_clicks_are_all_taken(painter: Painter) -> None:
    at = QPointF(painter.hand.point(weights(0, 5)))
    where = QPointF(painter.board.viewport().mapToGlobal(at))
    painter.press(weights(0, 5))
    painter.release(weights(0, 5))
    once = painter.document
    twice = QMouseEvent(QEvent.Type.MouseButtonDblClick, at, where, LEFT, LEFT, NONE)
    QApplication.sendEvent(painter.board.viewport(), twice)
    painter.release(weights(0, 5))
    painter.settle()
    assert painter.mask == CAUSAL
    painter.hand.press(Qt.Key.Key_Z)
    assert painter.document is once


def test_no_menu_comes_with_the_right_button(painter: Painter) -> None:
    at = painter.hand.point(weights(1, 1))
    reason = QContextMenuEvent.Reason.Mouse
    menu = QContextMenuEvent(reason, at, painter.board.viewport().mapToGlobal(at))
    QApplication.sendEvent(painter.board.viewport(), menu)
    assert QApplication.activePopupWidget() is None
    assert not any(one.isVisible() for one in painter.window.findChildren(QMenu))


def test_the_cell_under_the_brush_is_still_told(painter: Painter) -> None:
    painter.press(weights(1, 4))
    painter.move(weights(1, 5))
    painter.release(weights(1, 5))
    painter.settle()
    assert "journey (query 2) attends to" in painter.hand.said


# ------------------------------------------------------------------------------ the mode


def test_the_mode_says_what_can_be_done_and_ends(painter: Painter) -> None:
    assert painter.bar.isVisibleTo(painter.window)
    assert painter.hand.status == HINT
    assert painter.window.actions_.by_id["mask_edit.toggle"].isChecked()
    assert painter.board.viewport().cursor().shape() is Qt.CursorShape.CrossCursor
    before = painter.document
    painter.key(Qt.Key.Key_Escape)
    assert not painter.bar.isVisibleTo(painter.window)
    assert "6 tokens" in painter.hand.status
    assert not painter.window.actions_.by_id["mask_edit.toggle"].isChecked()
    assert painter.document is before
    painter.toggle()
    painter.hand.click(painter.bar.done)
    painter.settle()
    assert not painter.bar.isVisibleTo(painter.window)
    assert painter.board.hasFocus()


def test_escape_in_the_bar_ends_it(painter: Painter) -> None:
    painter.bar.boxes[MaskPattern.WINDOW].setFocus()
    painter.key(Qt.Key.Key_Escape)
    assert not painter.bar.isVisibleTo(painter.window)


@pytest.mark.slow
def test_escape_ends_it_before_presenter_mode(painter: Painter) -> None:
    painter.key(Qt.Key.Key_F5)
    painter.key(Qt.Key.Key_Escape)
    assert painter.workspace.screen.panel(MASK_EDIT_PANEL) is None
    assert painter.window.controllers.presenter_mode.is_on
    painter.key(Qt.Key.Key_Escape)
    assert not painter.window.controllers.presenter_mode.is_on


def test_a_stroke_ends_with_the_mode(painter: Painter) -> None:
    painter.press(weights(0, 2))
    painter.key(Qt.Key.Key_Escape)
    painter.move(weights(0, 5))
    painter.settle()
    assert painter.mask == painted((0, 2))


# ------------------------------------------------------------------------------ the keys


def test_the_pinned_cell_is_painted_by_a_key(painter: Painter) -> None:
    action = painter.window.actions_.by_id["mask_edit.paint_pinned"]
    assert not action.isEnabled()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Right):
        painter.key(key)
    assert painter.workspace.view.pinned == Cell("scores", (0, 0, 2))
    assert action.isEnabled()
    painter.key(Qt.Key.Key_X)
    assert painter.mask == painted((0, 2))
    painter.key(Qt.Key.Key_X)
    assert painter.mask == CAUSAL


def test_shift_and_the_arrows_paint_on_as_one_change(painter: Painter) -> None:
    painter.window.controllers.cell_selection_controller.follow_link(weights(0, 1))
    painter.key(Qt.Key.Key_X)
    one = painter.document
    QTest.keyPress(painter.board, Qt.Key.Key_Shift)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down):
        QTest.sendKeyEvent(QTest.KeyAction.Press, painter.board, key, "", SHIFT)
        painter.settle()
    QTest.keyRelease(painter.board, Qt.Key.Key_Shift)
    assert painter.mask == painted((0, 1), (0, 2), (0, 3), (1, 3))
    assert painter.workspace.view.pinned == weights(1, 3)
    painter.hand.press(Qt.Key.Key_Z)
    assert painter.document is one


def test_shift_and_the_arrows_stay_in_their_panel(painter: Painter) -> None:
    painter.window.controllers.cell_selection_controller.follow_link(weights(0, 5))
    painter.settle()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Up):
        painter.key(key, SHIFT)
    assert painter.workspace.view.pinned == weights(0, 5)
    assert painter.mask == CAUSAL


# ------------------------------------------------------------------------------ large and close


def test_in_a_zoomed_panel_a_drag_paints_and_the_wheel_moves(painter: Painter) -> None:
    painter.window.controllers.cell_selection_controller.follow_link(weights(1, 1))
    painter.settle()
    painter.window.controllers.view_controller.zoom(2, (1.5, 1.5))
    painter.settle()
    rows = painter.hand.panel("weights").rows.visible_range
    assert len(rows) < 6
    first, last = rows[0], rows[-1]
    painter.stroke(weights(first, first), weights(last, first))
    assert painter.hand.panel("weights").rows.visible_range == rows
    own = painter.document.spec.own_mask
    assert own is not None
    assert not own.to_array()[first : last + 1, first].any()
    assert own.to_array()[last + 1 :, first].all()


def test_the_wheel_ends_a_stroke(painter: Painter) -> None:
    painter.press(weights(0, 2))
    at = QPointF(painter.hand.point(weights(0, 2)))
    where = QPointF(painter.board.viewport().mapToGlobal(at))
    turn = (QPoint(), QPoint(0, 120), LEFT, CONTROL, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(painter.board.viewport(), QWheelEvent(at, where, *turn))
    painter.settle()
    painter.move(QPoint(painter.hand.point(weights(1, 3))))
    painter.settle()
    assert np.argwhere(np.array(_own(painter)) != np.tri(6)).tolist() == [[0, 2]]


def _own(painter: Painter) -> list[list[int]]:
    own = painter.document.spec.own_mask
    assert own is not None
    return [[int(cell) for cell in row] for row in own.to_array()]


def test_in_a_pooled_panel_a_cell_paints_its_block(painter: Painter) -> None:
    painter.hand.paste_sentence(" ".join(f"w{number}" for number in range(300)))
    painter.settle()
    panel = painter.hand.panel("weights")
    block = panel.rows.block
    assert block > 1
    assert painter.notes == f"{block} × {block} blocks"
    painter.stroke(weights(0, 10 * block), weights(0, 13 * block))
    mask = np.tri(300, dtype=int)
    mask[:block, 10 * block : 14 * block] = 1
    assert np.array_equal(np.array(_own(painter)), mask)
    control = painter.window.settings_bar.rows["own_mask"].control
    box = getattr(control, "box")  # noqa: B009 - each kind of control has its own box
    assert box.toPlainText() == ""
    assert box.placeholderText().startswith("300 × 300: too large to edit here.")


def test_in_a_pooled_panel_the_pinned_cell_paints_the_block_it_is_in(painter: Painter) -> None:
    painter.hand.paste_sentence(" ".join(f"w{number}" for number in range(300)))
    painter.settle()
    block = painter.hand.panel("weights").rows.block
    assert block > 1
    painter.board.setFocus()
    painter.window.controllers.cell_selection_controller.follow_link(
        weights(2 * block + 1, 10 * block + 1)
    )
    painter.settle()
    painter.key(Qt.Key.Key_X)
    mask = np.tri(300, dtype=int)
    mask[2 * block : 3 * block, 10 * block : 11 * block] = 1
    assert np.array_equal(np.array(_own(painter)), mask)


# ------------------------------------------------------------------------------ live


@pytest.fixture
def gated(gate: Gate, open_window: Open, qtbot: QtBot) -> Painter:
    """Return a painter in a window whose first run is shown; further runs wait for the gate."""
    window = open_window()
    gate.let_through()
    hand = Hand(qtbot, window)
    hand.settle()
    return Painter(hand)


def test_what_is_painted_is_seen_before_its_numbers(gated: Painter, gate: Gate) -> None:
    opened, closed = weights(0, 4), weights(4, 1)
    assert LIGHT.mask in gated.colours(weights(1, 5))
    for cell in (opened, closed):
        gated.press(cell)
        gated.release(cell)
    gated.hand.leave()
    assert gated.workspace.is_working
    assert gated.mask == CAUSAL
    assert gated.colours(opened) == {LIGHT.paper}
    assert LIGHT.mask in gated.colours(closed)
    gate.open()
    gated.settle()
    expected = painted((0, 4))
    expected[4][1] = 0
    assert gated.mask == expected
    painting = gated.workspace.screen.panel(MASK_EDIT_PANEL)
    assert painting is not None
    assert painting.pending_cells == {}
    assert LIGHT.mask in gated.colours(closed)
    assert LIGHT.paper not in gated.colours(opened)


def test_of_tiny_cells_the_stroke_is_lit(gate: Gate, open_window: Open, qtbot: QtBot) -> None:
    gate.let_through()
    text = " ".join(f"w{number}" for number in range(90))
    window = open_window(Document(text))
    hand = Hand(qtbot, window)
    hand.settle()
    painter = Painter(hand)
    painter.press(weights(20, 60))
    painter.move(weights(20, 70))
    painter.release(weights(20, 70))
    hand.leave()
    area = painter.board.area_of_cell(weights(20, 65))
    assert area is not None
    middle = painter.board.viewport().grab(area).toImage().pixelColor(1, 1)
    assert middle.name().upper() == LIGHT.accent
    gate.open()
    hand.settle()


def test_a_mask_that_cannot_be_used_is_painted_all_the_same(painter: Painter) -> None:
    painter.workspace.change_setting("mask", MaskKind.NONE)
    painter.workspace.change_setting("normalisation", NormalisationKind.SUM)
    painter.settle()
    before = painter.document
    painter.press(weights(0, 4))
    painter.release(weights(0, 4))
    QApplication.processEvents()
    assert "A row that contains −∞ has no finite sum" in words(painter.window.notice)
    painter.hand.leave()
    assert LIGHT.mask in painter.colours(weights(0, 4))
    painter.window.controllers.setup_controller.apply_remedy("normalisation")
    painter.settle()
    assert painter.mask[0] == [1, 1, 1, 1, 0, 1]
    for _ in range(2):
        painter.hand.press(Qt.Key.Key_Z)
    assert painter.document is before


def test_a_stroke_goes_on_where_the_hand_is_when_panels_move(painter: Painter) -> None:
    painter.workspace.change_setting("mask", MaskKind.NONE)
    painter.workspace.change_view(stages=frozenset({"masked", "weights"}))
    painter.settle()
    assert painter.hand.stages == ["weights"]
    points = [painter.hand.point(weights(2, key)) for key in (1, 2, 3)]
    painter.press(weights(2, 1))
    painter.settle()
    assert painter.hand.stages == ["masked", "weights"]
    assert painter.hand.point(weights(2, 1)) != points[0]
    for point in points[1:]:
        painter.move(point)
    QTest.mouseRelease(painter.board.viewport(), LEFT, NONE, points[-1])
    painter.settle()
    assert painter.mask == [[1] * 6] * 2 + [[1, 0, 0, 0, 1, 1]] + [[1] * 6] * 3


@pytest.mark.slow
@pytest.mark.parametrize("route", MaskPlacement)
def test_every_stage_that_the_mask_acts_on_shows_it(painter: Painter, route: MaskPlacement) -> None:
    painter.workspace.change_setting("route", route)
    painter.workspace.change_setting("dropout", 0.5)
    stages = frozenset({"scores", "masked", "zeroed", "weights", "dropped"})
    painter.workspace.change_view(stages=stages)
    painter.settle()
    painter.stroke(weights(2, 5), weights(2, 4))
    acting = [stage for stage in painter.hand.stages if stage != "scores"]
    assert {"weights", "dropped"} <= set(acting)
    for stage in acting:
        forbidden = painter.hand.panel(stage).forbidden
        assert forbidden is not None
        assert (~forbidden).astype(int).tolist() == painted((2, 4), (2, 5)), stage
    assert painter.hand.panel("scores").forbidden is None


def test_a_stroke_paints_every_text_of_a_batch(painter: Painter) -> None:
    painter.hand.paste_sentence("a b c\nd e")
    painter.workspace.change_setting("lines", LineGrouping.APART)
    painter.settle()
    painter.stroke(weights(0, 1))
    assert painter.mask == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    painter.workspace.show_leading_index((1,))
    painter.settle()
    assert painter.mask == [[1, 1, 0], [1, 1, 0], [1, 1, 0]]


def test_of_texts_side_by_side_any_is_painted_in(painter: Painter) -> None:
    painter.hand.paste_sentence("a b c\nd e f")
    painter.workspace.change_setting("lines", LineGrouping.APART)
    painter.settle()
    painter.workspace.change_view(spread=True, text=1)
    painter.settle()
    painter.stroke(weights(0, 1), weights(0, 2))
    panels = [panel for panel in painter.hand.shown.heatmaps if panel.stage == "weights"]
    assert [panel.leading for panel in panels] == [(0,), (1,)]
    for panel in panels:
        assert panel.forbidden is not None
        assert (~panel.forbidden).astype(int).tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 1]]


def test_of_a_comparison_the_live_side_is_painted(painter: Painter) -> None:
    painter.hand.trigger("comparison.keep_as_a")
    painter.workspace.change_view(stages=frozenset({"weights"}))
    painter.settle()
    before = painter.document
    for part in (ComparisonSide.A, ComparisonSide.CHANGE):
        painter.stroke(Cell("weights", (0, 1, 4), None, part))
        assert painter.document is before
    painter.stroke(Cell("weights", (0, 1, 4), None, ComparisonSide.B))
    shown = {panel.part: panel for panel in painter.hand.shown.heatmaps if panel.head == 0}
    expected = {ComparisonSide.A: CAUSAL, ComparisonSide.B: painted((1, 4))}
    for part, mask in expected.items():
        forbidden = shown[part].forbidden
        assert forbidden is not None
        assert (~forbidden).astype(int).tolist() == mask
    assert shown[ComparisonSide.CHANGE].values[1, 4] > 0


# ------------------------------------------------------------------------------ the bar


def test_brushes_are_masks_to_start_from(painter: Painter) -> None:
    rows = {
        MaskPattern.ALL: [[1] * 6] * 6,
        MaskPattern.WINDOW: (np.tri(6, dtype=int) - np.tri(6, k=-3, dtype=int)).tolist(),
        MaskPattern.PREFIX: [[1, 1, 0, 0, 0, 0], *np.tri(6, dtype=int).tolist()[1:]],
        MaskPattern.PADDING: [[1, 1, 1, 1, 0, 0]] * 6,
        MaskPattern.CAUSAL: CAUSAL,
    }
    assert painter.bar.buttons[MaskPattern.CAUSAL].isChecked()
    for brush, mask in rows.items():
        before = painter.document
        painter.choose(brush)
        assert painter.mask == mask
        checked = [one for one, button in painter.bar.buttons.items() if button.isChecked()]
        assert checked == [brush]
        after = painter.document
        painter.hand.press(Qt.Key.Key_Z)
        assert painter.document is before
        painter.hand.press(Qt.Key.Key_Y)
        assert painter.document is after
    painter.stroke(weights(0, 5))
    assert not any(button.isChecked() for button in painter.bar.buttons.values())


def test_the_number_of_a_brush_acts_on_its_own_mask_alone(painter: Painter) -> None:
    box = painter.bar.boxes[MaskPattern.PREFIX]
    assert (box.value(), box.maximum()) == (2, 6)
    painter.hand.click(box)
    painter.key(Qt.Key.Key_Up)
    assert painter.mask == CAUSAL
    painter.choose(MaskPattern.PREFIX)
    chosen = painter.document
    assert painter.mask[0] == [1, 1, 1, 0, 0, 0]
    painter.hand.click(box)
    painter.key(Qt.Key.Key_Up)
    painter.key(Qt.Key.Key_Up)
    assert painter.mask[0] == [1, 1, 1, 1, 1, 0]
    painter.board.setFocus()
    painter.hand.press(Qt.Key.Key_Z)
    assert painter.document is chosen


def test_another_text_is_said_with_what_mends_it(painter: Painter) -> None:
    painter.stroke(weights(0, 5))
    shown = painter.mask
    painter.workspace.change_setting("text", "Your journey starts with one small step")
    painter.hand.until(lambda: bool(painter.hand.problem("own_mask")))
    said = "The matrix is 6 × 6, but the text needs 7 × 7."
    assert painter.hand.problem("own_mask") == f"{said} Set “Mask” to Causal"
    assert "heatmaps were not updated" in words(painter.window.notice)
    assert said in words(painter.window.notice)
    assert painter.notes == SIZE_MISMATCH
    assert painter.mask == shown
    before = painter.document
    painter.press(weights(1, 5))
    painter.release(weights(1, 5))
    assert painter.document is before
    painter.choose(MaskPattern.WINDOW)
    assert painter.mask == (np.tri(7, dtype=int) - np.tri(7, k=-3, dtype=int)).tolist()
    assert (painter.hand.problem("own_mask"), painter.notes) == ("", "")
    painter.hand.press(Qt.Key.Key_Z)
    painter.hand.until(lambda: bool(painter.hand.problem("own_mask")))
    painter.window.controllers.setup_controller.apply_remedy("own_mask")
    painter.settle()
    assert painter.mask == np.tri(7, dtype=int).tolist()


def test_without_a_text_a_brush_does_nothing(painter: Painter) -> None:
    painter.workspace.change_setting("text", "")
    painter.hand.until(lambda: bool(painter.hand.text_problem))
    before = painter.document
    painter.hand.click(painter.bar.buttons[MaskPattern.ALL])
    painter.bar.boxes[MaskPattern.WINDOW].setValue(2)
    assert painter.document is before


def test_all_of_the_bar_has_a_name(painter: Painter) -> None:
    bar = painter.bar
    names = [widget.accessibleName() for widget in (*bar.buttons.values(), *bar.boxes.values())]
    assert names == [
        *("All mask", "Causal mask", "Window mask", "Prefix mask", "Padding mask"),
        *("Window size in tokens", "Prefix length in tokens"),
        "Number of tokens before the padding",
    ]
    assert heard(bar).name == "Mask editor"
    bar.buttons[MaskPattern.ALL].setFocus(Qt.FocusReason.TabFocusReason)
    reached = []
    while (widget := QApplication.focusWidget()) is not bar.done:
        assert widget is not None
        reached.append(widget.accessibleName())
        painter.hand.key(Qt.Key.Key_Tab)
    assert sorted(reached) == sorted(names)


def test_masks_without_room_are_in_a_menu_and_the_chosen_one_is_not(painter: Painter) -> None:
    painter.hand.narrow(560)
    bar = painter.bar
    painter.hand.until(bar.more.isVisible)
    assert bar.done.visibleRegion().boundingRect() == bar.done.rect()
    assert "Padding mask" in painter.hand.read_menu(bar.more)
    painter.hand.choose_in_menu(bar.more, "Padding mask")
    painter.settle()
    assert bar.boxes[MaskPattern.PADDING].isVisible()
    assert bar.buttons[MaskPattern.PADDING].isChecked()
    assert "Padding mask" not in painter.hand.read_menu(bar.more)
