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
"""Fields of a view whose changes are visible in the heatmaps only."""


class CentrePage(QWidget):
    """Holds a pane, which is created before it is first shown; hides the heatmaps while shown.

    Parameters
    ----------
    panes : mapping
        The widgets of the panes by id; missing ones are created on access.
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
        """Return the widget of the pane."""
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
        if is_left:  # before the widget is hidden, when Qt would choose another one
            covering.setFocus(Qt.FocusReason.OtherFocusReason)
        if visible:
            covered.hide()
        self.visibilityChanged.emit(visible)


def needs_heatmaps(before: View, after: View) -> bool:
    """Whether a change of the view is visible in the heatmaps only."""
    is_moved = after.pinned not in (None, before.pinned)
    is_played = after.playhead.place not in (None, before.playhead.place)
    changed = any(getattr(before, name) != getattr(after, name) for name in HEATMAP_FIELDS)
    return changed or is_moved or is_played
