"""Paints the pictures of the start page from values of real attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPen

from visualizer.features.start_page.examples import ExamplePictureData, StartPageExample
from visualizer.format import format_number
from visualizer.heatmap.colour_mapping import (
    FORBIDDEN,
    MAX_COLOUR_INDEX,
    create_colour_image,
    dark_text_mask,
)
from visualizer.heatmap.colour_range import find_range_of_samples, sample_cells
from visualizer.session.view_options import AUTOMATIC_MAP, DEFAULT_MAP
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.head_mark import paint_head_mark
from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from visualizer.widgets.theme import Theme

ALIGN_CENTRE = Qt.AlignmentFlag.AlignCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
SMALL_PX, LARGE_PX = 12, 14
MAX_LINE_WIDTH_SHARE = 0.6
"""Maximum width of a line, as a fraction of the row height."""
MIN_LABELLED_ROW_PX = 10
"""Minimum height, in pixels, of a row that is labelled with its letter."""
MIN_DRAWN_WEIGHT = 0.02
"""Minimum weight that is drawn as an arc."""


def paint_example_picture(
    painter: QPainter,
    area: QRectF,
    example: StartPageExample,
    numbers: ExamplePictureData,
    theme: Theme,
) -> None:
    """Paint the picture of an example."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _PAINT[example](painter, area, numbers, theme)
    painter.restore()


def _paint_book_example(
    painter: QPainter, area: QRectF, numbers: ExamplePictureData, theme: Theme
) -> None:
    """Paint the context vectors of all heads with their values, and the tokens on the left."""
    tokens, (heads, _, columns) = numbers.book_tokens, numbers.book.shape
    line, gap = font_metrics(SMALL_PX).height() + 4, 12 * text_scale()
    room = max(font_metrics(SMALL_PX).horizontalAdvance(token) for token in tokens) + 8
    most = 1.6 * font_metrics(SMALL_PX).horizontalAdvance("−0.0000")
    wide = int(min(most, (area.width() - room - (heads - 1) * gap) / (heads * columns)))
    high = int((area.height() - line) / len(tokens))
    side = wide * columns
    left = area.center().x() - (room + heads * side + (heads - 1) * gap) / 2
    top = area.center().y() - (high * len(tokens) + line) / 2 + line
    _paint_row_labels(painter, QRectF(left, top, room - 8, high * len(tokens)), tokens, theme)
    limit = float(np.abs(numbers.book).max())
    for head, contexts in enumerate(numbers.book):
        corner = round(left + room + head * (side + gap)), round(top)
        box = QRectF(*corner, side, high * len(tokens))
        _paint_numbers(painter, box, contexts, limit, theme)
        above = QRectF(box.left(), box.top() - line, side, line - 2)
        _draw_head_name(painter, above, head, theme)


def _paint_training_example(
    painter: QPainter, area: QRectF, numbers: ExamplePictureData, theme: Theme
) -> None:
    """Paint the weights of one head at several steps, with the weight on the correct letter."""
    count, tokens = len(numbers.steps), len(numbers.letters)
    line, gap = font_metrics(SMALL_PX).height() + 2, 8 * text_scale()
    below = line + font_metrics(LARGE_PX).height() + 4
    wide = (area.width() - (count - 1) * gap) / count
    side = int(min(wide, area.height() - below) / tokens) * tokens
    left = area.center().x() - (count * side + (count - 1) * gap) / 2
    top = area.center().y() - (side + below) / 2
    longest = f"step {max(numbers.steps):,}"
    has_room = font_metrics(SMALL_PX).horizontalAdvance(longest) <= side + gap
    for at, (step, share) in enumerate(
        zip(numbers.steps, numbers.mean_weights_on_next_letter, strict=True)
    ):
        box = _pixel_aligned_square(left + at * (side + gap), top, side)
        _paint_weights(painter, box, numbers, at, theme)
        under = QRectF(box.left() - gap / 2, box.bottom() + 4, side + gap, below - 4)
        first = QRectF(under.left(), under.top(), under.width(), font_metrics(LARGE_PX).height())
        second = QRectF(under.left(), first.bottom(), under.width(), line)
        _draw_text(painter, first, f"{share:.0%}", theme.ink, ALIGN_CENTRE, LARGE_PX, True)
        words = f"step {step:,}" if has_room else f"{step:,}"
        _draw_text(painter, second, words, theme.quiet, ALIGN_CENTRE)


