"""Chips that are wrapped into lines, and the scroll area that shows them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.labels import show_tooltip
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from PySide6.QtGui import QFocusEvent, QFont, QPainter


class WrappedChips(Sequence[QRectF]):
    """Rectangles of chips in wrapped lines.

    Parameters
    ----------
    height : float
        Height of a chip.
    room : float
        Width of a line.
    gaps : tuple of float
        Horizontal and vertical space between chips.
    """

    def __init__(self, height: float, room: float, gaps: tuple[float, float]) -> None:
        self._height, self._room, self._gaps = height, room, gaps
        self._widths: list[float] = []
        self._starts: list[int] = []
        """Index of the first chip of each line."""
        self._starts_known: np.ndarray | None = None
        """`_starts` as an array; created on first use, so that numpy is not imported earlier."""
        self._left = 0.0
        """Left edge of the next chip; 0 at the start of a line."""

    def append_chips(self, widths: Iterable[float], line_ends: Collection[int] = ()) -> None:
        """Append chips.

        Parameters
        ----------
        line_ends : collection of int
            Indices of the chips after which a new line begins.
        """
        max_width, left, gap = self._room - 2.0, self._left, self._gaps[0]
        for at, needed in enumerate(widths, len(self._widths)):
            width = min(needed, max_width)
            if left and left + width > self._room:
                left = 0.0
            if not left:
                self._starts.append(at)
            self._widths.append(width)
            left = 0.0 if at in line_ends else left + width + gap
        self._left = left

    @property
    def line_pitch(self) -> float:
        """Vertical distance between lines."""
        return self._height + self._gaps[1]

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def __len__(self) -> int:
        return len(self._widths)

    @overload
    def __getitem__(self, at: int) -> QRectF: ...
    @overload
    def __getitem__(self, at: slice) -> list[QRectF]: ...

    def __getitem__(self, at: int | slice) -> QRectF | list[QRectF]:
        places = range(len(self))[at]
        if isinstance(places, range):
            return [self[place] for place in places]
        line = self.line_of_chip(places)
        return self.chip_rects_in_line(line)[places - self._starts[line]]

    def line_of_chip(self, chip: int) -> int:
        """Return the line that contains a chip."""
        return bisect_right(self._starts, chip) - 1

    @property
    def line_starts(self) -> np.ndarray:
        """Index of the first chip of each line."""
        known = self._starts_known
        if known is None or len(known) != len(self._starts):
            known = self._starts_known = np.array(self._starts, dtype=np.int64)
        return known

    def lines_of_chips(self, chips: Collection[int]) -> np.ndarray:
        """Return the lines of the given chips; chips that are not laid out yet are skipped."""
        places = np.fromiter(chips, dtype=np.int64, count=len(chips))
        return np.searchsorted(self.line_starts, places[places < len(self)], side="right") - 1

    def line_at(self, y: float) -> int:
        """Return the line that is nearest to a y coordinate; requires at least one line."""
        line = int((y - self._gaps[1] / 2) // self.line_pitch)
        return min(max(line, 0), self.line_count - 1)

    def chips_in_line(self, line: int) -> range:
        """Return the chips of a line."""
        is_last = line + 1 == self.line_count
        return range(self._starts[line], len(self) if is_last else self._starts[line + 1])

    def chip_rects_in_line(self, line: int) -> list[QRectF]:
        """Return the rectangles of a line's chips."""
        top, left = self._gaps[1] / 2 + line * self.line_pitch, 0.0
        made = []
        for chip in self.chips_in_line(line):
            made.append(QRectF(left + 1, top, self._widths[chip], self._height))
            left += self._widths[chip] + self._gaps[0]
        return made

    def chip_at(self, point: QPointF) -> int | None:
        """Return the chip that contains a point."""
        if not self.line_count:
            return None
        line = self.line_at(point.y())
        boxes = zip(self.chips_in_line(line), self.chip_rects_in_line(line), strict=True)
        return next((chip for chip, box in boxes if box.contains(point)), None)


CHIP_GAP_PX = 5
"""Space between chips, in pixels at the normal text size."""
CORNER_RADIUS_PX = 4
NUMBER_SIZE_PX = 11
"""Font size of a chip's second line, in pixels."""
ALIGN_CENTRE = Qt.AlignmentFlag.AlignCenter


def chip_height(has_number: bool) -> float:
    """Return the height of a chip with one or two lines of text."""
    number_line = font_metrics(NUMBER_SIZE_PX).height() - 2 if has_number else 0
    return font_metrics(12).height() + 6 * text_scale() + number_line


def draw_chip_text(
    painter: QPainter, box: QRectF, label: str, number: str | None, weight: QFont.Weight
) -> None:
    """Draw the label of a chip and the number below it; without a number, centre the label."""
    line, room = font_metrics(12).height(), box.width() - 8 * text_scale()
    words = font_metrics(12).elidedText(label, Qt.TextElideMode.ElideRight, room)
    painter.setFont(scaled_font(12, weight))
    if number is None:
        painter.drawText(box, ALIGN_CENTRE, words)
        return
    above = QRectF(box.left(), box.top() + 2 * text_scale(), box.width(), line)
    painter.drawText(above, ALIGN_CENTRE, words)
    painter.setFont(scaled_font(NUMBER_SIZE_PX))
    height = font_metrics(NUMBER_SIZE_PX).height()
    below = QRectF(box.left(), above.bottom() - 2, box.width(), height)
    painter.drawText(below, ALIGN_CENTRE, number)


class ChipScrollArea(QAbstractScrollArea):
    """Scroll area of chips; subclasses lay the chips out with `_lay_out_chips` and paint them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setAutoFillBackground(False)
        self._theme: Theme = LIGHT
        self._wrapped = WrappedChips(0, 0, (0, 0))
        self.chips: Sequence[QRectF] = self._wrapped
        """Rectangle of each chip, ignoring the scroll position."""

    def tooltip_text(self, chip: int) -> str:
        """Return a chip's tooltip."""
        raise NotImplementedError

    def chip_rect(self, chip: int) -> QRectF:
        """Return the rectangle of a chip in the viewport."""
        return self.chips[chip].translated(0, -self.verticalScrollBar().value())

    def _chip_at(self, point: QPointF) -> int | None:
        return self._wrapped.chip_at(point + QPointF(0, self.verticalScrollBar().value()))

    def _lay_out_chips(self, widths: Iterable[float], height: float, room: float) -> None:
        gap = CHIP_GAP_PX * text_scale()
        self.chips = self._wrapped = WrappedChips(height, room, (gap, gap))
        self._wrapped.append_chips(widths)

    def scrollContentsBy(self, across: int, down: int) -> None:
        self.viewport().update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            chip = self._chip_at(QPointF(event.pos()))
            show_tooltip(event.globalPos(), "" if chip is None else self.tooltip_text(chip), self)
            return True
        return super().viewportEvent(event)
