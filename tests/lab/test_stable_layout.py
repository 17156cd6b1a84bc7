"""Texts that appear and disappear do not change the lab's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit

from tests.support.lab_input import FAKE, NONE, Student
from tests.support.window_input import LEFT
from visualizer.lab import collapse_controller
from visualizer.lab.window import LabWindow
from visualizer.widgets.fixed_splitter import FixedSplitter
from visualizer.widgets.setting_controls import CountControl, RateControl

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget
    from pytestqt.qtbot import QtBot


def place(student: Student, widget: QWidget) -> QPoint:
    return widget.mapTo(student.window, QPoint(0, 0))


def drag(handle: QWidget, by: int) -> None:
    """Drag a handle sideways."""
    start = handle.rect().center()
    QTest.mousePress(handle, LEFT, pos=start)
    at = QPointF(start + QPoint(by, 0))
    event = QMouseEvent(QEvent.Type.MouseMove, at, handle.mapToGlobal(at), LEFT, LEFT, NONE)
    QApplication.sendEvent(handle, event)
    QTest.mouseRelease(handle, LEFT, pos=start)


def watch(student: Student) -> None:
    """Train for 100 steps, and wait for the result of the last one."""
    student.train(100)
    student.until(lambda: student.window.probe_controller.result is not None)


def test_the_training_buttons_stay_in_place(student: Student) -> None:
    places, said = set(), set()

    def look() -> None:
        said.add(student.button)
        places.add(place(student, student.window.bar.buttons["step"]).x())

    look()
    student.type("steps", "100000")
    student.click("toggle")
    student.until(lambda: student.button == "Pause")
    look()
    student.click("toggle")
    student.until(lambda: student.button == "Resume")
    look()
    assert said == {"Start", "Pause", "Resume"}
    assert len(places) == 1


def test_sliders_stay_in_place_during_sampling(student: Student) -> None:
    watch(student)
    pane = student.window.next
    boxes = pane.controls
    before = [place(student, one) for one in boxes.values()]
    for name, text in (("top_k", "2"), ("top_p", "0"), ("top_p", "0.5"), ("temperature", "0")):
        control = boxes[name]
        assert isinstance(control, CountControl | RateControl)
        control.box.selectAll()
        QTest.keyClicks(control.box, text)
        assert pane.problem.isVisible() == (text == "0" and name == "top_p")
        assert [place(student, one) for one in boxes.values()] == before
    assert pane.legend.text()


@pytest.mark.slow  # playback is in real time
def test_the_generation_buttons_stay_in_place(student: Student) -> None:
    watch(student)
    tree = student.window.generation_pane
    buttons = (tree.sample, tree.run, tree.back, tree.on, tree.next_branch_button, tree.seed)
    before, width = [place(student, one) for one in buttons], tree.run.width()
    QTest.mouseClick(tree.run, LEFT)
    assert tree.run.text() == "Stop"
    student.until(lambda: len(student.window.probe.text()) > 34)  # some tokens are omitted by then
    student.until(lambda: "omitted" in student.window.attention.notices.text())
    assert [place(student, one) for one in buttons] == before
    assert tree.run.width() == width
    QTest.mouseClick(tree.run, LEFT)
    assert [place(student, one) for one in buttons] == before


@pytest.mark.slow
def test_sizes_are_stable_over_any_number_of_starts(
    application: QApplication, qtbot: QtBot, let_go: Callable[[LabWindow], None]
) -> None:
    wanted = []
    for start in range(5):
        window = LabWindow(FAKE)
        qtbot.addWidget(window, before_close_func=let_go)
        window.show()
        qtbot.waitExposed(window)
        student = Student(qtbot, window)
        if start in {1, 3}:  # the column with the text exists only with a run
            watch(student)
        wanted.append({name: each.wanted_sizes for name, each in window.splitters.items()})
        window.close()
        let_go(window)
    assert wanted == 5 * wanted[:1]


@pytest.mark.slow
def test_sizes_set_by_the_user_are_kept(student: Student) -> None:
    across = student.window.across
    student.window.resize(1400, 800)
    watch(student)
    drag(across.handle(1), 60)
    left, _, right = across.sizes()
    assert left == across.wanted_sizes[0] != 264
    student.window.resize(900, 600)
    student.window.resize(1400, 800)
    assert across.sizes()[::2] == [left, right]


def test_a_part_that_reappears_has_its_previous_size(
    application: QApplication, show: Callable[[QWidget, tuple[int, int]], None]
) -> None:
    splitter = FixedSplitter(Qt.Orientation.Horizontal, (100, 300, 200), 1)
    parts = [QPlainTextEdit() for _ in range(3)]
    for part in parts:
        splitter.addWidget(part)
    show(splitter, (900, 100))
    before = splitter.sizes()
    assert (before[0], before[2]) == (100, 200)
    parts[2].hide()
    application.processEvents()
    assert splitter.sizes()[0] == 100
    parts[2].show()
    application.processEvents()
    assert splitter.sizes() == before


def test_dragging_a_handle_resizes_only_the_adjacent_parts(
    application: QApplication, show: Callable[[QWidget, tuple[int, int]], None]
) -> None:
    splitter = FixedSplitter(Qt.Orientation.Horizontal, (200, 300, 300), 1)
    for _ in range(3):
        part = QPlainTextEdit()
        part.setMinimumWidth(40)
        splitter.addWidget(part)
    show(splitter, (1000, 100))
    splitter.resize(400, 100)
    application.processEvents()
    squeezed = splitter.sizes()
    assert squeezed[2] < 300
    drag(splitter.handle(1), -20)
    splitter.resize(1000, 100)
    application.processEvents()
    assert splitter.sizes()[0] == squeezed[0] - 20
    assert splitter.sizes()[2] == 300


def test_problems_are_shown_even_if_the_settings_are_collapsed(student: Student) -> None:
    student.type("heads", "3")
    student.press(Qt.Key.Key_F9, NONE)
    assert not student.window.left.isVisible()
    assert student.line == "The embedding size 64 is not divisible by 3 heads. Use 2."


def test_the_settings_are_expanded_for_a_new_run(student: Student) -> None:
    watch(student)
    student.press(Qt.Key.Key_F9, NONE)
    student.window.menus.by_id["runs.start_new"].trigger()
    assert student.window.settings_pane.isVisible()


def test_on_a_narrow_screen_the_settings_are_initially_collapsed(
    application: QApplication, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = LabWindow(FAKE)
    qtbot.addWidget(wide)
    assert wide.collapse_controller.collapsed_sections == set()
    monkeypatch.setattr(
        collapse_controller, "NARROW_SCREEN_PX", wide.screen().availableGeometry().width() + 1
    )
    narrow = LabWindow(FAKE)
    qtbot.addWidget(narrow)
    assert narrow.collapse_controller.collapsed_sections == {"left"}


@pytest.mark.slow
def test_parts_are_collapsed_and_expanded_with_keys(
    student: Student, qtbot: QtBot, let_go: Callable[[LabWindow], None]
) -> None:
    watch(student)
    window = student.window
    before, board = window.across.sizes(), window.attention.board
    size = board.size()
    student.press(Qt.Key.Key_F9, NONE)
    student.press(Qt.Key.Key_F8, NONE)
    assert not window.left.isVisible()
    assert not window.menus.by_id["collapse.toggle left"].isChecked()
    student.until(lambda: board.width() > size.width() and board.height() > size.height())
    again = LabWindow(FAKE)
    qtbot.addWidget(again, before_close_func=let_go)
    assert again.collapse_controller.collapsed_sections == {"left", "losses"}
    student.press(Qt.Key.Key_F8, NONE)
    student.press(Qt.Key.Key_1, Qt.KeyboardModifier.AltModifier)  # this key shows the settings
    assert window.left.isVisible()
    student.until(lambda: window.across.sizes() == before)
    student.until(lambda: board.size() == size)