def _paint_lesson_example(
    painter: QPainter, area: QRectF, numbers: ExamplePictureData, theme: Theme
) -> None:
    """Paint a line from the query to each key, with a width proportional to the weight."""
    tokens, weights = numbers.lesson_tokens, numbers.lesson
    word = max(font_metrics(LARGE_PX).horizontalAdvance(token) for token in tokens) + 8
    share = font_metrics(LARGE_PX).horizontalAdvance("24%") + 8
    row = min(area.height() / len(tokens), 1.8 * font_metrics(LARGE_PX).height())
    wide = min(area.width(), 2 * word + share + 260 * text_scale())
    left, top = area.center().x() - wide / 2, area.center().y() - row * len(tokens) / 2
    start = QPointF(left + word, area.center().y())
    end = left + wide - share - word
    query = QRectF(left, start.y() - row / 2, word - 8, row)
    _draw_text(painter, query, tokens[numbers.lesson_query], theme.ink, ALIGN_RIGHT, LARGE_PX, True)
    thickness = MAX_LINE_WIDTH_SHARE * row / float(weights.max())
    source = start.y() - thickness * float(weights.sum()) / 2
    for key, (token, weight) in enumerate(zip(tokens, weights, strict=True)):
        middle, width = top + (key + 0.5) * row, thickness * float(weight)
        begin = QPointF(start.x(), source + width / 2)
        source += width
        _paint_weight_curve(painter, begin, QPointF(end, middle), width, head_colour(0, theme))
        _draw_text(
            painter,
            QRectF(end + 8, middle - row / 2, word, row),
            token,
            theme.ink,
            ALIGN_LEFT,
            LARGE_PX,
        )
        said = QRectF(left + wide - share, middle - row / 2, share, row)
        _draw_text(painter, said, f"{weight:.0%}", theme.quiet, ALIGN_RIGHT, LARGE_PX)


def _paint_trained_example(
    painter: QPainter, area: QRectF, numbers: ExamplePictureData, theme: Theme
) -> None:
    """Paint the weights of the trained head, and arcs to the attended letters."""
    letters = numbers.letters
    room = font_metrics(SMALL_PX).horizontalAdvance("m") + 6
    line = font_metrics(SMALL_PX).height() + 2
    gap = 24 * text_scale()
    cell = int(min(area.height() - line, 0.5 * area.width() - room) / len(letters))
    side = cell * len(letters)
    step = min((area.width() - room - side - gap) / len(letters), 1.6 * room)
    wide = room + side + gap + step * len(letters)
    left, top = area.center().x() - wide / 2, area.center().y() - (side + line) / 2 + line
    box = _pixel_aligned_square(left + room, top, side)
    _paint_weights(painter, box, numbers, -1, theme)
    if cell >= MIN_LABELLED_ROW_PX * text_scale():
        _paint_row_labels(painter, QRectF(left, box.top(), room - 6, side), letters, theme)
        for key, letter in enumerate(letters):
            above = QRectF(box.left() + key * cell, box.top() - line, cell, line)
            _draw_text(painter, above, letter, theme.quiet, ALIGN_CENTRE)
    strip = QRectF(box.right() + gap, box.top(), step * len(letters), side)
    _paint_arcs(painter, strip, numbers, theme)


