"""The lab opened again: the last run is offered, and what was read of each is there again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt

from tests.ui.lab.student import FAKE, NONE, Student
from visualizer.ui.lab.window import LabWindow

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

    Open = Callable[[], Student]


@pytest.fixture
def open_lab(application: QApplication, qtbot: QtBot, let_go: Callable[[LabWindow], None]) -> Open:
    """Opens the lab; the one before is closed."""
    opened: list[LabWindow] = []

    def open_() -> Student:
        for window in opened:
            window.close()
            let_go(window)
        window = LabWindow(FAKE)
        opened[:] = [window]
        qtbot.addWidget(window, before_close_func=let_go)
        window.resize(1280, 800)
        window.show()
        qtbot.waitExposed(window)
        return Student(qtbot, window)

    return open_


def train(student: Student) -> None:
    student.type("steps", "50")
    student.click("toggle")
    student.until_said("Done")


def test_a_first_time_nothing_is_offered(open_lab: Open) -> None:
    window = open_lab().window
    assert window.left.currentWidget() is window.settings_pane
    assert window.runs_pane.chosen == ""


def test_the_last_run_is_offered_with_what_was_read_of_it(open_lab: Open) -> None:
    student = open_lab()
    train(student)
    student.type_probe("hgf")
    first = student.window.lab.run
    assert first
    student.window.settings_pane.another.click()
    train(student)
    second = student.window.lab.run
    assert second

    student = open_lab()
    window = student.window
    assert window.lab.run is None
    assert window.left.currentWidget() is window.runs_pane
    assert window.runs_pane.chosen == second.name
    window.runs_pane.choose(first.name)
    window.runs_pane.list.setFocus()
    student.press(Qt.Key.Key_Return, NONE)
    student.until(lambda: window.lab.run is not None and window.lab.run.is_open)
    assert window.probe.text() == "hgf"
    assert open_lab().window.runs_pane.chosen == first.name


def test_what_was_read_is_of_the_run_and_not_of_the_window(open_lab: Open) -> None:
    student = open_lab()
    train(student)
    student.type_probe("hgf")
    student.window.settings_pane.another.click()
    train(student)
    assert student.window.probe.text() == "abcdabcd"
