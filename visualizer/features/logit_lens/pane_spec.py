"""Lens pane: the next tokens that each layer predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.logit_lens.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.logit_lens.widget import LogitLensPane


def connect(pane: LogitLensPane, to: FeatureControllers) -> None:
    """Connect the choice of a layer and token, and the confirmation of long computations."""
    pane.placeChosen.connect(to.view_controller.show_token_of_layer)
    pane.costlyAnswerRequested.connect(to.model_question_controller.request_result)


PANE = PaneSpec(
    "Lens",
    "Lens",
    "Logit lens: next-token predictions of each layer at every token",
    "visualizer.features.logit_lens.widget:LogitLensPane",
    connect,
    panel=PANEL,
)
