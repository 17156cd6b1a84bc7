"""The bar of painting the mask: the brushes to start from, and what is to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QSpinBox,
    QToolButton,
    QWidget,
)

from visualizer.state.brushes import Brush
from visualizer.ui.controls import show_number
from visualizer.ui.labels import PlainLabel
from visualizer.ui.manners import teach
from visualizer.ui.strip import Line, Strip
from visualizer.ui.tooltips import plain_tooltip

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent

    from visualizer.state.painting import Painting

HEIGHT = 32
BRUSHES = {
    Brush.ALL: ("All", "Every query reads every key"),
    Brush.CAUSAL: ("Causal", "A query reads itself and all before"),
    Brush.WINDOW: ("Window", "A query reads so many tokens: itself and those just before"),
    Brush.PREFIX: ("Prefix", "Every query reads the first so many; those after, causally"),
    Brush.PADDING: ("Padding", "The first so many tokens are text, those after padding"),
}
NUMBERS = {
    Brush.WINDOW: "Tokens in the window",
    Brush.PREFIX: "Tokens in the prefix",
    Brush.PADDING: "Tokens before the padding",
}


class PaintBar(Strip):
    """A row of brushes, over the heatmaps while the mask is painted."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    brushChosen = Signal(str)
    numberChosen = Signal(str, int)
    settled = Signal()
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(HEIGHT, parent)
        self.setAccessibleName("Painting the mask")
        self.buttons: dict[Brush, QToolButton] = {}
        self.boxes: dict[Brush, QSpinBox] = {}
        inner = QWidget()
        row = QHBoxLayout(inner)
        row.setContentsMargins(12, 0, 12, 0)
        row.setSpacing(4)
        caption = PlainLabel("Mask")
        caption.setProperty("role", "quiet")
        row.addWidget(caption)
        for brush in Brush:
            row.addWidget(self._button(brush))
            if brush in NUMBERS:
                row.addWidget(self._box(brush))
                row.addSpacing(4)
        self.notes = Line()
        row.addWidget(self.notes, 1)
        self.done = QPushButton("Done")
        self.done.setToolTip("Paint no more (Esc)")
        self.done.clicked.connect(self.left)
        row.addWidget(self.done)
        self.setWidget(inner)
        self.hide()

    def _button(self, brush: Brush) -> QToolButton:
        words, tip = BRUSHES[brush]
        button = QToolButton()
        button.setText(words)
        button.setToolTip(plain_tooltip(tip))
        button.setAccessibleName(f"{words} mask")
        button.setAccessibleDescription(tip)
        button.setCheckable(True)
        button.setAutoRaise(True)
        button.setObjectName(brush)
        button.clicked.connect(self._choose)
        self.buttons[brush] = button
        return button

    def _box(self, brush: Brush) -> QSpinBox:
        box = QSpinBox()
        teach(box)
        box.setAccessibleName(NUMBERS[brush])
        box.setToolTip(NUMBERS[brush])
        box.setObjectName(brush)
        box.setRange(1, 1)
        box.valueChanged.connect(self._type)
        box.editingFinished.connect(self.settled)
        self.boxes[brush] = box
        return box

    def show_painting(self, painting: Painting | None) -> None:
        """Show the brushes and which of them the mask is; nothing while it is not painted."""
        self.setVisible(painting is not None)
        if painting is None:
            return
        self.notes.tell("  ·  ".join(painting.notes))
        for brush, button in self.buttons.items():
            button.setChecked(brush is painting.brush)
        for brush, box in self.boxes.items():
            number = painting.look.number(brush)
            box.blockSignals(True)  # that it has another limit is nobody's choice
            box.setMaximum(max(1, painting.tokens, number))
            box.blockSignals(False)
            show_number(box, number)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def _choose(self) -> None:
        button = self.sender()
        if isinstance(button, QToolButton):
            button.setChecked(not button.isChecked())  # until the mask says otherwise
            self.brushChosen.emit(button.objectName())

    def _type(self, number: int) -> None:
        self.numberChosen.emit(self.sender().objectName(), number)
