"""Documentation window: searchable contents and a page view."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QLineEdit,
    QPushButton,
    QSplitter,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from visualizer.resources import documentation_path, resource_path
from visualizer.widgets.dialogs import show_message
from visualizer.widgets.documentation_page_browser import DocumentationPageBrowser
from visualizer.widgets.documentation_pages import INDEX_PAGE, read_lesson_pages, read_pages
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.icons import icon
from visualizer.widgets.labels import PlainLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout

if TYPE_CHECKING:
    from PySide6.QtGui import QTextCursor

    from visualizer.widgets.documentation_pages import DocumentationPage

WINDOW_SIZE = QSize(1120, 760)
CONTENTS_WIDTH_PX = 260
ENTER_KEYS = {Qt.Key.Key_Return, Qt.Key.Key_Enter}
SCROLL_KEYS = {Qt.Key.Key_PageUp, Qt.Key.Key_PageDown}
"""Keys that have no effect in the search field and scroll the page instead."""


def open_documentation(window: QWidget, page: str = INDEX_PAGE) -> None:
    """Open the documentation at a page; if it is already open, bring it to the front."""
    shown = window.findChild(DocumentationWindow) or DocumentationWindow(window, page)
    shown.show()
    shown.raise_()
    shown.activateWindow()


@dataclass(slots=True)
class HistoryEntry:
    """An entry of the navigation history.

    Parameters
    ----------
    scroll : int
        Scroll position when the page was left.
    """

    page: str
    anchor: str
    scroll: int | None = None


class ContentsItem(QTreeWidgetItem):
    """Contents entry for a page or section."""

    def __init__(self, words: str, page: str, anchor: str) -> None:
        super().__init__([words])
        self.page, self.anchor = page, anchor


class FindBar(QWidget):
    """Search bar for the current page."""

    sought = Signal(str)
    stepped = Signal(int)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field, self.count = QLineEdit(), PlainLabel()
        self.field.setPlaceholderText("Find in this page")
        self.field.setAccessibleName("Find in this page")
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self.sought)
        self.field.installEventFilter(self)
        self.count.setProperty("role", "quiet")
        row = row_layout(self, (8, 4, 8, 4), spacing=8)
        row.addWidget(self.field, 1)
        row.addWidget(self.count)
        for words, act in (
            ("Previous", partial(self.stepped.emit, -1)),
            ("Next", partial(self.stepped.emit, 1)),
            ("Close", self.left.emit),
        ):
            button = QPushButton(words)
            button.setAutoDefault(False)
            button.clicked.connect(act)
            row.addWidget(button)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Go to the next match on Enter, to the previous one on Shift+Enter."""
        pressed = event if event.type() == QEvent.Type.KeyPress else None
        if isinstance(pressed, QKeyEvent) and pressed.key() in ENTER_KEYS:
            is_back = bool(pressed.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.stepped.emit(-1 if is_back else 1)
            return True
        return super().eventFilter(watched, event)


class DocumentationWindow(QDialog):
    """Shows the documentation and lessons shipped with the program; non-modal."""

    def __init__(self, window: QWidget, page: str = INDEX_PAGE) -> None:
        super().__init__(window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        pages = (*read_pages(documentation_path()), *read_lesson_pages(resource_path("lessons")))
        self.pages = {page.name: page for page in pages}
        self._items: dict[tuple[str, str], ContentsItem] = {}
        self.visited: list[HistoryEntry] = []
        self._at = -1
        self._found = 0
        self.search, self.contents = QLineEdit(), QTreeWidget()
        self.no_results_label = PlainLabel()
        self.browser, self.find_bar = DocumentationPageBrowser(documentation_path()), FindBar()
        self.back, self.forward, self.find_button = QToolButton(), QToolButton(), QPushButton()
        self._lay_out()
        self._fill_contents()
        self._connect_signals()
        self.resize((WINDOW_SIZE * text_scale()).boundedTo(window.size() * 0.9))
        self.open_place(page)
        self._show_theme()
        self.search.setFocus()

    def _lay_out(self) -> None:
        self.search.setPlaceholderText("Search all pages")
        self.search.setAccessibleName("Search all pages")
        self.search.setClearButtonEnabled(True)
        self.contents.setHeaderHidden(True)
        self.contents.setAccessibleName("Contents")
        self.no_results_label.setWordWrap(True)
        self.no_results_label.hide()
        for button, words, keys in (
            (self.back, "Back", "Alt+Left"),
            (self.forward, "Forward", "Alt+Right"),
        ):
            button.setAccessibleName(words)
            button.setToolTip(plain_tooltip(f"{words} ({keys})"))
            button.setAutoRaise(True)
        self.find_button.setText("Find in page")
        self.find_button.setToolTip("Find in page (Ctrl+F)")
        self.find_button.setAutoDefault(False)
        left, right = QWidget(), QWidget()
        column = column_layout(left, (8, 8, 8, 8), spacing=8)
        for part in (self.search, self.no_results_label, self.contents):
            column.addWidget(part)
        bar = row_layout(margins=(8, 8, 8, 8), spacing=4)
        bar.addWidget(self.back)
        bar.addWidget(self.forward)
        bar.addStretch(1)
        bar.addWidget(self.find_button)
        column = column_layout(right, (0, 0, 0, 0), spacing=0)
        column.addLayout(bar)
        column.addWidget(self.browser, 1)
        column.addWidget(self.find_bar)
        self.splitter = QSplitter()
        self.splitter.setChildrenCollapsible(False)
        self.splitter.addWidget(left)
        self.splitter.addWidget(right)
        self.splitter.setStretchFactor(1, 1)
        width = round(CONTENTS_WIDTH_PX * text_scale())
        self.splitter.setSizes([width, WINDOW_SIZE.width() - width])
        column_layout(self, (0, 0, 0, 0), spacing=0).addWidget(self.splitter)

    def _fill_contents(self) -> None:
        for page in self.pages.values():
            item = ContentsItem(page.title, page.name, "")
            self.contents.addTopLevelItem(item)
            self._items[page.name, ""] = item
            for section in page.sections[1:]:
                inner = ContentsItem(section.title, page.name, section.anchor)
                item.addChild(inner)
                self._items[page.name, section.anchor] = inner

    def _connect_signals(self) -> None:
        self.search.textChanged.connect(self._search_pages)
        self.search.returnPressed.connect(self._open_first_found)
        self.search.installEventFilter(self)
        self.contents.currentItemChanged.connect(self._open_item)
        self.contents.itemActivated.connect(self.browser.setFocus)
        self.browser.anchorClicked.connect(self._follow_link)
        self.back.clicked.connect(partial(self.go, -1))
        self.forward.clicked.connect(partial(self.go, 1))
        self.find_button.clicked.connect(self.find_in_page)
        self.find_bar.sought.connect(self._find_text)
        self.find_bar.stepped.connect(self._step_match)
        self.find_bar.left.connect(self._stop_finding)
        for keys, act in (
            ("Alt+Left", partial(self.go, -1)),
            ("Alt+Right", partial(self.go, 1)),
            ("Ctrl+F", self.find_in_page),
            ("Ctrl+Shift+F", self.search_pages),
        ):
            QShortcut(QKeySequence(keys), self).activated.connect(act)

    # ------------------------------------------------------------------ going to places

    def open_place(self, page: str, anchor: str = "") -> None:
        """Show a page or section, and add it to the history."""
        self._leave_place()
        del self.visited[self._at + 1 :]
        self.visited.append(HistoryEntry(page, anchor))
        self._at += 1
        self._show_place()

    def go(self, by: int) -> None:
        """Go back or forward in the history."""
        if 0 <= self._at + by < len(self.visited):
            self._leave_place()
            self._at += by
            self._show_place()

    def _leave_place(self) -> None:
        if self.visited:
            self.visited[self._at].scroll = self.browser.verticalScrollBar().value()

    def _show_place(self) -> None:
        place = self.visited[self._at]
        page = self.pages[place.page]
        self.browser.show_page(page)
        self.browser.go_to(place.anchor)
        if place.scroll is not None:
            self.browser.verticalScrollBar().setValue(place.scroll)
        self.setWindowTitle(f"Documentation: {page.title}")
        self.back.setEnabled(self._at > 0)
        self.forward.setEnabled(self._at < len(self.visited) - 1)
        self._choose_item(place)
        self._find_text(self.find_bar.field.text() if self.find_bar.isVisible() else "")

    def _choose_item(self, place: HistoryEntry) -> None:
        """Select the current place in the contents without opening it again."""
        page = self._items[place.page, ""]
        item = self._items.get((place.page, place.anchor), page)
        page.setExpanded(True)
        self.contents.blockSignals(True)
        self.contents.setCurrentItem(item)
        self.contents.blockSignals(False)
        self.contents.scrollToItem(item)

    def _open_item(self, item: QTreeWidgetItem | None) -> None:
        if isinstance(item, ContentsItem):
            self.open_place(item.page, item.anchor)

    def _follow_link(self, link: QUrl) -> None:
        """Open a link to another page, or a web link in the browser."""
        if link.scheme() in {"http", "https"}:
            if not QDesktopServices.openUrl(link):
                address = escape(link.toString())
                show_message(
                    self,
                    "Documentation",
                    f"Could not open a web browser. The address is:<br>{address}",
                )
            return
        self.open_place(link.path() or self.visited[self._at].page, link.fragment())

    # ------------------------------------------------------------------ searching all pages

    def search_pages(self) -> None:
        """Focus the field that searches all pages."""
        self.search.setFocus()
        self.search.selectAll()

    def _search_pages(self, words: str) -> None:
        """List the sections that contain all words, and highlight the words in the page."""
        is_found = [self._show_found(page, words) for page in self.pages.values()]
        self.no_results_label.setText(f"No pages match “{words}”.")
        self.no_results_label.setVisible(not any(is_found))
        self.browser.mark(words)

    def _show_found(self, page: DocumentationPage, words: str) -> bool:
        found = [section.contains_words(words) for section in page.sections]
        item = self._items[page.name, ""]
        item.setHidden(not any(found))
        item.setExpanded(bool(words.strip()) and any(found))
        for section, is_found in zip(page.sections[1:], found[1:], strict=True):
            self._items[page.name, section.anchor].setHidden(not is_found)
        return any(found)

    def _open_first_found(self) -> None:
        words = self.search.text()
        for page in self.pages.values() if words.strip() else ():
            for at, section in enumerate(page.sections):
                if section.contains_words(words):
                    self.open_place(page.name, section.anchor if at else "")
                    self.browser.setFocus()
                    return

    # ------------------------------------------------------------------ finding in the page

    def find_in_page(self) -> None:
        """Open the search bar for the current page."""
        self.find_bar.show()
        self.find_bar.field.setFocus()
        self.find_bar.field.selectAll()
        self._find_text(self.find_bar.field.text())

    def _find_text(self, text: str) -> None:
        self._found = 0
        self._show_found_place(self.browser.find_all(text))

    def _step_match(self, by: int) -> None:
        places = self.browser.find_all(self.find_bar.field.text())
        if places:
            self._found = (self._found + by) % len(places)
        self._show_found_place(places)

    def _show_found_place(self, places: list[QTextCursor]) -> None:
        text = self.find_bar.field.text()
        if places:
            self.browser.setTextCursor(places[self._found])
        counted = f"{self._found + 1} of {len(places)}" if places else "No matches"
        self.find_bar.count.setText(counted if text else "")

    def _stop_finding(self) -> None:
        self.find_bar.hide()
        self.browser.setFocus()

    # ------------------------------------------------------------------ keys and theme

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """In the search field, Down focuses the contents; Page Up and Down scroll the page."""
        pressed = event if event.type() == QEvent.Type.KeyPress else None
        if isinstance(pressed, QKeyEvent) and pressed.key() in SCROLL_KEYS:
            QApplication.sendEvent(self.browser, event)
            return True
        if isinstance(pressed, QKeyEvent) and pressed.key() == Qt.Key.Key_Down:
            self.contents.setFocus()
            return True
        return super().eventFilter(watched, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """On Esc, close the search bar or else the window."""
        if event.key() == Qt.Key.Key_Escape and self.find_bar.isVisible():
            self._stop_finding()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._show_theme()

    def _show_theme(self) -> None:
        ink = self.palette().windowText().color().name()
        self.back.setIcon(icon("back", ink))
        self.forward.setIcon(icon("chevron-right", ink))
