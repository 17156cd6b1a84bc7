"""Heads pane: measures of all heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.head_table.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.head_table.widget import HeadTablePane


def connect(pane: HeadTablePane, to: FeatureControllers) -> None:
    """Connect the choice of a head, and the measurement of the heads of a long text."""
    pane.headChosen.connect(to.view_controller.solo_head_of_layer)
    pane.view.headMenuRequested.connect(to.head_menu_controller.open_menu)
    to.connect_measurement(pane.measuring)


PANE = PaneSpec(
    "Heads",
    "Heads",
    "Measures of all heads, for comparing and sorting",
    "visualizer.features.head_table.widget:HeadTablePane",
    connect,
    is_open=True,
    panel=PANEL,
)
