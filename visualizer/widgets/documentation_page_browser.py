"""Shows a documentation page in the program's colours and text size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, Qt, QUrl
from PySide6.QtGui import (
    QFont,
    QFontDatabase,
    QImage,
    QPalette,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrameFormat,
    QTextImageFormat,
    QTextLength,
    QTextTable,
)
from PySide6.QtWidgets import QFrame, QTextBrowser, QTextEdit

from visualizer.widgets.documentation_pages import heading_anchor
from visualizer.widgets.fonts import scaled_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from PySide6.QtGui import QBrush, QColor, QResizeEvent, QTextBlock, QTextFragment

    from visualizer.widgets.documentation_pages import DocumentationPage

TEXT, CODE = 14, 13
HEADING_SIZES_PX = {1: 24, 2: 18, 3: 14}
"""Font sizes in pixels, at the normal text size."""
MAX_TEXT_WIDTH = 820
"""Maximum width of the text in pixels, at the normal text size; keeps lines readable."""
MARGIN, PADDING, ABOVE_HEADING = 24, 6, 24
LINE_HEIGHT_PERCENT = 115
"""Line height in per cent of the font's."""
MONOSPACE_FAMILY = "monospace"
"""Font family that Qt assigns to keys."""
MAX_SEARCH_MARKS = 1_000


APPEARANCE_CHANGES = {QEvent.Type.PaletteChange, QEvent.Type.StyleChange, QEvent.Type.FontChange}


