"""Parts beside each other that keep the sizes that they were given, whatever comes between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QSplitter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QResizeEvent


class KeepingSplitter(QSplitter):
    """One part takes what room there is; the others are as large as they were made, if they can.

    Qt's own forgets the size of a part that is hidden, and of all where there is too little room
    for a while.

    Parameters
    ----------
    sizes : sequence of int
        Of the parts, until a hand gives others.
    stretching : int
        The part that takes what room there is.
    """

    def __init__(self, way: Qt.Orientation, sizes: Sequence[int], stretching: int) -> None:
        super().__init__(way)
        self._wanted, self._stretching = list(sizes), stretching
        self.setChildrenCollapsible(False)
        self.splitterMoved.connect(self._keep)

    @property
    def wanted(self) -> list[int]:
        """The sizes of all parts, of hidden ones as they will be."""
        return list(self._wanted)

    def want(self, sizes: Sequence[int]) -> None:
        """Give all parts a size."""
        self._wanted = list(sizes)
        self._place()

    def _keep(self, _: int, handle: int) -> None:
        """Remember what a hand made of the parts beside a handle."""
        sizes = self.sizes()
        for at in (handle - 1, handle):
            if self._is_seen(at) and at != self._stretching:
                self._wanted[at] = sizes[at]

    def _is_seen(self, at: int) -> bool:
        part = self.widget(at)
        return part is not None and not part.isHidden()

    def _place(self) -> None:
        seen = [at for at in range(self.count()) if self._is_seen(at)]
        across = self.orientation() is Qt.Orientation.Horizontal
        room = self.width() if across else self.height()
        others = [at for at in seen if at != self._stretching]
        sizes = [self._wanted[at] if at in others else 0 for at in range(self.count())]
        taken = sum(sizes) + self.handleWidth() * max(0, len(seen) - 1)
        sizes[self._stretching] = max(1, room - taken)
        if sizes != self.sizes():
            self.setSizes(sizes)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:  # a part came or went
            self._place()
        return done
