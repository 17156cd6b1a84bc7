"""One row of settings: a name, a control, and what is wrong at it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from visualizer.state.setup import Kind, SettingShown
from visualizer.ui.labels import PlainLabel, RichLabel
from visualizer.ui.tooltips import plain_tooltip

if TYPE_CHECKING:
    from visualizer.ui.controls import Control

_DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


class Row(QWidget):
    """A setting: its name, its control, and what is wrong with it, with an offer to mend it."""

    remedied = Signal(str)

    def __init__(self, control: Control) -> None:
        super().__init__()
        self.control = control
        self.setting = setting = control.setting
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        if setting.kind is not Kind.SWITCH:
            label = PlainLabel(setting.label)
            label.setProperty("role", "quiet")
            column.addWidget(label)
        control.setToolTip(plain_tooltip(setting.help))
        column.addWidget(control)
        self.problem = RichLabel()
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "warning")
        self.problem.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self.problem.linkActivated.connect(self._remedy)
        self.problem.hide()
        column.addWidget(self.problem)

    def show_setting(self, shown: SettingShown) -> None:
        """Show the setting's value and problem."""
        self.control.show_value(shown.value)
        self.control.setEnabled(shown.counts)
        problem = shown.problem
        words = escape(problem.sentence) if problem else ""
        if shown.mends:
            words += f" <a href='mend'>{escape(shown.mends)}</a>"
        if self.problem.text() != words:
            self.problem.setText(words)
        self.problem.setVisible(problem is not None)
        told = problem.sentence if problem else self.setting.help
        for part in self.control.findChildren(QWidget, options=_DIRECT):
            part.setAccessibleDescription(told)

    def _remedy(self) -> None:
        self.remedied.emit(self.setting.name)
