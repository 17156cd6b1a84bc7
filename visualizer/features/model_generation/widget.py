"""The Continue pane: generated text, weights of one head, next tokens and sampling settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QHelpEvent, QPainter, QPen
from PySide6.QtWidgets import QPushButton, QScrollArea, QSizePolicy, QSlider, QSpinBox, QWidget

from visualizer.features.model_generation.presenter import MAX_STEPS, ModelGenerationPanel
from visualizer.generation.generated_tokens_widget import GenerationPane
from visualizer.generation.token_choice_widget import NextTokenChoicePane
from visualizer.heatmap.colour_mapping import FORBIDDEN, MAX_COLOUR_INDEX, create_colour_image
from visualizer.session.view_options import DEFAULT_MAP
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip, show_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.setting_controls import set_number
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QPaintEvent
    from PySide6.QtWidgets import QHBoxLayout

    from visualizer.features.model_generation.presenter import HeadWeightRows
    from visualizer.session.screen import Screen

MAX_CELL_PX = 18
"""Maximum cell size, in pixels at the default text size."""
MAX_HEIGHT_PX = 160
"""Maximum height of the heatmap, in pixels at the default text size."""


class HeadWeightRowsView(QWidget):
    """Heatmap of weights; a dashed line separates the given text from generated tokens."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Attention weights of the head, one row per token")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.rows: HeadWeightRows | None = None
        self._image: QImage | None = None
        self._theme: Theme = LIGHT

    def show_rows(self, rows: HeadWeightRows | None, theme: Theme) -> None:
        """Show the rows of a head, or hide the widget if there are none."""
        if rows is self.rows and theme is self._theme:
            return
        self.rows, self._theme, self._image = rows, theme, None
        self.setVisible(rows is not None)
        if rows is not None:
            is_blank = np.isnan(rows.weights)
            shares = np.where(is_blank, 0, rows.weights) / rows.colour_range.end
            sizes = (shares * MAX_COLOUR_INDEX + 0.5).clip(0, MAX_COLOUR_INDEX)
            colours = np.where(is_blank, FORBIDDEN, sizes).astype(np.uint8)
            self._image = create_colour_image(colours, DEFAULT_MAP, theme)
            set_accessible_value(self, f"{rows.title}. {rows.last_token_sentence}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(round(280 * text_scale()), round(self._measure_cells(280 * text_scale())[1]))

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return round(self._measure_cells(width)[1]) + 2

    def _measure_cells(self, width: float) -> tuple[float, float]:
        """Return the side length of a cell and the height of all rows for the given width."""
        if self.rows is None:
            return 1.0, 1.0
        rows, keys = self.rows.weights.shape
        tallest = MAX_HEIGHT_PX * text_scale()
        side = min(MAX_CELL_PX * text_scale(), (width - 2) / keys, tallest / rows)
        return side, max(1.0, side * rows)

    def cell_rect(self, row: int, key: int) -> QRectF:
        """Return the rectangle of a cell."""
        side, _ = self._measure_cells(self.width())
        return QRectF(1 + key * side, 1 + row * side, side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.rows is None or self._image is None:
            return
        painter = QPainter(self)
        rows, keys = self.rows.weights.shape
        side, _ = self._measure_cells(self.width())
        whole = QRectF(1, 1, side * keys, side * rows)
        painter.drawImage(whole, self._image)
        painter.setPen(QPen(QColor(self._theme.hairline), 1))
        painter.drawRect(whole)
        painter.setPen(QPen(QColor(self._theme.quiet), 1, Qt.PenStyle.DashLine))
        given = self.rows.prompt_tokens - self.rows.first
        if 0 < given < rows:
            height = 1 + given * side
            painter.drawLine(QPointF(1, height), QPointF(1 + side * keys, height))
        painter.setPen(QPen(QColor(self._theme.accent), 1.5))
        painter.drawRect(QRectF(1, 1 + (rows - 1) * side, side * keys, side))
        painter.end()

    def describe_at(self, point: QPointF) -> str:
        """Return the description of the cell at the given point, or an empty string."""
        if self.rows is None:
            return ""
        rows, keys = self.rows.weights.shape
        side, _ = self._measure_cells(self.width())
        row, key = int((point.y() - 1) // side), int((point.x() - 1) // side)
        is_within = 0 <= row < rows and 0 <= key < keys
        return self.rows.describe_cell_at(row, key) if is_within else ""

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            show_tooltip(event.globalPos(), self.describe_at(QPointF(event.pos())), self)
            return True
        return super().event(event)


PANE_WIDTH_PX = 284
TEXT_HEIGHT_PX = 108
"""Height of the text and its token chips, in pixels at the default text size."""
USE_AS_TEXT_LABEL = "Use as text"


class ModelGenerationPane(QScrollArea):
    """Pane with the generated text, its steps, the weights of one head, and the next tokens."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    stepsChosen = Signal(int)
    stepChosen = Signal(int)
    useRequested = Signal()
    restartRequested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Generate")
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its child widgets take the focus
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self._theme: Theme = LIGHT
        self._panel: ModelGenerationPanel | None = None
        self.message, self.problem, self.head, self.reads = (PlainTextLabel() for _ in range(4))
        self.generation, self.next, self.rows = (
            GenerationPane(),
            NextTokenChoicePane(),
            HeadWeightRowsView(),
        )
        self.steps, self.step = QSpinBox(), QSlider(Qt.Orientation.Horizontal)
        self.use, self.restart_button = QPushButton(USE_AS_TEXT_LABEL), QPushButton("Start over")
        self.message.setWordWrap(True)
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "warning")
        self.reads.setWordWrap(True)
        for label in (self.head, self.reads):
            label.setProperty("role", "quiet")
        self.generation.strip.setMinimumHeight(round(TEXT_HEIGHT_PX * text_scale()))
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
        self.use.clicked.connect(self.useRequested)
        self.restart_button.clicked.connect(self.restartRequested)

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
        step, tokens = PlainTextLabel("Step"), PlainTextLabel("Tokens")
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
        row.addWidget(self.restart_button)
        row.addStretch(1)
        return row

    def _with_margins(self, label: PlainTextLabel) -> QWidget:
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
        set_number(self.steps, panel.steps)
        self.use.setEnabled(panel.can_use_as_text)
        self.restart_button.setEnabled(panel.last_step > 0 and not panel.generation.is_running)
        self.rows.show_rows(panel.rows, theme)
        self.head.setText(panel.rows.title if panel.rows else "")
        self.reads.setText(panel.rows.last_token_sentence if panel.rows else "")

    def _set_label_text(self, label: PlainTextLabel, text: str) -> None:
        label.setText(text)
        place = label.parentWidget()
        if place is not None:
            place.setVisible(bool(text))
