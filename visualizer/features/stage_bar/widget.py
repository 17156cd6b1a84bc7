"""Stage bar: one toggle button per stage, in the order of computation."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QToolButton, QWidget

from visualizer.attention.layer_stages import STAGE_ORDER, SURROUNDING_STAGES
from visualizer.attention.roles import Role
from visualizer.attention.stages import STAGE_TABLE
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.buttons import SoloToggleButton
from visualizer.widgets.labels import PlainLabel, plain_tooltip
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.overflow_row import OverflowRow, RowItem, button_entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.features.stage_bar.presenter import StageBarItem
    from visualizer.widgets.theme import Theme

BAR_HEIGHT_PX = 36

PARALLEL_STAGES = {
    "position": "embedding",
    Role.KEYS: Role.QUERIES,
    Role.VALUES: Role.QUERIES,
    "projected_keys": "projected_queries",
    "normed_keys": "normed_queries",
    "turned_keys": "turned_queries",
    "up": "gate",
}
"""Stages computed in parallel with the previous one; no arrow points to them."""


class StageBar(OverflowRow):
    """A row of buttons, one per stage, checked if the stage has panels."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    stageToggled = Signal(str)
    soloStageRequested = Signal(object)

    def __init__(self) -> None:
        super().__init__(BAR_HEIGHT_PX, "More stages", (12, 4, 12, 2), spacing=1)
        self.setAccessibleName("Stages")
        self._items: tuple[StageBarItem, ...] = ()
        self.buttons: dict[str, QToolButton] = {}
        """The button of each stage, including those that are hidden."""
        self._arrows: dict[str, PlainLabel] = {}
        self._theme: Theme | None = None
        self._places: dict[str, QWidget] = {}
        self._row: dict[str, RowItem] = {}
        self._add_stages(
            dict.fromkeys(row.name for row in STAGE_TABLE if row.name not in SURROUNDING_STAGES)
        )

    def show_items(self, items: tuple[StageBarItem, ...], theme: Theme) -> None:
        """Show the given stages; the buttons of all others are hidden."""
        if items == self._items and theme is self._theme:
            return
        self._items = items
        if theme is not self._theme:
            self._theme = theme
            self.setStyleSheet(_style_sheet(theme))
        shown = {item.stage for item in items}
        if missing := shown - self._row.keys():
            self._add_stages(missing)
        first = items[0].stage if items else ""
        for stage in self._places:
            is_led_to = stage != first and PARALLEL_STAGES.get(stage) not in shown
            self._arrows[stage].setVisible(is_led_to)
        self.set_all_wanted({place: stage in shown for stage, place in self._places.items()})
        for item in items:
            self._show_item(self.buttons[item.stage], item)
        self.set_ranks({self._places[item.stage]: _overflow_rank(item) for item in items})
        set_accessible_value(self, ", ".join(item.title for item in items if item.is_shown))

    @staticmethod
    def _show_item(button: QToolButton, item: StageBarItem) -> None:
        button.setText(item.symbol if len(item.symbol) == 1 else item.title)
        button.setChecked(item.is_shown)
        button.setToolTip(
            plain_tooltip(
                f"{item.symbol}: {item.says}.  Shape {item.size}.  Double-click to show only this"
            )
        )
        button.setAccessibleName(item.title)
        button.setAccessibleDescription(f"{item.says}, shape {item.size}")

    def _add_stages(self, stages: Iterable[str]) -> None:
        """Create buttons: stages of attention first, surrounding ones when a run has them."""
        for stage in stages:
            self._places[stage] = place = QWidget()
            row = row_layout(place, (0, 0, 0, 0), spacing=1)
            self._arrows[stage] = PlainLabel("▸")
            self._arrows[stage].setProperty("role", "quiet")
            row.addWidget(self._arrows[stage])
            button = self._create_button(stage)
            row.addWidget(button)
            self._row[stage] = RowItem(place, button_entry(button), is_wanted=False)
        known = [stage for stage in STAGE_ORDER if stage in self._row]
        self.set_row(self._row[stage] for stage in known)
        for before, after in pairwise((*(self.buttons[stage] for stage in known), self.more)):
            QWidget.setTabOrder(before, after)

    def _create_button(self, stage: str) -> QToolButton:
        button = SoloToggleButton(stage)
        button.doubleClicked.connect(self.soloStageRequested)
        button.setObjectName(f"stage {stage}")
        button.clicked.connect(self._emit_toggled)
        self.buttons[stage] = button
        return button

    def _emit_toggled(self) -> None:
        button = self.sender()
        assert isinstance(button, SoloToggleButton)
        for item in self._items:  # the stage may have disappeared while the mouse was down
            if item.stage == button.item:
                button.setChecked(item.is_shown)  # until the next screen confirms the change
                self.stageToggled.emit(item.stage)


def _overflow_rank(item: StageBarItem) -> int:
    """Return the overflow rank: surrounding stages move to the menu first, shown ones last."""
    if item.is_shown or item.is_current:
        return 0
    return 2 if item.stage in SURROUNDING_STAGES else 1


def _style_sheet(theme: Theme) -> str:
    return f"""
        QToolButton {{ color: {theme.quiet}; border: none; padding: 4px;
            border-bottom: 2px solid transparent; }}
        QToolButton:hover {{ color: {theme.ink}; background: {theme.raised}; }}
        QToolButton:checked {{ color: {theme.ink}; border-bottom: 2px solid {theme.ink}; }}
        QToolButton:focus {{ border-bottom: 2px solid {theme.accent}; }}
    """
