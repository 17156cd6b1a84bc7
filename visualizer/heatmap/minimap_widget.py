"""A minimap of the whole panel, shown while the board is zoomed; its frame can be dragged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from visualizer.heatmap import colour_mapping
from visualizer.heatmap.cell_cursor_paint import paint_frame
from visualizer.heatmap.highlights import Highlights
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent, QPaintEvent

    from visualizer.heatmap.board import Board, Heatmap

SIDE_PX = 112
EDGE_MARGIN_PX = 4


class MinimapWidget(QWidget):
    """Shows which queries and keys are visible; clicking or dragging moves the visible part."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic
    centred = Signal(int, int)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._board: Board | None = None
        self._highlights = Highlights()
        self._theme = LIGHT
        self._picture: tuple[Heatmap, Theme, QPixmap] | None = None
        # The widget paints its whole area, so Qt need not paint the background first.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setCursor(Qt.CursorShape.SizeAllCursor)
        self.setToolTip("Visible part of all queries and keys. Drag to pan.")
        self.hide()

    def sizeHint(self) -> QSize:
        side = round(SIDE_PX * text_scale()) + 2 * EDGE_MARGIN_PX
        return QSize(side, side)

    def show_board(self, board: Board, highlights: Highlights, theme: Theme) -> None:
        """Show the map of a zoomed board; hide the widget if the board is not zoomed."""
        if board is self._board and highlights is self._highlights and theme is self._theme:
            return
        self._board, self._highlights, self._theme = board, highlights, theme
        if self._picture and self._picture[0] is not board.overview:
            self._picture = None  # it would keep unused values alive
        self.setVisible(board.overview is not None)
        if board.zoom:
            queries, keys = board.zoom.queries, board.zoom.keys
            seen = f"queries {queries.start + 1} to {queries.stop}"
            self.setAccessibleName(
                f"Minimap: {seen} and keys {keys.start + 1} to {keys.stop} are visible"
            )
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        board, theme = self._board, self._theme
        if board is None or board.overview is None or board.zoom is None:
            return
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme.paper))
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        area = self.map_area()
        if self._is_fully_computed(board.overview):
            painter.drawPixmap(area.toRect(), self._pixmap_of(board.overview))
        else:
            painter.fillRect(area.toRect(), QColor(theme.raised))
        queries, keys = board.zoom.queries, board.zoom.keys
        across = area.width() / len(board.overview.columns.labels)
        down = area.height() / len(board.overview.rows.labels)
        seen = QRectF(keys.start * across, queries.start * down, len(keys) * across,
                      len(queries) * down)  # fmt: skip
        seen.translate(area.topLeft())
        smallest = QRectF(seen.topLeft(), seen.topLeft() + QPointF(3, 3))
        paint_frame(painter, seen.united(smallest), 1.5, theme)
        painter.end()

    def map_area(self) -> QRectF:
        return QRectF(self.rect()).adjusted(
            EDGE_MARGIN_PX, EDGE_MARGIN_PX, -EDGE_MARGIN_PX, -EDGE_MARGIN_PX
        )

    def _is_fully_computed(self, heatmap: Heatmap) -> bool:
        """Return whether the whole panel is computed and not hidden for a prediction."""
        rows = {reach.stage: reach.rows for reach in self._highlights.computed_extents}
        is_whole = rows.get(heatmap.stage, len(heatmap.rows.labels)) >= len(heatmap.rows.labels)
        return is_whole and heatmap.stage not in self._highlights.hidden_stages

    def _pixmap_of(self, heatmap: Heatmap) -> QPixmap:
        if self._picture is None or self._picture[:2] != (heatmap, self._theme):
            image = colour_mapping.create_colour_image(
                colour_mapping.colour_indices(heatmap), heatmap.colour.map, self._theme
            )
            self._picture = (heatmap, self._theme, QPixmap.fromImage(image))
        return self._picture[2]

    # ------------------------------------------------------------------ mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._request_centre(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons():
            self._request_centre(event.position())

    def _request_centre(self, point: QPointF) -> None:
        board, area = self._board, self.map_area()
        if board and board.overview:
            overview = board.overview
            query = (point.y() - area.top()) / area.height() * len(overview.rows.labels)
            key = (point.x() - area.left()) / area.width() * len(overview.columns.labels)
            self.centred.emit(int(query), int(key))
