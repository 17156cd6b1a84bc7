"""What readers of the screen are told of widgets that draw themselves: role, value, changes.

Names and descriptions are the widgets' own (`setAccessibleName`). Qt knows neither the role of a
widget that we draw, which is its class's `ACCESSIBLE_ROLE`, nor a value other than a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.cell.model import CELL
from visualizer.features.playback.model import PLAYBACK
from visualizer.heatmap.board_picture import PICTURE
from visualizer.shell.panel_table import STATUS
from visualizer.widgets.accessibility import Politeness, announce, install, set_accessible_value

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.session.screen import Screen


class ScreenAnnouncer:
    """Says what the keys lead to: the cell that is walked to, the step that is stepped to; notices.

    What the pointer only passes by, and what plays by itself, is not announced: it would never end.

    Parameters
    ----------
    readers : tuple of QWidget
        Where the keys have to be for it: elsewhere one types, and listens to that.
    """

    def __init__(self, board: QWidget, readers: tuple[QWidget, ...]) -> None:
        install()
        self._board, self._readers = board, readers
        self._said = ""
        self._noticed: tuple[str, ...] = ()

    def show_screen(self, screen: Screen) -> None:
        """Give the heatmaps their value, and announce what is new."""
        said, before = spoken(screen), self._said
        self._said = said
        set_accessible_value(self._board, said or screen.panel(STATUS).facts)
        is_pointed_at = screen.panel(PICTURE).cursor.hovered is not None
        by_hand = not is_pointed_at and not screen.panel(PLAYBACK).playhead.is_playing
        if said and said != before and by_hand and any(one.hasFocus() for one in self._readers):
            announce(self._board, said, Politeness.Assertive)  # the newest cell counts
        noticed, self._noticed = self._noticed, screen.panel(STATUS).notices
        for notice in screen.panel(STATUS).notices:
            if notice not in noticed:
                announce(self._board, notice, Politeness.Polite)


def spoken(screen: Screen) -> str:
    """Say which cell is looked at, and its sentence; nothing where none is."""
    readout = screen.panel(CELL)
    return f"{readout.heading.replace(' · ', ', ')}: {readout.plain}" if readout else ""
