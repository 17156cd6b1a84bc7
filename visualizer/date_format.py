"""Formatting of dates and times for display, always in English."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

# Not `strftime` or `calendar`: Qt sets the C locale to the desktop's, with other month names.
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip


def format_date(when: datetime) -> str:
    """Format a date: 23 November 2026."""
    return f"{when.day} {MONTHS[when.month - 1]} {when.year}"


def format_time(when: datetime) -> str:
    """Format a time of day: 14:05."""
    return f"{when.hour:02}:{when.minute:02}"


def format_date_and_time(when: datetime) -> str:
    """Format a date with its time: 23 November 2026, 14:05."""
    return f"{format_date(when)}, {format_time(when)}"
