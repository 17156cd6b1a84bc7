"""Text box for the input text, one or two lines high and without its own undo history."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QMimeData, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QTextCursor, QTextOption
from PySide6.QtWidgets import QPlainTextEdit

from visualizer.documents.open_document import longest_permitted_prefix, text_length_problem
from visualizer.session.document import find_changed_span
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import plain_tooltip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtGui import QKeyEvent, QResizeEvent

TEXT_PLACEHOLDER = "Type or paste text"
LABELS_PLACEHOLDER = "Type or paste tokens"
"""Placeholder of the text box for captured attention, which has token labels instead of a text."""
KEYS_TIP = "Press Enter to go to the heatmaps. Press Shift+Enter to begin a new line."
MAX_TEXT_LINES = 2
MAX_MEASURED_LETTERS = 400
CURSOR_PX = 6
BOX_PADDING_PX = 7
"""Width of the text box's frame and the space between the frame and the document, in pixels.

The document has no margin of its own, in which a part of the next line would be visible.
"""
MAX_UNBROKEN_WORD_LENGTH = 4_000
"""Maximum length of words that are not broken, in characters; longer words wrap anywhere."""

# Qt replaces these characters when it returns the text.
DISPLAY_REPLACEMENTS = str.maketrans({"\u2028": "\n", "\u2029": "\n", "\u00a0": " "})


def has_word_longer_than(text: str, length: int) -> bool:
    """Return whether any word is longer than `length`; fast for texts with only short words."""
    half = max(1, length // 2)
    # A longer word fills at least one whole chunk of half the length.
    parts = (text[start : start + half] for start in range(0, len(text), half))
    may_have = any(part.split(None, 1)[:1] == [part] for part in parts if len(part) == half)
    return may_have and max(map(len, text.split()), default=0) > length


def _cursor_position_after(text: str) -> int:
    """Return the cursor position after a text; Qt counts characters beyond U+FFFF as two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _count_characters_before(place: int, text: str) -> int:
    """Return the number of characters before a cursor position."""
    before = text.encode("utf-16-le", "surrogatepass")[: 2 * place]
    return len(before.decode("utf-16-le", "surrogatepass"))


class InputTextEdit(QPlainTextEdit):
    """Text box for the input text. Undo and redo belong to the document, not to the box.

    `textLimitExceeded` is emitted with an error message and the first part of a rejected text, and
    `leaveRequested` is emitted on Enter and Esc.
    """

    textLimitExceeded = Signal(str, str)
    leaveRequested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setUndoRedoEnabled(False)
        install_input_filters(self)
        self.document().setDocumentMargin(0)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # All lines wrap, but a cursor at the end of a full line would scroll by its width.
        self.horizontalScrollBar().rangeChanged.connect(
            lambda: self.horizontalScrollBar().setMaximum(0)
        )
        self.document().documentLayout().documentSizeChanged.connect(self._fit_height)
        self._fit_height()
        self.setTabChangesFocus(True)
        self.setProperty(OWN_FOCUS_PROPERTY, True)
        self.setPlaceholderText(TEXT_PLACEHOLDER)
        self.setAccessibleName("Sentence")
        self.setAccessibleDescription(KEYS_TIP)
        self.setToolTip(plain_tooltip(KEYS_TIP))
        self.setObjectName("sentence")
        self.setProperty("role", "sentence")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        if is_enter and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.textCursor().insertBlock()
        elif is_enter:
            self.leaveRequested.emit()
        else:
            if event.key() == Qt.Key.Key_Escape:
                self.leaveRequested.emit()
            super().keyPressEvent(event)  # Esc also keeps its other effects in the window

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        # Dropped files are opened instead.
        return not source.hasUrls() and super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        text, cursor = self.toPlainText(), self.textCursor()
        start, end = (
            _count_characters_before(place, text)
            for place in (cursor.selectionStart(), cursor.selectionEnd())
        )
        whole = text[:start] + source.text() + text[end:]
        if sentence := text_length_problem(whole):
            self.textLimitExceeded.emit(sentence, longest_permitted_prefix(whole))
        else:
            with self._adapt_wrap_mode(whole):
                if (start, end) == (0, len(text)):
                    self.setPlainText(whole)  # twice as fast as an insertion
                    self.moveCursor(QTextCursor.MoveOperation.End)
                else:
                    super().insertFromMimeData(source)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._fit_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def natural_width(self) -> int:
        """Return the width at which the beginning of the first line is not wrapped."""
        start = self.document().firstBlock().text()[:MAX_MEASURED_LETTERS]
        return self.fontMetrics().horizontalAdvance(start) + 2 * BOX_PADDING_PX + CURSOR_PX

    def _fit_height(self) -> None:
        """Make the box as high as its text, up to `MAX_TEXT_LINES` lines; longer texts scroll."""
        count = round(self.document().size().height())
        lines = min(MAX_TEXT_LINES, max(1, count))
        self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + 2 * BOX_PADDING_PX)
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if count > lines else policy.ScrollBarAlwaysOff
        )

    @contextmanager
    def _adapt_wrap_mode(self, text: str) -> Iterator[None]:
        """Wrap between words, unless a word is so long that Qt would take seconds to find its end.

        The wrap mode is changed before or after the text, so that Qt never searches such a word.
        """
        is_endless = has_word_longer_than(text, MAX_UNBROKEN_WORD_LENGTH)
        if is_endless:
            self._set_wrap_mode(QTextOption.WrapMode.WrapAnywhere)
        yield
        if not is_endless:
            self._set_wrap_mode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)

    def _set_wrap_mode(self, mode: QTextOption.WrapMode) -> None:
        if mode is not self.wordWrapMode():
            self.setWordWrapMode(mode)

    def show_text(self, text: str) -> None:
        """Show the text of the document, with the cursor at the end of the changed part."""
        before, shown = (
            self.toPlainText(),
            text.translate(DISPLAY_REPLACEMENTS).replace("\r\n", "\n"),
        )
        if shown == before:
            return
        start, end = find_changed_span(before, shown)
        place = _cursor_position_after(shown[:end])
        # Signals are blocked, because characters that Qt replaces would otherwise count as an edit.
        with self._adapt_wrap_mode(text), QSignalBlocker(self):
            self.setPlainText(text)
        cursor = self.textCursor()
        last = self.document().characterCount() - 1
        cursor.setPosition(min(place, last), QTextCursor.MoveMode.MoveAnchor)
        self.setTextCursor(cursor)
        if start == 0:
            self.verticalScrollBar().setValue(0)  # another text is read from its beginning