def _paint_arcs(painter: QPainter, area: QRectF, numbers: ExamplePictureData, theme: Theme) -> None:
    """Paint an arc from each letter of the second half to the letter that it attends to."""
    letters, weights = numbers.letters, numbers.learned[-1]
    step = area.width() / len(letters)
    line = font_metrics(LARGE_PX).height()
    height = min(area.height() - line, 0.55 * area.width())
    base = area.center().y() + height / 2 - line / 2
    for query in range(len(letters) // 2, len(letters)):
        for key in range(query):
            weight = float(weights[query, key])
            if weight > MIN_DRAWN_WEIGHT:
                ends = (area.left() + (key + 0.5) * step, area.left() + (query + 0.5) * step)
                _paint_arc(painter, ends, base, height, weight, head_colour(1, theme))
    for place, letter in enumerate(letters):
        box = QRectF(area.left() + place * step, base + 2, step, line)
        colour = theme.ink if place >= len(letters) // 2 else theme.quiet
        _draw_text(painter, box, letter, colour, ALIGN_CENTRE, LARGE_PX)


def _paint_arc(
    painter: QPainter,
    ends: tuple[float, float],
    base: float,
    height: float,
    weight: float,
    colour: str,
) -> None:
    left, right = ends
    path = QPainterPath(QPointF(right, base))
    path.cubicTo(right, base - 1.3 * height, left, base - 1.3 * height, left, base)
    _stroke_path(painter, path, 2 * text_scale(), colour, weight)


def _paint_weight_curve(
    painter: QPainter, start: QPointF, end: QPointF, width: float, colour: str
) -> None:
    middle = (start.x() + end.x()) / 2
    path = QPainterPath(start)
    path.cubicTo(middle, start.y(), middle, end.y(), end.x(), end.y())
    _stroke_path(painter, path, max(1.0, width), colour, 0.75)


def _stroke_path(
    painter: QPainter, path: QPainterPath, width: float, colour: str, opacity: float
) -> None:
    ink = QColor(colour)
    ink.setAlphaF(min(1.0, opacity))
    pen = QPen(ink, width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)


def _paint_weights(
    painter: QPainter, box: QRectF, numbers: ExamplePictureData, at: int, theme: Theme
) -> None:
    """Paint the weights of a step in the default colours; all steps share one colour range.

    Parameters
    ----------
    box : QRectF
        A square that is aligned to whole pixels.
    """
    allowed = np.tri(len(numbers.letters), dtype=bool)
    samples = [sample_cells(weights, allowed) for weights in numbers.learned]
    shares = numbers.learned[at] / find_range_of_samples(samples, is_share=True).end
    chosen = (shares * MAX_COLOUR_INDEX + 0.5).clip(0, MAX_COLOUR_INDEX).astype(np.uint8)
    chosen[~allowed] = FORBIDDEN
    painter.fillRect(box, QColor(theme.paper))
    painter.drawImage(box, create_colour_image(chosen, DEFAULT_MAP, theme))


def _paint_numbers(
    painter: QPainter, box: QRectF, numbers: np.ndarray, limit: float, theme: Theme
) -> None:
    """Paint a matrix like a heatmap with the range −limit to limit, and its numbers if they fit."""
    chosen = ((1 + numbers / limit) / 2 * MAX_COLOUR_INDEX + 0.5).astype(np.uint8)
    painter.drawImage(box, create_colour_image(chosen, AUTOMATIC_MAP, theme))
    wide, high = box.width() / numbers.shape[1], box.height() / len(numbers)
    if (
        wide < font_metrics(SMALL_PX).horizontalAdvance("−0.0000")
        or high < font_metrics(SMALL_PX).height()
    ):
        return
    is_light = dark_text_mask(AUTOMATIC_MAP, theme)[chosen]
    for (row, column), value in np.ndenumerate(numbers):
        place = QRectF(box.left() + column * wide, box.top() + row * high, wide, high)
        colour = "#000000" if is_light[row, column] else "#ffffff"
        _draw_text(painter, place, format_number(float(value)), colour, ALIGN_CENTRE)


def _draw_head_name(painter: QPainter, box: QRectF, head: int, theme: Theme) -> None:
    """Draw the name of a head next to a dot in the head's colour."""
    dot = 8 * text_scale()
    paint_head_mark(painter, QRectF(box.left(), box.center().y() - dot / 2, dot, dot), head, theme)
    beside = box.adjusted(dot + 6, 0, 0, 0)
    _draw_text(painter, beside, f"Head {head + 1}", theme.ink, ALIGN_LEFT, bold=True)


def _paint_row_labels(painter: QPainter, area: QRectF, labels: Sequence[str], theme: Theme) -> None:
    row = area.height() / len(labels)
    for place, label in enumerate(labels):
        box = QRectF(area.left(), area.top() + place * row, area.width(), row)
        _draw_text(painter, box, label, theme.quiet, ALIGN_RIGHT)


def _draw_text(
    painter: QPainter,
    box: QRectF,
    text: str,
    colour: str,
    align: Qt.AlignmentFlag,
    size: int = SMALL_PX,
    bold: bool = False,
) -> None:
    painter.setFont(scaled_font(size, QFont.Weight.DemiBold if bold else QFont.Weight.Normal))
    painter.setPen(QColor(colour))
    painter.drawText(box, align | Qt.TextFlag.TextDontClip, text)


def _pixel_aligned_square(left: float, top: float, side: int) -> QRectF:
    """Return a square aligned to whole pixels, so that its cells are sharp."""
    return QRectF(round(left), round(top), side, side)


_PAINT: dict[StartPageExample, Callable[[QPainter, QRectF, ExamplePictureData, Theme], None]] = {
    StartPageExample.BOOK: _paint_book_example,
    StartPageExample.TRAINING: _paint_training_example,
    StartPageExample.LESSON: _paint_lesson_example,
    StartPageExample.TRAINED: _paint_trained_example,
}
