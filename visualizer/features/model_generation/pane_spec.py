"""Continue pane: generated text of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.model_generation.widget import ModelGenerationPane


def connect(pane: ModelGenerationPane, to: FeatureControllers) -> None:
    """Connect the controls for generating text, for stepping and for branches."""
    controller = to.model_generation_controller

    def show() -> None:
        pane.show_panel(controller.panel)

    controller.changed.connect(show)
    generation = pane.generation
    controller.connect_panes(pane.next, generation)
    pane.stepsChosen.connect(controller.set_steps)
    pane.stepChosen.connect(controller.go_to_step)
    pane.useRequested.connect(controller.use_as_document_text)
    pane.restartRequested.connect(controller.discard_generated_tokens)
    to.set_command_tooltips(
        {
            generation.run_button: "model_generation.toggle",
            generation.sample_button: "model_generation.sample",
            generation.back_button: "model_generation.step_back",
            generation.forward_button: "model_generation.step_forward",
            generation.next_branch_button: "model_generation.switch_branch",
            pane.use: "model_generation.use_as_text",
            pane.restart_button: "model_generation.start_again",
        }
    )
    show()


PANE = PaneSpec(
    "Continue",
    "Continue",
    "Generate text with the model, token by token",
    "visualizer.features.model_generation.widget:ModelGenerationPane",
    connect,
    opened_by=("model_generation.toggle", "model_generation.sample"),
)
