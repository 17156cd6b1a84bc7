"""Layers pane: all heads of all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.layer_overview.presenter import PANEL
from visualizer.session.pane import Area, Pane

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.layer_overview.widget import LayerOverviewPane


def connect(pane: LayerOverviewPane, to: FeatureControllers) -> None:
    """Connect the head order and showing a head in the heatmaps."""
    pane.orderChosen.connect(to.view_controller.set_head_order)
    pane.headChosen.connect(to.view_controller.show_head_of_layer)
    pane.headAblationToggled.connect(to.head_edit_controller.toggle_ablation)
    pane.firstHeadsAblated.connect(to.head_edit_controller.ablate_heads)


PANE = Pane(
    "Layers",
    "Layers",
    "All heads of all layers as small heatmaps",
    "visualizer.features.layer_overview.widget:LayerOverviewPane",
    connect,
    "Shift+F8",
    Area.RIGHT,
    opens_for_model=True,
    opened_by=("head_edit.sort_by_change",),
    panel=PANEL,
)
