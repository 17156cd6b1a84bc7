"""Tensor editing in the window: viewing, entering, copying, pasting and undoing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QEvent, QModelIndex, QPoint, QRect, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QWidget

from tests.support.window_input import CONTROL, SHIFT, Hand, words
from visualizer.attention.spec import (
    OWN_LAYERS,
    BooleanMatrix,
    MaskKind,
    NumberMatrix,
    layer_symbol,
)
from visualizer.features.tensor_editor.controller import TensorEditController
from visualizer.features.tensor_editor.presenter import (
    NUMBER_TABLE_PANEL,
    NumberTablePanel,
)
from visualizer.features.tensor_editor.spreadsheet_clipboard import parse_block
from visualizer.features.tensor_editor.widget import NumberTableModel
from visualizer.session.cell_address import Cell
from visualizer.session.document import BOOK_SENTENCE, Document
from visualizer.session.model_pane_options import HIDDEN_MESSAGE
from visualizer.session.user_prediction import Prediction
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Gate
    from visualizer.attention.trace import Trace
    from visualizer.features.tensor_editor.presenter import NumberBlock
    from visualizer.features.tensor_editor.widget import NumberTablePane
    from visualizer.shell.window import MainWindow

Z, Y = Qt.Key.Key_Z, Qt.Key.Key_Y
DISPLAY = Qt.ItemDataRole.DisplayRole
KEY_PRESS, NO_MODIFIER = QEvent.Type.KeyPress, Qt.KeyboardModifier.NoModifier


class Clerk:
    """Input to the Numbers pane, and what it shows."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.pane: NumberTablePane = hand.window.panes["Numbers"]
        self.grid = self.pane.grid
        if "Numbers" not in hand.window.docks.visible_pane_ids:
            hand.trigger("pane.toggle Numbers")
        hand.until(lambda: self.pane.grid.isVisible())

    @property
    def document(self) -> Document:
        return self.hand.window.workspace.document

    def trace(self) -> Trace:
        run = self.hand.window.workspace.run
        assert run
        return run.trace

    @property
    def problem(self) -> str:
        return words(self.pane.problem) if self.pane.problem.isVisible() else ""

    def index(self, row: int, column: int) -> QModelIndex:
        found: QModelIndex = self.grid.model().index(row, column)
        return found

    def shown(self, row: int, column: int) -> str:
        return str(self.grid.model().data(self.index(row, column), DISPLAY))

    def column_names(self) -> list[str]:
        model = self.grid.model()
        across = Qt.Orientation.Horizontal
        return [model.headerData(at, across) for at in range(model.columnCount())]

    def choose(self, name: str) -> None:
        """Open the list of tensors and choose an entry by keyboard, as `Hand.choose` does."""
        self._choose(self.pane.tensor, layer_symbol(OWN_LAYERS.get(name, name)))

    def choose_head(self, name: str) -> None:
        self._choose(self.pane.head, name)

    def _choose(self, box: QComboBox, name: str) -> None:
        self.hand.click(box)
        view = box.view()
        QTest.keyClick(view, Qt.Key.Key_Home)
        for _ in range(box.findText(name)):
            QTest.keyClick(view, Qt.Key.Key_Down)
        QTest.keyClick(view, Qt.Key.Key_Return)
        self.hand.activate()
        self.hand.settle()
        assert box.currentText() == name

    def at(self, row: int, column: int) -> QPoint:
        self.grid.scrollTo(self.index(row, column))
        area: QRect = self.grid.visualRect(self.index(row, column))
        return area.center()

    def click(self, row: int, column: int) -> None:
        self.hand.click(self.grid.viewport(), self.at(row, column))

    def type(self, text: str, end: Qt.Key = Qt.Key.Key_Return) -> None:
        """Replace the contents of the current cell with the typed text."""
        QTest.keyClicks(self.grid, text[0])
        editor = self.cell_editor()
        QTest.keyClicks(editor, text[1:])
        QTest.keyClick(editor, end)
        self.hand.until(self.grid.hasFocus)  # the view handles the key after the editor

    def cell_editor(self) -> QLineEdit:
        found = QApplication.focusWidget()
        assert isinstance(found, QLineEdit)
        return found

    def paste(self, text: str) -> None:
        QApplication.clipboard().setText(text)
        self.hand.press(Qt.Key.Key_V)


