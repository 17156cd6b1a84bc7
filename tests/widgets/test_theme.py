"""Text and marks have sufficient contrast in all themes (WCAG 2.2, 1.4.3 and 1.4.11)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPalette
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QMainWindow

from tests.support.colour_vision import EYES, contrast, oklab, rgb
from visualizer.heatmap.cell_cursor_paint import paint_frame
from visualizer.widgets import fonts
from visualizer.widgets.fonts import scaled_font, text_scale
from visualizer.widgets.theme import (
    DARK,
    LIGHT,
    PRINT,
    ColourScheme,
    Theme,
    apply_theme,
    create_style_sheet,
    head_colour,
    palette,
    theme_of,
)

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

THEMES = (LIGHT, DARK, PRINT)
TEXT, MARK = 4.5, 3.0
# The colours of Okabe and Ito 2008 in their order, without black.
OKABE_ITO = (
    "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#F0E442", "#56B4E9", "#E69F00", "#999999",
)  # fmt: skip
TOLD_APART = 0.05
"""Minimum distance in OKLab; a distance of 0.02 is just noticeable side by side."""


def test_contrast_is_measured_as_wcag_does() -> None:
    assert contrast("#FFFFFF", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("ink", ["ink", "quiet", "warning"])
@pytest.mark.parametrize("ground", ["paper", "field", "raised"])
def test_text_has_sufficient_contrast(theme: Theme, ink: str, ground: str) -> None:
    assert contrast(getattr(theme, ink), getattr(theme, ground)) >= TEXT


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_accent_text_has_sufficient_contrast(theme: Theme) -> None:
    assert contrast(theme.on_accent, theme.accent) >= TEXT
    assert contrast(theme.accent, theme.paper) >= TEXT  # links and the selected term


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
        ("hatch", "paper"),
        ("quiet", "raised"),
        ("warning", "paper"),
        ("paper", "accent"),
    ],
)
def test_marks_have_sufficient_contrast(theme: Theme, mark: str, ground: str) -> None:
    assert contrast(getattr(theme, mark), getattr(theme, ground)) >= MARK


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_colours_are_written_in_full(theme: Theme) -> None:
    names = [name for name in theme.__struct_fields__ if name not in {"name", "heads", "stroke"}]
    values = [*(getattr(theme, name) for name in names), *theme.heads]
    assert all(QColor(value).isValid() and len(value) == 7 for value in values)
    assert len({theme.paper, theme.ink, theme.quiet, theme.accent, theme.warning}) == 5


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("width", [1, 1.5, 3])
def test_a_frame_is_visible_on_any_colour(qapp: QApplication, theme: Theme, width: float) -> None:
    """The accent is between two lines in the background colour, so it is visible on any colour."""
    ground = QColor("#FF00FF")
    picture = QImage(20, 20, QImage.Format.Format_RGB32)
    picture.fill(ground)
    painter = QPainter(picture)
    paint_frame(painter, QRectF(5.5, 5.5, 9, 9), width, theme)
    painter.end()
    colours = [picture.pixelColor(x, 10).name().upper() for x in range(11)]
    across = [colour for colour, _ in groupby(colours)]
    assert across == [ground.name().upper(), theme.paper, theme.accent, theme.paper, "#FF00FF"]
    assert contrast(theme.accent, theme.paper) >= MARK


@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_frame_does_not_hide_the_colour_of_a_small_cell(qapp: QApplication, size: int) -> None:
    picture = QImage(30, 30, QImage.Format.Format_RGB32)
    picture.fill(QColor("#FF00FF"))
    painter = QPainter(picture)
    paint_frame(painter, QRectF(10, 10, size, size), 2, THEMES[0])
    painter.end()
    inside = range(10, 10 + size)
    assert {picture.pixelColor(x, y).name() for x in inside for y in inside} == {"#ff00ff"}


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_head_colours_have_sufficient_contrast(theme: Theme) -> None:
    assert len(theme.heads) == len(OKABE_ITO)
    for head in range(len(theme.heads)):
        assert contrast(head_colour(head, theme), theme.paper) >= MARK, head
        assert head_colour(head + len(theme.heads), theme) == head_colour(head, theme)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("eyes", EYES)
def test_head_colours_are_distinguishable(theme: Theme, eyes: str) -> None:
    seen = oklab(rgb(*theme.heads), eyes)
    apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1)  # head head
    assert apart[np.triu_indices(len(seen), 1)].min() >= TOLD_APART


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_head_colours_keep_their_hues(theme: Theme) -> None:
    hues = [np.arctan2(*oklab(rgb(*colours))[:7, :0:-1].T) for colours in (OKABE_ITO, theme.heads)]
    turned = np.degrees(hues[1] - hues[0] + np.pi) % 360 - 180
    assert np.abs(turned).max() < 10  # the last colour is grey
    assert np.linalg.norm(oklab(rgb(theme.heads[7]))[0, 1:]) < 0.01


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_widgets_use_the_colours(theme: Theme) -> None:
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
def test_text_of_widgets_has_sufficient_contrast(theme: Theme) -> None:
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


def test_the_scheme_determines_the_theme(qapp: QApplication) -> None:
    assert theme_of(ColourScheme.LIGHT) is LIGHT
    assert theme_of(ColourScheme.DARK) is DARK
    assert theme_of(ColourScheme.SYSTEM) in {LIGHT, DARK}


def test_fonts_follow_the_system_size(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = qapp.font()
    try:
        larger = QFont(usual)
        larger.setPixelSize(26)
        qapp.setFont(larger)
        assert text_scale() == 2
        assert [scaled_font(size).pixelSize() for size in (12, 14, 20)] == [24, 28, 40]
        assert "font-size: 24px" in create_style_sheet()
        larger.setPixelSize(6)
        qapp.setFont(larger)
        assert text_scale() == 1
    finally:
        qapp.setFont(usual)
    assert fonts.text_scale() >= 1


def test_a_new_theme_applies_to_all_widgets(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    dialog = QDialog(window)
    seen, unseen = QLabel("seen"), QLabel("unseen", dialog)
    window.setCentralWidget(seen)
    for label in (seen, unseen):
        label.setProperty("role", "quiet")
    with qtbot.waitExposed(window):
        window.show()
    before = QApplication.palette()
    try:
        apply_theme(window, LIGHT, create_style_sheet())
        assert written(seen) == written(unseen) == LIGHT.quiet
        apply_theme(window, DARK, create_style_sheet())
        assert written(seen) == written(unseen) == DARK.quiet
    finally:
        QApplication.setPalette(before)


def written(label: QLabel) -> str:
    return label.palette().color(label.foregroundRole()).name().upper()
