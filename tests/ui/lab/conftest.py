"""Widgets of the lab without the lab: shown as large as on a screen, and clicked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QApplication, QWidget
    from pytestqt.qtbot import QtBot

    Show = Callable[[QWidget, tuple[int, int]], None]


@pytest.fixture
def show(application: QApplication, qtbot: QtBot) -> Show:
    """Shows a widget of a size."""

    def show_(widget: QWidget, size: tuple[int, int]) -> None:
        qtbot.addWidget(widget)
        widget.resize(*size)
        widget.show()
        qtbot.waitExposed(widget)

    return show_
