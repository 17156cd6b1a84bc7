"""The settings pane shows every choice in full, at any text size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QComboBox, QStyle, QStyleOptionComboBox

from tests.support.lab_input import FAKE
from visualizer.lab.window import LabWindow
from visualizer.widgets.fonts import apply_interface_font

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytestqt.qtbot import QtBot


@pytest.fixture(autouse=True)
def usual_text(application: QApplication) -> Iterator[None]:
    """Restore the application's font after each test."""
    before = QGuiApplication.font()
    yield
    QApplication.setFont(before)


def room(box: QComboBox) -> int:
    """Return the width that is available for the text of a box."""
    option = QStyleOptionComboBox()
    box.initStyleOption(option)
    field = box.style().subControlRect(
        QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, box
    )
    return field.width()


def cut(window: LabWindow) -> list[str]:
    """Return the choices that are wider than their boxes."""
    boxes = [box for box in window.findChildren(QComboBox) if box.isVisible()]
    assert len(boxes) >= 5
    return [
        box.itemText(at)
        for box in boxes
        for at in range(box.count())
        if box.fontMetrics().horizontalAdvance(box.itemText(at)) > room(box)
    ]


@pytest.mark.parametrize("percent", [100, 150])
def test_every_choice_is_shown_in_full(
    percent: int, qtbot: QtBot, close_lab: Callable[[LabWindow], None]
) -> None:
    apply_interface_font(percent)
    window = LabWindow(FAKE)
    window.resize(1280, 800)
    window.show()
    qtbot.addWidget(window, before_close_func=close_lab)
    qtbot.waitExposed(window)
    assert window.width() == 1280
    assert cut(window) == []
    qtbot.waitUntil(lambda: not window.settings_pane.horizontalScrollBar().maximum())
    line = window.training_bar.progress_label
    assert line.text() == line.accessibleName() != ""


def test_boxes_widen_when_the_text_grows(lab_window: LabWindow, qtbot: QtBot) -> None:
    apply_interface_font(150)
    qtbot.waitUntil(lambda: cut(lab_window) == [])
    assert not lab_window.settings_pane.horizontalScrollBar().maximum()
