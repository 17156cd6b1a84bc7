"""The code below an explanation, with a choice of dialect and a copy button."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QFont,
    QFontDatabase,
    QPainter,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QComboBox,
    QPlainTextEdit,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from visualizer.features.explain.code_presenter import CODE_PANEL, DIALECT_TITLES
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import HtmlLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent, QResizeEvent

    from visualizer.features.explain.code_presenter import CodeContents, DisplayedCodeLine
    from visualizer.session.screen import Screen

EMPTY_MESSAGE = "The code that computes these values appears here."
LINE_BAR_WIDTH_PX = 3
LINE_INDENT = "  "


class CodeTextView(QPlainTextEdit):
    """A read-only code view with a bar to the left of the current lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setPlaceholderText(EMPTY_MESSAGE)
        self.setAccessibleName("Code")
        self.setFont(_monospace_font())
        self.document().setDocumentMargin(2 * LINE_BAR_WIDTH_PX + 2)
        self._lines: tuple[DisplayedCodeLine, ...] = ()
        self._current: tuple[int, ...] = ()
        self._theme = LIGHT

    def show_lines(self, lines: tuple[DisplayedCodeLine, ...], theme: Theme) -> None:
        """Show lines of code; if only the current lines have changed, reformat only those."""
        new, old = ([*map(_line_with_shape, each)] for each in (lines, self._lines))
        is_same = theme == self._theme and new == old
        current = tuple(number for number, line in enumerate(lines) if line.is_highlighted)
        changed = sorted({*self._current} ^ {*current}) if is_same else list(range(len(lines)))
        if not is_same:
            self._replace_text(lines)  # first, because this may run out of memory
        self._lines, self._current, self._theme = lines, current, theme
        together = QTextCursor(self.document())  # one edit block, to lay out the text once
        together.beginEditBlock()
        for number in changed:
            self._format_line(number)
        together.endEditBlock()
        if not is_same or changed:
            self._describe_current_lines()
            self._scroll_to_current()
            self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the text and the bars next to the current lines."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        for number in self._current:
            block = self.document().findBlockByNumber(number)
            place = self.blockBoundingGeometry(block).translated(self.contentOffset())
            bar = QRectF(0, place.top(), LINE_BAR_WIDTH_PX, place.height())
            painter.fillRect(bar, QColor(self._theme.accent))
        painter.end()

    def scrollContentsBy(self, across: int, down: int) -> None:
        """Repaint the viewport, because scrolling it does not move the bars."""
        super().scrollContentsBy(across, down)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the current line visible when the height changes."""
        super().resizeEvent(event)
        self._scroll_to_current()

    def _replace_text(self, lines: tuple[DisplayedCodeLine, ...]) -> None:
        """Replace the text and keep the scroll position."""
        bars = (self.horizontalScrollBar(), self.verticalScrollBar())
        places = [bar.value() for bar in bars]
        self.setPlainText("\n".join(_line_with_shape(line) for line in lines))
        for bar, place in zip(bars, places, strict=True):
            bar.setValue(place)

    def _format_line(self, number: int) -> None:
        """Format a line: comments are subdued, and current lines are bold."""
        line = self._lines[number]
        start = self.document().findBlockByNumber(number).position()
        code = 0 if line.is_comment else len(line.text)
        ink = QTextCharFormat()
        ink.setForeground(QColor(self._theme.ink))
        ink.setFontWeight(QFont.Weight.Bold if line.is_highlighted else QFont.Weight.Normal)
        quiet = QTextCharFormat()
        quiet.setForeground(QColor(self._theme.quiet))
        cursor = QTextCursor(self.document())
        for begin, end, form in ((0, code, ink), (code, len(_line_with_shape(line)), quiet)):
            cursor.setPosition(start + begin)
            cursor.setPosition(start + end, QTextCursor.MoveMode.KeepAnchor)
            cursor.setCharFormat(form)

    def _describe_current_lines(self) -> None:
        running = [_line_with_shape(self._lines[number]) for number in self._current]
        self.setAccessibleDescription(f"Current code: {'; '.join(running)}" if running else "")

    def _scroll_to_current(self) -> None:
        """Scroll as little as possible to show the current lines."""
        if not self._current:
            return
        bar = self.verticalScrollBar()
        first, last = self._current[0], self._current[-1]
        if first < bar.value():
            bar.setValue(first)
        elif last >= bar.value() + bar.pageStep():
            bar.setValue(last - bar.pageStep() + 1)


class CodeSection(QWidget):
    """Section with the current line or all lines of code, a choice of dialect and a copy button.

    `dialectChosen` is emitted with a `CodeDialect`, and `scriptRequested` when the user asks to
    copy the whole script.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    dialectChosen = Signal(object)
    scriptRequested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Code")
        column = column_layout(self, (16, 10, 10, 10), spacing=6)
        self.box, self.code = QComboBox(), CodeTextView()
        self.code.setMinimumHeight(self.code.fontMetrics().lineSpacing() * 4)
        self.show_all = self._create_button("Show all code")
        self.show_all.setCheckable(True)
        self.show_all.toggled.connect(self._toggle_all)
        self.copy = self._create_button("Copy as script")
        self.copy.clicked.connect(self.scriptRequested)
        self.copy.setEnabled(False)
        self._set_up_dialect_box()
        row = row_layout(spacing=4)
        row.addWidget(self.show_all)
        row.addWidget(self.copy)
        row.addStretch(1)
        self.running = HtmlLabel()
        self.running.setWordWrap(True)
        self.running.setFont(_monospace_font())
        column.addWidget(self.running)
        column.addLayout(row)
        column.addWidget(self.box)
        column.addWidget(self.code, 1)
        self._shown: tuple[CodeContents | None, Theme] | None = None
        self.show_code(None, LIGHT)
        self._toggle_all(False)

    @staticmethod
    def _create_button(words: str) -> QToolButton:
        button = QToolButton()
        button.setText(words)
        button.setAutoRaise(True)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return button

    def _toggle_all(self, is_open: bool) -> None:
        self.show_all.setText("Hide code" if is_open else "Show all code")
        self.box.setVisible(is_open)
        self.code.setVisible(is_open)
        height = QSizePolicy.Policy.Expanding if is_open else QSizePolicy.Policy.Maximum
        self.setSizePolicy(QSizePolicy.Policy.Preferred, height)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        self.show_code(screen.panel(CODE_PANEL), theme)

    def show_code(self, panel: CodeContents | None, theme: Theme) -> None:
        """Show a run's code, or a placeholder if there is none."""
        if self._shown == (panel, theme):
            return
        self._shown = (panel, theme)
        self.running.setAccessibleDescription(panel.title if panel else "")
        set_accessible_value(self, panel.title if panel else "")
        if panel:
            self.box.setCurrentIndex([*DIALECT_TITLES].index(panel.dialect))
        lines = panel.lines if panel else ()
        current = [_wrapping_html(line, theme) for line in lines if line.is_highlighted]
        self.running.setText("<br>".join(current))
        self.running.setVisible(bool(current))
        self.code.show_lines(lines, theme)

    def _set_up_dialect_box(self) -> None:
        self.box.setAccessibleName("Code style")
        # Screen readers use a combo box's text as its name.
        self.box.setAccessibleDescription(self.box.accessibleName())
        self.box.addItems([*DIALECT_TITLES.values()])
        self.box.setMinimumContentsLength(8)
        self.box.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.box.activated.connect(self._choose_dialect)
        install_input_filters(self.box)

    def _choose_dialect(self, index: int) -> None:
        panel = self._shown[0] if self._shown else None
        if panel:  # keep showing the old dialect until the next update confirms the choice
            self.box.setCurrentIndex([*DIALECT_TITLES].index(panel.dialect))
        self.dialectChosen.emit([*DIALECT_TITLES][index])


def _monospace_font() -> QFont:
    made = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    made.setPixelSize(round(12 * text_scale()))
    return made


def _line_with_shape(line: DisplayedCodeLine) -> str:
    return f"{line.text}{LINE_INDENT}{line.shape}" if line.shape else line.text


def _wrapping_html(line: DisplayedCodeLine, theme: Theme) -> str:
    """Format a line so that it can wrap wherever Python allows a line break."""
    code = escape(line.text)
    for mark in ("(", ",", "."):
        code = code.replace(mark, f"{mark}\N{ZERO WIDTH SPACE}")
    return f"<b>{code}</b><br><font color='{theme.quiet}'>{escape(line.shape)}</font>"
