"""The strip of tokens as chips, chosen by mouse and keys."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QKeySequence, QPainter
from PySide6.QtWidgets import QSizePolicy

from visualizer.features.token_strip.chip_paint import chip_widths, paint_chip
from visualizer.features.token_strip.presenter import TokenPanel
from visualizer.heatmap.panel_colour_scale import SHORT
from visualizer.number_format import format_count, format_number
from visualizer.session.token_selection_and_search import span
from visualizer.widgets.accessible_roles_and_values import set_accessible_value
from visualizer.widgets.chip_scroll_area import GAP, ChipScrollArea, chip_height
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import is_command

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent, QWheelEvent

    from visualizer.widgets.theme import Theme

LINES = 4
SAID = 100
"""The most selected tokens that are read out by screen readers."""

CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


class TokenStrip(ChipScrollArea):
    """Token chips wrapped over a few lines; further lines scroll.

    `chose` carries the set of selected tokens.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.List
    chose = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._tokens = TokenPanel()
        self._at = 0
        self._anchor: int | None = None
        self._kept: frozenset[int] = frozenset()
        self._is_held = False

    # ------------------------------------------------------------------ showing

    def show_tokens(self, tokens: TokenPanel, theme: Theme) -> None:
        if tokens == self._tokens and theme is self._theme:
            return
        before, self._tokens, self._theme = self._tokens, tokens, theme
        if tokens.labels != before.labels:
            self._at, self._anchor = 0, None
            self._arrange()
        if len(tokens.subjects) == 1 and tokens.subjects != before.subjects:
            self._see(min(tokens.subjects))
        self._tell()
        self.viewport().update()

    def _tell(self) -> None:
        tokens, weights = self._tokens, self._tokens.weights
        count = format_count(len(tokens.labels), "token")
        self.setAccessibleName(f"Tokens: {count}, {' '.join(tokens.labels[:SAID])}")
        told = ""
        if weights:
            each = zip(tokens.labels[:SAID], weights.values, strict=False)
            read = ", ".join(f"{label} {format_number(value, 2)}" for label, value in each)
            told = f"{weights.plain}: {read}"
        self.setAccessibleDescription(told)
        set_accessible_value(self, told or _lit(tokens))

    def tip(self, token: int) -> str:
        """Return a token in full, and its number."""
        tokens = self._tokens
        said = f"{tokens.labels[token]}, token {token + 1:,}"
        if token in tokens.special:
            said += f" ({tokens.special[token]})"
        if tokens.weights is None:
            return said
        value = format_number(tokens.weights.values[token])
        return f"{said}: {'masked' if tokens.weights.forbidden[token] else value}"

    # ------------------------------------------------------------------ layout

    def sizeHint(self) -> QSize:
        lines = min(LINES, self._lines)
        return QSize(100, round(lines * (self._chip_height + GAP * text_scale())))

    def minimumSizeHint(self) -> QSize:
        return QSize(60, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()

    @property
    def _has_numbers(self) -> bool:
        """Whether a number fits under each token."""
        return len(self._tokens.labels) <= SHORT

    @property
    def _chip_height(self) -> float:
        return chip_height(self._has_numbers)

    @property
    def _lines(self) -> int:
        pitch = self._chip_height + GAP * text_scale()
        return round(self._chips[-1].top() / pitch) + 1 if self._chips else 0

    def _arrange(self) -> None:
        whole, height = self.maximumViewportSize().width(), self._chip_height
        widths = chip_widths(self._tokens.labels, self._has_numbers)
        self._flow(widths, height, whole)
        if self._lines > LINES:
            self._flow(widths, height, whole - self.verticalScrollBar().sizeHint().width())
        pitch, bar = self._chip_height + GAP * text_scale(), self.verticalScrollBar()
        bar.setRange(0, round(max(0, self._lines - LINES) * pitch))
        bar.setSingleStep(round(pitch))
        bar.setPageStep(round(LINES * pitch))
        self.updateGeometry()
        self.viewport().update()

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        down = self.verticalScrollBar().value()
        painter.translate(0, -down)
        seen = QRectF(event.rect()).translated(0, down)
        focused = self._at if self.hasFocus() else None
        first = bisect_left(self._chips, seen.top(), key=QRectF.bottom)
        for token in range(first, len(self._chips)):
            box = self._chips[token]
            if box.top() > seen.bottom():
                break
            if box.intersects(seen):
                paint_chip(painter, box, self._tokens, token, self._theme, token == focused)
        painter.end()

    # ------------------------------------------------------------------ mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        token = self._chip_at(event.position())
        self._is_held = event.button() == Qt.MouseButton.LeftButton and token is not None
        if token is None or not self._is_held:
            return
        chosen, is_added = self._tokens.chosen, bool(event.modifiers() & CONTROL)
        self._kept, self._at = chosen if is_added else frozenset(), token
        if event.modifiers() & SHIFT:
            self._extend(token)
            return
        self._anchor = token
        if is_added:
            self.chose.emit(chosen ^ {token})
        else:
            self.chose.emit(frozenset() if chosen == {token} else frozenset({token}))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        token = self._chip_at(event.position())
        if self._is_held and token is not None and token != self._at:
            self._extend(token)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._is_held = False

    def _extend(self, token: int) -> None:
        """Select the span from the anchor to a token."""
        start = self._at if self._anchor is None else self._anchor
        self._anchor = start
        self._go_to(token)
        self.chose.emit(self._kept | span(start, token))

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:  # without focus, the page scrolls
            event.ignore()

    # ------------------------------------------------------------------ keys

    def keyPressEvent(self, event: QKeyEvent) -> None:
        chosen, token = self._tokens.chosen, self._beside(Qt.Key(event.key()))
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.chose.emit(frozenset(range(len(self._chips))))
        elif not self._chips or is_command(event):
            super().keyPressEvent(event)
        elif token is not None and event.modifiers() & SHIFT:
            self._kept = frozenset()
            self._extend(token)
        elif token is not None:
            self._anchor = None
            self._go_to(token)
        elif event.key() == Qt.Key.Key_Space:
            self._anchor = self._at
            self.chose.emit(chosen ^ {self._at})
        elif event.key() == Qt.Key.Key_Escape and chosen:
            self.chose.emit(frozenset())
        else:
            super().keyPressEvent(event)

    def _beside(self, key: Qt.Key) -> int | None:
        """The token that a navigation key leads to; None for other keys."""
        last = len(self._chips) - 1
        sides = {Qt.Key.Key_Left: self._at - 1, Qt.Key.Key_Right: self._at + 1}
        ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: last}
        if key in sides or key in ends:
            return min(max({**sides, **ends}[key], 0), last)
        lines = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        return self._over(lines[key]) if key in lines and self._chips else None

    def _over(self, lines: int) -> int:
        """The token nearest to the current one in the line above or below."""
        here, pitch = self._chips[self._at], self._chip_height + GAP * text_scale()
        top = here.top() + lines * pitch
        there = [at for at, box in enumerate(self._chips) if abs(box.top() - top) < 1]
        across = here.center().x()
        return min(
            there, key=lambda at: abs(self._chips[at].center().x() - across), default=self._at
        )

    def _go_to(self, token: int) -> None:
        self._at = token
        self._see(token)

    def _see(self, token: int) -> None:
        """Scroll a token into view."""
        box, bar = self._chips[token], self.verticalScrollBar()
        gap = GAP * text_scale() / 2
        low, high = box.bottom() + gap - self.viewport().height(), box.top() - gap
        bar.setValue(round(min(max(bar.value(), low), high)))
        self.viewport().update()


def _lit(tokens: TokenPanel) -> str:
    """Describe the cursor's tokens."""
    places = (("query", tokens.query), ("key", tokens.key))
    return ", ".join(f"{name} {tokens.labels[at]}" for name, at in places if at is not None)
