"""A text that is being continued: by hand, by drawing, step by step and another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visualizer.ui.accessible import tell
from visualizer.ui.controls import show_number
from visualizer.ui.icons import icon
from visualizer.ui.lab.story_strip import StoryStrip
from visualizer.ui.labels import PlainLabel
from visualizer.ui.manners import teach
from visualizer.ui.steady import SteadyButton
from visualizer.ui.theme import text_scale
from visualizer.ui.tooltips import plain_tooltip

if TYPE_CHECKING:
    from PySide6.QtGui import QIcon

    from visualizer.state.lab.chips import StoryPanel
    from visualizer.ui.theme import Theme

LARGEST_SEED, NARROW_SEED = 2**31 - 1, 56
RUN, STOP = "Write on", "Stop"


class StoryPane(QWidget):
    """The text and what can be done with it.

    `nodeChosen` carries a node of the tree (`ROOT` for the prompt), `turned` by how many ways on,
    `runWanted` whether token after token is to be drawn.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    sampleWanted = Signal()
    runWanted = Signal(bool)
    steppedBack = Signal()
    steppedOn = Signal()
    turned = Signal(int)
    nodeChosen = Signal(int)
    seedChosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Continue the text")
        self._is_running = False
        self.strip, self.said, self.seed = StoryStrip(), PlainLabel(), QSpinBox()
        self.said.setProperty("role", "quiet")
        self.said.setWordWrap(True)
        self.sample, self.run = QPushButton("Draw a token"), SteadyButton(RUN, STOP)
        self.run.setToolTip("Draw token after token, until it is stopped")
        self.back, self.on = QToolButton(), QToolButton()
        self.turn = QPushButton("Other branch")
        self.turn.setToolTip("Go to another token that was tried in this place")
        self.seed.setRange(0, LARGEST_SEED)
        self.seed.setAccessibleName("Seed of what is drawn")
        teach(self.seed)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 4, 12, 8)
        column.setSpacing(6)
        column.addLayout(self._drawing())
        column.addWidget(self.strip, 1)
        column.addWidget(self.said)
        column.addLayout(self._moving())
        self._connect()
        self.setFocusProxy(self.strip)

    def _drawing(self) -> QHBoxLayout:
        """Make the line of what adds tokens."""
        row = QHBoxLayout()
        row.setSpacing(4)
        for widget in (self.sample, self.run):
            row.addWidget(widget)
        row.addStretch(1)
        return row

    def _moving(self) -> QHBoxLayout:
        """Make the line of what goes about among the tokens that were tried."""
        row = QHBoxLayout()
        row.setSpacing(4)
        for button, words in ((self.back, "Step back"), (self.on, "Step on")):
            button.setToolTip(plain_tooltip(words))
            button.setAccessibleName(words)
            button.setAutoRaise(True)
            button.setIconSize(QSize(20, 20) * text_scale())
        label = PlainLabel("Seed")
        label.setBuddy(self.seed)
        self.seed.setMinimumWidth(NARROW_SEED)
        for widget in (self.back, self.on, self.turn):
            row.addWidget(widget)
        row.addStretch(1)
        row.addWidget(label)
        row.addWidget(self.seed)
        return row

    def _connect(self) -> None:
        self.sample.clicked.connect(self.sampleWanted)
        self.run.clicked.connect(self._run)
        self.back.clicked.connect(self.steppedBack)
        self.on.clicked.connect(self.steppedOn)
        self.turn.clicked.connect(self._turn)
        self.seed.valueChanged.connect(self.seedChosen)
        for name in ("sampleWanted", "steppedBack", "steppedOn", "turned", "nodeChosen"):
            getattr(self.strip, name).connect(getattr(self, name))

    def show_story(self, panel: StoryPanel, theme: Theme) -> None:
        """Show a text and what can be done with it."""
        self._is_running = panel.is_running
        self.strip.show_story(panel, theme)
        self.said.setText(panel.said)
        tell(self, panel.said)
        self.run.setText(STOP if panel.is_running else RUN)
        for button, can in (
            (self.sample, panel.can_draw),
            (self.run, panel.can_run),
            (self.back, panel.can_step_back),
            (self.on, panel.can_step_on),
            (self.turn, panel.can_turn),
        ):
            button.setEnabled(can)
        show_number(self.seed, panel.seed)
        self.back.setIcon(_icon("step-back", theme))
        self.on.setIcon(_icon("step-on", theme))

    def _run(self) -> None:
        self.runWanted.emit(not self._is_running)

    def _turn(self) -> None:
        self.turned.emit(1)


def _icon(name: str, theme: Theme) -> QIcon:
    return icon(name, theme.ink)
