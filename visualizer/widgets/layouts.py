"""Layouts with their margins and spacing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QVBoxLayout

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

Margins = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels."""
AnyBox = TypeVar("AnyBox", bound=QBoxLayout)


def row_layout(
    parent: QWidget | None = None, margins: Margins | None = None, spacing: int | None = None
) -> QHBoxLayout:
    """Make a horizontal layout; what is left out is the style's."""
    return _spaced(QHBoxLayout(parent) if parent else QHBoxLayout(), margins, spacing)


def column_layout(
    parent: QWidget | None = None, margins: Margins | None = None, spacing: int | None = None
) -> QVBoxLayout:
    """Make a vertical layout; what is left out is the style's."""
    return _spaced(QVBoxLayout(parent) if parent else QVBoxLayout(), margins, spacing)


def _spaced(layout: AnyBox, margins: Margins | None, spacing: int | None) -> AnyBox:
    if margins is not None:
        layout.setContentsMargins(*margins)
    if spacing is not None:
        layout.setSpacing(spacing)
    return layout
