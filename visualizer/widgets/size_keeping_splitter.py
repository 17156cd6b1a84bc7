"""Splitter that keeps the sizes of its widgets while they are hidden or squeezed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QSplitter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QResizeEvent


class SizeKeepingSplitter(QSplitter):
    """Splitter in which one widget stretches and the others keep their sizes if there is room.

    `QSplitter` forgets the size of a hidden widget, and all sizes if the window is temporarily too
    small.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the widgets until the user drags a handle.
    stretching : int
        Index of the widget that stretches.
    """

    def __init__(self, way: Qt.Orientation, sizes: Sequence[int], stretching: int) -> None:
        super().__init__(way)
        self._wanted, self._stretching = list(sizes), stretching
        self.setChildrenCollapsible(False)
        self.splitterMoved.connect(self._store_sizes)

    @property
    def requested_sizes(self) -> list[int]:
        """The requested sizes of all widgets, including hidden widgets."""
        return list(self._wanted)

    def set_requested_sizes(self, sizes: Sequence[int]) -> None:
        """Set the sizes of all widgets."""
        self._wanted = list(sizes)
        self._apply_sizes()

    def _store_sizes(self, _: int, handle: int) -> None:
        """Store the sizes of the widgets on both sides of a dragged handle."""
        sizes = self.sizes()
        for at in (handle - 1, handle):
            if self._is_widget_shown(at) and at != self._stretching:
                self._wanted[at] = sizes[at]

    def _is_widget_shown(self, at: int) -> bool:
        part = self.widget(at)
        return part is not None and not part.isHidden()

    def _apply_sizes(self) -> None:
        seen = [at for at in range(self.count()) if self._is_widget_shown(at)]
        across = self.orientation() is Qt.Orientation.Horizontal
        room = self.width() if across else self.height()
        others = [at for at in seen if at != self._stretching]
        sizes = [
            self._required_size(at, across) if at in others else 0 for at in range(self.count())
        ]
        taken = sum(sizes) + self.handleWidth() * max(0, len(seen) - 1)
        sizes[self._stretching] = max(1, room - taken)
        if sizes != self.sizes():
            self.setSizes(sizes)

    def _required_size(self, at: int, across: bool) -> int:
        """Return the requested size of a widget, but at least its minimum size."""
        part = self.widget(at)
        assert part
        least = part.minimumSizeHint().expandedTo(part.minimumSize())
        return max(self._wanted[at], least.width() if across else least.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._apply_sizes()

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:  # a widget was shown or hidden
            self._apply_sizes()
        return done
