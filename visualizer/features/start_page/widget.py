"""The start page: pictures that open examples, next to the recent documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from visualizer.features.start_page.examples import (
    EXAMPLE_TEXTS,
    StartPageExample,
    load_picture_data,
)
from visualizer.features.start_page.paint import paint_example_picture
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PySide6.QtGui import QEnterEvent, QKeyEvent, QPaintEvent

    from visualizer.widgets.theme import Theme

WRAPPED_TOP_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
PADDING_PX, CORNER_RADIUS_PX = 16, 6
MIN_SIZE = QSize(228, 240)
SIDEBAR_WIDTH_PX = 224
MAX_WIDTH_PX = 1240
MAX_RECENT_FILES = 6


class ExampleCard(QAbstractButton):
    """A picture with a title and a sentence; a click opens the example."""

    ACCESSIBLE_ROLE = QAccessible.Role.Button
    opened = Signal(str)
    painted = Signal()

    def __init__(self, example: StartPageExample) -> None:
        super().__init__()
        self.example, self._theme = example, LIGHT
        text = EXAMPLE_TEXTS[example]
        self.setText(text.title)
        self.setAccessibleName(text.title)
        self.setAccessibleDescription(text.sentence)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.clicked.connect(self._emit_opened)

    def _emit_opened(self) -> None:
        self.opened.emit(self.example.value)

    def show_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return MIN_SIZE * text_scale()

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.click()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, scale = self._theme, text_scale()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_marked = self.underMouse() or self.isDown()
        painter.setPen(QPen(QColor(theme.border if is_marked else theme.hairline), 1))
        painter.setBrush(QColor(theme.field))
        painter.drawRoundedRect(
            QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), CORNER_RADIUS_PX, CORNER_RADIUS_PX
        )
        inner = QRectF(self.rect()).adjusted(*(at * PADDING_PX * scale for at in (1, 1, -1, -1)))
        text, title = EXAMPLE_TEXTS[self.example], font_metrics(14).height()
        room = QRectF(0, 0, inner.width(), inner.height())
        said = font_metrics(12).boundingRect(room, WRAPPED_TOP_LEFT, text.sentence).height()
        words = title + 4 * scale + max(said, 2 * font_metrics(12).height())
        picture = QRectF(inner)
        picture.setBottom(inner.bottom() - words - 12 * scale)
        paint_example_picture(painter, picture, self.example, load_picture_data(), theme)
        below = QRectF(inner.left(), inner.bottom() - words, inner.width(), words)
        painter.setFont(scaled_font(14, QFont.Weight.DemiBold))
        painter.setPen(QColor(theme.ink))
        painter.drawText(below, WRAPPED_TOP_LEFT, text.title)
        below.setTop(below.top() + title + 4 * scale)
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(theme.quiet))
        painter.drawText(below, WRAPPED_TOP_LEFT, text.sentence)
        painter.end()
        self.painted.emit()


class RecentDocumentButton(QPushButton):
    """Button that opens a recent document; the tooltip shows its folder."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.setFlat(True)
        self.setProperty("role", "recent")


