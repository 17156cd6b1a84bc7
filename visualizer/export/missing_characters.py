"""Lists the characters of a picture that no installed font contains."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.exportable_snapshot import Snapshot


FONTS_MISSING_NOTICE = (
    "No fonts are installed, so text in images appears as boxes. Install fonts, for "
    "example the package fonts-dejavu-core."
)


MAX_LISTED_CHARACTERS = 10
"""Maximum number of missing characters listed in a message."""
_UNSEEN = {"Cc", "Cf", "Cs", "Zs"}


def describe_missing_characters(snapshot: Snapshot, figure_settings: FigureSettings) -> str:
    """Describe the characters without a glyph, which appear as boxes; empty if there are none.

    Call within `offscreen_qt`.
    """
    from PySide6.QtGui import QFontMetricsF, QGuiApplication

    measures = QFontMetricsF(QGuiApplication.font())
    if not measures.inFont("0"):
        return FONTS_MISSING_NOTICE
    words = (token for text in (*snapshot.run.texts, snapshot.run.key_tokens) for token in text)
    letters = dict.fromkeys(chain(figure_settings.title, *words))
    seen = (letter for letter in letters if category(letter) not in _UNSEEN)
    lacking = [letter for letter in seen if not measures.inFontUcs4(ord(letter))]
    if not lacking:
        return ""
    more = "…" if len(lacking) > MAX_LISTED_CHARACTERS else ""
    named = f"“{''.join(lacking[:MAX_LISTED_CHARACTERS])}{more}”"
    return (
        f"No installed font contains {named}, so it appears as boxes in images. "
        "Install a font that does."
    )
