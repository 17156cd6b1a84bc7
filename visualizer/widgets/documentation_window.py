"""Documentation window: searchable contents and a page view."""

from __future__ import annotations

import re
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QPoint, QRegularExpression, QSignalBlocker, QSize, Qt, QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QImage,
    QKeySequence,
    QShortcut,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextImageFormat,
    QTextLength,
)
from PySide6.QtWidgets import (
    QAbstractSlider,
    QDialog,
    QFrame,
    QLineEdit,
    QSplitter,
    QTextBrowser,
    QTextEdit,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from visualizer.resources import documentation_path, resource_path
from visualizer.widgets.dialogs import show_message
from visualizer.widgets.documentation_pages import (
    INDEX_PAGE,
    find_sections,
    heading_anchor,
    read_documentation_pages,
    read_lesson_pages,
    search_words,
)
from visualizer.widgets.fonts import scaled_font, text_scale
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtGui import QKeyEvent, QResizeEvent, QTextBlock

    from visualizer.widgets.documentation_pages import DocumentationPage, PageSection

WINDOW_SIZE = QSize(1120, 760)
CONTENTS_WIDTH_PX = 260
TEXT_SIZE_PX = 14
MAX_TEXT_WIDTH_PX = 780
"""Maximum width of the text, in pixels at the normal text size, so that lines remain readable."""
MARGIN_PX, SPACE_ABOVE_HEADING_PX, PARAGRAPH_SPACING_PX = 24, 24, 6
LINE_HEIGHT_PERCENT = 115
SCROLL_KEYS = {
    Qt.Key.Key_PageUp: QAbstractSlider.SliderAction.SliderPageStepSub,
    Qt.Key.Key_PageDown: QAbstractSlider.SliderAction.SliderPageStepAdd,
}
"""Keys that scroll the page, because they have no effect in the search field."""


def open_documentation(window: QWidget, page: str = "", anchor: str = "") -> None:
    """Bring the documentation to the front, at a section of a page or at its last position."""
    shown = window.findChild(DocumentationWindow) or DocumentationWindow(window)
    if page:
        shown.browser.open_page(page, anchor)
    shown.show()
    shown.raise_()
    shown.activateWindow()


def page_name(url: QUrl) -> str:
    """Return the name of the page with a URL: its path relative to the documentation."""
    root = QUrl.fromLocalFile(f"{documentation_path()}/")
    return url.path().removeprefix(root.path())


class DocumentationBrowser(QTextBrowser):
    """Browser of the pages, with links and a history; each page has the URL of a file."""

    def __init__(self, pages: dict[str, DocumentationPage]) -> None:
        super().__init__()
        self._pages = pages
        self._formatted_page = ""
        self._search_words: list[str] = []
        self.images: list[QTextCursor] = []
        """Cursors that select the images of the page."""
        self.setOpenLinks(False)  # `openExternalLinks` does not report a missing web browser
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Documentation page")
        self.anchorClicked.connect(self._follow_link)
        self.sourceChanged.connect(self._show_source)

    def open_page(self, page: str, anchor: str = "") -> None:
        """Show a page or section, and add it to the history."""
        url = QUrl.fromLocalFile(str(documentation_path(page)))
        if anchor:
            url.setFragment(anchor)
        self.setSource(url)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Return an image, or the Markdown of a page, which need not exist as a file.

        Images are scaled to the text width here, because Qt would scale them without smoothing.
        Their folder is fixed, because Qt resolves the addresses of a page that it leaves against
        the address of the next one.
        """
        url = QUrl(name)
        if page := self._pages.get(page_name(url)):
            return page.markdown
        image, ratio = (
            QImage(str(documentation_path("pictures", url.fileName()))),
            self.devicePixelRatioF(),
        )
        width = min(image.width(), round(MAX_TEXT_WIDTH_PX * text_scale() * ratio))
        scaled = image.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)
        scaled.setDevicePixelRatio(ratio)
        return scaled

    def _follow_link(self, link: QUrl) -> None:
        """Open a link to another page, or a web link in the web browser."""
        if link.scheme() not in {"http", "https"}:
            self.setSource(link)
        elif not QDesktopServices.openUrl(link):
            address = escape(link.toString())
            show_message(
                self, "Documentation", f"Could not open a web browser. The address is:<br>{address}"
            )

    # ------------------------------------------------------------------ search

    def highlight_words(self, words: str) -> None:
        """Highlight every occurrence of each word; an empty text clears the highlights."""
        self._search_words = search_words(words)
        self._show_highlights()

    def _show_highlights(self) -> None:
        highlight = QTextCharFormat()
        highlight.setBackground(self.palette().highlight())
        highlight.setForeground(self.palette().highlightedText())
        selections = []
        for match in self._find_matches():
            selection = QTextEdit.ExtraSelection()
            selection.cursor, selection.format = match, highlight
            selections.append(selection)
        self.setExtraSelections(selections)

    def _find_matches(self) -> Iterator[QTextCursor]:
        pattern = self._search_pattern()
        match = self.document().find(pattern) if pattern.pattern() else QTextCursor()
        while not match.isNull():
            yield match
            match = self.document().find(pattern, match)

    def _search_pattern(self) -> QRegularExpression:
        return QRegularExpression(
            "|".join(map(re.escape, self._search_words)),
            QRegularExpression.PatternOption.CaseInsensitiveOption,
        )

    def select_match(self, direction: QTextDocument.FindFlag) -> None:
        """Select the next or previous match of the searched words, and wrap around at the end."""
        pattern = self._search_pattern()
        if not pattern.pattern() or self.find(pattern, direction):
            return
        is_backward = direction is QTextDocument.FindFlag.FindBackward
        edge = QTextCursor.MoveOperation.End if is_backward else QTextCursor.MoveOperation.Start
        self.moveCursor(edge)
        self.find(pattern, direction)

    # ------------------------------------------------------------------ appearance

    def changeEvent(self, event: QEvent) -> None:
        """Show the page in the new colours and text size, keeping the scroll position."""
        is_font = event.type() == QEvent.Type.FontChange
        if not is_font:  # Qt would set the font of the controls
            super().changeEvent(event)
        is_rescaled = is_font and self.document().defaultFont() != scaled_font(TEXT_SIZE_PX)
        if is_rescaled or event.type() == QEvent.Type.PaletteChange:
            top = self._first_visible_block()
            self._formatted_page = ""
            self.reload()
            self._scroll_to_block(top)

    def resizeEvent(self, event: QResizeEvent) -> None:
        top = self._first_visible_block()
        super().resizeEvent(event)
        self._limit_text_width()
        self._scroll_to_block(top)

    def _first_visible_block(self) -> int:
        return self.cursorForPosition(QPoint(MARGIN_PX, 0)).blockNumber()

    def _scroll_to_block(self, number: int) -> None:
        block = self.document().findBlockByNumber(number)
        top = self.document().documentLayout().blockBoundingRect(block).top()
        self.verticalScrollBar().setValue(round(top) if number else 0)

    def _limit_text_width(self) -> None:
        """Limit the line width for readability, and fit the images to it."""
        room = self.viewport().width()
        width = min(room - 2 * MARGIN_PX, round(MAX_TEXT_WIDTH_PX * text_scale()))
        frame = self.document().rootFrame()
        frame_format = frame.frameFormat()
        frame_format.setMargin(MARGIN_PX)
        frame_format.setRightMargin(room - MARGIN_PX - width)
        image_format = QTextImageFormat()
        image_format.setMaximumWidth(QTextLength(QTextLength.Type.FixedLength, width))
        with QSignalBlocker(self.document()):
            frame.setFrameFormat(frame_format)
            for image in self.images:
                image.mergeCharFormat(image_format)

    def _show_source(self, url: QUrl) -> None:
        """Format a new page, which adds its anchors, and scroll to the section."""
        if url.path() != self._formatted_page:
            self._formatted_page = url.path()
            self._format_page()
        if url.hasFragment():
            self.scrollToAnchor(url.fragment())

    def _format_page(self) -> None:
        """Add the anchors, spacing and code backgrounds that Qt's Markdown reader omits."""
        self.document().setDefaultFont(scaled_font(TEXT_SIZE_PX))
        self.images.clear()
        with QSignalBlocker(self.document()):  # QTextBrowser would reload an edited document
            edit = QTextCursor(self.document())
            edit.beginEditBlock()
            block = self.document().begin()
            while block.isValid():
                self._format_block(block)
                block = block.next()
            edit.endEditBlock()
        self._limit_text_width()
        self._show_highlights()

    def _format_block(self, block: QTextBlock) -> None:
        layout = QTextBlockFormat()
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        if block.blockFormat().headingLevel():
            layout.setTopMargin(SPACE_ABOVE_HEADING_PX if block.position() else 0)
            layout.setBottomMargin(PARAGRAPH_SPACING_PX)
            anchor = QTextCharFormat()
            anchor.setAnchor(True)
            anchor.setAnchorNames([heading_anchor(block.text())])
            cursor.mergeCharFormat(anchor)
        elif cursor.charFormat().isImageFormat():
            layout.setBottomMargin(PARAGRAPH_SPACING_PX)
            self.images.append(cursor)
        elif _is_code_block(block):
            layout.setBackground(self.palette().alternateBase())
            layout.setTopMargin(0 if _is_code_block(block.previous()) else PARAGRAPH_SPACING_PX)
            layout.setBottomMargin(0 if _is_code_block(block.next()) else PARAGRAPH_SPACING_PX)
        else:
            if cursor.currentTable() is None and block.textList() is None:
                layout.setTopMargin(PARAGRAPH_SPACING_PX)
                layout.setBottomMargin(PARAGRAPH_SPACING_PX)
            layout.setLineHeight(
                LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
            )
        cursor.mergeBlockFormat(layout)


def _is_code_block(block: QTextBlock) -> bool:
    """Return whether a block is part of a fenced code block."""
    return block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence)


