"""A magnifier with the numbers around the pointer, for cells that are too small for numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QAccessible, QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QWidget

from visualizer.heatmap import colour_mapping, panel_paint
from visualizer.heatmap.board_layout import PanelSlot
from visualizer.heatmap.cell_cursor_paint import paint_frame
from visualizer.heatmap.cell_number_format import cell_number_format
from visualizer.heatmap.panel_margins_paint import ALIGN_CENTRE, ALIGN_RIGHT, elide_label
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from PySide6.QtGui import QPaintEvent

    from visualizer.heatmap.board import Heatmap, HeatmapAxis

CELLS = 5
"""Number of rows and columns of the magnifier."""
CELL_WIDTH_PX, CELL_HEIGHT_PX = 40, 22
MAX_ROW_LABEL_PX, LABEL_PX = 90, 11
MARGIN_PX, GAP_PX, RADIUS_PX = 8, 12, 8
"""Space around the cells, distance from the pointed cell, and radius of the corners."""


class NumberMagnifier(QWidget):
    """Shows the numbers around a cell, next to that cell; clicks pass through it."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolTip

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._canvas = parent
        self.slot: PanelSlot | None = None
        """The visible cells, placed in this widget."""
        self._whole: Heatmap | None = None
        self._place, self._origin, self._theme = (0, 0), QRectF(), LIGHT
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("Values around the pointer")
        self.hide()

    def show_numbers_around(
        self,
        slot: PanelSlot,
        place: tuple[int, int],
        offset: QPointF,
        framed: Sequence[QRectF],
        theme: Theme,
    ) -> None:
        """Show the cells around a cell, unless its number is visible or there is none to show.

        No number is shown for blocks of cells and for masked cells.

        Parameters
        ----------
        place : tuple of int
            Row and column of the cell in its panel.
        offset : QPointF
            Distance by which the panels are scrolled.
        framed : sequence of QRectF
            Areas of the board that should remain visible, such as those of the cell's operands.
        """
        if slot.numbers or slot.heatmap.is_pooled:
            return
        scale, heatmap = text_scale(), slot.heatmap
        part, margin = _heatmap_part_around(heatmap, place), round(MARGIN_PX * scale)
        if _is_masked(heatmap, place):
            return
        labels = [part.rows.labels[at] for at in part.rows.visible_range]
        metrics = font_metrics(LABEL_PX)
        widest = max(map(metrics.horizontalAdvance, labels))
        left = round(min(widest, MAX_ROW_LABEL_PX * scale)) + 2 * margin
        top = round(metrics.height() + 1.5 * margin)
        rows, columns = part.values.shape
        width, height = round(CELL_WIDTH_PX * scale), round(CELL_HEIGHT_PX * scale)
        cells = QRect(left, top, width * columns, height * rows)
        self.slot = PanelSlot(
            part, QRectF(cells), width, height, 0, 0,
            has_row_labels=False, numbers=cell_number_format([part], width, height),
        )  # fmt: skip
        self._whole, self._place, self._theme = heatmap, place, theme
        self._origin = slot.cell_area(*place).translated(-offset)
        self.resize(left + cells.width() + margin, top + cells.height() + margin)
        kept = [area.translated(-offset) for area in (slot.cell_area(*place), *framed)]
        self.move(self._choose_position(kept))
        self.show()
        self.update()

    def hide_if_outside(self, point: QPointF) -> None:
        """Hide the magnifier unless a point is inside its cell."""
        if self.isVisible() and not self._origin.contains(point):
            self.hide()

    def _choose_position(self, kept: Sequence[QRectF]) -> QPoint:
        """Return the position around the cell at which the least of the kept areas is covered.

        The first choice is below the cell: the row of the cell remains visible, because frames and
        ribbons mark its operands there.
        """
        canvas, gap, cell = self._canvas.rect(), round(GAP_PX * text_scale()), self._origin
        right, bottom = canvas.width() - self.width(), canvas.height() - self.height()
        left = round(cell.center().x()) - self.width() // 2
        tops = (round(cell.bottom()) + gap, round(cell.top()) - gap - self.height())
        lefts = (left, round(cell.right()) + gap, round(cell.left()) - gap - self.width())
        places = [
            QPoint(max(0, min(x, right)), max(0, min(y, bottom))) for x in lefts for y in tops
        ]

        def covered(place: QPoint) -> float:
            card = QRectF(place, self.size())
            shared = (card.intersected(area) for area in kept)
            return sum(area.width() * area.height() for area in shared)

        return min(places, key=covered)

    def paintEvent(self, event: QPaintEvent) -> None:
        slot, theme = self.slot, self._theme
        if slot is None or self._whole is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.setBrush(QColor(theme.raised))
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(frame, RADIUS_PX, RADIUS_PX)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        indices = _slice_to_part(
            colour_mapping.colour_indices(self._whole), self._whole, slot.heatmap
        )
        panel_paint.paint_values(painter, slot, theme, indices)
        self._paint_labels(painter, slot)
        paint_frame(painter, slot.cell_area(*self._place), 2, theme)
        painter.end()

    def _paint_labels(self, painter: QPainter, slot: PanelSlot) -> None:
        """Name the rows and the columns; those of the cell are in the accent colour."""
        margin, line = MARGIN_PX * text_scale(), font_metrics(LABEL_PX).height()
        rows, columns = slot.heatmap.rows, slot.heatmap.columns
        for axis, chosen in ((rows, self._place[0]), (columns, self._place[1])):
            for at in axis.visible_range:
                is_chosen = at == chosen
                weight = QFont.Weight.DemiBold if is_chosen else QFont.Weight.Normal
                painter.setFont(scaled_font(LABEL_PX, weight))
                painter.setPen(QColor(self._theme.accent if is_chosen else self._theme.quiet))
                if axis is rows:
                    cell = slot.cell_area(at, columns.visible_range.start)
                    area = QRectF(0, cell.top(), cell.left() - margin / 2, cell.height())
                    text = elide_label(axis.labels[at], area.width() - margin / 2, LABEL_PX)
                    painter.drawText(area, ALIGN_RIGHT, text)
                else:
                    cell = slot.cell_area(rows.visible_range.start, at)
                    area = QRectF(cell.left(), cell.top() - line - 3, cell.width(), line)
                    text = elide_label(axis.labels[at], area.width(), LABEL_PX)
                    painter.drawText(area, ALIGN_CENTRE, text)


