"""The playback bar: caption and equation of the step, transport buttons, timeline slider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QPainter
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from visualizer.features.playback.presenter import (
    PLAYBACK_PANEL,
    PlaybackBarState,
    equation_to_html,
    format_step_count,
)
from visualizer.features.playback.timeline_paint import TimelineSegments, paint_track, track_height
from visualizer.session.timeline import PLAYBACK_SPEEDS, TOUR_MS, StepSize
from visualizer.session.user_prediction import PredictionQuestion
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import WheelNotches, has_command_modifier
from visualizer.widgets.labels import AutoFitLabel, PlainLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.setting_controls import combo_box
from visualizer.widgets.track_slider import TrackSlider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QAction, QKeyEvent, QPaintEvent, QWheelEvent

    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

LEFT_COMMANDS = (
    "playback.go_to_start",
    "playback.step -1",
    "playback.toggle",
    "playback.step 1",
    "playback.go_to_end",
)
RIGHT_COMMANDS = ("playback.toggle_loop", "playback.predict")
GRAIN_LABELS = {
    StepSize.TOUR: f"Tour, {TOUR_MS / 1000:g} s",
    StepSize.STAGE: "By stage",
    StepSize.ROW: "By row",
    StepSize.CELL: "By cell",
}
QUESTION_LABELS = {
    PredictionQuestion.LARGEST: "Which is largest?",
    PredictionQuestion.ZERO: "Which are zero?",
}


class PlaybackBar(QWidget):
    """Caption and equation of the step, with controls to play, pause, step and seek."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    sought = Signal(object)
    stepped = Signal(int)
    skipped = Signal(int)
    grainChosen = Signal(object)
    speedChosen = Signal(float)
    questionChosen = Signal(object)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self.setObjectName("transport")
        self.setAccessibleName("Playback")
        self.shown: tuple[PlaybackBarState, Theme] | None = None
        self.caption = AutoFitLabel("Step description")
        self.equation = AutoFitLabel("Step equation")
        self.where = PlainLabel()
        self.track = TimelineSlider()
        self.track.sought.connect(self.sought)
        self.track.stepped.connect(self.stepped)
        self.track.skipped.connect(self.skipped)
        self.grain = combo_box("Steps", GRAIN_LABELS.items())
        self.speed = combo_box("Speed", [(speed, f"{speed:g}×") for speed in PLAYBACK_SPEEDS])
        self.question = combo_box("Prediction question", QUESTION_LABELS.items())
        self.grain.activated.connect(self._choose_grain)
        self.speed.activated.connect(self._choose_speed)
        self.question.activated.connect(self._choose_question)
        self.reveal = QToolButton()
        self.reveal.setDefaultAction(actions["playback.reveal"])
        self.reveal.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        column = column_layout(self, (12, 2, 12, 2), spacing=4)
        column.addLayout(self._build_caption_row())
        column.addLayout(self._build_control_row(actions))

    def _build_caption_row(self) -> QHBoxLayout:
        """Build the row with the caption and the equation."""
        words = column_layout(margins=(0, 4, 0, 2), spacing=0)
        for label in (self.caption, self.equation):
            words.addWidget(label)
        row = QHBoxLayout()
        row.addLayout(words, 1)
        row.addWidget(self.question, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.reveal, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _build_control_row(self, actions: Mapping[str, QAction]) -> QHBoxLayout:
        row = row_layout(spacing=4)
        for key in LEFT_COMMANDS:
            row.addWidget(_create_button(actions[key]))
        row.addSpacing(8)
        row.addWidget(self.track, 1)
        row.addSpacing(8)
        self.where.setProperty("role", "quiet")
        for widget in (self.where, self.grain, self.speed):
            row.addWidget(widget)
        for key in RIGHT_COMMANDS:
            row.addWidget(_create_button(actions[key]))
        return row

    @property
    def readers(self) -> tuple[QWidget, ...]:
        """Focusable widgets that leave the playback keys to the window."""
        return self.track, self.caption, self.equation

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        wanted = screen.wanted
        self.grain.setCurrentIndex(self.grain.findData(wanted.playhead.grain))
        self.speed.setCurrentIndex(self.speed.findData(wanted.playhead.speed))
        if wanted.guess:
            self.question.setCurrentIndex(self.question.findData(wanted.guess.question))
        self._show_playback(screen.panel(PLAYBACK_PANEL), theme)

    def _show_playback(self, bar: PlaybackBarState, theme: Theme) -> None:
        if self.shown == (bar, theme):
            return
        bar = replace(bar, made_of=None)  # it would keep the run alive until the bar changes
        self.shown = (bar, theme)
        self.track.show_playback(bar, theme)
        set_accessible_value(self, "Playing" if bar.playhead.is_playing else "Paused")
        self.where.setText(format_step_count(bar))
        self.caption.show_html(bar.caption)
        self.caption.setVisible(bool(bar.caption))
        self.equation.show_html(equation_to_html(bar.equation, theme))
        # Shown even if empty, so that the layout does not jump.
        self.equation.setVisible(bool(bar.caption))
        self.question.setVisible(bar.question is not None)
        self.reveal.setVisible(bar.question is not None and not bar.is_revealed)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            for button in self.findChildren(QToolButton):
                button.setIconSize(_icon_size())

    # ------------------------------------------------------------------ user input

    def _choose_grain(self, index: int) -> None:
        self.grainChosen.emit(StepSize(self.grain.itemData(index)))

    def _choose_speed(self, index: int) -> None:
        self.speedChosen.emit(self.speed.itemData(index))

    def _choose_question(self, index: int) -> None:
        self.questionChosen.emit(PredictionQuestion(self.question.itemData(index)))


def _create_button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setAutoRaise(True)
    button.setIconSize(_icon_size())
    button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # each has a shortcut
    return button


def _icon_size() -> QSize:
    return QSize(20, 20) * text_scale()


MAX_STEP = 2**31 - 1

# Number of steps or stages to move by, per key.
STEP_KEYS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
STAGE_KEYS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}


