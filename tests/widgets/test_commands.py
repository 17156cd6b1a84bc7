"""Conditions of commands are evaluated when the parts that they read have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from PySide6.QtWidgets import QMainWindow

from visualizer.session.screen import PanelId
from visualizer.widgets.commands import Command, CommandMenus
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

COUNT: PanelId[str] = PanelId("Count")


class State(Struct, frozen=True, eq=False):
    view: str
    count: str = "0"

    def panel(self, wanted: PanelId[Any]) -> object:
        assert wanted is COUNT
        return self.count


def test_only_conditions_of_changed_parts_are_evaluated(qtbot: QtBot) -> None:
    evaluated: list[str] = []

    def is_viewed(now: State) -> bool:
        evaluated.append("view")
        return now.view == "on"

    def has_count(now: State) -> bool:
        evaluated.append("count")
        return now.panel(COUNT) != "0"

    window = QMainWindow()
    qtbot.addWidget(window)
    rows = (
        Command[None, State]("view", "View", "View", lambda c: None, is_checked=is_viewed),
        Command[None, State]("count", "View", "Count", lambda c: None, is_enabled=has_count),
    )
    menus = CommandMenus[None, State](window, rows)
    menus.show_state(State("on"), LIGHT)
    assert sorted(evaluated) == ["count", "view"]
    assert menus.by_id["view"].isChecked()
    assert not menus.by_id["count"].isEnabled()
    evaluated.clear()
    menus.show_state(State("on", "1"), LIGHT)
    assert evaluated == ["count"]
    assert menus.by_id["count"].isEnabled()
    menus.show_state(State("off", "1"), LIGHT)
    assert evaluated == ["count", "view"]
    assert not menus.by_id["view"].isChecked()


def test_a_check_mark_set_by_qt_is_corrected(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    row = Command[None, State](
        "view", "View", "View", lambda c: None, is_checked=lambda now: now.view == "on"
    )
    menus = CommandMenus[None, State](window, (row,))
    menus.show_state(State("on"), LIGHT)
    menus.by_id["view"].trigger()
    assert not menus.by_id["view"].isChecked()
    menus.show_state(State("on"), LIGHT)
    assert menus.by_id["view"].isChecked()
