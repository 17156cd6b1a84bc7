"""The Generate pane: generated text, weights of one head, next tokens and sampling settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QPushButton, QScrollArea, QSlider, QSpinBox, QWidget

from visualizer.features.model_generation.head_rows_widget import HeadRowsView
from visualizer.features.model_generation.presenter import MAX_STEPS, ModelGenerationPanel
from visualizer.generation.generated_tokens_widget import GenerationPane
from visualizer.generation.next_tokens_and_sampling_widget import NextTokensPane
from visualizer.widgets.accessible_roles_and_values import set_accessible_value
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.plain_text_tooltips import plain_tooltip
from visualizer.widgets.setting_controls import show_number
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtWidgets import QHBoxLayout

    from visualizer.session.screen import Screen

WIDTH = 284
LINES = 108
"""Height of the text and its token chips, in pixels at the default text size."""
USE = "Use as text"


class ModelGenerationPane(QScrollArea):
    """The generated text, its steps, the weights of one head, and the next tokens."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    stepsChosen = Signal(int)
    stepChosen = Signal(int)
    used = Signal()
    startedAgain = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Generate")
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its child widgets take the focus
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMinimumWidth(round(WIDTH * text_scale()))
        self._theme: Theme = LIGHT
        self._panel: ModelGenerationPanel | None = None
        self.message, self.problem, self.head, self.reads = (PlainLabel() for _ in range(4))
        self.generation, self.next, self.rows = GenerationPane(), NextTokensPane(), HeadRowsView()
        self.steps, self.step = QSpinBox(), QSlider(Qt.Orientation.Horizontal)
        self.use, self.again = QPushButton(USE), QPushButton("Start over")
        self.message.setWordWrap(True)
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "warning")
        self.reads.setWordWrap(True)
        for label in (self.head, self.reads):
            label.setProperty("role", "quiet")
        self.generation.strip.setMinimumHeight(round(LINES * text_scale()))
        self._set_up_step_controls()
        self.body = QWidget()
        self._add_controls(self.body)
        inner = QWidget()
        column = column_layout(inner, (0, 4, 0, 8), spacing=0)
        column.addWidget(self._with_margins(self.message))
        column.addWidget(self.body)
        column.addStretch(1)
        self.setWidget(inner)

    def _set_up_step_controls(self) -> None:
        self.steps.setRange(1, MAX_STEPS)
        self.steps.setAccessibleName("Number of tokens to generate")
        self.steps.setToolTip(plain_tooltip("Maximum number of tokens to generate"))
        self.step.setAccessibleName("Step")
        self.step.setToolTip(plain_tooltip("Go to a generated token"))
        self.step.setPageStep(5)
        for control in (self.steps, self.step):
            install_input_filters(control)
        self.steps.valueChanged.connect(self.stepsChosen)
        self.step.valueChanged.connect(self.stepChosen)
        self.use.clicked.connect(self.used)
        self.again.clicked.connect(self.startedAgain)

    def _add_controls(self, body: QWidget) -> None:
        column = column_layout(body, (0, 0, 0, 0), spacing=6)
        column.addWidget(self._with_margins(self.problem))
        column.addWidget(self.generation)
        for row in (self._build_step_row(), self._build_button_row()):
            column.addLayout(row)
        place = QWidget()
        shown = column_layout(place, (12, 6, 12, 6), spacing=4)
        for widget in (self.head, self.rows, self.reads):
            shown.addWidget(widget)
        column.addWidget(place)
        column.addWidget(self.next)

    def _build_step_row(self) -> QHBoxLayout:
        row = row_layout(None, (12, 0, 12, 0), spacing=6)
        step, tokens = PlainLabel("Step"), PlainLabel("Tokens")
        step.setBuddy(self.step)
        tokens.setBuddy(self.steps)
        row.addWidget(step)
        row.addWidget(self.step, 1)
        row.addWidget(tokens)
        row.addWidget(self.steps)
        return row

    def _build_button_row(self) -> QHBoxLayout:
        row = row_layout(None, (12, 0, 12, 0), spacing=6)
        row.addWidget(self.use)
        row.addWidget(self.again)
        row.addStretch(1)
        return row

    def _with_margins(self, label: PlainLabel) -> QWidget:
        place = QWidget()
        column_layout(place, (12, 4, 12, 4)).addWidget(label)
        return place

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Apply the theme; `show_panel` sets the contents."""
        if theme is not self._theme:
            self._theme = theme
            if self._panel is not None:
                self._show_contents()

    def show_panel(self, panel: ModelGenerationPanel) -> None:
        """Show the contents of the pane."""
        if panel is not self._panel:
            self._panel = panel
            self._show_contents()

    def _show_contents(self) -> None:
        panel, theme = self._panel, self._theme
        assert panel
        self._set_label_text(self.message, panel.message)
        self._set_label_text(self.problem, panel.problem)
        self.body.setVisible(not panel.message)
        if panel.message:
            return
        self.generation.show_generation(panel.generation, theme)
        self.next.show_bars(panel.bars, theme)
        with QSignalBlocker(self.step):
            self.step.setRange(0, panel.last_step)
            self.step.setValue(panel.step)
        self.step.setEnabled(panel.last_step > 0)
        set_accessible_value(self.step, f"{panel.step} of {panel.last_step}")
        show_number(self.steps, panel.steps)
        self.use.setEnabled(panel.can_use)
        self.again.setEnabled(panel.last_step > 0 and not panel.generation.is_running)
        self.rows.show_rows(panel.rows, theme)
        self.head.setText(panel.rows.title if panel.rows else "")
        self.reads.setText(panel.rows.of_last if panel.rows else "")

    def _set_label_text(self, label: PlainLabel, text: str) -> None:
        label.setText(text)
        place = label.parentWidget()
        if place is not None:
            place.setVisible(bool(text))
