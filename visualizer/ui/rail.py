"""The rail of stages, in the order of the computation; each can be shown or hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QToolButton, QWidget

from visualizer.ui.theme import LIGHT, Theme, text_scale

if TYPE_CHECKING:
    from visualizer.state.screen import RailItem

# Computed side by side, so no arrow leads from the one before.
BESIDE = {"position", "keys", "values"}


class Rail(QScrollArea):
    """A button a stage, checked where the stage has panels."""

    stageToggled = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("Stages")
        self._items: tuple[RailItem, ...] = ()
        self._buttons: dict[str, QToolButton] = {}
        self._theme = LIGHT

    def sizeHint(self) -> QSize:
        return QSize(400, round(36 * text_scale()))

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.sizeHint().height())

    def show_items(self, items: tuple[RailItem, ...], theme: Theme) -> None:
        """Show the stages of a spec."""
        if items == self._items and theme is self._theme:
            return
        names = tuple(item.stage for item in items)
        rebuilt = names != tuple(item.stage for item in self._items) or theme is not self._theme
        self._items, self._theme = items, theme
        if rebuilt:
            self._build()
        for item in items:
            button = self._buttons[item.stage]
            button.setChecked(item.is_shown)
            button.setToolTip(f"{item.symbol}: {item.says}.  Size {item.size}")
            button.setAccessibleDescription(f"{item.says}, size {item.size}")

    def button(self, stage: str) -> QToolButton:
        """Give a stage's button."""
        return self._buttons[stage]

    def _build(self) -> None:
        inner = QWidget()
        row = QHBoxLayout(inner)
        row.setContentsMargins(12, 4, 12, 2)
        row.setSpacing(1)
        inner.setStyleSheet(_style(self._theme))
        self._buttons = {}
        for item in self._items:
            if self._buttons and item.stage not in BESIDE:
                arrow = QLabel("▸")
                arrow.setProperty("role", "quiet")
                row.addWidget(arrow)
            row.addWidget(self._button(item))
        row.addStretch(1)
        self.setWidget(inner)
        self.updateGeometry()

    def _button(self, item: RailItem) -> QToolButton:
        button = QToolButton()
        button.setText(item.symbol if len(item.symbol) == 1 else item.title)
        button.setAccessibleName(item.title)
        button.setCheckable(True)
        button.setProperty("stage", item.stage)
        button.setObjectName(f"stage {item.stage}")
        button.setAutoRaise(True)
        button.clicked.connect(self._toggle)
        self._buttons[item.stage] = button
        return button

    def _toggle(self) -> None:
        stage = self.sender().property("stage")
        item = next(item for item in self._items if item.stage == stage)
        self._buttons[stage].setChecked(item.is_shown)  # until the screen says otherwise
        self.stageToggled.emit(stage)


def _style(theme: Theme) -> str:
    return f"""
        QToolButton {{ color: {theme.quiet}; border: none; padding: 4px;
            border-bottom: 2px solid transparent; }}
        QToolButton:hover {{ color: {theme.ink}; background: {theme.raised}; }}
        QToolButton:checked {{ color: {theme.ink}; border-bottom: 2px solid {theme.ink}; }}
        QToolButton:focus {{ border-bottom: 2px solid {theme.accent}; }}
    """
