"""Buttons whose words change and whose width does not, so that nothing beside them moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QPushButton, QToolButton

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtWidgets import QAbstractButton


class SteadyButton(QPushButton):
    """A button with words; it is as wide as the widest of those that it may have."""

    def __init__(self, *words: str) -> None:
        super().__init__(words[0])
        self._words = words

    def sizeHint(self) -> QSize:
        return _widened(self, super().sizeHint(), self._words)


class SteadyTool(QToolButton):
    """A button of a bar; it is as wide as the widest of the words that it may have."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__()
        self._words = tuple(words)

    def sizeHint(self) -> QSize:
        return _widened(self, super().sizeHint(), self._words)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


def _widened(button: QAbstractButton, hint: QSize, words: tuple[str, ...]) -> QSize:
    """Give the size with the widest words in place of those that are there."""
    measures, flags = button.fontMetrics(), Qt.TextFlag.TextShowMnemonic.value
    more = max(measures.size(flags, each).width() for each in words)
    more -= measures.size(flags, button.text()).width()  # as Qt measures it, to the pixel
    return QSize(hint.width() + max(0, more), hint.height())
