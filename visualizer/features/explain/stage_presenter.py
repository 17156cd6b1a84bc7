"""Presenter of the Explain pane while no cell is explained: how the stage in focus is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.brief_repr import brief_repr
from visualizer.explanations.explain import describe_step
from visualizer.features.explain.presenter import EXPLAIN_PANE, plain_text
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId
from visualizer.session.timeline import Step

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.session.resolved_view import ResolvedView


class StageExplanation(Struct, frozen=True):
    """The explanation of a stage.

    Parameters
    ----------
    heading : str
        The title of the stage and the layer of a model; empty if no stage is explained.
    sentence : str
        The computation in one sentence with the tokens in bold (HTML).
    """

    heading: str = ""
    sentence: str = ""
    made_of: Hashable = None

    __repr__ = brief_repr

    @property
    def plain_text(self) -> str:
        """The sentence without markup, for screen readers."""
        return plain_text(self.sentence)


EMPTY_STAGE = StageExplanation()
STAGE_PANEL: PanelId[StageExplanation] = PanelId("Stage")


def present_stage_explanation(
    resolved: ResolvedView, previous: StageExplanation
) -> StageExplanation:
    """Explain the stage in focus on the flow board, except during a prediction."""
    run, leading, flow = resolved.run, resolved.leading, resolved.flow
    if flow is None or resolved.prediction:
        return EMPTY_STAGE
    name = flow.stages[flow.focus]
    made_of = run, leading, name, flow.head
    if previous.made_of == made_of:
        return previous
    rows, columns = run.trace.shape(name)[-2:]
    sentence = describe_step(run, leading, Step(name, range(rows), range(columns)), flow.head)
    title = run.trace.stage_in_layer(name, leading).title
    has_layers = run.trace.axis_size("layer") > 1
    heading = f"{title} · layer {resolved.layer_number + 1}" if has_layers else title
    return StageExplanation(heading, sentence, made_of)


PANEL = PanelSpec(
    STAGE_PANEL,
    lambda resolved, inputs, previous: present_stage_explanation(resolved, previous),
    EMPTY_STAGE,
    EXPLAIN_PANE,
    prefetch=lambda resolved, made, previous: present_stage_explanation(resolved, previous),
)
