"""The strip of token chips, and the overview shown next to a long text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QContextMenuEvent,
    QImage,
    QKeySequence,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy

from visualizer.features.token_strip.chip_paint import (
    MAX_NUMBERED_TOKENS,
    LabelWidthCache,
    paint_chip,
    paint_words,
    weight_colour_indices,
    word_height,
)
from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
from visualizer.format import format_count, format_number
from visualizer.heatmap import colour_mapping
from visualizer.session.token_selection import tokens_between
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.chip_area import CHIP_GAP_PX, ChipScrollArea, WrappedChips, chip_height
from visualizer.widgets.fonts import font_metrics, text_scale
from visualizer.widgets.incremental_gui_task import IncrementalTask
from visualizer.widgets.input_filters import has_command_modifier

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent, QWheelEvent

    from visualizer.widgets.theme import Theme

OVERVIEW_WIDTH_PX = 12
"""Width of the overview, in pixels at the default text size."""


def text_minimap_width() -> float:
    """Return the width of the overview at the current text size, in pixels."""
    return OVERVIEW_WIDTH_PX * text_scale()


class TextMinimap(Struct, frozen=True, eq=False):
    """Weights of all lines of a text, with marks at the selected tokens.

    Parameters
    ----------
    tokens, chips, theme : TokenPanel, WrappedChips, Theme
        The content that was painted.
    lines, rows : int
        Number of lines, and number of pixel rows that show them.
    weights : QImage or None
        An image that is one pixel wide; None without weights.
    marked : tuple of int
        Pixel rows that contain selected tokens.
    """

    tokens: TokenPanel
    chips: WrappedChips
    theme: Theme
    lines: int
    rows: int
    weights: QImage | None
    marked: tuple[int, ...]

    def matches_layout(
        self, tokens: TokenPanel, chips: WrappedChips, rows: int, theme: Theme
    ) -> bool:
        """Return whether the overview shows these tokens in this layout."""
        is_same = self.tokens is tokens and self.chips is chips and self.theme is theme
        return is_same and (self.lines, self.rows) == (chips.line_count, rows)

    def paint(self, painter: QPainter, area: QRectF, seen: range) -> None:
        """Paint the overview.

        Parameters
        ----------
        seen : range
            The visible lines, which are framed.
        """
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.fillRect(area, QColor(self.theme.raised))
        if self.weights:
            painter.drawImage(area, self.weights)
        edge = QRectF(area.left(), area.top(), 1, area.height())
        painter.fillRect(edge, QColor(self.theme.hairline))
        for row in self.marked:
            mark = QRectF(area.left(), area.top() + row - 1, area.width() / 2, 3)
            painter.fillRect(mark, QColor(self.theme.accent))
        scale = area.height() / max(1, self.lines)
        top, height = seen.start * scale, max(3.0, len(seen) * scale)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(self.theme.ink), 1))
        painter.drawRect(QRectF(area.left(), area.top() + top, area.width() - 1, height))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)


def create_text_minimap(
    tokens: TokenPanel, chips: WrappedChips, rows: int, theme: Theme
) -> TextMinimap:
    """Create the overview of a text that has at least one line."""
    weights = _render_weights(tokens.weights, chips, rows, theme) if tokens.weights else None
    lines = chips.lines_of_chips(tokens.subjects)
    marked = np.unique(lines * rows // chips.line_count)
    return TextMinimap(
        tokens, chips, theme, chips.line_count, rows, weights, tuple(marked.tolist())
    )


def _render_weights(weights: TokenWeights, chips: WrappedChips, rows: int, theme: Theme) -> QImage:
    """Return a column of pixels; each shows the weight of largest magnitude in its lines."""
    values = weights.values[: len(chips)]
    is_hidden = weights.forbidden[: len(chips)] | ~np.isfinite(values)
    is_hidden[weights.known.stop :] = True
    count = min(rows, chips.line_count)
    starts = chips.line_starts[np.arange(count) * chips.line_count // count]
    shown = np.where(is_hidden, 0, values)
    high, low = np.maximum.reduceat(shown, starts), np.minimum.reduceat(shown, starts)
    entries = weight_colour_indices(np.where(-low > high, low, high), weights)
    entries[np.logical_and.reduceat(is_hidden, starts)] = colour_mapping.FORBIDDEN
    return colour_mapping.create_colour_image(entries[:, None], weights.map, theme)


MAX_CHIP_LINES, MAX_TEXT_LINES = 4, 12
"""Maximum number of lines that are visible without scrolling, for chips and running text."""
MAX_CHIPS = 1000
"""Maximum number of tokens shown as chips; longer texts are shown as running text."""
LINE_GAP_PX = 2
"""Gap between lines of running text, in pixels at the default text size."""
TOKENS_PER_LAYOUT_PART = 4096
"""Number of tokens that are laid out in one step."""
LINE_END, SPACES = "⏎", ("␣", " ")

MAX_RANKED_TOKENS = 20
"""Number of tokens that `go_to_largest` cycles through, in descending order of weight."""
MAX_ANNOUNCED_TOKENS = 100
"""Maximum number of tokens that screen readers announce."""

CONTROL_MODIFIER = Qt.KeyboardModifier.ControlModifier
SHIFT_MODIFIER = Qt.KeyboardModifier.ShiftModifier


class TokenStrip(ChipScrollArea):
    """Scrollable lines of token chips, or of running text if there are many tokens.

    Only visible lines are painted. `tokensChosen` is emitted with the set of selected tokens.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.List
    tokensChosen = Signal(object)
    menuRequested = Signal(QPoint)
    """Emitted with a position on the screen at which to open the menu of the selected tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.tokens = TokenPanel()
        self._label_widths = LabelWidthCache()
        self._widths: list[float] = []
        """Widths of the tokens that have been measured, beginning with the first token."""
        self._line_ends: set[int] = set()
        self._measured_labels: tuple[str, ...] = ()
        self._measured_with: tuple[object, ...] = ()
        self._layout_measures: tuple[object, ...] = ()
        self._layout_task: IncrementalTask | None = None
        self._awaited: int | None = None
        """The token to scroll to once it is laid out."""
        self._is_awaited_on_top = False
        self._at = 0
        self.anchor: int | None = None
        self._kept: frozenset[int] = frozenset()
        self._ranked: TokenWeights | None = None
        self._rank = -1
        """Rank of the token that `go_to_largest` reached last in `_ranked`."""
        self._overview: TextMinimap | None = None
        self._is_held = self._is_on_overview = False

    # ------------------------------------------------------------------ showing

    def show_tokens(self, tokens: TokenPanel, theme: Theme) -> None:
        if tokens == self.tokens and theme is self._theme:
            return
        before, self.tokens, self._theme = self.tokens, tokens, theme
        if tokens.labels != before.labels:
            self._at, self.anchor, self._awaited = 0, None, None
            self._lay_out()
        if len(tokens.subjects) == 1 and tokens.subjects != before.subjects:
            self._scroll_to(min(tokens.subjects))
        elif self.is_running_text and tokens.sought != before.sought and tokens.chosen:
            first = self._first_visible_token()
            self._scroll_to(
                min((at for at in tokens.chosen if at >= first), default=min(tokens.chosen))
            )
        self._update_accessibility()
        self.viewport().update()

    def _update_accessibility(self) -> None:
        tokens, weights = self.tokens, self.tokens.weights
        count = format_count(len(tokens.labels), "token")
        self.setAccessibleName(f"Tokens: {count}, {' '.join(tokens.labels[:MAX_ANNOUNCED_TOKENS])}")
        told = ""
        if weights:
            each = zip(tokens.labels[:MAX_ANNOUNCED_TOKENS], weights.values, strict=False)
            read = ", ".join(f"{label} {format_number(value, 2)}" for label, value in each)
            told = f"{weights.plain_sentence}: {read}"
        self.setAccessibleDescription(told)
        set_accessible_value(self, told or _describe_cursor(tokens))

    def tooltip_text(self, token: int) -> str:
        """Return the tooltip of a token: its full text, its number and its weight."""
        tokens = self.tokens
        said = f"{tokens.labels[token]}, token {token + 1:,}"
        if token in tokens.special:
            said += f" ({tokens.special[token]})"
        if tokens.weights is None or token not in tokens.weights.known:
            return said
        if tokens.weights.forbidden[token]:
            return f"{said}: masked"
        value = format_number(tokens.weights.values[token])
        return f"{said}: {' '.join(filter(None, (value, tokens.weights.qualifier)))}"

    # ------------------------------------------------------------------ layout

    def sizeHint(self) -> QSize:
        lines = min(self._max_visible_lines, self._wrapped.line_count)
        return QSize(100, round(lines * self._line_pitch))

    def minimumSizeHint(self) -> QSize:
        return QSize(60, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        measures = (self.maximumViewportSize().width(), font_metrics(12), text_scale())
        if measures != self._layout_measures:  # the height does not affect line breaks
            self._layout_measures = measures
            self._lay_out()

    @property
    def is_running_text(self) -> bool:
        """Whether tokens are shown as running text rather than chips."""
        return len(self.tokens.labels) > MAX_CHIPS and self.tokens.patches is None

    @property
    def _max_visible_lines(self) -> int:
        return MAX_TEXT_LINES if self.is_running_text else MAX_CHIP_LINES

    @property
    def _has_numbers(self) -> bool:
        """Whether a number is shown under each token."""
        return len(self.tokens.labels) <= MAX_NUMBERED_TOKENS

    @property
    def _chip_height(self) -> float:
        return word_height() if self.is_running_text else chip_height(self._has_numbers)

    @property
    def _chip_gaps(self) -> tuple[float, float]:
        across, down = (0, LINE_GAP_PX) if self.is_running_text else (CHIP_GAP_PX, CHIP_GAP_PX)
        return across * text_scale(), down * text_scale()

    @property
    def _line_pitch(self) -> float:
        return self._chip_height + self._chip_gaps[1]

    def _lay_out(self) -> None:
        """Lay out the tokens; in a long text, lay out only the first tokens now."""
        if self._layout_task:
            self._layout_task.stop()
            self._layout_task = None
        labels, first = self.tokens.labels, self._first_visible_token()
        measures = (font_metrics(12), text_scale())
        if labels is not self._measured_labels or measures != self._measured_with:
            self._measured_labels, self._measured_with = labels, measures
            self._widths, self._line_ends = [], set()
        width = self.maximumViewportSize().width() - (
            text_minimap_width() if self.is_running_text else 0
        )
        self._start_wrapping(width)
        if self._wrapped.line_count > self._max_visible_lines:
            self._start_wrapping(width - self.verticalScrollBar().sizeHint().width())
        if len(self._wrapped) < len(labels):
            self._layout_task = IncrementalTask(self._lay_out_remaining_tokens(), self)
        self._set_scroll_range()
        if self.is_running_text and first:
            self._scroll_to(min(first, len(labels) - 1), is_on_top=True)
        self.updateGeometry()
        self.viewport().update()

    def _first_visible_token(self) -> int:
        """Return the first token of the top line, or of the line that is about to be on top."""
        if self._awaited is not None and self._is_awaited_on_top:
            return self._awaited
        lines = self._wrapped.line_count
        if not lines:
            return 0
        line = round(self.verticalScrollBar().value() / self._wrapped.line_pitch)
        return self._wrapped.chips_in_line(min(line, lines - 1)).start

    def _start_wrapping(self, width: float) -> None:
        """Start a layout with the given line width, and lay out its first tokens."""
        self.chips = self._wrapped = WrappedChips(self._chip_height, width, self._chip_gaps)
        self._lay_out_next_tokens()

    def _lay_out_next_tokens(self) -> None:
        start = len(self._wrapped)
        if start == len(self._widths):
            self._measure_tokens(start)
        self._wrapped.append_chips(
            self._widths[start : start + TOKENS_PER_LAYOUT_PART], self._line_ends
        )

    def _measure_tokens(self, start: int) -> None:
        labels = self.tokens.labels[start : start + TOKENS_PER_LAYOUT_PART]
        if self.is_running_text:
            self._widths += self._label_widths.word_widths(labels, self._has_own_spaces)
            ends = (at for at, label in enumerate(labels, start) if label.endswith(LINE_END))
            self._line_ends.update(ends)
        else:
            self._widths += self._label_widths.chip_widths(labels, self._has_numbers)

    @property
    def _has_own_spaces(self) -> bool:
        """Whether the tokens include the spaces between words."""
        return any(label.startswith(SPACES) for label in self.tokens.labels[:MAX_ANNOUNCED_TOKENS])

    def _lay_out_remaining_tokens(self) -> Generator[None]:
        while len(self._wrapped) < len(self.tokens.labels):
            self._lay_out_next_tokens()
            self._set_scroll_range()
            self.viewport().update()
            if self._awaited is not None:
                self._scroll_to(self._awaited, is_on_top=self._is_awaited_on_top)
            yield
        self._layout_task = None

    def _set_scroll_range(self) -> None:
        bar, seen = self.verticalScrollBar(), self._max_visible_lines
        bar.setRange(0, round(max(0, self._wrapped.line_count - seen) * self._line_pitch))
        bar.setSingleStep(round(self._line_pitch))
        bar.setPageStep(round(seen * self._line_pitch))

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        down = self.verticalScrollBar().value()
        painter.translate(0, -down)
        seen = QRectF(event.rect()).translated(0, down)
        focused = self._at if self.hasFocus() else None
        if self.is_running_text:
            words = [*self._chips_within(seen)]
            paint_words(painter, words, self.tokens, self._theme, focused)
            self._paint_minimap(painter, down)
        else:
            for token, box in self._chips_within(seen):
                paint_chip(painter, box, self.tokens, token, self._theme, token == focused)
        painter.end()

    def _chips_within(self, area: QRectF) -> Iterator[tuple[int, QRectF]]:
        """Yield each token of the lines that intersect an area, with its rectangle."""
        chips = self._wrapped
        if chips.line_count:
            for line in range(chips.line_at(area.top()), chips.line_at(area.bottom()) + 1):
                yield from zip(
                    chips.chips_in_line(line), chips.chip_rects_in_line(line), strict=True
                )

    # ------------------------------------------------------------------ overview

    @property
    def _minimap_area(self) -> QRectF:
        """The rectangle of the overview in the viewport."""
        view, width = self.viewport().rect(), text_minimap_width() if self.is_running_text else 0
        return QRectF(view.width() - width, 0, width, view.height())

    def _paint_minimap(self, painter: QPainter, down: int) -> None:
        area, chips, tokens, theme = self._minimap_area, self._wrapped, self.tokens, self._theme
        rows = round(area.height())
        if not chips.line_count or not rows:
            return
        if not self._overview or not self._overview.matches_layout(tokens, chips, rows, theme):
            self._overview = create_text_minimap(tokens, chips, rows, theme)
        painter.resetTransform()
        first = chips.line_at(down)
        self._overview.paint(painter, area, range(first, first + self._max_visible_lines))

    def _go_to_minimap_row(self, y: float) -> None:
        """Centre the lines that the overview shows at the given y coordinate."""
        area, bar = self._minimap_area, self.verticalScrollBar()
        line = y / area.height() * self._wrapped.line_count
        bar.setValue(round((line - self._max_visible_lines / 2) * self._line_pitch))

    # ------------------------------------------------------------------ mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._is_on_overview = self._minimap_area.contains(event.position())
        if self._is_on_overview:
            self._go_to_minimap_row(event.position().y())
            return
        token = self._chip_at(event.position())
        self._is_held = event.button() == Qt.MouseButton.LeftButton and token is not None
        if token is None or not self._is_held:
            return
        chosen, is_added = self.tokens.chosen, bool(event.modifiers() & CONTROL_MODIFIER)
        self._kept, self._at = chosen if is_added else frozenset(), token
        if event.modifiers() & SHIFT_MODIFIER:
            self._extend_selection(token)
            return
        self.anchor = token
        if is_added:
            self.tokensChosen.emit(chosen ^ {token})
        else:
            self.tokensChosen.emit(frozenset() if chosen == {token} else frozenset({token}))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._is_on_overview:
            self._go_to_minimap_row(event.position().y())
            return
        token = self._chip_at(event.position())
        if self._is_held and token is not None and token != self._at:
            self._extend_selection(token)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._is_held = self._is_on_overview = False

    def _extend_selection(self, token: int) -> None:
        """Select all tokens from the anchor to the given token."""
        start = self._at if self.anchor is None else self.anchor
        self.anchor = start
        self._go_to(token)
        self.tokensChosen.emit(self._kept | tokens_between(start, token))

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:  # without focus, the wheel scrolls the page
            event.ignore()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Select the token, unless it is selected, because the commands act on the selection."""
        is_by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        token = self._at if is_by_key else self._chip_at(QPointF(event.pos()))
        if token is None or token >= len(self.tokens.labels):
            return
        self._at, self.anchor = token, token
        if token not in self.tokens.chosen:
            self.tokensChosen.emit(frozenset({token}))
        self.menuRequested.emit(event.globalPos())

    # ------------------------------------------------------------------ keys

    def keyPressEvent(self, event: QKeyEvent) -> None:
        chosen, token = self.tokens.chosen, self._token_for_key(Qt.Key(event.key()))
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.tokensChosen.emit(frozenset(range(len(self.tokens.labels))))
        elif not self.tokens.labels or has_command_modifier(event):
            super().keyPressEvent(event)
        elif token is not None and event.modifiers() & SHIFT_MODIFIER:
            self._kept = frozenset()
            self._extend_selection(token)
        elif token is not None:
            self.anchor = None
            self._go_to(token)
        elif event.key() == Qt.Key.Key_Space:
            self.anchor = self._at
            self.tokensChosen.emit(chosen ^ {self._at})
        elif event.key() == Qt.Key.Key_Escape and chosen:
            self.tokensChosen.emit(frozenset())
        else:
            super().keyPressEvent(event)

    def go_to_largest_weight(self) -> None:
        """Go to the token with the largest weight; repeated calls cycle through the next ones."""
        weights = self.tokens.weights
        if weights != self._ranked:
            self._ranked, self._rank = weights, -1
        places = weights.largest_tokens(MAX_RANKED_TOKENS) if weights else ()
        if not places:
            return
        self._rank = (self._rank + 1) % len(places)
        self.anchor = None
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._go_to(places[self._rank])

    def _token_for_key(self, key: Qt.Key) -> int | None:
        """Return the token that a navigation key moves to, or None for other keys."""
        last = len(self.tokens.labels) - 1
        tokens = {
            Qt.Key.Key_Left: self._at - 1,
            Qt.Key.Key_Right: self._at + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        if key in tokens:
            return min(max(tokens[key], 0), last)
        lines = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if key in lines and self.tokens.labels:
            return self._token_in_adjacent_line(lines[key])
        return None

    def _token_in_adjacent_line(self, lines: int) -> int:
        """Return the token nearest to the current one in the line above or below."""
        chips, here = self._wrapped, self._wrapped.line_of_chip(self._at)
        if self._at >= len(chips):  # not laid out yet
            return self._at
        there, across = here + lines, self.chips[self._at].center().x()
        if not 0 <= there < chips.line_count:
            return self._at
        centres = [box.center().x() for box in chips.chip_rects_in_line(there)]
        nearest = min(range(len(centres)), key=lambda at: abs(centres[at] - across))
        return chips.chips_in_line(there)[nearest]

    def _go_to(self, token: int) -> None:
        self._at = token
        self._scroll_to(token)

    def _scroll_to(self, token: int, *, is_on_top: bool = False) -> None:
        """Scroll a token into view, or scroll its line to the top, once it has been laid out."""
        is_late = token >= len(self._wrapped)
        self._awaited, self._is_awaited_on_top = (token if is_late else None), is_on_top
        if is_late:
            return
        box, bar = self.chips[token], self.verticalScrollBar()
        if is_on_top:
            bar.setValue(round(self._wrapped.line_of_chip(token) * self._line_pitch))
            return
        gap = self._chip_gaps[1] / 2
        low, high = box.bottom() + gap - self.viewport().height(), box.top() - gap
        bar.setValue(round(min(max(bar.value(), low), high)))
        self.viewport().update()


def _describe_cursor(tokens: TokenPanel) -> str:
    """Return a description of the query and key of the cursor."""
    parts = (("query", tokens.query), ("key", tokens.key))
    return ", ".join(f"{name} {tokens.labels[at]}" for name, at in parts if at is not None)
