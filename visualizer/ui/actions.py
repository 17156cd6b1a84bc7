"""Everything the program can do, as a table; menus and shortcuts come from it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow, QMenu, QWidget

    from visualizer.state.document import Document
    from visualizer.state.screen import Screen
    from visualizer.state.view import View
    from visualizer.ui.theme import Theme

from visualizer.attention.spec import Mode
from visualizer.ui.icons import icon
from visualizer.ui.panes import PANES


@dataclass(frozen=True, slots=True)
class Entry:
    """One action.

    Parameters
    ----------
    name : str
        The method that does it: of the window, or of one of its parts (``player.toggle``).
    arguments : tuple
        What the method is called with.
    group : str
        Actions of which one is chosen share a group.
    divides : bool
        Whether a line stands before it in the menu.
    ticks : bool
        Whether it is something that is on or off.
    near : bool
        Whether its keys work only at the heatmaps and the track, as others type with them.
    """

    menu: str
    words: str
    name: str
    keys: tuple[str, ...] = ()
    arguments: tuple[object, ...] = ()
    group: str = ""
    icon: str = ""
    divides: bool = False
    ticks: bool = False
    near: bool = False

    @property
    def key(self) -> str:
        """The action's own name: its method and arguments."""
        return " ".join((self.name, *map(str, self.arguments)))


