"""Attribution pane: direct logit attribution and head ablations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.logit_attribution.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.logit_attribution.widget import LogitAttributionPane


def connect(pane: LogitAttributionPane, to: FeatureControllers) -> None:
    """Connect the choice of a token and of a head, and the ablations."""
    pane.tokenChosen.connect(to.attribution_controller.choose_token)
    pane.headChosen.connect(to.view_controller.show_head_of_model)
    for button in (pane.ablate, pane.cancel):
        button.clicked.connect(to.attribution_controller.toggle_ablations)
    to.set_command_tooltips(
        dict.fromkeys((pane.ablate, pane.cancel), "attribution.toggle_ablations")
    )


PANE = PaneSpec(
    "Attribution",
    "Attribution",
    "Each head’s contribution to a logit, and the effect of ablating the head",
    "visualizer.features.logit_attribution.widget:LogitAttributionPane",
    connect,
    opened_by=("attribution.toggle_ablations",),
    panel=PANEL,
)
