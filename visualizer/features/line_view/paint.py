"""Painting of the line view: all lines, highlighted lines on top, and tokens on both sides.

All lines are painted into a pixmap in several steps, so that no frame takes long.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from PySide6.QtCore import QByteArray, QDataStream, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPainterPath,
    QPen,
    QPixmap,
)

from visualizer.format import format_number
from visualizer.heatmap.panel_margins import MAX_LABEL_PX, widest_label_width
from visualizer.heatmap.panel_margins_paint import ALIGN_LEFT, ALIGN_RIGHT
from visualizer.session.view_options import LineViewSide
from visualizer.widgets.fonts import font_metrics, scaled_font, system_font, text_scale
from visualizer.widgets.head_mark import paint_head_mark
from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.features.line_view.line_selection import SelectedLines
    from visualizer.features.line_view.presenter import LinePanel
    from visualizer.widgets.theme import Theme

Positions = np.ndarray | int

MAX_READABLE_ROWS = 40
"""Maximum number of rows that always have a readable height."""
MIN_ROW_PX = 2.0
MAX_ROW_PX = 64
LABEL_GAP_PX = 8
MARGIN_PX = 12
HEADER_HEIGHT_PX = 26
MIN_MIDDLE_PX = 72
MAX_HEAD_STEP_PX = 5
"""Maximum distance between lines of successive heads, in pixels at the default text size."""
HEAD_SPREAD_SHARE = 0.7
"""Maximum fraction of a row's height over which the lines of all heads are spread."""


