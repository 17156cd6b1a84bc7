"""Controller of the Attribution pane: the choice of the token, and the ablation of each head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from visualizer.features.logit_attribution.presenter import ATTRIBUTION_PANEL, ablation_question
from visualizer.session.model_pane_options import AttributionOptions

if TYPE_CHECKING:
    from visualizer.session.model_question_controller import ModelQuestionController
    from visualizer.session.workspace import Workspace


class LogitAttributionController(QObject):
    """Controller that requests logit attribution and head ablation for a token."""

    def __init__(
        self, workspace: Workspace, questions: ModelQuestionController, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._workspace, self._questions = workspace, questions

    def choose_token(self, token: str) -> None:
        """Attribute the logit of a token; an empty string stands for the most likely token."""
        self._workspace.change_view(attribution=AttributionOptions(token))

    def toggle_ablations(self) -> None:
        """Start or stop ablating each head in turn."""
        token = self._workspace.view.attribution.token
        question = ablation_question(self._workspace.run, token)
        if question and self._workspace.screen.panel(ATTRIBUTION_PANEL).is_ablating:
            self._questions.stop_question(question)
        elif question:
            self._questions.request_result(question)
