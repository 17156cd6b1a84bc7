"""The main window: creates and connects the widgets and controllers, and shows screens."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QDropEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QMainWindow, QMenu, QVBoxLayout, QWidget

from visualizer.features.comparison_bar.widget import ComparisonBar
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.mask_editor.brush_bar_widget import MaskEditBar
from visualizer.features.mask_editor.controller import MaskStrokeEventFilter
from visualizer.features.mask_editor.presenter import MASK_EDIT_PANEL
from visualizer.features.playback.playback_bar_widget import HINT, OVERVIEW_HINT, PlaybackBar
from visualizer.features.setup.bar_widget import SettingsBar
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.features.view_bar.presenter import VIEW_CONTROLS_PANEL
from visualizer.features.view_bar.widget import ViewBar
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.widget import BoardView
from visualizer.shell import screen_reader_announcer
from visualizer.shell.commands import (
    COMMANDS,
    LESSONS,
    RECENT_MENU,
    START_PAGE_CLOSING_COMMANDS,
    window_state,
)
from visualizer.shell.controllers import WindowControllers
from visualizer.shell.pane_docks import DefaultPaneWidths, PaneDocks, PaneFocusCycle, add_tool_bar
from visualizer.shell.pane_table import PANES
from visualizer.shell.screen_presenter import STATUS_PANEL
from visualizer.widgets import app_settings, dialogs
from visualizer.widgets.commands import CommandMenus, add_separator
from visualizer.widgets.context_menu import handle_menu_shortcut
from visualizer.widgets.focus_ring import FocusRing
from visualizer.widgets.fonts import apply_interface_font, text_scale
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import has_command_modifier, is_escape
from visualizer.widgets.labels import HtmlLabel, PlainTextLabel
from visualizer.widgets.status_bar import ProgressLine, add_status_bar
from visualizer.widgets.theme import ColourScheme, apply_theme, create_style_sheet, theme_of

if TYPE_CHECKING:
    from PySide6.QtCore import QMimeData
    from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent

    from visualizer.features.lessons.lesson import LessonState
    from visualizer.session.pane_spec import PaneSpec
    from visualizer.session.screen import Screen
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_controller import WindowOn
    from visualizer.shell.injected_services import WindowServices
    from visualizer.shell.screen_presenter import StatusBarContents


class DropHandler(QObject):
    """Handler of drops anywhere on a window; dropped data are copied, never moved."""

    fileDropped = Signal(object)
    textDropped = Signal(str)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # Drag events are subclasses of QDropEvent.
        if isinstance(event, QDropEvent) and self._accepts_drop(event):
            # If the action were “move”, a file manager would delete the file afterwards.
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            if event.type() == QEvent.Type.Drop:
                self._handle_drop(event.mimeData())
            return True
        return False

    @staticmethod
    def _accepts_drop(event: QDropEvent) -> bool:
        data = event.mimeData()
        if not event.possibleActions() & Qt.DropAction.CopyAction:
            return False
        return bool(_local_paths(data)) or (data.hasText() and not data.hasUrls())

    def _handle_drop(self, data: QMimeData) -> None:
        paths = _local_paths(data)
        for path in paths:
            self.fileDropped.emit(path)
        if not paths:
            self.textDropped.emit(data.text())


def _local_paths(data: QMimeData) -> list[Path]:
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]


class MainWindow(QMainWindow):
    """The main window, which shows one document."""

    closed = Signal(object)
    labRequested = Signal()
    painted = Signal()
    """Emitted when the heatmaps, or the start page that covers them, have been painted."""

    def __init__(
        self,
        workspace: Workspace,
        program: WindowServices,
        lessons: LessonState,
        window_on: WindowOn,
    ) -> None:
        super().__init__()
        self.workspace = workspace
        self.scheme = app_settings.load_scheme()
        self.theme = theme_of(self.scheme)
        self.setWindowIcon(icon("app", "#000000"))
        self.board, self.progress = BoardView(), ProgressLine()
        self.stroke_controller, self.mask_edit_bar = (
            MaskStrokeEventFilter(self.board),
            MaskEditBar(),
        )
        self.settings_bar = SettingsBar()
        self.drop_handler = DropHandler(self)
        self._had_weights = False
        self._panes_later = QTimer(self, singleShot=True, interval=0)
        """Updates the panes of a long text, after the heatmaps and all pending events."""
        self.pending_screen: Screen | None = None
        """The current screen while only its heatmaps have been shown; otherwise None."""
        self._panes_of = ""
        """Fingerprint of the model that the panes show; empty for a module."""
        self._panes_later.timeout.connect(self._show_panes)
        self._drawn_later = QTimer(self, singleShot=True, interval=0)
        self._drawn_later.timeout.connect(self._show_refined_panes)
        self.facts, self.notice = PlainTextLabel(), HtmlLabel()
        self.provenance = PlainTextLabel()
        """Origin of the weights; always visible, so that random weights do not appear trained."""
        self.provenance.setProperty("role", "badge")
        status_bar = add_status_bar(self, self.facts)
        status_bar.addPermanentWidget(self.provenance)
        self.actions_ = CommandMenus(self, COMMANDS)
        self.announcer = screen_reader_announcer.ScreenReaderAnnouncer(self.board)
        toggles = {pane.id: self.actions_.by_id[f"pane.toggle {pane.id}"] for pane in PANES}
        self.docks = PaneDocks(self, self._connect_pane, self.board, toggles)
        self.panes = self.docks.panes
        self.view_bar = ViewBar(self.actions_.by_id)
        self.compare_bar = ComparisonBar(self.actions_.by_id)
        self.playback_bar = PlaybackBar(self.actions_.by_id)
        bars = (*(self.settings_bar, self.view_bar), *(self.mask_edit_bar, self.compare_bar))
        self.controllers = WindowControllers(
            workspace,
            self,
            program,
            lessons,
            window_on,
            self.actions_.find_or_create_menu(LESSONS),
            self.actions_.find_or_create_menu(RECENT_MENU),
            self.actions_.by_id,
            self.board,
            self.settings_bar,
            self.docks,
            PaneFocusCycle((self.board, self.playback_bar), self.docks.visible_panes, bars),
            self._enable_cell_reading,
            self.labRequested.emit,
        )
        status_bar.addPermanentWidget(self.controllers.export_controller.progress.widget)
        self.docks.create_initial_panes()
        self.setCentralWidget(self._build_central_widget())
        add_tool_bar(
            self, "Playback", "Playback", self.playback_bar, Qt.ToolBarArea.BottomToolBarArea
        )
        self.enable_heatmap_shortcuts(self.board, *self.playback_bar.text_widgets)
        self.focus_ring = FocusRing(self)
        self.docks.connect_opening_commands(self.actions_.by_id)
        self.actions_.set_controllers(self.controllers)
        _connect_signals(self)
        self.set_colour_scheme(self.scheme)
        self._restore_geometry()
        self.show_document_name()

    def _connect_pane(self, pane: PaneSpec, widget: Any) -> None:
        """Connect a new pane, and show the current screen in the pane."""
        pane.connect(widget, self.controllers)
        widget.show_screen(self.workspace.screen, self.theme)

    def enable_heatmap_shortcuts(self, *widgets: QWidget) -> None:
        """Enable the heatmaps' shortcuts and cell announcements in the given widgets."""
        self.actions_.enable_shortcuts(*widgets)
        self.announcer.watch_widgets(*widgets)

    def _enable_cell_reading(self, widget: QWidget) -> None:
        self.enable_heatmap_shortcuts(widget)
        self.announcer.add_described_widget(widget)

    def _build_central_widget(self) -> QWidget:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.notice.setProperty("role", "notice")
        self.notice.setWordWrap(True)
        bars = (self.settings_bar, self.progress, self.notice, self.view_bar)
        above = (*bars, self.mask_edit_bar, self.compare_bar)
        for widget in (*above, self.board, *self.docks.pages.values()):
            column.addWidget(widget)
        self.view_bar.hide()
        return centre

    def _restore_geometry(self) -> None:
        """Restore the window's geometry; on the first start, use a default size."""
        if not app_settings.restore_window(self, app_settings.MAIN_WINDOW):
            screen = self.screen().availableGeometry().size()
            usual = QSize(1280, 800) * text_scale()
            self.resize(usual.boundedTo(screen - QSize(8, 40)))  # minus the window frame
        self.docks.restore_content_panes()

    def start_deferred_work(self) -> None:
        """Start the work that is deferred until the window is visible."""
        # Do this first, because it would be slow while torch is being imported.
        self.controllers.lesson_controller.load_lesson_menu()
        self.workspace.start_computing()
        if self.workspace.document.needs_image:  # of a model from the command line, for example
            self.controllers.model_image_controller.choose_image()
        if not self.controllers.start_page.page:
            self.board.setFocus()  # so that Space plays immediately

    # ------------------------------------------------------------------ showing

    def show_screen(self) -> None:
        """Show the workspace's screen; for a long text or a new model, show the heatmaps first."""
        screen = self.workspace.screen
        if self.workspace.is_screen_outdated or not self._show_board(screen):
            return
        mask_edit = screen.panel(MASK_EDIT_PANEL)
        self.stroke_controller.show_mask_edit(mask_edit)
        self._paint_first_panes(screen)
        if _shows_long_text(screen) or _model_fingerprint(screen) != self._panes_of:
            self.pending_screen = screen
            self._panes_later.start()
        else:
            self._show_panes()

    def _show_panes(self) -> None:
        """Show all parts of the screen except the heatmaps."""
        self._panes_later.stop()
        self._drawn_later.stop()
        if self.workspace.is_screen_outdated:
            return
        self.pending_screen = None
        screen = self.workspace.screen
        self._panes_of = _model_fingerprint(screen)
        self.settings_bar.show_screen(screen, self.theme)
        # On the flow board, headings and tabs replace the view bar, unless the board is zoomed.
        is_grid = screen.resolved is not None and screen.resolved.flow is None
        is_zoomed = bool(screen.panel(VIEW_CONTROLS_PANEL).part)
        self.docks.update_content_panes(screen)
        are_shown = self.docks.are_heatmaps_shown
        is_bar_shown = (is_grid or is_zoomed) and are_shown
        if is_bar_shown:  # its update takes a tenth of the time of a change on the flow board
            self.view_bar.show_screen(screen, self.theme)
        self.view_bar.setVisible(is_bar_shown)
        self.mask_edit_bar.show_mask_edit(screen.panel(MASK_EDIT_PANEL))
        self.compare_bar.show_screen(screen)
        self.playback_bar.show_screen(screen, self.theme)
        self.docks.open_model_panes(screen.document.model.folder if screen.document.model else "")
        for pane in PANES:
            if pane.id in self.panes and not pane.is_painted_first:
                self.panes[pane.id].show_screen(screen, self.theme)
        self.show_caption_and_status()
        self._show_notices(screen.panel(STATUS_PANEL))
        self.announcer.show_screen(screen)
        self.controllers.presenter_mode.show_theme(self.theme)
        self.update_commands()
        screen.panels.build_all()

    def _show_notices(self, status: StatusBarContents) -> None:
        """Show notices above the board; the first one has a link that fixes its problem."""
        lines = [escape(notice) for notice in status.notices]
        field, remedy = status.remedy
        if remedy:
            lines[0] += f" <a href='{field}'>{escape(remedy)}</a>"
        self.notice.setText("<br>".join(lines))
        self.notice.setVisible(bool(lines))

    def show_refined_results(self) -> None:
        """Show new results for a long text; the other parts of the screen have not changed."""
        screen = self.workspace.screen
        if not self._show_board(screen):
            return
        self._paint_first_panes(screen)
        self.pending_screen = screen
        if not self._panes_later.isActive():  # a pending update also shows the new results
            self._drawn_later.start()

    def _show_refined_panes(self) -> None:
        if self.workspace.is_screen_outdated:
            return
        self.pending_screen = None
        screen = self.workspace.screen
        for pane in PANES:
            is_refined = pane.panel is not None and pane.panel.is_refined
            if pane.id in self.panes and is_refined and not pane.is_painted_first:
                self.panes[pane.id].show_screen(screen, self.theme)
        # Some commands depend on the weights.
        if self._had_weights != bool(screen.panel(TOKENS_PANEL).weights):
            self.update_commands()
        self.show_caption_and_status()
        screen.panels.build_all()

    def _show_board(self, screen: Screen) -> bool:
        """Show the panels of a screen; return whether the screen is still the newest."""
        if self.pending_screen is not screen:
            self._drop_pending_screen()
        shown = screen.panel(BOARD_CONTENTS)
        board = (shown.board, shown.cursor, shown.highlights)
        self.board.show_board(*board, self.theme, shown.message)
        is_newest = self.workspace.screen is screen  # the panels may request a different size
        if not is_newest:
            screen.panels.drop_unbuilt()  # the remaining panels are not needed any more
        return is_newest

    def _paint_first_panes(self, screen: Screen) -> None:
        """Paint the heatmaps and the most important panes immediately."""
        self.board.repaint_immediately()
        for pane in PANES:
            if pane.is_painted_first and pane.id in self.panes:
                self.panes[pane.id].show_screen(screen, self.theme)

    def _drop_pending_screen(self) -> None:
        """Release the data for the panels of a screen that have not been shown yet."""
        if self.pending_screen:
            self.pending_screen.panels.drop_unbuilt()
        self.pending_screen = None

    def show_caption_and_status(self) -> None:
        """Show the caption and, unless the start page covers its subject, the status line."""
        screen = self.workspace.screen
        status, cell_panel = screen.panel(STATUS_PANEL), screen.panel(CELL_PANEL)
        is_covered = self.controllers.start_page.page is not None
        self.facts.setText(status.progress or status.facts * (not is_covered))
        resolved = screen.resolved
        is_pointed = resolved and (
            resolved.hovered_or_pinned_cell or resolved.hovered_or_pinned_parameter
        )
        if self.board.hover_description:
            self.playback_bar.show_cell(self.board.hover_description)
        elif cell_panel and is_pointed:
            self.playback_bar.show_cell(cell_panel.caption, cell_panel.equation)
        else:
            self.playback_bar.show_cell()
        self.playback_bar.set_hint(HINT if self.docks.are_heatmaps_shown else OVERVIEW_HINT)
        self.provenance.setText(status.provenance)
        role = "warning badge" if "untrained" in status.provenance else "badge"
        if role != self.provenance.property("role"):
            self.provenance.setProperty("role", role)
            self.provenance.style().polish(self.provenance)
        self.provenance.setVisible(bool(status.provenance) and not is_covered)
        progress = (status.share, status.progress) if status.progress else ()
        self.progress.set_progress(status.is_working, self.theme, *progress)

    def update_commands(self) -> None:
        """Update which commands are enabled and which are checked."""
        state = window_state(self.controllers, self.scheme)
        self._had_weights = bool(state.screen.panel(TOKENS_PANEL).weights)
        self.actions_.show_state(state, self.theme)
        self.controllers.settings_controller.show_current_settings()

    def update_undo_commands(self) -> None:
        """Update only Undo and Redo, because the worker is waiting for this thread."""
        self.actions_.by_id["workspace.undo"].setEnabled(self.workspace.history.can_undo)
        self.actions_.by_id["workspace.redo"].setEnabled(self.workspace.history.can_redo)

    def show_document_name(self) -> None:
        """Show the document's name and whether the document is saved."""
        self.setWindowTitle(
            f"{self.controllers.document_controller.name}[*] — Attention Visualizer"
        )
        self.setWindowModified(not self.controllers.document_controller.is_saved)
        self.setWindowFilePath(str(self.controllers.document_controller.path or ""))
        self.update_commands()

    def show_unexpected_error(self, details: str) -> None:
        """Report an unexpected exception."""
        dialogs.show_exception(self, details)

    def update_pane_visibility(self, panes: frozenset[str]) -> None:
        self.workspace.change_view(panes=panes)

    def set_available_height(self, room: int) -> None:
        wanted = self.workspace.requested_view
        if room != wanted.room:
            self.workspace.change_view(room=room)

    def follow_system_colour_scheme(self) -> None:
        if self.scheme is ColourScheme.SYSTEM:
            self.reapply_scheme()

    def set_colour_scheme(self, scheme: str) -> None:
        """Set the colour scheme."""
        self.scheme = ColourScheme(scheme)
        self.theme = theme_of(self.scheme, self.controllers.presenter_mode.frame_width_scale)
        apply_theme(
            self, self.theme, create_style_sheet() + app_settings.reduced_motion_style_sheet()
        )
        self.controllers.reduced_motion_controller.apply()
        self.actions_.show_theme(self.theme)
        self.focus_ring.show_theme(self.theme)
        self.controllers.export_controller.show_theme(self.theme)
        self.controllers.start_page.show_theme(self.theme)
        app_settings.save_scheme(self.scheme)
        is_painting = self.updatesEnabled() and self.isVisible()
        if is_painting:  # repaint the whole window, but separately from the other updates
            self.setUpdatesEnabled(False)
            QTimer.singleShot(0, self, self._resume_painting)
        self.show_screen()

    def _resume_painting(self) -> None:
        self.setUpdatesEnabled(True)
        self.board.apply_pending_arrangement()

    def reapply_scheme(self) -> None:
        """Apply the colour scheme again after a change of the system's colours or style."""
        self.set_colour_scheme(self.scheme)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle Esc and the heatmaps' character keys, unless the focused widget handles them."""
        if is_escape(event):
            self.controllers.presenter_mode.leave_innermost_mode()
        elif not (handle_menu_shortcut(event) or self._handle_heatmap_key(event)):
            super().keyPressEvent(event)

    def _handle_heatmap_key(self, event: QKeyEvent) -> bool:
        """Handle a character key that fields and lists would have used for typing."""
        is_character = bool(event.text()) and event.text().isprintable()
        is_covered = self.controllers.start_page.page is not None or not self.board.isVisible()
        if not is_character or is_covered or has_command_modifier(event):
            return False
        keys = QKeySequence(event.keyCombination())
        return self.board.handle_head_key(event) or self.actions_.run_local_shortcut(keys)

    def apply_stored_text_size(self) -> None:
        """Apply the text size of the settings; leave presenter mode, which has its own size."""
        self.controllers.presenter_mode.leave_mode()
        before = DefaultPaneWidths.for_window(self)
        apply_interface_font(app_settings.load_text_size())
        self.reapply_scheme()
        self.docks.update_default_widths(before)

    def createPopupMenu(self) -> QMenu:
        """Return the context menu of the panes' titles and of the toolbars."""
        menu = QMenu(self)
        menu.addActions([*self.docks.actions.values()])
        add_separator(menu)
        menu.addAction(self.actions_.by_id["layout.reset"])
        return menu

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.docks.update_default_widths(DefaultPaneWidths(event.oldSize().width(), text_scale()))
        self.docks.adapt_to_window_width()
        self.settings_bar.show_panes_chip(self.docks.is_narrow)

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.controllers.may_close():
            event.ignore()
            return
        self.controllers.presenter_mode.leave_mode()  # so that the previous arrangement is saved
        self.docks.stop_opening_panes()
        app_settings.save_window(self, app_settings.MAIN_WINDOW)
        app_settings.save_last_file(self.controllers.document_controller.path)
        self.hide()
        for timer in (self._panes_later, self._drawn_later):
            timer.stop()
        self._drop_pending_screen()
        self.controllers.close()
        event.accept()
        self.closed.emit(self)


