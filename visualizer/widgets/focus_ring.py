"""Draws a ring around the focused widget, because the style's focus marks are barely visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QAccessible, QColor, QGuiApplication, QPainter, QPen
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QWidget
from shiboken6 import isValid

from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

OWN_FOCUS_PROPERTY = "shows own focus"
"""Property of widgets that get no ring, because they show the focus themselves or fill the
window."""
RING_MARGIN_PX = 3
GEOMETRY_EVENTS = {QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.Hide}


class FocusRing(QWidget):
    """Overlay that outlines the focused widget, unless it was focused by a click."""

    ACCESSIBLE_ROLE = QAccessible.Role.Border

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()
        self._window = window
        self._theme = LIGHT
        self._around: QWidget | None = None
        self._watched: list[QWidget] = []
        QApplication.instance().focusChanged.connect(self._update_focused_widget)  # type: ignore[union-attr]

    def show_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def _update_focused_widget(self, old: QWidget | None, new: QWidget | None) -> None:
        is_clicked = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton
        is_ours = new is not None and self._window.isAncestorOf(new)
        shows_own = new is not None and bool(new.property(OWN_FOCUS_PROPERTY))
        self._around = new if is_ours and not is_clicked and not shows_own else None
        for widget in filter(isValid, self._watched):  # a closing window deletes them first
            widget.removeEventFilter(self)
        self._watched = list(self._focused_widget_and_ancestors())
        for widget in self._watched:
            widget.installEventFilter(self)
        self._place_ring()

    def _focused_widget_and_ancestors(self) -> list[QWidget]:
        """Return the focused widget and its ancestors within the window."""
        chain, widget = [], self._around
        while widget is not None and widget is not self._window:
            chain.append(widget)
            widget = widget.parentWidget()
        return chain

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in GEOMETRY_EVENTS:
            self._place_ring()
        return False

    def _place_ring(self) -> None:
        around = self._around
        if around is None or not all(map(isValid, self._watched)) or not around.isVisible():
            self.hide()
            return
        seen = self._rect_in_window(around)
        for widget in self._watched[1:]:
            if isinstance(widget.parentWidget(), QAbstractScrollArea):
                seen = seen.intersected(self._rect_in_window(widget))
        self.setVisible(not seen.isEmpty())
        ring = seen.adjusted(-RING_MARGIN_PX, -RING_MARGIN_PX, RING_MARGIN_PX, RING_MARGIN_PX)
        self.setGeometry(ring.intersected(self._window.rect()))
        self.raise_()

    def _rect_in_window(self, widget: QWidget) -> QRect:
        return QRect(widget.mapTo(self._window, QPoint()), widget.size())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme.accent), 2))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
        painter.end()
