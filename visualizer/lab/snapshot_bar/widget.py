"""The snapshot bar, which selects a saved training step or plays all of them in sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import QSizePolicy, QSlider, QToolButton, QWidget

from visualizer.lab.snapshot_bar.paint import SnapshotAxis, axis_height
from visualizer.lab.snapshot_bar.presenter import SnapshotTimeline
from visualizer.lab.training.bar_widget import create_text_button
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import has_command_modifier
from visualizer.widgets.labels import ElidedLabel, plain_tooltip
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.setting_controls import create_combo_box
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import (
        QAction,
        QKeyEvent,
        QMouseEvent,
        QPaintEvent,
        QResizeEvent,
        QWheelEvent,
    )

MIN_TEXT_WIDTH_PX = 600
"""Minimum width of a bar with text, in pixels; in a narrower bar, the text is only a tooltip."""
DEFAULT_SLIDER_WIDTH_PX, MIN_SLIDER_WIDTH_PX = 400, 72
PLAYBACK_SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0)
FRAME_MS = 300
"""Duration of each step at normal speed, in milliseconds."""


class SnapshotBar(QWidget):
    """Shows the selected training step, and lets the user select another one.

    `stepSelectionChanged` carries a saved step, or None for the current model. During playback, the
    next step is selected once the previous one is shown.

    Parameters
    ----------
    compare_action : QAction, optional
        The action that compares other steps with the selected one.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    stepSelectionChanged = Signal(object)

    def __init__(self, compare_action: QAction | None = None) -> None:
        super().__init__()
        self.setObjectName("scrub")
        self.setAccessibleName("Training timeline")
        self._timeline, self._theme, self._widest_text = SnapshotTimeline(), LIGHT, 1
        self.timer = QTimer(self, interval=FRAME_MS)
        self.timer.timeout.connect(self._select_next_stop)
        self.track, self.description_label = SnapshotSlider(), ElidedLabel(lines=2)
        self.track.stopSelected.connect(self._seek)
        row = row_layout(self, (8, 4, 8, 4), spacing=2)
        self.previous_button = self._add_button("step-back", "Previous snapshot", self.step_back)
        self.play_button = self._add_button("play", "Play training", self.toggle_playback)
        self.next_button = self._add_button("step-on", "Next snapshot", self.step_forward)
        self.now_button = self._add_button("to-end", "Current model", self.go_to_current_model)
        self.speed = create_combo_box(
            "Speed", [(speed, f"{speed:g}×") for speed in PLAYBACK_SPEEDS]
        )
        self.speed.setCurrentIndex(PLAYBACK_SPEEDS.index(1.0))
        self.speed.currentIndexChanged.connect(self._set_speed)
        row.addWidget(self.speed)
        if compare_action:
            row.addWidget(create_text_button(compare_action, "Compare"))
        row.addSpacing(4)
        row.addWidget(self.track, 1)
        row.addSpacing(4)
        row.addWidget(self.description_label, 1)

    def _add_button(self, name: str, words: str, act: Callable[[], object]) -> QToolButton:
        button = QToolButton()
        button.setObjectName(name)
        button.setAutoRaise(True)
        button.setToolTip(plain_tooltip(words))
        button.setAccessibleName(words)
        button.setIconSize(QSize(20, 20) * text_scale())
        button.clicked.connect(act)
        layout = self.layout()
        assert layout is not None
        layout.addWidget(button)
        return button

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.description_label.setVisible(self.width() >= MIN_TEXT_WIDTH_PX * text_scale())

    # ------------------------------------------------------------------ content

    def show_timeline(self, timeline: SnapshotTimeline, theme: Theme) -> None:
        if timeline == self._timeline and theme is self._theme and self.description_label.text():
            return
        self._timeline, self._theme = timeline, theme
        self.track.show_timeline(timeline, theme)
        self.description_label.show_text(timeline.description)
        self.track.setToolTip(plain_tooltip(timeline.description))
        self._widest_text = max(self._widest_text, self.description_label.sizeHint().width())
        # The label keeps its largest width, so that the track does not move during playback.
        self.description_label.setMaximumWidth(self._widest_text)
        set_accessible_value(self, timeline.description)
        is_alone = len(timeline.stops) == 1
        for button, can in (
            (self.previous_button, timeline.index > 0),
            (self.play_button, not is_alone),
            (self.next_button, not timeline.is_current_model),
            (self.now_button, not timeline.is_current_model),
        ):
            button.setEnabled(can)
        if is_alone:
            self.pause()
        self._show_icons()

    def _show_icons(self) -> None:
        self.play_button.setToolTip("Pause" if self.is_playing else "Play training")
        self.play_button.setAccessibleName(self.play_button.toolTip())
        for button in (self.previous_button, self.play_button, self.next_button, self.now_button):
            is_pause = button is self.play_button and self.is_playing
            button.setIcon(icon("pause" if is_pause else button.objectName(), self._theme.ink))

    # ------------------------------------------------------------------ intents

    @property
    def is_playing(self) -> bool:
        return self.timer.isActive()

    def toggle_playback(self) -> None:
        """Pause, or play from the selected step; at the end, play from the first step."""
        if self.is_playing:
            self.pause()
        elif len(self._timeline.stops) > 1:
            self.timer.start()
            self._show_icons()
            is_at_end = self._timeline.is_current_model
            self._select_stop(0 if is_at_end else self._timeline.index_at_distance(1))

    def pause(self) -> None:
        """Pause playback at the selected step."""
        if self.is_playing:
            self.timer.stop()
            self._show_icons()

    def change_speed(self, by: int) -> None:
        """Increase or decrease the speed of playback by a number of levels, within the limits."""
        at = self.speed.currentIndex() + by
        self.speed.setCurrentIndex(min(max(at, 0), self.speed.count() - 1))

    def _set_speed(self, at: int) -> None:
        self.timer.setInterval(round(FRAME_MS / PLAYBACK_SPEEDS[at]))

    def step_back(self) -> None:
        self._seek(self._timeline.index_at_distance(-1))

    def step_forward(self) -> None:
        self._seek(self._timeline.index_at_distance(1))

    def go_to_current_model(self) -> None:
        self._seek(len(self._timeline.stops) - 1)

    def _seek(self, stop: int) -> None:
        self.pause()
        self._select_stop(stop)

    def _select_stop(self, stop: int) -> None:
        if stop != self._timeline.index:
            self.stepSelectionChanged.emit(self._timeline.stops[stop])

    def _select_next_stop(self) -> None:
        if self._timeline.is_waiting:
            return
        if self._timeline.is_current_model:
            self.pause()
        else:
            self._select_stop(self._timeline.index_at_distance(1))