class DocumentationPageBrowser(QTextBrowser):
    """Shows one page; it emits `anchorClicked` but does not follow links."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._page: DocumentationPage | None = None
        self._made: QTextDocument | None = None
        self._anchors: dict[str, int] = {}
        self.pictures: list[tuple[int, str, QImage]] = []
        self._width = 0
        self._appearance: tuple[object, ...] = ()
        self._marked = ""
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Documentation page")

    def show_page(self, page: DocumentationPage) -> None:
        """Show a page from the top; it is rendered only if it is a different page."""
        if page is not self._page:
            self._page = page
            self._render_page()
        self._scroll_to(self.document().firstBlock())

    def go_to(self, anchor: str) -> None:
        """Scroll to a heading, or to the top if there is no such heading."""
        block = self.document().findBlock(self._anchors.get(anchor, 0))
        self.setTextCursor(QTextCursor(block))
        self._scroll_to(block)

    def _scroll_to(self, block: QTextBlock) -> None:
        """Scroll a paragraph to the top; for the first one, include the page margin."""
        top = self.document().documentLayout().blockBoundingRect(block).top()
        self.verticalScrollBar().setValue(round(top) if block.position() else 0)

    # ------------------------------------------------------------------ finding

    def find_all(self, text: str) -> list[QTextCursor]:
        """Find all occurrences of a text, ignoring case."""
        found: list[QTextCursor] = []
        place = self.document().find(text, 0) if text else QTextCursor()
        while not place.isNull() and len(found) < MAX_SEARCH_MARKS:
            found.append(place)
            place = self.document().find(text, place)
        return found

    def mark(self, words: str) -> None:
        """Highlight every occurrence of each word; an empty text clears the highlights."""
        self._marked = words
        marked = QTextCharFormat()
        marked.setBackground(self.palette().highlight())
        marked.setForeground(self.palette().highlightedText())
        marks = []
        for word in words.split():
            for place in self.find_all(word):
                mark = QTextEdit.ExtraSelection()
                mark.cursor, mark.format = place, marked
                marks.append(mark)
        self.setExtraSelections(marks)

    # ------------------------------------------------------------------ rendering

    def changeEvent(self, event: QEvent) -> None:
        """Render the page in the new colours and text size, keeping the scroll position."""
        top = (
            self._first_visible_block()
            if self._page and event.type() in APPEARANCE_CHANGES
            else None
        )
        super().changeEvent(event)
        if top is None:
            return
        if self._appearance != self._present_appearance():
            self._render_page()
        else:  # Qt has set the font for controls
            self.document().setDefaultFont(scaled_font(TEXT))
        self._scroll_to(self.document().findBlockByNumber(top))

    def resizeEvent(self, event: QResizeEvent) -> None:
        top = self._first_visible_block()
        super().resizeEvent(event)
        self._fit_width(self.document())
        self._scroll_to(self.document().findBlockByNumber(top))

    def _first_visible_block(self) -> int:
        """Return the number of the first visible paragraph."""
        return self.cursorForPosition(QPoint(MARGIN, 0)).blockNumber()

    def _present_appearance(self) -> tuple[object, ...]:
        colours = (each.name() for each in self._palette_colours())
        return (*colours, text_scale(), self.font().family())

    def _palette_colours(self) -> tuple[QColor, ...]:
        roles = (QPalette.ColorRole.Text, QPalette.ColorRole.Link, QPalette.ColorRole.Mid)
        return tuple(self.palette().color(role) for role in roles)

    def _render_page(self) -> None:
        """Render the page into a new document, so that it is laid out only once."""
        assert self._page
        self._appearance = self._present_appearance()
        made = QTextDocument(self)
        made.setUndoRedoEnabled(False)
        made.setDefaultFont(scaled_font(TEXT))
        made.setMarkdown(self._page.markdown, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
        raised, border = self.palette().alternateBase(), self.palette().mid()
        self._anchors = format_blocks(made, raised)
        for frame in made.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                format_table(frame, border)
        self.pictures = [
            (position, name, QImage(str(self._folder / name)))
            for position, name in find_images(made)
        ]
        self._width = 0
        self._fit_width(made)
        self.setDocument(made)
        if self._made:
            self._made.deleteLater()
        self._made = made
        self.mark(self._marked)

    def _fit_width(self, document: QTextDocument) -> None:
        """Limit the line width for readability, and fit the images to it."""
        room = self.viewport().width()
        width = max(1, min(room - 2 * MARGIN, round(MAX_TEXT_WIDTH * text_scale())))
        frame = document.rootFrame()
        shape = frame.frameFormat()
        shape.setMargin(MARGIN)
        shape.setRightMargin(max(MARGIN, room - MARGIN - width))
        frame.setFrameFormat(shape)
        if width == self._width:
            return
        self._width = width
        for position, name, picture in self.pictures:
            self._fit_picture(document, position, name, picture, width)

    def _fit_picture(
        self, document: QTextDocument, position: int, name: str, picture: QImage, width: int
    ) -> None:
        """Scale an image to the text width with smooth filtering, which Qt does not use."""
        sharp = self.devicePixelRatioF()
        smooth = Qt.TransformationMode.SmoothTransformation
        scaled = picture.scaledToWidth(min(picture.width(), round(width * sharp)), smooth)
        scaled.setDevicePixelRatio(sharp)
        document.addResource(QTextDocument.ResourceType.ImageResource.value, QUrl(name), scaled)
        image = QTextImageFormat()
        image.setWidth(scaled.width() / sharp)
        image.setHeight(scaled.height() / sharp)
        merge_format(document, position, position + 1, image)


def format_blocks(document: QTextDocument, raised: QBrush) -> dict[str, int]:
    """Format headings, code and text; return the position of each heading."""
    anchors: dict[str, int] = {}
    shapes, spans = [], []
    for block in iterate_blocks(document):
        start, end = block.position(), block.position() + len(block.text())
        if level := block.blockFormat().headingLevel():
            anchors[heading_anchor(block.text())] = start
            shapes.append((start, heading_block_format(is_first=start == 0)))
            spans.append((start, end, heading_format(level)))
        elif is_code(block):
            shapes.append((start, code_block_format(block, raised)))
            spans.append((start, end, code_format()))
        elif not any(part.charFormat().isImageFormat() for part in iterate_fragments(block)):
            shapes.append((start, text_block_format(is_paragraph=is_paragraph(block))))
            spans.extend(find_code_and_links(block, raised))
    for start, shape in shapes:
        cursor = QTextCursor(document)
        cursor.setPosition(start)
        cursor.mergeBlockFormat(shape)
    for span in spans:
        merge_format(document, *span)
    return anchors


def heading_block_format(*, is_first: bool) -> QTextBlockFormat:
    """Return the margins of a heading."""
    shape = QTextBlockFormat()
    shape.setTopMargin(0 if is_first else ABOVE_HEADING)
    shape.setBottomMargin(PADDING)
    return shape


def text_block_format(*, is_paragraph: bool) -> QTextBlockFormat:
    """Return the line height of text and the margins of a paragraph."""
    shape = QTextBlockFormat()
    if is_paragraph:
        shape.setTopMargin(PADDING)
        shape.setBottomMargin(PADDING)
    shape.setLineHeight(
        LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
    )
    return shape


def code_block_format(block: QTextBlock, raised: QBrush) -> QTextBlockFormat:
    """Return the background of a line of code, and the margins of its block."""
    shape = QTextBlockFormat()
    shape.setBackground(raised)
    shape.setTextIndent(PADDING)
    if not is_code(block.previous()):
        shape.setTopMargin(2 * PADDING)
    if not is_code(block.next()):
        shape.setBottomMargin(2 * PADDING)
    return shape


def is_paragraph(block: QTextBlock) -> bool:
    """Whether a block is outside tables and lists."""
    return QTextCursor(block).currentTable() is None and block.textList() is None


def is_code(block: QTextBlock) -> bool:
    """Whether a block is part of a fenced code block."""
    return block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence)


def iterate_blocks(document: QTextDocument) -> Iterator[QTextBlock]:
    """Iterate over paragraphs, headings and lines of code."""
    block = document.begin()
    while block.isValid():
        yield block
        block = block.next()


def find_code_and_links(
    block: QTextBlock, raised: QBrush
) -> Iterator[tuple[int, int, QTextCharFormat]]:
    """Find inline code, keys and links, with their formats."""
    for part in iterate_fragments(block):
        kind, span = part.charFormat(), (part.position(), part.position() + part.length())
        if kind.fontFixedPitch() or MONOSPACE_FAMILY in (kind.fontFamilies() or ()):
            style = code_format()
            style.setBackground(raised)
            yield *span, style
        if kind.isAnchor():
            underlined = QTextCharFormat()
            underlined.setFontUnderline(True)
            yield *span, underlined


def find_images(document: QTextDocument) -> Iterator[tuple[int, str]]:
    """Find the images, with their file names."""
    for block in iterate_blocks(document):
        for part in iterate_fragments(block):
            if part.charFormat().isImageFormat():
                yield part.position(), part.charFormat().toImageFormat().name()


def iterate_fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    """Iterate over the fragments of a block, each with a single format."""
    within = block.begin()
    while not within.atEnd():
        yield within.fragment()
        within += 1


def merge_format(document: QTextDocument, start: int, end: int, style: QTextCharFormat) -> None:
    """Merge a format into a part of the text."""
    cursor = QTextCursor(document)
    cursor.setPosition(start)
    cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
    cursor.mergeCharFormat(style)


def format_table(table: QTextTable, border: QBrush) -> None:
    """Draw a table with hairlines, as wide as the text."""
    shape = table.format()
    shape.setBorder(1)
    shape.setBorderBrush(border)
    shape.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    shape.setBorderCollapse(True)
    shape.setCellSpacing(0)
    shape.setCellPadding(PADDING)
    shape.setTopMargin(PADDING)
    shape.setBottomMargin(PADDING)
    shape.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
    table.setFormat(shape)


def heading_format(level: int) -> QTextCharFormat:
    """Return the format of a heading."""
    style = QTextCharFormat()
    style.setFont(scaled_font(HEADING_SIZES_PX[level], QFont.Weight.DemiBold))
    return style


def code_format() -> QTextCharFormat:
    """Return the format of code and keys."""
    family = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    style = QTextCharFormat()
    style.setFontFamilies([family])
    style.setProperty(QTextFormat.Property.FontPixelSize, round(CODE * text_scale()))
    return style
