"""A pane that is being dragged is dropped before anything else arranges the panes, or ends them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox

from tests.benchmarks import children
from tests.support.pane_drags import (
    EDGE_MOVES,
    begin_drag,
    begin_tab_drag,
    end_drag,
    move_edge,
    out_of_layout,
    press_edge,
    tab_bars,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from visualizer.shell.window import MainWindow

    Open = Callable[..., MainWindow]

DRAGS = 12
FREED = "165"
"""What the memory that is freed is filled with: whatever is used afterwards is noticed."""


def places(window: MainWindow) -> dict[str, tuple[bool, bool]]:
    """Whether each pane floats, and whether it is hidden."""
    return {id_: (dock.isFloating(), dock.isHidden()) for id_, dock in window.docks.by_id.items()}


def test_a_window_that_closes_meanwhile_keeps_the_pane_where_it_was(open_window: Open) -> None:
    first = open_window()
    before = places(first)
    begin_drag(first, "Cell", QPoint(400, 300))
    assert first.docks.by_id["Cell"].isFloating()
    first.close()
    assert places(open_window()) == before


def test_presenter_mode_comes_once_the_pane_is_back_at_its_place(
    open_window: Open, qtbot: QtBot
) -> None:
    window = open_window()
    before = places(window)
    begin_drag(window, "Cell", QPoint(400, 300))
    presenter = window.actions_.by_id["presenter_mode.toggle"]
    presenter.trigger()
    assert not window.controllers.presenter.is_on
    end_drag(window, QPoint(400, 300))
    qtbot.waitUntil(lambda: window.controllers.presenter.is_on)
    assert set(places(window).values()) == {(False, True)}
    presenter.trigger()
    assert places(window) == before


def test_escape_leaves_presenter_mode_once_the_pane_is_back_at_its_place(
    open_window: Open, qtbot: QtBot
) -> None:
    window = open_window()
    before = places(window)
    window.actions_.by_id["presenter_mode.toggle"].trigger()
    assert window.controllers.presenter.is_on
    window.docks.by_id["Cell"].show()
    qtbot.waitUntil(lambda: window.size() == window.windowHandle().size())  # the full screen's
    begin_drag(window, "Cell", QPoint(400, 300))
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert window.controllers.presenter.is_on
    end_drag(window, QPoint(400, 300))
    qtbot.waitUntil(lambda: not window.controllers.presenter.is_on)
    assert places(window) == before


def test_the_usual_layout_comes_once_the_pane_is_back(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    before = places(window)
    window.docks.actions["Setup"].trigger()
    begin_drag(window, "Cell", QPoint(400, 300))
    window.controllers.reset_layout()
    end_drag(window, QPoint(400, 300))
    qtbot.waitUntil(lambda: not window.docks.by_id["Setup"].isHidden())
    assert places(window) == before


def test_an_edge_is_not_moved_until_a_dropped_pane_has_arrived(
    open_window: Open, qtbot: QtBot
) -> None:
    window = open_window()
    cell = window.docks.by_id["Cell"]
    begin_drag(window, "Setup", QPoint(400, 300))
    end_drag(window, QPoint(400, 300))
    before = cell.width()
    move_edge(window, "Cell")
    assert out_of_layout(window) == []
    qtbot.waitUntil(lambda: not window.docks.by_id["Setup"].isFloating())
    assert out_of_layout(window) == []
    assert cell.width() == before
    move_edge(window, "Cell")
    assert cell.width() == before + EDGE_MOVES


def tabs(window: MainWindow) -> list[str]:
    """Return the titles of the panes that share a place."""
    return [bar.tabText(at) for bar in tab_bars(window) for at in range(bar.count())]


def swap_tabs(window: MainWindow) -> None:
    """Drag one of two tabs past the other."""
    assert begin_tab_drag(window, random.Random(1))
    QTest.mouseRelease(window.windowHandle(), Qt.MouseButton.LeftButton)


@pytest.mark.parametrize("is_second_press", [False, True])
def test_a_tab_is_not_moved_until_a_dropped_pane_has_arrived(
    is_second_press: bool, open_window: Open, qtbot: QtBot
) -> None:
    window = open_window()
    for pane in ("Layers", "Lens"):
        window.docks.open(pane)
    qtbot.waitUntil(lambda: len(tabs(window)) == 2)
    before = tabs(window)
    begin_drag(window, "Setup", QPoint(1, 1))
    end_drag(window, QPoint(1, 1))
    assert window.docks.by_id["Setup"].isFloating()
    if is_second_press:  # which Qt takes with the next one for a double click
        (bar,) = tab_bars(window)
        QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(0).center())
    swap_tabs(window)
    assert tabs(window) == before
    qtbot.waitUntil(lambda: not window.docks.by_id["Setup"].isFloating())
    assert tabs(window) == before
    swap_tabs(window)
    assert tabs(window) == before[::-1]


def test_a_dialog_lets_go_of_the_pane(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    before = places(window)
    begin_drag(window, "Setup", QPoint(400, 300))
    box = QMessageBox(window)
    box.open()
    qtbot.waitUntil(lambda: places(window) == before)
    assert out_of_layout(window) == []
    box.close()


def test_a_dialog_lets_go_of_an_edge(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    cell = window.docks.by_id["Cell"]
    before = cell.width()
    edge = press_edge(window, "Cell")
    width = cell.width()
    box = QMessageBox(window)
    for pane in ("Setup", "Code"):
        box.open()
        qtbot.waitExposed(box)
        box.close()
        QTest.mouseMove(window.windowHandle(), edge)
        assert cell.width() == width == before + EDGE_MOVES
        begin_drag(window, pane, QPoint(600, 300))
        assert cell.width() == width
        end_drag(window, QPoint(1, 1))
    assert out_of_layout(window) == []


def test_a_lesson_opens_while_a_pane_has_no_place(open_window: Open) -> None:
    window = open_window()
    window.removeDockWidget(window.docks.by_id["Setup"])  # as in the midst of a drag
    assert out_of_layout(window) == ["Setup"]
    window.controllers.lesson_controller.open(0)
    assert not window.docks.by_id["Lesson"].isHidden()


@pytest.mark.slow
def test_nothing_freed_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_PERTURB_", FREED)
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")  # where it was, if it is ended
    assert children.python("-m", "tests.support.pane_drags", str(DRAGS)) == DRAGS
