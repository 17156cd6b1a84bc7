"""A label of rich text that flows into the width it has, and is laid out once.

A line to be read from the back of a room: as large as fits the width.

Labels that never guess what their text is: plain text as it is given, or HTML made by us.

Qt's own label takes a text for HTML where it looks like it. A token, a file's name or an error
message that quotes one may look like it, and HTML can read files and hold up the program.
"""

from __future__ import annotations

from html import unescape
from re import sub
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QTextDocument
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from visualizer.widgets.theme import font, text_scale
from visualizer.widgets.tooltips import plain_tooltip

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent

NARROWEST = 100


class RichLabel(QLabel):
    """Shows HTML: what is put into it from elsewhere has to be escaped before."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)


class WrappingLabel(RichLabel):
    """Asks for the height that its text needs; Qt's own tries several widths for every text."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self._heights: dict[int, int] = {}

    def setText(self, text: str) -> None:
        if text != self.text():
            self._heights.clear()
            super().setText(text)
            self._read()

    def _read(self) -> None:
        """Read the text and its options before it is laid out: Qt's label does so after each."""
        document = self.findChild(QTextDocument)
        if document:  # there is none before the first text
            document.setLayoutEnabled(False)
            super().heightForWidth(self.width())
            document.setLayoutEnabled(True)

    def changeEvent(self, event: QEvent) -> None:
        self._heights.clear()
        super().changeEvent(event)

    def heightForWidth(self, width: int) -> int:
        if width not in self._heights:
            self._heights[width] = super().heightForWidth(width)
        return self._heights[width]

    def sizeHint(self) -> QSize:
        return QSize(NARROWEST, self.heightForWidth(max(self.width(), NARROWEST)))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


class AutoFitLabel(RichLabel):
    """One line of HTML; only what is too long at the smallest size is broken into two."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._told = ""
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setAccessibleDescription(name)  # its name is what it says

    def tell(self, html: str) -> None:
        """Show a line."""
        if html != self._told:
            self._told = html
            self._fit()

    def sizeHint(self) -> QSize:
        line = round(QFontMetricsF(font(SIZES[0])).height())
        return QSize(100, self.heightForWidth(self.width()) if self.wordWrap() else line)

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        room = self.contentsRect().width()
        size, is_broken = fitting(self._told, room)
        self.setWordWrap(is_broken)
        pixels = round(size * text_scale())
        self.setText(f"<span style='font-size:{pixels}px'>{self._told}</span>")
        self.updateGeometry()


SIZES = (20, 18, 16, 14)


def fitting(html: str, room: float) -> tuple[int, bool]:
    """Choose the largest size at which a line fits, and say whether it has to be broken."""
    plain = unescape(sub("<[^>]*>", "", html))
    for size in SIZES:
        if QFontMetricsF(font(size, QFont.Weight.DemiBold)).horizontalAdvance(plain) <= room:
            return size, False
    return SIZES[-1], True


class PlainLabel(QLabel):
    """Shows every text letter by letter, whatever it looks like."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)


class ElidedLabel(PlainLabel):
    """A line that takes what room there is; the whole of it is in its tip."""

    def __init__(self, towards: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft) -> None:
        super().__init__()
        self.setAlignment(towards | Qt.AlignmentFlag.AlignVCenter)
        self._told, self._in_words = "", ""
        self.setProperty("role", "quiet")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setIndent(4)

    def tell(self, told: str, in_words: str = "") -> None:
        """Show a sentence, or what stands for it in short."""
        self._told, self._in_words = told, in_words or told
        self.setToolTip(plain_tooltip(self._in_words))
        self.setAccessibleName(self._in_words)
        room = self.contentsRect().width() - 2 * self.indent()
        self.setText(self.fontMetrics().elidedText(told, Qt.TextElideMode.ElideRight, room))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.tell(self._told, self._in_words)
