"""Cycles the focus between the visible panes and bars of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget

if TYPE_CHECKING:
    from collections.abc import Callable


class PaneFocusCycle:
    """Cycles the focus between the visible panes and bars of a window.

    Parameters
    ----------
    fixed : tuple of QWidget
        Widgets that a cycle starts with, in order.
    visible_panes : callable
        Lists the widgets of the visible panes, in order.
    bars : tuple of QWidget
        The bars that appear and disappear, after the panes.
    """

    def __init__(
        self,
        fixed: tuple[QWidget, ...],
        visible_panes: Callable[[], list[QWidget]],
        bars: tuple[QWidget, ...],
    ) -> None:
        self._fixed, self._visible_panes, self._bars = fixed, visible_panes, bars

    def go(self, steps: int) -> None:
        """Focus the next pane or bar, or the one before."""
        parts = {
            part: entry
            for part in self._visible_parts()
            if (entry := _first_focusable(part)) is not None
        }
        here = QApplication.focusWidget()
        at = (number for number, part in enumerate(parts) if _contains(part, here))
        before_all = -1 if steps > 0 else 0
        following = [*parts.values()][(next(at, before_all) + steps) % len(parts)]
        following.setFocus(Qt.FocusReason.TabFocusReason)

    def _visible_parts(self) -> list[QWidget]:
        return [
            *self._fixed,
            *self._visible_panes(),
            *(bar for bar in self._bars if bar.isVisible()),
        ]


def _contains(part: QWidget, widget: QWidget | None) -> bool:
    return widget is not None and (part is widget or part.isAncestorOf(widget))


def _first_focusable(part: QWidget) -> QWidget | None:
    """Return the first focusable widget within a pane, or the pane itself."""
    widget = part.nextInFocusChain()
    while widget is not None and widget is not part:
        if part.isAncestorOf(widget) and _takes_keys(widget):
            return widget
        widget = widget.nextInFocusChain()
    return part if _takes_keys(part) else None


def _takes_keys(widget: QWidget) -> bool:
    return _is_stop(widget) and widget.isVisible() and widget.isEnabled()


def _focus_chain(widget: QWidget) -> list[QWidget]:
    """List the window's widgets in tab order, starting with one."""
    ring = [widget]
    while (part := ring[-1].nextInFocusChain()) is not None and part is not widget:
        ring.append(part)
    return ring


def tab_stops(widget: QWidget) -> list[QWidget]:
    """List the tab stops within a widget, in order."""
    return [part for part in _focus_chain(widget) if _contains(widget, part) and _is_stop(part)]


def _is_stop(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