@pytest.fixture
def clerk(hand: Hand) -> Clerk:
    return Clerk(hand)


# ----------------------------------------------------------------------------------- reading


def test_the_command_opens_and_closes_the_pane(hand: Hand) -> None:
    window = hand.window
    assert "Numbers" not in window.docks.visible_pane_ids
    assert window.workspace.screen.panel(NUMBER_TABLE_PANEL) is None
    hand.trigger("pane.toggle Numbers")
    hand.until(window.panes["Numbers"].grid.isVisible)
    assert window.workspace.screen.panel(NUMBER_TABLE_PANEL) is not None
    hand.trigger("pane.toggle Numbers")
    hand.until(lambda: "Numbers" not in window.docks.visible_pane_ids)
    assert window.workspace.screen.panel(NUMBER_TABLE_PANEL) is None


def test_the_table_holds_the_very_numbers_of_the_heatmap(clerk: Clerk) -> None:
    clerk.choose("Weights")
    clerk.choose_head("Head 2")
    values = clerk.hand.panel("weights", 1).values
    for query in range(6):
        for key in range(6):
            wanted = "masked" if key > query else f"{values[query, key]:.4f}"
            assert clerk.shown(query, key) == wanted
    assert clerk.column_names()[:3] == ["1 Your", "2 journey", "3 starts"]
    assert words(clerk.pane.facts) == "6 queries × 6 keys"
    assert words(clerk.pane.note).startswith("Weights are computed. Edit the input or the weights")
    assert not clerk.pane.reset_button.isVisible()


