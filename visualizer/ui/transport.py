"""The bar of playback: what happens in this step, and where in time it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from visualizer.state.playback.timeline import SPEEDS, Grain
from visualizer.state.view import Question
from visualizer.ui.accessible import tell
from visualizer.ui.labels import PlainLabel
from visualizer.ui.manners import teach
from visualizer.ui.telling import TellingLabel
from visualizer.ui.theme import Theme, text_scale
from visualizer.ui.told import count_of, written
from visualizer.ui.tooltips import plain_tooltip
from visualizer.ui.track import Track

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from PySide6.QtGui import QAction

    from visualizer.state.playback.transport import Transport

BEFORE = ("player.to_start", "player.step -1", "player.toggle", "player.step 1", "player.to_end")
AFTER = ("player.toggle_loop", "player.predict")
GRAINS = {Grain.STAGE: "by stage", Grain.ROW: "by row", Grain.CELL: "by cell"}
QUESTIONS = {Question.LARGEST: "Which is largest?", Question.ZERO: "Which are zero?"}


class TransportBar(QWidget):
    """Says what is computed, and lets a viewer play, pause, step and seek."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    sought = Signal(object)
    stepped = Signal(int)
    skipped = Signal(int)
    grainChosen = Signal(object)
    speedChosen = Signal(float)
    questionChosen = Signal(object)

    def __init__(self, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transport")
        self.setAccessibleName("Playback")
        self._shown: tuple[Transport, Theme] | None = None
        self.caption = TellingLabel("What happens in this step")
        self.equation = TellingLabel("The calculation of this step")
        self.where = PlainLabel()
        self.track = Track()
        self.track.sought.connect(self.sought)
        self.track.stepped.connect(self.stepped)
        self.track.skipped.connect(self.skipped)
        self.grain = choice("Steps", GRAINS.items())
        self.speed = choice("Speed", [(speed, f"{speed:g}×") for speed in SPEEDS])
        self.question = choice("What to predict", QUESTIONS.items())
        self.grain.activated.connect(self._choose_grain)
        self.speed.activated.connect(self._choose_speed)
        self.question.activated.connect(self._choose_question)
        self.reveal = QToolButton()
        self.reveal.setDefaultAction(actions["player.reveal"])
        self.reveal.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 2, 12, 2)
        column.setSpacing(4)
        column.addLayout(self._telling())
        column.addLayout(self._controls(actions))

    def _telling(self) -> QHBoxLayout:
        """Make the place for the sentence and the calculation of a step."""
        words = QVBoxLayout()
        words.setSpacing(0)
        words.setContentsMargins(0, 4, 0, 2)
        for label in (self.caption, self.equation):
            words.addWidget(label)
        row = QHBoxLayout()
        row.addLayout(words, 1)
        row.addWidget(self.question, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.reveal, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _controls(self, actions: Mapping[str, QAction]) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(4)
        for key in BEFORE:
            row.addWidget(_button(actions[key]))
        row.addSpacing(8)
        row.addWidget(self.track, 1)
        row.addSpacing(8)
        self.where.setProperty("role", "quiet")
        for widget in (self.where, self.grain, self.speed):
            row.addWidget(widget)
        for key in AFTER:
            row.addWidget(_button(actions[key]))
        return row

    @property
    def readers(self) -> tuple[QWidget, ...]:
        """What may have the focus and does nothing with the keys of playback itself."""
        return self.track, self.caption, self.equation

    # ------------------------------------------------------------------ showing

    def show_transport(self, transport: Transport, theme: Theme) -> None:
        """Show where playback stands and what its step says."""
        if self._shown == (transport, theme):
            return
        self._shown = (transport, theme)
        self.track.show_transport(transport, theme)
        tell(self, "Playing" if transport.playhead.is_playing else "Paused")
        playhead = transport.playhead
        self.grain.setCurrentIndex(self.grain.findData(playhead.grain))
        self.speed.setCurrentIndex(self.speed.findData(playhead.speed))
        self.where.setText(count_of(transport))
        self.caption.tell(transport.caption)
        self.caption.setVisible(bool(transport.caption))
        self.equation.tell(written(transport.equation, theme))
        self.equation.setVisible(bool(transport.caption))  # so that nothing jumps where it is empty
        self.question.setVisible(transport.question is not None)
        self.reveal.setVisible(transport.question is not None and not transport.is_revealed)
        if transport.question:
            self.question.setCurrentIndex(self.question.findData(transport.question))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            for button in self.findChildren(QToolButton):
                button.setIconSize(_icon_size())

    # ------------------------------------------------------------------ the hand

    def _choose_grain(self, index: int) -> None:
        self.grainChosen.emit(Grain(self.grain.itemData(index)))

    def _choose_speed(self, index: int) -> None:
        self.speedChosen.emit(self.speed.itemData(index))

    def _choose_question(self, index: int) -> None:
        self.questionChosen.emit(Question(self.question.itemData(index)))


def _button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setAutoRaise(True)
    button.setIconSize(_icon_size())
    button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # every one has its key
    return button


def _icon_size() -> QSize:
    return QSize(20, 20) * text_scale()


def choice(name: str, choices: Iterable[tuple[object, str]]) -> QComboBox:
    """Make a list to choose from: values with their words."""
    box = QComboBox()
    for value, words in choices:
        box.addItem(words, value)
    box.setAccessibleName(name)
    box.setToolTip(plain_tooltip(name))
    box.setObjectName(name)
    teach(box)
    return box