class TimelineSlider(TrackSlider):
    """Timeline with one segment per stage; click or drag to seek."""

    ACCESSIBLE_ROLE = QAccessible.Role.Slider
    sought = Signal(object)
    stepped = Signal(int)
    skipped = Signal(int)

    def __init__(self) -> None:
        keys = "Left and Right move by one step, Up and Down by one stage."
        super().__init__("Step", keys, 120)
        self.setProperty(OWN_FOCUS_PROPERTY, True)
        self.bar_state, self._wheel = PlaybackBarState(), WheelNotches()

    @property
    def preferred_height(self) -> float:
        return track_height()

    def show_playback(self, bar: PlaybackBarState, theme: Theme) -> None:
        if bar is self.bar_state and theme is self._theme:
            return
        self.bar_state, self._theme = bar, theme
        largest = min(max(1, bar.count), MAX_STEP)
        self.setRange(0, largest)
        self.setValue(bar.position * largest // max(1, bar.count))
        set_accessible_value(self, bar.where or "All steps computed")
        self.update()

    @property
    def segments(self) -> TimelineSegments:
        return TimelineSegments(self.bar_state, self.width())

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.bar_state.stops:
            return
        painter = QPainter(self)
        paint_track(painter, self.segments, self._theme)
        self.paint_focus(painter)
        painter.end()

    # ------------------------------------------------------------------ user input

    def point_at(self, x: float) -> None:
        position = self.segments.position_at(x)
        if position != self.bar_state.position:
            self.sought.emit(position)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if notches := self._wheel.count(event.angleDelta().y()):  # zero for horizontal scrolling
            self.stepped.emit(-notches)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if has_command_modifier(event):
            event.ignore()
        elif key in STEP_KEYS:
            self.stepped.emit(STEP_KEYS[key])
        elif key in STAGE_KEYS:
            self.skipped.emit(STAGE_KEYS[key])
        else:
            event.ignore()