STEP_KEYS = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Down: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Up: 1,
    Qt.Key.Key_PageDown: -5,
    Qt.Key.Key_PageUp: 5,
}


class SnapshotSlider(QSlider):
    """Custom-painted slider over the saved steps; a click anywhere on it selects a stop.

    `stopSelected` carries the index of the stop; the slider does not move by itself.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Slider
    stopSelected = Signal(int)

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Training timeline")
        self.setAccessibleDescription(
            "Press Left and Right to move between snapshots, and End for the current model."
        )
        self._timeline, self._theme = SnapshotTimeline(), LIGHT

    def sizeHint(self) -> QSize:
        return QSize(DEFAULT_SLIDER_WIDTH_PX, round(axis_height()))

    def minimumSizeHint(self) -> QSize:
        return QSize(MIN_SLIDER_WIDTH_PX, round(axis_height()))

    def show_timeline(self, timeline: SnapshotTimeline, theme: Theme) -> None:
        self._timeline, self._theme = timeline, theme
        self.setRange(0, max(1, len(timeline.stops) - 1))
        self.setValue(timeline.index)
        set_accessible_value(self, timeline.description)
        self.update()

    @property
    def axis(self) -> SnapshotAxis:
        return SnapshotAxis(self._timeline, self.width())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        self.axis.paint(painter, self._theme)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(self._theme.accent))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.end()

    # ------------------------------------------------------------------ mouse and keys

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(event.button() == Qt.MouseButton.LeftButton)
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self._emit_stop(self.axis.stop_at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._emit_stop(self._timeline.index_at_distance(-1 if event.angleDelta().y() > 0 else 1))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, last = Qt.Key(event.key()), len(self._timeline.stops) - 1
        ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: last}
        if has_command_modifier(event) or not (key in STEP_KEYS or key in ends):
            event.ignore()
        else:
            self._emit_stop(
                ends[key] if key in ends else self._timeline.index_at_distance(STEP_KEYS[key])
            )

    def _emit_stop(self, stop: int) -> None:
        if stop != self._timeline.index:
            self.stopSelected.emit(stop)
