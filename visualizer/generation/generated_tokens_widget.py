"""The generation pane: controls, and token chips coloured by probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSpinBox, QToolButton, QWidget

from visualizer.format import format_percentage
from visualizer.generation.generated_tokens_presenter import GeneratedTokenChip, GenerationPanel
from visualizer.heatmap import colour_mapping
from visualizer.session.view_options import DEFAULT_MAP
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.buttons import FixedWidthButton
from visualizer.widgets.chip_area import (
    CHIP_GAP_PX,
    CORNER_RADIUS_PX,
    NUMBER_SIZE_PX,
    ChipScrollArea,
    chip_height,
    draw_chip_text,
)
from visualizer.widgets.fonts import font_metrics, text_scale
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import has_command_modifier, install_input_filters
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.setting_controls import set_number

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent

    from visualizer.widgets.theme import Theme

MAX_SEED, MIN_SEED_WIDTH_PX = 2**31 - 1, 56
RUN, STOP = "Generate", "Stop"


class GenerationPane(QWidget):
    """The generated text and its controls.

    `nodeChosen` emits the index of a node (`ROOT_NODE` for the prompt), `branchSwitched` the number
    of siblings to move by, and `runToggled` emits True to start sampling continuously and False to
    stop.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    sampleRequested = Signal()
    runToggled = Signal(bool)
    steppedBackward = Signal()
    steppedForward = Signal()
    branchSwitched = Signal(int)
    nodeChosen = Signal(int)
    seedChosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Generate text")
        self._is_running = False
        self.strip, self.status_label, self.seed_box = (
            GeneratedTokenStrip(),
            PlainTextLabel(),
            QSpinBox(),
        )
        self.status_label.setProperty("role", "quiet")
        self.status_label.setWordWrap(True)
        self.sample_button, self.run_button = (
            QPushButton("Sample a token"),
            FixedWidthButton(RUN, STOP),
        )
        self.run_button.setToolTip("Sample one token after another until you press Stop")
        self.back_button, self.forward_button = QToolButton(), QToolButton()
        self.next_branch_button = QPushButton("Next branch")
        self.next_branch_button.setToolTip(
            "Switch to another token that was generated at this position"
        )
        self.seed_box.setRange(0, MAX_SEED)
        self.seed_box.setAccessibleName("Sampling seed")
        install_input_filters(self.seed_box)
        column = column_layout(self, (12, 4, 12, 8), spacing=6)
        column.addLayout(self._build_sampling_row())
        column.addWidget(self.strip, 1)
        column.addWidget(self.status_label)
        column.addLayout(self._build_navigation_row())
        self._connect_signals()
        self.setFocusProxy(self.strip)

    def _build_sampling_row(self) -> QHBoxLayout:
        row = row_layout(spacing=4)
        for widget in (self.sample_button, self.run_button):
            row.addWidget(widget)
        row.addStretch(1)
        return row

    def _build_navigation_row(self) -> QHBoxLayout:
        row = row_layout(spacing=4)
        for button, words in (
            (self.back_button, "Step back"),
            (self.forward_button, "Step forward"),
        ):
            button.setToolTip(plain_tooltip(words))
            button.setAccessibleName(words)
            button.setAutoRaise(True)
            button.setIconSize(QSize(20, 20) * text_scale())
        label = PlainTextLabel("Seed")
        label.setBuddy(self.seed_box)
        self.seed_box.setMinimumWidth(MIN_SEED_WIDTH_PX)
        for widget in (self.back_button, self.forward_button, self.next_branch_button):
            row.addWidget(widget)
        row.addStretch(1)
        row.addWidget(label)
        row.addWidget(self.seed_box)
        return row

    def _connect_signals(self) -> None:
        self.sample_button.clicked.connect(self.sampleRequested)
        self.run_button.clicked.connect(self._toggle_generation)
        self.back_button.clicked.connect(self.steppedBackward)
        self.forward_button.clicked.connect(self.steppedForward)
        self.next_branch_button.clicked.connect(self._go_to_next_branch)
        self.seed_box.valueChanged.connect(self.seedChosen)
        self.strip.sampleRequested.connect(self.sampleRequested)
        self.strip.steppedBackward.connect(self.steppedBackward)
        self.strip.steppedForward.connect(self.steppedForward)
        self.strip.branchSwitched.connect(self.branchSwitched)
        self.strip.nodeChosen.connect(self.nodeChosen)

    def show_generation(self, panel: GenerationPanel, theme: Theme) -> None:
        self._is_running = panel.is_running
        self.strip.show_generation(panel, theme)
        self.status_label.setText(panel.status)
        set_accessible_value(self, panel.status)
        self.run_button.setText(STOP if panel.is_running else RUN)
        for button, can in (
            (self.sample_button, panel.can_sample),
            (self.run_button, panel.can_run),
            (self.back_button, panel.can_step_back),
            (self.forward_button, panel.can_step_forward),
            (self.next_branch_button, panel.can_switch_branch),
        ):
            button.setEnabled(can)
        set_number(self.seed_box, panel.seed)
        self.back_button.setIcon(icon("step-back", theme.ink))
        self.forward_button.setIcon(icon("step-on", theme.ink))

    def _toggle_generation(self) -> None:
        self.runToggled.emit(not self._is_running)

    def _go_to_next_branch(self) -> None:
        self.branchSwitched.emit(1)


MAX_SPOKEN_TOKENS = 100
"""Maximum number of tokens, counted from the end, that screen readers announce."""


