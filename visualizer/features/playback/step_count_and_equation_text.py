"""Text of the step counter, and equations with coloured operands as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.explanations.explain import Equation
    from visualizer.features.playback.presenter import PlaybackBarState
    from visualizer.widgets.theme import Theme


def count_of(bar: PlaybackBarState) -> str:
    """Format the number of the current step and the total."""
    if bar.position >= bar.count:
        return f"{bar.count:,} steps"
    return f"{bar.position + 1:,} of {bar.count:,}"


def written(equation: Equation | None, theme: Theme) -> str:
    """Format an equation as HTML with its operands in the accent colour."""
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
