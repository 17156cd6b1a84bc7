"""Plain-text tooltips.

Qt shows a tooltip as HTML if it looks like HTML (`Qt.mightBeRichText`), and offers no way to turn
that off. HTML can read files and block the program, so tokens, names and messages from files or
the user must never be interpreted as HTML.
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
    """Return a text that Qt shows literally, by inserting invisible characters.

    These have no width and allow no line break. Escaping would change the line wrapping, and
    screen readers would read out the HTML.
    """
    return text.translate(_BROKEN) if Qt.mightBeRichText(text) else text


def show_tooltip(place: QPoint, text: str, widget: QWidget) -> None:
    """Show a tooltip at a screen position; an empty text hides it."""
    QToolTip.showText(place, plain_tooltip(text), widget)
