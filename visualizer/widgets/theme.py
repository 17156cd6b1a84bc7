"""Colour schemes and style sheet."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

# Colours that are distinguishable with colour blindness, from Okabe and Ito 2008, "Color Universal
# Design", darkened for contrast in the light theme and slightly adjusted in the dark theme. Blue
# and orange do not come first, because they resemble the colours of negative and positive numbers.
LIGHT_HEAD_COLOURS = (
    "#008D66", "#CC5A05", "#B36190", "#0072B2", "#979359", "#3A99CD", "#C18507", "#919191",
)  # fmt: skip
DARK_HEAD_COLOURS = (
    "#009E73", "#D55E00", "#C577B1", "#0072B2", "#F0E442", "#56B4E9", "#E69F00", "#9D9B96",
)  # fmt: skip


class ColourScheme(StrEnum):
    """Colour scheme setting; `SYSTEM` follows the desktop."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Theme(Struct, frozen=True):
    """One set of colours, as ``#rrggbb``.

    Parameters
    ----------
    side : str
        Background of the menus, panes and playback bar around the heatmaps.
    field : str
        Background of inputs.
    raised : str
        Background of raised items, such as chips and the hovered row.
    warning : str
        Text colour of warnings and errors.
    mask : str
        Colour of masked cells.
    heads : tuple of str
        One colour per head; after the last head, the colours repeat.
    stroke : float
        Scale factor for the width of cursor frames.
    """

    name: str
    paper: str
    side: str
    field: str
    raised: str
    ink: str
    quiet: str
    hairline: str
    border: str
    accent: str
    on_accent: str
    warning: str
    hatch: str
    mask: str
    heads: tuple[str, ...]
    stroke: float = 1.0


LIGHT = Theme(
    "light", "#FBFAF8", "#F5F4F1", "#FFFFFF", "#F5F4F1", "#17191D", "#585D66", "#DEDBD5", "#83878F",
    "#1A62E8", "#FFFFFF", "#A8380B", "#909089", "#F3F1ED", LIGHT_HEAD_COLOURS,
)  # fmt: skip
DARK = Theme(
    "dark", "#14161B", "#191C22", "#1B1E25", "#23272F", "#E9EBEF", "#A3A9B4", "#30353F", "#6C737C",
    "#4F9CFF", "#10131A", "#FFA27A", "#656C75", "#191C22", DARK_HEAD_COLOURS,
)  # fmt: skip
PRINT = Theme(
    "print", "#FFFFFF", "#FFFFFF", "#FFFFFF", "#F4F4F4", "#000000", "#555555", "#DDDDDD", "#777777",
    "#1A62E8", "#FFFFFF", "#A8380B", "#8C8C8C", "#F3F1ED", LIGHT_HEAD_COLOURS,
)  # fmt: skip


def theme_of(scheme: ColourScheme, stroke: float = 1.0) -> Theme:
    """Return the theme of a colour scheme; Qt determines the scheme of the system."""
    is_dark = scheme is ColourScheme.DARK
    if scheme is ColourScheme.SYSTEM:
        is_dark = QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark
    theme = DARK if is_dark else LIGHT
    return theme if stroke == theme.stroke else replace(theme, stroke=stroke)


def head_colour(head: int, theme: Theme) -> str:
    """Return the colour of a head, which is the same in all panes."""
    return theme.heads[head % len(theme.heads)]


