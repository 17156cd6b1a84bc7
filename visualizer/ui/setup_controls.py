"""The controls that only the Setup pane needs: a typed mask, and numbers given elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QPlainTextEdit, QPushButton

from visualizer.state.setup import Kind, Setting, own_in_words, written_mask
from visualizer.ui.controls import CONTROLS, Control
from visualizer.ui.focus import SHOWS_OWN_FOCUS
from visualizer.ui.labels import PlainLabel
from visualizer.ui.manners import teach

if TYPE_CHECKING:
    from visualizer.attention.spec import BooleanMatrix


class Matrix(Control):
    """A matrix of 0 and 1, typed or pasted; what is chosen is the text, to be read elsewhere."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QPlainTextEdit()
        self.box.setPlaceholderText(written_mask(None)[1])
        self.box.setTabChangesFocus(True)
        self.box.setFixedHeight(self.box.fontMetrics().lineSpacing() * 6 + 12)
        self.box.textChanged.connect(self._type)
        self.box.setUndoRedoEnabled(False)
        teach(self.box)
        self.box.setProperty(SHOWS_OWN_FOCUS, True)
        self._shown: BooleanMatrix | None = None
        self.add(self.box, "QPlainTextEdit", 1)

    def show_value(self, value: Any) -> None:
        if value == self._shown:
            return
        self._shown = value
        text, hint = written_mask(value)
        self.box.setPlaceholderText(hint)
        if _bare(text) != _bare(self.box.toPlainText()):  # as typed it may have other spaces
            with QSignalBlocker(self.box):
                self.box.setPlainText(text)

    def _type(self) -> None:
        self.chosen.emit(self.box.toPlainText(), True)


class Own(Control):
    """Numbers that were given elsewhere: which, in words, and to have them drawn again."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.words, self.draw = PlainLabel(), QPushButton("Draw instead")
        self.words.setWordWrap(True)
        self.draw.clicked.connect(self._draw)
        self.row.addWidget(self.words, 1)
        self.add(self.draw, "QPushButton")

    def show_value(self, value: Any) -> None:
        self.words.setText(own_in_words(self.setting, value))

    def _draw(self) -> None:
        self.chosen.emit(self.setting.choices[0][0], False)


def _bare(text: str) -> list[str]:
    lines = text.replace(",", " ").splitlines()
    return [bare for line in lines if (bare := "".join(line.split()))]


SETUP_CONTROLS: dict[Kind, type[Control]] = {**CONTROLS, Kind.MATRIX: Matrix, Kind.OWN: Own}
