"""A number that is typed, and what is wrong with it said where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from visualizer.ui.labels import PlainLabel

if TYPE_CHECKING:
    from collections.abc import Callable

SLACK = 1e-3
"""Ends are written rounded, and can be typed as they are written."""


class NumberField(QWidget):
    """A number between two ends; where it may be open, nothing typed is None."""

    typed = Signal(object)
    """A number that is taken, or None."""
    judged = Signal()
    """Whether what is typed is taken is not as it was."""

    def __init__(self, name: str, open_: str = "", *, is_whole: bool = False) -> None:
        super().__init__()
        self._is_whole, self._open = is_whole, open_
        self._low, self._high = 0.0, 0.0
        self._write: Callable[[float], str] = str
        self.box, self.problem = QLineEdit(), PlainLabel()
        self.box.setAccessibleName(name)
        self.box.setPlaceholderText(open_)
        self.problem.setProperty("role", "warning")
        self.problem.setWordWrap(True)
        self.problem.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.box)
        column.addWidget(self.problem)
        self.setFocusProxy(self.box)
        self.box.textEdited.connect(self._take)

    @property
    def is_wrong(self) -> bool:
        """Whether what is typed is not taken."""
        return bool(self.problem.text())

    def show_number(
        self, number: float | None, low: float, high: float, write: Callable[[float], str]
    ) -> None:
        """Show a number and which are taken; what is being typed is left as it is."""
        self._low, self._high, self._write = low, high, write
        is_taken, typed = self._read()
        if self.box.hasFocus() and is_taken and self._written(typed) == self._written(number):
            self._say("")
            return
        with QSignalBlocker(self.box):
            self.box.setText(self._written(number))
        self._say("")

    def _written(self, number: float | None) -> str:
        return "" if number is None else self._write(number)

    def _read(self) -> tuple[bool, float | None]:
        """Say whether what is typed is taken, and give it."""
        text = self.box.text().strip().replace(",", ".").replace("−", "-")
        if not text:
            return bool(self._open), None
        try:
            number = float(text)
        except ValueError:
            return False, None
        is_taken = self._low * (1 - SLACK) <= number <= self._high * (1 + SLACK)
        return is_taken and (not self._is_whole or number.is_integer()), number

    def _take(self) -> None:
        is_taken, number = self._read()
        ends = f"{self._write(self._low)} to {self._write(self._high)}"
        nothing = ", or nothing" if self._open else ""
        kind = "a whole number from " if self._is_whole else ""
        self._say("" if is_taken else f"Takes {kind}{ends}{nothing}.")
        if is_taken:
            self.typed.emit(number)

    def _say(self, problem: str) -> None:
        was_wrong = self.is_wrong
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.box.setAccessibleDescription(problem)
        if was_wrong != self.is_wrong:
            self.judged.emit()
