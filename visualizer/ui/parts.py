"""From part to part of the window by one key, as there are many controls for the tab key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget

from visualizer.ui.panes import PANES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.ui.panes import Docks


class Parts:
    """The parts of a window that are seen.

    Parameters
    ----------
    fixed : tuple of QWidget
        Where a round through them begins, at the first.
    panes : mapping
        By their ids.
    bars : tuple of QWidget
        Those that come and go, after the panes.
    """

    def __init__(
        self,
        fixed: tuple[QWidget, ...],
        panes: Mapping[str, QWidget],
        docks: Docks,
        bars: tuple[QWidget, ...],
    ) -> None:
        self._fixed, self._panes, self._docks, self._bars = fixed, panes, docks, bars

    def go(self, steps: int) -> None:
        """Give the keys to the next part, or to the one before."""
        parts = {part: entry for part in self._seen() if (entry := _entry(part)) is not None}
        here = QApplication.focusWidget()
        at = (number for number, part in enumerate(parts) if _holds(part, here))
        before_all = -1 if steps > 0 else 0
        following = [*parts.values()][(next(at, before_all) + steps) % len(parts)]
        following.setFocus(Qt.FocusReason.TabFocusReason)

    def _seen(self) -> list[QWidget]:
        panes = [self._panes[pane.id] for pane in PANES if pane.id in self._docks.seen]
        return [*self._fixed, *panes, *(bar for bar in self._bars if bar.isVisible())]


def _holds(part: QWidget, widget: QWidget | None) -> bool:
    return widget is not None and (part is widget or part.isAncestorOf(widget))


def _entry(part: QWidget) -> QWidget | None:
    """Give the first within a part that takes the keys; itself, where none is within."""
    widget = part.nextInFocusChain()
    while widget is not None and widget is not part:
        if part.isAncestorOf(widget) and _takes_keys(widget):
            return widget
        widget = widget.nextInFocusChain()
    return part if _takes_keys(part) else None


def _takes_keys(widget: QWidget) -> bool:
    takes = widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    return bool(takes) and widget.isVisible() and widget.isEnabled()
