"""Cell pane: how the value of a cell is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.cell.presenter import PANEL
from visualizer.session.pane import Area, Pane

if TYPE_CHECKING:
    from visualizer.features.cell.widget import CellPane
    from visualizer.features.controllers import FeatureControllers


def connect(pane: CellPane, to: FeatureControllers) -> None:
    """Connect the links that pin their cells, and the buttons to go back and forward."""
    pane.followed.connect(to.cell_selection_controller.follow_link)
    pane.add_history_buttons(to.actions["cell.go -1"], to.actions["cell.go 1"])


PANE = Pane(
    "Cell",
    "Cell",
    "How the value of a cell is computed",
    "visualizer.features.cell.widget:CellPane",
    connect,
    "F3",
    Area.RIGHT,
    height=360,
    is_made_at_once=True,
    commands={"cell.copy": lambda pane: pane.copy()},
    panel=PANEL,
)
