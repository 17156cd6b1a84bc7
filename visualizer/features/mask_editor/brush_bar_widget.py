"""The bar of mask brushes above the heatmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QKeyEvent
from PySide6.QtWidgets import QPushButton, QSpinBox, QToolButton, QWidget

from visualizer.session.view_options import MaskPattern
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import ElidedLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.overflow_row import OverflowRow, OverflowRowItem, button_entry_adder
from visualizer.widgets.setting_controls import set_number

if TYPE_CHECKING:
    from visualizer.features.mask_editor.presenter import MaskEditPanel

BAR_HEIGHT_PX = 32
MASK, EDGES = "Mask", "Cut edges"
BRUSH_TEXTS = {
    MaskPattern.ALL: ("All", "Every query attends to every key"),
    MaskPattern.CAUSAL: ("Causal", "Each query attends to itself and all earlier tokens"),
    MaskPattern.WINDOW: (
        "Window",
        "Each query attends to this many tokens: itself and those just before it",
    ),
    MaskPattern.PREFIX: (
        "Prefix",
        "Every query attends to this many initial tokens; the rest of the mask is causal",
    ),
    MaskPattern.PADDING: (
        "Padding",
        "This many tokens are text; the tokens after them are padding",
    ),
}
BRUSH_NUMBER_LABELS = {
    MaskPattern.WINDOW: "Window size in tokens",
    MaskPattern.PREFIX: "Prefix length in tokens",
    MaskPattern.PADDING: "Number of tokens before the padding",
}


class MaskEditBar(OverflowRow):
    """Row of brushes above the heatmaps, shown while the mask is edited."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    brushChosen = Signal(str)
    numberChosen = Signal(str, int)
    settled = Signal()
    allHeadsToggled = Signal(bool)
    """Emitted with True if strokes are to cut edges in all shown heads of a model."""
    allEdgesRestored = Signal()
    finished = Signal()

    def __init__(self) -> None:
        super().__init__(BAR_HEIGHT_PX, "More masks", (12, 0, 12, 0), spacing=4)
        self.setAccessibleName("Mask editor")
        self.buttons: dict[MaskPattern, QToolButton] = {}
        self.boxes: dict[MaskPattern, QSpinBox] = {}
        self.caption = PlainTextLabel(MASK)
        self.caption.setProperty("role", "quiet")
        self.all_heads = QToolButton()
        self.all_heads.setText("All visible heads")
        self.all_heads.setToolTip("Cut the same edges in all visible heads")
        self.all_heads.setCheckable(True)
        self.all_heads.setAutoRaise(True)
        self.all_heads.clicked.connect(self.allHeadsToggled)
        self.restore_all = QToolButton()
        self.restore_all.setText("Restore all")
        self.restore_all.setToolTip("Restore all cut edges")
        self.restore_all.setAutoRaise(True)
        self.restore_all.clicked.connect(self.allEdgesRestored)
        self._brush_controls = {brush: self._build_brush_controls(brush) for brush in MaskPattern}
        self.notes = ElidedLabel()
        self.done = QPushButton("Done")
        self.done.setToolTip("Stop editing (Esc)")
        self.done.clicked.connect(self.finished)
        brushes = [
            OverflowRowItem(place, button_entry_adder(self.buttons[brush]), rank=1)
            for brush, place in self._brush_controls.items()
        ]
        notes = OverflowRowItem(self.notes, is_stretched=True)
        cutting = [
            OverflowRowItem(button, button_entry_adder(button), is_wanted=False)
            for button in (self.all_heads, self.restore_all)
        ]
        caption = OverflowRowItem(self.caption, lambda menu: menu.addSection(MASK))
        self.set_items([caption, *brushes, *cutting, notes, OverflowRowItem(self.done)])
        self.hide()

    def _build_brush_controls(self, brush: MaskPattern) -> QWidget:
        """Group the button of a brush with the spin box of its parameter."""
        place = QWidget()
        row = row_layout(place, (0, 0, 0, 0), spacing=4)
        row.addWidget(self._create_button(brush))
        if brush in BRUSH_NUMBER_LABELS:
            row.addWidget(self._create_spin_box(brush))
            row.addSpacing(4)
        return place

    def _create_button(self, brush: MaskPattern) -> QToolButton:
        words, tip = BRUSH_TEXTS[brush]
        button = QToolButton()
        button.setText(words)
        button.setToolTip(plain_tooltip(tip))
        button.setAccessibleName(f"{words} mask")
        button.setAccessibleDescription(tip)
        button.setCheckable(True)
        button.setAutoRaise(True)
        button.setObjectName(brush)
        button.clicked.connect(self._on_brush_clicked)
        self.buttons[brush] = button
        return button

    def _create_spin_box(self, brush: MaskPattern) -> QSpinBox:
        box = QSpinBox()
        install_input_filters(box)
        box.setAccessibleName(BRUSH_NUMBER_LABELS[brush])
        box.setToolTip(BRUSH_NUMBER_LABELS[brush])
        box.setObjectName(brush)
        box.setRange(1, 1)
        box.valueChanged.connect(self._on_number_changed)
        box.editingFinished.connect(self.settled)
        self.boxes[brush] = box
        return box

    def show_mask_edit(self, panel: MaskEditPanel | None) -> None:
        """Show the brushes and check the current one, or hide the bar if the panel is None."""
        self.setVisible(panel is not None)
        if panel is None:
            return
        self.notes.show_text("  ·  ".join(panel.notes))
        is_of_model = panel.layer is not None
        self.caption.setText(EDGES if is_of_model else MASK)
        for place in self._brush_controls.values():
            self.set_available(place, not is_of_model and not panel.is_too_long)
        for button in (self.all_heads, self.restore_all):
            self.set_available(button, is_of_model)
        self.all_heads.setChecked(panel.state.is_of_all_heads)
        for brush, button in self.buttons.items():
            button.setChecked(brush is panel.brush)
        # The current brush moves into the overflow menu last, so its number stays visible.
        ranks = {brush: -1 if brush is panel.brush else 1 for brush in self.buttons}
        self.set_ranks({self._brush_controls[brush]: rank for brush, rank in ranks.items()})
        for brush, box in self.boxes.items():
            number = panel.state.brush_parameter(brush)
            box.blockSignals(True)  # a new limit is not user input
            box.setMaximum(max(1, panel.tokens, number))
            box.blockSignals(False)
            set_number(box, number)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.finished.emit()
        else:
            super().keyPressEvent(event)

    def _on_brush_clicked(self) -> None:
        button = self.sender()
        if isinstance(button, QToolButton):
            # Undo Qt's toggle: show_mask_edit checks the button once the mask has changed.
            button.setChecked(not button.isChecked())
            self.brushChosen.emit(button.objectName())

    def _on_number_changed(self, number: int) -> None:
        self.numberChosen.emit(self.sender().objectName(), number)
