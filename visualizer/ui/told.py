"""What is told of a step, as it is written in the bar of playback and under a film."""

from __future__ import annotations

from html import escape, unescape
from re import sub
from typing import TYPE_CHECKING

from PySide6.QtGui import QFont, QFontMetricsF

from visualizer.ui.theme import font

if TYPE_CHECKING:
    from visualizer.state.playback.equation import Equation
    from visualizer.state.playback.transport import Transport
    from visualizer.ui.theme import Theme

SIZES = (20, 18, 16, 14)


def count_of(transport: Transport) -> str:
    """Say which step it is, of how many."""
    if transport.position >= transport.count:
        return f"{transport.count:,} steps"
    return f"{transport.position + 1:,} of {transport.count:,}"


def written(equation: Equation | None, theme: Theme) -> str:
    """Write a calculation, the numbers that were read in the accent."""
    if equation is None:
        return ""
    parts = "".join(
        f"<span style='color:{theme.accent}'>{escape(part.text)}</span>"
        if part.is_lit
        else escape(part.text)
        for part in equation.parts
    )
    left = f"<span style='color:{theme.quiet}'>{escape(equation.left)} = </span>{parts}"
    return f"{left} = <b>{escape(equation.result)}</b>" if equation.result else left


def fitting(html: str, room: float) -> tuple[int, bool]:
    """Choose the largest size at which a line fits, and say whether it has to be broken."""
    plain = unescape(sub("<[^>]*>", "", html))
    for size in SIZES:
        if QFontMetricsF(font(size, QFont.Weight.DemiBold)).horizontalAdvance(plain) <= room:
            return size, False
    return SIZES[-1], True
