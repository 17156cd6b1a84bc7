"""The Heads pane: sorting by column, opening a head, by mouse and keyboard."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTableView

from visualizer.attention import trace
from visualizer.attention.head_measures import HeadMeasures, measure_layerwise
from visualizer.features.head_table.presenter import (
    CURRENT_COLUMN,
    DISTANCE_COLUMN,
    ENTROPY_COLUMN,
    FIRST_COLUMN,
    HEADS_PANEL,
    INDUCTION_COLUMN,
    MAX_WEIGHT_COLUMN,
    NEAR_UNIFORM_MESSAGE,
    PREVIOUS_COLUMN,
    RETRIEVAL,
    HeadTableColumn,
    HeadTableContents,
    HeadTableRow,
)
from visualizer.features.head_table.widget import (
    CLICK_HELP,
    EMPTY_MESSAGE,
    KEYBOARD_HELP,
    HeadTableModel,
    HeadTablePane,
    HeadTableView,
)
from visualizer.session.cell_address import Cell
from visualizer.widgets.theme import DARK, LIGHT, Theme, create_style_sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QImage
    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand


CONTROL = Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton
Role = Qt.ItemDataRole
SAID = ("Head 3 attends most to the first token: 62%.", "Head 1 is the sharpest: 0.50 bits.")

# The values of four heads, and the value for uniform attention; the last head has no values.
TABLE: dict[HeadTableColumn, tuple[float | None, ...]] = {
    PREVIOUS_COLUMN: (10.0, 2.5, 70.0, None, 28.75),
    FIRST_COLUMN: (5.0, 40.0, 62.0, None, 40.0),
    CURRENT_COLUMN: (30.0, 30.0, 1.0, None, 40.0),
    MAX_WEIGHT_COLUMN: (80.0, 70.0, 75.0, None, 40.0),
    ENTROPY_COLUMN: (0.5, 1.5, 1.25, None, 1.5),
    DISTANCE_COLUMN: (9.25, 10.0, 0.75, None, None),
}
COLUMNS = tuple(TABLE)
*NUMBERS, UNIFORM_VALUES = zip(*TABLE.values(), strict=True)


def a_table(
    numbers: Sequence[tuple[float | None, ...]] = NUMBERS,
    columns: tuple[HeadTableColumn, ...] = COLUMNS,
    **fields: Any,
) -> HeadTableContents:
    rows = [
        HeadTableRow(
            head,
            values,
            tuple(column.format_value(one) for column, one in zip(columns, values, strict=True)),
        )
        for head, values in enumerate(numbers)
    ]
    given: dict[str, Any] = {
        "summary": "Averages of the weights over 6 queries.",
        "sentences": SAID,
        "columns": columns,
        "rows": (*rows, HeadTableRow(None, (50.0,) * len(columns), ("50.0",) * len(columns))),
        "uniform": UNIFORM_VALUES,
    }
    return HeadTableContents(**(given | fields))


@pytest.fixture
def pane(qtbot: QtBot) -> HeadTablePane:
    made = HeadTablePane()
    qtbot.addWidget(made)
    made.setStyleSheet(create_style_sheet())
    made.resize(400, 360)
    made.show()
    qtbot.waitExposed(made)
    return made


def order(view: HeadTableView) -> list[str]:
    """Return the names of the rows, from top to bottom."""
    model = view.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def section(view: HeadTableView, column: HeadTableColumn) -> int:
    """Return the index of a column in the table; the column of the heads has index 0."""
    model = view.model()
    assert isinstance(model, HeadTableModel)
    assert model.table
    return 1 + model.table.columns.index(column)


def titles(view: HeadTableView) -> list[str]:
    model, across = view.model(), Qt.Orientation.Horizontal
    return [model.headerData(column, across) for column in range(model.columnCount())]


def click_title(view: HeadTableView, column: HeadTableColumn | None) -> None:
    """Click the title of a column, or that of the heads if `column` is None."""
    header, at = view.horizontalHeader(), section(view, column) if column else 0
    x = header.sectionViewportPosition(at) + header.sectionSize(at) // 2
    QTest.mouseClick(header.viewport(), LEFT, pos=QPoint(x, header.height() // 2))


def click_row(view: HeadTableView, row: int, column: int = 2) -> None:
    place = view.visualRect(view.model().index(row, column)).center()
    QTest.mouseClick(view.viewport(), LEFT, pos=place)


# ------------------------------------------------------------------------------------- contents


def test_the_sentences_are_above_the_table(pane: HeadTablePane) -> None:
    assert pane.sentences.text() == EMPTY_MESSAGE
    assert not pane.view.isVisible()
    pane.show_heads(a_table(), LIGHT)
    assert pane.sentences.text().splitlines() == [*SAID]
    assert pane.summary.text() == "Averages of the weights over 6 queries."
    assert pane.view.isVisible()
    assert pane.sentences.geometry().bottom() < pane.view.geometry().top()
    assert order(pane.view) == ["1", "2", "3", "4", "Mean"]
    assert titles(pane.view)[0] == "Head\n↑\nUniform"
    assert titles(pane.view)[section(pane.view, PREVIOUS_COLUMN)] == "Previous\n%\n28.8"
    assert titles(pane.view)[section(pane.view, DISTANCE_COLUMN)] == "Distance\ntokens\n–"
    pane.show_heads(a_table(sentences=()), LIGHT)
    assert not pane.sentences.isVisible()
    pane.show_heads(None, LIGHT)
    assert pane.sentences.text() == EMPTY_MESSAGE
    assert not pane.view.isVisible()


def test_sentences_are_complete_in_the_narrowest_pane(pane: HeadTablePane) -> None:
    long = "Heads 10, 11 and 12 read the query’s own token most: less than 0.1%."
    pane.show_heads(a_table(sentences=4 * (long,)), LIGHT)
    pane.resize(pane.minimumWidth(), 300)
    QApplication.processEvents()
    assert pane.sentences.height() == pane.sentences.heightForWidth(pane.sentences.width())
    line = pane.sentences.fontMetrics().lineSpacing()
    assert pane.sentences.height() >= 4 * line
    pane.show_heads(a_table(), LIGHT)
    QApplication.processEvents()
    assert pane.sentences.height() == pane.sentences.heightForWidth(pane.sentences.width())
    assert pane.view.viewport().height() >= 4 * pane.view.rowHeight(0)


def test_screen_readers_announce_the_meaning_of_a_value(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(), LIGHT)
    model, across = pane.view.model(), Qt.Orientation.Horizontal
    previous, entropy = (section(pane.view, each) for each in (PREVIOUS_COLUMN, ENTROPY_COLUMN))
    assert model.index(2, entropy).data(Role.AccessibleTextRole) == (
        "Head 3, Entropy: 1.25 bits; uniform attention: 1.50"
    )
    assert model.index(4, 0).data(Role.AccessibleTextRole) == "Mean of the heads"
    assert model.headerData(0, across, Role.AccessibleTextRole) == "Head, sorted"
    assert model.headerData(previous, across, Role.AccessibleTextRole) == "Previous, %"
    for column, about in enumerate(COLUMNS, 1):
        for role in (Role.ToolTipRole, Role.AccessibleDescriptionRole):
            assert model.headerData(column, across, role).startswith(about.description)
    assert model.headerData(entropy, across, Role.ToolTipRole).endswith(
        " With the same weight on every allowed key: 1.50 bits."
    )
    assert model.headerData(0, across, Role.ToolTipRole) == CLICK_HELP
    assert pane.view.accessibleName() == "Heads"
    assert pane.view.accessibleDescription() == KEYBOARD_HELP


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_rows_show_the_colour_of_their_head(pane: HeadTablePane, theme: Theme) -> None:
    pane.show_heads(a_table(), theme)
    QApplication.processEvents()
    image = pane.view.viewport().grab().toImage()
    for row, colour in enumerate(theme.heads[: len(NUMBERS)]):
        assert has_colour(image, pane, row, colour)
    assert not any(has_colour(image, pane, len(NUMBERS), colour) for colour in theme.heads)


def has_colour(image: QImage, pane: HeadTablePane, row: int, colour: str) -> bool:
    place = pane.view.visualRect(pane.view.model().index(row, 0))
    scale = image.devicePixelRatio()
    spots = itertools.product(range(place.left(), place.left() + 16), [place.center().y() + 1])
    wanted = QColor(colour)
    return any(image.pixelColor(round(x * scale), round(y * scale)) == wanted for x, y in spots)


def test_the_current_cell_has_a_frame(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(), LIGHT)
    pane.activateWindow()
    pane.view.setFocus()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Right):
        QTest.keyClick(pane.view, key)
    QApplication.processEvents()
    at = pane.view.currentIndex()
    place = pane.view.visualRect(at).adjusted(1, 1, -2, -2)
    image = pane.view.viewport().grab().toImage()
    scale = image.devicePixelRatio()
    colours = {
        image.pixelColor(round(x * scale), round(place.top() * scale)).name()
        for x in range(place.left(), place.right())
    }
    assert colours == {QColor(LIGHT.on_accent).name()}


# ------------------------------------------------------------------------------------- sorting


def test_clicks_on_a_title_sort_in_both_orders(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(), LIGHT)
    click_title(pane.view, DISTANCE_COLUMN)
    assert order(pane.view) == ["3", "1", "2", "4", "Mean"]  # 9.25 before 10.00
    assert titles(pane.view)[section(pane.view, DISTANCE_COLUMN)] == "Distance\n↑ tokens\n–"
    assert titles(pane.view)[0] == "Head\n\nUniform"
    click_title(pane.view, DISTANCE_COLUMN)
    assert order(pane.view) == ["2", "1", "3", "4", "Mean"]
    assert titles(pane.view)[section(pane.view, DISTANCE_COLUMN)] == "Distance\n↓ tokens\n–"
    click_title(pane.view, CURRENT_COLUMN)
    assert order(pane.view)[0] in {"1", "3"}
    click_title(pane.view, None)
    click_title(pane.view, None)
    assert sorted(order(pane.view)[:-1]) == ["1", "2", "3", "4"]
    assert order(pane.view)[-1] == "Mean"


def test_space_sorts_by_the_current_column(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(), LIGHT)
    pane.view.setFocus()
    column = section(pane.view, CURRENT_COLUMN)
    for key in (Qt.Key.Key_Down, *column * (Qt.Key.Key_Right,), Qt.Key.Key_Space):
        QTest.keyClick(pane.view, key)
    at = pane.view.currentIndex()
    assert order(pane.view) == ["3", "1", "2", "4", "Mean"]  # 1 and 2 have equal values
    assert (at.column(), at.siblingAtColumn(0).data()) == (column, "2")  # it followed its head
    QTest.keyClick(pane.view, Qt.Key.Key_Space)
    assert order(pane.view) == ["1", "2", "3", "4", "Mean"]
    QTest.keyClick(pane.view, Qt.Key.Key_Space)
    assert order(pane.view) == ["3", "1", "2", "4", "Mean"]


def test_new_values_are_sorted_and_the_selection_is_kept(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(), LIGHT)
    click_title(pane.view, PREVIOUS_COLUMN)
    click_row(pane.view, 0)
    assert order(pane.view) == ["2", "1", "3", "4", "Mean"]
    pane.show_heads(a_table(NUMBERS[::-1]), LIGHT)
    assert order(pane.view) == ["3", "4", "2", "1", "Mean"]
    (chosen,) = pane.view.selectionModel().selectedRows()
    assert chosen.data() == "2"
    pane.show_heads(a_table(NUMBERS[:2]), LIGHT)
    assert order(pane.view) == ["2", "1", "Mean"]


def test_the_sort_column_is_kept_if_it_moves_and_reset_if_it_is_removed(
    pane: HeadTablePane,
) -> None:
    with_induction = a_table(
        tuple((-at, *row) for at, row in enumerate(NUMBERS[:3])),
        columns=(INDUCTION_COLUMN, *COLUMNS),
        uniform=(None, *UNIFORM_VALUES),
    )
    pane.show_heads(a_table(NUMBERS[:3]), LIGHT)
    click_title(pane.view, PREVIOUS_COLUMN)
    assert order(pane.view) == ["2", "1", "3", "Mean"]
    pane.show_heads(with_induction, LIGHT)
    assert order(pane.view) == ["2", "1", "3", "Mean"]
    click_title(pane.view, INDUCTION_COLUMN)
    assert order(pane.view) == ["3", "2", "1", "Mean"]
    pane.show_heads(a_table(NUMBERS[:3]), LIGHT)
    assert order(pane.view) == ["1", "2", "3", "Mean"]


def test_the_sort_column_is_kept_while_there_is_no_table(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(NUMBERS[:3]), LIGHT)
    click_title(pane.view, DISTANCE_COLUMN)
    for empty in (None, a_table((), (), rows=(), uniform=())):
        pane.show_heads(empty, LIGHT)
        pane.show_heads(a_table(NUMBERS[:3]), LIGHT)
        assert order(pane.view) == ["3", "1", "2", "Mean"]
        assert titles(pane.view)[section(pane.view, DISTANCE_COLUMN)] == "Distance\n↑ tokens\n–"
        assert pane.view.horizontalHeader().sortIndicatorSection() == section(
            pane.view, DISTANCE_COLUMN
        )


# -------------------------------------------------------------------------- opening and copying


def test_a_click_on_a_row_opens_its_head(pane: HeadTablePane, qtbot: QtBot) -> None:
    pane.show_heads(a_table(), LIGHT)
    click_title(pane.view, PREVIOUS_COLUMN)
    with qtbot.waitSignal(pane.headChosen) as chosen:
        click_row(pane.view, 2)
    assert chosen.args == [None, 2]
    with qtbot.assertNotEmitted(pane.headChosen):
        click_row(pane.view, 4)  # the mean is not a head


def test_a_head_of_several_layers_is_opened_with_its_layer(
    pane: HeadTablePane, qtbot: QtBot
) -> None:
    values = tuple(float(at) for at in range(len(COLUMNS)))
    written = tuple(map(str, values))
    places = [(layer, head) for layer in (0, 1) for head in (0, 1)]
    rows = tuple(HeadTableRow(head, values, written, layer, 4 + layer) for layer, head in places)
    pane.show_heads(a_table(rows=rows), LIGHT)
    assert order(pane.view) == ["5.1", "5.2", "6.1", "6.2"]
    click_title(pane.view, None)
    assert order(pane.view) == ["6.2", "6.1", "5.2", "5.1"]
    assert rows[3].full_name == "Layer 6, head 2"
    with qtbot.waitSignal(pane.headChosen) as chosen:
        click_row(pane.view, 1)
    assert chosen.args == [1, 0]


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_enter_opens_the_current_head(pane: HeadTablePane, qtbot: QtBot, key: Qt.Key) -> None:
    pane.show_heads(a_table(), LIGHT)
    pane.view.setFocus()
    QTest.keyClick(pane.view, Qt.Key.Key_Down)
    QTest.keyClick(pane.view, Qt.Key.Key_Down)
    with qtbot.waitSignal(pane.headChosen) as chosen:
        QTest.keyClick(pane.view, key)
    assert chosen.args == [None, int(pane.view.currentIndex().siblingAtColumn(0).data()) - 1]
    QTest.keyClick(pane.view, Qt.Key.Key_End, CONTROL)
    assert pane.view.currentIndex().row() == 4
    with qtbot.assertNotEmitted(pane.headChosen):
        QTest.keyClick(pane.view, key)


def test_the_table_is_copied_in_its_order(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(), LIGHT)
    click_title(pane.view, DISTANCE_COLUMN)
    pane.view.setFocus()
    QTest.keyClick(pane.view, Qt.Key.Key_C, CONTROL)
    lines = [line.split("\t") for line in QApplication.clipboard().text().splitlines()]
    assert [line[0] for line in lines] == ["Head", "3", "1", "2", "4", "Mean", "Uniform"]
    assert lines[1] == ["3", *(f"{value:g}" for value in NUMBERS[2])]
    assert lines[4] == ["4", *len(COLUMNS) * [""]]


def test_tab_leaves_the_table(pane: HeadTablePane) -> None:
    pane.show_heads(a_table(), LIGHT)
    pane.view.setFocus()
    assert pane.view.hasFocus()
    assert not pane.view.tabKeyNavigation()


def test_a_table_without_numbers_has_no_rows(pane: HeadTablePane) -> None:
    model = HeadTableModel(pane)
    assert (model.rowCount(), model.columnCount()) == (0, 0)
    model.show_table(a_table())
    assert model.rowCount(model.index(0, 0)) == 0


# ---------------------------------------------------------------------------------- the window


def heads_of(hand: Hand) -> HeadTablePane:
    made = hand.window.panes["Heads"]
    assert isinstance(made, HeadTablePane)
    return made


def open_pane(hand: Hand) -> HeadTablePane:
    hand.settle()
    hand.trigger("pane.toggle Heads")
    made = heads_of(hand)
    hand.until(lambda: made.isVisible() and made.view.isVisible())
    hand.settle()
    return made


def test_the_worker_measures_while_the_pane_is_open(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def measured(*given: Any) -> HeadMeasures:
        threads.append(threading.get_ident())
        return measure_layerwise(*given)

    monkeypatch.setattr(trace, "measure_layerwise", measured)
    hand.type_number("heads", "1")
    hand.type_number("heads", "2")
    hand.settle()
    assert "Heads" not in hand.window.docks.visible_pane_ids
    assert threads == []
    pane = open_pane(hand)
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    assert order(pane.view) == ["1", "2", "Mean"]
    hand.trigger("pane.toggle Heads")
    hand.until(lambda: not pane.isVisible())
    hand.settle()
    assert hand.window.workspace.screen.panel(HEADS_PANEL) is None


def test_the_window_sorts_the_computed_measures(hand: Hand) -> None:
    pane = open_pane(hand)
    hand.type_number("d_out", "12")
    hand.type_number("heads", "6")
    hand.settle()
    run = hand.window.workspace.run
    assert run
    weights = run.trace.read("weights").astype(np.float64)  # head query key
    first = weights[:, :, 0].mean(axis=1)
    column = section(pane.view, FIRST_COLUMN)
    click_title(pane.view, FIRST_COLUMN)
    expected = [str(head + 1) for head in np.argsort(first)]
    assert order(pane.view) == [*expected, "Mean"]
    shown = [pane.view.model().index(row, column).data() for row in range(6)]
    assert shown == [f"{100 * share:.1f}" for share in np.sort(first)]
    click_title(pane.view, FIRST_COLUMN)
    assert order(pane.view) == [*expected[::-1], "Mean"]
    best = int(np.argmax(first)) + 1
    count = np.arange(1, 7)
    uniform = 100 * np.mean(1 / count)
    assert titles(pane.view)[column].split("\n")[2] == f"{uniform:.1f}"
    assert 100 * first[best - 1] < 1.5 * uniform
    assert pane.sentences.text() == NEAR_UNIFORM_MESSAGE


def test_the_window_sorts_by_head_after_the_sort_column_is_removed(hand: Hand) -> None:
    pane = open_pane(hand)
    hand.click_cell(Cell("weights", (1, 4, 2)))
    hand.settle()
    last = section(pane.view, RETRIEVAL)
    pane.view.horizontalHeader().setOffsetToLastSection()
    for _ in range(2):
        click_title(pane.view, RETRIEVAL)
    hand.board.setFocus()
    hand.trigger("playback.predict")
    hand.settle()
    assert hand.window.workspace.screen.panel(HEADS_PANEL) is None
    hand.key(Qt.Key.Key_Escape)
    hand.trigger("playback.predict")
    hand.settle()
    assert order(pane.view) == ["2", "1", "Mean"]
    assert pane.view.model().columnCount() == last


def test_data_changes_are_signalled_except_for_empty_tables(
    pane: HeadTablePane,
) -> None:
    model, told = HeadTableModel(pane), []
    model.dataChanged.connect(lambda first, last: told.append((first.isValid(), last)))
    for _ in range(2):
        model.show_table(a_table(rows=()))
    assert told == []
    for lead in ("Of the weights.", "Of other weights."):
        model.show_table(a_table(summary=lead))
    ((is_valid, last),) = told
    assert is_valid
    assert (last.row(), last.column()) == (model.rowCount() - 1, model.columnCount() - 1)


def test_columns_fit_all_rows_although_few_are_measured(qtbot: QtBot) -> None:
    chance = np.random.default_rng(0)
    numbers = chance.exponential(30, (300, len(COLUMNS))).tolist()
    numbers[17][2], numbers[200][0] = None, 123456.0
    pane = HeadTablePane()
    qtbot.addWidget(pane)
    for shown in (a_table(), a_table(tuple(map(tuple, numbers))), a_table(NUMBERS[1:])):
        pane.show_heads(shown, LIGHT)
        view, model = pane.view, pane.view.model()
        assert isinstance(model, HeadTableModel)
        for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder):
            view.sortByColumn(3, order)
            for column in range(1 + len(COLUMNS)):
                of_all = QTableView.sizeHintForColumn(view, column)
                assert view.sizeHintForColumn(column) == of_all > 0
                assert len(model.widest_rows(column)) <= 8