def test_of_a_large_stage_only_what_is_seen_is_read(
    open_window: Callable[..., MainWindow], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(qtbot, open_window(Document("word " * 300)))
    hand.settle()
    clerk = Clerk(hand)
    read: list[tuple[slice, slice]] = []
    block = NumberTablePanel.read_block

    def note(table: NumberTablePanel, rows: slice, columns: slice) -> NumberBlock:
        read.append((rows, columns))
        return block(table, rows, columns)

    monkeypatch.setattr(NumberTablePanel, "read_block", note)
    clerk.choose("Weights")
    model = clerk.grid.model()
    assert isinstance(model, NumberTableModel)
    assert (model.rowCount(), model.columnCount()) == (300, 300)
    QApplication.processEvents()
    assert 1 <= len(read) <= 4
    clerk.grid.scrollToBottom()
    assert clerk.shown(299, 299) == f"{hand.panel('weights').values[-1, -1]:.4f}"


def test_weights_that_are_kept_in_part_are_kept_as_a_whole(clerk: Clerk) -> None:
    clerk.choose("W_key")
    clerk.click(0, 0)
    clerk.type("3")
    clerk.hand.settle()
    keep = clerk.hand.window.actions_.by_id["workspace.keep_weights"]
    assert not keep.isChecked()
    clerk.hand.trigger("workspace.keep_weights")
    clerk.hand.settle()
    assert keep.isChecked()
    own = dict(clerk.document.spec.own_weights)
    assert [*own] == ["W_query", "W_key", "W_value", "W_output"]
    assert own["W_key"].to_array()[0, 0] == 3


def test_every_cell_tells_a_screen_reader_where_it_is(clerk: Clerk) -> None:
    clerk.choose("Masked")
    told = clerk.grid.model().data(clerk.index(0, 2), Qt.ItemDataRole.AccessibleTextRole)
    assert told == "query 1 Your, key 3 starts: masked"
    assert clerk.grid.accessibleName() == "Numbers of Masked, head 1"


def test_the_cell_and_the_pin_are_one(clerk: Clerk) -> None:
    hand, workspace = clerk.hand, clerk.hand.window.workspace
    clerk.choose("Weights")
    clerk.click(3, 1)
    assert workspace.requested_view.pinned == Cell("weights", (0, 3, 1))
    hand.key(Qt.Key.Key_Down)
    hand.settle()
    assert workspace.view.pinned == Cell("weights", (0, 4, 1))
    assert "one (query 5) attends to" in hand.said
    hand.click_cell(Cell("weights", (1, 5, 2)))
    hand.settle()
    current = clerk.grid.currentIndex()
    assert (current.row(), current.column()) == (5, 2)
    assert clerk.pane.head.currentText() == "Head 2"
    clerk.choose_head("Head 1")
    assert workspace.view.pinned == Cell("weights", (0, 5, 2))
    hand.click_cell(Cell("scores", (1, 0, 0)))
    hand.settle()
    assert clerk.grid.currentIndex().row() == 5


def test_who_passes_by_pins_nothing(clerk: Clerk) -> None:
    clerk.hand.click_cell(Cell("weights", (0, 1, 0)))
    clerk.choose("Input")
    clerk.hand.settle()
    clerk.grid.setFocus(Qt.FocusReason.TabFocusReason)
    clerk.hand.settle()
    assert clerk.hand.window.workspace.view.pinned == Cell("weights", (0, 1, 0))
    clerk.hand.key(Qt.Key.Key_Down)
    clerk.hand.settle()
    assert clerk.hand.window.workspace.view.pinned == Cell("input", (1, 0))


def test_what_is_predicted_cannot_be_read_off(clerk: Clerk) -> None:
    clerk.choose("Weights")
    clerk.hand.window.workspace.change_view(guess=Prediction("scores"))
    clerk.hand.settle()
    assert clerk.grid.model().rowCount() == 0
    assert words(clerk.pane.note) == HIDDEN_MESSAGE


# ------------------------------------------------------------------------------------ typing


def test_a_number_that_is_typed_changes_the_picture_and_is_undone(clerk: Clerk) -> None:
    hand, before = clerk.hand, clerk.document
    old = hand.panel("scores").values
    clerk.choose("W_key")
    clerk.click(1, 0)
    clerk.type("2,5")
    hand.settle()
    assert clerk.shown(1, 0) == "2.5000"
    x, weights = clerk.trace().read("input").astype(float), {}
    for name in ("W_query", "W_key"):
        weights[name] = clerk.trace().read(f"{name}.weight").astype(float).T
    assert weights["W_key"][1, 0] == 2.5
    wanted = (x @ weights["W_query"])[:, :1] @ (x @ weights["W_key"])[:, :1].T
    np.testing.assert_allclose(hand.panel("scores").values, wanted, rtol=0, atol=1e-6)
    assert not np.allclose(old, wanted)
    assert clerk.pane.reset_button.isEnabled()
    hand.press(Z)
    assert clerk.document == before
    hand.settle()
    assert (hand.panel("scores").values == old).all()
    assert clerk.shown(1, 0) != "2.5000"
    hand.press(Z, CONTROL | SHIFT)
    hand.settle()
    assert clerk.shown(1, 0) == "2.5000"


def test_enter_edits_all_digits_and_the_same_number_is_no_change(clerk: Clerk) -> None:
    hand, before = clerk.hand, clerk.document
    clerk.choose("W_query")
    clerk.click(0, 0)
    hand.key(Qt.Key.Key_Return)
    assert clerk.cell_editor().text() == str(clerk.trace().read("W_query.weight")[0, 0])
    assert len(clerk.cell_editor().text()) > len("−0.0000")
    QTest.keyClick(clerk.cell_editor(), Qt.Key.Key_Return)
    hand.until(clerk.grid.hasFocus)
    hand.key(Qt.Key.Key_Return)
    QTest.keyClicks(clerk.cell_editor(), "7")
    QTest.keyClick(clerk.cell_editor(), Qt.Key.Key_Escape)
    hand.until(clerk.grid.hasFocus)
    hand.key(Qt.Key.Key_Delete)
    assert clerk.document == before
    assert clerk.problem == ""


def test_what_is_no_number_is_said_and_the_old_one_stays(clerk: Clerk) -> None:
    hand, before = clerk.hand, clerk.document
    clerk.click(0, 0)
    clerk.type("1.2.3")
    assert clerk.problem == "“1.2.3” is not a number."
    assert clerk.shown(0, 0) == "0.4300"
    assert clerk.document == before
    clerk.type("1e300")
    assert clerk.problem == "1e+300 is out of range for float32."
    clerk.type("1")
    hand.settle()
    assert clerk.problem == ""
    assert clerk.shown(0, 0) == "1.0000"
    assert hand.window.workspace.document.spec.own_input


def test_what_is_computed_is_not_typed_into(clerk: Clerk) -> None:
    clerk.choose("Scores")
    clerk.click(0, 0)
    QTest.keyClicks(clerk.grid, "5")
    assert QApplication.focusWidget() is clerk.grid
    clerk.paste("1\t2")
    assert clerk.problem.startswith("Scores are computed. Edit the input or the weights")


def test_numbers_can_be_drawn_again(clerk: Clerk) -> None:
    hand, before = clerk.hand, clerk.document
    assert not clerk.pane.reset_button.isEnabled()
    clerk.click(0, 0)
    clerk.type("9")
    hand.settle()
    clerk.choose("W_output")
    clerk.click(0, 0)
    clerk.type("9")
    hand.settle()
    hand.click(clerk.pane.reset_button)
    hand.settle()
    assert clerk.document.spec.own_weights == ()
    clerk.choose("Input")
    hand.click(clerk.pane.reset_button)
    hand.settle()
    assert clerk.document == before
    assert clerk.shown(0, 0) == "0.4300"


def test_typing_goes_on_while_numbers_are_on_their_way(
    open_window: Callable[..., MainWindow], gate: Gate, qtbot: QtBot
) -> None:
    gate.let_through()
    hand = Hand(qtbot, open_window(Document()))
    hand.settle()
    clerk = Clerk(hand)
    for row in range(3):
        clerk.click(row, 0)
        clerk.type(str(row + 7))
    own = clerk.document.spec.own_input
    assert own
    assert own.to_array()[:3, 0].tolist() == [7, 8, 9]
    gate.open()
    hand.settle()
    assert clerk.shown(2, 0) == "9.0000"


def test_newer_numbers_do_not_write_over_what_is_being_typed(clerk: Clerk) -> None:
    hand = clerk.hand
    clerk.choose("W_value")
    clerk.click(0, 0)
    QTest.keyClicks(clerk.grid, "4")
    hand.window.workspace.change_setting("seed", 5)
    hand.settle()
    assert clerk.cell_editor().text() == "4"
    QTest.keyClick(clerk.cell_editor(), Qt.Key.Key_Return)
    hand.until(clerk.grid.hasFocus)
    hand.settle()
    assert clerk.shown(0, 0) == "4.0000"
    assert clerk.document.spec.seed == 5


def test_a_table_that_is_replaced_between_return_and_its_effect_takes_nothing(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clerk.choose("W_value")
    clerk.click(0, 0)
    QTest.keyClicks(clerk.grid, "4")
    asked: list[QWidget] = []
    take = clerk.grid.commitData

    def note(editor: QWidget) -> None:
        asked.append(editor)
        take(editor)

    monkeypatch.setattr(clerk.grid, "commitData", note)
    before, editor = clerk.document, clerk.cell_editor()
    QApplication.sendEvent(editor, QKeyEvent(KEY_PRESS, Qt.Key.Key_Return, NO_MODIFIER))
    clerk.grid.show_table(None, LIGHT)
    clerk.hand.until(lambda: asked == [editor])  # Qt warns about editors of other tables
    assert clerk.document == before


# -------------------------------------------------------------------------- copying and pasting


def test_a_block_from_a_spreadsheet_is_pasted_and_is_one_step(clerk: Clerk) -> None:
    hand, before = clerk.hand, clerk.document
    clerk.click(1, 1)
    clerk.paste("0,5\t1,5\r\n−2\t3,25\r\n")
    hand.settle()
    own = clerk.document.spec.own_input
    assert own
    assert own.to_array()[1:3, 1:].tolist() == [[0.5, 1.5], [-2, 3.25]]
    assert clerk.shown(2, 1) == "−2.0000"
    assert clerk.shown(0, 0) == "0.4300"
    hand.press(Z)
    assert clerk.document == before
    hand.settle()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\tx", "Row 1, column 2: “x”"),
        ("1\t2\n3\t4", "2 × 2 does not fit here. The largest block that fits is 1 × 3"),
        ("", "no numbers"),
    ],
)
def test_a_paste_that_is_wrong_changes_nothing_and_says_so(
    clerk: Clerk, text: str, said: str
) -> None:
    before = clerk.document
    clerk.click(5, 0)
    clerk.paste(text)
    assert said in clerk.problem
    assert clerk.document == before
    assert not clerk.hand.window.actions_.by_id["workspace.undo"].isEnabled()


