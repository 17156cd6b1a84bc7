"""Fixtures for the lab's window and for its individual widgets, in their usual sizes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from PySide6.QtWidgets import QApplication

from tests.support.lab_input import FAKE, PATIENCE_MS, LabUser
from tests.support.waiting import wait_until
from visualizer.lab.runs.store import list_runs
from visualizer.lab.training.background_controller import is_training, request_stop
from visualizer.lab.training.process_controller import TrainingProcess
from visualizer.lab.window import LabWindow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytestqt.qtbot import QtBot


def _close_lab(window: LabWindow) -> None:
    film_controller = window.run_export_controller.film_controller
    while film_controller.is_working:  # otherwise, closing is postponed
        film_controller.cancel()
        QApplication.processEvents()
    window.lab.close_run()
    app = QApplication.instance()
    assert app
    wait_until(lambda: not app.findChildren(TrainingProcess), PATIENCE_MS)
    for run in list_runs(window.lab.runs_folder):
        wait_until(partial(_has_stopped, run.folder), PATIENCE_MS)


def _has_stopped(folder: Path) -> bool:
    if not is_training(folder):
        return True
    request_stop(folder)  # requested at each check, because a process may just have locked the run
    return False


@pytest.fixture
def close_lab() -> Callable[[LabWindow], None]:
    """Closes a lab in an orderly way before a test ends."""
    return _close_lab


@pytest.fixture
def lab_window(application: QApplication, qtbot: QtBot) -> LabWindow:
    """A newly opened lab, with a fake training process."""
    window = LabWindow(FAKE)
    window.resize(1280, 800)
    window.show()
    qtbot.addWidget(window, before_close_func=_close_lab)
    qtbot.waitExposed(window)
    return window


@pytest.fixture
def user(lab_window: LabWindow, qtbot: QtBot) -> LabUser:
    return LabUser(qtbot, lab_window)


@pytest.fixture
def watching(user: LabUser) -> LabUser:
    """A user of the lab after a training of 100 steps, whose attention is shown."""
    user.train(100)
    probe_controller = user.window.probe_controller
    user.until(lambda: probe_controller.result is not None and probe_controller.result.step == 100)
    return user
