"""Buttons with a fixed width, and buttons that toggle one item or show only that item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QPushButton, QStyle, QStyleOptionButton, QToolButton

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtGui import QMouseEvent
    from PySide6.QtWidgets import QAbstractButton

SHOW_MNEMONIC = Qt.TextFlag.TextShowMnemonic.value


class FixedWidthButton(QPushButton):
    """Push button that is as wide as the widest of its possible texts."""

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
    """Tool button that is as wide as the widest of its possible texts."""

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
    """Return the width of a button's text, without the “&” of its mnemonic."""
    return button.fontMetrics().size(SHOW_MNEMONIC, words).width()


class SoloToggleButton(QToolButton):
    """Button that toggles one of several items; a double click shows only this item."""

    doubleClicked = Signal(object)
    """Emitted with the button's item."""

    def __init__(self, item: Any) -> None:
        super().__init__()
        self.item = item
        self.setCheckable(True)
        self.setAutoRaise(True)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.doubleClicked.emit(self.item)