def mix_with_background(colour: str, paper: str) -> str:
    """Return the opaque colour that results from blending a colour with the background."""
    one, other = QColor(colour), QColor(paper)
    pairs = ((one.red(), other.red()), (one.green(), other.green()), (one.blue(), other.blue()))
    return QColor(*((mine + its) // 2 for mine, its in pairs)).name()


def palette(theme: Theme) -> QPalette:
    """Convert a theme to a Qt palette."""
    roles = {
        QPalette.ColorRole.Window: theme.paper,
        QPalette.ColorRole.WindowText: theme.ink,
        QPalette.ColorRole.Base: theme.field,
        QPalette.ColorRole.AlternateBase: theme.raised,
        QPalette.ColorRole.Text: theme.ink,
        QPalette.ColorRole.Button: theme.raised,
        QPalette.ColorRole.ButtonText: theme.ink,
        QPalette.ColorRole.ToolTipBase: theme.raised,
        QPalette.ColorRole.ToolTipText: theme.ink,
        QPalette.ColorRole.PlaceholderText: theme.quiet,
        QPalette.ColorRole.Highlight: theme.accent,
        QPalette.ColorRole.HighlightedText: theme.on_accent,
        QPalette.ColorRole.Link: theme.accent,
        QPalette.ColorRole.Accent: theme.accent,
        QPalette.ColorRole.Mid: theme.hairline,
        QPalette.ColorRole.Midlight: theme.side,
        QPalette.ColorRole.Dark: theme.border,
        QPalette.ColorRole.BrightText: theme.warning,
    }
    made = QPalette(QColor(theme.raised), QColor(theme.paper))
    for role, colour in roles.items():
        made.setColor(role, QColor(colour))
    for role in (QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(theme.border))
    made.setColor(QPalette.ColorGroup.Disabled, QPalette.ColorRole.WindowText, QColor(theme.border))
    return made


def create_style_sheet() -> str:
    """Return the style sheet for properties that a palette cannot express, in palette colours."""
    small = round(12 * text_scale())
    return f"""
        * {{ font-size: {small}px; }}
        QMainWindow::separator {{ background: palette(mid); width: 1px; height: 1px; }}
        QMenuBar, QStatusBar {{ background: palette(midlight); color: palette(window-text); }}
        QStatusBar {{ border-top: 1px solid palette(mid); color: palette(placeholder-text); }}
        QToolBar, QToolBar > QWidget {{ background: palette(midlight); }}
        QToolBar {{ border: none; padding: 0; spacing: 0;
            border-top: 1px solid palette(mid); }}
        QStatusBar QLabel {{ padding: 0 12px; }}
        QStatusBar::item {{ border: none; }}
        QLabel[role="pane"] {{ padding: 10px 12px 2px 12px; font-weight: 600; }}
        QLabel[role="quiet"] {{ color: palette(placeholder-text); }}
        QLabel[role="notice"] {{ color: palette(bright-text); padding: 6px 16px; }}
        QLabel[role="warning"] {{ color: palette(bright-text); }}
        QToolButton[role="menu"]::menu-indicator {{ image: none; width: 0; }}
        QScrollArea, [role="plot"] {{ border: none; }}
        QMainWindow > QTabBar::tab {{ padding: 9px 5px 7px 5px; border: none;
            color: palette(placeholder-text); background: palette(midlight); }}
        QMainWindow > QTabBar::tab:selected {{ color: palette(window-text);
            border-bottom: 2px solid palette(window-text); }}
        QMainWindow > QTabBar::tab:hover {{ color: palette(window-text); }}
        QLabel[role="warning badge"] {{ color: palette(bright-text); }}
        QLabel[role$="badge"] {{ background: palette(alternate-base);
            border: 1px solid palette(mid); border-radius: 8px;
            padding: 1px 10px; margin: 1px 8px; }}
        [role="closing"] {{ background: palette(base); padding: 8px 10px 8px 16px;
            border-top: 1px solid palette(mid); border-bottom: 1px solid palette(mid); }}
        [role="onward"] {{ padding: 8px 10px 0 16px; }}
        [role="popover"] {{ background: palette(window); border: 1px solid palette(dark);
            border-radius: 4px; }}
        QPlainTextEdit {{
            background: palette(base); color: palette(window-text); border: 1px solid palette(dark);
            border-radius: 3px; padding: 2px;
        }}
        [role="sentence"] {{ font-size: {round(14 * text_scale())}px; border-radius: 6px;
            padding: 6px; }}
        QPlainTextEdit:focus {{ border: 1px solid palette(highlight); }}
        QCheckBox::indicator:unchecked {{ background: palette(base);
            border: 1px solid palette(dark); border-radius: 2px; }}
        QTableView {{ background: palette(window); color: palette(window-text);
            gridline-color: palette(mid); border: 1px solid palette(mid); }}
        QTableView QLineEdit {{ background: palette(base); color: palette(window-text);
            border: none; }}
        QHeaderView, QHeaderView::section, QTableCornerButton::section {{
            background: palette(window); color: palette(placeholder-text);
            border: none; padding: 0 6px; }}
        QDialogButtonBox {{ dialogbuttonbox-buttons-have-icons: 0; }}
        QToolTip {{ background: palette(alternate-base); color: palette(window-text);
            border: 1px solid palette(mid); padding: 4px; }}
    """


def apply_theme(window: QMainWindow, theme: Theme, sheet: str) -> None:
    """Apply a theme and a style sheet to a window.

    The sheet uses palette colours, which each widget resolves when it is polished. Polishing all
    widgets again takes half as long as applying a different sheet.
    """
    QApplication.setPalette(palette(theme))
    if sheet != window.styleSheet():
        window.setStyleSheet(sheet)
        return
    for widget in (window, *window.findChildren(QWidget)):
        widget.style().polish(widget)
