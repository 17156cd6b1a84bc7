"""The interface fonts, their metrics and the text scale of the desktop."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtGui import QFont, QFontDatabase, QFontInfo, QFontMetricsF, QGuiApplication

if TYPE_CHECKING:
    from PySide6.QtCore import QSize

AUTOMATIC_TEXT = 0
"""In place of a text size in per cent: that which fits the screen."""
USUAL_SCREEN = (1920, 1080)
MAX_AUTOMATIC_SCALE = 1.5
USUAL_PX = 13
"""The font height in pixels at which the program's sizes are unscaled."""


def font(size: int, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
    """Return the interface font, at 10, 12, 14 or 20 px at the usual text size, or fitted."""
    return QFont(_font(size, weight, system_font()))


def larger_font(times: float) -> QFont:
    """Return the system font enlarged; sizes derived from it scale along."""
    made = QFont(QGuiApplication.font())
    made.setPixelSize(round(USUAL_PX * text_scale() * times))
    return made


def apply_text_size(percent: int) -> None:
    """Scale the application's font, from which all sizes derive, from that of the system.

    Parameters
    ----------
    percent : int
        Of the system's size, or `AUTOMATIC_TEXT`.
    """
    made = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    own = QFontInfo(made).pixelSize()
    if percent == AUTOMATIC_TEXT:
        fitting = round(USUAL_PX * screen_scale(QGuiApplication.primaryScreen().size()))
        if fitting > max(USUAL_PX, own):
            made.setPixelSize(fitting)
    elif percent != 100:
        made.setPixelSize(round(max(USUAL_PX, own) * percent / 100))
    if made != QGuiApplication.font():  # a font that was never set follows the desktop's
        QGuiApplication.setFont(made)


def screen_scale(screen: QSize) -> float:
    """Return the factor on the usual text size that fits a screen, in logical pixels.

    On a large screen whose pixels the desktop does not scale, text of the usual size is tiny in a
    window that fills it.
    """
    shares = (screen.width() / USUAL_SCREEN[0], screen.height() / USUAL_SCREEN[1])
    return min(MAX_AUTOMATIC_SCALE, max(1.0, min(shares)))


def metrics(size: int) -> QFontMetricsF:
    """Return the metrics of the interface font at a size."""
    return _metrics(size, system_font())


def text_scale() -> float:
    """Return the factor of the system's text size on the usual one."""
    return _text_scale(system_font())


# Cached for every label: making a font takes longer than writing with it, and so does naming the
# system font, which may change while the program runs.
_named: list[tuple[QFont, str]] = []


def system_font() -> str:
    """Return the system font's name, the key of cached measurements."""
    present = QGuiApplication.font()
    if not _named or _named[0][0] != present:
        _named[:] = [(present, present.key())]
    return _named[0][1]


@lru_cache(maxsize=16)
def _font(size: int, weight: QFont.Weight, system: str) -> QFont:
    made = QFont(QGuiApplication.font())
    made.setPixelSize(max(1, round(size * text_scale())))
    made.setWeight(weight)
    made.setFeature(QFont.Tag("tnum"), 1)
    return made


@lru_cache(maxsize=8)
def _metrics(size: int, system: str) -> QFontMetricsF:
    return QFontMetricsF(_font(size, QFont.Weight.Normal, system))


@lru_cache(maxsize=2)
def _text_scale(system: str) -> float:
    return max(1.0, QFontInfo(QGuiApplication.font()).pixelSize() / USUAL_PX)


def forget_fonts() -> None:
    """Clear the font cache, which must not outlive the application."""
    _named.clear()
    for kept in (_font, _metrics, _text_scale):
        kept.cache_clear()
