"""Text can be read and marks can be seen, in every theme: WCAG 2.2, 1.4.3 and 1.4.11."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QColor, QFont, QPalette

from visualizer.ui import theme as themes
from visualizer.ui.theme import (
    DARK,
    HEAD_COLOURS,
    LIGHT,
    PRINT,
    Scheme,
    Theme,
    font,
    palette,
    style_sheet,
    text_scale,
    theme_of,
)

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

THEMES = (LIGHT, DARK, PRINT)
TEXT, MARK = 4.5, 3.0


def luminance(colour: str) -> float:
    channels = (QColor(colour).redF(), QColor(colour).greenF(), QColor(colour).blueF())
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_measured_as_wcag_does() -> None:
    assert contrast("#FFFFFF", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("ink", ["ink", "quiet", "warning"])
@pytest.mark.parametrize("ground", ["paper", "field", "raised"])
def test_text_can_be_read(theme: Theme, ink: str, ground: str) -> None:
    assert contrast(getattr(theme, ink), getattr(theme, ground)) >= TEXT


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_on_the_accent_and_in_it_can_be_read(theme: Theme) -> None:
    assert contrast(theme.on_accent, theme.accent) >= TEXT
    assert contrast(theme.accent, theme.paper) >= TEXT  # links, the chosen term


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize(
    ("mark", "ground"),
    [
        ("accent", "paper"),
        ("accent", "raised"),
        ("accent", "field"),
        ("border", "paper"),
        ("border", "field"),
        ("border", "raised"),
    ],
)
def test_marks_can_be_seen(theme: Theme, mark: str, ground: str) -> None:
    assert contrast(getattr(theme, mark), getattr(theme, ground)) >= MARK


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_colour_is_written_out(theme: Theme) -> None:
    values = [getattr(theme, name) for name in theme.__slots__ if name != "name"]
    assert all(QColor(value).isValid() and len(value) == 7 for value in values)
    assert len({theme.paper, theme.ink, theme.quiet, theme.accent, theme.warning}) == 5


def test_heads_have_colours_of_their_own() -> None:
    assert len(set(HEAD_COLOURS)) == len(HEAD_COLOURS)
    assert all(QColor(colour).isValid() for colour in HEAD_COLOURS)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_widgets_take_the_colours(theme: Theme) -> None:
    made = palette(theme)
    for role, colour in (
        (QPalette.ColorRole.Window, theme.paper),
        (QPalette.ColorRole.WindowText, theme.ink),
        (QPalette.ColorRole.Base, theme.field),
        (QPalette.ColorRole.Text, theme.ink),
        (QPalette.ColorRole.ButtonText, theme.ink),
        (QPalette.ColorRole.Link, theme.accent),
    ):
        assert made.color(QPalette.ColorGroup.Active, role).name().upper() == colour


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_text_of_widgets_can_be_read(theme: Theme) -> None:
    made = palette(theme)
    pairs = (
        (QPalette.ColorRole.WindowText, QPalette.ColorRole.Window),
        (QPalette.ColorRole.Text, QPalette.ColorRole.Base),
        (QPalette.ColorRole.Text, QPalette.ColorRole.AlternateBase),
        (QPalette.ColorRole.PlaceholderText, QPalette.ColorRole.Base),
        (QPalette.ColorRole.ButtonText, QPalette.ColorRole.Button),
        (QPalette.ColorRole.ToolTipText, QPalette.ColorRole.ToolTipBase),
        (QPalette.ColorRole.HighlightedText, QPalette.ColorRole.Highlight),
        (QPalette.ColorRole.Link, QPalette.ColorRole.Base),
    )
    for text, ground in pairs:
        assert contrast(made.color(text).name(), made.color(ground).name()) >= TEXT, text


def test_the_scheme_chooses_the_theme(qapp: QApplication) -> None:
    assert theme_of(Scheme.LIGHT) is LIGHT
    assert theme_of(Scheme.DARK) is DARK
    assert theme_of(Scheme.SYSTEM) in {LIGHT, DARK}


def test_fonts_follow_the_systems_size(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = qapp.font()
    try:
        larger = QFont(usual)
        larger.setPixelSize(26)
        qapp.setFont(larger)
        assert text_scale() == 2
        assert [font(size).pixelSize() for size in (12, 14, 20)] == [24, 28, 40]
        assert "font-size: 24px" in style_sheet(LIGHT)
        larger.setPixelSize(6)
        qapp.setFont(larger)
        assert text_scale() == 1
    finally:
        qapp.setFont(usual)
    assert themes.text_scale() >= 1
