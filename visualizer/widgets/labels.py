"""Labels that wrap or elide plain text or trusted HTML.

`QLabel` guesses whether a text is HTML. A token, a file name, or an error message that quotes
either may look like HTML, and HTML can read files and block the program.
"""

from __future__ import annotations

import math
from html import escape, unescape
from itertools import product
from re import split, sub
from typing import TYPE_CHECKING

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QTextDocument
from PySide6.QtWidgets import QLabel, QSizePolicy, QToolTip, QWidget

from visualizer.format import subscript_symbols
from visualizer.widgets.fonts import scaled_font, text_scale

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint
    from PySide6.QtGui import QResizeEvent

_JOINER = "\N{WORD JOINER}"
_BROKEN = str.maketrans({"<": f"<{_JOINER}", "&": f"&{_JOINER}"})


def plain_tooltip(text: str) -> str:
    """Insert invisible characters into a text, so that Qt shows it literally.

    The characters have no width and do not allow a line break. Escaping would change the line
    wrapping, and screen readers would read out the HTML.
    """
    return text.translate(_BROKEN) if QtGui.Qt.mightBeRichText(text) else text


def show_tooltip(place: QPoint, text: str, widget: QWidget) -> None:
    """Show a tooltip at a screen position; an empty text hides it."""
    QToolTip.showText(place, plain_tooltip(text), widget)


MIN_WIDTH_PX = 100


class HtmlLabel(QLabel):
    """Label that shows HTML; callers must escape text from files and from the user."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.RichText)


class ErrorLabel(HtmlLabel):
    """Error message with a link that fixes the error; hidden if there is no error."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self.setProperty("role", "warning")
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self.hide()

    def show_problem(self, sentence: str, remedy: str) -> None:
        """Show an error message, followed by a link if there is a remedy."""
        html = escape(sentence)
        if remedy:
            html += f" <a href='mend'>{escape(remedy)}</a>"
        self.setText(html)
        self.setVisible(bool(sentence))


class WrappingLabel(HtmlLabel):
    """Label that wraps HTML in a single layout, whereas `QLabel` tries several widths per text."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self._heights: dict[int, int] = {}

    def setText(self, text: str) -> None:
        if text != self.text():
            self._heights.clear()
            super().setText(text)
            self._parse_text()

    def _parse_text(self) -> None:
        """Parse the text before the layout, because `QLabel` lays it out after each option."""
        document = self.findChild(QTextDocument)
        if document:  # created with the first text
            document.setLayoutEnabled(False)
            super().heightForWidth(self.width())
            document.setLayoutEnabled(True)

    def changeEvent(self, event: QEvent) -> None:
        self._heights.clear()
        super().changeEvent(event)

    def heightForWidth(self, width: int) -> int:
        if width not in self._heights:
            self._heights[width] = super().heightForWidth(width)
        return self._heights[width]

    def sizeHint(self) -> QSize:
        return QSize(MIN_WIDTH_PX, self.heightForWidth(max(self.width(), MIN_WIDTH_PX)))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


FONT_SIZES_PX = (20, 18, 16, 14)


def largest_fitting_font_size(html: str, room: float) -> tuple[int, bool]:
    """Return the largest font size at which a line fits, and whether the line must be wrapped."""
    plain = html_to_text(html)
    for size in FONT_SIZES_PX:
        if QFontMetricsF(scaled_font(size, QFont.Weight.DemiBold)).horizontalAdvance(plain) <= room:
            return size, False
    return FONT_SIZES_PX[-1], True


class ElidedHtmlLabel(HtmlLabel):
    """Lines of HTML, the last of which is elided; the height does not depend on the text.

    Parameters
    ----------
    pixels : tuple of int
        Font sizes at the normal text size, in descending order; the first size at which the
        text fits is used or, if none fits, the last.
    lines : int
        Maximum number of lines.
    """

    def __init__(self, name: str, pixels: tuple[int, ...], lines: int = 1) -> None:
        super().__init__()
        self._versions: tuple[str, ...] = ("",)
        self._result = ""
        self._pixels, self._lines = pixels, lines
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleDescription(name)

    @property
    def full_text(self) -> str:
        """The whole text without markup."""
        return html_to_text(self._versions[0] + self._result)

    def show_html(self, versions: tuple[str, ...], result: str = "") -> None:
        """Set the text, and the result that follows it and is never elided.

        Parameters
        ----------
        versions : tuple of str
            The text in descending order of length; the first version that fits is shown.
        """
        if (versions, result) != (self._versions, self._result):
            self._versions, self._result = versions, result
            self.setAccessibleName(self.full_text)
            self._fit_text()

    def sizeHint(self) -> QSize:
        line = QFontMetricsF(scaled_font(self._pixels[0])).lineSpacing()
        return QSize(MIN_WIDTH_PX, self._lines * math.ceil(line))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit_text()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_text()
            self.updateGeometry()

    def _fit_text(self) -> None:
        room = self.contentsRect().width()
        for html, pixels in product(self._versions, self._pixels):
            shown, is_whole = wrap_html(html, room, pixels, self._lines, self._result)
            if is_whole:
                break
        self.setToolTip("" if is_whole else plain_tooltip(self.full_text))
        shown = subscript_symbols(shown)
        self.setText(f"<span style='font-size:{round(pixels * text_scale())}px'>{shown}</span>")


def html_to_text(html: str) -> str:
    """Return simple HTML as it is displayed: without tags, with consecutive spaces collapsed."""
    return sub(" +", " ", unescape(sub("<[^>]*>", "", html)))


def wrap_html(
    html: str, room: float, pixels: int, lines: int, result: str = ""
) -> tuple[str, bool]:
    """Return HTML that is wrapped into at most `lines` lines, and whether all of it fits.

    The last line is elided, except for the result at its end. Brackets that are open before the
    result are closed.
    """
    wrapped = []
    for _ in range(lines - 1):
        line, rest = _break_html(html, room, pixels)
        if not line:
            break
        wrapped.append(line)
        html = rest
    bold = QFontMetricsF(scaled_font(pixels, QFont.Weight.Bold))
    end = html_to_text(result)
    last = elide_html(html, room - bold.horizontalAdvance(end), pixels)
    is_whole = last == html
    if result and not is_whole:
        last = elide_html(html, room - bold.horizontalAdvance(")" + end), pixels)
        last += ")" * (last.count("(") - last.count(")"))
    return "<br>".join([*wrapped, *filter(None, [last + result])]), is_whole


def elide_html(html: str, room: float, pixels: int) -> str:
    """Return a line of HTML or, if it does not fit, its first words and an ellipsis."""
    line, rest = _break_html(html, room, pixels, ELLIPSIS)
    return line if line or not rest else ELLIPSIS


def _break_html(html: str, room: float, pixels: int, ending: str = "") -> tuple[str, str]:
    """Return the first words that fit, with an ending unless all words fit, and the rest."""
    fonts = [scaled_font(pixels), scaled_font(pixels, QFont.Weight.Bold)]
    plain, bold = map(QFontMetricsF, fonts)
    pieces = [piece for piece in split("(<[^>]*>| )", html) if piece]
    width, opened, fitting, is_after_word = 0.0, list[str](), ("", html), False
    for at, piece in enumerate(pieces):
        if piece == " ":
            if is_after_word and width + plain.horizontalAdvance(ending) <= room:
                closing = "".join(f"</{tag[1:-1].split()[0]}>" for tag in reversed(opened))
                fitting = (
                    f"{''.join(pieces[:at])}{ending}{closing}",
                    f"{''.join(opened)}{''.join(pieces[at + 1 :])}",
                )
        elif piece.startswith("</"):
            opened.pop()
            continue
        elif piece.startswith("<"):
            opened.append(piece)
            continue
        is_after_word = piece != " "
        metrics = bold if "<b>" in opened else plain
        width += metrics.horizontalAdvance(unescape(piece))
    return (html, "") if width <= room else fitting


ELLIPSIS = "…"


class PlainTextLabel(QLabel):
    """Label that shows every text literally."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)