# fmt: off
ENTRIES: tuple[Entry, ...] = (
    Entry("&File", "&Export picture or numbers…", "export", ("Ctrl+E",), icon="export"),
    Entry("&File", "&Quit", "close", ("Ctrl+Q",), divides=True),
    Entry("&Edit", "&Undo", "workspace.undo", ("Ctrl+Z",), icon="undo"),
    Entry("&Edit", "&Redo", "workspace.redo", ("Ctrl+Shift+Z", "Ctrl+Y"), icon="redo"),
    Entry("&Edit", "&Copy cell", "inspector.copy", ("Ctrl+Shift+C",), icon="copy", divides=True),
    Entry("&Edit", "Copy as scri&pt", "copy_script", ("Ctrl+Alt+C",)),
    Entry("&Edit", "&Let go of the pinned cell", "pointer.let_go", ("Ctrl+Shift+P",), icon="pin"),
    Entry("&Edit", "Edit the &sentence", "edit_sentence", ("Ctrl+L",), divides=True),
    Entry("&Module", "Causal &mask", "toggle_mask", ("Ctrl+M",), ticks=True),
    Entry("&Module", "Dropout as in &training", "toggle_mode", ("Ctrl+T",), ticks=True),
    Entry("&Module", "&Resample dropout", "workspace.resample", ("Ctrl+R",), ("dropout_seed",),
          icon="resample"),
    Entry("&Module", "Resample &weights", "workspace.resample", ("Ctrl+Shift+R",), ("seed",)),
    Entry("&Module", "&Keep these weights", "workspace.keep_weights", ("Ctrl+K",), ticks=True),
    Entry("&Module", "Every &setting", "open_settings", ("Ctrl+,",), icon="settings", divides=True),
    Entry("&Play", "&Play or pause", "player.toggle", ("Space",), icon="play", near=True),
    Entry("&Play", "Step &forward", "player.step", ("PgDown",), (1,), icon="step-on"),
    Entry("&Play", "Step &back", "player.step", ("PgUp",), (-1,), icon="step-back"),
    Entry("&Play", "To the &start", "player.to_start", ("Home",), icon="to-start", near=True),
    Entry("&Play", "To the &end: all computed", "player.to_end", ("End",), icon="to-end",
          near=True),
    Entry("&Play", "&Next stage", "player.skip", ("Ctrl+Right",), (1,), near=True),
    Entry("&Play", "Pre&vious stage", "player.skip", ("Ctrl+Left",), (-1,), near=True),
    Entry("&Play", "By s&tage", "player.set_grain", ("Alt+1",), ("stage",), "grain", divides=True),
    Entry("&Play", "By &row", "player.set_grain", ("Alt+2",), ("row",), "grain"),
    Entry("&Play", "By &cell", "player.set_grain", ("Alt+3",), ("cell",), "grain"),
    Entry("&Play", "F&aster", "player.change_speed", ("Ctrl+.",), (1,), divides=True),
    Entry("&Play", "Slo&wer", "player.change_speed", ("Ctrl+;",), (-1,)),
    Entry("&Play", "&Loop", "player.toggle_loop", ("Ctrl+Shift+L",), icon="loop", ticks=True),
    Entry("&Play", "Predict this sta&ge", "player.predict", ("Ctrl+P",), icon="predict",
          divides=True, ticks=True),
    Entry("&Play", "&Mark the pinned cell", "pointer.mark", ("Return", "Enter"), near=True),
    Entry("&Play", "Reveal what is &hidden", "player.reveal", ("Ctrl+Return",)),
    Entry("&View", "Next te&xt of the batch", "step_text", ("Ctrl+PgDown",), (1,)),
    Entry("&View", "&Previous text of the batch", "step_text", ("Ctrl+PgUp",), (-1,)),
    Entry("&View", "Back to the cell be&fore", "pointer.go", ("Ctrl+[",), (-1,), icon="back",
          divides=True),
    Entry("&View", "O&n to the cell after", "pointer.go", ("Ctrl+]",), (1,),
          icon="chevron-right"),
    Entry("&View", "Heatmap scale: &automatic", "set_scale", ("Ctrl+0",), ("automatic",), "scale",
          divides=True),
    Entry("&View", "Heatmap scale: &linear", "set_scale", ("Ctrl+1",), ("linear",), "scale"),
    Entry("&View", "Heatmap scale: each &row to its largest", "set_scale", ("Ctrl+2",), ("row",),
          "scale"),
    Entry("&View", "Heatmap scale: lo&garithm", "set_scale", ("Ctrl+3",), ("log",), "scale"),
    Entry("&View", "Code in the b&ook’s words", "set_dialect", ("Ctrl+4",), ("book",), "dialect",
          divides=True),
    Entry("&View", "Code in the lecture’s &words", "set_dialect", ("Ctrl+5",), ("lecture",),
          "dialect"),
    Entry("&View", "Code in one call of P&yTorch", "set_dialect", ("Ctrl+6",), ("sdpa",),
          "dialect"),
    Entry("&View", "Colour map: &viridis", "set_map", ("Ctrl+Alt+1",), ("viridis",), "map",
          divides=True),
    Entry("&View", "Colour map: &cividis", "set_map", ("Ctrl+Alt+2",), ("cividis",), "map"),
    Entry("&View", "Colour map: &magma", "set_map", ("Ctrl+Alt+3",), ("magma",), "map"),
    Entry("&View", "Colour map: &blue (CET-CBL1)", "set_map", ("Ctrl+Alt+4",), ("CET-CBL1",),
          "map"),
    Entry("&View", "Colour map: gr&ey (CET-L1)", "set_map", ("Ctrl+Alt+5",), ("CET-L1",), "map"),
    Entry("&View", "Theme: as the &system", "set_scheme", ("Ctrl+Alt+S",), ("system",), "scheme",
          "theme", divides=True),
    Entry("&View", "Theme: lig&ht", "set_scheme", ("Ctrl+Alt+L",), ("light",), "scheme"),
    Entry("&View", "Theme: &dark", "set_scheme", ("Ctrl+Alt+D",), ("dark",), "scheme"),
    Entry("&Lessons", "&Next page", "reader.step", ("Alt+Right",), (1,), divides=True),
    Entry("&Lessons", "&Previous page", "reader.step", ("Alt+Left",), (-1,)),
    Entry("&Lessons", "&Back to this page", "reader.back", ("Alt+Home",)),
    Entry("&Lessons", "&Close the lesson", "reader.close", ("Alt+End",)),
    Entry("&Lessons", "The &folder of my lessons", "reader.open_folder", ("Ctrl+Alt+F",),
          divides=True),
    Entry("&Help", "&Keyboard shortcuts", "show_shortcuts", ("Ctrl+?", "F1")),
    Entry("&Help", "&About", "show_about"),
)
# fmt: on


class Action(QAction):
    """An entry of the table; done by the window that it belongs to."""

    def __init__(self, entry: Entry, window: QMainWindow) -> None:
        super().__init__(entry.words, window)
        self.entry = entry
        self.setObjectName(entry.key)
        self.setShortcuts([QKeySequence(keys) for keys in entry.keys])
        if entry.near:
            self.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.triggered.connect(self._do)

    def _do(self) -> None:
        attrgetter(self.entry.name)(self.parent())(*self.entry.arguments)


