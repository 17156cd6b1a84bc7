"""Painting of the line view: all lines, the highlighted ones above them, and tokens on both sides.

All lines are painted incrementally into a pixmap, so that no frame takes long.
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
from visualizer.heatmap.panel_margins import MAX_LABEL_PX, widest_label
from visualizer.heatmap.panel_margins_paint import ALIGN_LEFT, ALIGN_RIGHT
from visualizer.session.view_options import LineSide
from visualizer.widgets.fonts import font_metrics, scaled_font, system_font, text_scale
from visualizer.widgets.head_mark import paint_head_mark
from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.features.line_view.line_selection import SelectedLines
    from visualizer.features.line_view.presenter import LinePanel
    from visualizer.widgets.theme import Theme

Positions = np.ndarray | int

MAX_SPREAD_TOKENS = 40
MIN_ROW_PX = 2.0
MAX_ROW_PX = 64
LABEL_GAP_PX = 8
MARGIN_PX = 12
HEADER_HEIGHT_PX = 26
MIN_MIDDLE_PX = 72
MAX_SPREAD_HEADS = 5
HEAD_SPREAD_SHARE = 0.7
"""The fraction of a row's height over which the lines of all heads are spread."""


class AttentionLinesLayout(Struct, frozen=True):
    """Geometry of the line view: one row per token, the same on both sides.

    Parameters
    ----------
    tokens : tuple of int or None
        The tokens that have a row, ascending; None for all.
    left, right : float
        The x coordinates where lines begin and end.
    height : float
        The height of a row.
    top : float
        The top of the first row, unscrolled.
    step : float
        The vertical offset between lines of successive heads with the same tokens.
    first : float
        The offset of the first head's lines from the middle of a row.
    """

    count: int
    left: float
    right: float
    height: float
    top: float
    step: float = 0.0
    first: float = 0.0
    tokens: tuple[int, ...] | None = None

    @property
    def bottom(self) -> float:
        outside = max(0.0, font_metrics(12).height() - self.height) / 2  # the last label's overhang
        return self.top + self.count * self.height + outside

    def token_at(self, row: int) -> int:
        """Return the token of a row."""
        return row if self.tokens is None else self.tokens[row]

    def row_of(self, token: int) -> int | None:
        """Return the row of a token; None if it has none."""
        if self.tokens is None:
            return token if token < self.count else None
        row = bisect_left(self.tokens, token)
        return row if self.tokens[row : row + 1] == (token,) else None

    def row_middle(self, row: float) -> float:
        """Return the y coordinate of the middle of a row."""
        return self.top + (row + 0.5) * self.height

    def row_at(self, y: float) -> int | None:
        """Return the row at a y coordinate; None outside the rows."""
        row = int((y - self.top) // self.height)
        return row if 0 <= row < self.count else None

    def line_ends(self, heads: Positions, tokens: Positions) -> np.ndarray:
        """Return the y coordinates at which heads' lines meet tokens, all of which have a row."""
        within = self.first + np.asarray(heads) * self.step
        rows = tokens if self.tokens is None else np.searchsorted(self.tokens, tokens)
        heights: np.ndarray = self.top + (np.asarray(rows) + 0.5) * self.height + within
        return heights

    def curve_share(self, x: float) -> float:
        """Return the fraction of a line's vertical distance that is covered at an x coordinate."""
        return float(np.interp((x - self.left) / (self.right - self.left), _ACROSS, _ALONG))


def curve_shares(pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the x and y fractions of a line at the ends of its pieces.

    A line is a cubic Bézier curve with both control points halfway across.
    """
    times = np.linspace(0, 1, pieces + 1)
    return 1.5 * times * (1 - times) + times**3, 3 * times**2 - 2 * times**3


_ACROSS, _ALONG = curve_shares(64)


def lay_out_lines(
    labels: tuple[str, ...],
    heads: int,
    width: float,
    height: float,
    tokens: tuple[int, ...] | None = None,
) -> AttentionLinesLayout:
    """Lay out the tokens and the lines of a number of heads in a view of a given size.

    With few tokens, rows have a readable height. With more tokens, they shrink to fit the view,
    down to the smallest height that can be pointed at. If only some tokens are listed, every row
    keeps a readable height.
    """
    scale, line = text_scale(), font_metrics(12).height()
    count = max(1, len(labels))
    top = HEADER_HEIGHT_PX * scale
    smallest = line + 2 if count <= MAX_SPREAD_TOKENS or tokens is not None else MIN_ROW_PX
    row = min((height - top) / count, MAX_ROW_PX * scale)
    outside = max(0.0, line - row) / 2  # overhang of the first and last label
    row = max(row - 2 * outside / count, smallest)
    top += outside
    most = min(MAX_LABEL_PX * scale, (width - MIN_MIDDLE_PX) / 2 - LABEL_GAP_PX - MARGIN_PX)
    bold = 1.1 * widest_label(labels)  # highlighted labels are bold
    own = max(bold, font_metrics(12).horizontalAdvance("query"))
    widest = max(0.0, min(own + 4, most))
    side = MARGIN_PX + widest + LABEL_GAP_PX
    step = min(MAX_SPREAD_HEADS * scale, row * HEAD_SPREAD_SHARE / heads) if heads > 1 else 0.0
    first = -step * (heads - 1) / 2
    right = max(width - side, side + 1)
    return AttentionLinesLayout(len(labels), side, right, row, top, step, first, tokens)


STRENGTH_LEVELS = 12
THINNEST, WIDEST = 1.0, 5.0
"""The widths of lines of strength 0 and 1, in logical pixels."""
MIN_OPACITY = 0.08
"""The opacity of a line of weight 0."""
HEAD_MARK_SIDE_PX = 8
"""The side of a head's mark, at the default text size."""
MAX_OPAQUE_LINES = 60
THIN, WIDE_COSTS = 1.5, 8
"""Width below which a line is drawn thin if there are many, and the cost of a wide line."""
MAX_WIDE_LINES = 12
"""Maximum number of wide lines, the strongest; more would make painting slow."""
MAX_PIECE_LENGTH_PX = 15.0
"""Maximum length of a piece of a thin line, in pixels."""
PATH_ELEMENT = np.dtype([("kind", ">i4"), ("x", ">f8"), ("y", ">f8")])
"""A path element in the format of Qt's data streams."""
MAX_PATH_LENGTH = 10_000
"""Maximum length of a path; longer ones are split so that they can be drawn in several frames."""


class LineStroke(Struct, frozen=True):
    """Lines of one colour and strength, as one path.

    Parameters
    ----------
    cost : float
        The time to draw it, in pixels of a thin line.
    """

    path: QPainterPath
    pen: QPen
    cost: float


class LineBrush(Struct, frozen=True):
    """The pens of a picture's lines. A line's width depends only on its own strength.

    Opacity is relative to the strongest line, which is opaque, so that it stands out from the
    background even if all weights are small. With few lines, small weights stay visible; with
    many, large ones stand out.

    Parameters
    ----------
    strongest_weight : float
        The largest strength in the picture.
    gamma : float
        The exponent of opacity.
    """

    strongest_weight: float
    gamma: float

    @classmethod
    def for_picture(cls, lines: SelectedLines) -> LineBrush:
        """Return the brush of a whole picture; its parts use the same one."""
        share = min(1.0, MAX_OPAQUE_LINES / max(1, len(lines)))
        return cls(lines.strongest_weight, 0.6 + 0.6 * (1 - share))

    def strength_levels(self, strengths: np.ndarray) -> np.ndarray:
        """Quantize strengths to `STRENGTH_LEVELS` levels."""
        levels = (strengths / self.strongest_weight * (STRENGTH_LEVELS - 1)).round().astype(int)
        return np.asarray(levels.clip(0, STRENGTH_LEVELS - 1))

    def line_width(self, level: int) -> float:
        """Return the width of a line, in logical pixels."""
        return THINNEST + (WIDEST - THINNEST) * self.strongest_weight * level / (
            STRENGTH_LEVELS - 1
        )

    def create_pen(
        self, head: int, level: int, is_wide: bool, is_negative: bool, theme: Theme
    ) -> QPen:
        """Return the pen of a head's lines at a level; one device pixel wide if not `is_wide`."""
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
    brush: LineBrush,
) -> None:
    """Paint lines all at once."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for stroke in line_strokes(lines, rows, seen, theme, brush):
        painter.strokePath(stroke.path, stroke.pen)


def line_strokes(
    lines: SelectedLines,
    rows: AttentionLinesLayout,
    seen: tuple[float, float],
    theme: Theme,
    brush: LineBrush,
) -> Iterator[LineStroke]:
    """Yield the strokes of the lines between two y coordinates, the strongest last."""
    begins, ends = (rows.line_ends(lines.heads, side) for side in (lines.queries, lines.keys))
    inside = (np.maximum(begins, ends) >= seen[0]) & (np.minimum(begins, ends) <= seen[1])
    levels = brush.strength_levels(lines.line_strengths)
    are_few = len(lines) <= MAX_OPAQUE_LINES and rows.count <= MAX_OPAQUE_LINES
    widths = np.array([brush.line_width(level) for level in range(STRENGTH_LEVELS)])[levels]
    are_wide = np.full(len(lines), are_few) | (widths >= THIN)
    if not are_few and are_wide.sum() > MAX_WIDE_LINES:
        are_wide[np.argsort(lines.line_strengths, kind="stable")[:-MAX_WIDE_LINES]] = False
    kinds = np.stack([are_wide, levels, lines.heads, lines.weights < 0])
    for at in _group_by_kind(kinds, np.nonzero(inside)[0]):
        is_wide, level, head, is_negative = kinds[:, at[0]].tolist()
        pen = brush.create_pen(head, level, bool(is_wide), bool(is_negative), theme)
        costs = rows.right - rows.left + np.abs(ends[at] - begins[at])
        costs *= WIDE_COSTS if is_wide else 1
        cuts = np.nonzero(np.diff(np.cumsum(costs) // MAX_PATH_LENGTH))[0] + 1
        for some, each in zip(np.split(at, cuts), np.split(costs, cuts), strict=True):
            part = (rows, begins[some], ends[some])
            path = curve_path(*part) if is_wide else path_from_elements(piece_elements(*part))
            yield LineStroke(path, pen, float(each.sum()))


def _group_by_kind(kinds: np.ndarray, some: np.ndarray) -> list[np.ndarray]:
    """Group lines by kind, ordered by kind and, within one, in the order of the lines."""
    order = some[np.lexsort(kinds[::-1, some])]
    changes = (np.diff(kinds[:, order], axis=1) != 0).any(axis=0)
    return np.split(order, np.nonzero(changes)[0] + 1) if len(order) else []


def curve_path(rows: AttentionLinesLayout, begins: np.ndarray, ends: np.ndarray) -> QPainterPath:
    """Return the curves of lines, given the heights of their ends."""
    path, middle = QPainterPath(), (rows.left + rows.right) / 2
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        path.moveTo(rows.left, begin)
        path.cubicTo(middle, begin, middle, end, rows.right, end)
    return path


def piece_elements(rows: AttentionLinesLayout, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Approximate the same curves by short straight pieces, each starting at its lower end.

    Qt blends a thin translucent line piece by piece if each piece begins above the previous one,
    and passes spans of more than 96 pixels to other threads: waking them takes ten times as long
    as painting the line.

    Returns
    -------
    ndarray
        Path elements [line, end of a piece].
    """
    steepest = 1.5 * float(np.abs(ends - begins).max(initial=0))
    longest = max(steepest, rows.right - rows.left)
    across, along = curve_shares(math.ceil(longest / MAX_PIECE_LENGTH_PX))
    is_down = (ends > begins)[:, None]
    elements = np.empty((len(begins), len(across)), PATH_ELEMENT)
    elements["kind"] = QPainterPath.ElementType.LineToElement.value
    elements["kind"][:, 0] = QPainterPath.ElementType.MoveToElement.value
    elements["x"] = rows.left + (rows.right - rows.left) * np.where(is_down, across[::-1], across)
    shares = np.where(is_down, along[::-1], along)
    elements["y"] = begins[:, None] + (ends - begins)[:, None] * shares
    return elements


def path_from_elements(elements: np.ndarray) -> QPainterPath:
    """Read a path from bytes; adding thousands of elements one call at a time would take longer."""
    count = np.array(elements.size, ">i4").tobytes()
    path = QPainterPath()
    QDataStream(QByteArray(count + elements.tobytes() + bytes(8))) >> path
    return path


def paint_cell(
    painter: QPainter, panel: LinePanel, rows: AttentionLinesLayout, theme: Theme
) -> None:
    """Paint the line of the highlighted cell above all others, outlined, with its number."""
    if panel.cell is None or panel.weight is None:
        return
    head, query, key = panel.cell.place
    begin, end = (float(rows.line_ends(head, at)) for at in (query, key))
    path = curve_path(rows, np.array([begin]), np.array([end]))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    brush = LineBrush.for_picture(panel.lines)
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


def label_box(rows: AttentionLinesLayout, side: LineSide, at: int) -> QRectF:
    """Return the rectangle of a token's label."""
    height = max(rows.height, font_metrics(12).height())
    top = rows.row_middle(at) - height / 2
    left = MARGIN_PX if side is LineSide.QUERY else rows.right + LABEL_GAP_PX
    return QRectF(left, top, rows.left - LABEL_GAP_PX - MARGIN_PX, height)


def paint_labels(
    painter: QPainter,
    panel: LinePanel,
    rows: AttentionLinesLayout,
    seen: tuple[float, float],
    theme: Theme,
) -> None:
    """Paint the tokens on both sides, evenly thinned if needed, highlighted ones on top."""
    line = font_metrics(12).height()
    step = max(1, math.ceil(line / rows.height - 0.25))
    first = max(0, rows.row_at(max(seen[0] - line, rows.top)) or 0) // step * step
    for side, token in ((LineSide.QUERY, panel.query), (LineSide.KEY, panel.key)):
        highlighted = None if token is None else rows.row_of(token)
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(theme.ink))
        for at in range(first, rows.count, step):
            if rows.row_middle(at) > seen[1] + line:
                break
            if (
                highlighted is None or abs(at - highlighted) >= step
            ):  # it would overlap the highlighted one
                _paint_label(painter, panel.labels[at], label_box(rows, side, at), side)
        if highlighted is not None:
            painter.setFont(scaled_font(12, QFont.Weight.DemiBold))
            painter.setPen(QColor(theme.accent))
            box = label_box(rows, side, highlighted)
            _paint_label(painter, panel.labels[highlighted], box, side)


