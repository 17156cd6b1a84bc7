"""Connects the signals of each pane; one function per pane, named in the pane table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtWidgets import QWidget

    from visualizer.export.export_controller import ExportController
    from visualizer.features.cell.widget import CellPane
    from visualizer.features.code.widget import CodePane
    from visualizer.features.head_scatter.widget import HeadScatterPane
    from visualizer.features.head_table.widget import HeadTablePane
    from visualizer.features.layer_overview.widget import LayerOverviewPane
    from visualizer.features.lessons.controller import LessonController
    from visualizer.features.lessons.widget import LessonPane
    from visualizer.features.line_view.widget import LinePane
    from visualizer.features.logit_attribution.controller import AttributionController
    from visualizer.features.logit_attribution.widget import AttributionPane
    from visualizer.features.logit_lens.widget import LensPane
    from visualizer.features.model_generation.controller import ModelGenerationController
    from visualizer.features.model_generation.widget import ModelGenerationPane
    from visualizer.features.model_image.controller import ModelImageController
    from visualizer.features.next_token.controller import HeadEditController
    from visualizer.features.next_token.widget import NextTokenPane
    from visualizer.features.setup.controller import SetupController
    from visualizer.features.setup.widget import SetupPane
    from visualizer.features.shapes.widget import ShapesPane
    from visualizer.features.tensor_editor.widget import NumberTablePane
    from visualizer.features.view_bar.colours_widget import ColoursPane
    from visualizer.features.view_bar.view_controller import ViewController
    from visualizer.heatmap.cell_selection_controller import CellSelectionController
    from visualizer.session.measurement_controller import HeadMeasurementController
    from visualizer.session.model_question_controller import ModelQuestionController
    from visualizer.session.workspace import Workspace
    from visualizer.widgets.buttons import LongWorkWidget


class PaneControllers(Struct, frozen=True, eq=False):
    """Controllers shared by the panes; those of a single pane are created when it is connected.

    Parameters
    ----------
    show_stage : callable
        Scrolls a stage into view, by its name.
    walk : callable
        Moves by a number of cells down and to the right.
    name_keys : callable
        Gives buttons the tool tips of equivalent commands, by command id.
    read_in : callable
        Enables the heatmaps' shortcuts and cell announcements in a widget.
    """

    workspace: Workspace
    setup: SetupController
    cell_selection_controller: CellSelectionController
    view_controller: ViewController
    lesson_controller: LessonController
    export_controller: ExportController
    head_edit_controller: HeadEditController
    model_image_controller: ModelImageController
    model_question_controller: ModelQuestionController
    head_measurement_controller: HeadMeasurementController
    attribution_controller: AttributionController
    model_generation_controller: ModelGenerationController
    show_stage: Callable[[str], object]
    walk: Callable[[int, int], object]
    name_keys: Callable[[Mapping[QWidget, str]], object]
    read_in: Callable[[QWidget], object]


def connect_lesson(pane: LessonPane, to: PaneControllers) -> None:
    """Connect page navigation of the current lesson."""
    pane.stepped.connect(to.lesson_controller.step)
    pane.returned.connect(to.lesson_controller.restore_page)
    pane.closed.connect(to.lesson_controller.close)
    to.name_keys(
        {
            pane.close_button: "lesson.close",
            pane.return_button: "lesson.restore_page",
            pane.back_button: "lesson.step -1",
            pane.next_button: "lesson.step 1",
        }
    )


def connect_setup(pane: SetupPane, to: PaneControllers) -> None:
    """Connect changes to the document's text and settings."""
    pane.textTyped.connect(to.workspace.set_text)
    pane.textTooLong.connect(to.workspace.refuse_text)
    pane.secondTyped.connect(partial(to.workspace.set_text, name="second"))
    pane.secondTooLong.connect(partial(to.workspace.refuse_text, name="second"))
    pane.partChosen.connect(to.setup.choose_part)
    pane.imageWanted.connect(to.model_image_controller.choose)
    pane.chosen.connect(to.setup.choose)
    pane.settled.connect(to.workspace.seal)
    pane.remedied.connect(to.setup.remedy)
    pane.leadingStepped.connect(to.view_controller.step_leading)
    pane.captured.left.connect(to.workspace.leave_captured)
    causal = pane.rows["causal"].control
    to.name_keys({causal: "module.toggle_causal_mask", pane.more_button: "module.open_settings"})
    to.name_keys({pane.part: "model.show_next_part", pane.choose_image: "model_image.choose"})


def connect_lines(pane: LinePane, to: PaneControllers) -> None:
    """Connect the line options; hovering, pinning and moving are shared with the heatmaps."""
    from visualizer.features.line_view.controller import LineViewController

    liner = LineViewController(to.workspace, pane)
    pane.chosen.connect(liner.choose)
    pane.view.cellHovered.connect(liner.hover)
    pane.view.cellClicked.connect(liner.pin)
    pane.view.tokenHovered.connect(liner.point)
    pane.view.tokenClicked.connect(liner.hold)
    pane.view.walked.connect(to.walk)
    to.read_in(pane.view)


def connect_cell(pane: CellPane, to: PaneControllers) -> None:
    """Connect links to pinning their cell."""
    pane.followed.connect(to.cell_selection_controller.follow)


