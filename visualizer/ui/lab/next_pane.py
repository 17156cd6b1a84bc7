"""What comes next, with temperature, top-k and top-p."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QFormLayout, QVBoxLayout, QWidget

from visualizer.attention.errors import InputError
from visualizer.language.sampling import Sampling, check
from visualizer.state.setup import Kind, Setting
from visualizer.ui.controls import CONTROLS, Count
from visualizer.ui.lab.bars import NextBars
from visualizer.ui.labels import PlainLabel
from visualizer.ui.theme import metrics
from visualizer.ui.tooltips import plain_tooltip

if TYPE_CHECKING:
    from visualizer.state.lab.bars import Bars
    from visualizer.ui.theme import Theme

NOTE_LINES = 4
"""So many lines are kept free for what the bars mean, or what is wrong."""
HOT = 2.0
"""Where the slider of the temperature ends; more can be typed."""
SETTINGS = (
    Setting("temperature", "Temperature", Kind.RATE, True,
            "Below 1 the likeliest tokens become likelier; at 0 only the largest is left", top=HOT),
    Setting("top_k", "Top-k", Kind.COUNT, True, "How many tokens may be chosen", top=1),
    Setting("top_p", "Top-p", Kind.RATE, True,
            "Only as many tokens as reach this share of the probability", top=1.0),
)  # fmt: skip


class NextPane(QWidget):
    """The bars of the next token under the controls of what is drawn from.

    `tokenPicked` carries a token's number, `samplingChosen` a `Sampling`.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    tokenPicked = Signal(int)
    samplingChosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sampling, self._vocabulary = Sampling(), 0
        self.heading, self.legend, self.problem = PlainLabel(), PlainLabel(), PlainLabel()
        self.heading.setProperty("role", "pane")
        self.legend.setProperty("role", "quiet")
        self.problem.setProperty("role", "warning")
        self.problem.hide()
        self.bars = NextBars()
        self.bars.tokenPicked.connect(self.tokenPicked)
        self.controls = {setting.name: CONTROLS[setting.kind](setting) for setting in SETTINGS}
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 8)
        column.setSpacing(6)
        column.addWidget(self.heading)
        column.addWidget(self.bars)
        column.addLayout(self._form())
        column.addWidget(self._notes())
        column.addStretch(1)

    def _notes(self) -> QWidget:
        """Make the place of what comes and goes: it is as high without, so that nothing moves."""
        place = QWidget()
        column = QVBoxLayout(place)
        column.setContentsMargins(12, 0, 12, 0)
        for label in (self.problem, self.legend):
            label.setWordWrap(True)
            column.addWidget(label)
        column.addStretch(1)
        place.setMinimumHeight(round(NOTE_LINES * metrics(12).lineSpacing()))
        return place

    def _form(self) -> QFormLayout:
        form = QFormLayout()
        form.setContentsMargins(12, 0, 12, 0)
        for name, control in self.controls.items():
            label = PlainLabel(control.setting.label)
            label.setToolTip(plain_tooltip(control.setting.help))
            label.setBuddy(control)
            form.addRow(label, control)
            control.chosen.connect(partial(self.take, name))
        return form

    def show_bars(self, bars: Bars, theme: Theme) -> None:
        """Show what may come next, and what is drawn from."""
        self._sampling, self._vocabulary = bars.sampling, bars.vocabulary
        self.heading.setText(bars.heading)
        self.legend.setText(bars.legend)
        self.bars.show_bars(bars, theme)
        top_k = self.controls["top_k"]
        if isinstance(top_k, Count):
            top_k.slider.setRange(1, max(1, bars.vocabulary))
        if self.problem.isHidden():  # what is typed and not taken stays
            self._show_values()

    def forget(self) -> None:
        """Let go of what was typed and not taken."""
        self._show_problem("")

    def _show_problem(self, sentence: str) -> None:
        """Say what is wrong, in place of what the bars mean."""
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))
        self.legend.setVisible(not sentence)

    def _show_values(self) -> None:
        sampling = self._sampling
        shown = {
            "temperature": sampling.temperature,
            "top_k": self._vocabulary if sampling.top_k is None else sampling.top_k,
            "top_p": sampling.top_p,
        }
        for name, value in shown.items():
            self.controls[name].show_value(value)

    def take(self, name: str, value: float, _: bool = False) -> None:
        """Take what was typed or slid; what no token can be drawn by is said."""
        is_all = name == "top_k" and value >= self._vocabulary > 0
        changed: dict[str, Any] = {name: None if is_all else value}
        wanted = replace(self._sampling, **changed)
        try:
            check(wanted)
        except InputError as error:
            self._show_problem(error.sentence)
            return
        self._show_problem("")
        self.samplingChosen.emit(wanted)
