"""What to export, how, and how it will look: the choices on the left, the figure on the right."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from visualizer.state.formats import FORMATS, Kind
from visualizer.ui.figures.options import FigureOptions
from visualizer.ui.figures.preview import Preview, Previewer, PreviewPane
from visualizer.ui.focus import FocusRing
from visualizer.ui.theme import text_scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.state.figure import FigureLook, Shot
    from visualizer.state.wish import Unit, Wish
    from visualizer.ui.theme import Theme

USUAL = QSize(1040, 700)
OPTIONS_WIDTH = 340
OWN_CHOICES: dict[Kind, Callable[[], QWidget]] = {}
"""What makes the choices that only one kind of format has."""


class ExportDialog(QDialog):
    """Asks what to export; `wished` carries each choice, the others what is done with it."""

    wished = Signal(object)
    saveWanted = Signal(object)
    copyWanted = Signal(object)

    def __init__(
        self, shot: Shot, wish: Wish, theme: Theme, previewer: Previewer, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Export")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.shot, self.wish, self._theme, self._previewer = shot, wish, theme, previewer
        self.format, self.figure, self.pane = QComboBox(), FigureOptions(), PreviewPane()
        self.size_, self.problem, self.pages = QLabel(), QLabel(), QStackedWidget()
        self.buttons = QDialogButtonBox()
        self.copy = self.buttons.addButton("Cop&y", QDialogButtonBox.ButtonRole.ActionRole)
        self.save = self.buttons.addButton("&Save…", QDialogButtonBox.ButtonRole.AcceptRole)
        self.buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        self._can_write, self._is_refused = True, False
        self._build()
        self._connect()
        self.resize((USUAL * text_scale()).boundedTo(parent.size()))
        self.ring = FocusRing(self)
        self.ring.show_theme(theme)
        self._show()

    # ------------------------------------------------------------------ building

    def _build(self) -> None:
        for _, formats in groupby(FORMATS, key=lambda one: one.kind):
            if self.format.count():
                self.format.insertSeparator(self.format.count())
            for each in formats:
                self.format.addItem(f"{each.words} ({each.suffix})", each.suffix)
        self.format.setAccessibleName("Format")
        first = QFormLayout()
        label = QLabel("&Format")
        label.setBuddy(self.format)
        first.addRow(label, self.format)
        for said in (self.size_, self.problem):
            said.setTextFormat(Qt.TextFormat.PlainText)
            said.setWordWrap(True)
        self.size_.setProperty("role", "quiet")
        self.problem.setProperty("role", "warning")
        options = QVBoxLayout()
        options.addLayout(first)
        options.addWidget(self._scrolled(self._choices()), 1)
        right = QVBoxLayout()
        for widget, stretch in ((self.pane, 1), (self.size_, 0), (self.problem, 0)):
            right.addWidget(widget, stretch)
        both = QHBoxLayout()
        both.setSpacing(16)
        both.addLayout(options)
        both.addLayout(right, 1)
        column = QVBoxLayout(self)
        column.addLayout(both, 1)
        column.addWidget(self.buttons)
        self.save.setDefault(True)

    def _choices(self) -> QWidget:
        """Stack up the choices: those of a figure, and under them those that a kind has alone."""
        both = QWidget()
        column = QVBoxLayout(both)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.figure)
        column.addWidget(self.pages)
        column.addStretch(1)
        for kind in Kind:
            self.pages.addWidget(OWN_CHOICES[kind]() if kind in OWN_CHOICES else QWidget())
        return both

    def _scrolled(self, widget: QWidget) -> QScrollArea:
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFixedWidth(round(OPTIONS_WIDTH * text_scale()))
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(widget)
        return area

    def _connect(self) -> None:
        self.format.activated.connect(self._choose_format)
        self.figure.chosen.connect(self._choose_look)
        self.figure.unitChosen.connect(self._choose_unit)
        self.figure.judged.connect(self._allow)
        self.pane.resized.connect(self._ask)
        self._previewer.made.connect(self.show_preview)
        self._previewer.refused.connect(self.refuse)
        self.buttons.accepted.connect(self._save)
        self.buttons.rejected.connect(self.reject)
        self.copy.clicked.connect(self._copy)

    # ------------------------------------------------------------------ showing

    def _show(self) -> None:
        self.format.setCurrentIndex(self.format.findData(self.wish.suffix))
        kind = self.wish.format.kind
        self.pages.setCurrentIndex([*Kind].index(kind))
        self.pages.setVisible(kind in OWN_CHOICES)
        self.figure.setVisible(kind.is_drawn)
        self.figure.show_wish(self.wish)
        self._ask()
        self._allow()

    def _ask(self) -> None:
        """Have a preview made; the last one stays until it is there."""
        self._previewer.ask(self.pane.maker(self.shot, self.wish))

    def show_preview(self, made: Preview) -> None:
        """Show what will be in the file."""
        self.pane.show_preview(made, self._theme)
        self.size_.setText(made.said)
        self._say("")

    def refuse(self, sentence: str) -> None:
        """Say why there can be no such file."""
        self._say(sentence)

    def _say(self, problem: str) -> None:
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self._is_refused = bool(problem)
        self._allow()

    def allow_writing(self, can_write: bool) -> None:
        """Let it be saved or copied, unless something is being written."""
        self._can_write = can_write
        self._allow()

    def _allow(self) -> None:
        kind = self.wish.format.kind
        is_wrong = self.figure.is_wrong and kind.is_drawn
        is_right = not is_wrong and not self._is_refused
        self.save.setEnabled(self._can_write and is_right)
        self.copy.setEnabled(self._can_write and is_right and kind is Kind.FIGURE)

    # ------------------------------------------------------------------ choosing

    def _change(self, wish: Wish) -> None:
        if wish != self.wish:
            self.wish = wish
            self.wished.emit(wish)
            self._show()

    def _choose_format(self) -> None:
        self._change(replace(self.wish, suffix=self.format.currentData()))

    def _choose_look(self, look: FigureLook) -> None:
        self._change(replace(self.wish, look=look))

    def _choose_unit(self, unit: Unit) -> None:
        self._change(replace(self.wish, unit=unit))

    def _save(self) -> None:
        self.saveWanted.emit(self.wish)

    def _copy(self) -> None:
        self.copyWanted.emit(self.wish)
