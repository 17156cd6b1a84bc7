"""Operates the lab window by input events, and reads what it shows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QMessageBox, QPushButton

from tests.support.waiting import wait_until
from tests.support.window_input import CONTROL, LEFT, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from visualizer.lab.training.process_controller import TrainingProcess
    from visualizer.lab.training.run_state import RunState
    from visualizer.lab.window import LabWindow

FAKE = (sys.executable, str(Path(__file__).with_name("fake_training_process.py")))
PATIENCE_MS = 30_000
NONE = Qt.KeyboardModifier.NoModifier


class LabUser:
    """Operates the lab window by input events only."""

    def __init__(self, qtbot: QtBot, window: LabWindow, patience_ms: int = PATIENCE_MS) -> None:
        self.qtbot, self.window, self.patience_ms = qtbot, window, patience_ms
        self.activate()
        self.until(lambda: bool(window.lab.sample))

    def until(self, is_so: Callable[[], bool]) -> None:
        wait_until(is_so, self.patience_ms)

    def activate(self) -> None:
        self.window.activateWindow()
        self.until(self.window.isActiveWindow)

    def wait_until_shown(self) -> None:
        """Wait until changes are shown, which happens in a later iteration of the event loop."""
        self.until(lambda: not self.window.show_timer.isActive())

    # ------------------------------------------------------------------ acting

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = CONTROL) -> None:
        QTest.keyClick(QApplication.focusWidget() or self.window, key, modifiers)
        self.wait_until_shown()

    def trigger(self, command: str) -> None:
        """Run a command as its menu entry does, which has no effect if it is disabled."""
        self.window.menus.by_id[command].trigger()
        self.wait_until_shown()

    def keys(self, text: str) -> None:
        QTest.keyClicks(QApplication.focusWidget() or self.window, text)
        self.wait_until_shown()

    def click(self, button: str) -> None:
        QTest.mouseClick(self.window.training_bar.buttons[button], LEFT)
        self.wait_until_shown()

    def type(self, setting: str, text: str) -> None:
        box = getattr(self.window.settings_pane.rows[setting].control, "box")  # noqa: B009
        box.setFocus(Qt.FocusReason.TabFocusReason)
        box.selectAll()
        QTest.keyClicks(box, text)
        QTest.keyClick(box, Qt.Key.Key_Return)
        self.wait_until_shown()

    def choose(self, setting: str, said: str) -> None:
        box = self.window.settings_pane.rows[setting].findChild(QComboBox)
        assert isinstance(box, QComboBox)
        QTest.mouseClick(box, LEFT)
        QTest.keyClick(box.view(), Qt.Key.Key_Home)
        for _ in range(box.findText(said)):
            QTest.keyClick(box.view(), Qt.Key.Key_Down)
        QTest.keyClick(box.view(), Qt.Key.Key_Return)
        assert box.currentText() == said
        self.wait_until_shown()
        self.until(lambda: QApplication.activePopupWidget() is None)
        self.activate()

    def type_probe(self, text: str) -> None:
        self.press(Qt.Key.Key_L)
        assert self.window.probe.hasFocus()
        QTest.keyClicks(self.window.probe, text)
        self.wait_until_shown()

    def train(self, steps: int) -> Path:
        """Train a new run to its end, and return its folder."""
        self.type("steps", str(steps))
        self.click("toggle")
        self.until_said("Done")
        return self.run.folder

    def close_run(self) -> None:
        QTest.mouseClick(self.window.settings_pane.new_run_button, LEFT)

    def answer(self, name: str, button: str) -> None:
        box = self.window.findChild(QMessageBox, name)
        assert box, name
        found = next(one for one in box.findChildren(QPushButton) if one.text() == button)
        QTest.mouseClick(found, LEFT)
        self.wait_until_shown()

    # ------------------------------------------------------------------ reading

    @property
    def run(self) -> RunState:
        run = self.window.lab.run
        assert run
        return run

    @property
    def training(self) -> TrainingProcess:
        training = self.window.lab.training
        assert training
        return training

    @property
    def button(self) -> str:
        return self.window.training_bar.buttons["toggle"].text()

    @property
    def line(self) -> str:
        return words(self.window.training_bar.progress_label)

    @property
    def notices(self) -> str:
        label = self.window.notices.label
        return words(label) if label.isVisibleTo(self.window) else ""

    def problem(self, setting: str) -> str:
        label = self.window.settings_pane.rows[setting].problem
        return words(label) if label.isVisibleTo(self.window) else ""

    def until_said(self, part: str) -> None:
        self.until(lambda: part in self.line)
