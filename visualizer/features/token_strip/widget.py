"""The Tokens pane: the strip of token chips, its colour bar, the role switch and the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLineEdit,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from visualizer.features.token_strip.chip_strip_widget import TokenStrip
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.format import format_count, format_number
from visualizer.heatmap import colour_mapping
from visualizer.heatmap.colour_range import AutomaticColourRange
from visualizer.session.token_selection import TokenRole
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import HtmlLabel, PlainTextLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QPaintEvent

    from visualizer.features.token_strip.patch_strip_widget import PatchStrip
    from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
    from visualizer.session.screen import Screen

BAR_WIDTH_PX, MIN_BAR_WIDTH_PX = 48, 12
SPACING_PX = 6
ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class TokenColourBar(QWidget):
    """Colour bar with its limits; it keeps its size while it is empty."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._weights: TokenWeights | None = None
        self._theme = LIGHT

    def sizeHint(self) -> QSize:
        width = BAR_WIDTH_PX * text_scale() + 2 * (
            font_metrics(12).horizontalAdvance("−0.00") + SPACING_PX
        )
        return QSize(round(width), round(font_metrics(12).height()) + 2)

    def show_weights(self, weights: TokenWeights | None, theme: Theme) -> None:
        """Show the colour map and limits of weights."""
        if weights != self._weights or theme is not self._theme:
            self._weights, self._theme = weights, theme
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        weights = self._weights
        if weights is None:
            return
        low = format_number(weights.low, 2) if weights.low else "0"
        high = str(AutomaticColourRange(weights.high, weights.is_exceeded))
        left, right = (font_metrics(12).horizontalAdvance(end) + SPACING_PX for end in (low, high))
        width = self.width() - left - right
        if width < MIN_BAR_WIDTH_PX * text_scale():
            return  # limits without colours would be meaningless
        painter = QPainter(self)
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(self._theme.quiet))
        painter.drawText(self.rect(), ALIGN_LEFT, low)
        bar = QRectF(left, self.height() / 2 - 3 * text_scale(), width, 6 * text_scale())
        ramp = np.arange(colour_mapping.MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None]
        painter.drawImage(bar, colour_mapping.create_colour_image(ramp, weights.map, self._theme))
        painter.drawText(self.rect(), ALIGN_RIGHT, high)
        painter.end()


HINT = "Point at a cell or select tokens to see attention weights."
IMAGE_HINT = "Point at a patch to see what it attends to; click to select it."
ROLE_LABELS = {TokenRole.QUERY: "attends to", TokenRole.KEY: "attended to by"}
ROLE_TOOLTIPS = {
    TokenRole.QUERY: "Colour the tokens by the attention that the selected tokens pay to them",
    TokenRole.KEY: "Colour the tokens by the attention that they pay to the selected tokens",
}


