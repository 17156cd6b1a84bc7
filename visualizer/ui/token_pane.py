"""The tokens with all that belongs to them: the switch of roles, a search, the bar of colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visualizer.state.chosen import Role
from visualizer.state.words import counted, number
from visualizer.ui import colours
from visualizer.ui.labels import PlainLabel, RichLabel
from visualizer.ui.manners import teach
from visualizer.ui.theme import LIGHT, Theme, font, metrics, text_scale
from visualizer.ui.tokens import TokenStrip

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QPaintEvent

    from visualizer.state.tokens import Shares, Tokens

HINT = "Point at a cell or choose tokens to see what is read."
WORDS = {Role.QUERY: "reads", Role.KEY: "is read by"}
TIPS = {
    Role.QUERY: "Colour the tokens by what the chosen ones read",
    Role.KEY: "Colour the tokens by how much they read of the chosen ones",
}
BAR = 48
SPACE = 6
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class TokenPane(QWidget):
    """The strip of tokens and what one can do with it.

    `sought` carries what is looked for, `stepped` one match on or back.
    """

    roleChosen = Signal(object)
    sought = Signal(str)
    stepped = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.strip, self.bar = TokenStrip(), ShareBar()
        self.says = RichLabel()
        self.says.setWordWrap(True)
        self.says.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.roles: dict[Role, QToolButton] = {}
        self._theme: Theme | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(self._head())
        column.addWidget(self._search())
        for widget in (self.strip, self.says):
            column.addWidget(widget)
        self.setTabOrder(self.roles[Role.KEY], self.strip)

    def show_tokens(self, tokens: Tokens, theme: Theme) -> None:
        """Show a text's tokens."""
        self.strip.show_tokens(tokens, theme)
        self.bar.show_shares(tokens.shares, theme)
        self._show_theme(theme)
        self.roles[tokens.role].setChecked(True)
        hint = f"<span style='color:{theme.quiet}'>{tokens.note or _counted(tokens)}</span>"
        self.says.setText(tokens.shares.says if tokens.shares else hint)
        # The heatmaps are pointed at all the time: what is under this must not move with it.
        self.says.setMinimumHeight(round(2 * metrics(12).height()) + 1)
        self.found.setText(tokens.found)
        if self.search.text() != tokens.sought and not self.search.hasFocus():
            self.search.setText(tokens.sought)

    def _show_theme(self, theme: Theme) -> None:
        if theme is not self._theme:
            self._theme = theme
            for button in self.roles.values():
                button.setStyleSheet(_style(theme))

    def open_search(self) -> None:
        """Look for a token."""
        self.finder.show()
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def close_search(self) -> None:
        """Look for nothing any more; what is chosen stays."""
        self.finder.hide()
        self.strip.setFocus()
        self.sought.emit("")

    def _head(self) -> QHBoxLayout:
        row, group = QHBoxLayout(), QButtonGroup(self)
        row.setSpacing(0)
        for role, words in WORDS.items():
            button = QToolButton()
            button.setText(words)
            button.setToolTip(TIPS[role])
            button.setAccessibleDescription(TIPS[role])
            button.setCheckable(True)
            button.setProperty("token role", role)
            button.clicked.connect(self._choose_role)
            group.addButton(button)
            row.addWidget(button)
            self.roles[role] = button
        row.addStretch(1)
        row.addSpacing(8)
        row.addWidget(self.bar)
        return row

    def _search(self) -> QWidget:
        self.finder, self.search, self.found = QWidget(), SearchLine(), PlainLabel()
        self.found.setProperty("role", "quiet")
        row = QHBoxLayout(self.finder)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.search, 1)
        row.addWidget(self.found)
        self.search.textEdited.connect(self.sought)
        self.search.stepped.connect(self.stepped)
        self.search.left.connect(self.close_search)
        self.finder.hide()
        return self.finder

    def _choose_role(self) -> None:
        self.roleChosen.emit(Role(self.sender().property("token role")))


class SearchLine(QLineEdit):
    """What is looked for; Enter goes to the next match, Shift+Enter back, Esc leaves."""

    stepped = Signal(int)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("Find a token")
        self.setAccessibleName("Find a token")
        self.setObjectName("find token")
        teach(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.stepped.emit(-1 if is_back else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)


class ShareBar(QWidget):
    """The bar of colours with the numbers at its ends; its place is kept while there is none."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._shares: Shares | None = None
        self._theme = LIGHT

    def sizeHint(self) -> QSize:
        width = BAR * text_scale() + 2 * (metrics(12).horizontalAdvance("−0.00") + SPACE)
        return QSize(round(width), round(metrics(12).height()) + 2)

    def show_shares(self, shares: Shares | None, theme: Theme) -> None:
        """Show the colours of shares."""
        if shares != self._shares or theme is not self._theme:
            self._shares, self._theme = shares, theme
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        shares = self._shares
        if shares is None:
            return
        low, high = number(shares.low, 2), number(shares.high, 2)
        left, right = (metrics(12).horizontalAdvance(end) + SPACE for end in (low, high))
        width = max(0.0, self.width() - left - right)
        painter = QPainter(self)
        painter.setFont(font(12))
        painter.setPen(QColor(self._theme.quiet))
        painter.drawText(self.rect(), LEFT, low)
        bar = QRectF(left, self.height() / 2 - 3 * text_scale(), width, 6 * text_scale())
        ramp = np.arange(colours.LARGEST + 1, dtype=np.uint8)[None]
        painter.drawImage(bar, colours.image(ramp, shares.map, self._theme))
        painter.drawText(self.rect(), RIGHT, high)
        painter.end()


def _counted(tokens: Tokens) -> str:
    if not tokens.labels:
        return ""
    padded = f", padded to {len(tokens.labels):,}" if tokens.padding else ""
    return f"{counted(len(tokens.labels) - tokens.padding, 'token')}{padded}. {HINT}"


def _style(theme: Theme) -> str:
    return f"""
        QToolButton {{ color: {theme.ink}; background: {theme.paper}; padding: 2px 6px;
            border: 1px solid {theme.border}; border-radius: 0; }}
        QToolButton:hover {{ background: {theme.raised}; }}
        QToolButton:checked {{ color: {theme.paper}; background: {theme.ink}; }}
        QToolButton:focus {{ border: 1px solid {theme.accent}; }}
    """
