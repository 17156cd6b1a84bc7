"""Colours pane: colour maps, colour scale and range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.view_bar.colours_widget import ColoursPane


def connect(pane: ColoursPane, to: FeatureControllers) -> None:
    """Connect the colour options."""
    pane.weightTransformChosen.connect(to.view_controller.set_weight_transform)
    pane.curveChosen.connect(to.view_controller.set_colour_curve)
    pane.limitsChosen.connect(to.view_controller.set_colour_limits)
    pane.mapChosen.connect(to.view_controller.set_sequential_map)
    pane.limitsTyped.connect(to.view_controller.set_stage_limits)


PANE = PaneSpec(
    "Colours",
    "Colours",
    "Colour maps, scale and range",
    "visualizer.features.view_bar.colours_widget:ColoursPane",
    connect,
    is_open=True,
    opened_by=("view.set_limits typed",),
)
