"""The state of a setting's control, and descriptions of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.settings import SETTINGS, Setting, SettingKind
from visualizer.attention.spec import BooleanMatrix, NumberMatrix

if TYPE_CHECKING:
    from visualizer.errors import Problem

MAX_LISTED_MASK_ROWS = 64


class SettingState(Struct, frozen=True):
    """A setting with its current value and validation problem."""

    setting: Setting
    value: object
    is_enabled: bool
    problem: Problem | None
    remedy_text: str = ""
    """Description of the remedy for the problem, or an empty string if there is none."""
    has_effect: bool = True
    """Whether the setting would have an effect if it were not locked."""


def describe_remedy(field: str, value: object, settings: tuple[Setting, ...] = SETTINGS) -> str:
    """Describe a remedy with the label of its setting."""
    setting = next(setting for setting in settings if setting.name == field)
    if setting.kind is SettingKind.OWN:
        return "Use random values generated from the seed"
    if isinstance(value, bool):
        return f"Turn “{setting.label}” {'on' if value else 'off'}"
    number = _format_number(value) if isinstance(value, int | float) else value
    words = dict(setting.choices).get(value, number)
    return f"Set “{setting.label}” to {words}"


def _format_number(value: float) -> str:
    """Format a number with all digits, because settings do not accept exponents."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.8f}".rstrip("0").rstrip(".")


def describe_custom_values(setting: Setting, value: Any) -> str:
    """Describe custom values by their shape or by their layers."""
    if not value:
        return setting.choices[0][1]
    if isinstance(value, NumberMatrix):
        return f"{value.rows:,} × {value.columns:,} given"
    return f"{', '.join(name for name, _ in value)} given"


def format_mask(own: BooleanMatrix | None) -> tuple[str, str]:
    """Return a mask as rows of 0s and 1s, or as an empty string if too large, and a placeholder."""
    if own is None or own.rows <= MAX_LISTED_MASK_ROWS:
        rows = own.to_array().astype(int).tolist() if own else []
        text = "\n".join(" ".join(map(str, row)) for row in rows)
        return text, "1 allows a pair, and 0 forbids it:\n1 0 0\n1 1 0\n1 1 1"
    size = f"{own.rows:,} × {own.columns:,}"
    return "", f"{size}: too large to edit here. Enter rows of 0s and 1s to replace it."
