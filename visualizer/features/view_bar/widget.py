"""View bar above the heatmaps: stages, heads, range and zoom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAction, QIcon
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from visualizer.attention.display_transforms import HeadAggregate
from visualizer.features.view_bar.presenter import (
    VIEW_CONTROLS_PANEL,
    ViewControlsPanel,
)
from visualizer.session.view_options import ColourLimits
from visualizer.widgets.buttons import FixedWidthToolButton, SoloToggleButton
from visualizer.widgets.commands import show_command_tooltip
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.head_mark import head_icon
from visualizer.widgets.labels import ElidedLabel, plain_tooltip
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.overflow_row import (
    OverflowRow,
    OverflowRowItem,
    button_entry_adder,
)
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from PySide6.QtGui import QMouseEvent

    from visualizer.features.view_bar.presenter import StageVisibility
    from visualizer.session.screen import Screen

BAR_HEIGHT_PX = 26
BACK_LABEL = "‹ Flow board"
MAX_HEAD_CHIPS = 8
DOT_SIZE_PX = 8
AGGREGATE_LABELS = {HeadAggregate.MEAN: "Mean", HeadAggregate.MAX: "Max"}


WIDEST_STAGES_TEXTS = ("Stages: 18 of 18", "Stage: Weights")
WIDEST_RANGE_TEXTS = ("Range: automatic, 0 to 1.11", "Range: automatic, per row")
"""The widest common texts; the button reserves their width, so that its neighbours do not move."""
ZOOM_BUTTON_TEXTS = {"view.zoom_out": "−", "view.reset_zoom": "1:1", "view.zoom_in": "+"}


class StickyMenu(QMenu):
    """A menu that stays open when an item is checked, so that several can be chosen."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        action: QAction | None = self.actionAt(event.position().toPoint())
        if action is not None and action.isCheckable() and action.isEnabled():
            action.trigger()
        else:
            super().mouseReleaseEvent(event)


class MenuButton(FixedWidthToolButton):
    """Button that opens a menu, with an arrow after its text."""

    def __init__(self, words: Iterable[str], menu: type[QMenu] = QMenu) -> None:
        super().__init__(f"{each} ▾" for each in words)
        self.own_menu = menu(self)
        self.setMenu(self.own_menu)
        self.setProperty("role", "menu")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_choice(self, words: str) -> None:
        self.setText(f"{words} ▾")
        self.setAccessibleName(words)