class TokenPane(QScrollArea):
    """The token strip with its controls.

    `tokensChosen` is emitted with the selected tokens, `hovered` with the image patch under the
    pointer or None, `searchTyped` with the search text, and `stepped` with +1 for the next match or
    −1 for the previous one.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    tokensChosen = Signal(object)
    hovered = Signal(object)
    roleChosen = Signal(object)
    searchTyped = Signal(str)
    stepped = Signal(int)
    menuRequested = Signal(QPoint)

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setAccessibleName("Tokens")
        self.strip: TokenStrip = TokenStrip()
        self.bar = TokenColourBar()
        self.patches: PatchStrip | None = None
        """The strip of image patches, created when the first image is shown."""
        self.strip.tokensChosen.connect(self.tokensChosen)
        self.strip.menuRequested.connect(self.menuRequested)
        self.says = HtmlLabel()
        self.says.setWordWrap(True)
        self.says.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.roles: dict[TokenRole, QToolButton] = {}
        self._theme: Theme | None = None
        self._has_image = False
        inner = QWidget()
        column = column_layout(inner, (16, 12, 16, 12), spacing=6)
        column.addLayout(self._build_header())
        column.addWidget(self._build_search())
        self._strips = column_layout(None, (0, 0, 0, 0), spacing=0)
        self._strips.addWidget(self.strip)
        column.addLayout(self._strips)
        column.addWidget(self.says)
        column.addStretch(1)
        self.setWidget(inner)
        self.setTabOrder(self.roles[TokenRole.KEY], self.strip)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        self.show_tokens(screen.panel(TOKENS_PANEL), theme)

    def show_tokens(self, tokens: TokenPanel, theme: Theme) -> None:
        self._show_strip(tokens, theme)
        self.bar.show_weights(tokens.weights, theme)
        self._show_theme(theme)
        self.roles[tokens.role].setChecked(True)
        hint = (
            f"<span style='color:{theme.quiet}'>{tokens.note or _token_count_hint(tokens)}</span>"
        )
        self.says.setText(tokens.weights.sentence if tokens.weights else hint)
        # The cursor moves constantly: the height of this pane must not change with it.
        lines = 3 if self.visible_strip.is_running_text else 2  # a long text also shows progress
        self.says.setMinimumHeight(round(lines * font_metrics(12).height()) + 1)
        self.found.setText(tokens.found)
        if self.search.text() != tokens.sought and not self.search.hasFocus():
            self.search.setText(tokens.sought)

    @property
    def visible_strip(self) -> TokenStrip:
        """The strip that is shown: image patches or token chips."""
        return self.patches if self.patches and self._has_image else self.strip

    def _show_strip(self, tokens: TokenPanel, theme: Theme) -> None:
        self._has_image = tokens.patches is not None
        if self._has_image and self.patches is None:
            self._create_patch_strip()
        strips = [self.strip, *([self.patches] if self.patches else [])]
        for strip in strips:
            strip.setVisible(strip is self.visible_strip)
        self.visible_strip.show_tokens(tokens, theme)

    def _create_patch_strip(self) -> None:
        from visualizer.features.token_strip.patch_strip_widget import (
            PatchStrip,  # imported on first use, as few texts have an image
        )

        self.patches = PatchStrip()
        self._strips.addWidget(self.patches)
        self.patches.tokensChosen.connect(self.tokensChosen)
        self.patches.menuRequested.connect(self.menuRequested)
        self.patches.hovered.connect(self.hovered)
        self.setTabOrder(self.strip, self.patches)

    def _show_theme(self, theme: Theme) -> None:
        if theme is not self._theme:
            self._theme = theme
            for button in self.roles.values():
                button.setStyleSheet(_role_button_style_sheet(theme))

    def open_search(self) -> None:
        self.search_edit.show()
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def close_search(self) -> None:
        """Close the search and keep the selection."""
        self.search_edit.hide()
        self.visible_strip.setFocus()
        self.searchTyped.emit("")

    def _build_header(self) -> QHBoxLayout:
        row, group = QHBoxLayout(), QButtonGroup(self)
        row.setSpacing(0)
        for role, words in ROLE_LABELS.items():
            button = QToolButton()
            button.setText(words)
            button.setToolTip(ROLE_TOOLTIPS[role])
            button.setAccessibleDescription(ROLE_TOOLTIPS[role])
            button.setCheckable(True)
            button.setProperty("token role", role)
            button.clicked.connect(self._emit_role_chosen)
            group.addButton(button)
            row.addWidget(button)
            self.roles[role] = button
        row.addStretch(1)
        row.addSpacing(8)
        row.addWidget(self.bar)
        return row

    def _build_search(self) -> QWidget:
        self.search_edit, self.search, self.found = QWidget(), TokenSearchEdit(), PlainTextLabel()
        self.found.setProperty("role", "quiet")
        row = row_layout(self.search_edit, (0, 0, 0, 0))
        row.addWidget(self.search, 1)
        row.addWidget(self.found)
        self.search.textEdited.connect(self.searchTyped)
        self.search.stepped.connect(self.stepped)
        self.search.closed.connect(self.close_search)
        self.search_edit.hide()
        return self.search_edit

    def _emit_role_chosen(self) -> None:
        self.roleChosen.emit(TokenRole(self.sender().property("token role")))


class TokenSearchEdit(QLineEdit):
    """Search field: Enter goes to the next match, Shift+Enter to the previous; Esc closes it."""

    stepped = Signal(int)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("Find a token")
        self.setAccessibleName("Find a token")
        self.setToolTip("Enter part of a token, or # and its number, for example #1000")
        self.setObjectName("find token")
        install_input_filters(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.stepped.emit(-1 if is_back else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)


def _token_count_hint(tokens: TokenPanel) -> str:
    if not tokens.labels:
        return ""
    padded = f", padded to {len(tokens.labels):,}" if tokens.padding else ""
    hint = IMAGE_HINT if tokens.patches else HINT
    return f"{format_count(len(tokens.labels) - tokens.padding, 'token')}{padded}. {hint}"


def _role_button_style_sheet(theme: Theme) -> str:
    return f"""
        QToolButton {{ color: {theme.ink}; background: {theme.paper}; padding: 2px 6px;
            border: 1px solid {theme.border}; border-radius: 0; }}
        QToolButton:hover {{ background: {theme.raised}; }}
        QToolButton:checked {{ color: {theme.paper}; background: {theme.ink}; }}
        QToolButton:focus {{ border: 1px solid {theme.accent}; }}
    """
