"""Accessible roles, values and announcements of widgets that paint themselves.

Names and descriptions are the widgets' own (`setAccessibleName`). Qt knows neither the role of a
widget that paints itself, given by its class's `ACCESSIBLE_ROLE`, nor a value other than a number.
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
    """The accessible interface of a widget: its class's role, and the value that it was given."""

    def text(self, kind: QAccessible.Text) -> str:
        if kind is QAccessible.Text.Value:
            return str(self.widget().property(VALUE) or "")
        return super().text(kind)


def _told(name: str, thing: QObject) -> AccessibleWidget | None:
    """Return the interface of a widget whose class has an `ACCESSIBLE_ROLE`."""
    role = getattr(thing, "ACCESSIBLE_ROLE", None)
    return (
        AccessibleWidget(thing, role) if role is not None and isinstance(thing, QWidget) else None
    )


@cache  # once, as Qt would call every installed factory
def install() -> None:
    """Install the accessible interfaces in Qt."""
    QAccessible.installFactory(_told)


def set_accessible_value(widget: QWidget, value: str) -> None:
    """Set the value that screen readers announce for a widget."""
    widget.setProperty(VALUE, value)


def announce(widget: QWidget, sentence: str, politeness: Politeness) -> None:
    """Have screen readers announce a sentence, at once or after the present one."""
    event = QAccessibleAnnouncementEvent(widget, sentence)
    event.setPoliteness(politeness)
    QAccessible.updateAccessibility(event)
