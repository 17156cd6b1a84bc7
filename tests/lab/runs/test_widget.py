"""The list of runs: a single name can be edited at a time, and nothing interrupts the edit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit

from visualizer.lab.runs.store import StoredRun
from visualizer.lab.runs.widget import BUTTON_TEXTS, RunsPane

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


@pytest.fixture
def pane(qtbot: QtBot) -> RunsPane:
    pane = RunsPane({name: QAction() for name in BUTTON_TEXTS})
    qtbot.addWidget(pane)
    pane.show()
    qtbot.waitExposed(pane)
    return pane


def show(
    pane: RunsPane, *names: str, at_work: frozenset[str] = frozenset(), when: float = 1.0
) -> None:
    pane.show_runs([StoredRun(Path(name), when) for name in names], frozenset(), at_work, "")


def names_of(pane: RunsPane) -> list[str]:
    items = (pane.list.topLevelItem(at) for at in range(pane.list.topLevelItemCount()))
    return [item.text(0) for item in items if item]


def editors_of(pane: RunsPane) -> list[QLineEdit]:
    return pane.list.findChildren(QLineEdit)


def test_only_one_name_is_edited_at_a_time(pane: RunsPane) -> None:
    """Qt prints a warning for this; Qt's own key edits the column that was clicked."""
    show(pane, "first")
    assert pane.select_run("first")
    item = pane.list.topLevelItem(0)
    assert item
    pane.list.editItem(item, 1)
    pane.edit_selected_run_name()
    assert [line.text() for line in editors_of(pane)] == [item.text(1)]


def test_an_edited_name_is_not_lost_when_another_run_trains(pane: RunsPane, qtbot: QtBot) -> None:
    show(pane, "first", "second", at_work=frozenset({"second"}))
    assert pane.select_run("first")
    pane.edit_selected_run_name()
    (line,) = editors_of(pane)
    QTest.keyClicks(line, "mine")
    show(pane, "second", "first", at_work=frozenset({"second"}), when=2.0)
    show(pane, "second", "third", "first", when=3.0)
    assert editors_of(pane) == [line]
    opened: list[str] = []
    pane.opened.connect(opened.append)
    with qtbot.waitSignal(pane.renamed) as renamed:
        QTest.keyClick(line, Qt.Key.Key_Return)
    assert renamed.args == ["first", "mine"]
    assert opened == []
    qtbot.waitUntil(lambda: names_of(pane) == ["second", "third", "first"])


@pytest.mark.parametrize("chosen", ["", "run 03"], ids=["none chosen", "chosen out of sight"])
def test_training_runs_do_not_scroll_the_list(pane: RunsPane, qtbot: QtBot, chosen: str) -> None:
    names = [f"run {number:02}" for number in range(100)]
    show(pane, *names, at_work=frozenset(names[:2]))
    bar = pane.list.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    pane.select_run(chosen)
    bar.setValue(bar.maximum())
    place, item = bar.value(), pane.list.topLevelItem(0)
    show(pane, names[1], names[0], *names[2:], at_work=frozenset(names[:2]))
    assert pane.list.topLevelItem(0) is item
    show(pane, *names, at_work=frozenset({"run 01"}))  # the other run has ended
    assert names_of(pane)[0] == "run 01"
    QApplication.processEvents()
    assert bar.value() == place
    assert pane.selected_run == chosen
