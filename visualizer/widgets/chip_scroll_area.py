"""Scroll area for chips that wrap over several lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from visualizer.widgets.fonts import metrics, text_scale
from visualizer.widgets.plain_text_tooltips import show_tooltip
from visualizer.widgets.theme import LIGHT, Theme
from visualizer.widgets.wrapped_chips import WrappedChips

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from PySide6.QtGui import QFocusEvent


GAP = 5
"""Space between chips, at the normal text size."""
ROUND = 4
"""Corner radius."""
NUMBER_SIZE = 11
"""Text size of the second line."""
CENTRE = Qt.AlignmentFlag.AlignCenter


def chip_height(has_number: bool) -> float:
    """Return the height of a chip with one or two lines of text."""
    number_line = metrics(NUMBER_SIZE).height() - 2 if has_number else 0
    return metrics(12).height() + 6 * text_scale() + number_line


class ChipScrollArea(QAbstractScrollArea):
    """Chips with tooltips; subclasses lay them out with `_flow` and paint them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setAutoFillBackground(False)
        self._theme: Theme = LIGHT
        self._wrapped = WrappedChips(0, 0, (0, 0))
        self._chips: Sequence[QRectF] = self._wrapped
        """Rectangle of each chip, ignoring the scroll position."""

    def tip(self, chip: int) -> str:
        """Return a chip's tooltip."""
        raise NotImplementedError

    def box(self, chip: int) -> QRectF:
        """Return the rectangle of a chip in the viewport."""
        return self._chips[chip].translated(0, -self.verticalScrollBar().value())

    def _chip_at(self, point: QPointF) -> int | None:
        return self._wrapped.chip_at(point + QPointF(0, self.verticalScrollBar().value()))

    def _flow(self, widths: Iterable[float], height: float, room: float) -> None:
        gap = GAP * text_scale()
        self._chips = self._wrapped = WrappedChips(height, room, (gap, gap))
        self._wrapped.extend(widths)

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
            show_tooltip(event.globalPos(), "" if chip is None else self.tip(chip), self)
            return True
        return super().viewportEvent(event)
