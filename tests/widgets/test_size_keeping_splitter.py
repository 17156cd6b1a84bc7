"""The widgets of a splitter have the requested sizes, also after they were hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from visualizer.widgets.size_keeping_splitter import SizeKeepingSplitter

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

STRETCHING = 0
QT_ROUNDS = 2


@pytest.fixture
def splitter(qtbot: QtBot) -> SizeKeepingSplitter:
    """Four widgets side by side, of which the first takes the remaining width."""
    made = SizeKeepingSplitter(Qt.Orientation.Horizontal, (1, 100, 120, 140), STRETCHING)
    for _ in range(4):
        made.addWidget(QWidget())
    made.resize(800, 200)
    qtbot.addWidget(made)
    with qtbot.waitExposed(made):
        made.show()
    return made


def test_a_hidden_widget_keeps_its_width_while_another_is_dragged(
    splitter: SizeKeepingSplitter,
) -> None:
    part = splitter.widget(2)
    assert part
    part.hide()
    splitter.set_requested_sizes(splitter.requested_sizes)
    assert splitter.sizes()[2] == 0
    splitter.moveSplitter(splitter.handle(3).x() - 30, 3)
    assert splitter.requested_sizes[1:] == pytest.approx([100, 120, 170], abs=QT_ROUNDS)
    part.show()
    splitter.set_requested_sizes(splitter.requested_sizes)
    assert splitter.sizes()[1:] == pytest.approx([100, 120, 170], abs=QT_ROUNDS)


def test_the_stretching_widget_has_no_stored_size(splitter: SizeKeepingSplitter) -> None:
    splitter.moveSplitter(splitter.handle(1).x() - 50, 1)
    assert splitter.requested_sizes == pytest.approx([1, 150, 120, 140], abs=QT_ROUNDS)
    splitter.resize(1000, 200)
    assert splitter.sizes()[1:] == pytest.approx([150, 120, 140], abs=QT_ROUNDS)
