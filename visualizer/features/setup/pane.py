"""Setup pane: the text and the settings of the module."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from visualizer.session.pane import Area, Pane

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.setup.widget import SetupPane


def connect(pane: SetupPane, to: FeatureControllers) -> None:
    """Add the strip of tokens, and connect changes to the document's text and settings."""
    pane.add_section(to.token_pane)
    pane.textTyped.connect(to.workspace.set_text)
    pane.textTooLong.connect(to.setup.report_long_text)
    pane.secondTyped.connect(partial(to.workspace.set_text, name="second"))
    pane.secondTooLong.connect(partial(to.setup.report_long_text, name="second"))
    pane.partChosen.connect(to.setup.choose_part)
    pane.imageRequested.connect(to.model_image_controller.choose)
    pane.chosen.connect(to.setup.change_setting)
    pane.settled.connect(to.workspace.history.seal)
    pane.remedyRequested.connect(to.setup.apply_remedy)
    pane.leadingStepped.connect(to.view_controller.step_leading)
    pane.captured.left.connect(partial(to.workspace.set, "captured", None))
    causal = pane.rows["causal"].control
    to.name_widgets({causal: "module.toggle_causal_mask", pane.more_button: "module.open_settings"})
    to.name_widgets({pane.part: "model.show_next_part", pane.choose_image: "model_image.choose"})


PANE = Pane(
    "Setup",
    "Setup",
    "The sentence and the settings of the module",
    "visualizer.features.setup.widget:SetupPane",
    connect,
    "F2",
    Area.LEFT,
    height=220,
    is_made_at_once=True,
    commands={
        "text.edit": lambda pane: pane.edit_sentence(),
        "text.edit_second": lambda pane: pane.edit_second(),
        "module.open_settings": lambda pane: pane.open_more(),
    },
)
