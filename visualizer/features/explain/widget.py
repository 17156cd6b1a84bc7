"""The Explain pane: the sentence, the number, the terms from which it is computed, and the code."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QPainter,
    QTextBlockFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
)
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QToolButton, QWidget

from visualizer.features.explain.code_widget import CodeSection
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.explain.stage_presenter import EMPTY_STAGE, STAGE_PANEL
from visualizer.format import subscript_symbols
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import WrappingLabel
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QAction, QPaintEvent, QResizeEvent, QShowEvent

    from visualizer.features.explain.presenter import CellExplanation, FormattedTerm
    from visualizer.features.explain.stage_presenter import StageExplanation
    from visualizer.session.screen import Screen

NEXT_TITLE = "Used in"
LINK_INTERACTION = (
    Qt.TextInteractionFlag.TextSelectableByMouse
    | Qt.TextInteractionFlag.LinksAccessibleByMouse
    | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
)
EMPTY_MESSAGE = (
    "Point at a cell to see how its value is computed. Click a cell to pin it, and press Esc to "
    "unpin it."
)
PANE_WIDTH_PX, TRAIL_BUTTON_PX = 280, 22
SIGN_MARGIN_PX = 2
"""Space on each side of a multiplication or division sign, in pixels."""
COLUMN_GAP_PX = 5
"""Space between a name, its factors and its value, in pixels."""
LINE_MARGIN_PX = 4
"""Space above a line, in pixels."""
FACTOR_INDENT_PX = 12
"""Indentation of factors on a line below their name, in pixels."""
SENTENCE_SIZE_PX, VALUE_SIZE_PX, CLOSING_SIZE_PX = 16, 30, 14
BAR_GAP_PX, BAR_HEIGHT_PX, MIN_BAR_WIDTH_PX = 8, 8, 20
MIN_EXPLANATION_PX = 110
"""Height in pixels that is sufficient for the placeholder at any width."""
FORMULA_LINES = 1
"""Number of lines above the first term."""


class TermLayout(Struct, frozen=True):
    """Terms with the widths of their columns in pixels.

    Parameters
    ----------
    factors : tuple of int
        Widths of three columns per factor, for the multiplication sign, the number and the closing
        bracket; 0 if no term has text in the column.
    """

    terms: Sequence[FormattedTerm]
    names: int
    factors: tuple[int, ...]
    values: int

    @property
    def side_by_side_width(self) -> int:
        """The width needed to show the factors next to the names."""
        return self.names + COLUMN_GAP_PX + sum(self.factors) + COLUMN_GAP_PX + self.values

    @property
    def stacked_width(self) -> int:
        """The width needed to show the factors below the names."""
        return max(self.names, FACTOR_INDENT_PX + sum(self.factors) + COLUMN_GAP_PX + self.values)

    def factor_ends(self, room: float) -> tuple[int, ...]:
        """Return the end positions of the factor columns for the given width in pixels."""
        end = self.names + COLUMN_GAP_PX if self.side_by_side_width <= room else FACTOR_INDENT_PX
        return tuple(
            (end := end + width) - SIGN_MARGIN_PX * _is_sign_column(column)
            for column, width in enumerate(self.factors)
            if width
        )

    def format_html(self, theme: Theme, room: float) -> str:
        """Format the lines for the given width in pixels; the last tab stop is the right edge."""
        below = "" if self.side_by_side_width <= room else f"</p>{_paragraph_tag(above=0)}"
        return "".join(
            f"{_paragraph_tag(LINE_MARGIN_PX)}{_highlighted_html(term.name, term, theme)}{below}"
            f"{self._format_factors(number, term, theme)}</p>"
            for number, term in enumerate(self.terms)
        )

    def _format_factors(self, number: int, term: FormattedTerm, theme: Theme) -> str:
        """Format a term's factors and value; each number that was read from a cell is a link."""
        texts = []
        for at in range(len(self.factors) // 3):
            sign, figure, bracket = map(escape, _factor_column_texts(term, at))
            if figure and term.pieces[at].source:
                link = f"<a href='{number}.{at}' style='color:{theme.ink}'>"
                figure, bracket = f"{link}{figure}</a>", f"{link}{bracket}</a>"
            texts += [sign, figure, bracket]
        columns = [text for text, width in zip(texts, self.factors, strict=True) if width]
        return "".join(
            f"\t{each}" for each in (*columns, _highlighted_html(term.value, term, theme))
        )


def measure_terms(terms: Sequence[FormattedTerm], font: QFont) -> TermLayout:
    """Measure the columns of terms; the chosen term is bold, except for its factors."""
    bold_font = QFont(font)
    bold_font.setBold(True)
    plain, bold = QFontMetricsF(font), QFontMetricsF(bold_font)

    def widest(texts: list[tuple[str, bool]]) -> int:
        widths = ((bold if is_bold else plain).horizontalAdvance(text) for text, is_bold in texts)
        return max((int(width) + 1 for width in widths if width), default=0)

    count = max((len(term.pieces) for term in terms), default=0)
    return TermLayout(
        terms,
        names=widest([(term.name, term.is_chosen) for term in terms]),
        factors=tuple(
            widest([(_factor_column_texts(term, at)[part], False) for term in terms])
            + 2 * SIGN_MARGIN_PX * _is_sign_column(3 * at + part)
            for at in range(count)
            for part in range(3)
        ),
        values=widest([(term.value, term.is_chosen) for term in terms]),
    )


def _is_sign_column(column: int) -> bool:
    """Return whether a column contains signs, which stand before all factors except the first."""
    return column > 0 and column % 3 == 0


def _factor_column_texts(term: FormattedTerm, at: int) -> tuple[str, str, str]:
    """Return the sign before a factor, the factor, and the bracket after a negative factor.

    The bracket has its own column; in the number's column, it would misalign the digits.
    """
    if at >= len(term.pieces):
        return "", "", ""
    text = term.pieces[at].text
    sign = term.pieces[at].sign if at else ""
    return (sign, text[:-1], ")") if text.startswith("(") else (sign, text, "")


def _paragraph_tag(above: int) -> str:
    return f"<p style='white-space: pre; margin-top: {above}px; margin-bottom: 0'>"


def _highlighted_html(text: str, term: FormattedTerm, theme: Theme) -> str:
    if not term.is_chosen:
        return escape(text)
    return f"<b style='color:{theme.accent}'>{escape(text)}</b>"


class _ScrolledColumn(QWidget):
    """The scrolled content, with the height that its labels need at the current width.

    Qt's own size hints assume that labels have their minimum width or the width of their last
    layout, which is outdated for labels that were hidden.
    """

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def minimumSizeHint(self) -> QSize:
        layout = self.layout()
        assert layout is not None
        return QSize(0, layout.totalHeightForWidth(self.width()))


class _TermsLabel(WrappingLabel):
    """Label for tab-separated text with right-aligned columns, the last one at its right edge.

    Such lines are parsed and laid out in a quarter of the time that a table takes.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.StaticText

    def __init__(self) -> None:
        super().__init__()
        self._column_ends: tuple[int, ...] = ()
        self._bars: TermLayout | None = None
        self._lines_per_term = 1
        self._theme = LIGHT

    def show_terms(self, html: str, layout: TermLayout, room: float, theme: Theme) -> None:
        """Show terms; a bar between the factors and the value shows the share of each term."""
        self._bars, self._theme = layout, theme
        self._column_ends = layout.factor_ends(room)
        self._lines_per_term = 1 if layout.side_by_side_width <= room else 2
        self.setText(html)
        self._set_tab_stops()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        document, lines = self.findChild(QTextDocument), self._bars
        ends = self._column_ends[-1] if self._column_ends else 0
        left = (ends or (lines.names if lines else 0)) + BAR_GAP_PX
        wide = self.width() - (lines.values if lines else 0) - BAR_GAP_PX - left
        if document is not None and lines and len(lines.terms) > 1 and wide >= MIN_BAR_WIDTH_PX:
            painter = QPainter(self)
            least = min(0.0, *(term.share for term in lines.terms))
            whole = max(0.0, *(term.share for term in lines.terms)) - least or 1.0
            zero = left - wide * least / whole
            for number, term in enumerate(lines.terms):
                line = FORMULA_LINES + (number + 1) * self._lines_per_term - 1
                block = document.findBlockByNumber(line)
                place = document.documentLayout().blockBoundingRect(block)
                middle = place.bottom() - self.fontMetrics().height() / 2
                colour = self._theme.accent if term.is_chosen else self._theme.border
                width = max(1.0, wide * abs(term.share) / whole)
                start = zero - width if term.share < 0 else zero
                bar = QRectF(start, middle - BAR_HEIGHT_PX / 2, width, BAR_HEIGHT_PX)
                painter.fillRect(bar, QColor(colour))
                if least < 0:
                    axis = QRectF(zero - 0.5, place.top(), 1, place.height())
                    painter.fillRect(axis, QColor(self._theme.border))
            painter.end()
        super().paintEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_tab_stops()

    def _set_tab_stops(self) -> None:
        document = self.findChild(QTextDocument)
        if document is None:  # the document is created with the first text
            return
        right = QTextOption.TabType.RightTab
        tabs = [QTextOption.Tab(end, right) for end in (*self._column_ends, self.width())]
        columns = QTextBlockFormat()
        columns.setTabPositions(tabs)
        lines = QTextCursor(document)
        lines.select(QTextCursor.SelectionType.Document)
        lines.mergeBlockFormat(columns)


class ExplainPane(QWidget):
    """Explanation of one cell; each number links to the cell from which it was read.

    The code, and the line that combines the terms, stay visible while the terms scroll.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    linkFollowed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Explain")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self._inner = inner = _ScrolledColumn()
        self._column = column = column_layout(inner, (16, 8, 10, 10), spacing=8)
        self.heading, self.sentence, self.value = (WrappingLabel() for _ in range(3))
        self.terms = _TermsLabel()
        self.trail = QHBoxLayout()
        self.trail.setSpacing(2)
        self.trail.addWidget(self.heading, 1)
        column.addLayout(self.trail)
        for label in (self.heading, self.sentence, self.value):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (self.sentence, self.value, self.terms):
            column.addWidget(label)
        self.terms.setTextInteractionFlags(LINK_INTERACTION)
        self.terms.linkActivated.connect(self._follow_factor_link)
        self.heading.setProperty("role", "quiet")
        column.addStretch(1)
        self.scroll_area = QScrollArea()
        self.scroll_area.setWidgetResizable(True)
        self.scroll_area.setAccessibleName("Explanation")
        self.scroll_area.setWidget(inner)
        inner.installEventFilter(self)
        self.closing = WrappingLabel()
        self.closing.setProperty("role", "closing")
        self.closing.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.onward = WrappingLabel()
        self.onward.setProperty("role", "onward")
        self.onward.setTextInteractionFlags(LINK_INTERACTION)
        self.onward.linkActivated.connect(self._follow_dependent_cell)
        self.code_section = CodeSection()
        whole = column_layout(self, (0, 0, 0, 0), spacing=0)
        # The closing line follows the terms; it stays visible even if only some terms fit.
        whole.addWidget(self.scroll_area, 100)
        whole.addWidget(self.closing)
        whole.addWidget(self.onward)
        whole.addWidget(self.code_section, 100)
        whole.addStretch(1)
        self.unpin_button: QToolButton | None = None
        self._panel: CellExplanation | None = None
        self._stage, self._theme = EMPTY_STAGE, LIGHT
        self._show_texts()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        QTimer.singleShot(0, self, self._lay_out_again)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        QTimer.singleShot(0, self, self._lay_out_again)  # the text may have changed while hidden

    def _lay_out_again(self) -> None:
        """Lay out the pane again, because Qt keeps the old width when a window is first shown."""
        self._write_terms()
        self._column.invalidate()
        self._column.activate()
        self._fit_height()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.LayoutRequest:  # the texts or their font have changed
            self._fit_height()
        return False

    def _fit_height(self) -> None:
        least = round(MIN_EXPLANATION_PX * text_scale())
        height = self._inner.sizeHint().height() + 2 * self.scroll_area.frameWidth()
        self.scroll_area.setMaximumHeight(max(least, height))

    def add_history_buttons(self, *actions: QAction) -> None:
        """Add buttons next to the heading to go back and forward through the followed links."""
        for action in actions:
            button = QToolButton()
            button.setDefaultAction(action)
            self._add_heading_button(button)

    def _add_heading_button(self, button: QToolButton, at: int = -1) -> None:
        """Add a small button next to the heading, which needs most of the width."""
        button.setAutoRaise(True)
        button.setFixedSize(*2 * (round(TRAIL_BUTTON_PX * text_scale()),))
        self.trail.insertWidget(at, button, 0, Qt.AlignmentFlag.AlignTop)

    def add_unpin_button(self, action: QAction) -> None:
        """Add a button that unpins the cell; it is visible only while the cell is pinned."""
        self.unpin_button = button = QToolButton()
        button.setDefaultAction(action)
        policy = button.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # so that the heading is not laid out again
        button.setSizePolicy(policy)
        button.setVisible(bool(self._panel and self._panel.is_pinned))
        self._add_heading_button(button, 1)

    def _follow_factor_link(self, link: str) -> None:
        term, piece = map(int, link.split("."))
        if self._panel:
            self.linkFollowed.emit(self._panel.terms[term].pieces[piece].source)

    def _follow_dependent_cell(self, link: str) -> None:
        if self._panel:
            self.linkFollowed.emit(self._panel.dependent_cells[int(link)].cell)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        self.show_cell(screen.panel(CELL_PANEL), theme, screen.panel(STAGE_PANEL))
        self.code_section.show_screen(screen, theme)

    def show_cell(
        self,
        panel: CellExplanation | None,
        theme: Theme,
        stage: StageExplanation = EMPTY_STAGE,
    ) -> None:
        """Explain a cell or, if `panel` is None, the stage; without either, show a placeholder."""
        stage = EMPTY_STAGE if panel else stage
        if (panel, theme, stage) == (self._panel, self._theme, self._stage):
            return
        self._panel, self._theme, self._stage = panel, theme, stage
        self._show_texts()
        if self.isVisible():
            # Lay out before painting; otherwise Qt paints, resizes, and paints again.
            self._column.activate()
            self._fit_height()
            QCoreApplication.sendEvent(self.scroll_area, QEvent(QEvent.Type.LayoutRequest))

    def _show_texts(self) -> None:
        panel, theme = self._panel, self._theme
        set_accessible_value(self, panel.plain_text if panel else self._stage.plain_text)
        self.value.setVisible(bool(panel and panel.value))
        self.terms.setVisible(bool(panel and panel.formula))
        self.closing.setVisible(bool(panel and panel.closing))
        self.onward.setVisible(bool(panel and panel.dependent_cells))
        if self.unpin_button:
            self.unpin_button.setVisible(bool(panel and panel.is_pinned))
        if panel is None:
            stage = self._stage
            self.heading.setText(escape(stage.heading))
            sentence = _sized_html(subscript_symbols(stage.sentence), SENTENCE_SIZE_PX)
            self.sentence.setText(sentence if stage.sentence else EMPTY_MESSAGE)
            self.value.setVisible(bool(stage.sentence))
            self.value.setText(f"<span style='color:{theme.quiet}'>{EMPTY_MESSAGE}</span>")
            return
        self.heading.setText(subscript_symbols(escape(panel.heading)))
        sentence = subscript_symbols(panel.sentence)
        self.sentence.setText(_sized_html(sentence, SENTENCE_SIZE_PX))
        also = "".join(f"<br>{escape(line)}" for line in panel.additional_sentences)
        value = f"<b>{_sized_html(panel.value, VALUE_SIZE_PX)}</b>"
        self.value.setText(f"{value}<span style='color:{theme.quiet}'>{also}</span>")
        self.closing.setText(_sized_html(f"<b>{escape(panel.closing)}</b>", CLOSING_SIZE_PX))
        self.onward.setText(_dependent_cells_html(panel, theme))
        self._write_terms()

    def _write_terms(self) -> None:
        """Format the terms to fit next to a scroll bar, even if the scroll bar is not visible."""
        panel, theme = self._panel, self._theme
        if panel is None:
            return
        lines = measure_terms(panel.terms, self.terms.font())
        bar = self.scroll_area.verticalScrollBar().sizeHint().width()
        sides = self._column.contentsMargins()
        room = self.width() - bar - sides.left() - sides.right()
        rest = f"<p style='color:{theme.quiet}'>{escape(panel.rest)}</p>" if panel.rest else ""
        self.terms.setMinimumWidth(lines.stacked_width)
        formula = f"<p style='color:{theme.quiet}'>{escape(panel.formula)}</p>"
        html = f"{formula}{lines.format_html(theme, room)}{rest}"
        self.terms.show_terms(html, lines, room, theme)

    def copy_explanation(self) -> None:
        """Copy the sentence and the terms to the clipboard as plain text."""
        if panel := self._panel:
            lines = [panel.heading, panel.plain_text, f"{panel.formula} = {panel.value}"]
            lines += [f"{term.name}\t{term.product}\t{term.value}" for term in panel.terms]
            lines += [line for line in (panel.rest, panel.closing) if line]
            QGuiApplication.clipboard().setText("\n".join(lines))


def _dependent_cells_html(panel: CellExplanation, theme: Theme) -> str:
    """Format the links to the cells that are computed from the cell."""
    links = ", ".join(
        f"<a href='{number}' style='color:{theme.ink}'>{escape(found.words)}</a>"
        for number, found in enumerate(panel.dependent_cells)
    )
    return f"<span style='color:{theme.quiet}'>{NEXT_TITLE} {links}</span>"


def _sized_html(text: str, size: int) -> str:
    return f"<span style='font-size:{round(size * text_scale())}px'>{text}</span>"
