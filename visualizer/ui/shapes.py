"""The Shapes pane: how the heads are split, and a ledger of every stage's real size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from visualizer.state.shapes import SHAPES, Ledger
from visualizer.ui.labels import PlainLabel
from visualizer.ui.shape_row import ShapeButton
from visualizer.ui.split import SplitView
from visualizer.ui.theme import LIGHT, Theme, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent

    from visualizer.state.screen import Screen

EMPTY = "The sizes of every stage stand here, as soon as there are some."
WIDTH = 252
FIRST = 2
"""Where the rows begin: after the sentences of the split and of the batch."""


class ShapesPane(QWidget):
    """The ledger with the drawing over it; `stageChosen` carries the stage of a clicked row."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    stageChosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Shapes")
        self.setMinimumWidth(round(WIDTH * text_scale()))
        self._ledger: Ledger | None = None
        self._theme = LIGHT
        self.drawing, self.rows = SplitView(), list[ShapeButton]()
        self.says, self.batch, self.total = (PlainLabel() for _ in range(3))
        self.turn = QPushButton("Split / join")
        self.turn.setToolTip("Slide the heads apart, or together again")
        self.turn.clicked.connect(self.drawing.turn)
        for label in (self.says, self.batch, self.total):
            label.setWordWrap(True)
            label.setProperty("role", "quiet")
        self._build()
        self.show_ledger(Ledger(), LIGHT)

    def show_ledger(self, ledger: Ledger, theme: Theme) -> None:
        """Show a run's shapes, or what would be said here."""
        if ledger is self._ledger and theme is self._theme:
            return
        before = self._ledger.current if self._ledger else None
        self._ledger, self._theme = ledger, theme
        split = ledger.split
        self.drawing.show_split(split, theme)
        self.says.setVisible(split is not None or not ledger.rows)
        for widget in (self.drawing, self.turn, self.total):
            widget.setVisible(split is not None)
        self.turn.setEnabled(split is not None and split.heads > 1)
        self.says.setText(f"{split.says} {split.left_out}".strip() if split else "")
        if not ledger.rows:
            self.says.setText(EMPTY)
        self.batch.setText(ledger.batch)
        self.total.setText(ledger.total)
        self._show_rows(ledger, theme)
        if ledger.current and ledger.current != before:
            self._follow(ledger.current)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Show what of a screen is for this pane."""
        self.show_ledger(screen.panel(SHAPES), theme)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.drawing.make_room(self.height() / 7)
        super().resizeEvent(event)

    def row(self, stage: str) -> ShapeButton:
        """Give the row of a stage."""
        return next(row for row in self.rows if row.stage == stage)

    def _build(self) -> None:
        inner = QWidget()
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, 0, 0, 8)
        self._column.setSpacing(0)
        said = QHBoxLayout()
        said.setContentsMargins(12, 0, 12, 0)
        said.addWidget(self.says, 1)
        said.addWidget(self.turn, 0, Qt.AlignmentFlag.AlignTop)
        self._column.addLayout(said)
        for label in (self.batch, self.total):
            label.setContentsMargins(12, 6, 12, 2)
            self._column.addWidget(label)
        self._column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its rows have it
        self._scroll.setWidget(inner)
        self._scroll.setAccessibleName("Shapes of the stages")
        top = QVBoxLayout()
        top.setContentsMargins(12, 4, 12, 4)
        top.addWidget(self.drawing)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self._scroll, 1)

    def _show_rows(self, ledger: Ledger, theme: Theme) -> None:
        while len(self.rows) < len(ledger.rows):
            made = ShapeButton()
            made.clicked.connect(self._choose)
            made.dimPointed.connect(self._light)
            self._column.insertWidget(FIRST + len(self.rows), made)
            self.setTabOrder([self.turn, *self.rows][-1], made)
            self.rows.append(made)
        for number, button in enumerate(self.rows):
            button.setVisible(number < len(ledger.rows))
        for button, row in zip(self.rows, ledger.rows, strict=False):
            button.show_row(row, theme)

    def _choose(self) -> None:
        button = self.sender()
        if isinstance(button, ShapeButton):
            self.stageChosen.emit(button.stage)

    def _light(self, counts: str) -> None:
        for row in self.rows:
            row.light(counts)

    def _follow(self, stage: str) -> None:
        """Scroll to a row, or as much of it as there is room for."""
        row = self.row(stage)
        if self.isVisible() and not row.underMouse():
            self._column.activate()
            half = min(row.height(), self._scroll.viewport().height()) // 2
            self._scroll.ensureVisible(0, row.y() + half, 0, half)
