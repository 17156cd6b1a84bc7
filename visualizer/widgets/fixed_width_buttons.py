"""Buttons of fixed width whose text changes, so that nothing beside them moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QPushButton, QStyle, QStyleOptionButton, QToolButton

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtWidgets import QAbstractButton

SHORTCUTS = Qt.TextFlag.TextShowMnemonic.value


class FixedWidthButton(QPushButton):
    """A button as wide as the widest of its possible texts."""

    def __init__(self, *words: str) -> None:
        super().__init__(words[0])
        self._words = words

    def sizeHint(self) -> QSize:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        hint = super().sizeHint()
        for words in self._words:  # each text has a minimum width, as Qt computes it
            option.text = words
            inner = QSize(_width(self, words), self.fontMetrics().height())
            kind = QStyle.ContentsType.CT_PushButton
            hint = hint.expandedTo(self.style().sizeFromContents(kind, option, inner, self))
        return hint

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


class FixedWidthToolButton(QToolButton):
    """A tool button as wide as the widest of its possible texts."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__()
        self._words = tuple(words)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        more = max(_width(self, words) for words in self._words) - _width(self, self.text())
        return QSize(hint.width() + max(0, more), hint.height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


def _width(button: QAbstractButton, words: str) -> int:
    """Measure a text as Qt does, to the pixel."""
    return button.fontMetrics().size(SHORTCUTS, words).width()