class ViewBar(OverflowRow):
    """Row of view controls, which are also in the View menu."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    stageToggled = Signal(str)
    headToggled = Signal(int)
    soloHeadRequested = Signal(object)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__(BAR_HEIGHT_PX, "More view controls", (12, 0, 12, 0), spacing=4)
        self.setAccessibleName("View controls")
        self._panel, self._theme = ViewControlsPanel(), LIGHT
        self.buttons: dict[str, QToolButton] = {}
        self.stages_button = MenuButton(WIDEST_STAGES_TEXTS)
        self.chips = QWidget()
        self._chips = row_layout(self.chips, (8, 0, 0, 0), spacing=1)
        self.heads: list[SoloToggleButton] = []
        self.heads_button = MenuButton(("Heads: 88 of 88",), StickyMenu)
        self.menu = self.heads_button.own_menu
        self.range = MenuButton(WIDEST_RANGE_TEXTS)
        self.range.own_menu.addActions(
            [actions[f"view.set_limits {each}"] for each in ColourLimits]
        )
        self.part = ElidedLabel()
        folds = [
            self._create_button(f"view.toggle_aggregate {by}", actions, AGGREGATE_LABELS[by])
            for by in HeadAggregate
        ]
        zoom = [
            self._create_button(key, actions, words) for key, words in ZOOM_BUTTON_TEXTS.items()
        ]
        back = self._create_button("view.show_flow", actions, BACK_LABEL)
        back.fill = None  # always in the row
        self.set_items(
            (
                back,
                OverflowRowItem(self.stages_button, self._add_stage_submenu, rank=2),
                OverflowRowItem(self.chips, self._add_head_submenu, rank=1),
                OverflowRowItem(self.heads_button, self._add_head_submenu, rank=1),
                *folds,
                OverflowRowItem(self.range, self._add_range_submenu),
                *zoom,  # follow items of fixed width, so that they stay under the pointer
                OverflowRowItem(self.part, rank=3, is_stretched=True),
            )
        )

    def _create_button(
        self, id_: str, actions: Mapping[str, QAction], words: str
    ) -> OverflowRowItem:
        action, button = actions[id_], QToolButton()
        button.setText(words)
        button.setAutoRaise(True)
        button.setCheckable(action.isCheckable())
        button.setAccessibleName(action.text().replace("&", ""))
        show_command_tooltip(button, action)
        button.setChecked(action.isChecked())
        action.toggled.connect(button.setChecked)
        button.clicked.connect(action.trigger)
        self.buttons[id_] = button
        return OverflowRowItem(
            button, button_entry_adder(button), rank=4 if id_ in ZOOM_BUTTON_TEXTS else 5
        )

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(VIEW_CONTROLS_PANEL)
        if panel == self._panel and theme is self._theme:
            return
        is_new = len(panel.heads) != len(self._panel.heads) or theme is not self._theme
        has_new_stages = panel.stages != self._panel.stages
        self._panel, self._theme = panel, theme
        if has_new_stages:
            self._show_stage_choice()
        if is_new:
            self._create_head_chips()
        for chip, is_shown in zip(self.heads, panel.heads, strict=False):
            chip.setChecked(is_shown)
        for action, is_shown in zip(self.menu.actions(), panel.heads, strict=False):
            action.setChecked(is_shown)
        count = len(panel.heads)
        folds = {by: self.buttons[f"view.toggle_aggregate {by}"] for by in HeadAggregate}
        for by, button in folds.items():
            button.setChecked(by in panel.folds)
        for key in ("view.reset_zoom", "view.zoom_out"):
            self.buttons[key].setEnabled(bool(panel.part))
        self.heads_button.show_choice(f"Heads: {sum(panel.heads)} of {count}")
        self.range.show_choice(f"Range: {panel.range}")
        self.range.setToolTip(plain_tooltip(panel.range_description))
        self.range.setAccessibleDescription(panel.range_description)
        are_several = count > 1 and not panel.is_flow  # on the flow board, tabs choose the head
        self.set_all_available(
            {
                self.stages_button: count > 0 and not panel.is_flow,
                self.chips: are_several and count <= MAX_HEAD_CHIPS,
                self.heads_button: are_several and count > MAX_HEAD_CHIPS,
                **dict.fromkeys(folds.values(), are_several),
                self.range: bool(panel.range),
            }
        )
        self.part.show_text(panel.part, panel.part_description)
        self.fit_items()  # immediately, because the visible range may change with every frame

    def _create_head_chips(self) -> None:
        for chip in self.heads:
            chip.hide()
            chip.deleteLater()
        self.menu.clear()
        count = len(self._panel.heads)
        are_many = count > MAX_HEAD_CHIPS
        self.heads = (
            [] if are_many or count < 2 else [self._create_head_chip(head) for head in range(count)]
        )
        before: QWidget = self.stages_button
        for chip in self.heads:
            self._chips.addWidget(chip)
            chip.show()  # so that the row knows its size immediately
            self.setTabOrder(before, chip)  # otherwise the tab order is that of creation
            before = chip
        if are_many:
            self._fill_head_menu(self.menu)
        self.chips.updateGeometry()

    def _show_stage_choice(self) -> None:
        shown = [stage.title for stage in self._panel.stages if stage.is_shown]
        several = f"Stages: {len(shown)} of {len(self._panel.stages)}"
        self.stages_button.show_choice(f"Stage: {shown[0]}" if len(shown) == 1 else several)
        self.stages_button.setAccessibleDescription(", ".join(shown))
        self.stages_button.own_menu.clear()
        self._fill_stage_menu(self.stages_button.own_menu)

    def _fill_stage_menu(self, menu: QMenu) -> None:
        for stage in self._panel.stages:
            action = menu.addAction(stage.title)
            action.setCheckable(True)
            action.setChecked(stage.is_shown)
            action.setData(stage)
            action.triggered.connect(self._emit_stage_toggled)

    def _add_stage_submenu(self, menu: QMenu) -> None:
        self._fill_stage_menu(menu.addMenu("Visible stages"))

    def _fill_head_menu(self, menu: QMenu) -> None:
        for head, is_shown in enumerate(self._panel.heads):
            # An icon would take the place of the tick.
            action = menu.addAction(f"Head {head + 1}")
            action.setCheckable(True)
            action.setChecked(is_shown)
            action.setData(head)
            action.triggered.connect(self._emit_head_toggled)

    def _add_head_submenu(self, menu: QMenu) -> None:
        self._fill_head_menu(menu.addMenu("Visible heads"))

    def _add_range_submenu(self, menu: QMenu) -> None:
        menu.addMenu(self.range.accessibleName()).addActions(self.range.own_menu.actions())

    def _create_head_chip(self, head: int) -> SoloToggleButton:
        button = SoloToggleButton(head)
        button.setText(str(head + 1))
        button.setIcon(self._create_head_icon(head))
        button.setIconSize(QSize(DOT_SIZE_PX, DOT_SIZE_PX) * text_scale())
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setAccessibleName(f"Head {head + 1}")
        button.setToolTip("Click to show or hide this head; double-click to show only this head")
        button.clicked.connect(self._emit_head_toggled)
        button.doubleClicked.connect(self.soloHeadRequested)
        return button

    def _create_head_icon(self, head: int) -> QIcon:
        return head_icon(
            head, round(DOT_SIZE_PX * text_scale()), self.devicePixelRatioF(), self._theme
        )

    # ------------------------------------------------------------------ user input

    def _emit_stage_toggled(self) -> None:
        action = self.sender()
        assert isinstance(action, QAction)
        stage: StageVisibility = action.data()
        action.setChecked(stage.is_shown)  # unchanged until the next screen
        self.stageToggled.emit(stage.stage)

    def _emit_head_toggled(self) -> None:
        sender = self.sender()
        assert isinstance(sender, SoloToggleButton | QAction)
        head = sender.item if isinstance(sender, SoloToggleButton) else sender.data()
        sender.setChecked(self._panel.heads[head])  # unchanged until the next screen
        self.headToggled.emit(head)
