"""The window: it builds the panes, shows the screen, and hands every wish to the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QFileDialog,
    QLabel,
    QMainWindow,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from visualizer.attention.spec import Mode
from visualizer.state.code.dialects import Dialect
from visualizer.state.view import ColourScale
from visualizer.ui import messages, settings
from visualizer.ui.actions import Actions
from visualizer.ui.board import BoardView
from visualizer.ui.docks import add_bar, add_dock, add_to_menu
from visualizer.ui.editor import Editor
from visualizer.ui.exports import FILTERS, Exporter, named
from visualizer.ui.icons import icon
from visualizer.ui.inspector import Inspector
from visualizer.ui.lesson import LessonPane
from visualizer.ui.player import Player
from visualizer.ui.progress import Progress
from visualizer.ui.rail import Rail
from visualizer.ui.reader import Reader
from visualizer.ui.theme import Scheme, palette, style_sheet, theme_of
from visualizer.ui.transport import TransportBar
from visualizer.ui.twin import TwinPane

if TYPE_CHECKING:
    from PySide6.QtGui import QCloseEvent

    from visualizer.state.lessons.pages import LessonPanel
    from visualizer.ui.workspace import Workspace


LESSON_AND_SETUP = [430, 220]
"""How they share the height of the window."""


class Window(QMainWindow):
    """The program's window."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.scheme = settings.load_scheme()
        self.theme = theme_of(self.scheme)
        self.setWindowTitle("Attention Visualizer")
        self.setWindowIcon(icon("app", "#000000"))
        self.rail, self.board, self.progress = Rail(), BoardView(), Progress()
        self.editor, self.inspector, self.twin = Editor(), Inspector(), TwinPane()
        self.lesson = LessonPane()
        self.player = Player(workspace, self)
        self._lesson: LessonPanel | None = None
        self.facts, self.notice = QLabel(), QLabel()
        self.exporter = Exporter(self)
        self.setCentralWidget(self._centre())
        self._docks = self._add_docks()
        self.facts.setTextFormat(Qt.TextFormat.PlainText)  # tokens may look like tags
        self.statusBar().addWidget(self.facts, 1)
        self.actions_ = Actions(self)
        self.reader = Reader(workspace, self.actions_.menus["&Lessons"], self)
        self.inspector.add_trail(*(self.actions_.by_key[f"workspace.go {by}"] for by in (-1, 1)))
        self.transport = TransportBar(self.actions_.by_key)
        add_bar(self, "Playback", self.transport, Qt.ToolBarArea.BottomToolBarArea)
        self.actions_.give_keys(self.board, *self.transport.readers)
        add_to_menu(self._docks, self.actions_.menus["&View"])
        self._connect()
        self.set_scheme(self.scheme)
        if not settings.restore_window(self):
            screen = self.screen().availableGeometry().size()
            self.resize(QSize(1280, 800).boundedTo(screen - QSize(8, 40)))  # less the frame
        self._docks[0].hide()

    def _centre(self) -> QWidget:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.notice.setProperty("role", "notice")
        self.notice.setWordWrap(True)
        self.notice.setTextFormat(Qt.TextFormat.PlainText)
        for widget in (self.rail, self.progress, self.notice, self.board):
            column.addWidget(widget)
        return centre

    def _add_docks(self) -> list[QDockWidget]:
        left, right = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
        places = (
            ("Lesson", self.lesson, left),
            ("Setup", self.editor, left),
            ("Cell", self.inspector, right),
            ("Code", self.twin, right),
        )
        made = [add_dock(self, *place) for place in places]
        self.resizeDocks(made, [264, 248, 264, 264], Qt.Orientation.Horizontal)
        self.resizeDocks(made[2:], [360, 280], Qt.Orientation.Vertical)
        return made

    def _connect(self) -> None:
        workspace, editor, board = self.workspace, self.editor, self.board
        workspace.changed.connect(self.show_screen)
        workspace.broke.connect(self.show_bug)
        self.exporter.said.connect(self.statusBar().showMessage)
        self.exporter.refused.connect(self._refuse_export)
        self.exporter.broke.connect(self.show_bug)
        self.exporter.changed.connect(self.show_screen)
        editor.textTyped.connect(workspace.set_text)
        editor.textTooLong.connect(workspace.refuse_text)
        editor.chosen.connect(self._choose)
        editor.settled.connect(workspace.seal)
        editor.remedied.connect(workspace.remedy)
        editor.textStepped.connect(self.step_text)
        self.rail.stageToggled.connect(self._go_to_stage)
        board.cellHovered.connect(workspace.hover)
        board.cellClicked.connect(workspace.pin)
        self.inspector.followed.connect(workspace.follow)
        board.walked.connect(self._walk)
        board.roomChanged.connect(self._make_room)
        transport, player = self.transport, self.player
        transport.sought.connect(player.seek)
        transport.stepped.connect(player.step)
        transport.skipped.connect(player.skip)
        transport.grainChosen.connect(player.set_grain)
        transport.speedChosen.connect(player.set_speed)
        transport.questionChosen.connect(player.ask)
        self.lesson.stepped.connect(self.reader.step)
        self.lesson.returned.connect(self.reader.back)
        self.lesson.closed.connect(self.reader.close)
        self.twin.dialectChosen.connect(self.set_dialect)
        self.twin.scriptWanted.connect(self.copy_script)
        styles = QApplication.styleHints()
        styles.colorSchemeChanged.connect(self._follow_system)

    def begin(self) -> None:
        """Do what can wait until there is a window to be seen."""
        self.reader.load()  # first, as beside the import of torch it would take its time
        self.workspace.start()
        self.board.setFocus()  # so that a first Space plays

    # ------------------------------------------------------------------ showing

    def show_screen(self) -> None:
        """Show the workspace's screen."""
        screen = self.workspace.screen
        board = (screen.board, screen.cursor, screen.lights)
        self.board.show_board(*board, self.theme, screen.message)
        if self.workspace.screen is not screen:
            return  # its panels asked for another room, and what is newer has been shown
        self.editor.show_setup(screen, self.theme)
        self.rail.show_items(screen.rail, self.theme)
        self.transport.show_transport(screen.stand.transport, self.theme)
        self.inspector.show_readout(screen.readout, self.theme)
        self.twin.show_twin(screen.twin, self.theme, can_copy=not self.exporter.is_working)
        self._show_lesson(screen.lesson)
        self.progress.show_working(screen.status.is_working, self.theme)
        said = screen.readout.plain if screen.readout else screen.status.facts
        self.facts.setText(said)
        self.notice.setText("\n".join(screen.status.notices))
        self.notice.setVisible(bool(screen.status.notices))
        self.board.setAccessibleDescription(said)
        self.actions_.show_screen(screen, self.workspace.document, self.workspace.view, self.theme)
        can_write = bool(screen.board.columns) and not self.exporter.is_working
        self.actions_.enable("export", can_write)
        self.actions_.enable("copy_script", can_write)

    def _show_lesson(self, lesson: LessonPanel | None) -> None:
        if (lesson is None) != (self._lesson is None):  # its pane comes and goes with it
            dock = self._docks[0]
            dock.setVisible(lesson is not None)
            self.resizeDocks(self._docks[:2], LESSON_AND_SETUP, Qt.Orientation.Vertical)
        self._lesson = lesson
        self.lesson.show_lesson(lesson, self.theme)

    def show_bug(self, details: str) -> None:
        """Say that something broke."""
        messages.show_bug(self, details)

    def _choose(self, name: str, value: object, going_on: bool) -> None:
        if name == "own_mask":
            self.workspace.write_mask(str(value))
        else:
            self.workspace.set(name, value, going_on=going_on)

    def _make_room(self, room: int) -> None:
        self.workspace.look(room=room)

    def _go_to_stage(self, stage: str) -> None:
        if any(item.is_current for item in self.workspace.screen.rail):
            self.player.seek_stage(stage)  # while playing, panels come and go by themselves
        else:
            self.workspace.toggle_stage(stage)

    def _walk(self, down: int, right: int) -> None:
        screen = self.workspace.screen
        if screen.stand.cell and not screen.cursor.pinned:
            self.player.step(right) if right else self.player.skip(down)
            return
        self.workspace.walk(down, right)

    def _follow_system(self) -> None:
        if self.scheme is Scheme.SYSTEM:
            self.set_scheme(self.scheme)

    # ------------------------------------------------------------------ actions

    def let_go(self) -> None:
        self.workspace.pin(None)

    def edit_sentence(self) -> None:
        self.editor.sentence.setFocus()
        self.editor.sentence.selectAll()

    def toggle_mask(self) -> None:
        self.workspace.set("causal", not self.workspace.document.get("causal"))

    def toggle_mode(self) -> None:
        trains = self.workspace.document.spec.mode is Mode.TRAIN
        self.workspace.set("mode", Mode.EVAL if trains else Mode.TRAIN)

    def open_settings(self) -> None:
        self.editor.open_more()

    def step_text(self, step: int) -> None:
        self.workspace.show_text(self.workspace.screen.tokens.text + step)

    def set_map(self, name: str) -> None:
        self.workspace.look(sequential=name)

    def set_scale(self, scale: str) -> None:
        self.workspace.look(scale=ColourScale(scale))

    def set_dialect(self, dialect: str) -> None:
        self.workspace.look(dialect=Dialect(dialect))

    def copy_script(self) -> None:
        """Put a script that rebuilds the numbers on the clipboard."""
        if self.workspace.run:
            self.exporter.ask_for_script(self.workspace.run, self.workspace.view.dialect)

    def set_scheme(self, scheme: str) -> None:
        """Change the colours of everything."""
        self.scheme = Scheme(scheme)
        self.theme = theme_of(self.scheme)
        QApplication.setPalette(palette(self.theme))
        self.setStyleSheet(style_sheet(self.theme))
        self.actions_.show_theme(self.theme)
        self.actions_.check(f"set_scheme {self.scheme}")
        settings.save_scheme(self.scheme)
        self.show_screen()

    def export(self) -> None:
        """Ask for a file and write what is shown, or its numbers, into it."""
        start = str(Path.home() / "attention.png")
        name, chosen = QFileDialog.getSaveFileName(self, "Export", start, FILTERS)
        if name and self.workspace.run:
            path = named(name, chosen)
            self.exporter.ask(path, self.workspace.run, self.workspace.screen.board)

    def _refuse_export(self, sentence: str) -> None:
        QMessageBox.warning(self, "Not written", sentence)

    def show_shortcuts(self) -> None:
        messages.show_shortcuts(self)

    def show_about(self) -> None:
        messages.show_about(self)

    def closeEvent(self, event: QCloseEvent) -> None:
        settings.save_window(self)
        self.hide()
        self.player.stop()
        self.exporter.close()
        self.workspace.close()
        event.accept()
