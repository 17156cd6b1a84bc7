"""The Numbers pane: every number of a stage or of weights in a table, to read, copy and edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from visualizer.state.tables import TABLE
from visualizer.state.view import Cell
from visualizer.state.words import counted
from visualizer.ui.grid import NumberGrid
from visualizer.ui.labels import PlainLabel
from visualizer.ui.manners import teach
from visualizer.ui.theme import LIGHT, Theme, text_scale

if TYPE_CHECKING:
    from visualizer.state.screen import Screen
    from visualizer.state.tables import NumberTable

EMPTY = "The numbers stand here, as soon as there are some."
WIDTH = 252


class NumbersPane(QWidget):
    """A table of numbers, the choice of which, and what is to be said of it.

    What is typed and pasted goes out with the tensor's name and the first cell's row and column.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    tensorChosen = Signal(str)
    headChosen = Signal(int)
    cellPinned = Signal(object)
    numberTyped = Signal(str, int, int, str)
    numbersPasted = Signal(str, int, int, str)
    copyWanted = Signal(object, object)
    drawnAgain = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Numbers")
        self.setMinimumWidth(round(WIDTH * text_scale()))
        self.tensor, self.head, self.grid = QComboBox(), QComboBox(), NumberGrid()
        self.facts, self.note, self.problem = PlainLabel(), PlainLabel(), PlainLabel()
        self.draw = QPushButton("As drawn again")
        self._table: NumberTable | None = None
        self._theme = LIGHT
        self._build()
        self.tensor.activated.connect(self._choose)
        self.head.activated.connect(self._choose_head)
        self.draw.clicked.connect(self._draw_again)
        self.grid.stood.connect(self._pin)
        self.grid.typed.connect(self._type)
        self.grid.pasted.connect(self._paste)
        self.grid.copyWanted.connect(self.copyWanted)
        self._show(None)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Show the table of a screen."""
        self.show_table(screen.panel(TABLE), theme)

    def show_table(self, table: NumberTable | None, theme: Theme) -> None:
        """Show a table, or what would be said here."""
        if (table, theme) != (self._table, self._theme):
            self._theme = theme
            self._show(table)

    # ------------------------------------------------------------------ building

    def _build(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 8)
        column.setSpacing(8)
        chosen, foot = QHBoxLayout(), QHBoxLayout()
        for row in (chosen, foot):
            row.setSpacing(8)
        for box, name in ((self.tensor, "Numbers of"), (self.head, "Head")):
            box.setAccessibleName(name)
            box.setAccessibleDescription(name)  # to readers of the screen, its name is its text
            box.setMinimumContentsLength(5)
            box.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            teach(box)
            chosen.addWidget(box, 2 if box is self.tensor else 1)
        self.facts.setProperty("role", "quiet")
        self.note.setProperty("role", "quiet")
        self.problem.setProperty("role", "warning")
        for label in (self.facts, self.note, self.problem):
            label.setWordWrap(True)
        foot.addWidget(self.facts, 1)
        foot.addWidget(self.draw)
        column.addLayout(chosen)
        column.addLayout(foot)
        column.addWidget(self.grid, 1)
        column.addWidget(self.problem)
        column.addWidget(self.note)

    # ------------------------------------------------------------------ showing

    def _show(self, table: NumberTable | None) -> None:
        before, self._table = self._table, table
        for widget in (self.tensor, self.facts, self.draw, self.grid):
            widget.setVisible(table is not None)
        self.head.setVisible(table is not None and table.heads > 1)
        self.note.setText(table.note if table else EMPTY)
        self.problem.setText(table.problem if table else "")
        self.problem.setVisible(bool(self.problem.text()))
        self.grid.show_table(table, self._theme)
        if table is None:
            return
        if before is None or before.choices != table.choices:
            self.tensor.clear()
            self.tensor.addItems([title for _, title in table.choices])
        self.tensor.setCurrentIndex([name for name, _ in table.choices].index(table.name))
        if self.head.count() != table.heads:
            self.head.clear()
            self.head.addItems([f"Head {head + 1}" for head in range(table.heads)])
        self.head.setCurrentIndex(table.head)
        self.draw.setEnabled(table.is_own)
        self.draw.setVisible(table.is_own or table.is_editable)
        self.facts.setText(_size_in_words(table))
        head = f", head {table.head + 1}" if table.heads else ""
        self.grid.setAccessibleName(f"Numbers of {table.title}{head}")
        self.grid.setAccessibleDescription(table.problem or table.note)

    # ------------------------------------------------------------------ acting

    def _choose(self, index: int) -> None:
        if self._table:
            self.tensorChosen.emit(self._table.choices[index][0])

    def _choose_head(self, head: int) -> None:
        self.headChosen.emit(head)

    def _draw_again(self) -> None:
        if self._table:
            self.drawnAgain.emit(self._table.name)

    def _pin(self, row: int, column: int) -> None:
        table = self._table
        if table and table.is_stage and table.current != (row, column):
            self.cellPinned.emit(Cell(table.name, table.place(row, column)))

    def _type(self, row: int, column: int, text: str) -> None:
        if self._table:
            self.numberTyped.emit(self._table.name, row, column, text)

    def _paste(self, row: int, column: int, text: str) -> None:
        if self._table:
            self.numbersPasted.emit(self._table.name, row, column, text)


def _size_in_words(table: NumberTable) -> str:
    rows, columns = table.shape
    across = counted(columns, table.columns.name if table.columns.is_token else "column")
    down = counted(rows, table.rows.name if table.rows.is_token else "row")
    return f"{down} × {across}".replace("querys", "queries")