class AttentionLinesLayout(Struct, frozen=True):
    """Geometry of the line view: one row per token, the same on both sides.

    Parameters
    ----------
    tokens : tuple of int or None
        The tokens that have a row, in ascending order; None if all tokens have one.
    left, right : float
        The x coordinates where lines begin and end.
    height : float
        The height of a row.
    top : float
        The y coordinate of the top of the first row, without scrolling.
    step : float
        The vertical offset between lines of successive heads with the same tokens.
    first : float
        The offset of the first head's lines from the middle of a row.
    heads : tuple of int
        The drawn heads, in ascending order.
    """

    count: int
    left: float
    right: float
    height: float
    top: float
    step: float = 0.0
    first: float = 0.0
    tokens: tuple[int, ...] | None = None
    heads: tuple[int, ...] = (0,)

    @property
    def bottom(self) -> float:
        outside = max(0.0, font_metrics(12).height() - self.height) / 2  # the last label's overhang
        return self.top + self.count * self.height + outside

    def token_at(self, row: int) -> int:
        """Return the token of a row."""
        return row if self.tokens is None else self.tokens[row]

    def row_of(self, token: int) -> int | None:
        """Return the row of a token, or None if the token has no row."""
        if self.tokens is None:
            return token if token < self.count else None
        row = bisect_left(self.tokens, token)
        return row if self.tokens[row : row + 1] == (token,) else None

    def row_middle(self, row: float) -> float:
        """Return the y coordinate of the middle of a row."""
        return self.top + (row + 0.5) * self.height

    def row_at(self, y: float) -> int | None:
        """Return the row at a y coordinate, or None outside the rows."""
        row = int((y - self.top) // self.height)
        return row if 0 <= row < self.count else None

    def line_ends(self, heads: Positions, tokens: Positions) -> np.ndarray:
        """Return the y coordinates at which lines meet tokens; each token must have a row."""
        within = self.first + np.searchsorted(self.heads, heads) * self.step
        rows = tokens if self.tokens is None else np.searchsorted(self.tokens, tokens)
        heights: np.ndarray = self.top + (np.asarray(rows) + 0.5) * self.height + within
        return heights

    def curve_fraction(self, x: float) -> float:
        """Return the fraction of a line's vertical distance that is covered at an x coordinate."""
        return float(np.interp((x - self.left) / (self.right - self.left), _ACROSS, _ALONG))


def curve_fractions(pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the x and y fractions of a line at the ends of its pieces.

    A line is a cubic Bézier curve with both control points halfway across.
    """
    times = np.linspace(0, 1, pieces + 1)
    return 1.5 * times * (1 - times) + times**3, 3 * times**2 - 2 * times**3


_ACROSS, _ALONG = curve_fractions(64)


def lay_out_lines(
    labels: tuple[str, ...],
    heads: tuple[int, ...],
    width: float,
    height: float,
    tokens: tuple[int, ...] | None = None,
) -> AttentionLinesLayout:
    """Lay out the tokens and the lines of the heads in a view of the given size.

    If there are few tokens, rows have a readable height. If there are more, rows shrink to fit
    the view, down to the smallest height that can be pointed at. If only some tokens are listed,
    all rows keep a readable height.
    """
    scale, line = text_scale(), font_metrics(12).height()
    count = max(1, len(labels))
    top = HEADER_HEIGHT_PX * scale
    smallest = line + 2 if count <= MAX_READABLE_ROWS or tokens is not None else MIN_ROW_PX
    row = min((height - top) / count, MAX_ROW_PX * scale)
    outside = max(0.0, line - row) / 2  # overhang of the first and last label
    row = max(row - 2 * outside / count, smallest)
    top += outside
    most = min(MAX_LABEL_PX * scale, (width - MIN_MIDDLE_PX) / 2 - LABEL_GAP_PX - MARGIN_PX)
    bold = 1.1 * widest_label_width(labels)  # highlighted labels are bold
    own = max(bold, font_metrics(12).horizontalAdvance("query"))
    widest = max(0.0, min(own + 4, most))
    side = MARGIN_PX + widest + LABEL_GAP_PX
    drawn = max(1, len(heads))
    step = min(MAX_HEAD_STEP_PX * scale, row * HEAD_SPREAD_SHARE / drawn) if drawn > 1 else 0.0
    first = -step * (drawn - 1) / 2
    right = max(width - side, side + 1)
    return AttentionLinesLayout(len(labels), side, right, row, top, step, first, tokens, heads)


STRENGTH_LEVELS = 12
MIN_LINE_WIDTH_PX, MAX_LINE_WIDTH_PX = 1.0, 5.0
"""Widths of lines of strength 0 and 1, in logical pixels."""
MIN_OPACITY = 0.08
"""Opacity of a line of strength 0."""
HEAD_MARK_SIDE_PX = 8
"""Side length of the mark of a head, in pixels at the default text size."""
MAX_FEW_LINES = 60
"""Maximum number of lines for which small weights stay visible and all lines are drawn wide."""
MIN_WIDE_LINE_PX = 1.5
"""Minimum width, in logical pixels, at which a line is drawn wide if there are many lines."""
WIDE_LINE_COST = 8
"""Time to draw a wide line, relative to that for a thin line of the same length."""
MAX_WIDE_LINES = 12
"""Maximum number of wide lines if there are many lines; more would make painting slow."""
MAX_PIECE_LENGTH_PX = 15.0
"""Maximum length of a piece of a thin line, in pixels."""
PATH_ELEMENT = np.dtype([("kind", ">i4"), ("x", ">f8"), ("y", ">f8")])
"""A path element in the format of Qt's data streams."""
MAX_PATH_COST = 10_000
"""Maximum cost of a path, in pixels of a thin line; larger groups of lines are split."""


class LineStroke(Struct, frozen=True):
    """Lines of one colour and strength, as one path.

    Parameters
    ----------
    cost : float
        The time to draw the stroke, as the length in pixels of a thin line that takes as long.
    """

    path: QPainterPath
    pen: QPen
    cost: float


class LinePenFactory(Struct, frozen=True):
    """Factory of the pens for the lines of a picture.

    The width of a line depends only on its own strength. Its opacity is relative to the strongest
    line, which is opaque, so that lines stand out from the background even if all weights are
    small. If there are few lines, small weights stay visible; if there are many lines, large
    weights stand out.

    Parameters
    ----------
    max_strength : float
        The largest strength in the picture.
    gamma : float
        The exponent of opacity.
    """

    max_strength: float
    gamma: float

    @classmethod
    def for_picture(cls, lines: SelectedLines) -> LinePenFactory:
        """Return the brush for a whole picture; parts of the picture use the same brush."""
        share = min(1.0, MAX_FEW_LINES / max(1, len(lines)))
        return cls(lines.max_strength, 0.6 + 0.6 * (1 - share))

    def strength_levels(self, strengths: np.ndarray) -> np.ndarray:
        """Quantize strengths to `STRENGTH_LEVELS` levels."""
        levels = (strengths / self.max_strength * (STRENGTH_LEVELS - 1)).round().astype(int)
        return np.asarray(levels.clip(0, STRENGTH_LEVELS - 1))

    def line_width(self, level: int) -> float:
        """Return the width of a line, in logical pixels."""
        strength = self.max_strength * level / (STRENGTH_LEVELS - 1)
        return MIN_LINE_WIDTH_PX + (MAX_LINE_WIDTH_PX - MIN_LINE_WIDTH_PX) * strength

    def create_pen(
        self, head: int, level: int, is_wide: bool, is_negative: bool, theme: Theme
    ) -> QPen:
        """Return the pen for lines of a head; thin lines are one device pixel wide."""
        colour = QColor(head_colour(head, theme))
        share = (level / (STRENGTH_LEVELS - 1)) ** self.gamma
        colour.setAlphaF(MIN_OPACITY + (1 - MIN_OPACITY) * share)
        pen = QPen(colour, self.line_width(level) if is_wide else 1)
        pen.setCosmetic(not is_wide)  # one device pixel at any scale
        if is_negative:
            pen.setDashPattern([6, 3])
        return pen


def paint_lines(
    painter: QPainter,
    lines: SelectedLines,
    rows: AttentionLinesLayout,
    seen: tuple[float, float],
    theme: Theme,
    brush: LinePenFactory,
) -> None:
    """Paint all of the lines in one step."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for stroke in line_strokes(lines, rows, seen, theme, brush):
        painter.strokePath(stroke.path, stroke.pen)


def line_strokes(
    lines: SelectedLines,
    rows: AttentionLinesLayout,
    seen: tuple[float, float],
    theme: Theme,
    brush: LinePenFactory,
) -> Iterator[LineStroke]:
    """Yield the strokes of the lines between two y coordinates, the strongest last."""
    begins, ends = (rows.line_ends(lines.heads, side) for side in (lines.queries, lines.keys))
    inside = (np.maximum(begins, ends) >= seen[0]) & (np.minimum(begins, ends) <= seen[1])
    levels = brush.strength_levels(lines.line_strengths)
    are_few = len(lines) <= MAX_FEW_LINES and rows.count <= MAX_FEW_LINES
    widths = np.array([brush.line_width(level) for level in range(STRENGTH_LEVELS)])[levels]
    are_wide = np.full(len(lines), are_few) | (widths >= MIN_WIDE_LINE_PX)
    if not are_few and are_wide.sum() > MAX_WIDE_LINES:
        are_wide[np.argsort(lines.line_strengths, kind="stable")[:-MAX_WIDE_LINES]] = False
    kinds = np.stack([are_wide, levels, lines.heads, lines.weights < 0])
    for at in _group_by_kind(kinds, np.nonzero(inside)[0]):
        is_wide, level, head, is_negative = kinds[:, at[0]].tolist()
        pen = brush.create_pen(head, level, bool(is_wide), bool(is_negative), theme)
        costs = rows.right - rows.left + np.abs(ends[at] - begins[at])
        costs *= WIDE_LINE_COST if is_wide else 1
        cuts = np.nonzero(np.diff(np.cumsum(costs) // MAX_PATH_COST))[0] + 1
        for some, each in zip(np.split(at, cuts), np.split(costs, cuts), strict=True):
            part = (rows, begins[some], ends[some])
            path = curve_path(*part) if is_wide else path_from_elements(polyline_elements(*part))
            yield LineStroke(path, pen, float(each.sum()))


def _group_by_kind(kinds: np.ndarray, some: np.ndarray) -> list[np.ndarray]:
    """Group lines by kind; lines keep their order within each group."""
    order = some[np.lexsort(kinds[::-1, some])]
    changes = (np.diff(kinds[:, order], axis=1) != 0).any(axis=0)
    return np.split(order, np.nonzero(changes)[0] + 1) if len(order) else []


def curve_path(rows: AttentionLinesLayout, begins: np.ndarray, ends: np.ndarray) -> QPainterPath:
    """Return a path with the curves of lines, given the y coordinates of their ends."""
    path, middle = QPainterPath(), (rows.left + rows.right) / 2
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        path.moveTo(rows.left, begin)
        path.cubicTo(middle, begin, middle, end, rows.right, end)
    return path


def polyline_elements(
    rows: AttentionLinesLayout, begins: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Approximate the same curves by short straight pieces; each curve starts at its lower end.

    Qt blends a thin translucent line piece by piece if each piece begins above the previous one.
    Longer pieces would be slow: Qt passes spans of more than 96 pixels to other threads, and
    waking these threads takes ten times as long as painting the line.

    Returns
    -------
    ndarray
        Path elements, [line, end of a piece].
    """
    steepest = 1.5 * float(np.abs(ends - begins).max(initial=0))
    longest = max(steepest, rows.right - rows.left)
    across, along = curve_fractions(math.ceil(longest / MAX_PIECE_LENGTH_PX))
    is_down = (ends > begins)[:, None]
    elements = np.empty((len(begins), len(across)), PATH_ELEMENT)
    elements["kind"] = QPainterPath.ElementType.LineToElement.value
    elements["kind"][:, 0] = QPainterPath.ElementType.MoveToElement.value
    elements["x"] = rows.left + (rows.right - rows.left) * np.where(is_down, across[::-1], across)
    shares = np.where(is_down, along[::-1], along)
    elements["y"] = begins[:, None] + (ends - begins)[:, None] * shares
    return elements


def path_from_elements(elements: np.ndarray) -> QPainterPath:
    """Deserialize a path from its elements, which is faster than adding them one by one."""
    count = np.array(elements.size, ">i4").tobytes()
    path = QPainterPath()
    QDataStream(QByteArray(count + elements.tobytes() + bytes(8))) >> path
    return path


def paint_highlighted_line(
    painter: QPainter, panel: LinePanel, rows: AttentionLinesLayout, theme: Theme
) -> None:
    """Paint the outlined line of the highlighted cell and its weight on top of all other lines."""
    if panel.cell is None or panel.weight is None:
        return
    head, query, key = panel.cell.place
    begin, end = (float(rows.line_ends(head, at)) for at in (query, key))
    path = curve_path(rows, np.array([begin]), np.array([end]))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    brush = LinePenFactory.for_picture(panel.lines)
    level = int(brush.strength_levels(np.array([panel.strength]))[0])
    width = brush.line_width(level)
    painter.strokePath(path, QPen(QColor(theme.paper), width + 4))
    painter.strokePath(path, QPen(QColor(head_colour(head, theme)), width))
    painter.setFont(scaled_font(12, QFont.Weight.DemiBold))
    text = " ".join(filter(None, (format_number(panel.weight), panel.qualifier)))
    mark = HEAD_MARK_SIDE_PX * text_scale()
    advance = font_metrics(12).horizontalAdvance(text)
    box = QRectF(0, 0, advance + mark + 24, font_metrics(12).height() + 4)
    box.moveCenter(QPointF((rows.left + rows.right) / 2, (begin + end) / 2))
    painter.setPen(QPen(QColor(head_colour(head, theme)), 1.5))
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(box, 4, 4)
    place = QRectF(box.left() + 9, box.center().y() - mark / 2, mark, mark)
    paint_head_mark(painter, place, head, theme)
    painter.setPen(QColor(theme.ink))
    painter.drawText(box.adjusted(mark + 6, 0, 0, 0), Qt.AlignmentFlag.AlignCenter, text)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def label_box(rows: AttentionLinesLayout, side: LineViewSide, at: int) -> QRectF:
    """Return the rectangle of a token's label."""
    height = max(rows.height, font_metrics(12).height())
    top = rows.row_middle(at) - height / 2
    left = MARGIN_PX if side is LineViewSide.QUERY else rows.right + LABEL_GAP_PX
    return QRectF(left, top, rows.left - LABEL_GAP_PX - MARGIN_PX, height)


def paint_labels(
    painter: QPainter,
    panel: LinePanel,
    rows: AttentionLinesLayout,
    seen: tuple[float, float],
    theme: Theme,
) -> None:
    """Paint the highlighted tokens, and as many others on both sides as fit without overlapping."""
    line = font_metrics(12).height()
    step = max(1, math.ceil(line / rows.height - 0.25))
    first = max(0, rows.row_at(max(seen[0] - line, rows.top)) or 0) // step * step
    for side, token in ((LineViewSide.QUERY, panel.query), (LineViewSide.KEY, panel.key)):
        highlighted = None if token is None else rows.row_of(token)
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(theme.ink))
        for at in range(first, rows.count, step):
            if rows.row_middle(at) > seen[1] + line:
                break
            if highlighted is None or abs(at - highlighted) >= step:
                _paint_label(painter, panel.labels[at], label_box(rows, side, at), side)
        if highlighted is not None:
            painter.setFont(scaled_font(12, QFont.Weight.DemiBold))
            painter.setPen(QColor(theme.accent))
            box = label_box(rows, side, highlighted)
            _paint_label(painter, panel.labels[highlighted], box, side)


def _paint_label(painter: QPainter, label: str, box: QRectF, side: LineViewSide) -> None:
    """Paint a token separately, so that its neighbours do not affect its text direction."""
    words = _elide_label(label, painter.font().weight(), int(box.width()), system_font())
    towards = ALIGN_RIGHT if side is LineViewSide.QUERY else ALIGN_LEFT
    painter.drawText(box, towards | Qt.AlignmentFlag.AlignAbsolute, words)


@lru_cache(maxsize=4096)
def _elide_label(label: str, weight: QFont.Weight, width: int, font: QFont) -> str:
    measures = QFontMetrics(scaled_font(12, weight))
    return measures.elidedText(label, Qt.TextElideMode.ElideRight, width)


def paint_column_titles(painter: QPainter, rows: AttentionLinesLayout, theme: Theme) -> None:
    """Paint the titles of both columns of tokens."""
    band = QRectF(0, 0, rows.left + rows.right, HEADER_HEIGHT_PX * text_scale())
    painter.fillRect(band, QColor(theme.paper))
    painter.setFont(scaled_font(12))
    painter.setPen(QColor(theme.quiet))
    line = band.adjusted(0, 0, 0, -4 * text_scale())
    painter.drawText(line.adjusted(0, 0, -rows.right - LABEL_GAP_PX, 0), ALIGN_RIGHT, "query")
    painter.drawText(line.adjusted(rows.right + LABEL_GAP_PX, 0, 0, 0), ALIGN_LEFT, "key")


PIXELS_PER_SLICE = 20_000
"""Cost of the strokes drawn per slice, in pixels of a thin line; events are handled in between."""
MAX_PICTURE_HEIGHT_PX = 4096
"""Maximum height of a picture of all rows; if there are more, only visible rows are drawn."""


class LinePictureKey(Struct, frozen=True):
    """The values that determine a picture of all lines.

    Parameters
    ----------
    ratio : float
        Device pixels per logical pixel.
    """

    lines: SelectedLines
    rows: AttentionLinesLayout
    width: int
    top: int
    height: int
    ratio: float
    theme: Theme

    @classmethod
    def for_view(
        cls,
        lines: SelectedLines,
        rows: AttentionLinesLayout,
        seen: QSize,
        offset: int,
        ratio: float,
        theme: Theme,
    ) -> LinePictureKey:
        """Return the key of a picture of all rows, or of the visible rows if there are too many."""
        is_whole = rows.bottom <= MAX_PICTURE_HEIGHT_PX
        height = max(seen.height(), round(rows.bottom)) if is_whole else seen.height()
        return cls(lines, rows, seen.width(), 0 if is_whole else offset, height, ratio, theme)


class IncrementalLinePicture:
    """A transparent pixmap of all lines, painted slice by slice."""

    def __init__(self, frame: LinePictureKey) -> None:
        self.frame = frame
        self.pixmap = QPixmap(QSize(frame.width, frame.height) * frame.ratio)
        self.pixmap.setDevicePixelRatio(frame.ratio)
        self.pixmap.fill(Qt.GlobalColor.transparent)
        seen = (frame.top, frame.top + frame.height)
        # A generator: strokes are built as they are drawn.
        brush = LinePenFactory.for_picture(frame.lines)
        self._pending = line_strokes(frame.lines, frame.rows, seen, frame.theme, brush)
        self._next_stroke = next(self._pending, None)

    @property
    def is_complete(self) -> bool:
        return self._next_stroke is None

    def paint_next_slice(self) -> None:
        painter = QPainter(self.pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0, -self.frame.top)
        spent = 0.0
        while self._next_stroke and spent < PIXELS_PER_SLICE:
            painter.strokePath(self._next_stroke.path, self._next_stroke.pen)
            spent += self._next_stroke.cost
            self._next_stroke = next(self._pending, None)
        painter.end()