def test_what_is_copied_can_be_pasted_elsewhere(clerk: Clerk) -> None:
    hand = clerk.hand
    clerk.choose("W_query")
    clerk.click(0, 0)
    hand.press(Qt.Key.Key_A)
    hand.press(Qt.Key.Key_C)
    copied = parse_block(QApplication.clipboard().text())
    weight = clerk.trace().read("W_query.weight")
    np.testing.assert_array_equal(copied.astype(np.float32), weight.T)
    clerk.choose("W_key")
    clerk.click(0, 0)
    hand.press(Qt.Key.Key_V)
    hand.settle()
    trace = clerk.trace()
    query, key = (trace.read(f"{name}.weight") for name in ("W_query", "W_key"))
    np.testing.assert_array_equal(query, key)


def test_a_part_of_a_stage_is_copied_as_plain_numbers(clerk: Clerk) -> None:
    clerk.choose("Masked")
    clerk.click(0, 0)
    QTest.mouseClick(clerk.grid.viewport(), Qt.MouseButton.LeftButton, SHIFT, clerk.at(1, 1))
    clerk.hand.press(Qt.Key.Key_C)
    rows = [line.split("\t") for line in QApplication.clipboard().text().split("\n")]
    assert [len(row) for row in rows] == [2, 2]
    assert rows[0][1] == "-inf"