def _paint_label(painter: QPainter, label: str, box: QRectF, side: LineSide) -> None:
    """Paint a token separately, so that its neighbours do not affect its text direction."""
    words = _elide_label(label, painter.font().weight(), int(box.width()), system_font())
    towards = ALIGN_RIGHT if side is LineSide.QUERY else ALIGN_LEFT
    painter.drawText(box, towards | Qt.AlignmentFlag.AlignAbsolute, words)


@lru_cache(maxsize=4096)
def _elide_label(label: str, weight: QFont.Weight, width: int, font: QFont) -> str:
    measures = QFontMetrics(scaled_font(12, weight))
    return measures.elidedText(label, Qt.TextElideMode.ElideRight, width)


def paint_titles(painter: QPainter, rows: AttentionLinesLayout, theme: Theme) -> None:
    """Paint the titles of both sides."""
    band = QRectF(0, 0, rows.left + rows.right, HEADER_HEIGHT_PX * text_scale())
    painter.fillRect(band, QColor(theme.paper))
    painter.setFont(scaled_font(12))
    painter.setPen(QColor(theme.quiet))
    line = band.adjusted(0, 0, 0, -4 * text_scale())
    painter.drawText(line.adjusted(0, 0, -rows.right - LABEL_GAP_PX, 0), ALIGN_RIGHT, "query")
    painter.drawText(line.adjusted(rows.right + LABEL_GAP_PX, 0, 0, 0), ALIGN_LEFT, "key")


PIXELS_PER_SLICE = 20_000
"""Thin-line pixels drawn per time slice; input events are handled between slices."""
MAX_PICTURE_HEIGHT_PX = 4096
"""Maximum height of a picture of all rows; beyond it, only the visible part is drawn."""


class LinePictureKey(Struct, frozen=True):
    """The inputs of a picture of all lines.

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
        """Return the key of a picture of all rows, or of the visible ones if that is too high."""
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
        brush = LineBrush.for_picture(frame.lines)
        self._pending = line_strokes(frame.lines, frame.rows, seen, frame.theme, brush)
        self._next_stroke = next(self._pending, None)

    @property
    def is_complete(self) -> bool:
        return self._next_stroke is None

    def resume(self) -> None:
        painter = QPainter(self.pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0, -self.frame.top)
        spent = 0.0
        while self._next_stroke and spent < PIXELS_PER_SLICE:
            painter.strokePath(self._next_stroke.path, self._next_stroke.pen)
            spent += self._next_stroke.cost
            self._next_stroke = next(self._pending, None)
        painter.end()
