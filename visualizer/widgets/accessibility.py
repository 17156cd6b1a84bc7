"""Accessible roles, values and announcements for custom-painted widgets.

Names and descriptions are set on the widgets themselves (`setAccessibleName`). Qt cannot infer the
role of a custom-painted widget, so its class sets `ACCESSIBLE_ROLE`. Qt supports only numeric
values, so text values are stored in a property.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QAccessibleWidget, QWidget

if TYPE_CHECKING:
    from PySide6.QtCore import QObject

Politeness = QAccessible.AnnouncementPoliteness

VALUE_PROPERTY = "accessible value"


class AccessibleWidget(QAccessibleWidget):
    """Accessible interface with the role that the widget's class defines, and a text value."""

    def text(self, kind: QAccessible.Text) -> str:
        if kind is QAccessible.Text.Value:
            return str(self.widget().property(VALUE_PROPERTY) or "")
        return super().text(kind)


def _create_accessible_interface(name: str, thing: QObject) -> AccessibleWidget | None:
    """Return an interface for a widget whose class defines `ACCESSIBLE_ROLE`, or None."""
    role = getattr(thing, "ACCESSIBLE_ROLE", None)
    return (
        AccessibleWidget(thing, role) if role is not None and isinstance(thing, QWidget) else None
    )


@cache  # only once, because Qt calls every installed factory
def install_accessible_interface() -> None:
    """Register the accessible interface factory with Qt."""
    QAccessible.installFactory(_create_accessible_interface)


def set_accessible_value(widget: QWidget, value: str) -> None:
    """Set the value that screen readers announce for a widget."""
    widget.setProperty(VALUE_PROPERTY, value)


def announce(widget: QWidget, sentence: str, politeness: Politeness) -> None:
    """Make screen readers announce a sentence, either immediately or after the current sentence."""
    event = QAccessibleAnnouncementEvent(widget, sentence)
    event.setPoliteness(politeness)
    QAccessible.updateAccessibility(event)
