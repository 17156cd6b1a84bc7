"""The weights as lines: tokens at both sides, drawn once, lit by the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter

from visualizer.state.lines.look import Side, Token
from visualizer.state.lines.panel import LinePanel
from visualizer.state.view import Cell
from visualizer.ui.linepaint import paint_cell, paint_head, paint_labels, paint_lines
from visualizer.ui.linepicture import Frame, Picture
from visualizer.ui.linerows import HEAD, Rows, lay_out
from visualizer.ui.pointed import PointedArea
from visualizer.ui.theme import font, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent, QPaintEvent, QResizeEvent
    from PySide6.QtWidgets import QWidget

    from visualizer.state.lines.choosing import Lines
    from visualizer.ui.theme import Theme

NEAR = 5
NEAR_QUERY = 0.3
DIMMED = 0.16


class LineView(PointedArea):
    """All lines of a panel; `tokenHovered` and `tokenClicked` carry a `Token`."""

    tokenHovered = Signal(object)
    tokenClicked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Lines from queries to keys")
        self._panel = LinePanel()
        self._rows = Rows(0, 0, 1, 1, 0)
        self._picture: Picture | None = None
        self._more = QTimer(self, singleShot=True, interval=0)
        self._more.timeout.connect(self._go_on)

    # ------------------------------------------------------------------ what is shown

    def show_lines(self, panel: LinePanel, theme: Theme) -> None:
        """Show lines, lit as the panel says."""
        before, self._panel = self._panel, panel
        is_pinned_anew = panel.pinned is not None and panel.pinned != before.pinned
        is_moved = (panel.labels, panel.heads, panel.solo) != (
            before.labels, before.heads, before.solo
        )  # fmt: skip
        if is_moved or theme is not self._theme:
            self._theme = theme
            self._arrange()
        if panel.lines is not before.lines:
            self._later.start()  # another line may be under the pointer
        self.viewport().update()
        if is_pinned_anew:
            self._see(panel)

    def place_of(self, cell: Cell) -> QPointF:
        """Give where a cell's line is in the viewport, near its query: there others are apart."""
        head, query, key = cell.place
        rows = self._rows
        x = rows.left + (rows.right - rows.left) * NEAR_QUERY
        begin, end = (float(rows.ends(head, at)) for at in (query, key))
        return QPointF(x, begin + (end - begin) * rows.way(x) - self._offset())

    def place_of_token(self, token: Token) -> QPointF:
        """Give where a token stands in the viewport."""
        x = self._rows.left / 2 if token.side is Side.QUERY else self._rows.right + 20
        return QPointF(x, self._rows.middle(token.at) - self._offset())

    def _see(self, panel: LinePanel) -> None:
        """Scroll to the tokens that are pinned: to the query, where both have no room."""
        bar, part = self.verticalScrollBar(), self.viewport().height()
        for at in (panel.key, panel.query):
            if at is not None:
                middle = self._rows.middle(at)
                low, high = middle - HEAD * text_scale() - 20, middle + 20
                bar.setValue(round(min(max(bar.value(), high - part), low)))

    def _arrange(self) -> None:
        size = self.viewport().size()
        heads = self._panel.heads if self._panel.solo is None else 1
        self._rows = lay_out(self._panel.labels, heads, size.width(), size.height())
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, round(self._rows.bottom) - size.height()))
        bar.setPageStep(size.height())
        bar.setSingleStep(40)
        self._later.start()
        self.viewport().update()

    def _offset(self) -> int:
        return self.verticalScrollBar().value()

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, panel, theme = QPainter(self.viewport()), self._panel, self._theme
        painter.fillRect(self.viewport().rect(), QColor(theme.paper))
        offset, height = self._offset(), self.viewport().height()
        seen = (offset, offset + height)
        if panel.message:
            self._paint_message(painter)
        self._paint_picture(painter)
        painter.translate(0, -offset)
        if panel.lit is not None:
            paint_lines(painter, panel.lit, self._rows, seen, theme)
            paint_cell(painter, panel, self._rows, theme)
        if panel.labels:
            paint_labels(painter, panel, self._rows, seen, theme)
            painter.translate(0, offset)
            paint_head(painter, self._rows, theme)
        self._paint_mark(painter)
        painter.end()
        self.painted.emit()

    def _paint_message(self, painter: QPainter) -> None:
        painter.setPen(QColor(self._theme.quiet))
        painter.setFont(font(12))
        inner = round(max(24.0, self._rows.left))
        area = self.viewport().rect().adjusted(inner, 0, -inner, 0)
        flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
        painter.drawText(area, flags, self._panel.message)

    def _paint_picture(self, painter: QPainter) -> None:
        """Paint the lines that are not lit, as far as they have been drawn."""
        seen, offset, ratio = self.viewport().size(), self._offset(), self.devicePixelRatioF()
        frame = Frame.of(self._panel.lines, self._rows, seen, offset, ratio, self._theme)
        if self._picture is None or self._picture.frame != frame:
            self._picture = Picture(frame)
            self._picture.go_on()
        if not self._picture.is_complete:
            self._more.start()  # a frame that answers the hand does not wait for it
        painter.setOpacity(1 if self._panel.lit is None else DIMMED)
        painter.drawPixmap(0, frame.top - offset, self._picture.pixmap)
        painter.setOpacity(1)

    def _go_on(self) -> None:
        if self._picture:
            self._picture.go_on()
            if self._picture.is_complete:
                self.viewport().update()
            else:
                self._more.start()  # nothing is painted in between: the lit lines would be, again

    # ------------------------------------------------------------------ the hand

    def _point(self, point: QPointF) -> None:
        found = self._at(point)
        if found != self._pointed:
            self._pointed = found
            if isinstance(found, Token):
                self.tokenHovered.emit(found)
            else:
                self.cellHovered.emit(found)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        found = self._at(event.position())
        if isinstance(found, Token):
            self.tokenClicked.emit(found)
        else:
            self.cellClicked.emit(found)

    def _at(self, point: QPointF) -> Cell | Token | None:
        rows, y = self._rows, point.y() + self._offset()
        if not self._panel.labels or point.y() < HEAD * text_scale():
            return None
        if rows.left <= point.x() <= rows.right:
            return self._line_at(point.x(), y)
        at = rows.at(y)
        side = Side.QUERY if point.x() < rows.left else Side.KEY
        return None if at is None else Token(side, at)

    def _line_at(self, x: float, y: float) -> Cell | None:
        """Find the line next to a point, of those of the pinned cell before all others."""
        for lines in (self._panel.held, self._panel.lines):
            found = self._nearest(lines, x, y) if lines is not None and len(lines) else None
            if found:
                return found
        return None

    def _nearest(self, lines: Lines, x: float, y: float) -> Cell | None:
        rows, way = self._rows, self._rows.way(x)
        begins, ends = (rows.ends(lines.heads, side) for side in (lines.queries, lines.keys))
        away = np.abs(begins + (ends - begins) * way - y)
        near = away.min()
        if near > NEAR * text_scale():
            return None
        at = int(np.nonzero(away <= near + 0.5)[0][-1])  # the largest, of those on one another
        place = (int(lines.heads[at]), int(lines.queries[at]), int(lines.keys[at]))
        return Cell(self._panel.stage, place)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()
