"""The Setup pane: the sentence and the settings, built from the table of settings."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visualizer.language.tokenizers import Tokenizer
from visualizer.state.document import Lines
from visualizer.state.saved.texts import LONGEST_TEXT
from visualizer.state.setup import SETTINGS, SETUP, Setting, Setup
from visualizer.ui.captured import CapturedCard
from visualizer.ui.controls import Control
from visualizer.ui.icons import icon
from visualizer.ui.labels import PlainLabel
from visualizer.ui.sentence import LABELS, TEXT, SentenceBox
from visualizer.ui.setting_row import Row
from visualizer.ui.setup_controls import SETUP_CONTROLS
from visualizer.ui.theme import LIGHT
from visualizer.ui.tooltips import plain_tooltip

if TYPE_CHECKING:
    from visualizer.state.resolve import Resolved
    from visualizer.state.screen import Screen
    from visualizer.ui.theme import Theme

# Qt gives an item's value back as a plain string.
KINDS = {"tokenizer": Tokenizer, "lines": Lines}


class Editor(QScrollArea):
    """All settings; the common ones on top, the rest one click away."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    textTyped = Signal(str)
    textTooLong = Signal(int)
    chosen = Signal(str, object, bool)
    settled = Signal()
    remedied = Signal(str)
    textStepped = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Setup")
        self._theme: Theme | None = None
        self._setup: Setup | None = None
        self.rows = {setting.name: self._row(setting) for setting in SETTINGS}
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(16, 8, 16, 16)
        column.setSpacing(10)
        self._add_sentence(column)
        self.captured = CapturedCard()
        column.addWidget(self.captured)
        for setting in SETTINGS:
            if setting.common:
                column.addWidget(self.rows[setting.name])
        self._add_more(column)
        column.addStretch(1)
        self.setWidget(inner)
        # Else a narrow window would cut the controls off: there is no bar to scroll sideways.
        bar = self.verticalScrollBar().sizeHint().width()
        self.setMinimumWidth(inner.minimumSizeHint().width() + bar)

    def _add_sentence(self, column: QVBoxLayout) -> None:
        self.sentence = SentenceBox()
        self.sentence.setFixedHeight(self.sentence.fontMetrics().lineSpacing() * 4 + 12)
        self.sentence.textChanged.connect(self._type)
        self.sentence.tooLong.connect(self.textTooLong)
        self.problem = PlainLabel()
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "warning")
        self.problem.hide()
        self.tokenizer = self._choice(
            "tokenizer",
            "What counts as a token",
            ((Tokenizer.WORDS, "Words"), (Tokenizer.CHARACTERS, "Characters")),
        )
        self.lines = self._choice(
            "lines",
            "Whether lines are one text or a batch of texts",
            ((Lines.TOGETHER, "One text"), (Lines.APART, "One text per line")),
        )
        choices = QHBoxLayout()
        choices.setSpacing(8)
        choices.addWidget(self.tokenizer)
        choices.addWidget(self.lines)
        for widget in (self.sentence, self.problem):
            column.addWidget(widget)
        column.addLayout(choices)
        column.addWidget(self._text_chooser())
        self._sections = QVBoxLayout()
        column.addLayout(self._sections)

    def _text_chooser(self) -> QWidget:
        self.texts = QWidget()
        row = QHBoxLayout(self.texts)
        row.setContentsMargins(0, 0, 0, 0)
        self.text_number = PlainLabel()
        self.text_steps = {-1: QToolButton(), 1: QToolButton()}
        for step, button in self.text_steps.items():
            button.setAutoRaise(True)
            button.setArrowType(Qt.ArrowType.LeftArrow if step < 0 else Qt.ArrowType.RightArrow)
            button.setProperty("step", step)
            button.clicked.connect(self._step)
        row.addWidget(self.text_steps[-1])
        row.addWidget(self.text_number)
        row.addWidget(self.text_steps[1])
        row.addStretch(1)
        return self.texts

    def _choice(self, name: str, help_: str, choices: tuple[tuple[object, str], ...]) -> QComboBox:
        box = QComboBox()
        for value, words in choices:
            box.addItem(words, value)
        box.setToolTip(plain_tooltip(help_))
        box.setAccessibleName(help_)
        box.setObjectName(name)
        box.setProperty("setting", name)
        box.activated.connect(self._choose)
        return box

    def _add_more(self, column: QVBoxLayout) -> None:
        self.more_button = QToolButton()
        self.more_button.setText("More settings")
        self.more_button.setObjectName("more")
        self.more_button.setCheckable(True)
        self.more_button.setAutoRaise(True)
        self.more_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.more_button.toggled.connect(self._show_more)
        self.more = QWidget()
        self.more.hide()
        rest = QVBoxLayout(self.more)
        rest.setContentsMargins(0, 0, 0, 0)
        rest.setSpacing(10)
        for setting in SETTINGS:
            if not setting.common:
                rest.addWidget(self.rows[setting.name])
        self._show_more(False)
        column.addWidget(self.more_button)
        column.addWidget(self.more)

    def _row(self, setting: Setting) -> Row:
        row = Row(SETUP_CONTROLS[setting.kind](setting))
        row.control.chosen.connect(self._take)
        row.control.settled.connect(self.settled)
        row.remedied.connect(self.remedied)
        return row

    def add_section(self, widget: QWidget) -> None:
        """Put a widget under the sentence; the tab key comes to it after what is above."""
        parts, part = [], widget.nextInFocusChain()
        while part is not None and part is not widget:
            if part.focusPolicy() & Qt.FocusPolicy.TabFocus:
                parts.append(part)
            part = part.nextInFocusChain()
        self._sections.addWidget(widget)
        for before, after in pairwise([self.text_steps[1], *parts]):
            self.setTabOrder(before, after)

    # ------------------------------------------------------------------ showing

    def take_text(self, text: str) -> None:
        """Take a text that was dropped in place of the sentence."""
        if len(text) > LONGEST_TEXT:
            self.textTooLong.emit(len(text))
        else:
            self.textTyped.emit(text)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Show a document's settings and its tokens."""
        setup = screen.panel(SETUP)
        self._show_theme(theme)
        if setup != self._setup:
            self._setup = setup
            self._show_text(setup)
            self._show_captured(setup)
            for shown in setup.settings:
                self.rows[shown.setting.name].show_setting(shown)
        self._show_place(screen.resolved)
        hidden = any(shown.problem and not shown.setting.common for shown in setup.settings)
        if hidden and not self.more_button.isChecked():
            self.more_button.setChecked(True)  # a problem must be seen where it is

    def _show_theme(self, theme: Theme) -> None:
        if theme is not self._theme:
            self._theme, self._setup = theme, None
            self._show_more(self.more_button.isChecked())
            for row in self.rows.values():
                row.problem.clear()  # a link takes its colour when it is written
                row.control.show_theme(theme)

    def _show_text(self, setup: Setup) -> None:
        self.sentence.show_text(setup.text)
        self.problem.setText(setup.text_problem)
        self.problem.setVisible(bool(setup.text_problem))
        self.tokenizer.setCurrentIndex(self.tokenizer.findData(setup.tokenizer))
        self.lines.setCurrentIndex(self.lines.findData(setup.lines))

    def _show_captured(self, setup: Setup) -> None:
        """Leave out the settings where there is no module."""
        self.captured.show_words(setup.captured)
        has_module = not setup.captured
        for row in self.rows.values():
            if row.setting.common:
                row.setVisible(has_module)
        for widget in (self.more_button, self.lines):
            widget.setVisible(has_module)
        self.more.setVisible(has_module and self.more_button.isChecked())
        self.sentence.setPlaceholderText(TEXT if has_module else LABELS)

    def _show_place(self, resolved: Resolved | None) -> None:
        """Say which text of a batch is looked at, or which captured layer."""
        self.texts.setVisible(resolved is not None and len(resolved.run.texts) > 1)
        if resolved is None:
            return
        part, texts = resolved.run.part, len(resolved.run.texts)
        self.text_number.setText(f"{part.capitalize()} {resolved.text + 1} of {texts}")
        for step, button in self.text_steps.items():
            button.setAccessibleName(f"{'Previous' if step < 0 else 'Next'} {part}")

    def edit_sentence(self) -> None:
        """Have the sentence be typed anew."""
        self.sentence.setFocus()
        self.sentence.selectAll()

    def open_more(self) -> None:
        """Show every setting, and go to the first that counts."""
        self.more_button.setChecked(True)
        rows = [row for row in self.rows.values() if not row.setting.common]
        first = next(row for row in rows if row.control.isEnabled())
        first.control.setFocus(Qt.FocusReason.ShortcutFocusReason)
        QTimer.singleShot(0, first, lambda: self.ensureWidgetVisible(first))  # once it has a place

    def _show_more(self, is_open: bool) -> None:
        self.more.setVisible(is_open and not (self._setup and self._setup.captured))
        name = "chevron-down" if is_open else "chevron-right"
        self.more_button.setIcon(icon(name, (self._theme or LIGHT).ink))

    # ------------------------------------------------------------------ the hand

    def _type(self) -> None:
        self.textTyped.emit(self.sentence.toPlainText())

    def _step(self) -> None:
        self.textStepped.emit(self.sender().property("step"))

    def _choose(self, index: int) -> None:
        box = self.sender()
        if isinstance(box, QComboBox):
            name = box.property("setting")
            self.chosen.emit(name, KINDS[name](box.itemData(index)), False)

    def _take(self, value: object, going_on: bool) -> None:
        control = self.sender()
        if isinstance(control, Control):
            self.chosen.emit(control.setting.name, value, going_on)
