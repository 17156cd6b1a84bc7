"""A pane in the centre of the window, in place of the heatmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication, QWidget

from visualizer.widgets.layouts import column_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.session.pane_spec import PaneSpec
    from visualizer.session.view import View

HEATMAP_FIELDS = (
    *("flow", "stages", "folds", "large", "spread", "zoom", "lens"),
    *("comparison", "guess", "painting", "lesson"),
)
"""Fields of a view whose changes are visible only in the heatmaps."""


class CentralPaneContainer(QWidget):
    """Container that shows a pane in place of the heatmaps; the pane is created on first use.

    Parameters
    ----------
    panes : mapping
        The widgets of the panes by id; a missing widget is created on access.
    """

    visibilityChanged = Signal(bool)

    def __init__(
        self, pane: PaneSpec, window: QWidget, panes: Mapping[str, Any], heatmaps: QWidget
    ) -> None:
        super().__init__(window)
        self._pane, self._panes, self._heatmaps = pane, panes, heatmaps
        self._column = column_layout(self, (0, 0, 0, 0))
        self.setObjectName(pane.id)
        self.hide()

    def setWidget(self, widget: QWidget) -> None:
        self._column.addWidget(widget)
        self.setFocusProxy(widget)

    def widget(self) -> QWidget:
        """Return the widget of the pane; create it if necessary."""
        widget: QWidget = self._panes[self._pane.id]
        return widget

    def setVisible(self, visible: bool) -> None:
        is_changed = visible == self.isHidden()
        covered, covering = (self._heatmaps, self) if visible else (self, self._heatmaps)
        focused = QApplication.focusWidget()
        is_left = focused is not None and (focused is covered or covered.isAncestorOf(focused))
        if visible:
            self.widget()
        super().setVisible(visible)
        if not is_changed:
            return
        self._heatmaps.setFocusProxy(self if visible else None)  # type: ignore[arg-type]
        if not visible:
            covering.show()
        if is_left:  # before hiding the widget, because Qt would then move the focus elsewhere
            covering.setFocus(Qt.FocusReason.OtherFocusReason)
        if visible:
            covered.hide()
        self.visibilityChanged.emit(visible)


def is_visible_only_in_heatmaps(before: View, after: View) -> bool:
    """Return whether a change to the view is visible only in the heatmaps."""
    is_moved = after.pinned not in (None, before.pinned)
    is_played = after.playhead.place not in (None, before.playhead.place)
    changed = any(getattr(before, name) != getattr(after, name) for name in HEATMAP_FIELDS)
    return changed or is_moved or is_played
