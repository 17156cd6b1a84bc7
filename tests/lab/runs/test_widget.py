"""The list of runs: one thing is edited at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLineEdit

from visualizer.lab.runs.run_store import StoredRun
from visualizer.lab.runs.widget import BUTTONS, RunsPane

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


def test_a_name_is_not_edited_while_something_else_of_the_list_is(qtbot: QtBot) -> None:
    """Qt warns of it; its own key edits the column that was clicked."""
    pane = RunsPane({name: QAction() for name in BUTTONS})
    qtbot.addWidget(pane)
    pane.show_runs([StoredRun(Path("first"), 1.0)], frozenset(), frozenset(), "")
    pane.show()
    qtbot.waitExposed(pane)
    assert pane.choose("first")
    item = pane.list.topLevelItem(0)
    assert item
    pane.list.editItem(item, 1)
    pane.edit_name()
    assert [line.text() for line in pane.list.findChildren(QLineEdit)] == [item.text(1)]
