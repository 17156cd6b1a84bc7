"""Reads what a screen reader is told about a widget, through Qt's accessibility interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAccessible

from visualizer.widgets.accessibility import install_accessible_interface

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget


@dataclass(frozen=True, slots=True)
class Heard:
    role: QAccessible.Role
    name: str
    value: str
    description: str


def heard(widget: QWidget) -> Heard:
    install_accessible_interface()  # as every window does
    told = QAccessible.queryAccessibleInterface(widget)
    kinds = (QAccessible.Text.Name, QAccessible.Text.Value, QAccessible.Text.Description)
    return Heard(told.role(), *(told.text(kind) for kind in kinds))
