"""The bar of training time: look back at what was kept, step by step or as a film."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, QTimer, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from visualizer.state.lab.scrub import Scrub
from visualizer.ui.accessible import tell
from visualizer.ui.icons import icon
from visualizer.ui.lab.time_track import TimeTrack
from visualizer.ui.labels import PlainLabel
from visualizer.ui.theme import LIGHT, Theme, text_scale
from visualizer.ui.tooltips import plain_tooltip
from visualizer.ui.transport import choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QResizeEvent

SAYING = 600
"""Pixels: a narrower bar has no room for words; they are its track's tip still."""
SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0)
FRAME_MS = 300
"""How long each moment is seen while it plays at the usual speed."""


class ScrubBar(QWidget):
    """Says which moment of training is looked at, and lets one go to another.

    `stepLooked` carries a kept step, or None for now. While it plays, it goes on to the next moment
    when the one before is seen.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    stepLooked = Signal(object)
    playingChanged = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("scrub")
        self.setAccessibleName("Training time")
        self._scrub, self._theme, self._widest = Scrub(), LIGHT, 1
        self._timer = QTimer(self, interval=FRAME_MS)
        self._timer.timeout.connect(self._go_on)
        self.track, self.said = TimeTrack(), PlainLabel()
        self.said.setProperty("role", "quiet")
        self.said.setWordWrap(True)
        self.said.setMinimumWidth(1)  # it is cut off rather than the window widened
        self.said.setMaximumHeight(2 * self.said.fontMetrics().lineSpacing())
        self.track.sought.connect(self._seek)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 4, 8, 4)
        row.setSpacing(2)
        self.back = self._button("step-back", "The kept moment before", self.step_back)
        self.play = self._button("play", "Play the training", self.toggle)
        self.on = self._button("step-on", "The next kept moment", self.step_on)
        self.to_now = self._button("to-end", "Now", self.go_to_now)
        self.speed = choice("Speed", [(speed, f"{speed:g}×") for speed in SPEEDS])
        self.speed.setCurrentIndex(SPEEDS.index(1.0))
        self.speed.currentIndexChanged.connect(self._take_speed)
        row.addWidget(self.speed)
        row.addSpacing(4)
        row.addWidget(self.track, 1)
        row.addSpacing(4)
        row.addWidget(self.said, 1)

    def _button(self, name: str, words: str, act: Callable[[], object]) -> QToolButton:
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
        self.said.setVisible(self.width() >= SAYING * text_scale())

    # ------------------------------------------------------------------ what is shown

    def show_scrub(self, scrub: Scrub, theme: Theme) -> None:
        """Show which moment is looked at."""
        if scrub == self._scrub and theme is self._theme and self.said.text():
            return
        self._scrub, self._theme = scrub, theme
        self.track.show_scrub(scrub, theme)
        self.said.setText(scrub.said)
        for part in (self.said, self.track):
            part.setToolTip(plain_tooltip(scrub.said))
        self._widest = max(self._widest, self.said.fontMetrics().horizontalAdvance(scrub.said) + 4)
        self.said.setMaximumWidth(self._widest)  # else the track would move while it plays
        tell(self, scrub.said)
        is_alone = len(scrub.stops) == 1
        for button, can in (
            (self.back, scrub.at > 0),
            (self.play, not is_alone),
            (self.on, not scrub.is_last),
            (self.to_now, not scrub.is_last),
        ):
            button.setEnabled(can)
        if is_alone:
            self.pause()
        self._show_icons()

    def _show_icons(self) -> None:
        self.play.setToolTip("Pause" if self.is_playing else "Play the training")
        self.play.setAccessibleName(self.play.toolTip())
        for button in (self.back, self.play, self.on, self.to_now):
            name = "pause" if button is self.play and self.is_playing else button.objectName()
            button.setIcon(icon(name, self._theme.ink))

    # ------------------------------------------------------------------ the hand

    @property
    def is_playing(self) -> bool:
        """Whether it goes on by itself."""
        return self._timer.isActive()

    def toggle(self) -> None:
        """Play from here, or from the beginning if one looks at what is now; or pause."""
        if self.is_playing:
            self.pause()
        elif len(self._scrub.stops) > 1:
            self._timer.start()
            self._tell_playing()
            self._look(0 if self._scrub.is_last else self._scrub.beside(1))

    def pause(self) -> None:
        """Stay at this moment."""
        if self.is_playing:
            self._timer.stop()
            self._tell_playing()

    def change_speed(self, by: int) -> None:
        """Play faster or slower, as far as there is a speed."""
        at = self.speed.currentIndex() + by
        self.speed.setCurrentIndex(min(max(at, 0), self.speed.count() - 1))

    def _take_speed(self, at: int) -> None:
        self._timer.setInterval(round(FRAME_MS / SPEEDS[at]))

    def step_back(self) -> None:
        """Look at the kept moment before."""
        self._seek(self._scrub.beside(-1))

    def step_on(self) -> None:
        """Look at the next kept moment."""
        self._seek(self._scrub.beside(1))

    def go_to_now(self) -> None:
        """Look at what is now."""
        self._seek(len(self._scrub.stops) - 1)

    def _seek(self, stop: int) -> None:
        self.pause()
        self._look(stop)

    def _look(self, stop: int) -> None:
        if stop != self._scrub.at:
            self.stepLooked.emit(self._scrub.stops[stop])

    def _go_on(self) -> None:
        if self._scrub.is_waiting:
            return
        if self._scrub.is_last:
            self.pause()
        else:
            self._look(self._scrub.beside(1))

    def _tell_playing(self) -> None:
        self._show_icons()
        self.playingChanged.emit(self.is_playing)