class Actions:
    """The window's actions, by key, and its menus."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self.menus: dict[str, QMenu] = {}
        self._play: tuple[str, Theme] | None = None
        self._groups: dict[str, QActionGroup] = {}
        self.by_key = {entry.key: self._make(entry) for entry in ENTRIES}

    def _make(self, entry: Entry) -> Action:
        action = Action(entry, self._window)
        action.setCheckable(entry.ticks)
        if entry.group:
            action.setCheckable(True)
            group = self._groups.setdefault(entry.group, QActionGroup(self._window))
            group.addAction(action)
        if entry.menu not in self.menus:
            self.menus[entry.menu] = self._window.menuBar().addMenu(entry.menu)
        if entry.divides:
            self.menus[entry.menu].addSeparator()
        self.menus[entry.menu].addAction(action)
        return action

    def give_keys(self, *widgets: QWidget) -> None:
        """Have the keys work that work only near some widgets."""
        for action in self.by_key.values():
            if action.entry.near:
                for widget in widgets:
                    widget.addAction(action)

    def enable(self, key: str, is_enabled: bool) -> None:
        """Let an action be used or not."""
        self.by_key[key].setEnabled(is_enabled)

    def check(self, key: str, is_on: bool = True) -> None:
        """Mark the chosen one of a group, or what is on."""
        self.by_key[key].setChecked(is_on)

    def show_screen(self, screen: Screen, document: Document, view: View, theme: Theme) -> None:
        """Let what is possible now be done, and only that; check what is on."""
        self._enable_for(screen)
        for key, is_on in (
            ("toggle_mask", document.get("causal")),
            ("toggle_mode", document.spec.mode is Mode.TRAIN),
            ("workspace.keep_weights", bool(document.spec.own_weights)),
            (f"set_scale {view.scale}", True),
            (f"set_map {view.sequential}", True),
            (f"set_dialect {view.dialect}", True),
            (f"player.set_grain {view.playhead.grain}", True),
            ("player.toggle_loop", view.playhead.loops),
            ("player.predict", screen.stand.transport.question is not None),
        ):
            self.check(key, is_on)
        name = "pause" if view.playhead.is_playing else "play"
        if self._play != (name, theme):
            self._play = (name, theme)
            self.by_key["player.toggle"].setIcon(icon(name, theme.ink))
            self.by_key["player.toggle"].setToolTip(f"{name.capitalize()} (Space)")

    def _enable_for(self, screen: Screen) -> None:
        self.enable("workspace.undo", screen.can_undo)
        self.enable("workspace.redo", screen.can_redo)
        for way in (-1, 1):
            self.enable(f"pointer.go {way}", way in screen.can_go)
        self.enable("inspector.copy", screen.readout is not None)
        self.enable("player.predict", bool(screen.rail))
        self.enable("workspace.keep_weights", screen.can_keep_weights)
        self.enable("pointer.mark", self._can_mark(screen))
        self.enable("reader.step 1", bool(screen.lesson and screen.lesson.has_next))
        self.enable("reader.step -1", bool(screen.lesson and screen.lesson.number > 1))
        self.enable("reader.back", bool(screen.lesson and screen.lesson.is_changed))
        self.enable("reader.close", screen.lesson is not None)
        self.enable("pointer.let_go", screen.cursor.pinned is not None)
        for step in (1, -1):
            self.enable(f"step_text {step}", screen.tokens.texts > 1)
        transport = screen.stand.transport
        self.enable("player.reveal", transport.question is not None and not transport.is_revealed)

    @staticmethod
    def _can_mark(screen: Screen) -> bool:
        pinned = screen.cursor.pinned
        return pinned is not None and pinned.stage in screen.stand.lights.covered

    def show_theme(self, theme: Theme) -> None:
        """Draw the icons in a theme's ink."""
        for entry in ENTRIES:
            if entry.icon:
                self.by_key[entry.key].setIcon(icon(entry.icon, theme.ink))


def shortcuts() -> list[tuple[str, str]]:
    """List what can be done with which keys."""
    own = [(entry.words.replace("&", ""), ", ".join(entry.keys)) for entry in ENTRIES if entry.keys]
    panes = [(f"The {pane.name} pane", pane.keys) for pane in PANES]
    walking = [
        ("Pin a cell, walk from cell to cell, head to head, stage to stage", "arrow keys"),
        ("While playing, with no cell pinned: step, or go to another stage", "arrow keys"),
        ("Let go of the pinned cell", "Esc in the heatmaps"),
    ]
    return [*own, *panes, *walking]