def connect_code(pane: CodePane, to: PaneControllers) -> None:
    """Connect the notation of the code and copying it as a script."""
    pane.dialectChosen.connect(to.view_controller.set_dialect)
    pane.scriptWanted.connect(to.export_controller.copy_script)
    to.name_keys({pane.copy: "export.copy_script"})


def connect_colours(pane: ColoursPane, to: PaneControllers) -> None:
    """Connect the colour options."""
    pane.lensChosen.connect(to.view_controller.set_weight_transform)
    pane.curveChosen.connect(to.view_controller.set_curve)
    pane.limitsChosen.connect(to.view_controller.set_limits)
    pane.mapChosen.connect(to.view_controller.set_map)
    pane.endsTyped.connect(to.view_controller.type_limits)


def connect_numbers(pane: NumberTablePane, to: PaneControllers) -> None:
    """Connect viewing and editing the numbers of one tensor."""
    from visualizer.features.tensor_editor.controller import TensorEditController

    typist = TensorEditController(to.workspace, pane)
    pane.tensorChosen.connect(typist.choose)
    pane.headChosen.connect(typist.choose_head)
    pane.cellPinned.connect(typist.pin)
    pane.numberTyped.connect(typist.type)
    pane.numbersPasted.connect(typist.paste)
    pane.copyWanted.connect(typist.copy)
    pane.drawnAgain.connect(typist.draw_again)


def connect_shapes(pane: ShapesPane, to: PaneControllers) -> None:
    """Connect showing the selected stage."""
    pane.stageChosen.connect(to.show_stage)
    to.name_keys({pane.turn: "shapes.toggle_split"})


def connect_heads(pane: HeadTablePane, to: PaneControllers) -> None:
    """Connect showing one head only and measuring the heads of a long text."""
    pane.headChosen.connect(to.view_controller.solo_head_of_layer)
    _connect_measurement(pane.measuring, to)


def connect_layers(pane: LayerOverviewPane, to: PaneControllers) -> None:
    """Connect the head order and showing a head in the heatmaps."""
    pane.orderChosen.connect(to.view_controller.set_head_order)
    pane.headChosen.connect(to.view_controller.show_head_of_layer)
    pane.headSwitched.connect(to.head_edit_controller.switch)
    pane.firstSwitchedOff.connect(to.head_edit_controller.switch_off)


def connect_next_token(pane: NextTokenPane, to: PaneControllers) -> None:
    """Connect editing the shown heads."""
    pane.kindChosen.connect(to.head_edit_controller.set_kind)
    pane.factorTyped.connect(to.head_edit_controller.set_factor)
    pane.sourceTyped.connect(to.head_edit_controller.set_source)
    pane.settled.connect(to.head_edit_controller.settle)
    pane.allOn.connect(to.head_edit_controller.restore_all)
    to.name_keys({pane.all_on: "head_edit.restore_all"})


def connect_lens(pane: LensPane, to: PaneControllers) -> None:
    """Connect showing a layer and token in the heatmaps, and long computations."""
    pane.placeChosen.connect(to.view_controller.show_token_of_layer)
    pane.costlyWanted.connect(to.model_question_controller.want)


def connect_attribution(pane: AttributionPane, to: PaneControllers) -> None:
    """Connect the token choice, ablations and showing a head in the heatmaps."""
    pane.tokenChosen.connect(to.attribution_controller.choose_token)
    pane.headChosen.connect(to.view_controller.show_head_of_model)
    pane.ablationWanted.connect(to.model_question_controller.want)
    pane.ablationCancelled.connect(to.model_question_controller.give_up)
    to.name_keys(dict.fromkeys((pane.ablate, pane.cancel), "attribution.toggle_ablations"))


def connect_scatter(pane: HeadScatterPane, to: PaneControllers) -> None:
    """Connect the choice of measures and showing a head in the heatmaps."""
    pane.measuresChosen.connect(to.view_controller.set_scatter)
    pane.headChosen.connect(to.view_controller.show_head_of_layer)
    _connect_measurement(pane.measuring, to)


def _connect_measurement(work: LongWorkWidget, to: PaneControllers) -> None:
    work.toggled.connect(to.head_measurement_controller.toggle)
    to.name_keys(dict.fromkeys((work.start, work.stop), "head_measurement.toggle"))


def connect_continue(pane: ModelGenerationPane, to: PaneControllers) -> None:
    """Connect generating text, stepping back and forward, and branches."""
    controller = to.model_generation_controller

    def show() -> None:
        pane.show_panel(controller.panel)

    controller.changed.connect(show)
    generation = pane.generation
    controller.connect_panes(pane.next, generation)
    pane.stepsChosen.connect(controller.set_steps)
    pane.stepChosen.connect(controller.go_to_step)
    pane.used.connect(controller.use_as_text)
    pane.startedAgain.connect(controller.start_again)
    to.name_keys(
        {
            generation.run: "model_generation.toggle",
            generation.sample: "model_generation.sample",
            generation.back: "model_generation.step_back",
            generation.on: "model_generation.step_forward",
            generation.turn: "model_generation.switch_branch",
            pane.use: "model_generation.use_as_text",
            pane.again: "model_generation.start_again",
        }
    )
    show()
