"""Interface fonts, their metrics and the text scale."""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtGui import QFont, QFontDatabase, QFontInfo, QFontMetricsF, QGuiApplication

from visualizer.resources import resource_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtCore import QSize

AUTOMATIC_TEXT = 0
"""Value of the text size setting that fits the text to the screen."""
DEFAULT_SCREEN_SIZE = (1920, 1080)
MAX_AUTOMATIC_SCALE = 1.5
BUNDLED_FAMILY = "Inter"
"""The family of the shipped font files, so that text has the same width on all systems.

All its digits have the same width. This is not a feature of the text, because Qt would then write
digits into PDF files as characters for private use, which cannot be searched or copied.
"""
BUNDLED_STYLES = ("Regular", "SemiBold", "Bold")
DEFAULT_PX = 13
"""System font height in pixels at which the text scale is 1."""

_replaced_font: QFont | None = None
"""The font that replaces that of an application which is not this program's; usually None."""


def system_font() -> QFont:
    """Return the font from which all sizes derive; it may change, so caches use it as a key."""
    return QGuiApplication.font() if _replaced_font is None else _replaced_font


@contextmanager
def interface_font() -> Iterator[None]:
    """Context manager within which text has the shipped font in any application.

    The application may belong to a notebook or another program; its own font is not changed.
    """
    global _replaced_font
    is_ours = BUNDLED_FAMILY in QGuiApplication.font().families()
    before, _replaced_font = _replaced_font, None if is_ours else _create_interface_font(100)
    try:
        yield
    finally:
        _replaced_font = before


def scaled_font(size: int, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
    """Return the interface font at the given size in pixels, multiplied by the text scale."""
    return QFont(_make_font(size, weight, system_font()))


def enlarged_system_font(factor: float) -> QFont:
    """Return the system font, enlarged by a factor; all derived font sizes grow with it."""
    made = QFont(system_font())
    made.setPixelSize(round(DEFAULT_PX * text_scale() * factor))
    return made


def apply_interface_font(percent: int) -> None:
    """Set the application font, from which all sizes are derived.

    It is the shipped font in the system's text size. Characters that it lacks come from the
    system's fonts.

    Parameters
    ----------
    percent : int
        Percentage of the system's text size, or `AUTOMATIC_TEXT`.
    """
    made = _create_interface_font(percent)
    if made != QGuiApplication.font():  # if no font is set, Qt follows the desktop
        QGuiApplication.setFont(made)


def _create_interface_font(percent: int) -> QFont:
    for style in BUNDLED_STYLES:  # Qt loads a file once per application
        QFontDatabase.addApplicationFont(
            str(resource_path("fonts", f"{BUNDLED_FAMILY}-{style}.otf"))
        )
    made = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    made.setFamilies([BUNDLED_FAMILY, *made.families()])
    own = QFontInfo(made).pixelSize()
    if percent == AUTOMATIC_TEXT:
        fitting = round(DEFAULT_PX * text_scale_for_screen(QGuiApplication.primaryScreen().size()))
        if fitting > max(DEFAULT_PX, own):
            made.setPixelSize(fitting)
    elif percent != 100:
        made.setPixelSize(round(max(DEFAULT_PX, own) * percent / 100))
    return made


def text_scale_for_screen(screen: QSize) -> float:
    """Return the text scale for the given screen size in logical pixels.

    On a large screen without desktop scaling, text of normal size is tiny in a maximized window.
    """
    shares = (screen.width() / DEFAULT_SCREEN_SIZE[0], screen.height() / DEFAULT_SCREEN_SIZE[1])
    return min(MAX_AUTOMATIC_SCALE, max(1.0, min(shares)))


def font_metrics(size: int) -> QFontMetricsF:
    """Return the metrics of the interface font at the given size."""
    return _make_metrics(size, system_font())


def text_scale() -> float:
    """Return the ratio of the system's text size to the normal size; at least 1."""
    return _text_scale(system_font())


# These functions are cached, because creating a font takes longer than drawing a label with it.


@lru_cache(maxsize=16)
def _make_font(size: int, weight: QFont.Weight, font: QFont) -> QFont:
    made = QFont(font)
    made.setPixelSize(max(1, round(size * text_scale())))
    made.setWeight(weight)
    return made


@lru_cache(maxsize=8)
def _make_metrics(size: int, font: QFont) -> QFontMetricsF:
    return QFontMetricsF(_make_font(size, QFont.Weight.Normal, font))


@lru_cache(maxsize=2)
def _text_scale(font: QFont) -> float:
    return max(1.0, QFontInfo(font).pixelSize() / DEFAULT_PX)


def clear_font_cache() -> None:
    """Clear the font cache, which must not outlive the application."""
    for kept in (_make_font, _make_metrics, _text_scale):
        kept.cache_clear()
