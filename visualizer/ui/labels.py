"""Labels that never guess what their text is: plain text as it is given, or HTML made by us.

Qt's own label takes a text for HTML where it looks like it. A token, a file's name or an error
message that quotes one may look like it, and HTML can read files and hold up the program.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


class PlainLabel(QLabel):
    """Shows every text letter by letter, whatever it looks like."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)


class RichLabel(QLabel):
    """Shows HTML: what is put into it from elsewhere has to be escaped before."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)
