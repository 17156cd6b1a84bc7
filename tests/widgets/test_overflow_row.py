"""Controls that do not fit leave their row, and as many as possible stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QPushButton

from visualizer.widgets.overflow_row import OverflowRow, OverflowRowItem

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


def test_a_small_control_returns_into_the_room_of_a_large_one(qtbot: QtBot) -> None:
    row, controls = OverflowRow(30, "More", (0, 0, 0, 0), spacing=4), {}
    qtbot.addWidget(row)
    for name, width in {"small": 40, "large": 200, "last": 50}.items():
        controls[name] = QPushButton(name)
        controls[name].setFixedWidth(width)
    ranks = {"small": 2, "large": 1, "last": 0}
    row.set_items(
        OverflowRowItem(control, is_optional=name != "last", rank=ranks[name])
        for name, control in controls.items()
    )
    row.resize(120, 30)
    row.show()
    assert row.overflowed_widgets() == [controls["large"]]
    row.resize(80, 30)
    assert row.overflowed_widgets() == [controls["small"], controls["large"]]
    row.resize(400, 30)
    assert row.overflowed_widgets() == []