class GeneratedTokenStrip(ChipScrollArea):
    """Token chips that wrap over several lines; the current one is outlined.

    `nodeChosen` emits the node index of a chip, and `branchSwitched` the number of siblings to move
    by.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.List
    nodeChosen = Signal(int)
    steppedBackward = Signal()
    steppedForward = Signal()
    branchSwitched = Signal(int)
    sampleRequested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Generated text")
        self.setAccessibleDescription(
            "Press Left and Right to step back and forward, Up and Down to switch branches, "
            "and Enter to sample a token."
        )
        self.panel = GenerationPanel()

    def sizeHint(self) -> QSize:
        return QSize(300, round(3 * self._row_height))

    def minimumSizeHint(self) -> QSize:
        return QSize(120, round(2 * self._row_height))

    # ------------------------------------------------------------------ content

    def show_generation(self, panel: GenerationPanel, theme: Theme) -> None:
        is_other = panel.chips != self.panel.chips
        if not is_other and theme is self._theme:
            return
        self.panel, self._theme = panel, theme
        if is_other:
            self._arrange_chips()
            self._scroll_to_current()
        text = "".join(
            chip.label for chip in panel.chips[-MAX_SPOKEN_TOKENS:] if not chip.is_following
        )
        here = next((chip.description for chip in panel.chips if chip.is_current_token), "")
        set_accessible_value(self, ". ".join(filter(None, (text, here))))
        self.viewport().update()

    def tooltip_text(self, chip: int) -> str:
        return self.panel.chips[chip].description

    @property
    def _row_height(self) -> float:
        return chip_height(True) + CHIP_GAP_PX * text_scale()

    def _arrange_chips(self) -> None:
        room = self.maximumViewportSize().width() - self.verticalScrollBar().sizeHint().width()
        self._lay_out_chips(map(_chip_width, self.panel.chips), chip_height(True), room)
        bottom = self.chips[-1].bottom() if self.chips else 0.0
        bar, view = self.verticalScrollBar(), self.viewport().height()
        bar.setRange(0, max(0, round(bottom + CHIP_GAP_PX * text_scale()) - view))
        bar.setSingleStep(round(self._row_height))
        bar.setPageStep(view)

    def _scroll_to_current(self) -> None:
        here = next((at for at, chip in enumerate(self.panel.chips) if chip.is_current_token), None)
        if here is not None:
            box, bar = self.chips[here], self.verticalScrollBar()
            low = box.bottom() + CHIP_GAP_PX - self.viewport().height()
            bar.setValue(round(min(max(bar.value(), low), box.top())))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange_chips()
        self._scroll_to_current()

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        seen = QRectF(event.rect())
        for at, chip in enumerate(self.panel.chips):
            if self.chip_rect(at).intersects(seen):
                self._paint_chip(painter, self.chip_rect(at), chip)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(self._theme.accent), 1))
            painter.drawRect(self.viewport().rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _paint_chip(self, painter: QPainter, box: QRectF, chip: GeneratedTokenChip) -> None:
        theme = self._theme
        fill, ink = _chip_colours(chip, theme)
        inner = box.adjusted(0.75, 0.75, -0.75, -0.75)
        painter.setPen(QPen(QColor(theme.hairline), 1))
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(inner, CORNER_RADIUS_PX, CORNER_RADIUS_PX)
        if chip.is_current_token:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            for colour, width in ((theme.paper, 4.5), (theme.accent, 2.5)):
                painter.setPen(QPen(QColor(colour), width))
                painter.drawRoundedRect(inner, CORNER_RADIUS_PX, CORNER_RADIUS_PX)
        painter.setPen(QColor(ink))
        weight = QFont.Weight.DemiBold if chip.is_current_token else QFont.Weight.Normal
        draw_chip_text(painter, box, chip.label, _chip_caption(chip), weight)

    # ------------------------------------------------------------------ mouse and keyboard

    def mousePressEvent(self, event: QMouseEvent) -> None:
        chip = self._chip_at(event.position())
        if chip is not None and event.button() == Qt.MouseButton.LeftButton:
            self.nodeChosen.emit(self.panel.chips[chip].node)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if has_command_modifier(event):
            super().keyPressEvent(event)
        elif key in {Qt.Key.Key_Left, Qt.Key.Key_Backspace}:
            self.steppedBackward.emit()
        elif key == Qt.Key.Key_Right:
            self.steppedForward.emit()
        elif key in {Qt.Key.Key_Up, Qt.Key.Key_Down}:
            self.branchSwitched.emit(1 if key == Qt.Key.Key_Down else -1)
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space}:
            self.sampleRequested.emit()
        else:
            super().keyPressEvent(event)


def _chip_caption(chip: GeneratedTokenChip) -> str:
    parts = [] if chip.probability is None else [format_percentage(chip.probability)]
    if chip.branch:
        parts.append(f"{chip.branch[0]}/{chip.branch[1]}")
    return " · ".join(parts)


def _chip_width(chip: GeneratedTokenChip) -> float:
    label = font_metrics(12).horizontalAdvance(chip.label)
    return (
        max(label, font_metrics(NUMBER_SIZE_PX).horizontalAdvance(_chip_caption(chip)))
        + 10 * text_scale()
    )


def _chip_colours(chip: GeneratedTokenChip, theme: Theme) -> tuple[str, str]:
    """Return the fill colour for a chip's probability, and a legible text colour."""
    if chip.is_following:
        return theme.paper, theme.quiet
    if chip.probability is None:
        return theme.raised, theme.ink
    entry = round(min(max(chip.probability, 0.0), 1.0) * colour_mapping.MAX_COLOUR_INDEX)
    fill = QColor(int(colour_mapping.colour_table(DEFAULT_MAP, theme)[entry])).name()
    return fill, "#000000" if colour_mapping.dark_text_mask(DEFAULT_MAP, theme)[
        entry
    ] else "#FFFFFF"
