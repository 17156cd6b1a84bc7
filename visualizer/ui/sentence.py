"""The box in which the text is typed."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QSignalBlocker, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit

from visualizer.state.document import changed_span
from visualizer.state.saved.texts import LONGEST_TEXT
from visualizer.ui.focus import SHOWS_OWN_FOCUS
from visualizer.ui.manners import teach

TEXT = "Type or paste a text"
LABELS = "Type or paste the tokens"
"""What stands in the box while it is empty: of captured attention, tokens are only named."""
# Qt writes these otherwise than they are.
AS_SHOWN = str.maketrans({"\u2028": "\n", "\u2029": "\n", "\u00a0": " "})


class SentenceBox(QPlainTextEdit):
    """Where the text is typed. Undo and redo are the document's, not the box's own.

    `tooLong` carries the length of a text that was not taken in: it would hold up the window,
    and no memory could compare all its tokens with each other.
    """

    tooLong = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setUndoRedoEnabled(False)
        teach(self)
        self.setTabChangesFocus(True)
        self.setProperty(SHOWS_OWN_FOCUS, True)
        self.setPlaceholderText(TEXT)
        self.setAccessibleName("Sentence")
        self.setObjectName("sentence")

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return not source.hasUrls() and super().canInsertFromMimeData(source)  # files are opened

    def insertFromMimeData(self, source: QMimeData) -> None:
        kept = len(self.toPlainText()) - len(self.textCursor().selectedText())
        count = kept + len(source.text())
        if count > LONGEST_TEXT:
            self.tooLong.emit(count)
        else:
            super().insertFromMimeData(source)

    def show_text(self, text: str) -> None:
        """Show the document's text, with the cursor where it differs from what was shown."""
        if text.translate(AS_SHOWN).replace("\r\n", "\n") == self.toPlainText():
            return
        place = changed_span(self.toPlainText(), text)[1]
        with QSignalBlocker(self):  # else what is only written otherwise would be a change
            self.setPlainText(text)
        cursor = self.textCursor()
        end = self.document().characterCount() - 1
        cursor.setPosition(min(place, end), QTextCursor.MoveMode.MoveAnchor)
        self.setTextCursor(cursor)
