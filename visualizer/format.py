"""Formats numbers, percentages, byte sizes, counts and dates for display."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

MAX_WORD_LENGTH = 16


def format_number(value: float, decimals: int = 4) -> str:
    """Format a number, such as 1,234.5678; use an exponent if it is very large or very small."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    is_plain = size == 0 or 0.5 * 10**-decimals <= size < 1e5
    digits = f"{size:,.{decimals}f}" if is_plain else f"{size:.2e}"
    return f"−{digits}" if value < 0 and digits.strip("0.") else digits


def format_two_decimals(value: float) -> str:
    """Format a number with two decimal places; numbers that round to 0 are shown as 0.00."""
    return format_number(0.0 if abs(value) < 0.005 else value, 2)


MAX_FORMATTED_PERCENT = 99.9999
"""Percentage at or above which a share is shown as 100%: the difference is a rounding error."""


def format_percentage(value: float) -> str:
    """Format a share (0 to 1) as a percentage, with one decimal place below 10%.

    Shares below 1 are not shown as 100%, unless the difference from 1 is a rounding error.
    """
    percent = 100 * value
    if 99.5 <= percent < MAX_FORMATTED_PERCENT:
        return f"{percent:.1f}%" if percent < 99.95 else "more than 99.9%"
    if percent == 0 or percent >= 10:
        return f"{percent:.0f}%"
    return f"{percent:.1f}%" if percent >= 0.1 else "less than 0.1%"


def format_size(count: float) -> str:
    """Format a byte count in bytes, KiB, MiB or GiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def format_count(count: int, name: str) -> str:
    """Format a count and its noun: 1 token, 1,024 tokens."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def shorten(word: str) -> str:
    """Truncate a word to `MAX_WORD_LENGTH` characters; a truncated word ends with an ellipsis."""
    return word if len(word) <= MAX_WORD_LENGTH else f"{word[: MAX_WORD_LENGTH - 1]}…"


_SYMBOL_OR_TOKEN = re.compile(r"<b>.*?</b>|\bW_([qkvo])\b", re.DOTALL)


def subscript_symbols(html: str) -> str:
    """Write symbols such as W_q with a subscript (HTML), except in bold text, such as tokens."""
    return _SYMBOL_OR_TOKEN.sub(
        lambda found: f"W<sub>{found[1]}</sub>" if found[1] else found[0], html
    )


# Not from `strftime` or `calendar`: Qt sets the C locale to that of the desktop, which may have
# other month names.
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
    """Format a date and time: 23 November 2026, 14:05."""
    return f"{format_date(when)}, {format_time(when)}"
