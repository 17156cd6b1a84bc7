"""All controllers of a main window; each depends only on those that are created before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from visualizer.attention.spec import OWN_LAYERS
from visualizer.export.export_controller import ExportController
from visualizer.features.controllers import FeatureControllers
from visualizer.features.tensor_editor.presenter import NUMBER_TABLE_PANEL
from visualizer.heatmap.board_menu_controller import BoardContextMenuController, BoardMenuActions
from visualizer.session.view import TableSelection
from visualizer.shell.document_controller import DocumentController
from visualizer.shell.document_recovery import RecoveryPrompt
from visualizer.shell.pane_table import PANES
from visualizer.shell.presenter_mode import PresenterModeController
from visualizer.shell.recent_files_controller import RecentFilesController
from visualizer.shell.settings_controller import ReducedMotionController, SettingsController
from visualizer.shell.start_page_controller import StartPageController

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMainWindow, QMenu, QWidget

    from visualizer.features.lessons.lesson import LessonState
    from visualizer.features.setup.bar_widget import SettingsBar
    from visualizer.heatmap.widget import BoardView
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_controller import WindowOn
    from visualizer.shell.injected_services import WindowServices
    from visualizer.shell.pane_docks import PaneDocks, PaneFocusCycle

BOARD_COMMANDS = (
    ("view.show_flow", "view.show_all_panels", "view.show_one_stage"),
    ("view.zoom_in", "view.zoom_out", "view.reset_zoom"),
    ("module.toggle_causal_mask", "export.copy_picture", "export.open"),
)
"""Commands in the context menu of the board as a whole, in groups."""


class WindowControllers(FeatureControllers):
    """The controllers that the commands and signals of a main window call."""

    def __init__(
        self,
        workspace: Workspace,
        window: QMainWindow,
        program: WindowServices,
        lessons: LessonState,
        window_on: WindowOn,
        lessons_menu: QMenu,
        recent_menu: QMenu,
        actions: Mapping[str, QAction],
        board: BoardView,
        settings_bar: SettingsBar,
        docks: PaneDocks,
        focus_cycle: PaneFocusCycle,
        read_in: Callable[[QWidget], object],
        open_lab: Callable[[], object],
    ) -> None:
        self.document_controller = DocumentController(
            program, workspace, lessons, window, window_on
        )
        super().__init__(
            workspace, window, lessons, lessons_menu, board, settings_bar, actions, read_in
        )
        self.window, self.docks, self.focus_cycle = window, docks, focus_cycle
        self.open_lab = open_lab
        self.export_controller = ExportController(
            workspace, window, self.document_controller.figure_title
        )
        self.copy_script = self.export_controller.copy_script
        self.board_menu_controller = BoardContextMenuController(
            workspace, board, self._board_menu_actions()
        )
        board.layerChosen.connect(self._show_layer_weights)
        self.recovery_prompt = RecoveryPrompt(window)
        self.recent_files_controller = RecentFilesController(recent_menu, window)
        self.presenter_mode = PresenterModeController(
            workspace, window, docks, self.board, settings_bar, actions
        )
        self.reduced_motion_controller = ReducedMotionController(window)
        self.settings_controller = SettingsController(
            window,
            workspace,
            self.view_controller,
            self.setup_controller,
            self.document_controller,
            self.reduced_motion_controller,
            self.set_command_tooltips,
        )
        self.start_page = StartPageController(
            window,
            workspace,
            self.document_controller,
            self.lesson_controller,
            program.read_example,
            self.set_command_tooltips,
        )

    def _board_menu_actions(self) -> BoardMenuActions:
        view, cells = self.view_controller, self.cell_selection_controller
        return BoardMenuActions(
            cells.pin_cell,
            cells.toggle_prediction_mark,
            cells.follow_link,
            self.mask_edit_controller.is_pair_allowed,
            self.mask_edit_controller.toggle_pair,
            self._open_explanation_pane,
            self.export_controller.open_export_dialog,
            self.focus_stage,
            view.show_stage_of_all_heads,
            self.playback_controller.toggle_prediction,
            view.show_head_flow,
            view.show_only_head,
            view.show_one_stage,
            self.head_edit_controller.toggle_ablation,
            self.token_selection_controller.select_token,
            self.find_actions(BOARD_COMMANDS),
        )

    def _show_layer_weights(self, layer: str) -> None:
        """Show the weights of a layer of the module in the Numbers pane."""
        run = self.workspace.run
        name = next((own for own, one in OWN_LAYERS.items() if one == layer), "")
        if run and name in run.trace.spec.weight_names:
            head = self.workspace.requested_view.table.head
            self.workspace.change_view(table=TableSelection(name, head))
            self.docks.open_pane(NUMBER_TABLE_PANEL.name)

    def _open_explanation_pane(self) -> None:
        """Open the pane that explains the pinned cell."""
        self.docks.open_pane(next(pane.id for pane in PANES if "cell.copy" in pane.commands))

    def connect_controllers(
        self, show_message: Callable[[str], object], show_bug: Callable[[str], object]
    ) -> None:
        """Connect the controllers to each other, to the status bar and to the error report."""
        files, images, page = self.document_controller, self.model_image_controller, self.start_page
        autosave, exporter = files.autosave_controller, self.export_controller.exporter
        models = (self.model_chooser_controller, self.model_connection_controller)
        for speaker in (files, self.recovery_prompt, images, exporter):
            speaker.messageReported.connect(show_message)
        for part in (
            *(self.workspace, files, autosave, self.recovery_prompt, images, *models),
            *(self.export_controller, self.model_generation_controller),
        ):
            part.failed.connect(show_bug)
        for model in models:
            model.opened.connect(files.set_opened_model)
        self.workspace.modelRefused.connect(files.report_model_error)
        files.lessonLeft.connect(self.lesson_controller.close_lesson)
        autosave.found.connect(self.recovery_prompt.ask_to_recover)
        self.recovery_prompt.recovered.connect(files.open_recovered_document)
        files.settled.connect(self.recent_files_controller.add_to_recent_files)
        self.recent_files_controller.chosen.connect(files.open)
        files.modelRequested.connect(self.model_chooser_controller.open_folder)
        files.imageRequested.connect(images.use_image)
        self.presenter_mode.arrangementChanged.connect(self.board.apply_pending_arrangement)
        self.presenter_mode.paintingLeft.connect(self.mask_edit_controller.stop_editing)
        self.presenter_mode.cellLeft.connect(self.cell_selection_controller.unpin_cell)
        self.presenter_mode.playbackLeft.connect(self.playback_controller.toggle_playback)
        self.presenter_mode.predictionLeft.connect(self.playback_controller.toggle_prediction)
        self.presenter_mode.allHeadsLeft.connect(self.view_controller.show_flow)
        page.left.connect(self.board.setFocus)
        page.startChosen.connect(self.settings_controller.show_current_settings)
        self.settings_controller.startPageChosen.connect(page.update_page)

    def open_command_palette(self) -> None:
        """Open the palette with all commands, settings, heads and sections of the documentation."""
        from visualizer.shell.palette_entries import (  # slow to import
            head_entries,
            module_setting_entries,
            program_setting_entries,
        )
        from visualizer.widgets.command_palette import open_command_palette

        entries = (
            *module_setting_entries(self.settings_bar),
            *program_setting_entries(self.settings_controller),
            *head_entries(self.workspace.resolved_requested_view, self.view_controller),
        )
        open_command_palette(self.window, entries)

    def toggle_full_screen(self) -> None:
        """Let the window fill the screen, or restore its size."""
        self.window.setWindowState(self.window.windowState() ^ Qt.WindowState.WindowFullScreen)

    def reset_layout(self) -> None:
        """Arrange the panes as in a new window; during a lesson, the lesson pane stays open."""
        self.presenter_mode.leave_mode()
        self.docks.reset_layout()

    def may_close(self) -> bool:
        """Return whether the window may close now; if not, ask the user or wait before closing."""
        parts = (self.export_controller.progress, self.document_controller)
        return all(part.may_close(self.window.close) for part in parts)

    def close(self) -> None:
        """Stop all controllers, and then the workspace."""
        self.playback_controller.stop()
        for part in (
            self.export_controller,
            self.model_chooser_controller,
            self.model_connection_controller,
            self.model_image_controller,
            self.document_controller,
            self.recovery_prompt,
            self.model_question_controller,
            self.head_measurement_controller,
            self.model_generation_controller,
            self.workspace,
        ):
            part.close()