class ContentsTreeItem(QTreeWidgetItem):
    """Entry for a page or section, in the contents or among the results of a search."""

    def __init__(self, title: str, page: str, anchor: str = "") -> None:
        super().__init__([title])
        self.page, self.anchor = page, anchor


class DocumentationWindow(QDialog):
    """Non-modal window that shows the documentation and the lessons shipped with the program."""

    def __init__(self, window: QWidget, page: str = INDEX_PAGE) -> None:
        super().__init__(window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        pages = (
            *read_documentation_pages(documentation_path()),
            *read_lesson_pages(resource_path("lessons")),
        )
        self.pages = {page.name: page for page in pages}
        self._items: dict[tuple[str, str], ContentsTreeItem] = {}
        self.search = QLineEdit()
        self.contents, self.results = QTreeWidget(), QTreeWidget()
        self.no_results_label = PlainTextLabel()
        self.browser = DocumentationBrowser(self.pages)
        self.back, self.forward = QToolButton(), QToolButton()
        self._lay_out()
        self._fill_contents()
        self._connect_signals()
        self.resize((WINDOW_SIZE * text_scale()).boundedTo(window.size() * 0.9))
        self.browser.open_page(page)
        self.search.setFocus()

    def _lay_out(self) -> None:
        self.search.setPlaceholderText("Search all pages")
        self.search.setAccessibleName("Search all pages")
        self.search.setToolTip(
            plain_tooltip("Enter opens the first section found; F3 selects the next match in it")
        )
        self.search.setClearButtonEnabled(True)
        for tree, name in ((self.contents, "Contents"), (self.results, "Search results")):
            tree.setHeaderHidden(True)
            tree.setAccessibleName(name)
        self.results.setRootIsDecorated(False)
        self.results.hide()
        self.no_results_label.setWordWrap(True)
        self.no_results_label.hide()
        for button, arrow, name, keys in (
            (self.back, Qt.ArrowType.LeftArrow, "Back", "Alt+Left"),
            (self.forward, Qt.ArrowType.RightArrow, "Forward", "Alt+Right"),
        ):
            button.setArrowType(arrow)
            button.setAccessibleName(name)
            button.setToolTip(plain_tooltip(f"{name} ({keys})"))
            button.setAutoRaise(True)
            button.setEnabled(False)
        left = QWidget()
        column = column_layout(left, (8, 8, 8, 8), spacing=8)
        row = row_layout(spacing=4)
        for part in (self.back, self.forward, self.search):
            row.addWidget(part)
        column.addLayout(row)
        column.addWidget(self.no_results_label)
        column.addWidget(self.contents)
        column.addWidget(self.results)
        splitter = QSplitter()
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(left)
        splitter.addWidget(self.browser)
        splitter.setStretchFactor(1, 1)
        width = round(CONTENTS_WIDTH_PX * text_scale())
        splitter.setSizes([width, WINDOW_SIZE.width() - width])
        column_layout(self, (0, 0, 0, 0), spacing=0).addWidget(splitter)

    def _fill_contents(self) -> None:
        items = dict[str, ContentsTreeItem]()
        for page in self.pages.values():
            items[page.title] = self._items[page.name, ""] = ContentsTreeItem(page.title, page.name)
            if page.group:
                items[page.group].addChild(items[page.title])
            else:
                self.contents.addTopLevelItem(items[page.title])
            parents = {1: items[page.title]}
            for section in page.sections[1:]:
                item = ContentsTreeItem(section.title, page.name, section.anchor)
                self._items[page.name, section.anchor] = parents[section.level] = item
                if page.name == INDEX_PAGE:  # the sections of the index are the groups
                    items[section.title] = item
                    self.contents.addTopLevelItem(item)
                    item.setExpanded(True)
                else:
                    parents[section.level - 1].addChild(item)

    def _connect_signals(self) -> None:
        self.search.textChanged.connect(self._search_pages)
        self.search.returnPressed.connect(self._open_first_match)
        for tree in (self.contents, self.results):
            tree.currentItemChanged.connect(self._open_item)
            tree.itemActivated.connect(self.browser.setFocus)
        self.browser.sourceChanged.connect(self._show_location)
        for button, is_available in (
            (self.back, self.browser.backwardAvailable),
            (self.forward, self.browser.forwardAvailable),
        ):
            is_available.connect(button.setEnabled)
        self.back.clicked.connect(self.browser.backward)
        self.forward.clicked.connect(self.browser.forward)
        for keys, act in (
            ("Alt+Left", self.browser.backward),
            ("Alt+Right", self.browser.forward),
            ("Ctrl+F", self._focus_search),
            ("F3", partial(self.browser.select_match, QTextDocument.FindFlag(0))),
            ("Shift+F3", partial(self.browser.select_match, QTextDocument.FindFlag.FindBackward)),
        ):
            QShortcut(QKeySequence(keys), self).activated.connect(act)

    def _show_location(self, url: QUrl) -> None:
        """Show the page title, and select the section in the contents without reopening it."""
        name = page_name(url)
        page = self._items[name, ""]
        self.setWindowTitle(f"Documentation: {page.text(0)}")
        item = self._items.get((name, url.fragment()), page)
        page.setExpanded(True)
        self.contents.blockSignals(True)
        self.contents.setCurrentItem(item)
        self.contents.blockSignals(False)
        self.contents.scrollToItem(item)

    def _open_item(self, item: QTreeWidgetItem | None) -> None:
        if isinstance(item, ContentsTreeItem):
            self.browser.open_page(item.page, item.anchor)

    def _focus_search(self) -> None:
        self.search.setFocus()
        self.search.selectAll()

    def _search_pages(self, words: str) -> None:
        """List the sections that match, by page, instead of the contents; highlight the words."""
        found = self._find_sections(words)
        self.results.blockSignals(True)  # do not open a page until the user chooses one
        self.results.clear()
        items = dict[str, ContentsTreeItem]()
        for page, section in found:
            if page.name not in items:
                items[page.name] = ContentsTreeItem(page.title, page.name)
                self.results.addTopLevelItem(items[page.name])
                items[page.name].setExpanded(True)
            if section is not page.sections[0]:
                item = ContentsTreeItem(section.title, page.name, section.anchor)
                items[page.name].addChild(item)
        self.results.blockSignals(False)
        is_searching = bool(words.strip())
        self.contents.setVisible(not is_searching)
        self.results.setVisible(bool(found))
        self.no_results_label.setText(f"No pages match “{words}”.")
        self.no_results_label.setVisible(is_searching and not found)
        self.browser.highlight_words(words)

    def _open_first_match(self) -> None:
        for page, section in self._find_sections(self.search.text())[:1]:
            self.browser.open_page(page.name, section.anchor if section.level > 1 else "")
            self.browser.setFocus()

    def _find_sections(self, words: str) -> list[tuple[DocumentationPage, PageSection]]:
        return find_sections(
            (page for page in self.pages.values() if page.name != INDEX_PAGE), words
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """From the search field, focus the contents on Down, and scroll on Page Up and Down."""
        if self.search.hasFocus() and event.key() == Qt.Key.Key_Down:
            (self.contents if self.contents.isVisible() else self.results).setFocus()
        elif self.search.hasFocus() and event.key() in SCROLL_KEYS:
            self.browser.verticalScrollBar().triggerAction(SCROLL_KEYS[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)
