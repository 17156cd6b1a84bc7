"""What readers of the screen are told of widgets that draw themselves: role, value, changes.

Names and descriptions are the widgets' own (`setAccessibleName`). Qt knows neither the role of a
widget that we draw, which is its class's `ACCESSIBLE_ROLE`, nor a value other than a number.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QAccessibleWidget, QWidget

from visualizer.state.cell import CELL
from visualizer.state.picture import PICTURE
from visualizer.state.playback.transport import PLAYBACK
from visualizer.state.present_screen import STATUS

if TYPE_CHECKING:
    from PySide6.QtCore import QObject

    from visualizer.state.screen import Screen

Politeness = QAccessible.AnnouncementPoliteness

VALUE = "value told"


class Told(QAccessibleWidget):
    """A widget with the role of its class and the value that it was given."""

    def text(self, kind: QAccessible.Text) -> str:
        if kind is QAccessible.Text.Value:
            return str(self.widget().property(VALUE) or "")
        return super().text(kind)


def _told(name: str, thing: QObject) -> Told | None:
    """Give the interface of a widget whose class has an `ACCESSIBLE_ROLE`."""
    role = getattr(thing, "ACCESSIBLE_ROLE", None)
    return Told(thing, role) if role is not None and isinstance(thing, QWidget) else None


@cache  # Qt would ask as often as it was told to
def install() -> None:
    """Have Qt ask here first what a widget is."""
    QAccessible.installFactory(_told)


def tell(widget: QWidget, value: str) -> None:
    """Give a widget the value that readers of the screen are told when they come to it."""
    widget.setProperty(VALUE, value)


def announce(widget: QWidget, sentence: str, politeness: Politeness) -> None:
    """Have readers of the screen say a sentence: instead of what they say, or after it."""
    event = QAccessibleAnnouncementEvent(widget, sentence)
    event.setPoliteness(politeness)
    QAccessible.updateAccessibility(event)


class Voice:
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
        tell(self._board, said or screen.panel(STATUS).facts)
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
