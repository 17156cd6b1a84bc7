"""Layers pane: all heads of all layers, in place of the heatmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.layer_overview.presenter import PANEL
from visualizer.session.pane_spec import PaneArea, PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.layer_overview.widget import LayerOverviewPane
    from visualizer.session.screen import Screen


def connect(pane: LayerOverviewPane, to: FeatureControllers) -> None:
    """Connect the choice of an order, of a head to open, and of heads to ablate."""
    pane.orderChosen.connect(to.view_controller.set_head_order)
    pane.headChosen.connect(to.view_controller.show_head_flow_of_layer)
    pane.headAblationToggled.connect(to.head_edit_controller.toggle_ablation)
    pane.headMenuRequested.connect(to.head_menu_controller.open_menu)
    pane.firstHeadsAblated.connect(to.head_edit_controller.ablate_heads)


def find_subject(screen: Screen) -> str:
    """Return the name of the model or of the source of several layers, or "" if there is none."""
    resolved = screen.resolved
    if resolved is None:
        return ""
    if resolved.model_of_run:
        return resolved.model_of_run.folder
    return (resolved.run.source_display_name or "attention") * (
        resolved.run.trace.axis_size("layer") > 1
    )


PANE = PaneSpec(
    "Layers",
    "Layers",
    "All heads of all layers as small heatmaps",
    "visualizer.features.layer_overview.widget:LayerOverviewPane",
    connect,
    area=PaneArea.CENTRE,
    subject=find_subject,
    opened_by=("head_edit.sort_by_change",),
    panel=PANEL,
)