# ---------------------------------------------------------------------------------- undoing all


def an_edit(chance: random.Random, hand: Hand) -> None:
    """Make a random edit: of a setting, the text, the mask, a number or a block."""
    assert hand.window.panes["Numbers"]  # the pane and its controller are created on first use
    workspace, controller = hand.window.workspace, hand.window.findChild(TensorEditController)
    assert controller
    settings: dict[str, list[Any]] = {
        "d_in": [2, 3, 4],
        "d_out": [2, 4],
        "heads": [1, 2],
        "seed": [1, 2, 3],
        "dropout": [0.0, 0.5],
        "causal": [True, False],
        "bias": [True, False],
        "mechanism": ["multi-head", "stacked", "self"],
        "position": ["none", "learned", "sinusoidal"],
        "mask": [MaskKind.OWN, MaskKind.WINDOW],
        "own_kept": [BooleanMatrix.from_array(np.eye(6, dtype=bool)), None],
        "own_input": [NumberMatrix.from_array(np.ones((6, 3))), None],
    }
    kind = chance.choice(["set", "text", "mask", "type", "paste", "draw", "keep", "drag"])
    name = chance.choice(["input", "embedding", "W_query", "W_key", "W_value", "W_output"])
    if kind == "set":
        setting = chance.choice([*settings])
        workspace.change_setting(setting, chance.choice(settings[setting]))
    elif kind == "drag":
        workspace.change_setting(
            "temperature", chance.choice([0.5, 1.0, 2.0]), is_continued_edit=True
        )
    elif kind == "text":
        workspace.set_text(chance.choice(["a b c", "one two", BOOK_SENTENCE]))
    elif kind == "mask":
        typed = chance.choice(["1 0\n1 1", "10 11", "nonsense"])
        hand.window.controllers.setup_controller.change_setting(
            "own_mask", typed, is_continued_edit=False
        )
    elif kind == "keep":
        hand.window.controllers.setup_controller.toggle_fixed_weights()
    elif name in shown(hand):
        place = (name, chance.randrange(3), chance.randrange(3))
        if kind == "draw":
            controller.reset_tensor(name)
        elif kind == "type":
            controller.set_cell_number(*place, chance.choice(["1", "-0,5", "x", "2.25"]))
        else:
            controller.paste_block(*place, chance.choice(["1\t2\n3\t4", "7\n8", "1\tx"]))