class DescriptionLabel(PlainTextLabel):
    """Description of the item under the pointer, or a hint; its height does not depend on the text.

    Parameters
    ----------
    hint : str
        Text that is shown while no item is described.
    lines : int
        Number of lines that are reserved.
    """

    def __init__(self, hint: str, lines: int) -> None:
        super().__init__(hint)
        self._hint, self._lines = hint, lines
        self.setWordWrap(True)
        self.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.setProperty("role", "quiet")
        self._fix_height()

    def show_description(self, text: str) -> None:
        self.setText(text or self._hint)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fix_height()

    def _fix_height(self) -> None:
        self.setFixedHeight(self._lines * self.fontMetrics().lineSpacing())


class ElidedLabel(PlainTextLabel):
    """Text that is elided to the label's width; the tooltip shows the full text.

    Parameters
    ----------
    lines : int
        Maximum number of lines; the last line is elided.
    """

    def __init__(
        self, elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight, lines: int = 1
    ) -> None:
        super().__init__()
        self._elide, self._lines = elide, lines
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self._content, self._in_words = "", ""
        self.setProperty("role", "quiet")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setIndent(4)

    def sizeHint(self) -> QSize:
        """Return the size of the full text."""
        width = self.fontMetrics().horizontalAdvance(self._content) + 2 * self.indent() + 2
        height = max(super().sizeHint().height(), self._lines * self.fontMetrics().lineSpacing())
        return QSize(width if self._content else 0, height)

    def show_text(self, text: str, in_words: str = "") -> None:
        """Set a text, and optionally a longer form for the tooltip and screen readers."""
        self._content, self._in_words = text, in_words or text
        self.setToolTip(plain_tooltip(self._in_words))
        self.setAccessibleName(self._in_words)
        self.setText(self._wrap_and_elide(text, self.contentsRect().width() - 2 * self.indent()))

    def _wrap_and_elide(self, text: str, room: int) -> str:
        """Break a text into lines and elide the last line."""
        metrics, words, lines = self.fontMetrics(), text.split(" "), []
        for _ in range(self._lines - 1):
            starts = (" ".join(words[:count]) for count in range(1, len(words) + 1))
            count = max(1, sum(metrics.horizontalAdvance(start) <= room for start in starts))
            lines.append(" ".join(words[:count]))
            words = words[count:]
        lines.append(" ".join(words))
        elided = (metrics.elidedText(line, self._elide, room) for line in lines)
        return "\n".join(filter(None, elided))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.show_text(self._content, self._in_words)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.show_text(self._content, self._in_words)
