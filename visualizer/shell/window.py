"""The main window: builds the widgets and controllers, connects them and shows screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QApplication, QMainWindow, QVBoxLayout, QWidget

from visualizer.export.export_controller import ExportController
from visualizer.features.cell.model import CELL
from visualizer.features.comparison_bar.controller import ComparisonController
from visualizer.features.comparison_bar.model import COMPARISON
from visualizer.features.comparison_bar.widget import CompareBar
from visualizer.features.lessons.controller import LessonController
from visualizer.features.lessons.model import LESSON
from visualizer.features.mask_editor.controller import MaskEditController
from visualizer.features.mask_editor.model import PAINTING
from visualizer.features.mask_editor.widget import MaskBrushHandler, MaskEditBar
from visualizer.features.playback.controller import PlaybackController
from visualizer.features.playback.model import PLAYBACK
from visualizer.features.playback.widget import PlaybackBar
from visualizer.features.setup.controller import SetupController
from visualizer.features.setup.model import SETUP
from visualizer.features.stage_bar.model import RAIL
from visualizer.features.stage_bar.widget import StageBar
from visualizer.features.tokens.controller import TokenSelectionController
from visualizer.features.tokens.model import TOKENS
from visualizer.features.tokens.widget import TokenPane
from visualizer.features.view_controls.controller import ViewController
from visualizer.features.view_controls.widget import ViewBar
from visualizer.heatmap.board_picture import PICTURE
from visualizer.heatmap.controller import CellSelectionController
from visualizer.heatmap.cursor import cell_of
from visualizer.heatmap.widget import BoardView
from visualizer.shell import announcements
from visualizer.shell.autosave_controller import RecoveryPrompt
from visualizer.shell.commands import (
    COMMANDS,
    LESSONS,
    OPEN_PANES,
    RECENT,
    Controllers,
    WindowState,
)
from visualizer.shell.document_controller import DocumentController
from visualizer.shell.drop_handler import DropHandler
from visualizer.shell.pane_connections import PaneControllers
from visualizer.shell.panel_table import STATUS
from visualizer.shell.panes import LEFT, PaneDocks, PaneFocusCycle, add_bar
from visualizer.shell.presenter_mode import PresenterMode
from visualizer.shell.recent_files_menu import RecentFilesMenu
from visualizer.shell.reduced_motion_controller import ReducedMotionController
from visualizer.widgets import app_settings, dialogs
from visualizer.widgets.command_menus import CommandMenus
from visualizer.widgets.focus_ring import FocusRing
from visualizer.widgets.icons import icon
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.progress_line import ProgressLine
from visualizer.widgets.theme import Scheme, palette, style_sheet, theme_of

if TYPE_CHECKING:
    from PySide6.QtGui import QCloseEvent

    from visualizer.features.cell.widget import CellPane
    from visualizer.features.code.widget import CodePane
    from visualizer.features.lessons.open_lessons import OpenLessons
    from visualizer.features.lessons.widget import LessonPane
    from visualizer.features.line_view.widget import LinePane
    from visualizer.features.setup.widget import SetupPane
    from visualizer.features.shapes.widget import ShapesPane
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_controller import WindowOn
    from visualizer.shell.panes import Pane
    from visualizer.shell.window_services import Services


class MainWindow(QMainWindow):
    """The main window on one document."""

    closed = Signal(object)
    labWanted = Signal()

    def __init__(
        self,
        workspace: Workspace,
        program: Services,
        lessons: OpenLessons,
        window_on: WindowOn,
    ) -> None:
        super().__init__()
        self.workspace = workspace
        self.scheme = app_settings.load_scheme()
        self.theme = theme_of(self.scheme)
        self.setWindowIcon(icon("app", "#000000"))
        self.rail, self.board, self.progress = StageBar(), BoardView(), ProgressLine()
        self.brush, self.paintbar = MaskBrushHandler(self.board), MaskEditBar()
        self.token_pane = TokenPane()
        self.filer = DocumentController(program, workspace, lessons, self, window_on)
        self.rescue, self.drops = RecoveryPrompt(self), DropHandler(self)
        self._add_intents()
        self._has_lesson = False
        self.facts, self.notice = PlainLabel(), PlainLabel()
        self.statusBar().addWidget(self.facts, 1)
        self.statusBar().addPermanentWidget(self.publisher.saving)
        self.actions_ = CommandMenus(self, COMMANDS)
        self.reader = LessonController(workspace, lessons, self.actions_.menus[LESSONS], self)
        self.voice = announcements.ScreenAnnouncer(self.board)
        self._shared = self._pane_controllers()
        self.docks = PaneDocks(self, self._finish_pane)
        self.panes = self.docks.panes
        self.editor: SetupPane = self.panes["Setup"]
        self.editor.add_section(self.token_pane)
        self.inspector: CellPane = self.panes["Cell"]
        self.twin: CodePane = self.panes["Code"]
        self.presenter = PresenterMode(workspace, self, self.docks, self.board)
        self.viewbar = ViewBar({**self.actions_.by_id, **self.docks.actions})
        self.compare_bar = CompareBar(self.actions_.by_id)
        self.setCentralWidget(self._centre())
        self.inspector.add_trail(*(self.actions_.by_id[f"pointer.go {by}"] for by in (-1, 1)))
        self.transport = PlaybackBar(self.actions_.by_id)
        add_bar(self, "Playback", "Playback", self.transport, Qt.ToolBarArea.BottomToolBarArea)
        self._serve_keys()
        self.docks.add_to_menu(self.actions_.menu(OPEN_PANES))
        self.recents = RecentFilesMenu(self.actions_.menu(RECENT), self)
        self.motion = ReducedMotionController(self)
        self.actions_.act_on(self._controllers())
        _connect(self)
        self.set_scheme(self.scheme)
        self._take_place()
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
        """Connect a pane that has just been made, and show the current screen in it."""
        pane.connect(widget, self._shared)
        widget.show_screen(self.workspace.screen, self.theme)

    def read_in(self, *widgets: QWidget) -> None:
        """Serve the heatmaps' shortcuts and announce cells where one of these has the focus."""
        self.actions_.give_keys(*widgets)
        self.voice.add_readers(*widgets)

    def _add_intents(self) -> None:
        """Create the controllers that commands and signals act on."""
        self.player, self.pointer = (
            PlaybackController(self.workspace, self),
            CellSelectionController(self.workspace, self),
        )
        self.chooser = TokenSelectionController(self.workspace, self)
        self.painter = MaskEditController(self.workspace, self.pointer, self)
        self.comparer = ComparisonController(self.workspace, self.pointer, self)
        self.gaze, self.setup = (
            ViewController(self.workspace, self),
            SetupController(self.workspace, self),
        )
        self.publisher = ExportController(self.workspace, self, self.filer.figure_title)
        self.exporter = self.publisher.exporter

    def _serve_keys(self) -> None:
        """Set up the focus ring, the focus cycle and the announcements."""
        self.read_in(self.board, *self.transport.readers)
        bars = (self.rail, self.viewbar, self.paintbar, self.compare_bar)
        self.parts = PaneFocusCycle((self.board, self.transport), self.panes, self.docks, bars)
        self.focus_ring = FocusRing(self)

    def _controllers(self) -> Controllers:
        return Controllers(
            window=self,
            workspace=self.workspace,
            filer=self.filer,
            recents=self.recents,
            publisher=self.publisher,
            editor=self.editor,
            setup=self.setup,
            inspector=self.inspector,
            panes=self.panes,
            pointer=self.pointer,
            chooser=self.chooser,
            painter=self.painter,
            player=self.player,
            comparer=self.comparer,
            gaze=self.gaze,
            reader=self.reader,
            parts=self.parts,
            presenter=self.presenter,
            motion=self.motion,
            find_token=self.find_token,
            set_scheme=self.set_scheme,
            open_lab=self.labWanted.emit,
        )

    def _pane_controllers(self) -> PaneControllers:
        return PaneControllers(
            workspace=self.workspace,
            setup=self.setup,
            pointer=self.pointer,
            gaze=self.gaze,
            reader=self.reader,
            publisher=self.publisher,
            show_stage=self.show_stage,
            walk=self.walk,
            read_in=self.read_in,
        )

    def _centre(self) -> QWidget:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.notice.setProperty("role", "notice")
        self.notice.setWordWrap(True)
        bars = (self.rail, self.viewbar, self.paintbar, self.progress, self.notice)
        above = (*bars, self.compare_bar)
        for widget in (*above, self.board, self.presenter.sentence):
            column.addWidget(widget)
        return centre

    def _take_place(self) -> None:
        """Restore the window's place; use a default size at first."""
        if not app_settings.restore_window(self, app_settings.MAIN_WINDOW):
            screen = self.screen().availableGeometry().size()
            self.resize(QSize(1280, 800).boundedTo(screen - QSize(8, 40)))  # minus the window frame
        self.docks.by_id["Lesson"].hide()

    def begin(self) -> None:
        """Start what can wait until the window is visible."""
        self.reader.load()  # first, as it would be slow beside the import of torch
        self.workspace.start()
        self.board.setFocus()  # so that Space plays at once

    # ------------------------------------------------------------------ showing

    def show_screen(self) -> None:
        """Show the workspace's screen."""
        screen = self.workspace.screen
        shown = screen.panel(PICTURE)
        board = (shown.board, shown.cursor, shown.lights)
        self.board.show_board(*board, self.theme, shown.message)
        if self.workspace.screen is not screen:
            return  # its panels asked for another room, and a newer screen has been shown
        painting, status = screen.panel(PAINTING), screen.panel(STATUS)
        self.brush.show_painting(painting)
        self.board.paint_now()
        self.rail.show_items(screen.panel(RAIL), self.theme)
        self.viewbar.show_screen(screen, self.theme)
        self.paintbar.show_painting(painting)
        self.compare_bar.show_comparison(screen.panel(COMPARISON))
        self.transport.show_transport(screen.panel(PLAYBACK), self.theme)
        self._open_lesson(screen.panel(LESSON) is not None)
        for pane in self.panes.values():
            pane.show_screen(screen, self.theme)
        self.token_pane.show_tokens(screen.panel(TOKENS), self.theme)
        self.progress.show_working(status.is_working, self.theme)
        readout = screen.panel(CELL)
        said = readout.plain if readout else status.facts
        if "Lines" in self.panes:
            self.lines.describe_cell(readout.plain if readout else "")
        self.facts.setText(said)
        self.notice.setText("\n".join(status.notices))
        self.notice.setVisible(bool(status.notices))
        self.voice.show_screen(screen)
        self.presenter.show_screen(screen, self.theme)
        self.show_commands()

    def show_commands(self) -> None:
        """Update which commands are enabled and checked."""
        state = self._state()
        self.actions_.show_state(state, self.theme)
        self.twin.allow_copying(state.can_copy_script)

    def _state(self) -> WindowState:
        screen = self.workspace.screen
        can_export = bool(screen.panel(PICTURE).board.columns) and not self.exporter.is_working
        return WindowState(
            screen,
            self.workspace.document,
            self.workspace.view,
            self.scheme,
            can_undo=self.workspace.can_undo,
            can_redo=self.workspace.can_redo,
            can_keep_weights=self.workspace.can_keep_weights,
            can_export=can_export,
            can_copy_script=can_export and not screen.panel(SETUP).captured,
            keeps_numbers=self.filer.keeps_numbers,
            is_presenting=self.presenter.is_on,
            is_motion_reduced=self.motion.is_on,
        )

    def _open_lesson(self, has_lesson: bool) -> None:
        if has_lesson != self._has_lesson:  # its pane is visible only while one is open
            self._has_lesson = has_lesson
            self.docks.by_id["Lesson"].setVisible(has_lesson)
            self.docks.share_height(LEFT)

    def show_name(self) -> None:
        """Show the document's name and whether it is saved."""
        self.setWindowTitle(f"{self.filer.name}[*] — Attention Visualizer")
        self.setWindowModified(not self.filer.is_saved)
        self.setWindowFilePath(str(self.filer.path or ""))
        self.actions_.show_state(self._state(), self.theme)

    def show_bug(self, details: str) -> None:
        """Report an unexpected exception."""
        dialogs.show_bug(self, details)

    def see_panes(self, panes: frozenset[str]) -> None:
        self.workspace.look(panes=panes)

    def make_room(self, room: int) -> None:
        self.workspace.look(room=room)

    def go_to_stage(self, stage: str) -> None:
        if any(item.is_current for item in self.workspace.screen.panel(RAIL)):
            self.player.seek_stage(stage)  # during playback, the panels shown follow the step
        else:
            self.workspace.toggle_stage(stage)

    def show_stage(self, stage: str) -> None:
        """Scroll a stage into view, showing its panels if needed."""
        rail = self.workspace.screen.panel(RAIL)
        if any(item.stage == stage and not item.is_shown for item in rail):
            self.go_to_stage(stage)
        panels = self.workspace.screen.panel(PICTURE).board.heatmaps
        for panel in [panel for panel in panels if panel.stage == stage][:1]:
            self.board.reveal(cell_of(panel, panel.rows.seen[0], panel.columns.seen[0]))

    def walk(self, down: int, right: int) -> None:
        screen = self.workspace.screen
        resolved = screen.resolved
        if resolved and resolved.step_cell and not resolved.reached_pinned:
            self.player.step(right) if right else self.player.skip(down)
            return
        self.pointer.walk(down, right)

    def follow_system(self) -> None:
        if self.scheme is Scheme.SYSTEM:
            self.restyle()

    # ------------------------------------------------------------------ actions

    def find_token(self) -> None:
        self.docks.by_id["Setup"].show()
        self.token_pane.open_search()
        self.editor.ensureWidgetVisible(self.token_pane)

    def set_scheme(self, scheme: str) -> None:
        """Set the colour scheme."""
        self.scheme = Scheme(scheme)
        self.theme = theme_of(self.scheme, self.presenter.stroke)
        QApplication.setPalette(palette(self.theme))
        self.setStyleSheet(style_sheet(self.theme) + app_settings.style_sheet())
        self.motion.apply()
        self.actions_.show_theme(self.theme)
        self.focus_ring.show_theme(self.theme)
        self.publisher.show_theme(self.theme)
        app_settings.save_scheme(self.scheme)
        self.show_screen()

    def restyle(self) -> None:
        """Apply the colour scheme again, after the system's colours or the style have changed."""
        self.set_scheme(self.scheme)

    def closeEvent(self, event: QCloseEvent) -> None:
        if not all(part.may_close(self.close) for part in (self.publisher, self.filer)):
            event.ignore()
            return
        self.presenter.leave()  # what is saved is the arrangement before it
        app_settings.save_window(self, app_settings.MAIN_WINDOW)
        app_settings.save_last(self.filer.path)
        self.hide()
        self.player.stop()
        for part in (self.publisher, self.filer, self.workspace):
            part.close()
        event.accept()
        self.closed.emit(self)


