"""Code pane: the computation as code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.code.presenter import PANEL
from visualizer.session.pane import Area, Pane

if TYPE_CHECKING:
    from visualizer.features.code.widget import CodePane
    from visualizer.features.controllers import FeatureControllers


def connect(pane: CodePane, to: FeatureControllers) -> None:
    """Connect the notation of the code and copying it as a script."""
    pane.dialectChosen.connect(to.view_controller.set_dialect)
    pane.scriptRequested.connect(to.copy_script)
    action = to.actions["export.copy_script"]
    pane.copy.setEnabled(action.isEnabled())
    action.enabledChanged.connect(pane.copy.setEnabled)
    to.name_widgets({pane.copy: "export.copy_script"})


PANE = Pane(
    "Code",
    "Code",
    "The same computation as code",
    "visualizer.features.code.widget:CodePane",
    connect,
    "F4",
    Area.RIGHT,
    height=280,
    is_made_at_once=True,
    panel=PANEL,
)
