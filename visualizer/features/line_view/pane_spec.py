"""Lines pane: attention as lines between tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.line_view.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.line_view.widget import LinePane


def connect(pane: LinePane, to: FeatureControllers) -> None:
    """Connect the line options; hovering, pinning and moving are shared with the heatmaps."""
    from visualizer.features.line_view.controller import LineViewController

    controller = LineViewController(to.workspace, pane)
    pane.optionChosen.connect(controller.set_option)
    pane.view.cellHovered.connect(controller.hover_cell)
    pane.view.cellClicked.connect(controller.pin_cell)
    pane.view.tokenHovered.connect(controller.hover_token)
    pane.view.tokenClicked.connect(controller.pin_token)
    pane.view.moved.connect(to.move_cell_or_step)
    to.enable_heatmap_shortcuts(pane.view)
    heads = ("view.step_head 1", "view.step_head -1")
    to.add_command_menu(pane.view, heads, ("cell.unpin", "export.open"))


PANE = PaneSpec(
    "Lines",
    "Lines",
    "Lines from queries to keys; their width shows the weights",
    "visualizer.features.line_view.widget:LinePane",
    connect,
    is_open=True,
    is_painted_first=True,
    panel=PANEL,
)
