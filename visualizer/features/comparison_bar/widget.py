"""The comparison bar above the heatmaps: a description, controls and the largest difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QComboBox,
    QSizePolicy,
    QSpinBox,
    QToolButton,
    QWidget,
)

from visualizer.features.comparison_bar.presenter import COMPARISON_PANEL
from visualizer.session.comparison_state import ComparisonKind
from visualizer.widgets.commands import show_command_tooltip
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.overflow_row import (
    OverflowRow,
    OverflowRowItem,
    button_entry_adder,
    combo_box_entry_adder,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QAction

    from visualizer.features.comparison_bar.presenter import ComparisonBarContents
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.screen import Screen

BAR_HEIGHT_PX = 28
MIN_TEXT_WIDTH_PX = 120
"""Minimum width of the texts, in pixels at the default text size."""
BUTTON_TEXTS = {
    "comparison.scale_samples -1": ("Halve", ComparisonKind.SAMPLES),
    "comparison.add_sample": ("+1", ComparisonKind.SAMPLES),
    "comparison.scale_samples 1": ("Double", ComparisonKind.SAMPLES),
    "comparison.go_to_largest": ("Go to cell", None),
    "comparison.swap": ("Swap", ComparisonKind.KEPT),
    "comparison.stop": ("Stop", None),
}


class ComparisonBar(QWidget):
    """Bar that describes a comparison, with controls to choose heads or samples and to stop."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    headsChosen = Signal(int, int)
    countChosen = Signal(int)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self._shown: ComparisonBarContents | None = None
        self._buttons: dict[str, QToolButton] = {}
        self.summary, self.result = PlainTextLabel(), PlainTextLabel()
        words = column_layout(spacing=0)
        for label in (self.summary, self.result):
            label.setWordWrap(True)
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            label.setMinimumWidth(round(MIN_TEXT_WIDTH_PX * text_scale()))
            words.addWidget(label)
        self.summary.setProperty("role", "quiet")
        self.head_boxes = _create_head_box("First head"), _create_head_box("Second head")
        self.count = QSpinBox()
        self.count.setObjectName("Samples")
        self.count.setAccessibleName("Samples")
        self.count.setToolTip("Number of samples to average")
        self.count.setMinimum(1)
        self.count.setKeyboardTracking(False)
        install_input_filters(self.count)
        for box in self.head_boxes:
            box.activated.connect(self._choose_heads)
        self.count.valueChanged.connect(self.countChosen)
        self.controls = OverflowRow(
            BAR_HEIGHT_PX, "More comparison controls", (0, 0, 0, 0), spacing=6
        )
        self.controls.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._add_controls(actions)
        row = row_layout(self, (16, 4, 12, 4), spacing=6)
        row.addLayout(words, 1)
        row.addWidget(self.controls)
        self.hide()

    def _add_controls(self, actions: Mapping[str, QAction]) -> None:
        items = [OverflowRowItem(box, combo_box_entry_adder(box)) for box in self.head_boxes]
        items.append(OverflowRowItem(self.count))
        for key, (text, _) in BUTTON_TEXTS.items():
            action = actions[key]
            button = QToolButton()
            button.setText(text)
            button.setAccessibleName(action.text().replace("&", ""))
            show_command_tooltip(button, action)
            button.clicked.connect(action.trigger)
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # a menu has the same commands
            items.append(OverflowRowItem(button, button_entry_adder(button), rank=1))
            self._buttons[key] = button
        self.controls.set_items(items)

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen) -> None:
        """Show the comparison on the screen, or hide the bar if there is none."""
        panel = screen.panel(COMPARISON_PANEL)
        if panel != self._shown:
            self._show_panel(panel)
        if panel and screen.wanted.comparison:
            self._show_choices(panel, screen.wanted.comparison)

    def _show_panel(self, panel: ComparisonBarContents | None) -> None:
        self._shown = panel
        self.setVisible(panel is not None)
        if panel is None:
            return
        self.summary.setText(panel.summary)
        self.result.setText(panel.result)
        self.setAccessibleName(f"Comparison. {panel.summary} {panel.result}")
        self._show_buttons(panel)
        is_head = panel.against is ComparisonKind.HEAD and panel.head_count > 1
        for box in self.head_boxes:
            self.controls.set_available(box, is_head)
            if box.count() != panel.head_count:
                box.clear()
                box.addItems([f"Head {head + 1}" for head in range(panel.head_count)])
        self.controls.set_available(self.count, panel.max_count > 1)

    def _show_choices(self, panel: ComparisonBarContents, wanted: Comparison) -> None:
        for box, head in zip(self.head_boxes, wanted.heads, strict=True):
            box.setCurrentIndex(min(head, panel.head_count - 1))
        with QSignalBlocker(self.count):
            self.count.setMaximum(panel.max_count)
            self.count.setValue(wanted.count)

    def _show_buttons(self, panel: ComparisonBarContents) -> None:
        enabled = {
            "comparison.scale_samples -1": panel.count > 1,
            "comparison.scale_samples 1": panel.count < panel.max_count,
            "comparison.add_sample": panel.count < panel.max_count,
            "comparison.go_to_largest": panel.largest is not None,
        }
        for key, (_, against) in BUTTON_TEXTS.items():
            is_fixed = against is ComparisonKind.SAMPLES and panel.max_count == 1
            is_visible = against in {None, panel.against} and not is_fixed
            self.controls.set_available(self._buttons[key], is_visible)
            self._buttons[key].setEnabled(enabled.get(key, True))

    # ------------------------------------------------------------------ user input

    def _choose_heads(self) -> None:
        self.headsChosen.emit(*(box.currentIndex() for box in self.head_boxes))


def _create_head_box(name: str) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.setObjectName(name)
    box.setToolTip(plain_tooltip(name))
    box.setMinimumWidth(round(72 * text_scale()))
    install_input_filters(box)
    return box
