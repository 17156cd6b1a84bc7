"""The controllers that the panes, bars and commands of a window share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from visualizer.features.comparison_bar.controller import ComparisonController
from visualizer.features.lessons.controller import LessonController
from visualizer.features.logit_attribution.controller import LogitAttributionController
from visualizer.features.logit_attribution.presenter import ATTRIBUTION_PANEL
from visualizer.features.logit_lens.presenter import LENS_PANEL
from visualizer.features.mask_editor.controller import MaskEditController
from visualizer.features.model_chooser.controller import ModelChooserController
from visualizer.features.model_connection.controller import ModelConnectionController
from visualizer.features.model_generation.controller import ModelGenerationController
from visualizer.features.model_image.controller import ModelImageController
from visualizer.features.next_token.controller import HeadEditController
from visualizer.features.playback.controller import PlaybackController
from visualizer.features.setup.controller import SetupController
from visualizer.features.token_strip.controller import TokenSelectionController
from visualizer.features.view_bar.view_controller import ViewController
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_lookup import cell_at
from visualizer.heatmap.cell_selection_controller import CellSelectionController
from visualizer.heatmap.head_menu_controller import HeadContextMenuController
from visualizer.session.measurement_controller import HeadMeasurementController
from visualizer.session.model_question_controller import ModelQuestionController
from visualizer.widgets.commands import show_command_tooltip
from visualizer.widgets.context_menu import add_context_menu, open_context_menu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PySide6.QtCore import QPoint
    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMainWindow, QMenu, QWidget

    from visualizer.features.lessons.lesson import LessonState
    from visualizer.features.setup.bar_widget import SettingsBar
    from visualizer.heatmap.widget import BoardView
    from visualizer.session.workspace import Workspace
    from visualizer.widgets.head_measurement_control import MeasurementControl


class FeatureControllers:
    """Controllers shared by the panes; those used by only one pane are created with that pane.

    Parameters
    ----------
    lessons_menu : QMenu
        The menu that lists the lessons.
    settings_bar : SettingsBar
        The input text and the settings.
    actions : mapping
        The action of each command, keyed by command id.
    enable_heatmap_shortcuts : callable
        Enables the heatmaps' shortcuts and cell announcements in a widget.
    """

    copy_script: Callable[[], object]
    """Copies the code to the clipboard as a script."""

    def __init__(
        self,
        workspace: Workspace,
        window: QMainWindow,
        lessons: LessonState,
        lessons_menu: QMenu,
        board: BoardView,
        settings_bar: SettingsBar,
        actions: Mapping[str, QAction],
        enable_heatmap_shortcuts: Callable[[QWidget], object],
    ) -> None:
        self.workspace, self.board, self.settings_bar = workspace, board, settings_bar
        self.actions, self.enable_heatmap_shortcuts = actions, enable_heatmap_shortcuts
        self.model_chooser_controller = ModelChooserController(workspace, window)
        self.model_connection_controller = ModelConnectionController(workspace, window)
        self.playback_controller = PlaybackController(workspace, window)
        self.cell_selection_controller = CellSelectionController(workspace, window)
        self.token_selection_controller = TokenSelectionController(workspace, window)
        cells = self.cell_selection_controller
        self.mask_edit_controller = MaskEditController(workspace, cells, window)
        self.comparison_controller = ComparisonController(workspace, cells, window)
        self.head_edit_controller = HeadEditController(workspace, window)
        self.model_image_controller = ModelImageController(workspace, window)
        self.model_question_controller = ModelQuestionController(
            workspace, (LENS_PANEL, ATTRIBUTION_PANEL), window
        )
        self.head_measurement_controller = HeadMeasurementController(workspace, window)
        self.attribution_controller = LogitAttributionController(
            workspace, self.model_question_controller, window
        )
        self.model_generation_controller = ModelGenerationController(workspace, window)
        self.view_controller = ViewController(workspace, window)
        self.setup_controller = SetupController(workspace, window)
        self.head_menu_controller = HeadContextMenuController(
            workspace,
            self.view_controller.show_head_flow_of_layer,
            self.head_edit_controller.toggle_ablation,
            window,
        )
        self.lesson_controller = LessonController(workspace, lessons, lessons_menu, window)

    def connect_board(self) -> None:
        """Connect the heatmaps' signals for pointing, pinning, moving and zooming."""
        board, view = self.board, self.view_controller
        board.cellHovered.connect(self.cell_selection_controller.hover_cell)
        board.cellClicked.connect(self.cell_selection_controller.pin_cell)
        board.parameterHovered.connect(self.cell_selection_controller.hover_parameter)
        board.parameterClicked.connect(self.cell_selection_controller.pin_parameter)
        board.moved.connect(self.move_cell_or_step)
        board.leadingHovered.connect(view.select_hovered_text_or_layer)
        board.enlarged.connect(view.enlarge_stage_of_cell)
        board.headChosen.connect(view.bring_to_front)
        board.allHeadsRequested.connect(view.show_one_stage)
        board.stageFocused.connect(self.focus_stage)
        board.tokenChosen.connect(self.token_selection_controller.toggle_token)
        board.scrubbed.connect(self.playback_controller.seek_within_stage)
        board.zoomed.connect(view.zoom_at)
        board.dragged.connect(view.pan_by_cells)
        board.minimap.centred.connect(view.centre_on)
        self.token_selection_controller.matchReached.connect(board.scroll_to_cell)

    def connect_settings_bar(self) -> None:
        """Connect the signals of the settings bar."""
        bar, setup, workspace = self.settings_bar, self.setup_controller, self.workspace
        bar.textTyped.connect(workspace.set_text)
        bar.textTooLong.connect(setup.report_long_text)
        bar.partChosen.connect(setup.choose_attention_kind)
        bar.imageRequested.connect(self.model_image_controller.choose_image)
        bar.settingChosen.connect(setup.change_setting)
        bar.settled.connect(workspace.history.end_merged_edit)
        bar.remedyRequested.connect(setup.apply_remedy)
        bar.leadingStepped.connect(self.view_controller.step_text_or_layer)
        bar.captured.returnRequested.connect(partial(workspace.change_setting, "captured", None))
        self.set_command_tooltips(
            {bar.part: "model.show_next_part", bar.choose_image: "model_image.choose"}
        )

    def set_command_tooltips(self, buttons: Mapping[QWidget, str]) -> None:
        """Give each button (key) the tooltip of the equivalent command, whose id is the value."""
        for button, id_ in buttons.items():
            show_command_tooltip(button, self.actions[id_])

    def add_command_menu(self, widget: QWidget, *groups: Sequence[str]) -> None:
        """Give a widget a context menu with groups of commands, given by their ids."""
        add_context_menu(widget, *self.find_actions(groups))

    def open_command_menu(
        self, widget: QWidget, groups: Sequence[Sequence[str]], at: QPoint
    ) -> None:
        """Open a context menu with groups of commands, given by their ids."""
        open_context_menu(widget, self.find_actions(groups), at)

    def find_actions(self, groups: Sequence[Sequence[str]]) -> list[list[QAction]]:
        return [[self.actions[id_] for id_ in group] for group in groups]

    def connect_measurement(self, control: MeasurementControl) -> None:
        """Connect buttons that start and stop measuring the heads of a long text."""
        control.toggled.connect(self.head_measurement_controller.toggle_measurement)
        self.set_command_tooltips(
            dict.fromkeys((control.start, control.stop), "head_measurement.toggle")
        )

    def show_flow(self) -> None:
        """Show the flow board; it has a single run, so a comparison ends."""
        self.comparison_controller.end_comparison()
        self.view_controller.show_flow()

    def focus_stage(self, stage: str) -> None:
        """Enlarge a stage on the flow board; during playback, also go to it."""
        resolved = self.workspace.resolved_requested_view
        self.view_controller.focus_stage(stage)
        if resolved and resolved.place:
            self.playback_controller.seek_stage(stage)

    def show_stage(self, stage: str) -> None:
        """Scroll a stage into view, showing its panels if needed; enlarge it on the flow board."""
        resolved = self.workspace.resolved_requested_view
        if resolved and resolved.flow:
            self.focus_stage(stage)
            return
        if resolved and stage not in resolved.stages:
            self.workspace.toggle_stage(stage)
        panels = self.workspace.screen.panel(BOARD_CONTENTS).board.heatmaps
        panel = next((panel for panel in panels if panel.stage == stage), None)
        if panel:
            row, column = panel.rows.visible_range[0], panel.columns.visible_range[0]
            self.board.scroll_to_cell(cell_at(panel, row, column))

    def move_cell_or_step(self, down: int, right: int) -> None:
        """Move the pinned cell or, if no cell is pinned, go to another playback step."""
        resolved = self.workspace.screen.resolved
        if not (resolved and resolved.described_step_cell) or resolved.reached_pinned_cell:
            self.cell_selection_controller.move_pinned_cell(down, right)
        elif right:
            self.playback_controller.step_by(right)
        else:
            self.playback_controller.skip_stages(down)
