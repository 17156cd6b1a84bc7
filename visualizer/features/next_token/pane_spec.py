"""Next token pane: predictions and head edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.next_token.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.next_token.widget import NextTokenPane


def connect(pane: NextTokenPane, to: FeatureControllers) -> None:
    """Connect the controls that edit the shown heads."""
    pane.kindChosen.connect(to.head_edit_controller.set_edit_kind)
    pane.factorTyped.connect(to.head_edit_controller.set_scale_factor)
    pane.sourceTyped.connect(to.head_edit_controller.set_source_text)
    pane.settled.connect(to.workspace.history.end_merged_edit)
    pane.restoreAllRequested.connect(to.head_edit_controller.remove_all_edits)
    to.set_command_tooltips({pane.restore_all_button: "head_edit.restore_all"})


EDITS = ("head_edit.set_mean", "head_edit.scale", "head_edit.patch")
"""Commands that edit the shown heads and then move the focus to the field for the value."""
PANE = PaneSpec(
    "Next token",
    "Next token",
    "Next-token predictions and head edits",
    "visualizer.features.next_token.widget:NextTokenPane",
    connect,
    opens_for_model=True,
    opened_by=EDITS,
    commands=dict.fromkeys(EDITS, lambda pane: pane.focus_value_field()),
    panel=PANEL,
)
