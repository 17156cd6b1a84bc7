"""The Lesson pane: one page, the results of its checks, and buttons to turn pages."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QWidget,
)

from visualizer.features.lessons.claim_check import ClaimCheckResult
from visualizer.features.lessons.presenter import LESSON_PANEL
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.buttons import FixedWidthButton
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.icons import icon
from visualizer.widgets.labels import HtmlLabel, PlainTextLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from visualizer.features.lessons.claim_check import CheckedClaim
    from visualizer.features.lessons.presenter import LessonPanel
    from visualizer.session.screen import Screen

EMPTY_MESSAGE = "Choose a lesson from the Lessons menu to start it."
NEXT, NEXT_LESSON = "Next", "Next lesson"
PANE_WIDTH_PX = 240
ICON_SIZE = 16

_ICONS = {
    ClaimCheckResult.MATCHES: "check",
    ClaimCheckResult.DIFFERS: "differs",
    ClaimCheckResult.WAITING: "unchecked",
    ClaimCheckResult.CHANGED: "unchecked",
}


class ClaimCheckRow(QWidget):
    """One claim: a mark, its text, and the difference if the numbers do not match."""

    def __init__(self) -> None:
        super().__init__()
        row = row_layout(self, (0, 0, 0, 0), spacing=8)
        self.mark, self.words = PlainTextLabel(), _make_label()
        row.addWidget(self.mark, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.words, 1)

    def show_check(self, check: CheckedClaim, theme: Theme) -> None:
        inks = {ClaimCheckResult.MATCHES: theme.accent, ClaimCheckResult.DIFFERS: theme.warning}
        ink = inks.get(check.state, theme.quiet)
        side = round(ICON_SIZE * text_scale())
        self.mark.setPixmap(icon(_ICONS[check.state], ink).pixmap(side, side))
        words = escape(check.words)
        if check.detail:
            words += f"<br><span style='color:{theme.quiet}'>{escape(check.detail)}</span>"
        self.words.setText(words)


class LessonPane(QWidget):
    """One page of a lesson.

    `stepped` is emitted with +1 or −1 to turn the page.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    stepped = Signal(int)
    restoreRequested = Signal()
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Lesson")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        column = column_layout(self, (12, 8, 12, 12), spacing=8)
        # At the top, so that the buttons stay under the pointer: the heights below them change.
        column.addWidget(self._build_page_buttons())
        column.addLayout(self._build_header())
        column.addWidget(self._build_page_area(), 1)
        self.return_button = _make_button(
            "Restore page settings", "Discard your changes and restore the settings of this page"
        )
        self.return_button.clicked.connect(self.restoreRequested)
        self.return_button.hide()
        column.addWidget(self.return_button)
        self.check_rows: list[ClaimCheckRow] = []
        self._shown: tuple[LessonPanel | None, Theme] | None = None
        self._page: tuple[str, int] | None = None
        self.show_lesson(None, LIGHT)

    def _build_header(self) -> QHBoxLayout:
        head = QHBoxLayout()
        self.lesson = _make_label()
        self.lesson.setProperty("role", "quiet")
        self.close_button = _make_button("Close", "Close the lesson")
        self.close_button.clicked.connect(self.closed)
        head.addWidget(self.lesson, 1)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        return head

    def _build_page_area(self) -> QScrollArea:
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setAccessibleName("Lesson page")
        inner = QWidget()
        self.column = column_layout(inner, (0, 0, 0, 0), spacing=8)
        self.title, self.text = _make_label(), _make_label()
        self.column.addWidget(self.title)
        self.column.addWidget(self.text)
        self.column.addStretch(1)
        self.area.setWidget(inner)
        return self.area

    def _build_page_buttons(self) -> QWidget:
        self.page_buttons = QWidget()
        row = row_layout(self.page_buttons, (0, 0, 0, 0))
        self.back_button = _make_button("Back", "Previous page")
        self.next_button = FixedWidthButton(NEXT, NEXT_LESSON)
        self.next_button.setAccessibleName("Next page")
        self.back_button.clicked.connect(partial(self.stepped.emit, -1))
        self.next_button.clicked.connect(partial(self.stepped.emit, 1))
        self.number = PlainTextLabel()
        self.number.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.number.setProperty("role", "quiet")
        row.addWidget(self.back_button)
        row.addWidget(self.number, 1)
        row.addWidget(self.next_button)
        return self.page_buttons

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        self.show_lesson(screen.panel(LESSON_PANEL), theme)

    def show_lesson(self, panel: LessonPanel | None, theme: Theme) -> None:
        """Show a page, or a placeholder if there is none."""
        if self._shown == (panel, theme):
            return
        self._shown = (panel, theme)
        set_accessible_value(self, panel.description if panel else "")
        for part in (self.lesson, self.close_button, self.title, self.page_buttons):
            part.setVisible(panel is not None)
        if panel is None:
            self.text.setText(EMPTY_MESSAGE)
            self.return_button.hide()
            self._show_checks((), theme)
            return
        self.lesson.setText(escape(" · ".join(filter(None, (panel.lesson, panel.section)))))
        self.title.setText(_html_with_font_size(escape(panel.title), "font-weight:600"))
        code = f"<code style='background-color:{theme.raised}'>"
        self.text.setText(_html_with_font_size(panel.text.replace("<code>", code)))
        self._show_checks(panel.checks, theme)
        self.number.setText(f"{panel.number} of {panel.count}")
        self.back_button.setEnabled(panel.number > 1)
        self.next_button.setEnabled(panel.has_next)
        self.next_button.setText(NEXT_LESSON if panel.next_lesson else NEXT)
        self.next_button.setAccessibleName(panel.next_lesson or "Next page")
        self.return_button.setVisible(panel.is_changed)
        page = (panel.lesson, panel.number)
        if page != self._page:  # a new page starts at its top
            self._page = page
            self.area.verticalScrollBar().setValue(0)

    def _show_checks(self, checks: tuple[CheckedClaim, ...], theme: Theme) -> None:
        while len(self.check_rows) < len(checks):
            self.check_rows.append(ClaimCheckRow())
            self.column.insertWidget(self.column.count() - 1, self.check_rows[-1])
        for number, row in enumerate(self.check_rows):
            row.setVisible(number < len(checks))
            if number < len(checks):
                row.show_check(checks[number], theme)


def _make_label() -> HtmlLabel:
    label = HtmlLabel()
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def _make_button(words: str, name: str) -> QPushButton:
    button = QPushButton(words)
    button.setAccessibleName(name)
    return button


def _html_with_font_size(html: str, more: str = "") -> str:
    return f"<div style='font-size:{round(14 * text_scale())}px; {more}'>{html}</div>"
