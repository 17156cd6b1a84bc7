"""Tool tips that are plain text, whatever they look like.

Qt shows a tool tip as HTML where it guesses that it is (`Qt.mightBeRichText`), and has no way to be
told otherwise. HTML can read files and hold up the program, so no token, name or message that came
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
    """Give a text that Qt shows as it is: what looks like HTML gets an invisible letter inside.

    The letter has no width and no line is broken at it; escaped, a text would be wrapped at other
    places, and readers of the screen would say the marks of its HTML.
    """
    return text.translate(_BROKEN) if Qt.mightBeRichText(text) else text


def show_tooltip(place: QPoint, text: str, widget: QWidget) -> None:
    """Show a text beside a place on the screen; without a text, take away what is shown."""
    QToolTip.showText(place, plain_tooltip(text), widget)
