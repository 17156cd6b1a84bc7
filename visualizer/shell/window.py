"""The main window: builds the widgets and controllers, connects them and shows screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QMainWindow, QVBoxLayout, QWidget

from visualizer.export.export_controller import ExportController
from visualizer.features.cell.presenter import CELL
from visualizer.features.comparison_bar.controller import ComparisonController
from visualizer.features.comparison_bar.widget import CompareBar
from visualizer.features.lessons.controller import LessonController
from visualizer.features.lessons.presenter import LESSON
from visualizer.features.logit_attribution.controller import AttributionController
from visualizer.features.logit_attribution.presenter import ATTRIBUTION
from visualizer.features.logit_lens.presenter import LENS
from visualizer.features.mask_editor.brush_bar_widget import MaskEditBar
from visualizer.features.mask_editor.controller import MaskEditController, MaskStrokeController
from visualizer.features.mask_editor.presenter import MASK_EDIT
from visualizer.features.model_chooser.controller import ModelChooserController
from visualizer.features.model_connection.controller import ModelConnectionController
from visualizer.features.model_generation.controller import ModelGenerationController
from visualizer.features.model_image.controller import ModelImageController
from visualizer.features.next_token.controller import HeadEditController
from visualizer.features.playback.controller import PlaybackController
from visualizer.features.playback.playback_bar_widget import PlaybackBar
from visualizer.features.setup.controller import SetupController
from visualizer.features.setup.presenter import SETUP
from visualizer.features.stage_bar.presenter import STAGE_BAR
from visualizer.features.stage_bar.widget import StageBar
from visualizer.features.token_strip.controller import TokenSelectionController
from visualizer.features.token_strip.presenter import TOKENS
from visualizer.features.token_strip.widget import TokenPane
from visualizer.features.view_bar.view_controller import ViewController
from visualizer.features.view_bar.widget import ViewBar
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_selection_controller import CellSelectionController
from visualizer.heatmap.panel_cells import cell_of
from visualizer.heatmap.widget import BoardView
from visualizer.session.head_order import HeadOrder
from visualizer.session.measurement_controller import HeadMeasurementController
from visualizer.session.model_question_controller import ModelQuestionController
from visualizer.session.view_options import ColourLimits
from visualizer.shell import screen_reader_announcer
from visualizer.shell.commands import (
    COMMANDS,
    LESSONS,
    OPEN_PANES,
    RECENT,
    UNDER_START_PAGE,
    Controllers,
    WindowState,
)
from visualizer.shell.document_controller import DocumentController
from visualizer.shell.drop_handler import DropHandler
from visualizer.shell.pane_connections import PaneControllers
from visualizer.shell.pane_docks import PaneDocks, PaneScale, add_bar
from visualizer.shell.pane_focus_cycle import PaneFocusCycle
from visualizer.shell.pane_table import LEFT
from visualizer.shell.panel_presenters import STATUS
from visualizer.shell.presenter_mode import PresenterMode
from visualizer.shell.recent_files_menu import RecentFilesMenu
from visualizer.shell.recovery_prompt import RecoveryPrompt
from visualizer.shell.reduced_motion_controller import ReducedMotionController
from visualizer.shell.settings_controller import SettingsController
from visualizer.shell.start_page_controller import StartPageController
from visualizer.widgets import app_settings, dialogs
from visualizer.widgets.commands import CommandMenus
from visualizer.widgets.focus_ring import FocusRing
from visualizer.widgets.fonts import apply_text_size, text_scale
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import is_escape
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.plain_text_tooltips import plain_tooltip
from visualizer.widgets.status_bar import ProgressLine, add_status_bar
from visualizer.widgets.theme import Scheme, apply_theme, style_sheet, theme_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent

    from visualizer.features.cell.widget import CellPane
    from visualizer.features.code.widget import CodePane
    from visualizer.features.lessons.state import LessonState
    from visualizer.features.lessons.widget import LessonPane
    from visualizer.features.line_view.widget import LinePane
    from visualizer.features.setup.widget import SetupPane
    from visualizer.features.shapes.widget import ShapesPane
    from visualizer.models.model_source import ModelSource
    from visualizer.session.screen import Screen
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_controller import WindowOn
    from visualizer.shell.injected_services import Services
    from visualizer.shell.pane_table import Pane

PANE_OF_COMMAND = {
    "model_generation.toggle": "Continue",
    "model_generation.sample": "Continue",
    "attribution.toggle_ablations": "Attribution",
}
"""Panes that show the results of commands; the commands open them."""
DRAWN_PANES = {"Layers", "Heads", "Scatter"}
"""Panes that show a long text's results as they arrive, in addition to the lines."""


