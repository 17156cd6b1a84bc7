"""Buttons with changing text but a fixed width, so that the layout does not move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QPushButton, QStyle, QStyleOptionButton, QToolButton

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtWidgets import QAbstractButton

SHORTCUTS = Qt.TextFlag.TextShowMnemonic.value


class FixedWidthButton(QPushButton):
    """Push button as wide as the widest of its possible texts."""

    def __init__(self, *words: str) -> None:
        super().__init__(words[0])
        self._words = words

    def sizeHint(self) -> QSize:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        hint = super().sizeHint()
        for words in self._words:  # Qt applies a minimum width to each text
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
    return button.fontMetrics().size(SHORTCUTS, words).width()
