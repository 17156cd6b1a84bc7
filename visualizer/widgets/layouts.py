"""Box layouts with margins and spacing."""

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
    """Create a horizontal layout; omitted values are taken from the style."""
    return _apply_spacing(QHBoxLayout(parent) if parent else QHBoxLayout(), margins, spacing)


def column_layout(
    parent: QWidget | None = None, margins: Margins | None = None, spacing: int | None = None
) -> QVBoxLayout:
    """Create a vertical layout; omitted values are taken from the style."""
    return _apply_spacing(QVBoxLayout(parent) if parent else QVBoxLayout(), margins, spacing)


def _apply_spacing(layout: AnyBox, margins: Margins | None, spacing: int | None) -> AnyBox:
    if margins is not None:
        layout.setContentsMargins(*margins)
    if spacing is not None:
        layout.setSpacing(spacing)
    return layout