def _shows_long_text(screen: Screen) -> bool:
    """Return whether a screen shows a long text."""
    return screen.resolved is not None and screen.resolved.run.trace.is_blockwise


def _model_fingerprint(screen: Screen) -> str:
    """Return the fingerprint of the displayed model, or "" for a module."""
    model = screen.resolved.model_of_run if screen.resolved else None
    return model.fingerprint if model else ""


def _connect_signals(window: MainWindow) -> None:
    """Connect the window's widgets, workspace and controllers."""
    to, workspace, board = window.controllers, window.workspace, window.board
    to.connect_controllers(window.statusBar().showMessage, window.show_unexpected_error)
    to.connect_board()
    to.connect_settings_bar()
    window.notice.linkActivated.connect(to.setup_controller.apply_remedy)
    window.settings_bar.panes_chip.clicked.connect(window.docks.toggle_right_panes)
    window.settings_bar.leaveRequested.connect(board.setFocus)
    window.settings_bar.overviewRequested.connect(window.docks.show_centre_pane)
    to.mask_edit_controller.connect_bar(window.stroke_controller, window.mask_edit_bar)
    window.mask_edit_bar.finished.connect(board.setFocus)
    to.playback_controller.connect_bar(window.playback_bar)
    to.comparison_controller.connect_bar(window.compare_bar)
    to.view_controller.connect_bar(window.view_bar)
    board.pageChanged.connect(window.statusBar().showMessage)
    board.described.connect(window.show_caption_and_status)
    board.roomChanged.connect(window.set_available_height)
    board.painted.connect(window.painted)
    workspace.changed.connect(window.show_screen)
    workspace.drawn.connect(window.show_refined_results)
    workspace.changed.connect(to.document_controller.track_changes)  # after the screen is painted
    workspace.documentEdited.connect(window.update_undo_commands)
    to.document_controller.changed.connect(window.show_document_name)
    to.model_generation_controller.changed.connect(window.update_commands)
    to.export_controller.exporter.changed.connect(window.show_screen)
    to.reduced_motion_controller.changed.connect(window.reapply_scheme)
    to.settings_controller.schemeChosen.connect(window.set_colour_scheme)
    to.settings_controller.shortcutsChosen.connect(window.actions_.update_shortcuts)
    edit_shortcuts = window.actions_.by_id["shortcuts.edit"]
    to.settings_controller.shortcutsRequested.connect(edit_shortcuts.trigger)
    to.settings_controller.textSizeChosen.connect(window.apply_stored_text_size)
    to.presenter_mode.styleChanged.connect(window.reapply_scheme)
    to.presenter_mode.messageReported.connect(window.facts.setText)
    window.docks.changed.connect(window.update_pane_visibility)
    window.drop_handler.fileDropped.connect(to.document_controller.open)
    window.drop_handler.textDropped.connect(to.setup_controller.replace_text)
    to.start_page.painted.connect(window.painted)
    for changed in (to.start_page.opened, to.start_page.left):
        changed.connect(window.show_caption_and_status)
    actions = (window.actions_.by_id[id_] for id_ in START_PAGE_CLOSING_COMMANDS)
    for action in actions:
        action.triggered.connect(to.start_page.close_page)
    QApplication.styleHints().colorSchemeChanged.connect(window.follow_system_colour_scheme)
