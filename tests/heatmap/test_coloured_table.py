"""A table of coloured numbers: its colour scale, its text, and mouse and keyboard input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QGuiApplication, QPaintEvent, QRegion
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_table
from visualizer.heatmap.coloured_table import ColouredTable, max_magnitude
from visualizer.heatmap.coloured_table_widget import ColouredTableView
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    import pytest
    from PySide6.QtCore import QRect
    from pytestqt.qtbot import QtBot

VALUES = np.array([[0.0, 1.0, np.nan], [0.25, -1.0, 0.5]])


def cells_of(**changes: object) -> ColouredTable:
    made = {
        "values": VALUES, "rows": ("1", "2"), "columns": ("a", "b", "rest"), "low": -1.0,
        "high": 1.0, "map_name": "viridis", "unit": "nats", "gap_column": 2,
        "describe": lambda row, column: f"cell {row} {column}",
    }  # fmt: skip
    return ColouredTable(**{**made, **changes})  # type: ignore[arg-type]


def view_of(qtbot: QtBot, cells: ColouredTable) -> ColouredTableView:
    view = ColouredTableView("Table", "Keys")
    qtbot.addWidget(view)
    view.resize(200, 120)
    view.show()
    view.show_table(cells, LIGHT)
    return view


def test_numbers_have_their_positions_on_the_scale() -> None:
    np.testing.assert_array_equal(
        cells_of().scale_positions(), [[0.5, 1, np.nan], [0.625, 0, 0.75]]
    )
    np.testing.assert_array_equal(cells_of(low=0.0, high=0.5).scale_positions()[1], [0.5, 0, 1])
    assert max_magnitude(VALUES) == 1
    assert max_magnitude(np.zeros((1, 1))) == max_magnitude(np.full((1, 1), np.nan)) == 1


def test_the_table_is_copied_as_text() -> None:
    assert cells_of().as_tsv() == "\ta\tb\trest\n1\t0\t1\t\n2\t0.25\t-1\t0.5\n"
    words = (("x\ty", "z", ""), ("p", "q", "r"))
    assert cells_of(words=words).as_tsv().splitlines()[1] == "1\tx y 0\tz 1\t"


def test_a_click_removes_the_focus_frame_from_the_previous_cell(qtbot: QtBot) -> None:
    view = view_of(qtbot, cells_of())
    view.setFocus()
    QApplication.processEvents()
    painted = QRegion()

    class Painted(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            nonlocal painted
            if isinstance(event, QPaintEvent):
                painted = painted.united(event.region())
            return super().eventFilter(watched, event)

    watching = Painted(view)
    view.viewport().installEventFilter(watching)
    QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=view.rect_of(1, 2).center())
    QApplication.processEvents()
    assert painted.contains(view.rect_of(0, 0))
    assert painted.contains(view.rect_of(1, 2))


def test_clicks_and_keys_choose_a_cell(qtbot: QtBot) -> None:
    view = view_of(qtbot, cells_of())
    chosen: list[tuple[int, int]] = []
    said: list[str] = []
    view.chosen.connect(lambda row, column: chosen.append((row, column)))
    view.pointed.connect(said.append)
    for place in ((0, 0), (1, 2)):
        centre = view.rect_of(*place).center()
        QTest.mouseMove(view.viewport(), centre)
        QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=centre)
    assert chosen == [(0, 0), (1, 2)]
    assert "cell 1 2" in said
    view.setFocus()
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Return):
        QTest.keyClick(view, key)
    assert chosen[-1] == (0, 1)
    QTest.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == cells_of().as_tsv()


def test_cells_have_the_colours_of_the_scale(qtbot: QtBot) -> None:
    view = view_of(qtbot, cells_of())
    picture = view.viewport().grab().toImage()
    colours = colour_table("viridis", LIGHT)
    for place, index in (((0, 1), MAX_COLOUR_INDEX), ((1, 1), 0)):
        pixel = picture.pixel(view.rect_of(*place).center())
        assert pixel == int(colours[index])


def test_the_pointer_repaints_only_visible_cells(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = tuple(map(str, range(1_000)))
    view = view_of(
        qtbot,
        cells_of(values=np.zeros((2, 1_000)), columns=titles, words=(titles,) * 2, gap_column=0),
    )
    placed, rect_of = [], view.rect_of

    def rect_of_placed(row: int, column: int) -> QRect:
        placed.append(column)
        return rect_of(row, column)

    QApplication.processEvents()  # until the scroll bar has room
    before = view.viewport().grab().toImage()
    monkeypatch.setattr(view, "rect_of", rect_of_placed)
    QTest.mouseMove(view.viewport(), rect_of(1, 998).center())
    assert view.viewport().grab().toImage() != before
    assert min(column for column in placed if column) > 990  # 0 measures the row titles
    QApplication.sendEvent(view.viewport(), QEvent(QEvent.Type.Leave))
    assert view.viewport().grab().toImage() == before


def test_a_wide_table_of_words_shows_its_end_and_keys_reveal_its_beginning(qtbot: QtBot) -> None:
    values = np.zeros((2, 40))
    titles = tuple(map(str, range(40)))
    view = view_of(
        qtbot, cells_of(values=values, columns=titles, words=(titles,) * 2, gap_column=0)
    )
    bar = view.horizontalScrollBar()
    assert bar.value() == bar.maximum() > 0
    assert view.rect_of(0, 39).right() <= view.viewport().width()
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Down)
    assert view.rect_of(1, 0).left() >= 0