class MainWindow(QMainWindow):
    """The main window, which shows one document."""

    closed = Signal(object)
    labWanted = Signal()
    painted = Signal()
    """A frame of the heatmaps, or of the start page on top of them, has been painted."""

    def __init__(
        self,
        workspace: Workspace,
        program: Services,
        lessons: LessonState,
        window_on: WindowOn,
    ) -> None:
        super().__init__()
        self.workspace = workspace
        self.scheme = app_settings.load_scheme()
        self.theme = theme_of(self.scheme)
        self.setWindowIcon(icon("app", "#000000"))
        self.stage_bar, self.board, self.progress = StageBar(), BoardView(), ProgressLine()
        self.stroke_controller, self.mask_edit_bar = MaskStrokeController(self.board), MaskEditBar()
        self.token_pane = TokenPane()
        self.document_controller = DocumentController(program, workspace, lessons, self, window_on)
        self.model_chooser_controller = ModelChooserController(workspace, self)
        self.model_connection_controller = ModelConnectionController(workspace, self)
        self.recovery_prompt, self.drop_handler = RecoveryPrompt(self), DropHandler(self)
        self._create_controllers()
        self._has_lesson = self._had_weights = False
        self._model_folder = ""
        self._panes_to_open: list[str] = []
        """Panes to open for a new model, one at a time."""
        self._next_pane = QTimer(self, singleShot=True, interval=1)
        self._next_pane.timeout.connect(self._open_next_pane)
        self._panes_later = QTimer(self, singleShot=True, interval=0)
        """Updates the panes after the heatmaps of a long text and pending events."""
        self._half_shown: Screen | None = None
        """The screen of which only the heatmaps have been shown so far."""
        self._panes_of = ""
        """Fingerprint of the model that the panes show; empty for a module."""
        self._panes_later.timeout.connect(self._show_panes)
        self._drawn_later = QTimer(self, singleShot=True, interval=0)
        self._drawn_later.timeout.connect(self._show_drawn_panes)
        self.facts, self.notice = PlainLabel(), PlainLabel()
        self.provenance = PlainLabel()
        """Origin of the weights; always visible, so that random weights are not misread."""
        self.provenance.setProperty("role", "quiet")
        status_bar = add_status_bar(self, self.facts)
        status_bar.addPermanentWidget(self.provenance)
        status_bar.addPermanentWidget(self.export_controller.progress.widget)
        self.actions_ = CommandMenus(self, COMMANDS)
        self.lesson_controller = LessonController(
            workspace, lessons, self.actions_.menus[LESSONS], self
        )
        self.announcer = screen_reader_announcer.ScreenAnnouncer(self.board)
        self._shared = self._collect_pane_controllers()
        self.docks = PaneDocks(self, self._finish_pane, self.board)
        self.panes = self.docks.panes
        self.setup_pane: SetupPane = self.panes["Setup"]
        self.setup_pane.add_section(self.token_pane)
        self.cell_pane: CellPane = self.panes["Cell"]
        self.code_pane: CodePane = self.panes["Code"]
        self.presenter = PresenterMode(workspace, self, self.docks, self.board)
        self.viewbar = ViewBar({**self.actions_.by_id, **self.docks.actions})
        self.compare_bar = CompareBar(self.actions_.by_id)
        self.setCentralWidget(self._build_central_widget())
        self.cell_pane.add_trail(*(self.actions_.by_id[f"cell.go {by}"] for by in (-1, 1)))
        self.playback_bar = PlaybackBar(self.actions_.by_id)
        add_bar(self, "Playback", "Playback", self.playback_bar, Qt.ToolBarArea.BottomToolBarArea)
        self._set_up_keyboard()
        for command in PANE_OF_COMMAND:
            self.actions_.by_id[command].triggered.connect(self._open_pane_of_command)
        self.docks.add_to_menu(self.actions_.menu(OPEN_PANES))
        self.recent_files_menu = RecentFilesMenu(self.actions_.menu(RECENT), self)
        self.reduced_motion_controller = ReducedMotionController(self)
        self.settings_controller = SettingsController(
            self,
            workspace,
            self.view_controller,
            self.setup,
            self.document_controller,
            self.reduced_motion_controller,
            self.name_keys,
        )
        self.start_page = StartPageController(
            self, workspace, self.document_controller, self.lesson_controller, program.read_example
        )
        self.actions_.act_on(self._collect_controllers())
        _connect_signals(self)
        self.set_scheme(self.scheme)
        self._restore_geometry()
        self.show_name()

    @property
    def lesson(self) -> LessonPane:
        """The lesson pane."""
        return cast("LessonPane", self.panes["Lesson"])

    @property
    def lines(self) -> LinePane:
        """The line pane."""
        return cast("LinePane", self.panes["Lines"])

    @property
    def shapes(self) -> ShapesPane:
        """The shapes pane."""
        return cast("ShapesPane", self.panes["Shapes"])

    def _finish_pane(self, pane: Pane, widget: Any) -> None:
        """Connect a new pane and show the current screen in it."""
        pane.connect(widget, self._shared)
        widget.show_screen(self.workspace.screen, self.theme)

    def read_in(self, *widgets: QWidget) -> None:
        """Enable the heatmaps' shortcuts and cell announcements in these widgets."""
        self.actions_.give_keys(*widgets)
        self.announcer.add_readers(*widgets)

    def name_keys(self, buttons: Mapping[QWidget, str]) -> None:
        """Give buttons the tool tips of equivalent commands, by command id."""
        for button, id_ in buttons.items():
            button.setToolTip(plain_tooltip(self.actions_.by_id[id_].toolTip()))

    def _create_controllers(self) -> None:
        """Create the controllers that commands and signals call."""
        self.playback_controller, self.cell_selection_controller = (
            PlaybackController(self.workspace, self),
            CellSelectionController(self.workspace, self),
        )
        self.token_selection_controller = TokenSelectionController(self.workspace, self)
        self.mask_edit_controller = MaskEditController(
            self.workspace, self.cell_selection_controller, self
        )
        self.comparison_controller = ComparisonController(
            self.workspace, self.cell_selection_controller, self
        )
        self.head_edit_controller = HeadEditController(self.workspace, self)
        self.model_image_controller = ModelImageController(self.workspace, self)
        self.model_question_controller = ModelQuestionController(
            self.workspace, (LENS, ATTRIBUTION), self
        )
        self.head_measurement_controller = HeadMeasurementController(self.workspace, self)
        self.attribution_controller = AttributionController(
            self.workspace, self.model_question_controller, self
        )
        self.model_generation_controller = ModelGenerationController(self.workspace, self)
        self.view_controller, self.setup = (
            ViewController(self.workspace, self),
            SetupController(self.workspace, self),
        )
        self.export_controller = ExportController(
            self.workspace, self, self.document_controller.figure_title
        )
        self.exporter = self.export_controller.exporter

    def _set_up_keyboard(self) -> None:
        """Set up shortcuts, the focus ring, the focus cycle and the announcements."""
        self.read_in(self.board, *self.playback_bar.readers)
        bars = (self.stage_bar, self.viewbar, self.mask_edit_bar, self.compare_bar)
        self.focus_cycle = PaneFocusCycle(
            (self.board, self.playback_bar), self.docks.visible_panes, bars
        )
        self.focus_ring = FocusRing(self)

    def _collect_controllers(self) -> Controllers:
        return Controllers(
            window=self,
            workspace=self.workspace,
            document_controller=self.document_controller,
            model_chooser_controller=self.model_chooser_controller,
            model_connection_controller=self.model_connection_controller,
            recent_files_menu=self.recent_files_menu,
            export_controller=self.export_controller,
            setup_pane=self.setup_pane,
            setup=self.setup,
            cell_pane=self.cell_pane,
            panes=self.panes,
            cell_selection_controller=self.cell_selection_controller,
            token_selection_controller=self.token_selection_controller,
            mask_edit_controller=self.mask_edit_controller,
            playback_controller=self.playback_controller,
            comparison_controller=self.comparison_controller,
            view_controller=self.view_controller,
            lesson_controller=self.lesson_controller,
            head_edit_controller=self.head_edit_controller,
            model_image_controller=self.model_image_controller,
            attribution_controller=self.attribution_controller,
            head_measurement_controller=self.head_measurement_controller,
            model_generation_controller=self.model_generation_controller,
            focus_cycle=self.focus_cycle,
            presenter=self.presenter,
            start_page=self.start_page,
            settings_controller=self.settings_controller,
            edit_heads=self.edit_heads,
            show_most_changed=self.show_most_changed,
            find_token=self.find_token,
            go_to_largest_weight=self.go_to_largest_weight,
            reset_layout=self.reset_layout,
            set_scheme=self.settings_controller.choose_scheme,
            open_lab=self.labWanted.emit,
            type_limits=self.type_limits,
        )

    def _collect_pane_controllers(self) -> PaneControllers:
        return PaneControllers(
            workspace=self.workspace,
            setup=self.setup,
            cell_selection_controller=self.cell_selection_controller,
            view_controller=self.view_controller,
            lesson_controller=self.lesson_controller,
            export_controller=self.export_controller,
            head_edit_controller=self.head_edit_controller,
            model_image_controller=self.model_image_controller,
            model_question_controller=self.model_question_controller,
            head_measurement_controller=self.head_measurement_controller,
            attribution_controller=self.attribution_controller,
            model_generation_controller=self.model_generation_controller,
            show_stage=self.show_stage,
            walk=self.walk,
            name_keys=self.name_keys,
            read_in=self.read_in,
        )

    def _build_central_widget(self) -> QWidget:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.notice.setProperty("role", "notice")
        self.notice.setWordWrap(True)
        bars = (self.stage_bar, self.viewbar, self.mask_edit_bar, self.progress, self.notice)
        above = (*bars, self.compare_bar)
        for widget in (*above, self.board, self.presenter.sentence):
            column.addWidget(widget)
        return centre

    def _restore_geometry(self) -> None:
        """Restore the window's geometry; use a default size on first start."""
        if not app_settings.restore_window(self, app_settings.MAIN_WINDOW):
            screen = self.screen().availableGeometry().size()
            usual = QSize(1280, 800) * text_scale()
            self.resize(usual.boundedTo(screen - QSize(8, 40)))  # minus the window frame
        self.docks.by_id["Lesson"].hide()

    def type_limits(self) -> None:
        """Use a custom colour range, and open the pane where it is edited."""
        self.view_controller.set_limits(ColourLimits.TYPED)
        self.docks.open("Colours")

    def begin(self) -> None:
        """Start work that is deferred until the window is visible."""
        self.lesson_controller.load()  # first, as it would be slow during the import of torch
        self.workspace.start()
        if self.workspace.document.lacks_image:  # for example, of a model named on the command line
            self.model_image_controller.choose()
        if not self.start_page.page:
            self.board.setFocus()  # so that Space plays at once

    # ------------------------------------------------------------------ showing

    def show_screen(self) -> None:
        """Show the workspace's screen; for a long text or a new model, show the heatmaps first."""
        screen = self.workspace.screen
        if self.workspace.is_screen_outdated or not self._show_board(screen):
            return
        mask_edit = screen.panel(MASK_EDIT)
        self.stroke_controller.show_mask_edit(mask_edit)
        self._paint_first(screen)
        if _is_long_text(screen) or _model_fingerprint(screen) != self._panes_of:
            self._half_shown = screen
            self._panes_later.start()
        else:
            self._show_panes()

    def _show_panes(self) -> None:
        """Show everything except the heatmaps."""
        self._panes_later.stop()
        self._drawn_later.stop()
        if self.workspace.is_screen_outdated:
            return
        self._half_shown = None
        screen = self.workspace.screen
        self._panes_of = _model_fingerprint(screen)
        self.stage_bar.show_items(screen.panel(STAGE_BAR), self.theme)
        self.viewbar.show_screen(screen, self.theme)
        self.mask_edit_bar.show_mask_edit(screen.panel(MASK_EDIT))
        self.compare_bar.show_screen(screen)
        self.playback_bar.show_screen(screen, self.theme)
        self._open_lesson(screen.panel(LESSON) is not None)
        self._open_model_panes(screen.document.model)
        for id_, pane in self.panes.items():
            if id_ != "Lines":
                pane.show_screen(screen, self.theme)
        self.token_pane.show_tokens(screen.panel(TOKENS), self.theme)
        status = screen.panel(STATUS)
        if "Lines" in self.panes:
            cell_panel = screen.panel(CELL)
            self.lines.describe_cell(cell_panel.plain if cell_panel else "")
        self._show_facts(screen)
        self.notice.setText("\n".join(status.notices))
        self.notice.setVisible(bool(status.notices))
        self.announcer.show_screen(screen)
        self.presenter.show_screen(screen, self.theme)
        self.show_commands()
        screen.panels.make_all()

    def show_drawn(self) -> None:
        """Show new results of a long text; nothing else of the screen has changed."""
        screen = self.workspace.screen
        if not self._show_board(screen):
            return
        self._paint_first(screen)
        self._half_shown = screen
        if not self._panes_later.isActive():  # otherwise the pending update shows this too
            self._drawn_later.start()

    def _show_drawn_panes(self) -> None:
        if self.workspace.is_screen_outdated:
            return
        self._half_shown = None
        screen = self.workspace.screen
        for pane in DRAWN_PANES & self.panes.keys():
            self.panes[pane].show_screen(screen, self.theme)
        tokens = screen.panel(TOKENS)
        self.token_pane.show_tokens(tokens, self.theme)
        if self._had_weights != bool(tokens.weights):  # some commands depend on them
            self.show_commands()
        self._show_facts(screen)
        screen.panels.make_all()

    def _show_board(self, screen: Screen) -> bool:
        """Show the panels of a screen; return whether it is still the newest one."""
        if self._half_shown is not screen:
            self._forget_half_shown()
        shown = screen.panel(BOARD_CONTENTS)
        board = (shown.board, shown.cursor, shown.highlights)
        self.board.show_board(*board, self.theme, shown.message)
        is_newest = self.workspace.screen is screen  # otherwise the panels requested another size
        if not is_newest:
            screen.panels.forget()  # the remaining panels are not needed any more
        return is_newest

    def _paint_first(self, screen: Screen) -> None:
        """Immediately paint what the user probably looks at: the heatmaps and the lines."""
        self.board.paint_now()
        if "Lines" in self.panes:
            self.lines.show_screen(screen, self.theme)

    def _forget_half_shown(self) -> None:
        """Release the data held for the panels of a screen that were not shown yet."""
        if self._half_shown:
            self._half_shown.panels.forget()
        self._half_shown = None

    def _show_facts(self, screen: Screen) -> None:
        status, cell_panel = screen.panel(STATUS), screen.panel(CELL)
        said = cell_panel.plain if cell_panel else status.facts
        self.facts.setText(status.progress or said)
        self.provenance.setText(status.provenance)
        told = (status.share, status.progress) if status.progress else ()
        self.progress.show_working(status.is_working, self.theme, *told)

    def show_commands(self) -> None:
        """Update which commands are enabled and checked."""
        state = self._window_state()
        self._had_weights = bool(state.screen.panel(TOKENS).weights)
        self.actions_.show_state(state, self.theme)
        self.code_pane.allow_copying(state.can_copy_script)
        self.settings_controller.show()

    def show_history(self) -> None:
        """Update only undo and redo, because the worker waits for this thread in the meantime."""
        self.actions_.by_id["workspace.undo"].setEnabled(self.workspace.can_undo)
        self.actions_.by_id["workspace.redo"].setEnabled(self.workspace.can_redo)

    def _window_state(self) -> WindowState:
        screen = self.workspace.screen
        can_export = (
            bool(screen.panel(BOARD_CONTENTS).board.columns) and not self.exporter.is_working
        )
        return WindowState(
            screen,
            self.workspace.document,
            self.workspace.view,
            self.scheme,
            can_undo=self.workspace.can_undo,
            can_redo=self.workspace.can_redo,
            undone_change=self.workspace.undone_change,
            redone_change=self.workspace.redone_change,
            can_keep_weights=self.workspace.can_keep_weights,
            can_export=can_export,
            can_copy_script=can_export and not screen.panel(SETUP).captured,
            keeps_numbers=self.document_controller.keeps_numbers,
            can_revert=self.document_controller.can_revert,
            is_presenting=self.presenter.is_on,
            is_motion_reduced=self.reduced_motion_controller.is_on,
            continued=self.model_generation_controller.panel,
        )

    def _open_lesson(self, has_lesson: bool) -> None:
        if has_lesson != self._has_lesson:  # its pane is visible only while one is open
            self._has_lesson = has_lesson
            self.docks.by_id["Lesson"].setVisible(has_lesson)
            self.docks.share_height(LEFT)

    def _open_model_panes(self, model: ModelSource | None) -> None:
        """Open the panes that only models use, when a new model starts to run."""
        folder = model.folder if model else ""
        is_new = folder not in ("", self._model_folder)
        self._model_folder = folder
        if is_new:
            self._panes_to_open = ["Layers", "Next token"]
            self._next_pane.start()

    def _open_next_pane(self) -> None:
        """Open one pane, and the next one after pending updates and events.

        Opening all at once would block the window, and Qt brings a tab to the front only after the
        other tabs have been laid out.
        """
        self.docks.open(self._panes_to_open.pop(0))
        if self._panes_to_open:
            self._next_pane.start()

    def _open_pane_of_command(self) -> None:
        for command, pane in PANE_OF_COMMAND.items():
            if self.actions_.by_id[command] is self.sender():
                self.docks.open(pane)

    def show_name(self) -> None:
        """Show the document's name and whether it is saved."""
        self.setWindowTitle(f"{self.document_controller.name}[*] — Attention Visualizer")
        self.setWindowModified(not self.document_controller.is_saved)
        self.setWindowFilePath(str(self.document_controller.path or ""))
        self.actions_.show_state(self._window_state(), self.theme)

    def show_bug(self, details: str) -> None:
        """Report an unexpected exception."""
        dialogs.show_bug(self, details)

    def see_panes(self, panes: frozenset[str]) -> None:
        self.workspace.look(panes=panes)

    def make_room(self, room: int, small_room: int) -> None:
        wanted = self.workspace.wanted
        if (room, small_room) != (wanted.room, wanted.small_room):
            self.workspace.look(room=room, small_room=small_room)

    def go_to_stage(self, stage: str) -> None:
        if any(item.is_current for item in self.workspace.screen.panel(STAGE_BAR)):
            self.playback_controller.seek_stage(
                stage
            )  # during playback, the panels shown follow the step
        else:
            self.workspace.toggle_stage(stage)

    def show_stage(self, stage: str) -> None:
        """Scroll a stage into view, showing its panels if needed."""
        items = self.workspace.screen.panel(STAGE_BAR)
        if any(item.stage == stage and not item.is_shown for item in items):
            self.go_to_stage(stage)
        panels = self.workspace.screen.panel(BOARD_CONTENTS).board.heatmaps
        for panel in [panel for panel in panels if panel.stage == stage][:1]:
            self.board.reveal(cell_of(panel, panel.rows.seen[0], panel.columns.seen[0]))

    def walk(self, down: int, right: int) -> None:
        screen = self.workspace.screen
        resolved = screen.resolved
        if resolved and resolved.step_cell and not resolved.reached_pinned:
            self.playback_controller.step(right) if right else self.playback_controller.skip(down)
            return
        self.cell_selection_controller.walk(down, right)

    def follow_system(self) -> None:
        if self.scheme is Scheme.SYSTEM:
            self.restyle()

    # ------------------------------------------------------------------ actions

    def edit_heads(self, kind: str) -> None:
        """Set the kind of edit of the shown heads, and focus the field for its value."""
        self.head_edit_controller.set_kind(kind)
        self.docks.open("Next token")
        self.panes["Next token"].focus_value()

    def show_most_changed(self) -> None:
        """Sort a model's heads by how much the edits changed their weights."""
        self.docks.open("Layers")
        self.view_controller.set_head_order(HeadOrder.CHANGED)

    def find_token(self) -> None:
        self.docks.by_id["Setup"].show()
        self.token_pane.open_search()
        self.setup_pane.ensureWidgetVisible(self.token_pane)

    def go_to_largest_weight(self) -> None:
        self.docks.by_id["Setup"].show()
        self.token_pane.shown_strip.go_to_largest()
        self.setup_pane.ensureWidgetVisible(self.token_pane)

    def reset_layout(self) -> None:
        """Arrange the panes as in a new window; the lesson pane stays open during a lesson."""
        self.docks.once_dropped(self._reset_layout)

    def _reset_layout(self) -> None:
        self.presenter.leave()
        self.docks.reset()
        self.docks.by_id["Lesson"].setVisible(self._has_lesson)

    def set_scheme(self, scheme: str) -> None:
        """Set the colour scheme."""
        self.scheme = Scheme(scheme)
        self.theme = theme_of(self.scheme, self.presenter.stroke)
        apply_theme(self, self.theme, style_sheet() + app_settings.style_sheet())
        self.reduced_motion_controller.apply()
        self.actions_.show_theme(self.theme)
        self.focus_ring.show_theme(self.theme)
        self.export_controller.show_theme(self.theme)
        self.start_page.show_theme(self.theme)
        app_settings.save_scheme(self.scheme)
        is_painting = self.updatesEnabled() and self.isVisible()
        if is_painting:  # repaint everything, but separately from the other updates
            self.setUpdatesEnabled(False)
            QTimer.singleShot(0, self, self._paint_again)
        self.show_screen()

    def _paint_again(self) -> None:
        """Paint the window at its current size."""
        self.setUpdatesEnabled(True)
        self.board.arrange_late()

    def restyle(self) -> None:
        """Apply the colour scheme again, after a change of the system's colours or style."""
        self.set_scheme(self.scheme)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Unpin on Esc, unless the focused widget handles it."""
        if is_escape(event):
            self.presenter.go_back()
        else:
            super().keyPressEvent(event)

    def resize_text(self) -> None:
        """Apply the text size of the settings; leave presenter mode, which has its own size."""
        self.presenter.leave()
        before = PaneScale.of(self)
        apply_text_size(app_settings.load_text_size())
        self.restyle()
        self.docks.fit_width(before)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.docks.fit_width(PaneScale(event.oldSize().width(), text_scale()))

    def closeEvent(self, event: QCloseEvent) -> None:
        if not all(
            part.may_close(self.close)
            for part in (self.export_controller.progress, self.document_controller)
        ):
            event.ignore()
            return
        self.presenter.leave()  # so that the previous arrangement is saved
        self.docks.end_drag()
        app_settings.save_window(self, app_settings.MAIN_WINDOW)
        app_settings.save_last(self.document_controller.path)
        self.hide()
        self.playback_controller.stop()
        for timer in (self._panes_later, self._drawn_later, self._next_pane):
            timer.stop()
        self._forget_half_shown()
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
        event.accept()
        self.closed.emit(self)


def _is_long_text(screen: Screen) -> bool:
    """Whether a screen shows a long text."""
    return screen.resolved is not None and screen.resolved.run.trace.is_blockwise


def _model_fingerprint(screen: Screen) -> str:
    """Return the fingerprint of the model whose run is shown; empty for a module."""
    model = screen.resolved.model_of_run if screen.resolved else None
    return model.fingerprint if model else ""


# ----------------------------------------------------------- connections


def _connect_signals(window: MainWindow) -> None:
    """Connect widget signals to controllers."""
    _connect_state(window)
    _connect_files(window)
    _connect_tokens(window)
    _connect_board(window)
    _connect_playback(window)
    _connect_painting(window)
    _connect_start_page(window)
    QApplication.styleHints().colorSchemeChanged.connect(window.follow_system)


def _connect_start_page(window: MainWindow) -> None:
    page = window.start_page
    window.board.painted.connect(window.painted)
    page.painted.connect(window.painted)
    page.left.connect(window.board.setFocus)
    page.startChosen.connect(window.settings_controller.show)
    window.settings_controller.startPageChosen.connect(page.show_panel)
    by_id = window.actions_.by_id
    for action in (*(by_id[id_] for id_ in UNDER_START_PAGE), *window.docks.actions.values()):
        action.triggered.connect(page.leave)


def _connect_state(window: MainWindow) -> None:
    window.workspace.changed.connect(window.show_screen)
    window.workspace.drawn.connect(window.show_drawn)
    window.workspace.changed.connect(
        window.document_controller.see_changes
    )  # after the screen is painted
    window.workspace.edited.connect(window.show_history)
    window.workspace.modelRefused.connect(window.document_controller.refuse_model)
    window.workspace.broke.connect(window.show_bug)
    window.model_generation_controller.changed.connect(window.show_commands)
    window.model_generation_controller.broke.connect(window.show_bug)
    exporter = window.exporter
    exporter.said.connect(window.statusBar().showMessage)
    exporter.changed.connect(window.show_screen)
    window.export_controller.broke.connect(window.show_bug)
    window.reduced_motion_controller.changed.connect(window.restyle)
    window.docks.changed.connect(window.see_panes)
    window.settings_controller.schemeChosen.connect(window.set_scheme)
    window.settings_controller.textSizeChosen.connect(window.resize_text)


def _connect_files(window: MainWindow) -> None:
    document_controller, drop_handler = window.document_controller, window.drop_handler
    document_controller.changed.connect(window.show_name)
    document_controller.said.connect(window.statusBar().showMessage)
    document_controller.broke.connect(window.show_bug)
    document_controller.lessonLeft.connect(window.lesson_controller.close)
    document_controller.autosave_controller.found.connect(window.recovery_prompt.offer)
    window.recovery_prompt.recovered.connect(document_controller.take_recovered)
    window.recovery_prompt.said.connect(window.statusBar().showMessage)
    window.recovery_prompt.broke.connect(window.show_bug)
    document_controller.autosave_controller.broke.connect(window.show_bug)
    document_controller.settled.connect(window.recent_files_menu.remember)
    window.recent_files_menu.chosen.connect(document_controller.open)
    drop_handler.fileDropped.connect(document_controller.open)
    model_chooser = window.model_chooser_controller
    document_controller.modelWanted.connect(model_chooser.open_folder)
    model_chooser.opened.connect(document_controller.take_model)
    model_chooser.broke.connect(window.show_bug)
    connection = window.model_connection_controller
    connection.opened.connect(document_controller.take_model)
    connection.broke.connect(window.show_bug)
    images = window.model_image_controller
    document_controller.imageWanted.connect(images.take)
    images.said.connect(window.statusBar().showMessage)
    images.broke.connect(window.show_bug)
    drop_handler.textDropped.connect(window.setup_pane.take_text)


def _connect_tokens(window: MainWindow) -> None:
    pane, chooser = window.token_pane, window.token_selection_controller
    pane.chose.connect(chooser.choose)
    pane.hovered.connect(chooser.hover)
    pane.roleChosen.connect(chooser.set_role)
    pane.sought.connect(chooser.seek)
    pane.stepped.connect(chooser.go)
    chooser.wanted.connect(window.board.reveal)


def _connect_board(window: MainWindow) -> None:
    board, cell_selection = window.board, window.cell_selection_controller
    board.cellHovered.connect(cell_selection.hover)
    board.cellClicked.connect(cell_selection.pin)
    board.walked.connect(window.walk)
    board.leadingPointed.connect(window.view_controller.look_at_leading)
    board.pageTurned.connect(window.statusBar().showMessage)
    board.enlarged.connect(window.view_controller.enlarge)
    board.zoomed.connect(window.view_controller.zoom_at)
    board.dragged.connect(window.view_controller.drag)
    board.minimap.centred.connect(window.view_controller.centre)
    board.roomChanged.connect(window.make_room)
    bar, view_controller = window.viewbar, window.view_controller
    bar.layoutChosen.connect(view_controller.arrange)
    bar.headToggled.connect(view_controller.toggle_head)
    bar.headAlone.connect(view_controller.solo_clicked_head)
    window.stage_bar.stageToggled.connect(window.go_to_stage)
    window.stage_bar.stageAlone.connect(window.view_controller.stage_alone)
    window.compare_bar.headsChosen.connect(window.comparison_controller.choose_heads)
    window.compare_bar.countChosen.connect(window.comparison_controller.choose_count)


def _connect_playback(window: MainWindow) -> None:
    playback_bar, playback_controller = window.playback_bar, window.playback_controller
    playback_bar.sought.connect(playback_controller.seek)
    playback_bar.sought.connect(window.board.motion.leave_out)
    playback_bar.stepped.connect(playback_controller.step)
    playback_bar.skipped.connect(playback_controller.skip)
    playback_bar.grainChosen.connect(playback_controller.set_grain)
    playback_bar.speedChosen.connect(playback_controller.set_speed)
    playback_bar.questionChosen.connect(playback_controller.ask)
    presenter = window.presenter
    presenter.styleChanged.connect(window.restyle)
    presenter.rearranged.connect(window.board.arrange_late)
    presenter.paintingLeft.connect(window.mask_edit_controller.stop)
    presenter.cellLeft.connect(window.cell_selection_controller.unpin)
    presenter.said.connect(window.facts.setText)


def _connect_painting(window: MainWindow) -> None:
    strokes, bar, mask_edit_controller = (
        window.stroke_controller,
        window.mask_edit_bar,
        window.mask_edit_controller,
    )
    strokes.begun.connect(mask_edit_controller.begin)
    strokes.swept.connect(mask_edit_controller.sweep)
    strokes.ended.connect(mask_edit_controller.end)
    strokes.extended.connect(mask_edit_controller.extend)
    strokes.left.connect(mask_edit_controller.stop)
    bar.brushChosen.connect(mask_edit_controller.start_from)
    bar.numberChosen.connect(mask_edit_controller.set_number)
    bar.settled.connect(mask_edit_controller.end)
    bar.allHeadsChosen.connect(mask_edit_controller.set_all_heads)
    bar.joined.connect(mask_edit_controller.join_all)
    bar.left.connect(mask_edit_controller.stop)
    bar.left.connect(window.board.setFocus)
