"""Panel of controls below a button; the window stays usable while the panel is open."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QFrame, QScrollArea, QSlider, QWidget

from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import is_escape
from visualizer.widgets.layouts import column_layout

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent
    from PySide6.QtWidgets import QAbstractButton

WIDTH_PX = 292
GAP_PX = 4
BORDER_PX = 1
WINDOW_MARGIN_PX = 8
ANCHOR_MOVES = {QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Hide}


class Popover(QFrame):
    """Controls below a checkable button; the popover is open while the button is checked.

    It closes on Esc, when its button is clicked, and when another widget of the window gets the
    focus. It is a child of the window rather than a window of its own, so that the commands'
    shortcuts work and the rest of the window reacts to the pointer.

    Parameters
    ----------
    button : QAbstractButton
        The button that opens the popover.
    content : QWidget
        The controls; they scroll if the window is not high enough to show all of them.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping

    def __init__(self, button: QAbstractButton, content: QWidget) -> None:
        super().__init__(button)
        self._button, self._content = button, content
        self.setProperty("role", "popover")
        self.setAutoFillBackground(True)
        self.scroll_area = QScrollArea()
        self.scroll_area.setWidgetResizable(True)
        self.scroll_area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.scroll_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll_area.setWidget(content)
        content.installEventFilter(self)
        column_layout(self, (0, 0, 0, 0), spacing=0).addWidget(self.scroll_area)
        button.setCheckable(True)
        button.toggled.connect(self._set_open)
        self.hide()

    def reveal(self, widget: QWidget) -> None:
        """Open the popover and scroll to the given control."""
        self._button.setChecked(True)
        self.scroll_area.ensureWidgetVisible(widget)

    def _set_open(self, is_open: bool) -> None:
        if not is_open:
            self._return_focus()
            self.hide()
            return
        window = self._button.window()
        if self.parent() is not window:
            self._attach_to_window(window)
        self.setAccessibleName(self._button.accessibleName())
        self._move_below_button()
        self.show()
        self.raise_()
        for before, after in pairwise([self._button, *self._tab_stops(is_any=True)]):
            QWidget.setTabOrder(before, after)
        stops = self._tab_stops()
        if stops and isinstance(stops[0], QSlider):
            del stops[0]  # a number can be typed in the next control
        if stops:
            stops[0].setFocus(Qt.FocusReason.PopupFocusReason)

    def _attach_to_window(self, window: QWidget) -> None:
        """Become a child of the window."""
        self.setParent(window)
        self._button.installEventFilter(self)
        window.installEventFilter(self)
        QApplication.instance().focusChanged.connect(self._close_on_focus_loss)  # type: ignore[union-attr]

    def _tab_stops(self, *, is_any: bool = False) -> list[QWidget]:
        return [
            widget
            for widget in self._content.findChildren(QWidget)
            if widget.window() is self.window()  # the list of a combo box is a window
            and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
            and (is_any or (widget.isEnabled() and widget.isVisibleTo(self._content)))
        ]

    def _move_below_button(self) -> None:
        """Move the popover below the button, within the window."""
        window = self._button.window()
        corner = self._button.mapTo(window, QPoint(0, self._button.height() + GAP_PX))
        width = min(round(WIDTH_PX * text_scale()), window.width() - 2 * WINDOW_MARGIN_PX)
        room = window.height() - corner.y() - WINDOW_MARGIN_PX
        layout = self._content.layout()
        wanted = layout.totalHeightForWidth(width - 2 * BORDER_PX) if layout else -1
        if wanted < 0:
            wanted = self._content.sizeHint().height()
        left = max(WINDOW_MARGIN_PX, min(corner.x(), window.width() - width - WINDOW_MARGIN_PX))
        size = QSize(width, max(0, min(room, wanted + 2 * BORDER_PX)))
        self.setGeometry(QRect(QPoint(left, corner.y()), size))

    def _return_focus(self) -> None:
        """Move the focus to the button if a control of the popover has it."""
        focused = QApplication.focusWidget()
        if focused is not None and self.isAncestorOf(focused):
            self._button.setFocus(Qt.FocusReason.PopupFocusReason)

    def _close_on_focus_loss(self, old: QWidget | None, new: QWidget | None) -> None:
        """Close when the focus moves elsewhere in the window; lists of combo boxes do not count."""
        if new is None or not self.isVisible() or new.window() is not self.window():
            return
        if new is not self._button and not self.isAncestorOf(new):
            self._button.setChecked(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._content:
            is_changed = event.type() is QEvent.Type.LayoutRequest
        else:
            is_changed = event.type() in ANCHOR_MOVES
        if is_changed and self.isVisible():
            self._move_below_button()
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if is_escape(event):
            self._button.setChecked(False)
        else:
            super().keyPressEvent(event)
