"""Finds panels whose images belong to another run than the one that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.heatmap.board import Heatmap


def stale_panels(hand: Hand) -> list[Heatmap]:
    resolved, panels = hand.window.workspace.screen.resolved, hand.shown.heatmaps
    if resolved is None:
        return []
    held = {id(resolved.run.trace.displayed_tensor(panel.stage)) for panel in panels}
    return [panel for panel in panels if id(panel.key[1]) not in held]  # type: ignore[index]
