"""The stage bar: a toggle button per stage, in the order of the computation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QToolButton, QWidget

from visualizer.attention.stages import TABLE
from visualizer.widgets.accessible_roles_and_values import set_accessible_value
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.plain_text_tooltips import plain_tooltip
from visualizer.widgets.scroll_strip import ScrollStrip
from visualizer.widgets.solo_toggle_button import SoloToggleButton

if TYPE_CHECKING:
    from visualizer.features.stage_bar.presenter import StageBarItem
    from visualizer.widgets.theme import Theme

HEIGHT = 36

# Computed in parallel, so no arrow leads from the stage before.
BESIDE = {"position", "keys", "values"}


class StageBar(ScrollStrip):
    """A row of buttons, one per stage, checked where the stage has panels."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    stageToggled = Signal(str)
    stageAlone = Signal(object)

    def __init__(self) -> None:
        super().__init__(HEIGHT)
        self.setAccessibleName("Stages")
        self._items: tuple[StageBarItem, ...] = ()
        self._buttons: dict[str, QToolButton] = {}
        self._arrows: dict[str, PlainLabel] = {}
        self._theme: Theme | None = None
        self._inner = self._build()
        self.setWidget(self._inner)

    def show_items(self, items: tuple[StageBarItem, ...], theme: Theme) -> None:
        """Show the given stages; the buttons of all others are hidden."""
        if items == self._items and theme is self._theme:
            return
        self._items = items
        if theme is not self._theme:
            self._theme = theme
            self._inner.setStyleSheet(_style(theme))
        shown = {item.stage for item in items}
        first = items[0].stage if items else ""
        for stage, button in self._buttons.items():
            button.setVisible(stage in shown)
            if stage in self._arrows:
                self._arrows[stage].setVisible(stage in shown and stage != first)
        for item in items:
            self._show_item(self._buttons[item.stage], item)
        set_accessible_value(self, ", ".join(item.title for item in items if item.is_shown))
        self.updateGeometry()

    def button(self, stage: str) -> QToolButton:
        return self._buttons[stage]

    @staticmethod
    def _show_item(button: QToolButton, item: StageBarItem) -> None:
        button.setText(item.symbol if len(item.symbol) == 1 else item.title)
        button.setChecked(item.is_shown)
        button.setToolTip(
            plain_tooltip(f"{item.symbol}: {item.says}.  Size {item.size}.  Double-click: alone")
        )
        button.setAccessibleName(item.title)
        button.setAccessibleDescription(f"{item.says}, size {item.size}")

    def _build(self) -> QWidget:
        """Create a button for every possible stage, as showing and hiding is cheap."""
        inner = QWidget()
        row = row_layout(inner, (12, 4, 12, 2), spacing=1)
        for stage in dict.fromkeys(row.name for row in TABLE):
            if self._buttons and stage not in BESIDE:
                self._arrows[stage] = PlainLabel("▸")
                self._arrows[stage].setProperty("role", "quiet")
                self._arrows[stage].hide()
                row.addWidget(self._arrows[stage])
            row.addWidget(self._button(stage))
        row.addStretch(1)
        return inner

    def _button(self, stage: str) -> QToolButton:
        button = SoloToggleButton(stage)
        button.doubled.connect(self.stageAlone)
        button.setObjectName(f"stage {stage}")
        button.hide()
        button.clicked.connect(self._toggle)
        self._buttons[stage] = button
        return button

    def _toggle(self) -> None:
        button = self.sender()
        assert isinstance(button, SoloToggleButton)
        stage = button.item
        item = next(item for item in self._items if item.stage == stage)
        self._buttons[stage].setChecked(item.is_shown)  # until the next screen confirms the change
        self.stageToggled.emit(stage)


def _style(theme: Theme) -> str:
    return f"""
        QToolButton {{ color: {theme.quiet}; border: none; padding: 4px;
            border-bottom: 2px solid transparent; }}
        QToolButton:hover {{ color: {theme.ink}; background: {theme.raised}; }}
        QToolButton:checked {{ color: {theme.ink}; border-bottom: 2px solid {theme.ink}; }}
        QToolButton:focus {{ border-bottom: 2px solid {theme.accent}; }}
    """
