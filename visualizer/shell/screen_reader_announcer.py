"""Announces the current cell, the playback step and notices to screen readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.explain.presenter import CELL_PANEL, plain_text
from visualizer.features.playback.presenter import PLAYBACK_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.shell.screen_presenter import STATUS_PANEL
from visualizer.widgets.accessibility import (
    Politeness,
    announce,
    install_accessible_interface,
    set_accessible_value,
)

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.session.screen import Screen


class ScreenReaderAnnouncer:
    """Announcer of the cell or step that the user reaches by keyboard, and of new notices.

    Hovered cells and the steps of running playback are not announced, because there are too many.
    """

    def __init__(self, board: QWidget) -> None:
        install_accessible_interface()
        self._board = board
        self._readers: list[QWidget] = []
        self._described: list[QWidget] = []
        self._description = ""
        self._noticed: tuple[str, ...] = ()

    def watch_widgets(self, *widgets: QWidget) -> None:
        """Also announce cells while one of the given widgets has the focus.

        In other widgets, screen readers read the text that the user types.
        """
        self._readers += widgets

    def add_described_widget(self, widget: QWidget) -> None:
        """Use the explanation of the current cell as the accessible description of a widget."""
        self._described.append(widget)

    def show_screen(self, screen: Screen) -> None:
        """Update the accessible value of the heatmaps and announce changes."""
        description, before = describe_current_cell(screen), self._description
        self._description = description
        set_accessible_value(self._board, description or screen.panel(STATUS_PANEL).facts)
        cell_panel = screen.panel(CELL_PANEL)
        for widget in self._described:
            widget.setAccessibleDescription(plain_text(cell_panel.caption) if cell_panel else "")
        is_pointed_at = screen.panel(BOARD_CONTENTS).cursor.hovered is not None
        by_hand = not is_pointed_at and not screen.panel(PLAYBACK_PANEL).playhead.is_playing
        if (
            description
            and description != before
            and by_hand
            and any(one.hasFocus() for one in self._readers)
        ):
            announce(self._board, description, Politeness.Assertive)  # only the newest cell matters
        noticed, self._noticed = self._noticed, screen.panel(STATUS_PANEL).notices
        for notice in screen.panel(STATUS_PANEL).notices:
            if notice not in noticed:
                announce(self._board, notice, Politeness.Polite)


def describe_current_cell(screen: Screen) -> str:
    """Return the current cell and its explanation as text, or "" without a current cell."""
    cell_panel = screen.panel(CELL_PANEL)
    return (
        f"{cell_panel.heading.replace(' · ', ', ')}: {cell_panel.plain_text}" if cell_panel else ""
    )
