"""A pane that is being dragged is dropped before anything else arranges the panes, or ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint

from tests.benchmarks import children
from tests.support.pane_drags import begin_drag, end_drag

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from visualizer.shell.window import MainWindow

    Open = Callable[..., MainWindow]

ROUNDS = 60
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
    presenter = window.actions_.by_id["presenter.toggle"]
    presenter.trigger()
    assert not window.presenter.is_on
    end_drag(window, QPoint(400, 300))
    qtbot.waitUntil(lambda: window.presenter.is_on)
    assert set(places(window).values()) == {(False, True)}
    presenter.trigger()
    assert places(window) == before


def test_the_usual_layout_comes_once_the_pane_is_back(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    before = places(window)
    window.docks.actions["Setup"].trigger()
    begin_drag(window, "Cell", QPoint(400, 300))
    window.reset_layout()
    end_drag(window, QPoint(400, 300))
    qtbot.waitUntil(lambda: not window.docks.by_id["Setup"].isHidden())
    assert places(window) == before


@pytest.mark.slow
def test_nothing_freed_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_PERTURB_", FREED)
    assert children.python("-m", "tests.support.pane_drags", str(ROUNDS)) > ROUNDS // 3
