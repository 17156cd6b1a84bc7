"""The view bar over the heatmaps: arrangement, heads, texts, zoom, and buttons of panes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAction, QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QComboBox, QMenu, QToolButton, QWidget

from visualizer.attention.head_aggregates import HeadAggregate
from visualizer.features.view_bar.presenter import (
    VIEW_CONTROLS,
    BoardArrangement,
    ViewControlsPanel,
)
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import ElidedLabel
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.plain_text_tooltips import plain_tooltip
from visualizer.widgets.scroll_strip import ScrollStrip
from visualizer.widgets.solo_toggle_button import SoloToggleButton
from visualizer.widgets.theme import LIGHT, Theme, head_colour

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.session.screen import Screen

HEIGHT = 26
PANES = ("Lines", "Heads", "Colours")
"""The ids of the panes with a button in the bar; the menu has all of them."""
MOST_CHIPS = 8
DOT = 8
LAYOUTS = {
    BoardArrangement.ALL: "Stages × heads",
    BoardArrangement.STAGE: "One stage, all heads",
    BoardArrangement.HEAD: "One head, large",
}
FOLDS = {HeadAggregate.MEAN: "Mean", HeadAggregate.MAX: "Max"}


class ViewBar(ScrollStrip):
    """A row of controls, all of which are in the View menu, too."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    layoutChosen = Signal(object)
    headToggled = Signal(int)
    headAlone = Signal(object)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__(HEIGHT)
        self.setAccessibleName("How the panels are looked at")
        self._panel, self._theme = ViewControlsPanel(), LIGHT
        self.buttons: dict[str, QToolButton] = {}
        inner = QWidget()
        self.row = row_layout(inner, (12, 0, 12, 0), spacing=4)
        self.box = QComboBox()
        self.box.setAccessibleName("How the panels are arranged")
        # Screen readers take a combo box's text as its name.
        self.box.setAccessibleDescription(self.box.accessibleName())
        for layout, words in LAYOUTS.items():
            self.box.addItem(words, layout)
        self.box.activated.connect(self._choose)
        self.chips = QWidget()
        self._chips = row_layout(self.chips, (8, 0, 0, 0), spacing=1)
        self.heads: list[SoloToggleButton] = []
        self.many = QToolButton()
        self.menu = QMenu(self.many)
        self.many.setMenu(self.menu)
        self.many.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.part = ElidedLabel(Qt.AlignmentFlag.AlignRight)
        for widget in (self.box, self.chips, self.many):
            self.row.addWidget(widget)
        for by in HeadAggregate:
            id_ = f"gaze.toggle_fold {by}"
            self.row.addWidget(self._button(id_, actions[id_], FOLDS[by]))
        self.row.addWidget(self.part, 1)
        for key, words in (("gaze.further", "−"), ("gaze.whole", "1:1"), ("gaze.closer", "+")):
            self.row.addWidget(self._button(key, actions[key], words))
        for pane in PANES:
            self.row.addWidget(self._button(pane, actions[pane], actions[pane].text()))
        self.setWidget(inner)

    def _button(self, id_: str, action: QAction, words: str) -> QToolButton:
        button = QToolButton()
        button.setText(words)
        button.setAutoRaise(True)
        button.setCheckable(action.isCheckable())
        button.setAccessibleName(action.text().replace("&", ""))
        button.setToolTip(plain_tooltip(action.toolTip()))
        button.setChecked(action.isChecked())
        action.toggled.connect(button.setChecked)
        button.clicked.connect(action.trigger)
        self.buttons[id_] = button
        return button

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(VIEW_CONTROLS)
        if panel == self._panel and theme is self._theme:
            return
        is_new = len(panel.heads) != len(self._panel.heads) or theme is not self._theme
        self._panel, self._theme = panel, theme
        self._show_layout()
        if is_new:
            self._make_heads()
        for chip, is_shown in zip(self.heads, panel.heads, strict=False):
            chip.setChecked(is_shown)
        for action, is_shown in zip(self.menu.actions(), panel.heads, strict=False):
            action.setChecked(is_shown)
        count = len(panel.heads)
        for by in HeadAggregate:
            button = self.buttons[f"gaze.toggle_fold {by}"]
            button.setChecked(by in panel.folds)
            button.setVisible(count > 1)
        self.box.setVisible(count > 1)
        for key in ("gaze.whole", "gaze.further"):
            self.buttons[key].setEnabled(bool(panel.part))
        self.many.setText(f"Heads: {sum(panel.heads)} of {count}")
        self.part.tell(panel.part, panel.part_in_words)

    def _make_heads(self) -> None:
        for chip in self.heads:
            chip.hide()
            chip.deleteLater()
        self.menu.clear()
        count = len(self._panel.heads)
        are_many = count > MOST_CHIPS
        self.heads = [] if are_many or count < 2 else [self._chip(head) for head in range(count)]
        before: QWidget = self.box
        for chip in self.heads:
            self._chips.addWidget(chip)
            self.setTabOrder(before, chip)  # otherwise the tab order is that of creation
            before = chip
        for head in range(count if are_many else 0):
            action = self.menu.addAction(self._dot(head), f"Head {head + 1}")
            action.setCheckable(True)
            action.setData(head)
            action.triggered.connect(self._toggle)
        self.chips.setVisible(bool(self.heads))
        self.many.setVisible(are_many)

    def _chip(self, head: int) -> SoloToggleButton:
        button = SoloToggleButton(head)
        button.setText(str(head + 1))
        button.setIcon(self._dot(head))
        button.setIconSize(QSize(DOT, DOT) * text_scale())
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setAccessibleName(f"Head {head + 1}")
        button.setToolTip("Click to show or hide it; double-click to see it alone")
        button.clicked.connect(self._toggle)
        button.doubled.connect(self.headAlone)
        return button

    def _dot(self, head: int) -> QIcon:
        ratio = self.devicePixelRatioF()
        side = DOT * text_scale()
        picture = QPixmap(round(side * ratio), round(side * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(Qt.GlobalColor.transparent)
        painter = QPainter(picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(head_colour(head, self._theme)))
        painter.drawEllipse(0, 0, int(side), int(side))
        painter.end()
        return QIcon(picture)

    # ------------------------------------------------------------------ user input

    def _choose(self, index: int) -> None:
        self.layoutChosen.emit(self.box.itemData(index))
        self._show_layout()  # the actual layout: a playback step has its own panels

    def _show_layout(self) -> None:
        self.box.setCurrentIndex(self.box.findData(self._panel.layout))

    def _toggle(self) -> None:
        sender = self.sender()
        if isinstance(sender, SoloToggleButton):
            sender.setChecked(self._panel.heads[sender.item])  # until the next screen
            self.headToggled.emit(sender.item)
        elif isinstance(sender, QAction):
            self.headToggled.emit(sender.data())
