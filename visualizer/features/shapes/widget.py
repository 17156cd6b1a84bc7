"""Shapes pane: drawing of the split into heads, and a table with one row per stage."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEasingCurve,
    QEvent,
    QLineF,
    QRectF,
    QSize,
    Qt,
    QVariantAnimation,
    Signal,
)
from PySide6.QtGui import QAccessible, QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QWidget,
)

from visualizer.attention.roles import VECTOR_ROLES
from visualizer.features.shapes.presenter import SHAPES_PANEL, ShapesPanel
from visualizer.widgets.app_settings import is_motion_reduced
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.theme import LIGHT, Theme, head_colour

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent, QPaintEvent, QResizeEvent

    from visualizer.features.shapes.presenter import HeadSplit, ShapeRow, TensorAxis
    from visualizer.session.screen import Screen

DURATION_MS = 200
MAX_CELL_PX = 22
ROWS_HEIGHT_PX = (44, 88)


class HeadSplitView(QWidget):
    """Drawing of a matrix: one block if `progress` is 0, one block per head if it is 1."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._split: HeadSplit | None = None
        self._theme = LIGHT
        self._progress = 0.0
        self._height = float(ROWS_HEIGHT_PX[0])
        self._motion = QVariantAnimation(self)
        self._motion.setDuration(DURATION_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.InOutCubic)
        self._motion.valueChanged.connect(self._set_progress)

    @property
    def progress(self) -> float:
        """Current state of the animation, from 0 to 1."""
        return self._progress

    @property
    def target_progress(self) -> float:
        """Final state of the running animation or, if none is running, the current state."""
        is_moving = self._motion.state() is QVariantAnimation.State.Running
        return float(self._motion.endValue()) if is_moving else self._progress

    def sizeHint(self) -> QSize:
        return QSize(200, round(2 * font_metrics(12).height() + (self._height + 20) * text_scale()))

    def set_available_height(self, height: float) -> None:
        """Set the height available to the rows, within their limits."""
        least, most = ROWS_HEIGHT_PX
        self._height = min(max(height, least), most)
        self.updateGeometry()

    def show_split(self, split: HeadSplit | None, theme: Theme) -> None:
        """Show a matrix and animate a change of its split."""
        if split == self._split and theme is self._theme:
            return
        before, self._split, self._theme = self._split, split, theme
        if split and split != before:
            self.setAccessibleName(
                f"{split.symbol}: {split.joined_shape}, split {split.split_shape}"
            )
            self.setAccessibleDescription(split.sentence)
            if before and split.is_split and _is_other_split(before, split):
                self._jump_to(0.0)
            self.animate_split(1.0 if split.is_split else 0.0, immediately=before is None)
        self.update()

    def toggle_split(self) -> None:
        """Toggle between joined and separate heads."""
        self.animate_split(0.0 if self.target_progress else 1.0)

    def animate_split(self, goal: float, *, immediately: bool = False) -> None:
        """Join or separate the heads; animate this if motion is on and the widget is visible."""
        if goal == self.target_progress:
            return
        self._motion.stop()
        if immediately or is_motion_reduced() or not self.isVisible():
            self._jump_to(goal)
            return
        self._motion.setStartValue(self._progress)
        self._motion.setEndValue(goal)
        self._motion.start()

    def _jump_to(self, progress: float) -> None:
        self._motion.stop()
        self._set_progress(progress)

    def _set_progress(self, progress: float) -> None:
        self._progress = progress
        self.update()

    # ------------------------------------------------------------------ drawing

    def column_rectangles(self) -> list[tuple[int, QRectF]]:
        """Return the head and the current rectangle of each drawn column."""
        split = self._split
        if split is None:
            return []
        heads, count = len(set(split.head_of_each_column)), len(split.head_of_each_column)
        gap = 1 + count / 32  # in column widths: narrow columns need a wider gap
        whole = count + gap * (heads - 1)
        width = min(MAX_CELL_PX * text_scale(), (self.width() - 2) / whole)
        height = min(
            self._height * text_scale() / split.drawn_row_count, 1.2 * MAX_CELL_PX * text_scale()
        )
        lefts = split.left_edges(self._progress, gap)
        left = (self.width() - width * (lefts[-1] + 1)) / 2
        top = font_metrics(12).height() + 10 * text_scale()
        return [
            (head, QRectF(left + at * width, top, width, height * split.drawn_row_count))
            for head, at in zip(split.head_of_each_column, lefts, strict=True)
        ]

    def paintEvent(self, event: QPaintEvent) -> None:
        split = self._split
        if split is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_shapes(painter, split)
        columns = self.column_rectangles()
        for head, column in columns:
            self._paint_column(painter, column, head, split.drawn_row_count)
        blocks: dict[int, QRectF] = {}
        for head, column in columns:
            blocks[head] = blocks.get(head, column).united(column)
        painter.setPen(QPen(QColor(self._theme.border), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRects(list(blocks.values()))
        self._paint_head_names(painter, blocks)
        painter.end()

    def _paint_shapes(self, painter: QPainter, split: HeadSplit) -> None:
        """Paint the shapes with joined and with separate heads; the current one is bold."""
        is_apart = self._progress > 0.5
        pieces = (
            (f"{split.symbol}  ", True),
            (split.joined_shape, not is_apart),
            ("  ⇄  ", False),
            (split.split_shape, is_apart),
        )
        width = sum(font_metrics(12).horizontalAdvance(text) for text, _ in pieces)
        left, height = (self.width() - width) / 2, font_metrics(12).height()
        for text, is_seen in pieces:
            painter.setFont(
                scaled_font(12, QFont.Weight.DemiBold if is_seen else QFont.Weight.Normal)
            )
            painter.setPen(QColor(self._theme.ink if is_seen else self._theme.quiet))
            advance = painter.fontMetrics().horizontalAdvance(text)
            painter.drawText(QRectF(left, 2, advance + 4, height), text)
            left += advance

    def _paint_column(self, painter: QPainter, column: QRectF, head: int, rows: int) -> None:
        painter.fillRect(column, QColor(head_colour(head, self._theme)))
        height = column.height() / rows
        painter.setPen(QPen(QColor(self._theme.paper), 1))
        for row in range(1, rows):
            y = column.top() + row * height
            painter.drawLine(QLineF(column.left(), y, column.right(), y))
        if column.width() > 5:
            painter.drawLine(QLineF(column.topRight(), column.bottomRight()))

    def _paint_head_names(self, painter: QPainter, blocks: dict[int, QRectF]) -> None:
        """Paint the head names below the blocks or, if they do not fit, as many numbers as do."""
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(self._theme.quiet))
        names = {head: f"head {head + 1}" for head in blocks}
        widest = max(font_metrics(12).horizontalAdvance(name) for name in names.values()) + 4
        apart = [after.left() - one.left() for one, after in pairwise(blocks.values())]
        if apart and min(apart) < widest:
            names = {head: str(head + 1) for head in blocks}
        right = -9.0
        for head, block in blocks.items():
            width = font_metrics(12).horizontalAdvance(names[head])
            left = min(block.center().x() - width / 2, self.width() - width)
            if left > right + 2:
                below = QRectF(left, block.bottom() + 3, width + 4, font_metrics(12).height())
                painter.drawText(below, names[head])
                right = left + width


def _is_other_split(before: HeadSplit, split: HeadSplit) -> bool:
    """Return whether the heads differ, or the stage changes among queries, keys and values."""
    if (before.heads, before.d_head) != (split.heads, split.d_head):
        return True
    return before.stage != split.stage and {before.stage, split.stage} <= {*VECTOR_ROLES}


EMPTY_MESSAGE = "The shapes of all stages appear here once attention has been computed."
PANE_WIDTH_PX = 252
FIRST_ROW_INDEX = 2
"""Layout index of the first row, after the labels that describe the split and the batch."""


class ShapesPane(QWidget):
    """Table of shapes below a drawing of the split; `stageChosen` is emitted for a clicked row."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    stageChosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Shapes")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.panel: ShapesPanel | None = None
        self._theme = LIGHT
        self.drawing, self.rows = HeadSplitView(), list[ShapeRowButton]()
        self.says, self.batch, self.total = (PlainTextLabel() for _ in range(3))
        self.split_button = QPushButton("Split / join")
        self.split_button.clicked.connect(self.drawing.toggle_split)
        for label in (self.says, self.batch, self.total):
            label.setWordWrap(True)
            label.setProperty("role", "quiet")
        self._build_layout()
        self.show_shapes(ShapesPanel(), LIGHT)

    def show_shapes(self, panel: ShapesPanel, theme: Theme) -> None:
        """Show the shapes of a run, or a placeholder if there are none."""
        if panel is self.panel and theme is self._theme:
            return
        before = self.panel.current_stage if self.panel else None
        self.panel, self._theme = panel, theme
        split = panel.split
        self.drawing.show_split(split, theme)
        self.says.setVisible(split is not None or not panel.rows)
        for widget in (self.drawing, self.split_button, self.total):
            widget.setVisible(split is not None)
        self.split_button.setEnabled(split is not None and split.heads > 1)
        self.says.setText(f"{split.sentence} {split.omission_note}".strip() if split else "")
        if not panel.rows:
            self.says.setText(EMPTY_MESSAGE)
        self.batch.setText(panel.batch)
        self.total.setText(panel.total)
        self._show_rows(panel, theme)
        if panel.current_stage and panel.current_stage != before:
            self._scroll_to_stage(panel.current_stage)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        self.show_shapes(screen.panel(SHAPES_PANEL), theme)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.drawing.set_available_height(self.height() / 7)
        super().resizeEvent(event)

    def row_of_stage(self, stage: str) -> ShapeRowButton:
        return next(row for row in self.rows if row.stage == stage)

    def _build_layout(self) -> None:
        inner = QWidget()
        self._column = column_layout(inner, (0, 0, 0, 8), spacing=0)
        said = row_layout(margins=(12, 0, 12, 0))
        said.addWidget(self.says, 1)
        said.addWidget(self.split_button, 0, Qt.AlignmentFlag.AlignTop)
        self._column.addLayout(said)
        for label in (self.batch, self.total):
            label.setContentsMargins(12, 6, 12, 2)
            self._column.addWidget(label)
        self._column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its rows take the focus
        self._scroll.setWidget(inner)
        self._scroll.setAccessibleName("Shapes of the stages")
        top = column_layout(margins=(12, 4, 12, 4))
        top.addWidget(self.drawing)
        column = column_layout(self, (0, 0, 0, 0), spacing=0)
        column.addLayout(top)
        column.addWidget(self._scroll, 1)

    def _show_rows(self, panel: ShapesPanel, theme: Theme) -> None:
        while len(self.rows) < len(panel.rows):
            made = ShapeRowButton()
            made.clicked.connect(self._emit_stage)
            made.axisHovered.connect(self._highlight_axes)
            self._column.insertWidget(FIRST_ROW_INDEX + len(self.rows), made)
            self.setTabOrder([self.split_button, *self.rows][-1], made)
            self.rows.append(made)
        for number, button in enumerate(self.rows):
            button.setVisible(number < len(panel.rows))
        for button, row in zip(self.rows, panel.rows, strict=False):
            button.show_row(row, theme)

    def _emit_stage(self) -> None:
        button = self.sender()
        if isinstance(button, ShapeRowButton):
            self.stageChosen.emit(button.stage)

    def _highlight_axes(self, unit: str) -> None:
        for row in self.rows:
            row.highlight_axes(unit)

    def _scroll_to_stage(self, stage: str) -> None:
        """Scroll as much of a row into view as fits."""
        row = self.row_of_stage(stage)
        if self.isVisible() and not row.underMouse():
            self._column.activate()
            half = min(row.height(), self._scroll.viewport().height()) // 2
            self._scroll.ensureVisible(0, row.y() + half, 0, half)


MARGIN_PX = 12
BAR_WIDTH_PX = 3
TEXT_SIZE_PX = 14
WRAPPED_LEFT = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
ALIGN_CENTRE = Qt.AlignmentFlag.AlignCenter
ALIGN_MIDDLE = Qt.AlignmentFlag.AlignVCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ShapeRowButton(QAbstractButton):
    """One row of the table: sizes and names of the axes of a stage, its equations and cost.

    `axisHovered` is emitted with the unit of the axis under the pointer.
    """

    axisHovered = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.shape_row: ShapeRow | None = None
        self._theme = LIGHT
        self.lit = ""
        self._pointed = ""

    @property
    def stage(self) -> str:
        return self.shape_row.stage if self.shape_row else ""

    def show_row(self, row: ShapeRow, theme: Theme) -> None:
        if row == self.shape_row and theme is self._theme:
            return
        self.shape_row, self._theme = row, theme
        self.setAccessibleName(row.plain_text)
        self.setAccessibleDescription("Current stage" if row.is_current else "")
        self.updateGeometry()
        self.update()

    def highlight_axes(self, unit: str) -> None:
        """Highlight the axes with the given unit."""
        if unit != self.lit:
            self.lit = unit
            self.update()

    # ------------------------------------------------------------------ layout

    def sizeHint(self) -> QSize:
        return QSize(200, self.heightForWidth(max(self.width(), 200)))

    def heightForWidth(self, width: int) -> int:
        if self.shape_row is None:
            return 0
        return round(self._text_top() + self._text_height(width) + 10 * text_scale())

    def _text_top(self) -> float:
        return 8 * text_scale() + font_metrics(TEXT_SIZE_PX).height() + 4 + self._axes_height() + 4

    def _axes_height(self) -> float:
        return font_metrics(TEXT_SIZE_PX).height() + font_metrics(12).height() - 2

    def _text_lines(self) -> tuple[tuple[str, bool], ...]:
        """Return the lines below the sizes, and whether each is dimmed."""
        row = self.shape_row
        if row is None:
            return ()
        return (
            (row.says, True),
            *((_with_nonbreaking_spaces(equation), False) for equation in row.equations),
            (row.cost_text, True),
        )

    def _text_height(self, width: int) -> float:
        room = QRectF(0, 0, width - 2 * MARGIN_PX, 1e5)
        return sum(
            font_metrics(12).boundingRect(room, WRAPPED_LEFT, text).height()
            for text, _ in self._text_lines()
        )

    def axis_rectangles(self) -> list[tuple[TensorAxis, QRectF]]:
        """Return each axis with the rectangle of its size and name."""
        if self.shape_row is None:
            return []
        left, top = MARGIN_PX + font_metrics(TEXT_SIZE_PX).horizontalAdvance("("), self._text_top()
        top -= 4 + self._axes_height()
        comma, found = font_metrics(TEXT_SIZE_PX).horizontalAdvance(", "), []
        for dim in self.shape_row.dims:
            number = font_metrics(TEXT_SIZE_PX).horizontalAdvance(str(dim.size))
            width = max(number, font_metrics(12).horizontalAdvance(dim.name)) + 8 * text_scale()
            found.append((dim, QRectF(left, top, width, self._axes_height())))
            left += width + comma
        return found

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        row, theme = self.shape_row, self._theme
        if row is None:
            return
        painter = QPainter(self)
        if self.underMouse() or row.is_current:
            painter.fillRect(self.rect(), QColor(theme.raised))
        if row.is_current:
            painter.fillRect(0, 0, BAR_WIDTH_PX, self.height(), QColor(theme.accent))
        painter.fillRect(MARGIN_PX, self.height() - 1, self.width(), 1, QColor(theme.hairline))
        self._paint_title(painter, row)
        self._paint_axes(painter)
        self._paint_text_lines(painter)
        if self.hasFocus():
            painter.setPen(QPen(QColor(theme.accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
        painter.end()

    def _paint_title(self, painter: QPainter, row: ShapeRow) -> None:
        left, height = float(MARGIN_PX), font_metrics(TEXT_SIZE_PX).height()
        top = 8 * text_scale()
        painter.setFont(scaled_font(TEXT_SIZE_PX, QFont.Weight.DemiBold))
        painter.setPen(QColor(self._theme.ink))
        advance = painter.fontMetrics().horizontalAdvance(row.title)
        painter.drawText(QRectF(left, top, advance + 4, height), ALIGN_MIDDLE, row.title)
        left += advance + 8 * text_scale()
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(self._theme.quiet))
        room = self.width() - MARGIN_PX - left
        met = row.parameter.description if row.parameter else ""
        painter.drawText(QRectF(left, top, room, height), ALIGN_RIGHT, met)
        room -= font_metrics(12).horizontalAdvance(met) + 8 * text_scale()
        symbol = font_metrics(12).elidedText(row.symbol, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRectF(left, top, room, height), ALIGN_MIDDLE, symbol)

    def _paint_axes(self, painter: QPainter) -> None:
        theme, dims = self._theme, self.axis_rectangles()
        line = font_metrics(TEXT_SIZE_PX).height()
        for number, (dim, place) in enumerate(dims):
            is_lit = dim.unit == self.lit
            if is_lit:
                painter.setPen(QPen(QColor(theme.border), 1))
                painter.setBrush(QColor(theme.field))
                painter.drawRoundedRect(place.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
            weight = QFont.Weight.DemiBold if is_lit else QFont.Weight.Normal
            painter.setFont(scaled_font(TEXT_SIZE_PX, weight))
            painter.setPen(QColor(theme.ink))
            above = QRectF(place.left(), place.top(), place.width(), line)
            painter.drawText(above, ALIGN_CENTRE, str(dim.size))
            painter.setFont(scaled_font(12))
            painter.setPen(QColor(theme.ink if is_lit else theme.quiet))
            below = QRectF(
                place.left(), place.top() + line - 2, place.width(), font_metrics(12).height()
            )
            painter.drawText(below, ALIGN_CENTRE, dim.name)
            painter.setFont(scaled_font(TEXT_SIZE_PX))
            painter.setPen(QColor(theme.quiet))
            mark = QRectF(place.right(), place.top(), 20, line)
            painter.drawText(mark, ALIGN_MIDDLE, ")" if number == len(dims) - 1 else ",")
            if not number:
                painter.drawText(QRectF(MARGIN_PX, place.top(), 20, line), ALIGN_MIDDLE, "(")

    def _paint_text_lines(self, painter: QPainter) -> None:
        painter.setFont(scaled_font(12))
        room = QRectF(MARGIN_PX, self._text_top(), self.width() - 2 * MARGIN_PX, 1e5)
        for text, is_quiet in self._text_lines():
            painter.setPen(QColor(self._theme.quiet if is_quiet else self._theme.ink))
            painter.drawText(room, WRAPPED_LEFT, text)
            room.setTop(
                room.top() + font_metrics(12).boundingRect(room, WRAPPED_LEFT, text).height()
            )

    # ------------------------------------------------------------------ user input

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        under = (dim for dim, place in self.axis_rectangles() if place.contains(event.position()))
        self._set_hovered_unit(next((dim.unit for dim in under), ""))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._set_hovered_unit("")
        self.update()

    def _set_hovered_unit(self, unit: str) -> None:
        if unit != self._pointed:
            self._pointed = unit
            self.axisHovered.emit(unit)


def _with_nonbreaking_spaces(equation: str) -> str:
    """Replace spaces so that a shape is not wrapped."""
    return equation.replace(", ", ",\N{NO-BREAK SPACE}")
