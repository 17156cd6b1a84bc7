"""Explain pane: how the value of a cell is computed, and the code that computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.explain.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.explain.widget import ExplainPane


def connect(pane: ExplainPane, to: FeatureControllers) -> None:
    """Connect the links (which pin cells), the history buttons and the code."""
    pane.linkFollowed.connect(to.cell_selection_controller.follow_link)
    pane.add_history_buttons(to.actions["cell.go -1"], to.actions["cell.go 1"])
    pane.add_unpin_button(to.actions["cell.unpin"])
    of_cell = ("cell.copy", "cell.unpin", "cell.go -1", "cell.go 1")
    to.add_command_menu(pane, of_cell, ("export.copy_script",))
    code = pane.code_section
    code.dialectChosen.connect(to.view_controller.set_code_dialect)
    code.scriptRequested.connect(to.copy_script)
    action = to.actions["export.copy_script"]
    code.copy.setEnabled(action.isEnabled())
    action.enabledChanged.connect(code.copy.setEnabled)
    to.set_command_tooltips({code.copy: "export.copy_script"})


PANE = PaneSpec(
    "Explain",
    "Explain",
    "How the value of a cell is computed, and the code that computes it",
    "visualizer.features.explain.widget:ExplainPane",
    connect,
    is_open=True,
    is_created_with_window=True,
    commands={"cell.copy": lambda pane: pane.copy_explanation()},
    panel=PANEL,
)