def _is_masked(heatmap: Heatmap, place: tuple[int, int]) -> bool:
    if heatmap.forbidden is None:
        return False
    row, column = heatmap.rows.cell_index_of(place[0]), heatmap.columns.cell_index_of(place[1])
    return bool(heatmap.forbidden[row, column])


def _axis_part_around(axis: HeatmapAxis, at: int) -> HeatmapAxis:
    """Return an axis of at most `CELLS` rows or columns, with one of them in the middle."""
    seen = axis.visible_range
    start = max(seen.start, min(at - CELLS // 2, seen.stop - CELLS))
    return replace(axis, part=range(start, min(start + CELLS, seen.stop)))


def _heatmap_part_around(heatmap: Heatmap, place: tuple[int, int]) -> Heatmap:
    part = replace(
        heatmap,
        rows=_axis_part_around(heatmap.rows, place[0]),
        columns=_axis_part_around(heatmap.columns, place[1]),
        sums=None,
        is_marked=False,
    )
    return replace(
        part,
        values=_slice_to_part(heatmap.values, heatmap, part),
        forbidden=_slice_to_part(heatmap.forbidden, heatmap, part),
        dropped=_slice_to_part(heatmap.dropped, heatmap, part),
        hidden=_slice_to_part(heatmap.hidden, heatmap, part),
        uneven_cells=_slice_to_part(heatmap.uneven_cells, heatmap, part),
    )


def _slice_to_part(cells: np.ndarray | None, whole: Heatmap, part: Heatmap) -> np.ndarray | None:
    """Return the rows and columns of an array that a part of a panel shows."""
    if cells is None:
        return None
    rows, columns = (
        slice(
            axis.cell_index_of(seen.visible_range.start),
            axis.cell_index_of(seen.visible_range.stop),
        )
        for axis, seen in ((whole.rows, part.rows), (whole.columns, part.columns))
    )
    return cells[rows, columns]
