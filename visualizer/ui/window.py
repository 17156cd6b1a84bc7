"""The window: it builds the panes, shows the screen, and hands every wish to the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow, QVBoxLayout, QWidget

from visualizer.attention.spec import Mode
from visualizer.state.cell import CELL
from visualizer.state.code.dialects import Dialect
from visualizer.state.compare.bar import COMPARISON
from visualizer.state.cursor import cell_of
from visualizer.state.lessons.pages import LESSON
from visualizer.state.painting import PAINTING
from visualizer.state.picture import PICTURE
from visualizer.state.playback.transport import PLAYBACK
from visualizer.state.present_screen import STATUS
from visualizer.state.rail import RAIL
from visualizer.state.setup import SETUP
from visualizer.state.tokens import TOKENS
from visualizer.ui import accessible, messages, motion, settings
from visualizer.ui.actions import Actions
from visualizer.ui.board import BoardView
from visualizer.ui.brush import HandBrush
from visualizer.ui.chooser import Chooser
from visualizer.ui.compare_bar import CompareBar
from visualizer.ui.comparer import Comparer
from visualizer.ui.drops import Drops
from visualizer.ui.entries import shortcuts
from visualizer.ui.filer import Filer
from visualizer.ui.focus import FocusRing
from visualizer.ui.gaze import Gaze
from visualizer.ui.icons import icon
from visualizer.ui.liner import Liner
from visualizer.ui.motion import Motion
from visualizer.ui.paintbar import PaintBar
from visualizer.ui.painter import MaskPainter
from visualizer.ui.panes import LEFT, PANES, Docks, add_bar
from visualizer.ui.parts import Parts
from visualizer.ui.player import Player
from visualizer.ui.pointer import Pointer
from visualizer.ui.presenter import Presenter
from visualizer.ui.progress import Progress
from visualizer.ui.publisher import ACTIONS, Publisher
from visualizer.ui.rail import Rail
from visualizer.ui.reader import Reader
from visualizer.ui.recents import Recents
from visualizer.ui.rescue import Rescue
from visualizer.ui.theme import Scheme, palette, style_sheet, theme_of
from visualizer.ui.transport import TransportBar
from visualizer.ui.typist import Typist
from visualizer.ui.viewbar import ViewBar
from visualizer.ui.wiring import connect

if TYPE_CHECKING:
    from PySide6.QtGui import QCloseEvent

    from visualizer.state.lessons.opened import OpenLessons
    from visualizer.ui.editor import Editor
    from visualizer.ui.inspector import Inspector
    from visualizer.ui.lesson import LessonPane
    from visualizer.ui.lines import LinePane
    from visualizer.ui.program import Program
    from visualizer.ui.shapes import ShapesPane
    from visualizer.ui.twin import TwinPane
    from visualizer.ui.workspace import Workspace


class Window(QMainWindow):
    """The program's window."""

    closed = Signal(object)
    labWanted = Signal()

    def __init__(self, workspace: Workspace, program: Program, lessons: OpenLessons) -> None:
        super().__init__()
        self.workspace = workspace
        self.scheme = settings.load_scheme()
        self.theme = theme_of(self.scheme)
        self.setWindowIcon(icon("app", "#000000"))
        self.rail, self.board, self.progress = Rail(), BoardView(), Progress()
        self.brush, self.paintbar = HandBrush(self.board), PaintBar()
        self.panes: dict[str, Any] = {pane.name: pane.make() for pane in PANES}
        self.editor: Editor = self.panes["Setup"]
        self.inspector: Inspector = self.panes["Cell"]
        self.lesson: LessonPane = self.panes["Lesson"]
        self.twin: TwinPane = self.panes["Code"]
        self.lines: LinePane = self.panes["Lines"]
        self.shapes: ShapesPane = self.panes["Shapes"]
        self._add_intents()
        self.filer, self.rescue, self.drops = (
            Filer(program, lessons, self),
            Rescue(self),
            Drops(self),
        )
        self._has_lesson = False
        self.facts, self.notice = QLabel(), QLabel()
        self.facts.setTextFormat(Qt.TextFormat.PlainText)  # tokens may look like tags
        self.statusBar().addWidget(self.facts, 1)
        self.statusBar().addPermanentWidget(self.publisher.saving)
        self.docks, self.actions_ = Docks(self, self.panes), Actions(self)
        self.viewbar = ViewBar({**self.actions_.by_key, **self.docks.actions})
        self.compare_bar = CompareBar(self.actions_.by_key)
        self.setCentralWidget(self._centre())
        self.reader = Reader(workspace, lessons, self.actions_.menus["&Lessons"], self)
        self.inspector.add_trail(*(self.actions_.by_key[f"pointer.go {by}"] for by in (-1, 1)))
        self.transport = TransportBar(self.actions_.by_key)
        add_bar(self, "Playback", self.transport, Qt.ToolBarArea.BottomToolBarArea)
        self._serve_keys()
        self.docks.add_to_menu(self.actions_.menu("&View>Pan&es"))
        self.recents = Recents(self.actions_.menu("&File>Open &recent"), self)
        self.motion = Motion(self)
        connect(self)
        self.set_scheme(self.scheme)
        self._take_place()
        self.show_name()

    def _add_intents(self) -> None:
        """Add what a hand can want, part by part; the actions name them."""
        self.player, self.pointer = Player(self.workspace, self), Pointer(self.workspace, self)
        self.typist, self.chooser = Typist(self.workspace, self), Chooser(self.workspace, self)
        self.liner = Liner(self.workspace, self)
        self.painter = MaskPainter(self.workspace, self.pointer, self)
        self.comparer = Comparer(self.workspace, self.pointer, self)
        self.gaze, self.presenter = Gaze(self.workspace, self), Presenter(self)
        self.publisher = Publisher(self.workspace, self)
        self.exporter = self.publisher.exporter

    def _serve_keys(self) -> None:
        """Have those who use no mouse, or see no screen, know where they are."""
        readers = (self.board, self.lines.view, *self.transport.readers)
        self.actions_.give_keys(*readers)
        self.voice = accessible.Voice(self.board, readers)
        self.focus_ring, self.parts = FocusRing(self), Parts(self)

    def _centre(self) -> QWidget:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.notice.setProperty("role", "notice")
        self.notice.setWordWrap(True)
        self.notice.setTextFormat(Qt.TextFormat.PlainText)
        bars = (self.rail, self.viewbar, self.paintbar, self.progress, self.notice)
        above = (*bars, self.compare_bar)
        for widget in (*above, self.board, self.presenter.sentence):
            column.addWidget(widget)
        return centre

    def _take_place(self) -> None:
        """Be where one was; at first, as large as is usual."""
        if not settings.restore_window(self):
            screen = self.screen().availableGeometry().size()
            self.resize(QSize(1280, 800).boundedTo(screen - QSize(8, 40)))  # less the frame
        self.docks.by_name["Lesson"].hide()
        self.actions_.enable("presenter.hide_all", False)

    def begin(self) -> None:
        """Do what can wait until there is a window to be seen."""
        self.reader.load()  # first, as beside the import of torch it would take its time
        self.workspace.start()
        self.board.setFocus()  # so that a first Space plays

    # ------------------------------------------------------------------ showing

    def show_screen(self) -> None:
        """Show the workspace's screen."""
        screen = self.workspace.screen
        shown = screen.panel(PICTURE)
        board = (shown.board, shown.cursor, shown.lights)
        self.board.show_board(*board, self.theme, shown.message)
        if self.workspace.screen is not screen:
            return  # its panels asked for another room, and what is newer has been shown
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
        self.progress.show_working(status.is_working, self.theme)
        readout = screen.panel(CELL)
        said = readout.plain if readout else status.facts
        self.facts.setText(said)
        self.notice.setText("\n".join(status.notices))
        self.notice.setVisible(bool(status.notices))
        self.voice.show_screen(screen)
        self.presenter.show_screen(screen, self.theme)
        self.actions_.show_screen(screen, self.theme)
        self.enable_changes()
        can_write = bool(shown.board.columns) and not self.exporter.is_working
        for action in ACTIONS:
            self.actions_.enable(action, can_write)
        has_code = can_write and not screen.panel(SETUP).captured
        self.actions_.enable("publisher.copy_script", has_code)
        self.twin.allow_copying(has_code)

    def enable_changes(self) -> None:
        """Let be undone and kept what can be."""
        workspace = self.workspace
        self.actions_.enable("workspace.undo", workspace.can_undo)
        self.actions_.enable("workspace.redo", workspace.can_redo)
        self.actions_.enable("workspace.keep_weights", workspace.can_keep_weights)

    def _open_lesson(self, has_lesson: bool) -> None:
        if has_lesson != self._has_lesson:  # its pane comes and goes with it
            self._has_lesson = has_lesson
            self.docks.by_name["Lesson"].setVisible(has_lesson)
            self.docks.share_height(LEFT)

    def show_name(self) -> None:
        """Show which document it is, and whether it is saved."""
        self.setWindowTitle(f"{self.filer.name}[*] — Attention Visualizer")
        self.setWindowModified(not self.filer.is_saved)
        self.setWindowFilePath(str(self.filer.path or ""))
        self.actions_.check("filer.toggle_numbers", self.filer.keeps_numbers)

    def show_bug(self, details: str) -> None:
        """Say that something broke."""
        messages.show_bug(self, details)

    def choose(self, name: str, value: object, going_on: bool) -> None:
        if name == "own_mask":
            self.workspace.write_mask(str(value))
        else:
            is_switch = isinstance(value, bool)  # which shows by itself whether it is on
            self.workspace.set(name, value, going_on=going_on, is_seen=is_switch)

    def see_panes(self, panes: frozenset[str]) -> None:
        self.workspace.look(panes=panes)

    def make_room(self, room: int) -> None:
        self.workspace.look(room=room)

    def go_to_stage(self, stage: str) -> None:
        if any(item.is_current for item in self.workspace.screen.panel(RAIL)):
            self.player.seek_stage(stage)  # while playing, panels come and go by themselves
        else:
            self.workspace.toggle_stage(stage)

    def show_stage(self, stage: str) -> None:
        """Have a stage in sight, in the picture that is there."""
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
            self.set_scheme(self.scheme)

    # ------------------------------------------------------------------ actions

    def edit_sentence(self) -> None:
        self.editor.sentence.setFocus()
        self.editor.sentence.selectAll()

    def toggle_mask(self) -> None:
        is_causal = self.workspace.document.get("causal")
        self.workspace.set("causal", not is_causal, is_seen=True)

    def toggle_mode(self) -> None:
        trains = self.workspace.document.spec.mode is Mode.TRAIN
        self.workspace.set("mode", Mode.EVAL if trains else Mode.TRAIN)

    def find_token(self) -> None:
        self.docks.by_name["Setup"].show()
        self.editor.token_pane.open_search()
        self.editor.ensureWidgetVisible(self.editor.token_pane)

    def open_settings(self) -> None:
        self.editor.open_more()

    def step_text(self, step: int) -> None:
        self.workspace.show_text(self.workspace.screen.panel(TOKENS).text + step)

    def set_dialect(self, dialect: str) -> None:
        self.workspace.look(dialect=Dialect(dialect))

    def set_scheme(self, scheme: str) -> None:
        """Change the colours of everything."""
        self.scheme = Scheme(scheme)
        self.theme = theme_of(self.scheme, self.presenter.stroke)
        QApplication.setPalette(palette(self.theme))
        self.setStyleSheet(style_sheet(self.theme) + motion.style_sheet())
        self.motion.apply()
        self.actions_.show_theme(self.theme)
        self.focus_ring.show_theme(self.theme)
        self.actions_.check(f"set_scheme {self.scheme}")
        settings.save_scheme(self.scheme)
        self.show_screen()

    def show_shortcuts(self) -> None:
        messages.show_shortcuts(self, shortcuts())

    def show_about(self) -> None:
        messages.show_about(self)

    def closeEvent(self, event: QCloseEvent) -> None:
        if not all(part.may_close(self.close) for part in (self.publisher, self.filer)):
            event.ignore()
            return
        self.presenter.leave()  # what is remembered is how it was before
        settings.save_window(self)
        settings.save_last(self.filer.path)
        self.hide()
        self.player.stop()
        for part in (self.publisher, self.filer, self.workspace):
            part.close()
        event.accept()
        self.closed.emit(self)
