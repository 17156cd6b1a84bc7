"""The controls that only the lab's settings need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QLineEdit, QPushButton, QSpinBox

from visualizer.state.lab.setup import RANGES
from visualizer.state.setup import Kind, Setting
from visualizer.ui.ask_file import ask_to_open
from visualizer.ui.controls import CONTROLS, Control, Typed, show_number

TEXTS = "Texts (*.txt *.md *.csv *.json *.py);;All files (*)"
NARROW = 72
"""Wide enough for a usual number; what can be typed is far longer."""
ADAPTIVE = QAbstractSpinBox.StepType.AdaptiveDecimalStepType


class Whole(Typed):
    """A whole number, typed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QSpinBox()
        least, most = RANGES[setting.name]
        self.box.setRange(int(least), int(min(most, 2**31 - 1)))
        self.box.setStepType(ADAPTIVE)
        self.box.setMinimumWidth(NARROW)
        self.take(self.box, "QSpinBox", 1)

    def show_value(self, value: Any) -> None:
        show_number(self.box, value)


class Tiny(QDoubleSpinBox):
    """A number that may be small, with as many decimals as it has."""

    def __init__(self) -> None:
        super().__init__()
        self.setDecimals(8)
        self.setStepType(ADAPTIVE)

    def textFromValue(self, value: float) -> str:
        return f"{value:.8f}".rstrip("0").rstrip(".")


class Small(Typed):
    """A number that may be small, typed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = Tiny()
        self.box.setRange(*RANGES[setting.name])
        self.box.setMinimumWidth(NARROW)
        self.take(self.box, "Tiny", 1)

    def show_value(self, value: Any) -> None:
        show_number(self.box, value)

    def _type(self, value: float) -> None:
        self.chosen.emit(value, True)


class FileName(Control):
    """A file: its name is typed, or it is chosen."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box, self.choose = QLineEdit(), QPushButton("Choose…")
        self.box.editingFinished.connect(self._type)
        self.choose.clicked.connect(self._ask)
        self.add(self.box, "QLineEdit", 1)
        self.add(self.choose, "QPushButton")
        self.choose.setAccessibleName("Choose a text file")
        self._shown = ""

    def show_value(self, value: Any) -> None:
        self._shown = value
        if value != self.box.text():
            with QSignalBlocker(self.box):
                self.box.setText(value)

    def _ask(self) -> None:
        ask_to_open(self, Path(self.box.text()).parent, TEXTS, self._take)

    def _take(self, name: str) -> None:
        self.chosen.emit(name, False)

    def _type(self) -> None:
        if self.box.text() != self._shown:
            self.chosen.emit(self.box.text(), False)


LAB_CONTROLS: dict[Kind, type[Control]] = {
    **CONTROLS,
    Kind.WHOLE: Whole,
    Kind.SMALL: Small,
    Kind.FILE: FileName,
}
