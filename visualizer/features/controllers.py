"""Controllers that the panes connect their signals to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QWidget

    from visualizer.features.lessons.controller import LessonController
    from visualizer.features.logit_attribution.controller import AttributionController
    from visualizer.features.model_generation.controller import ModelGenerationController
    from visualizer.features.model_image.controller import ModelImageController
    from visualizer.features.next_token.controller import HeadEditController
    from visualizer.features.setup.controller import SetupController
    from visualizer.features.token_strip.widget import TokenPane
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
    token_pane : TokenPane
        The strip of tokens, shown within the pane of the text.
    show_stage : callable
        Scrolls a stage into view, by its name.
    walk : callable
        Moves by a number of cells down and to the right.
    copy_script : callable
        Copies the computation as a script.
    name_keys : callable
        Gives buttons the tool tips of equivalent commands, by command id.
    actions : mapping
        The actions of the commands, by id.
    read_in : callable
        Enables the heatmaps' shortcuts and cell announcements in a widget.
    """

    workspace: Workspace
    setup: SetupController
    cell_selection_controller: CellSelectionController
    view_controller: ViewController
    lesson_controller: LessonController
    head_edit_controller: HeadEditController
    model_image_controller: ModelImageController
    model_question_controller: ModelQuestionController
    head_measurement_controller: HeadMeasurementController
    attribution_controller: AttributionController
    model_generation_controller: ModelGenerationController
    token_pane: TokenPane
    show_stage: Callable[[str], object]
    walk: Callable[[int, int], object]
    copy_script: Callable[[], object]
    name_keys: Callable[[Mapping[QWidget, str]], object]
    actions: Mapping[str, QAction]
    read_in: Callable[[QWidget], object]

    def connect_measurement(self, work: LongWorkWidget) -> None:
        """Connect buttons that start and stop measuring the heads of a long text."""
        work.toggled.connect(self.head_measurement_controller.toggle)
        self.name_keys(dict.fromkeys((work.start, work.stop), "head_measurement.toggle"))
