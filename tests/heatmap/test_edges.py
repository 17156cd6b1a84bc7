"""No frame covers the first or last cell, at any position of a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF

from visualizer.heatmap import colour_mapping

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from visualizer.shell.window import MainWindow


def test_cells_at_the_edges_are_drawn_in_a_long_text(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(1280, 800)
    first = window.workspace.run
    words = " ".join(f"word{number}" for number in range(64))
    window.settings_bar.sentence.setPlainText(words)
    qtbot.waitUntil(lambda: window.workspace.run is not first, timeout=20_000)
    board = window.board
    with qtbot.waitSignal(board.painted, timeout=20_000):
        board.viewport().update()
    picture = board.viewport().grab().toImage()
    slot = next(slot for slot in board.board_layout.slots if slot.heatmap.stage == "scores")
    indices = colour_mapping.colour_indices(slot.heatmap)
    table = colour_mapping.colour_table(slot.heatmap.colour.map, window.theme)
    last = len(indices) - 1
    for row, column in ((0, 0), (0, last), (last, 0), (last, last), (last // 2, last), (0, 7)):
        centre = slot.cell(row, column).center()
        painted = picture.pixel(QPointF(centre).toPoint())
        corner = picture.pixel(slot.cell(row, column).topLeft().toPoint())
        assert np.uint32(painted) == table[indices[row, column]], (row, column)
        assert np.uint32(corner) == table[indices[row, column]], (row, column)
