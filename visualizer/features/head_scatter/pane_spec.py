"""Scatter pane: a scatter plot of all heads by two measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.head_scatter.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.head_scatter.widget import HeadScatterPane


def connect(pane: HeadScatterPane, to: FeatureControllers) -> None:
    """Connect the choice of the measures and of a head."""
    pane.measuresChosen.connect(to.view_controller.set_scatter_axes)
    pane.headChosen.connect(to.view_controller.show_head_of_layer)
    pane.plot.headMenuRequested.connect(to.head_menu_controller.open_menu)
    to.connect_measurement(pane.measuring)


PANE = PaneSpec(
    "Scatter",
    "Scatter",
    "Scatter plot of all heads by two measures",
    "visualizer.features.head_scatter.widget:HeadScatterPane",
    connect,
    panel=PANEL,
)
