"""The split into heads, drawn: columns in the heads' colours that slide apart and together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEasingCurve, QRectF, QSize, Qt, QVariantAnimation
from PySide6.QtGui import QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.ui.theme import HEAD_COLOURS, LIGHT, Theme, font, metrics, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from visualizer.state.split import Split

DURATION_MS = 200
LARGEST_CELL = 18
ROWS_HEIGHT = 88
PROJECTED = {"queries", "keys", "values"}


class SplitView(QWidget):
    """A matrix of tokens and columns, whose heads are together at 0 and apart at 1."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.is_still = False
        self._split: Split | None = None
        self._theme = LIGHT
        self._progress = 0.0
        self._motion = QVariantAnimation(self)
        self._motion.setDuration(DURATION_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.InOutCubic)
        self._motion.valueChanged.connect(self._move)

    @property
    def progress(self) -> float:
        """How far the heads are apart at this moment."""
        return self._progress

    @property
    def goal(self) -> float:
        """How far apart they will be."""
        is_moving = self._motion.state() is QVariantAnimation.State.Running
        return float(self._motion.endValue()) if is_moving else self._progress

    def sizeHint(self) -> QSize:
        return QSize(200, round(2 * metrics(12).height() + (ROWS_HEIGHT + 20) * text_scale()))

    def show_split(self, split: Split | None, theme: Theme) -> None:
        """Show a matrix; it slides where the heads become others, or another is split."""
        if split == self._split and theme is self._theme:
            return
        before, self._split, self._theme = self._split, split, theme
        if split and split != before:
            self.setAccessibleName(f"{split.symbol}: {split.joined}, split {split.apart}")
            self.setAccessibleDescription(split.says)
            if before and split.is_apart and _is_another(before, split):
                self._stand(0.0)
            self.slide(1.0 if split.is_apart else 0.0, at_once=before is None)
        self.update()

    def turn(self) -> None:
        """Slide apart what is together, and together what is apart."""
        self.slide(0.0 if self.goal else 1.0)

    def slide(self, goal: float, *, at_once: bool = False) -> None:
        """Go to together or apart, in motion where there is to be any and it can be seen."""
        if goal == self.goal:
            return
        self._motion.stop()
        if at_once or self.is_still or not self.isVisible():
            self._stand(goal)
            return
        self._motion.setStartValue(self._progress)
        self._motion.setEndValue(goal)
        self._motion.start()

    def _stand(self, progress: float) -> None:
        self._motion.stop()
        self._move(progress)

    def _move(self, progress: object) -> None:
        self._progress = float(str(progress))
        self.update()

    # ------------------------------------------------------------------ drawing

    def columns(self) -> list[tuple[int, QRectF]]:
        """Each drawn column at this moment: its head, its place."""
        split = self._split
        if split is None:
            return []
        heads, count = len(set(split.columns)), len(split.columns)
        gap = 1 + count / 32  # narrow columns need more of them between two blocks
        whole = count + gap * (heads - 1)
        width = min(LARGEST_CELL * text_scale(), (self.width() - 2) / whole)
        height = min(ROWS_HEIGHT * text_scale() / split.rows, 1.2 * LARGEST_CELL * text_scale())
        lefts = split.lefts(self._progress, gap)
        left = (self.width() - width * (lefts[-1] + 1)) / 2
        top = metrics(12).height() + 10 * text_scale()
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
        for head in dict.fromkeys(split.columns):
            places = [column for other, column in columns if other == head]
            self._paint_block(painter, places[0].united(places[-1]), head)
        painter.end()

    def _paint_shapes(self, painter: QPainter, split: Split) -> None:
        """Write the shape together and apart; the one that is seen in ink."""
        is_apart = self._progress > 0.5
        pieces = (
            (f"{split.symbol}  ", True),
            (split.joined, not is_apart),
            ("  ⇄  ", False),
            (split.apart, is_apart),
        )
        width = sum(metrics(12).horizontalAdvance(text) for text, _ in pieces)
        left, height = (self.width() - width) / 2, metrics(12).height()
        for text, is_seen in pieces:
            painter.setFont(font(12, QFont.Weight.DemiBold if is_seen else QFont.Weight.Normal))
            painter.setPen(QColor(self._theme.ink if is_seen else self._theme.quiet))
            advance = painter.fontMetrics().horizontalAdvance(text)
            painter.drawText(QRectF(left, 2, advance + 4, height), text)
            left += advance

    def _paint_column(self, painter: QPainter, column: QRectF, head: int, rows: int) -> None:
        painter.fillRect(column, QColor(HEAD_COLOURS[head % len(HEAD_COLOURS)]))
        height = column.height() / rows
        painter.setPen(QPen(QColor(self._theme.paper), 1))
        for row in range(1, rows):
            y = column.top() + row * height
            painter.drawLine(column.topLeft().x(), y, column.right(), y)  # type: ignore[call-overload]
        if column.width() > 5:
            painter.drawLine(column.topRight(), column.bottomRight())

    def _paint_block(self, painter: QPainter, block: QRectF, head: int) -> None:
        painter.setPen(QPen(QColor(self._theme.border), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(block)
        painter.setFont(font(12))
        painter.setPen(QColor(self._theme.quiet))
        words = (f"head {head + 1}", str(head + 1))
        fits = [word for word in words if metrics(12).horizontalAdvance(word) <= block.width() + 8]
        if fits:
            below = QRectF(block.left() - 20, block.bottom() + 3, block.width() + 40, 40)
            align = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop
            painter.drawText(below, align, fits[0])


def _is_another(before: Split, split: Split) -> bool:
    """Whether the heads are others than before, or those of another of Q, K and V."""
    if (before.heads, before.d_head) != (split.heads, split.d_head):
        return True
    return before.stage != split.stage and {before.stage, split.stage} <= PROJECTED
