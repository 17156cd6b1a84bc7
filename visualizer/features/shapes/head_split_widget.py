"""Animated drawing of the split into heads: columns in head colours that separate into blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QEasingCurve, QLineF, QRectF, QSize, Qt, QVariantAnimation
from PySide6.QtGui import QAccessible, QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.attention.roles import VECTOR_ROLES
from visualizer.widgets.app_settings import is_motion_reduced
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.theme import LIGHT, Theme, head_colour

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from visualizer.features.shapes.presenter import HeadSplit

DURATION_MS = 200
MAX_CELL_PX = 22
ROWS_HEIGHT_PX = (44, 88)


class HeadSplitView(QWidget):
    """A matrix of tokens and columns; `progress` 0 draws one matrix, 1 one block per head."""

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
    def goal(self) -> float:
        """Final state of the running animation, else the current state."""
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
            self.setAccessibleName(f"{split.symbol}: {split.joined}, split {split.with_head_axis}")
            self.setAccessibleDescription(split.says)
            if before and split.is_split and _is_different_matrix(before, split):
                self._jump_to(0.0)
            self.animate_split(1.0 if split.is_split else 0.0, at_once=before is None)
        self.update()

    def toggle_split(self) -> None:
        """Toggle between joined and separate heads."""
        self.animate_split(0.0 if self.goal else 1.0)

    def animate_split(self, goal: float, *, at_once: bool = False) -> None:
        """Join or separate the heads, animated if motion is enabled and the widget is visible."""
        if goal == self.goal:
            return
        self._motion.stop()
        if at_once or is_motion_reduced() or not self.isVisible():
            self._jump_to(goal)
            return
        self._motion.setStartValue(self._progress)
        self._motion.setEndValue(goal)
        self._motion.start()

    def _jump_to(self, progress: float) -> None:
        self._motion.stop()
        self._set_progress(progress)

    def _set_progress(self, progress: object) -> None:
        self._progress = float(str(progress))
        self.update()

    # ------------------------------------------------------------------ drawing

    def columns(self) -> list[tuple[int, QRectF]]:
        """Return the head and the current rectangle of each drawn column."""
        split = self._split
        if split is None:
            return []
        heads, count = len(set(split.columns)), len(split.columns)
        gap = 1 + count / 32  # in column widths: narrow columns need a wider gap
        whole = count + gap * (heads - 1)
        width = min(MAX_CELL_PX * text_scale(), (self.width() - 2) / whole)
        height = min(self._height * text_scale() / split.rows, 1.2 * MAX_CELL_PX * text_scale())
        lefts = split.left_edges(self._progress, gap)
        left = (self.width() - width * (lefts[-1] + 1)) / 2
        top = font_metrics(12).height() + 10 * text_scale()
        return [
            (head, QRectF(left + at * width, top, width, height * split.rows))
            for head, at in zip(split.columns, lefts, strict=True)
        ]

    def paintEvent(self, event: QPaintEvent) -> None:
        split = self._split
        if split is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_shapes(painter, split)
        columns = self.columns()
        for head, column in columns:
            self._paint_column(painter, column, head, split.rows)
        blocks: dict[int, QRectF] = {}
        for head, column in columns:
            blocks[head] = blocks.get(head, column).united(column)
        painter.setPen(QPen(QColor(self._theme.border), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRects(list(blocks.values()))
        self._paint_names(painter, blocks)
        painter.end()

    def _paint_shapes(self, painter: QPainter, split: HeadSplit) -> None:
        """Draw both shapes, joined and separate; the current one in bold."""
        is_apart = self._progress > 0.5
        pieces = (
            (f"{split.symbol}  ", True),
            (split.joined, not is_apart),
            ("  ⇄  ", False),
            (split.with_head_axis, is_apart),
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

    def _paint_names(self, painter: QPainter, blocks: dict[int, QRectF]) -> None:
        """Draw the names of heads under their blocks, or as many of their numbers as fit."""
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


def _is_different_matrix(before: HeadSplit, split: HeadSplit) -> bool:
    """Whether the heads differ, or the matrix changed to another of Q, K and V."""
    if (before.heads, before.d_head) != (split.heads, split.d_head):
        return True
    return before.stage != split.stage and {before.stage, split.stage} <= {*VECTOR_ROLES}