class StartPage(QWidget):
    """Four pictures that open examples, and the recent documents."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    exampleChosen = Signal(str)
    documentChosen = Signal(object)
    """Emitted with the path of a recent document."""
    openRequested = Signal()
    startChosen = Signal(bool)
    """Emitted with whether to show the page at every start."""
    closed = Signal()
    painted = Signal()
    """Emitted when a picture has been painted."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Start page")
        self._recent: tuple[Path, ...] | None = None
        self._theme = LIGHT
        self.cards = {example: ExampleCard(example) for example in EXAMPLE_TEXTS}
        self.recent: list[RecentDocumentButton] = []
        self.no_recent_label = PlainTextLabel("Documents that you open or save appear here.")
        self.open = QPushButton("Open…")
        self.show_at_start_box = QCheckBox("Show this page at startup")
        self.close_button = QPushButton("Close")
        inside = QWidget()
        outer = row_layout(inside, (24, 24, 24, 24), spacing=0)
        self._middle = QWidget()
        self._middle.setMaximumWidth(round(MAX_WIDTH_PX * text_scale()))
        outer.addWidget(self._middle)
        column = column_layout(self._middle, (0, 0, 0, 0), spacing=20)
        column.addLayout(self._build_header())
        row = row_layout(spacing=24)
        row.addLayout(self._build_grid(), 1)
        row.addLayout(self._build_sidebar())
        column.addLayout(row, 1)
        area = QScrollArea()
        area.setWidget(inside)
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column_layout(self, (0, 0, 0, 0)).addWidget(area)

    def _build_header(self) -> QHBoxLayout:
        title = PlainTextLabel("Attention Visualizer")
        title.setFont(scaled_font(20, QFont.Weight.DemiBold))
        title.setStyleSheet(f"font-size: {round(20 * text_scale())}px")
        said = PlainTextLabel("Every number behind attention. Choose an example to start.")
        said.setProperty("role", "quiet")
        words = column_layout(spacing=4)
        words.addWidget(title)
        words.addWidget(said)
        self.close_button.setToolTip("Show the document behind this page (Esc)")
        self.close_button.clicked.connect(self.closed)
        row = row_layout(spacing=8)
        row.addLayout(words, 1)
        row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _build_grid(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setSpacing(16)
        for place, card in enumerate(self.cards.values()):
            card.opened.connect(self.exampleChosen)
            card.painted.connect(self.painted)
            grid.addWidget(card, *divmod(place, 2))
        return grid

    def _build_sidebar(self) -> QVBoxLayout:
        title = PlainTextLabel("Recent documents")
        title.setStyleSheet("font-weight: 600")
        self.no_recent_label.setProperty("role", "quiet")
        self.no_recent_label.setWordWrap(True)
        for label in (title, self.no_recent_label):
            label.setFixedWidth(round(SIDEBAR_WIDTH_PX * text_scale()))
        self.open.clicked.connect(self.openRequested)
        self.show_at_start_box.setToolTip(
            "Show the page when the program starts without a document; see also Help > Start page"
        )
        self.show_at_start_box.clicked.connect(self.startChosen)
        column = column_layout(spacing=8)
        column.addWidget(title)
        self._list = column_layout(spacing=0)
        column.addLayout(self._list)
        column.addWidget(self.no_recent_label)
        column.addWidget(self.open, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)
        column.addWidget(self.show_at_start_box)
        return column

    def show_page(self, recent: Sequence[Path], theme: Theme, *, is_shown_at_start: bool) -> None:
        """Show the newest of the recent documents, and whether the page is shown at startup."""
        newest = tuple(recent[:MAX_RECENT_FILES])
        if newest != self._recent:
            self._recent = newest
            self._show_recent_documents(newest)
        if theme is not self._theme:
            self._theme = theme
            for card in self.cards.values():
                card.show_theme(theme)
        self.show_at_start_box.setChecked(is_shown_at_start)

    def _show_recent_documents(self, recent: tuple[Path, ...]) -> None:
        for old in self.recent:
            old.deleteLater()
        self.recent = [RecentDocumentButton(number) for number in range(len(recent))]
        before: QWidget = self.cards[StartPageExample.TRAINED]
        for button, path in zip(self.recent, recent, strict=True):
            room = round(SIDEBAR_WIDTH_PX * text_scale()) - 16
            name = font_metrics(12).elidedText(path.name, Qt.TextElideMode.ElideMiddle, room)
            button.setText(name.replace("&", "&&"))
            button.setAccessibleName(path.name)
            button.setAccessibleDescription(str(path.parent))
            button.setToolTip(plain_tooltip(f"{path.name} in {path.parent}"))
            button.clicked.connect(self._emit_document_chosen)
            self._list.addWidget(button)
            self.setTabOrder(before, button)
            before = button
        for last in (self.open, self.show_at_start_box, self.close_button):
            self.setTabOrder(before, last)
            before = last
        self.no_recent_label.setVisible(not self.recent)

    def _emit_document_chosen(self) -> None:
        button = self.sender()
        if self._recent and isinstance(button, RecentDocumentButton):
            self.documentChosen.emit(self._recent[button.number])

    def focus_first_example(self) -> None:
        self.cards[StartPageExample.BOOK].setFocus()

    def focusNextPrevChild(self, is_next: bool) -> bool:
        """Keep the focus on the page, because the widgets behind it are not visible."""
        stops = [
            *self.cards.values(),
            *self.recent,
            self.open,
            self.show_at_start_box,
            self.close_button,
        ]
        present = next((at for at, stop in enumerate(stops) if stop.hasFocus()), -1)
        stops[(present + (1 if is_next else -1)) % len(stops)].setFocus(
            Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason
        )
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)
