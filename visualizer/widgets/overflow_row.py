"""Row of controls with a menu for the controls that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QAbstractButton, QComboBox, QMenu, QSizePolicy, QToolButton, QWidget

from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import plain_tooltip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from PySide6.QtGui import QResizeEvent, QShowEvent

    from visualizer.widgets.layouts import Margins

OVERFLOW_LABEL = "»"
_RESIZES = {QEvent.Type.LayoutRequest, QEvent.Type.StyleChange, QEvent.Type.FontChange}
"""Events that may change the sizes of controls."""


@dataclass(slots=True, eq=False)
class OverflowRowItem:
    """A control in a row.

    Parameters
    ----------
    fill : callable, optional
        Adds the function of the control to the menu; if omitted, the control stays in the row
        unless it is optional.
    is_optional : bool
        Whether the control may leave the row without a menu entry, because its function then has
        another place.
    rank : int
        Controls with the highest rank leave the row first; among equal ranks, the rightmost.
    is_stretched : bool
        Whether the control takes the remaining width; if space is short, its width becomes 0.
    is_wanted : bool
        Whether the control is available.
    """

    widget: QWidget
    fill: Callable[[QMenu], object] | None = None
    is_optional: bool = False
    rank: int = 0
    is_stretched: bool = False
    is_wanted: bool = True

    width: int = field(default=0, init=False)
    height: int = field(default=0, init=False)
    """Preferred size at the last measurement."""
    is_measured: bool = field(default=False, init=False)
    """Whether the measurement is up to date."""

    @property
    def may_leave(self) -> bool:
        """Whether the control may leave the row; a button that is checked stays."""
        is_checked = isinstance(self.widget, QAbstractButton) and self.widget.isChecked()
        return self.fill is not None or (self.is_optional and not is_checked)

    def measure(self) -> None:
        # The text of a stretched control may change with every frame, and hidden controls do not
        # report changes.
        if self.is_measured and not self.is_stretched:
            return
        self.is_measured = self.widget.isVisible()
        hint = self.widget.sizeHint()
        wanted = hint.expandedTo(self.widget.minimumSize())
        self.width = wanted.boundedTo(self.widget.maximumSize()).width()
        self.height = hint.height()


class OverflowRow(QWidget):
    """Row of controls, and a button at its end that opens the menu of the other controls.

    `overflowChanged` is emitted when other controls leave the row.

    Parameters
    ----------
    height : int
        Height of the row, in pixels at the normal text size.
    more : str
        Accessible name of the button that opens the menu.
    """

    overflowChanged = Signal()

    def __init__(self, height: int, more: str, margins: Margins, spacing: int) -> None:
        super().__init__()
        self._overflowed: list[QWidget] = []
        self._height, self._margins, self._spacing = height, margins, spacing
        self._row_items: list[OverflowRowItem] = []
        self._more_name = more
        self.more = QToolButton()
        self.overflow_menu = QMenu()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_items(self, items: Iterable[OverflowRowItem]) -> None:
        """Set the controls, from left to right; all previous controls must be included."""
        before = {item.widget for item in self._row_items}
        self._row_items = list(items)
        for item in self._row_items:
            if item.widget not in before:
                item.widget.setParent(self)
                item.widget.setVisible(item.is_wanted)
        if not before:
            self._set_up_overflow_button()

    def _set_up_overflow_button(self) -> None:
        self.more.setParent(self)  # also last in the tab order
        self.more.setText(OVERFLOW_LABEL)
        self.more.setAutoRaise(True)
        self.more.setProperty("role", "menu")
        self.more.setAccessibleName(self._more_name)
        self.more.setToolTip(plain_tooltip(self._more_name))
        self.more.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.overflow_menu = QMenu(self.more)
        self.overflow_menu.setAccessibleName(self._more_name)
        self.overflow_menu.aboutToShow.connect(self._fill_menu)
        self.more.setMenu(self.overflow_menu)
        self.more.hide()

    def set_available(self, widget: QWidget, is_wanted: bool) -> None:
        """Set whether a control is available, in the row or its menu."""
        self.set_all_available({widget: is_wanted})

    def set_all_available(self, wanted: Mapping[QWidget, bool]) -> None:
        """Set whether each of several controls is available, in the row or its menu."""
        items = [item for item in self._row_items if item.widget in wanted]
        changed = [item for item in items if item.is_wanted != wanted[item.widget]]
        for item in changed:
            item.is_wanted, item.is_measured = wanted[item.widget], False
        if changed:
            self.overflow_menu.close()  # it may contain controls that are no longer available
            self.fit_items()
            self.updateGeometry()

    def set_ranks(self, ranks: Mapping[QWidget, int]) -> None:
        """Change the ranks of the given controls."""
        before = [item.rank for item in self._row_items]
        for item in self._row_items:
            item.rank = ranks.get(item.widget, item.rank)
        if before != [item.rank for item in self._row_items]:
            self.fit_items()

    def overflowed_widgets(self) -> list[QWidget]:
        """Return the controls that are in the menu."""
        return [item.widget for item in self._overflowed_items()]

    def _overflowed_items(self) -> list[OverflowRowItem]:
        return [item for item in self._row_items if item.is_wanted and item.widget.isHidden()]

    # ------------------------------------------------------------------ the size

    def _measure_items(self) -> None:
        """Measure only the controls whose size may have changed, because measuring is slow."""
        for item in self._row_items:
            if item.is_wanted:
                item.measure()

    def sizeHint(self) -> QSize:
        self._measure_items()
        wanted = [item for item in self._row_items if item.is_wanted]
        return QSize(self._needed_width(wanted), round(self._height * text_scale()))

    def minimumSizeHint(self) -> QSize:
        self._measure_items()
        wanted = [item for item in self._row_items if item.is_wanted]
        always = [item for item in wanted if not item.may_leave and not item.is_stretched]
        more = self._menu_button_width(wanted)
        return QSize(self._needed_width(always) + more, self.sizeHint().height())

    def _menu_button_width(self, items: Iterable[OverflowRowItem]) -> int:
        """Return the width of the menu's button if one of the items may need it."""
        is_needed = any(item.fill for item in items)
        return self.more.sizeHint().width() + self._spacing if is_needed else 0

    def _needed_width(
        self, items: Iterable[OverflowRowItem], *without_room: OverflowRowItem
    ) -> int:
        widths = [0 if item in without_room else item.width for item in items]
        spaces = self._spacing * max(0, len(widths) - 1)
        return self._margins[0] + self._margins[2] + spaces + sum(widths)

    def event(self, event: QEvent) -> bool:
        if event.type() in _RESIZES:
            for item in self._row_items:
                item.is_measured = False
        if event.type() is QEvent.Type.LayoutRequest:  # the size of a control changed
            self.fit_items()
            self.updateGeometry()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit_items()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.fit_items()

    def fit_items(self) -> None:
        """Place the controls that fit and hide the rest; called when a size changes."""
        self._measure_items()
        fitting = self._fitting_items()
        for item in self._row_items:
            item.widget.setVisible(item in fitting)
        overflowed = [item for item in self._row_items if item.is_wanted and item not in fitting]
        is_cut = any(item.fill for item in overflowed)
        self.more.setVisible(is_cut)
        more = self.more.sizeHint().width() + self._spacing if is_cut else 0
        stretched = [item for item in fitting if item.is_stretched]
        spare = max(0, self.width() - more - self._needed_width(fitting, *stretched))
        left = self._margins[0]
        for item in fitting:
            width = spare if item.is_stretched else item.width
            self._place_widget(item.widget, left, width, item.height)
            left += width + self._spacing
        if is_cut:
            hint = self.more.sizeHint()
            self._place_widget(self.more, left, hint.width(), hint.height())
        now = [item.widget for item in overflowed]
        if now != self._overflowed:
            self._overflowed = now
            self.overflowChanged.emit()

    def _fitting_items(self) -> list[OverflowRowItem]:
        fitting = [item for item in self._row_items if item.is_wanted]
        if self._needed_width(fitting) <= self.width():
            return fitting
        room = self.width() - self._menu_button_width(fitting)
        last_first = [item for item in reversed(fitting) if item.may_leave or item.is_stretched]
        stretched: list[OverflowRowItem] = []
        left: list[OverflowRowItem] = []
        for item in sorted(last_first, key=lambda item: -item.rank):
            if self._needed_width(fitting, *stretched) <= room:
                break
            if item.is_stretched:
                stretched.append(item)
            else:
                fitting.remove(item)
                left.append(item)
        for item in reversed(left):  # a wide control may have left more room than was needed
            wanted = [one for one in self._row_items if one in fitting or one is item]
            # The controls of a menu keep their order: what leaves first comes back last.
            if item.is_optional and self._needed_width(wanted, *stretched) <= room:
                fitting = wanted
        return fitting

    def _place_widget(self, widget: QWidget, left: int, width: int, wanted: int) -> None:
        room = self.height() - self._margins[1] - self._margins[3]
        height = min(room, wanted)
        place = QRect(left, self._margins[1] + (room - height) // 2, width, height)
        if self.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            place.moveRight(self.width() - 1 - left)
        widget.setGeometry(place)

    # ------------------------------------------------------------------ the menu

    def _fill_menu(self) -> None:
        menu = self.overflow_menu
        menu.clear()
        for submenu in menu.findChildren(QMenu):
            submenu.deleteLater()  # `clear` leaves them behind
        for item in self._overflowed_items():
            if item.fill:
                item.fill(menu)


def button_entry_adder(button: QAbstractButton) -> Callable[[QMenu], object]:
    """Return a function that adds a menu entry for a button, with its accessible name."""
    return partial(_add_button_entry, button)


def combo_box_entry_adder(box: QComboBox) -> Callable[[QMenu], object]:
    """Return a function that adds a submenu for a combo box, with its accessible name."""
    return partial(_add_combo_box_menu, box)


def _add_button_entry(button: QAbstractButton, menu: QMenu) -> None:
    entry = menu.addAction(button.icon(), button.accessibleName())
    entry.setCheckable(button.isCheckable())
    entry.setChecked(button.isChecked())
    entry.setEnabled(button.isEnabled())
    entry.triggered.connect(button.click)


def _add_combo_box_menu(box: QComboBox, menu: QMenu) -> None:
    submenu = menu.addMenu(box.accessibleName())
    group = QActionGroup(submenu)
    for at in range(box.count()):
        entry = submenu.addAction(box.itemIcon(at), box.itemText(at))
        entry.setCheckable(True)
        entry.setChecked(at == box.currentIndex())
        group.addAction(entry)
        entry.triggered.connect(partial(_choose_item, box, at))


def _choose_item(box: QComboBox, at: int) -> None:
    box.setCurrentIndex(at)
    box.activated.emit(at)
