"""Colour schemes of the program, and its style sheet."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette

from visualizer.widgets.fonts import text_scale

# Okabe and Ito 2008, "Color Universal Design": distinguishable by colour-blind eyes. Their hues in
# their order, darkened for the light theme and little changed for the dark, until visible.
ON_LIGHT = (
    "#0072B2", "#C18507", "#008D66", "#B36190", "#3A99CD", "#CC5A05", "#979359", "#919191",
)  # fmt: skip
ON_DARK = (
    "#0072B2", "#E69F00", "#009E73", "#C577B1", "#56B4E9", "#D55E00", "#F0E442", "#9D9B96",
)  # fmt: skip


class Scheme(StrEnum):
    """The chosen colour scheme; system follows the desktop."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Theme(Struct, frozen=True):
    """One set of colours, as ``#rrggbb``.

    Parameters
    ----------
    field : str
        Background of inputs.
    raised : str
        Background of raised items: chips, the hovered row.
    warning : str
        For sentences about problems.
    heads : tuple of str
        One per head, repeated after the last.
    stroke : float
        Factor on the usual width of cursor frames.
    """

    name: str
    paper: str
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
    heads: tuple[str, ...]
    stroke: float = 1.0


LIGHT = Theme(
    "light", "#FBFBF9", "#FFFFFF", "#F1F1ED", "#1D1F23", "#63686F", "#E3E3DE", "#848990",
    "#2F6FDE", "#FFFFFF", "#A8380B", "#909089", ON_LIGHT,
)  # fmt: skip
DARK = Theme(
    "dark", "#16181C", "#1D2025", "#23272D", "#E9E7E2", "#9AA0A8", "#2C3036", "#6C737C",
    "#7FB0FF", "#10131A", "#FFA27A", "#656C75", ON_DARK,
)  # fmt: skip
PRINT = Theme(
    "print", "#FFFFFF", "#FFFFFF", "#F4F4F4", "#000000", "#555555", "#DDDDDD", "#777777",
    "#2F6FDE", "#FFFFFF", "#A8380B", "#8C8C8C", ON_LIGHT,
)  # fmt: skip


def theme_of(scheme: Scheme, stroke: float = 1.0) -> Theme:
    """Return a scheme's theme; the system's is asked of Qt."""
    is_dark = scheme is Scheme.DARK
    if scheme is Scheme.SYSTEM:
        is_dark = QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark
    theme = DARK if is_dark else LIGHT
    return theme if stroke == theme.stroke else replace(theme, stroke=stroke)


def head_colour(head: int, theme: Theme) -> str:
    """Return a head's colour, the same in every pane."""
    return theme.heads[head % len(theme.heads)]


def mixed(colour: str, paper: str) -> str:
    """Return a colour mixed into the background, opaque."""
    one, other = QColor(colour), QColor(paper)
    pairs = ((one.red(), other.red()), (one.green(), other.green()), (one.blue(), other.blue()))
    return QColor(*((mine + its) // 2 for mine, its in pairs)).name()


def palette(theme: Theme) -> QPalette:
    """Translate a theme for Qt's own widgets."""
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
        QPalette.ColorRole.Dark: theme.border,
    }
    made = QPalette(QColor(theme.raised), QColor(theme.paper))
    for role, colour in roles.items():
        made.setColor(role, QColor(colour))
    for role in (QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(theme.border))
    made.setColor(QPalette.ColorGroup.Disabled, QPalette.ColorRole.WindowText, QColor(theme.border))
    return made


def style_sheet(theme: Theme) -> str:
    """Return the style sheet for what a palette cannot express."""
    small = round(12 * text_scale())
    return f"""
        * {{ font-size: {small}px; }}
        QMainWindow::separator {{ background: {theme.hairline}; width: 1px; height: 1px; }}
        QMenuBar, QStatusBar {{ background: {theme.paper}; color: {theme.ink}; }}
        QStatusBar {{ border-top: 1px solid {theme.hairline}; color: {theme.quiet}; }}
        QToolBar {{ background: {theme.paper}; border: none; padding: 0; spacing: 0;
            border-top: 1px solid {theme.hairline}; }}
        QStatusBar QLabel {{ padding: 0 12px; }}
        QStatusBar::item {{ border: none; }}
        QLabel[role="pane"] {{ padding: 10px 12px 2px 12px; font-weight: 600; }}
        QLabel[role="quiet"] {{ color: {theme.quiet}; }}
        QLabel[role="notice"] {{ color: {theme.warning}; padding: 6px 16px; }}
        QLabel[role="warning"] {{ color: {theme.warning}; }}
        QToolButton[role="menu"]::menu-indicator {{ image: none; width: 0; }}
        QScrollArea, [role="plot"] {{ border: none; }}
        QPlainTextEdit {{
            background: {theme.field}; color: {theme.ink}; border: 1px solid {theme.border};
            border-radius: 3px; padding: 2px;
        }}
        QPlainTextEdit:focus {{ border: 1px solid {theme.accent}; }}
        QCheckBox::indicator:unchecked {{ background: {theme.field};
            border: 1px solid {theme.border}; border-radius: 2px; }}
        QTableView {{ background: {theme.paper}; color: {theme.ink};
            gridline-color: {theme.hairline}; border: 1px solid {theme.hairline}; }}
        QTableView QLineEdit {{ background: {theme.field}; color: {theme.ink}; border: none; }}
        QHeaderView, QHeaderView::section, QTableCornerButton::section {{
            background: {theme.paper}; color: {theme.quiet}; border: none; padding: 0 6px; }}
        QToolTip {{ background: {theme.raised}; color: {theme.ink};
            border: 1px solid {theme.hairline}; padding: 4px; }}
    """
