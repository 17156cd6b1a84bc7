"""What readers of the screen are told of widgets that draw themselves: role, value, changes.

Names and descriptions are the widgets' own (`setAccessibleName`). Qt knows neither the role of a
widget that we draw, which is its class's `ACCESSIBLE_ROLE`, nor a value other than a number.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QAccessibleWidget, QWidget

if TYPE_CHECKING:
    from PySide6.QtCore import QObject

Politeness = QAccessible.AnnouncementPoliteness

VALUE = "value told"


class AccessibleWidget(QAccessibleWidget):
    """A widget with the role of its class and the value that it was given."""

    def text(self, kind: QAccessible.Text) -> str:
        if kind is QAccessible.Text.Value:
            return str(self.widget().property(VALUE) or "")
        return super().text(kind)


def _told(name: str, thing: QObject) -> AccessibleWidget | None:
    """Give the interface of a widget whose class has an `ACCESSIBLE_ROLE`."""
    role = getattr(thing, "ACCESSIBLE_ROLE", None)
    return (
        AccessibleWidget(thing, role) if role is not None and isinstance(thing, QWidget) else None
    )


@cache  # Qt would ask as often as it was told to
def install() -> None:
    """Have Qt ask here first what a widget is."""
    QAccessible.installFactory(_told)


def set_accessible_value(widget: QWidget, value: str) -> None:
    """Give a widget the value that readers of the screen are told when they come to it."""
    widget.setProperty(VALUE, value)


def announce(widget: QWidget, sentence: str, politeness: Politeness) -> None:
    """Have readers of the screen say a sentence: instead of what they say, or after it."""
    event = QAccessibleAnnouncementEvent(widget, sentence)
    event.setPoliteness(politeness)
    QAccessible.updateAccessibility(event)
