"""Buttons with a fixed width, with a solo state, or with the progress of a long task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QProgressBar,
    QPushButton,
    QStyle,
    QStyleOptionButton,
    QToolButton,
    QWidget,
)

from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import plain_tooltip
from visualizer.widgets.layouts import row_layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtGui import QMouseEvent
    from PySide6.QtWidgets import QAbstractButton

SHOW_MNEMONIC = Qt.TextFlag.TextShowMnemonic.value


class FixedWidthButton(QPushButton):
    """Push button as wide as the widest of its possible texts."""

    def __init__(self, *words: str) -> None:
        super().__init__(words[0])
        self._words = words

    def sizeHint(self) -> QSize:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        hint = super().sizeHint()
        for words in self._words:  # each text has the style's minimum width
            option.text = words
            inner = QSize(_text_width(self, words), self.fontMetrics().height())
            kind = QStyle.ContentsType.CT_PushButton
            hint = hint.expandedTo(self.style().sizeFromContents(kind, option, inner, self))
        return hint

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


class FixedWidthToolButton(QToolButton):
    """Tool button as wide as the widest of its possible texts."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__()
        self._words = tuple(words)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        more = max(_text_width(self, words) for words in self._words) - _text_width(
            self, self.text()
        )
        return QSize(hint.width() + max(0, more), hint.height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


def _text_width(button: QAbstractButton, words: str) -> int:
    """Measure a text exactly as Qt does."""
    return button.fontMetrics().size(SHOW_MNEMONIC, words).width()


class SoloToggleButton(QToolButton):
    """Button for one of several items; double-clicking it shows only that item."""

    doubleClicked = Signal(object)
    """The item of the button."""

    def __init__(self, item: Any) -> None:
        super().__init__()
        self.item = item
        self.setCheckable(True)
        self.setAutoRaise(True)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.doubleClicked.emit(self.item)


class LongTaskWidget(QWidget):
    """Row with a start button, or with progress and a stop button; hidden if there is no task.

    Parameters
    ----------
    start, tip : str
        Text and tooltip of the start button.
    progress : str
        Accessible name of the progress bar.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    toggled = Signal()
    """The Start or Stop button was clicked."""

    def __init__(self, start: str, tip: str, progress: str) -> None:
        super().__init__()
        self.setAccessibleName(start)
        self.start, self.stop, self.progress = (
            QPushButton(start),
            QPushButton("Stop"),
            QProgressBar(),
        )
        self.start.setToolTip(plain_tooltip(tip))
        self.stop.setToolTip(plain_tooltip("Stop and discard the partial results"))
        self.progress.setAccessibleName(progress)
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(round(6 * text_scale()))
        self.progress.setRange(0, 100)
        row = row_layout(self, (0, 0, 0, 0), spacing=6)
        row.addWidget(self.start)
        row.addWidget(self.progress, 1)
        row.addWidget(self.stop)
        self._stretch = QWidget()
        row.addWidget(self._stretch, 1)
        for button in (self.start, self.stop):
            button.clicked.connect(self.toggled)
        self.show_task(False, False, 0)

    def show_task(self, has_task: bool, is_running: bool, percent: int) -> None:
        """Show whether there is a task, whether it is running, and its progress as a percentage."""
        had_focus = self.start.hasFocus() or self.stop.hasFocus()
        self.setVisible(has_task)
        self.progress.setValue(percent)
        for part, is_seen in (
            (self.start, not is_running),
            (self._stretch, not is_running),
            (self.progress, is_running),
            (self.stop, is_running),
        ):
            part.setVisible(is_seen)
        if had_focus and has_task:
            (self.stop if is_running else self.start).setFocus()