# ----------------------------------------------------------- connections


def _connect(window: MainWindow) -> None:
    """Connect widget signals to controllers."""
    _connect_state(window)
    _connect_files(window)
    _connect_tokens(window)
    _connect_board(window)
    _connect_playback(window)
    _connect_painting(window)
    QApplication.styleHints().colorSchemeChanged.connect(window.follow_system)


def _connect_state(window: MainWindow) -> None:
    window.workspace.changed.connect(window.show_screen)
    window.workspace.edited.connect(window.show_commands)
    window.workspace.broke.connect(window.show_bug)
    exporter = window.exporter
    exporter.said.connect(window.statusBar().showMessage)
    exporter.changed.connect(window.show_screen)
    window.publisher.broke.connect(window.show_bug)
    window.motion.changed.connect(window.restyle)
    window.docks.changed.connect(window.see_panes)


def _connect_files(window: MainWindow) -> None:
    filer, drops = window.filer, window.drops
    filer.changed.connect(window.show_name)
    filer.said.connect(window.statusBar().showMessage)
    filer.broke.connect(window.show_bug)
    filer.lessonLeft.connect(window.reader.close)
    filer.keeper.found.connect(window.rescue.offer)
    window.rescue.recovered.connect(filer.take_recovered)
    filer.keeper.broke.connect(window.show_bug)
    filer.settled.connect(window.recents.remember)
    window.recents.chosen.connect(filer.open)
    drops.fileDropped.connect(filer.open)
    drops.textDropped.connect(window.editor.take_text)


