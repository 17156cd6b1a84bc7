"""Shapes pane: the shapes of all tensors, and the split into heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.shapes.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.shapes.widget import ShapesPane


def connect(pane: ShapesPane, to: FeatureControllers) -> None:
    """Connect the choice of a stage to show."""
    pane.stageChosen.connect(to.show_stage)
    to.set_command_tooltips({pane.split_button: "shapes.toggle_split"})


PANE = PaneSpec(
    "Shapes",
    "Shapes",
    "Shapes of all tensors, and the division of the columns among the heads",
    "visualizer.features.shapes.widget:ShapesPane",
    connect,
    commands={"shapes.toggle_split": lambda pane: pane.drawing.toggle_split()},
    panel=PANEL,
)
