"""What stands under the panels of a film: the sentence of the step, its calculation, the track."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QTextDocument

from visualizer.ui.segments import Segments, paint_track, track_height
from visualizer.ui.theme import font, metrics, text_scale
from visualizer.ui.told import SIZES, count_of, fitting, written

if TYPE_CHECKING:
    from PySide6.QtGui import QPainter

    from visualizer.state.playback.transport import Transport
    from visualizer.ui.theme import Theme

SPACE = 6


def words_height() -> float:
    """Give the height of it all, the same for every step."""
    return 2 * _line() + track_height() + 2 * SPACE * text_scale()


def _line() -> float:
    """Give the room of a line: a large one, or two of the smallest."""
    return max(metrics(SIZES[0]).height(), 2 * metrics(SIZES[-1]).height())


def paint_words(painter: QPainter, area: QRectF, transport: Transport, theme: Theme) -> None:
    """Write what happens in a step, and draw where in time it is."""
    sentence = QRectF(area.left(), area.top(), area.width(), _line())
    _paint_line(painter, sentence, transport.caption, theme)
    calculation = sentence.translated(0, _line() + SPACE * text_scale())
    _paint_line(painter, calculation, written(transport.equation, theme), theme)
    count = count_of(transport)
    longest = metrics(12).horizontalAdvance(f"{transport.count:,} of {transport.count:,}")
    painter.save()
    painter.translate(area.left(), calculation.bottom() + SPACE * text_scale())
    track = area.width() - longest - 12
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    place = QRectF(track, 0, area.width() - track, metrics(12).height())
    painter.drawText(place, Qt.AlignmentFlag.AlignRight, count)
    paint_track(painter, Segments(transport, track), theme)
    painter.restore()


def _paint_line(painter: QPainter, area: QRectF, html: str, theme: Theme) -> None:
    """Write a line as large as fits; one that does not fit in two, smaller."""
    size, _ = fitting(html, area.width())
    document = QTextDocument()
    document.setDocumentMargin(0)
    document.setDefaultFont(font(size))
    document.setHtml(f"<span style='color:{theme.ink}'>{html}</span>")
    document.setTextWidth(area.width())
    shrunk = min(1.0, area.height() / document.size().height())
    painter.save()
    painter.translate(area.topLeft())
    painter.scale(shrunk, shrunk)
    document.drawContents(painter)
    painter.restore()
