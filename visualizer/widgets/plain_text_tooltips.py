"""Tool tips of plain text.

Qt shows a tool tip as HTML where it guesses that it is (`Qt.mightBeRichText`), and offers no way to
turn that off. HTML can read files and block the program, so no token, name or message that came
from a file or was typed may be taken for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import Qt
from PySide6.QtWidgets import QToolTip

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QWidget

_JOINER = "\N{WORD JOINER}"
_BROKEN = str.maketrans({"<": f"<{_JOINER}", "&": f"&{_JOINER}"})


def plain_tooltip(text: str) -> str:
    """Return a text that Qt shows literally: an invisible character keeps it from passing as HTML.

    The character has no width and allows no line break; escaping instead would wrap the text
    elsewhere, and screen readers would read out the HTML.
    """
    return text.translate(_BROKEN) if Qt.mightBeRichText(text) else text


def show_tooltip(place: QPoint, text: str, widget: QWidget) -> None:
    """Show a tool tip at a screen position; an empty text hides it."""
    QToolTip.showText(place, plain_tooltip(text), widget)
