"""Reopening the lab: the last run is selected, and its probe text is restored."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt

from tests.support.lab_input import FAKE, NONE, LabUser
from visualizer.lab.training.background_controller import is_training
from visualizer.lab.window import LabWindow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

    Open = Callable[[], LabUser]


@pytest.fixture
def open_lab(
    application: QApplication, qtbot: QtBot, close_lab: Callable[[LabWindow], None]
) -> Open:
    """Opens the lab, after closing the previous one."""
    opened: list[LabWindow] = []

    def open_() -> LabUser:
        for window in opened:
            window.close()
            close_lab(window)
        window = LabWindow(FAKE)
        opened[:] = [window]
        qtbot.addWidget(window, before_close_func=close_lab)
        window.resize(1280, 800)
        window.show()
        qtbot.waitExposed(window)
        return LabUser(qtbot, window)

    return open_


def read(user: LabUser, text: str) -> None:
    user.type_probe(text)
    user.until(lambda: user.window.probe_controller.text == text)


@pytest.mark.slow
def test_no_run_is_selected_the_first_time(open_lab: Open) -> None:
    window = open_lab().window
    assert window.left_tabs.currentWidget() is window.settings_pane
    assert window.runs_pane.selected_run == ""
    doings = [window.menus.by_id[f"runs.{name}"] for name in ("open_selected", "rename", "delete")]
    assert not any(action.isEnabled() for action in doings)


@pytest.mark.slow
def test_the_last_run_is_selected_with_its_probe(open_lab: Open) -> None:
    user = open_lab()
    first = user.train(50)
    read(user, "hgf")
    user.close_run()
    second = user.train(50)

    user = open_lab()
    window = user.window
    assert window.lab.run is None
    assert window.left_tabs.currentWidget() is window.runs_pane
    assert window.runs_pane.selected_run == second.name
    assert window.menus.by_id["runs.open_selected"].isEnabled()
    window.runs_pane.select_run(first.name)
    window.runs_pane.list.setFocus()
    user.press(Qt.Key.Key_Return, NONE)
    user.until(lambda: window.lab.run is not None and window.lab.run.is_open)
    assert window.probe.text() == "hgf"
    assert open_lab().window.runs_pane.selected_run == first.name


@pytest.mark.slow
def test_the_probe_belongs_to_the_run_instead_of_the_window(open_lab: Open) -> None:
    user = open_lab()
    user.train(50)
    read(user, "hgf")
    user.close_run()
    user.train(50)
    assert user.window.probe.text() == "abcdabcd"


@pytest.mark.slow
def test_a_rejected_probe_is_not_stored(open_lab: Open) -> None:
    user = open_lab()
    folder = user.train(50)
    read(user, "hgf")
    user.type_probe("!")
    user.until(lambda: bool(user.window.probe_controller.refusal_reason))
    user = open_lab()
    user.window.open_run(folder)
    user.until(lambda: user.window.probe_controller.result is not None)
    assert user.window.probe.text() == "hgf"


@pytest.mark.slow
def test_a_renamed_run_is_selected_by_its_name(open_lab: Open) -> None:
    user = open_lab()
    folder = user.train(50)
    user.close_run()
    user.until(lambda: not is_training(folder))
    user.window.run_controller.rename_run(folder.name, " mine ")
    assert open_lab().window.runs_pane.selected_run == "mine"


@pytest.mark.slow
def test_a_run_from_elsewhere_is_not_mistaken_for_a_listed_one(
    open_lab: Open, tmp_path: Path
) -> None:
    user = open_lab()
    first = user.train(50)
    user.close_run()
    last = user.train(50)
    user.close_run()
    shutil.copytree(first, tmp_path / first.name)
    user.window.open_run(tmp_path / first.name)
    user.until(lambda: bool(user.window.lab.run and user.window.lab.run.is_open))
    assert open_lab().window.runs_pane.selected_run == last.name
