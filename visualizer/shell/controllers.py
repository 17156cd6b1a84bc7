"""All controllers of one main window, in the order in which they depend on each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.export.export_controller import ExportController
from visualizer.features.controllers import FeatureControllers
from visualizer.shell.document_controller import DocumentController
from visualizer.shell.presenter_mode import PresenterMode
from visualizer.shell.recent_files_menu import RecentFilesMenu
from visualizer.shell.recovery_prompt import RecoveryPrompt
from visualizer.shell.reduced_motion_controller import ReducedMotionController
from visualizer.shell.settings_controller import SettingsController
from visualizer.shell.start_page_controller import StartPageController

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMainWindow, QMenu, QWidget

    from visualizer.features.lessons.state import LessonState
    from visualizer.features.token_strip.widget import TokenPane
    from visualizer.heatmap.widget import BoardView
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_controller import WindowOn
    from visualizer.shell.injected_services import Services
    from visualizer.shell.pane_docks import PaneDocks
    from visualizer.shell.pane_focus_cycle import PaneFocusCycle


class Controllers(FeatureControllers):
    """Controllers that the commands and signals of a main window call."""

    def __init__(
        self,
        workspace: Workspace,
        window: QMainWindow,
        program: Services,
        lessons: LessonState,
        window_on: WindowOn,
        lessons_menu: QMenu,
        recent_menu: QMenu,
        actions: Mapping[str, QAction],
        board: BoardView,
        token_pane: TokenPane,
        docks: PaneDocks,
        focus_cycle: PaneFocusCycle,
        read_in: Callable[[QWidget], object],
        open_lab: Callable[[], object],
    ) -> None:
        self.document_controller = DocumentController(
            program, workspace, lessons, window, window_on
        )
        super().__init__(
            workspace, window, lessons, lessons_menu, board, token_pane, actions, read_in
        )
        self.window, self.docks, self.focus_cycle = window, docks, focus_cycle
        self.open_lab = open_lab
        self.export_controller = ExportController(
            workspace, window, self.document_controller.figure_title
        )
        self.copy_script = self.export_controller.copy_script
        self.recovery_prompt = RecoveryPrompt(window)
        self.recent_files_menu = RecentFilesMenu(recent_menu, window)
        self.presenter = PresenterMode(workspace, window, docks, self.board)
        self.reduced_motion_controller = ReducedMotionController(window)
        self.settings_controller = SettingsController(
            window,
            workspace,
            self.view_controller,
            self.setup,
            self.document_controller,
            self.reduced_motion_controller,
            self.name_keys,
        )
        self.start_page = StartPageController(
            window,
            workspace,
            self.document_controller,
            self.lesson_controller,
            program.read_example,
        )

    def find_token(self) -> None:
        """Open the search of the tokens."""
        pane = self.docks.show_pane_of(self.token_pane)
        self.token_pane.open_search()
        pane.ensureWidgetVisible(self.token_pane)

    def go_to_largest_weight(self) -> None:
        """Go to the token with the next largest weight."""
        pane = self.docks.show_pane_of(self.token_pane)
        self.token_pane.shown_strip.go_to_largest()
        pane.ensureWidgetVisible(self.token_pane)

    def reset_layout(self) -> None:
        """Arrange the panes as in a new window; the lesson pane stays open during a lesson."""
        self.docks.once_dropped(self._reset_layout)

    def _reset_layout(self) -> None:
        self.presenter.leave()
        self.docks.reset()

    def may_close(self) -> bool:
        """Whether the window may close now; otherwise it is closed again later."""
        parts = (self.export_controller.progress, self.document_controller)
        return all(part.may_close(self.window.close) for part in parts)

    def close(self) -> None:
        """End the work of all controllers, and then of the workspace."""
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
