"""The settings of a training, built from their table, and how the text begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QFontDatabase
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from visualizer.state.lab.setup import LAB_SETTINGS
from visualizer.ui.controls import Control
from visualizer.ui.lab.controls import LAB_CONTROLS
from visualizer.ui.labels import PlainLabel
from visualizer.ui.setting_row import Row

if TYPE_CHECKING:
    from visualizer.state.lab.setup import LabSetup
    from visualizer.ui.theme import Theme

LINES = (
    ("preset",), ("kind",), ("path",), ("tokenizer",), ("size",), ("model",),
    ("block", "width"), ("heads", "layers"), ("dropout", "batch"), ("rate", "decay"),
    ("warmup", "steps"), ("seed", "device"),
)  # fmt: skip
"""Which settings stand beside each other."""
COMING = frozenset({"path", "tokenizer", "size"})
"""What is seen only where it counts."""
SAMPLE_LINES = 7


class SettingsPane(QScrollArea):
    """All settings, each with what is wrong with it; locked where a run is made of them."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    chosen = Signal(str, object)
    remedied = Signal(str)
    anotherWanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Settings of the training")
        self.rows = {one.name: self._row(LAB_CONTROLS[one.kind](one)) for one in LAB_SETTINGS}
        self._shown: LabSetup | None = None
        self._theme: Theme | None = None
        self.locked, self.another = PlainLabel(), QPushButton("New run with these settings…")
        self.says = PlainLabel()
        for label in (self.locked, self.says):
            label.setWordWrap(True)
            label.setProperty("role", "quiet")
        self.another.clicked.connect(self.anotherWanted)
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(16, 8, 16, 16)
        column.setSpacing(8)
        for widget in (self.locked, self.another):
            column.addWidget(widget)
        for names in LINES:
            column.addLayout(self._line(names))
            if names == ("preset",):
                column.addWidget(self.says)
        self._add_sample(column)
        self.setWidget(inner)
        bar = self.verticalScrollBar().sizeHint().width()
        self.setMinimumWidth(inner.minimumSizeHint().width() + bar)

    def _line(self, names: tuple[str, ...]) -> QVBoxLayout:
        """Put settings beside each other; what is wrong with them has the whole width below."""
        whole, line = QVBoxLayout(), QHBoxLayout()
        whole.setSpacing(2)
        line.setSpacing(12)
        whole.addLayout(line)
        for name in names:
            line.addWidget(self.rows[name], 1, Qt.AlignmentFlag.AlignTop)
        for name in names if len(names) > 1 else ():
            whole.addWidget(self.rows[name].problem)
        return whole

    def _row(self, control: Control) -> Row:
        row = Row(control)
        control.chosen.connect(self._take)
        row.remedied.connect(self.remedied)
        return row

    def _add_sample(self, column: QVBoxLayout) -> None:
        title = PlainLabel("How the text begins")
        title.setProperty("role", "quiet")
        self.sample = QPlainTextEdit()
        self.sample.setReadOnly(True)
        self.sample.setTabChangesFocus(True)
        self.sample.setAccessibleName("How the text begins")
        self.sample.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.sample.setFixedHeight(self.sample.fontMetrics().lineSpacing() * SAMPLE_LINES + 12)
        self.notes = PlainLabel()
        self.notes.setWordWrap(True)
        self.notes.setProperty("role", "quiet")
        for widget in (title, self.sample, self.notes):
            column.addWidget(widget)
        column.addStretch(1)

    def show_setup(self, setup: LabSetup, theme: Theme) -> None:
        """Show the settings, and whether they can be changed."""
        if theme is not self._theme:
            self._theme, self._shown = theme, None
            for row in self.rows.values():
                row.problem.clear()  # a link takes its colour when it is written
                row.control.show_theme(theme)
        if setup == self._shown:
            return
        self._shown = setup
        for shown in setup.settings:
            row = self.rows[shown.setting.name]
            row.show_setting(shown)
            if shown.setting.name in COMING:
                row.setVisible(shown.is_of_use)
        self.locked.setText(setup.locked)
        for widget in (self.locked, self.another):
            widget.setVisible(bool(setup.locked))
        self.says.setText(setup.says)
        self.says.setVisible(bool(setup.says))
        self.notes.setText("\n".join(setup.notes))
        if self.sample.toPlainText() != setup.sample:
            self.sample.setPlainText(setup.sample)

    def _take(self, value: object, going_on: bool) -> None:
        control = self.sender()
        if isinstance(control, Control):
            self.chosen.emit(control.setting.name, value)
