"""Changes which token the Attribution pane asks about, and has heads switched off one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from visualizer.features.logit_attribution.presenter import ATTRIBUTION, ablation_question
from visualizer.session.model_pane_options import AttributionOptions

if TYPE_CHECKING:
    from visualizer.session.model_question_controller import ModelQuestionController
    from visualizer.session.workspace import Workspace


class AttributionController(QObject):
    """Asks what each head does for a token."""

    def __init__(
        self, workspace: Workspace, questions: ModelQuestionController, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._workspace, self._questions = workspace, questions

    def choose_token(self, token: str) -> None:
        """Ask about another token; empty for the likeliest."""
        self._workspace.look(attribution=AttributionOptions(token))

    def toggle_ablations(self) -> None:
        """Switch off each head in turn, or stop that."""
        token = self._workspace.view.attribution.token
        question = ablation_question(self._workspace.run, token)
        if question and self._workspace.screen.panel(ATTRIBUTION).is_ablating:
            self._questions.give_up(question)
        elif question:
            self._questions.want(question)
