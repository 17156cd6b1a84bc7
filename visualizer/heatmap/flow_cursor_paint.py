"""Paints the cursor of the flow board: a cell, its operands, and the ribbons between them.

A weight belongs to a chain: the score is computed from its query row and its key column, the row of
scores becomes the row of weights, and each weight determines the share of a value in the context
vector. The ribbons of a row of weights are stacked at its right edge, and together they are exactly
as high as the row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPen, QRegion

from visualizer.attention.roles import Role
from visualizer.heatmap.cell_cursor import CellCursor
from visualizer.heatmap.cell_cursor_paint import paint_frame
from visualizer.heatmap.flow_labels_paint import (
    TokenLabel,
    board_labels,
    create_row_label,
    key_label_slots,
    label_of_key,
    paint_token_label,
    row_label_slot,
)
from visualizer.heatmap.flow_paint import paint_residual_name, residual_branch, residual_line
from visualizer.heatmap.flow_placement import token_label_text
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.heatmap.board_layout import FlowPlacement, LayerWeightCell, PanelSlot
    from visualizer.heatmap.highlights import Highlights
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme

BAND_PX = 10
FRAME_PX = 2.0
CELL_FRAME_PX = 2.5
BAND_ALPHA, RIBBON_ALPHA, OTHER_RIBBON_ALPHA = 56, 150, 60
CROSSED_ALPHA = 150
"""Opacity, from 0 to 255, of the outlines of cells that a band crosses."""
MIN_RIBBON_PX = 0.4
"""Minimum height of a ribbon that is painted; thinner ribbons would be invisible."""
MAX_RIBBONS = 128
LETTERS_PX = 1.5
"""Distance between letters and the upper and lower edges of their line."""


class WeightRibbon(Struct, frozen=True, eq=False):
    """The ribbon from a drawn weight to the value that the weight multiplies.

    Parameters
    ----------
    start, end : QRectF
        The weight's part of the right edge of its row, and the row of the value.
    """

    keys: range
    start: QRectF
    end: QRectF

    @property
    def path(self) -> QPainterPath:
        return _ribbon_path(self.start, self.end)


def _expand_to_whole_cells(slot: PanelSlot, area: QRectF) -> QRectF:
    """Return the area of the cells that an area within a panel touches."""
    corner, wide, high = slot.cells.topLeft(), slot.cell_width, slot.cell_height
    inner = area.adjusted(0.5, 0.5, -0.5, -0.5).translated(-corner)
    left, top = math.floor(inner.left() / wide), math.floor(inner.top() / high)
    right, bottom = math.ceil(inner.right() / wide), math.ceil(inner.bottom() / high)
    cells = QRectF(left * wide, top * high, (right - left) * wide, (bottom - top) * high)
    return cells.translated(corner)


def row_area(slot: PanelSlot, row: int) -> QRectF | None:
    """Return the area of a panel's row, or None if it is not visible."""
    if row not in slot.heatmap.rows.visible_range:
        return None
    band = slot.cell_area(row, slot.heatmap.columns.visible_range.start)
    return QRectF(slot.cells.left(), band.top(), slot.cells.width(), band.height())


def column_area(slot: PanelSlot, column: int) -> QRectF | None:
    """Return the area of a panel's column, or None if it is not visible."""
    if column not in slot.heatmap.columns.visible_range:
        return None
    band = slot.cell_area(slot.heatmap.rows.visible_range.start, column)
    return QRectF(band.left(), slot.cells.top(), band.width(), slot.cells.height())


def _visible_cell_area(slot: PanelSlot, row: int, column: int) -> QRectF | None:
    """Return the area of a panel's cell, or None if it is not visible."""
    heatmap = slot.heatmap
    if row not in heatmap.rows.visible_range or column not in heatmap.columns.visible_range:
        return None
    return slot.cell_area(row, column)