def _connect_tokens(window: MainWindow) -> None:
    pane, chooser = window.token_pane, window.chooser
    pane.strip.chose.connect(chooser.choose)
    pane.roleChosen.connect(chooser.set_role)
    pane.sought.connect(chooser.seek)
    pane.stepped.connect(chooser.go)
    chooser.wanted.connect(window.board.reveal)


def _connect_board(window: MainWindow) -> None:
    board, pointer = window.board, window.pointer
    board.cellHovered.connect(pointer.hover)
    board.cellClicked.connect(pointer.pin)
    board.walked.connect(window.walk)
    board.leadingPointed.connect(window.gaze.look_at_leading)
    board.zoomed.connect(window.gaze.zoom_at)
    board.dragged.connect(window.gaze.drag)
    board.minimap.centred.connect(window.gaze.centre)
    board.roomChanged.connect(window.make_room)
    bar, gaze = window.viewbar, window.gaze
    bar.layoutChosen.connect(gaze.arrange)
    bar.headToggled.connect(gaze.toggle_head)
    bar.headAlone.connect(gaze.solo_clicked_head)
    window.rail.stageToggled.connect(window.go_to_stage)
    window.rail.stageAlone.connect(window.gaze.stage_alone)
    window.compare_bar.headsChosen.connect(window.comparer.choose_heads)
    window.compare_bar.countChosen.connect(window.comparer.choose_count)


def _connect_playback(window: MainWindow) -> None:
    transport, player = window.transport, window.player
    transport.sought.connect(player.seek)
    transport.stepped.connect(player.step)
    transport.skipped.connect(player.skip)
    transport.grainChosen.connect(player.set_grain)
    transport.speedChosen.connect(player.set_speed)
    transport.questionChosen.connect(player.ask)
    presenter = window.presenter
    presenter.styleChanged.connect(window.restyle)
    presenter.paintingLeft.connect(window.painter.stop)
    presenter.cellLeft.connect(window.pointer.let_go)
    presenter.said.connect(window.facts.setText)


def _connect_painting(window: MainWindow) -> None:
    brush, bar, painter = window.brush, window.paintbar, window.painter
    brush.begun.connect(painter.begin)
    brush.swept.connect(painter.sweep)
    brush.ended.connect(painter.end)
    brush.extended.connect(painter.extend)
    brush.left.connect(painter.stop)
    bar.brushChosen.connect(painter.start_from)
    bar.numberChosen.connect(painter.set_number)
    bar.settled.connect(painter.end)
    bar.left.connect(painter.stop)
    bar.left.connect(window.board.setFocus)
