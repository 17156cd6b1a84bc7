"""Texts that appear and disappear do not change the lab's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit

from tests.support.lab_input import FAKE, NONE, LabUser
from tests.support.window_input import LEFT
from visualizer.lab import collapse_controller
from visualizer.lab.window import LabWindow
from visualizer.widgets.setting_controls import FractionSliderControl, IntegerSliderControl
from visualizer.widgets.size_keeping_splitter import SizeKeepingSplitter

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget
    from pytestqt.qtbot import QtBot


def place(user: LabUser, widget: QWidget) -> QPoint:
    return widget.mapTo(user.window, QPoint(0, 0))


def drag(handle: QWidget, by: int) -> None:
    """Drag a handle sideways."""
    start = handle.rect().center()
    QTest.mousePress(handle, LEFT, pos=start)
    at = QPointF(start + QPoint(by, 0))
    event = QMouseEvent(QEvent.Type.MouseMove, at, handle.mapToGlobal(at), LEFT, LEFT, NONE)
    QApplication.sendEvent(handle, event)
    QTest.mouseRelease(handle, LEFT, pos=start)


def watch(user: LabUser) -> None:
    """Train for 100 steps, and wait for the result of the last one."""
    user.train(100)
    user.until(lambda: user.window.probe_controller.result is not None)


def test_the_training_buttons_stay_in_place(user: LabUser) -> None:
    places, said = set(), set()

    def look() -> None:
        said.add(user.button)
        places.add(place(user, user.window.training_bar.buttons["step"]).x())

    look()
    user.type("steps", "100000")
    user.click("toggle")
    user.until(lambda: user.button == "Pause")
    look()
    user.click("toggle")
    user.until(lambda: user.button == "Resume")
    look()
    assert said == {"Start", "Pause", "Resume"}
    assert len(places) == 1


def test_sliders_stay_in_place_during_sampling(user: LabUser) -> None:
    watch(user)
    pane = user.window.next_tokens_pane
    boxes = pane.controls
    before = [place(user, one) for one in boxes.values()]
    for name, text in (("top_k", "2"), ("top_p", "0"), ("top_p", "0.5"), ("temperature", "0")):
        control = boxes[name]
        assert isinstance(control, IntegerSliderControl | FractionSliderControl)
        control.box.selectAll()
        QTest.keyClicks(control.box, text)
        assert pane.problem.isVisible() == (text == "0" and name == "top_p")
        assert [place(user, one) for one in boxes.values()] == before
    assert pane.legend.text()


@pytest.mark.slow  # playback is in real time
def test_the_generation_buttons_stay_in_place(user: LabUser) -> None:
    watch(user)
    tree = user.window.generation_pane
    buttons = (
        tree.sample_button,
        tree.run_button,
        tree.back_button,
        tree.forward_button,
        tree.next_branch_button,
        tree.seed_box,
    )
    before, width = [place(user, one) for one in buttons], tree.run_button.width()
    QTest.mouseClick(tree.run_button, LEFT)
    assert tree.run_button.text() == "Stop"
    user.until(lambda: len(user.window.probe.text()) > 34)  # some tokens are omitted by then
    user.until(lambda: "omitted" in user.window.attention.notices.text())
    assert [place(user, one) for one in buttons] == before
    assert tree.run_button.width() == width
    QTest.mouseClick(tree.run_button, LEFT)
    assert [place(user, one) for one in buttons] == before


@pytest.mark.slow
def test_sizes_are_stable_over_any_number_of_starts(
    application: QApplication, qtbot: QtBot, close_lab: Callable[[LabWindow], None]
) -> None:
    wanted = []
    for start in range(5):
        window = LabWindow(FAKE)
        qtbot.addWidget(window, before_close_func=close_lab)
        window.show()
        qtbot.waitExposed(window)
        user = LabUser(qtbot, window)
        if start in {1, 3}:  # the column with the text exists only with a run
            watch(user)
        wanted.append({name: each.requested_sizes for name, each in window.splitters.items()})
        window.close()
        close_lab(window)
    assert wanted == 5 * wanted[:1]


@pytest.mark.slow
def test_sizes_set_by_the_user_are_kept(user: LabUser) -> None:
    across = user.window.columns_splitter
    user.window.resize(1400, 800)
    watch(user)
    drag(across.handle(1), 60)
    left, _, right = across.sizes()
    assert left == across.requested_sizes[0] != 264
    user.window.resize(900, 600)
    user.window.resize(1400, 800)
    assert across.sizes()[::2] == [left, right]


def test_a_part_that_reappears_has_its_previous_size(
    application: QApplication, show: Callable[[QWidget, tuple[int, int]], None]
) -> None:
    splitter = SizeKeepingSplitter(Qt.Orientation.Horizontal, (100, 300, 200), 1)
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
    splitter = SizeKeepingSplitter(Qt.Orientation.Horizontal, (200, 300, 300), 1)
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


def test_problems_are_shown_even_if_the_settings_are_collapsed(user: LabUser) -> None:
    user.type("heads", "3")
    user.trigger("collapse.toggle left")
    assert not user.window.left_tabs.isVisible()
    assert user.line == "The embedding size 64 cannot be split into 3 heads. Use 2 heads."


def test_the_settings_are_expanded_for_a_new_run(user: LabUser) -> None:
    watch(user)
    user.trigger("collapse.toggle left")
    user.window.menus.by_id["runs.start_new"].trigger()
    assert user.window.settings_pane.isVisible()


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
def test_parts_are_collapsed_and_expanded(
    user: LabUser, qtbot: QtBot, close_lab: Callable[[LabWindow], None]
) -> None:
    watch(user)
    window = user.window
    before, board = window.columns_splitter.sizes(), window.attention.board
    size = board.size()
    user.trigger("collapse.toggle left")
    user.trigger("collapse.toggle losses")
    assert not window.left_tabs.isVisible()
    assert not window.menus.by_id["collapse.toggle left"].isChecked()
    user.until(lambda: board.width() > size.width() and board.height() > size.height())
    again = LabWindow(FAKE)
    qtbot.addWidget(again, before_close_func=close_lab)
    assert again.collapse_controller.collapsed_sections == {"left", "losses"}
    user.trigger("collapse.toggle losses")
    user.press(Qt.Key.Key_1)  # this key shows the settings
    assert window.left_tabs.isVisible()
    user.until(lambda: window.columns_splitter.sizes() == before)
    user.until(lambda: board.size() == size)