def shown(hand: Hand) -> set[str]:
    run = hand.window.workspace.run
    return {*run.trace.names, *run.trace.spec.weight_names} if run else set()


@pytest.mark.slow
def test_two_hundred_edits_are_undone_to_the_very_same_document(hand: Hand) -> None:
    workspace, chance = hand.window.workspace, random.Random(7)
    seen, edited = [workspace.document], 0
    while len(seen) <= 200:
        before = workspace.document
        an_edit(chance, hand)
        workspace.history.end_merged_edit()
        if workspace.document != before:
            seen.append(workspace.document)
            edited += bool(before.spec.own_weights != workspace.document.spec.own_weights)
        if chance.random() < 0.5:  # otherwise, the next edit precedes this result
            hand.until(lambda: not workspace.is_working)
    assert edited > 10  # edits that precede a result may be rejected
    for wanted in seen[-2::-1]:
        hand.window.actions_.by_id["workspace.undo"].trigger()
        assert workspace.document == wanted
    assert not workspace.history.can_undo
    for wanted in seen[1:]:
        hand.window.actions_.by_id["workspace.redo"].trigger()
        assert workspace.document == wanted
    assert not workspace.history.can_redo
    hand.until(lambda: not workspace.is_working)


def test_a_size_that_no_longer_fits_says_so_and_keeps_what_fits(clerk: Clerk) -> None:
    hand = clerk.hand
    for name in ("W_key", "W_output"):
        clerk.choose(name)
        clerk.click(0, 0)
        clerk.type("3")
        hand.settle()
    hand.window.workspace.change_setting("d_in", 5)
    said = hand.problem("own_weights")
    assert said.startswith("W_key is 3 × 2, but the settings need 5 × 2.")
    hand.window.controllers.setup_controller.apply_remedy("own_weights")
    hand.settle()
    assert [name for name, _ in clerk.document.spec.own_weights] == ["W_output"]


def test_a_table_without_rows_is_shown_again(hand: Hand) -> None:
    pane: NumberTablePane = hand.window.panes["Numbers"]
    hand.window.docks.open_pane("Numbers")
    hand.until(lambda: hand.window.workspace.screen.panel(NUMBER_TABLE_PANEL) is not None)
    table = hand.window.workspace.screen.panel(NUMBER_TABLE_PANEL)
    assert table
    empty = replace(table, rows=replace(table.rows, labels=()), current=None)
    changed: list[QModelIndex] = []
    pane.grid.model().dataChanged.connect(lambda first, *_: changed.append(first))
    for theme in (LIGHT, DARK):
        pane.grid.show_table(empty, theme)
    assert changed == []  # Qt warns about changes of missing cells
