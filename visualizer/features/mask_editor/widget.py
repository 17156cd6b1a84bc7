"""The bar of brushes over the heatmaps, and the event filter that turns input into strokes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAccessible, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QPushButton, QSpinBox, QToolButton, QWidget

from visualizer.heatmap.cell_pointing_widget import STEPS
from visualizer.heatmap.model import target_of
from visualizer.session.view_options import MaskBrush
from visualizer.widgets.input_filters import install_input_filters, is_command
from visualizer.widgets.labels import ElidedLabel, PlainLabel
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.scroll_strip import ScrollStrip
from visualizer.widgets.setting_controls import show_number
from visualizer.widgets.tooltips import plain_tooltip

if TYPE_CHECKING:
    from visualizer.features.mask_editor.model import MaskEditPanel
    from visualizer.heatmap.layout import PanelSlot
    from visualizer.heatmap.widget import BoardView

HEIGHT = 32
BRUSHES = {
    MaskBrush.ALL: ("All", "Every query reads every key"),
    MaskBrush.CAUSAL: ("Causal", "A query reads itself and all before"),
    MaskBrush.WINDOW: ("Window", "A query reads so many tokens: itself and those just before"),
    MaskBrush.PREFIX: ("Prefix", "Every query reads the first so many; those after, causally"),
    MaskBrush.PADDING: ("Padding", "The first so many tokens are text, those after padding"),
}
NUMBERS = {
    MaskBrush.WINDOW: "Tokens in the window",
    MaskBrush.PREFIX: "Tokens in the prefix",
    MaskBrush.PADDING: "Tokens before the padding",
}


class MaskEditBar(ScrollStrip):
    """The row of brushes over the heatmaps while the mask is edited."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    brushChosen = Signal(str)
    numberChosen = Signal(str, int)
    settled = Signal()
    left = Signal()

    def __init__(self) -> None:
        super().__init__(HEIGHT)
        self.setAccessibleName("Painting the mask")
        self.buttons: dict[MaskBrush, QToolButton] = {}
        self.boxes: dict[MaskBrush, QSpinBox] = {}
        inner = QWidget()
        row = row_layout(inner, (12, 0, 12, 0), spacing=4)
        caption = PlainLabel("Mask")
        caption.setProperty("role", "quiet")
        row.addWidget(caption)
        for brush in MaskBrush:
            row.addWidget(self._button(brush))
            if brush in NUMBERS:
                row.addWidget(self._box(brush))
                row.addSpacing(4)
        self.notes = ElidedLabel()
        row.addWidget(self.notes, 1)
        self.done = QPushButton("Done")
        self.done.setToolTip("Paint no more (Esc)")
        self.done.clicked.connect(self.left)
        row.addWidget(self.done)
        self.setWidget(inner)
        self.hide()

    def _button(self, brush: MaskBrush) -> QToolButton:
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

    def _box(self, brush: MaskBrush) -> QSpinBox:
        box = QSpinBox()
        install_input_filters(box)
        box.setAccessibleName(NUMBERS[brush])
        box.setToolTip(NUMBERS[brush])
        box.setObjectName(brush)
        box.setRange(1, 1)
        box.valueChanged.connect(self._type)
        box.editingFinished.connect(self.settled)
        self.boxes[brush] = box
        return box

    def show_painting(self, painting: MaskEditPanel | None) -> None:
        """Show the brushes and the current one; hide the bar without a panel."""
        self.setVisible(painting is not None)
        if painting is None:
            return
        self.notes.tell("  ·  ".join(painting.notes))
        for brush, button in self.buttons.items():
            button.setChecked(brush is painting.brush)
        for brush, box in self.boxes.items():
            number = painting.look.number(brush)
            box.blockSignals(True)  # a new limit is no user input
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
            button.setChecked(not button.isChecked())  # until the mask confirms the change
            self.brushChosen.emit(button.objectName())

    def _type(self, number: int) -> None:
        self.numberChosen.emit(self.sender().objectName(), number)


SHIFT = Qt.KeyboardModifier.ShiftModifier
PRESSES = {QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick}


class MaskBrushHandler(QObject):
    """Event filter that turns mouse and key events of the heatmaps into strokes."""

    begun = Signal(object, bool)
    """Carries a cell, and whether its value is spread."""
    swept = Signal(object)
    ended = Signal()
    extended = Signal(int, int)
    left = Signal()

    def __init__(self, board: BoardView) -> None:
        super().__init__(board)
        self._board = board
        self._painting: MaskEditPanel | None = None
        self._slot: PanelSlot | None = None

    def show_painting(self, painting: MaskEditPanel | None) -> None:
        """Install the event filter, or remove it without a panel."""
        before, self._painting = self._painting, painting
        self._board.show_fresh(painting.fresh if painting else {})
        if bool(painting) == bool(before):
            return
        for widget in (self._board, self._board.viewport()):
            if painting:
                widget.installEventFilter(self)
            else:
                widget.removeEventFilter(self)
        if painting:
            self._board.viewport().setCursor(Qt.CursorShape.CrossCursor)
        else:
            self._end()
            self._board.viewport().unsetCursor()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent):
            return watched is self._board.viewport() and self._take_mouse(event)
        if isinstance(event, QKeyEvent):
            return watched is self._board and self._take_key(event)
        if event.type() == QEvent.Type.Wheel:
            self._end()  # another part of the picture may scroll under the pointer
        return event.type() == QEvent.Type.ContextMenu

    # ------------------------------------------------------------------ the mouse

    def _take_mouse(self, event: QMouseEvent) -> bool:
        if event.type() in PRESSES:
            return self._press(event)
        if self._slot is None:
            return False
        if event.type() == QEvent.Type.MouseMove:
            self.swept.emit(self._board.cell_nearest(self._slot, event.position()))
            return False  # hovering continues
        self._end()
        return True

    def _press(self, event: QMouseEvent) -> bool:
        slot = self._board.slot_at(event.position())
        targets = self._painting.targets if self._painting else frozenset()
        is_right = event.button() == Qt.MouseButton.RightButton
        if slot is None or target_of(slot.heatmap) not in targets:
            return False
        if self._slot is None and (is_right or event.button() == Qt.MouseButton.LeftButton):
            self._slot = slot  # with its current rectangle: a pending result may move it
            spreads = is_right or bool(event.modifiers() & SHIFT)
            self.begun.emit(self._board.cell_nearest(slot, event.position()), spreads)
        return True

    def _end(self) -> None:
        if self._slot is not None:
            self._slot = None
            self.ended.emit()

    # ------------------------------------------------------------------ the keys

    def _take_key(self, event: QKeyEvent) -> bool:
        if event.type() == QEvent.Type.KeyRelease and event.key() == Qt.Key.Key_Shift:
            self.ended.emit()
        if event.type() != QEvent.Type.KeyPress or is_command(event):
            return False
        step = STEPS.get(Qt.Key(event.key()))
        if step and event.modifiers() & SHIFT:
            self.extended.emit(*step)
            return True
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
            return True
        return False