class FlowCursor:
    """The chain of one cell on the flow board.

    Parameters
    ----------
    hidden_stages : frozenset of str
        Stages that a prediction hides; no ribbon shows their values.
    """

    def __init__(
        self, placement: FlowPlacement, cell: Cell, hidden_stages: frozenset[str] = frozenset()
    ) -> None:
        self._placement, self._cell, self._hidden_stages = placement, cell, hidden_stages
        names = (column.states for column in placement.panels.columns)
        self._at = next((at for at, states in enumerate(names) if cell.stage in states), None)
        self.query: int | None = None
        self.key: int | None = None
        if self._at is not None and len(cell.place) >= 2:
            column = placement.panels.columns[self._at]
            row = cell.place[-2]
            if column.is_query_key:
                self.query, self.key = row, cell.place[-1]
            elif self._has_key_rows(self._at):
                self.key = row
            else:
                self.query = row

    def _has_key_rows(self, at: int) -> bool:
        """Return whether the rows of a column are keys, as in the stages of keys and values."""
        states = self._placement.panels.columns[at].states
        return any(column.operand in states for column in self._placement.panels.columns)

    def paint(self, painter: QPainter, theme: Theme) -> None:
        """Paint ribbons, frames and labels."""
        if self._at is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        bands = [*self._ribbons()]
        painter.save()
        painter.setClipRegion(self._area_between_matrices(), Qt.ClipOperation.IntersectClip)
        for path, alpha in bands:
            painter.fillPath(path, with_alpha(theme.accent, alpha))
        for path in self._other_weight_ribbons():
            painter.fillPath(path, with_alpha(theme.quiet, OTHER_RIBBON_ALPHA))
        painter.restore()
        self._paint_residual_path(painter, theme)
        painter.setPen(QPen(with_alpha(theme.accent, CROSSED_ALPHA), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for area in self._crossed_cells([path for path, _ in bands]):
            painter.drawRect(area)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for area in self.frames():
            paint_frame(painter, area, FRAME_PX, theme)
        own = self._cell_area()
        if own is not None:
            paint_frame(painter, own, CELL_FRAME_PX, theme)
        self.paint_labels(painter, theme)

    @property
    def _matrix_slots(self) -> list[PanelSlot]:
        slots = (*self._placement.slots, *self._placement.operands)
        return [slot for slot in slots if slot]

    def _area_between_matrices(self) -> QRegion:
        """Return the canvas without the matrices, so that bands do not change their colours."""
        size = self._placement.layout.size
        area = QRegion(0, 0, math.ceil(size.width), math.ceil(size.height))
        for slot in self._matrix_slots:
            area -= QRegion(slot.cells.toAlignedRect())
        return area

    def _crossed_cells(self, bands: list[QPainterPath]) -> Iterator[QRectF]:
        """Yield the cells that a straight band crosses in the matrix where it ends."""
        thickness = BAND_PX * text_scale() + 1
        straight = (band.boundingRect() for band in bands)
        areas = [area for area in straight if min(area.width(), area.height()) <= thickness]
        for slot in self._matrix_slots:
            for area in areas:
                shared = area.intersected(slot.cells)
                is_end = slot.cells.adjusted(0, 0, 1, 1).contains(area.bottomRight())
                if is_end and shared.width() > 1 and shared.height() > 1:
                    yield _expand_to_whole_cells(slot, shared)

    def _paint_residual_path(self, painter: QPainter, theme: Theme) -> None:
        """Paint the way of the residual stream to the sum that has the cell."""
        assert self._at is not None
        columns, line = self._placement.layout.columns, residual_line(self._placement)
        source = self._residual_source_column()
        if source is None or line is None:
            return
        start, end = (columns[at].cells for at in (source, self._at))
        left, right = start.left + start.width / 2, end.left + end.width / 2
        path = QPainterPath(QPointF(left, start.bottom))
        for x, y in ((left, line.y1()), (right, line.y1()), (right, end.bottom)):
            path.lineTo(x, y)
        pen = QPen(with_alpha(theme.accent, RIBBON_ALPHA), BAND_PX / 2)
        painter.strokePath(path, pen)
        painter.setPen(pen)
        for at in self._row_source_columns(self._at):
            added = columns[at].cells
            if at != source and added.width:
                below = QPointF(added.left + added.width / 2, added.bottom)
                painter.drawPolyline(residual_branch(below, QPointF(right, line.y1())))
        paint_residual_name(painter, line, theme)

    def _residual_source_column(self) -> int | None:
        """Return the column of the residual stream that the cell's column adds to."""
        assert self._at is not None
        column = self._placement.panels.columns[self._at]
        return self._column_of_stage(column.reads[0]) if column.is_residual_addition else None

    # ------------------------------------------------------------------ areas

    def _slot_of_column(self, at: int | None) -> PanelSlot | None:
        return None if at is None else self._placement.slots[at]

    def _column_of_stage(self, stage: str) -> int | None:
        columns = self._placement.panels.columns
        return next((at for at, one in enumerate(columns) if stage in one.states), None)

    def _row_area(self, at: int | None, row: int | None) -> QRectF | None:
        """Return the area of a row in a column of the board."""
        slot = self._slot_of_column(at)
        return None if slot is None or row is None else row_area(slot, row)

    def _operand_area(self, at: int | None, along: int | None) -> QRectF | None:
        """Return the area of a transposed operand's column, or of any other operand's row."""
        operand = None if at is None else self._placement.operands[at]
        if operand is None or at is None or along is None:
            return None
        is_transposed = self._placement.panels.columns[at].is_operand_transposed
        return column_area(operand, along) if is_transposed else row_area(operand, along)

    def _operand_column_area(self, at: int) -> QRectF | None:
        """Return the column of the operand (layer weights or values) above the cell."""
        operand = self._placement.operands[at]
        return None if operand is None else column_area(operand, self._cell.place[-1])

    def _cell_area(self) -> QRectF | None:
        return self._cell_area_in_column(self._at)

    def _cell_area_in_column(self, at: int | None) -> QRectF | None:
        slot, (row, column) = self._slot_of_column(at), self._cell.place[-2:]
        return None if slot is None else _visible_cell_area(slot, row, column)

    @property
    def _query_key_columns(self) -> list[int]:
        return [at for at, one in enumerate(self._placement.panels.columns) if one.is_query_key]

    @property
    def _is_query_key_cell(self) -> bool:
        return self._at in self._query_key_columns

    def _context_column(self) -> int | None:
        """Return the column in which the weights are applied to the values."""
        columns = self._placement.panels.columns
        found = (
            at for at, one in enumerate(columns) if one.operand and not one.is_operand_transposed
        )
        return next(found, None)

    # ------------------------------------------------------------------ frames and ribbons

    def frames(self) -> Iterator[QRectF]:
        """Yield the areas of the cell's operands and of the cells that use it."""
        if self._at is None:
            return
        areas = self._query_key_frames() if self._is_query_key_cell else self._vector_frames()
        yield from (area for area in areas if area is not None)

    def _query_key_frames(self) -> Iterator[QRectF | None]:
        columns = self._placement.panels.columns
        for at in self._query_key_columns:
            yield self._cell_area_in_column(at)
            if columns[at].operand:
                yield self._row_area(self._first_row_source_column(at), self.query)
                yield self._row_area(self._column_of_stage(columns[at].operand), self.key)
                yield self._operand_area(at, self.key)
        context = self._context_column()
        if context is not None:
            yield self._operand_area(context, self.key)
            yield self._row_area(context, self.query)

    def _vector_frames(self) -> Iterator[QRectF | None]:
        assert self._at is not None
        row = self._cell.place[-2]
        concat = self._column_of_stage(Role.CONCAT)
        if self._at == concat:
            yield self._concat_source_area()
        else:
            for at in self._row_source_columns(self._at):
                yield self._row_area(at, row)
        if concat is not None and self._at in self._row_source_columns(concat):
            yield self._concat_copy_area(concat)
        yield self._operand_column_area(self._at)
        for at in self._columns_using_cell_stage():
            yield self._operand_area(at, row)

    def _concat_source_area(self) -> QRectF | None:
        """Return the number that a cell of Concat copies, or the tab of its head in the back."""
        assert self._at is not None
        source, panels = (
            self._slot_of_column(self._first_row_source_column(self._at)),
            self._placement.panels,
        )
        if source is None:
            return None
        head, column = divmod(self._cell.place[-1], len(source.heatmap.columns.labels))
        if head == panels.front or not panels.heads:
            return _visible_cell_area(source, self._cell.place[-2], column)
        tabs = (slot for slot in self._placement.thumbnails if slot.heatmap.head == head)
        return next((slot.cells for slot in tabs), None)

    def _concat_copy_area(self, concat: int) -> QRectF | None:
        """Return the copy in Concat of a number of a head."""
        slot, own = self._slot_of_column(concat), self._slot_of_column(self._at)
        if slot is None or own is None or not self._cell.place:
            return None
        head = self._cell.head or 0
        column = head * len(own.heatmap.columns.labels) + self._cell.place[-1]
        return _visible_cell_area(slot, self._cell.place[-2], column)

    def _columns_using_cell_stage(self) -> list[int]:
        """Return the columns that have the cell's stage as the operand above them."""
        assert self._at is not None
        columns = self._placement.panels.columns
        states = columns[self._at].states
        return [at for at, one in enumerate(columns) if one.operand in states]

    def _row_source_columns(self, at: int) -> list[int]:
        """Return the columns whose rows are inputs to the rows of a column."""
        column = self._placement.panels.columns[at]
        found = [self._column_of_stage(name) for name in column.reads if name != column.operand]
        return [one for one in found if one is not None]

    def _first_row_source_column(self, at: int) -> int | None:
        return next(iter(self._row_source_columns(at)), None)

    def _ribbons(self) -> Iterator[tuple[QPainterPath, int]]:
        yield from self._query_key_ribbons() if self._is_query_key_cell else self._vector_ribbons()

    def _query_key_ribbons(self) -> Iterator[tuple[QPainterPath, int]]:
        columns = self._placement.panels.columns
        for at in self._query_key_columns:
            target, row = (
                self._cell_area_in_column(at),
                self._row_area(self._first_row_source_column(at), self.query),
            )
            if target is None:
                continue
            if row is not None:
                yield (
                    _horizontal_band_path(
                        row.right(), target.left(), target.center().y(), target.height()
                    ),
                    (BAND_ALPHA),
                )
            above = self._operand_area(at, self.key)
            if above is not None:
                yield _vertical_band_path(above, target), BAND_ALPHA
                key = self._row_area(self._column_of_stage(columns[at].operand), self.key)
                if key is not None:
                    yield _curved_band_path(key, above), BAND_ALPHA
        yield from ((path, RIBBON_ALPHA) for path, is_own in self._weight_ribbon_paths() if is_own)

    def _vector_ribbons(self) -> Iterator[tuple[QPainterPath, int]]:
        assert self._at is not None
        target = self._cell_area()
        if target is None:
            return
        is_concat = self._at == self._column_of_stage(Role.CONCAT)
        residual = self._residual_source_column()
        for at in self._row_source_columns(self._at):
            if at == residual:
                continue  # the stream bypasses the matrices in between
            row = self._row_area(at, self._cell.place[-2])
            if is_concat:
                row = self._concat_source_area()
            if row is not None and row.right() < target.left() and row.top() == target.top():
                yield (
                    _horizontal_band_path(
                        row.right(), target.left(), target.center().y(), target.height()
                    ),
                    (BAND_ALPHA),
                )
        above = self._operand_column_area(self._at)
        if above is not None:
            yield _vertical_band_path(above, target), BAND_ALPHA
        if self._at == self._context_column():
            yield from ((path, RIBBON_ALPHA) for path, _ in self._weight_ribbon_paths())
        for at in self._columns_using_cell_stage():
            row = self._row_area(self._at, self._cell.place[-2])
            use = self._operand_area(at, self._cell.place[-2])
            if row is not None and use is not None:
                yield _curved_band_path(row, use), BAND_ALPHA

    def _other_weight_ribbons(self) -> Iterator[QPainterPath]:
        if self._is_query_key_cell:
            yield from (path for path, is_own in self._weight_ribbon_paths() if not is_own)

    def _weight_ribbon_paths(self) -> Iterator[tuple[QPainterPath, bool]]:
        """Yield the ribbons from a row of weights, each with whether it belongs to the cell."""
        for ribbon in self.weight_ribbons():
            yield ribbon.path, self.key in ribbon.keys

    def weight_ribbons(self) -> Iterator[WeightRibbon]:
        """Yield the ribbons of a row of weights, which together are as high as the row."""
        context = self._context_column()
        if context is None or self.query is None:
            return
        columns = self._placement.panels.columns
        source = next(
            (at for at in self._row_source_columns(context) if columns[at].is_query_key), None
        )
        row, slot = self._row_area(source, self.query), self._slot_of_column(source)
        if row is None or slot is None or slot.heatmap.stage in self._hidden_stages:
            return
        values = slot.heatmap.values[slot.heatmap.rows.cell_index_of(self.query)]
        shares = np.abs(np.where(np.isfinite(values), values, 0))
        total = float(shares.sum())
        if not total or len(shares) > MAX_RIBBONS:
            return
        heights = shares / total * row.height()
        tops = row.top() + np.concatenate([[0], np.cumsum(heights)[:-1]])
        for at, (top, height) in enumerate(zip(tops.tolist(), heights.tolist(), strict=True)):
            keys = range(
                slot.heatmap.columns.first_of_cell(at), slot.heatmap.columns.first_of_cell(at + 1)
            )
            area = self._operand_area(context, keys.start)
            if area is not None and height >= MIN_RIBBON_PX:
                yield WeightRibbon(keys, QRectF(row.right(), top, 0, height), area)

    # ------------------------------------------------------------------ labels

    def paint_labels(self, painter: QPainter, theme: Theme) -> None:
        """Paint the cell's tokens in the accent colour, over labels that they touch."""
        labels = [*self._highlighted_labels()]
        touched = [
            label
            for label in board_labels(self._placement)
            if any(_text_area(label).intersects(_text_area(lit)) for lit in labels)
        ]
        for label in (*touched, *labels):
            painter.fillRect(_text_area(label), QColor(theme.paper))
        for label in labels:
            paint_token_label(painter, label, theme.accent, QFont.Weight.DemiBold)

    def _highlighted_labels(self) -> Iterator[TokenLabel]:
        slot = row_label_slot(self._placement)
        row = self.key if self.query is None else self.query
        if slot and row is not None and row in slot.heatmap.rows.visible_range:
            axis = slot.heatmap.rows
            text = token_label_text(axis.labels, row, slot.cell_height)
            yield create_row_label(
                self._placement, slot, axis.cell_index_of(row), text, is_word=True
            )
        for slot, over in key_label_slots(self._placement):
            if self.key is not None and self.key in slot.heatmap.columns.visible_range:
                yield label_of_key(slot, over, self.key)


def _text_area(label: TokenLabel) -> QRectF:
    """Return the area of a label, which is only as high as its letters if there is little room."""
    line = label.area.width() if label.is_upright else label.area.height()
    margin = LETTERS_PX if label.pitch < line else 0
    across, down = (margin, -1) if label.is_upright else (-1, margin)
    return label.area.adjusted(across, down, -across, -down)


def with_alpha(colour: str, alpha: int) -> QColor:
    """Return a copy of a colour with the given opacity, from 0 to 255."""
    made = QColor(colour)
    made.setAlpha(alpha)
    return made


def _horizontal_band_path(left: float, right: float, middle: float, height: float) -> QPainterPath:
    """Return a horizontal band between two edges."""
    thickness = min(BAND_PX * text_scale(), height)
    path = QPainterPath()
    if right > left:
        path.addRect(QRectF(left + 1, middle - thickness / 2, right - left - 2, thickness))
    return path


def _vertical_band_path(above: QRectF, target: QRectF) -> QPainterPath:
    """Return a vertical band from an operand down to a cell."""
    thickness = min(BAND_PX * text_scale(), target.width())
    path = QPainterPath()
    path.addRect(QRectF(target.center().x() - thickness / 2, above.bottom() + 1, thickness,
                        max(0.0, target.top() - above.bottom() - 2)))  # fmt: skip
    return path


def _curved_band_path(start: QRectF, end: QRectF) -> QPainterPath:
    """Return a band from the right edge of a row to the left edge of a column above it."""
    thickness = min(BAND_PX * text_scale(), start.height())
    left = QRectF(start.right(), start.center().y() - thickness / 2, 0, thickness)
    right = QRectF(end.left(), end.center().y() - thickness / 2, 0, thickness)
    return _ribbon_path(left, right)


def _ribbon_path(start: QRectF, end: QRectF) -> QPainterPath:
    """Return a ribbon from the right edge of one area to the left edge of another."""
    x, far = start.right() + 1, end.left() - 1
    middle = (x + far) / 2
    path = QPainterPath(QPointF(x, start.top()))
    path.cubicTo(QPointF(middle, start.top()), QPointF(middle, end.top()), QPointF(far, end.top()))
    path.lineTo(QPointF(far, end.bottom()))
    path.cubicTo(
        QPointF(middle, end.bottom()), QPointF(middle, start.bottom()), QPointF(x, start.bottom())
    )
    path.closeSubpath()
    return path


def paint_flow_cursor(
    painter: QPainter,
    placement: FlowPlacement,
    cell: Cell | None,
    hidden_stages: frozenset[str],
    theme: Theme,
) -> None:
    """Paint the chain of the hovered or pinned cell."""
    if cell is not None and not cell.fold:
        FlowCursor(placement, cell, hidden_stages).paint(painter, theme)


def framed_areas(
    placement: FlowPlacement, cell: Cell | None, hidden_stages: frozenset[str]
) -> tuple[QRectF, ...]:
    """Return the areas that `paint_flow_cursor` frames."""
    if cell is None or cell.fold:
        return ()
    return tuple(FlowCursor(placement, cell, hidden_stages).frames())


def paint_layer_weight_cell(
    painter: QPainter, placement: FlowPlacement, cell: LayerWeightCell, theme: Theme
) -> None:
    """Frame a weight of a layer, and the columns of the input and the product that it connects."""
    operand, slot = placement.operands[cell.at], placement.slots[cell.at]
    columns = placement.panels.columns
    source = (
        placement.slots[at]
        for at, one in enumerate(columns)
        if not set(one.states).isdisjoint(columns[cell.at].reads)
    )
    for panel, column in ((next(source, None), cell.row), (slot, cell.column)):
        area = column_area(panel, column) if panel else None
        if area is not None:
            paint_frame(painter, area, FRAME_PX, theme)
    if operand is None:
        return
    own = operand.cell_area(cell.row, cell.column)
    area = column_area(slot, cell.column) if slot else None
    if area is not None:
        painter.fillPath(_vertical_band_path(own, area), with_alpha(theme.accent, BAND_ALPHA))
    paint_frame(painter, own, CELL_FRAME_PX, theme)


def paint_token_outlines(
    painter: QPainter, placement: FlowPlacement, token: int, *, is_row: bool, theme: Theme
) -> None:
    """Outline a token's row in every matrix, or its column if the columns are keys."""
    for column, slot, operand in zip(
        placement.panels.columns, placement.slots, placement.operands, strict=True
    ):
        areas = []
        if slot and is_row:
            areas.append(row_area(slot, token))
        elif slot and column.is_query_key:
            areas.append(column_area(slot, token))
            if operand and column.is_operand_transposed:
                areas.append(column_area(operand, token))
        for area in areas:
            if area is not None:
                paint_frame(painter, area, FRAME_PX, theme)


def paint_step_labels(
    painter: QPainter, placement: FlowPlacement, cell: Cell | None, theme: Theme
) -> None:
    """Paint the tokens of the playback step's cell in the accent colour."""
    if cell is not None:
        FlowCursor(placement, cell).paint_labels(painter, theme)


def panel_highlights(placement: FlowPlacement | None, highlights: Highlights) -> Highlights:
    """Return the highlights for the panels; on the flow board, ribbons show a cell's operands."""
    is_joined = placement is not None and not highlights.step
    return replace(highlights, blocks=()) if is_joined else highlights


def panel_cursor(placement: FlowPlacement | None, cursor: CellCursor) -> CellCursor:
    """Return the cursor for the panels; on the flow board, it only contains the selected tokens."""
    if placement is None:
        return cursor
    return CellCursor(queries=cursor.queries, keys=cursor.keys)
