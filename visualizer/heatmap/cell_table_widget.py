"""A scrollable table of cells with a hovered and a focused cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QRect, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QAbstractScrollArea

from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from PySide6.QtCore import QEvent, QPointF
    from PySide6.QtGui import QFocusEvent, QMouseEvent, QResizeEvent


class CellTable(QAbstractScrollArea):
    """Tracks the hovered and the focused cell, and emits their descriptions and clicks.

    A subclass defines what identifies a cell, where the cells are and what they look like.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Table
    pointed = Signal(str)
    """Emitted with the description of the hovered or focused cell; empty if there is none."""
    chosen = Signal(int, int)

    def __init__(self, name: str, keys: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setAccessibleDescription(keys)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setProperty(OWN_FOCUS_PROPERTY, True)
        self.viewport().setMouseTracking(True)
        self.viewport().setAutoFillBackground(False)  # show the paper colour, as the board does
        self._theme = LIGHT
        self._focused: Any = None
        """The cell with keyboard focus."""
        self._hovered: Any = None

    # ------------------------------------------------------------------ defined by subclasses

    def _cell_at(self, point: QPointF) -> object:
        """Return the cell at a point of the viewport, or None."""
        raise NotImplementedError

    def _cell_rect(self, cell: Any) -> QRect:
        """Return the rectangle of a cell in the viewport."""
        raise NotImplementedError

    def _describe_cell(self, cell: Any) -> str:
        """Return the description of a cell, or an empty string for a table without cells."""
        raise NotImplementedError

    def _update_scroll_ranges(self) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------------ input

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._update_scroll_ranges()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._set_hovered(self._cell_at(event.position()))

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == event.Type.Leave:
            self._set_hovered(None)
        return super().viewportEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._emit_cell_description()
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._emit_cell_description()
        self.viewport().update()

    def _set_hovered(self, cell: object) -> None:
        if cell != self._hovered:
            before, self._hovered = self._hovered, cell
            self._emit_cell_description()
            edge = math.ceil(self._theme.stroke) + 1  # of the frame
            for changed in (before, cell):
                if changed is not None:
                    box = self._cell_rect(changed)
                    self.viewport().update(box.adjusted(-edge, -edge, edge, edge))

    def _emit_cell_description(self) -> None:
        is_asked = self._hovered is not None or self.hasFocus()
        cell = self._focused if self._hovered is None else self._hovered
        words = self._describe_cell(cell) if is_asked else ""
        if words:
            set_accessible_value(self, words)
        self.pointed.emit(words)

    def _focus_cell(self, cell: Any, left: float, top: float) -> None:
        """Move the keyboard focus to a cell, and scroll it into view."""
        self._focused = cell
        box, view = self._cell_rect(cell), self.viewport().size()
        for bar, start, end, least, most in (
            (self.verticalScrollBar(), box.top(), box.bottom(), top, view.height()),
            (self.horizontalScrollBar(), box.left(), box.right(), left, view.width()),
        ):
            if start < least:
                bar.setValue(bar.value() + round(start - least))
            elif end > most:
                bar.setValue(bar.value() + round(end - most))
        self._emit_cell_description()
        self.viewport().update()
