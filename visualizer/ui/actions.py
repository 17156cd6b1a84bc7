"""Everything the program can do, as a table; menus and shortcuts come from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QActionGroup, QKeySequence

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow, QMenu

    from visualizer.ui.theme import Theme

from visualizer.ui.icons import icon


@dataclass(frozen=True, slots=True)
class Entry:
    """One action.

    Parameters
    ----------
    name : str
        The method of the window that does it.
    arguments : tuple
        What the method is called with.
    group : str
        Actions of which one is chosen share a group.
    divides : bool
        Whether a line stands before it in the menu.
    ticks : bool
        Whether it is something that is on or off.
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

    @property
    def key(self) -> str:
        """The action's own name: its method and arguments."""
        return " ".join((self.name, *map(str, self.arguments)))


PANES = {"Setup": "F2", "Cell": "F3"}

# fmt: off
ENTRIES: tuple[Entry, ...] = (
    Entry("&File", "&Export picture or numbers…", "export", ("Ctrl+E",), icon="export"),
    Entry("&File", "&Quit", "close", ("Ctrl+Q",), divides=True),
    Entry("&Edit", "&Undo", "undo", ("Ctrl+Z",), icon="undo"),
    Entry("&Edit", "&Redo", "redo", ("Ctrl+Shift+Z", "Ctrl+Y"), icon="redo"),
    Entry("&Edit", "&Copy cell", "copy_cell", ("Ctrl+Shift+C",), icon="copy", divides=True),
    Entry("&Edit", "&Let go of the pinned cell", "let_go", ("Ctrl+Shift+P",), icon="pin"),
    Entry("&Edit", "Edit the &sentence", "edit_sentence", ("Ctrl+L",), divides=True),
    Entry("&Module", "Causal &mask", "toggle_mask", ("Ctrl+M",), ticks=True),
    Entry("&Module", "Dropout as in &training", "toggle_mode", ("Ctrl+T",), ticks=True),
    Entry("&Module", "&Resample dropout", "resample", ("Ctrl+R",), ("dropout_seed",),
          icon="resample"),
    Entry("&Module", "Resample &weights", "resample", ("Ctrl+Shift+R",), ("seed",)),
    Entry("&Module", "Every &setting", "open_settings", ("Ctrl+,",), icon="settings", divides=True),
    Entry("&View", "Next te&xt of the batch", "step_text", ("Ctrl+PgDown",), (1,)),
    Entry("&View", "&Previous text of the batch", "step_text", ("Ctrl+PgUp",), (-1,)),
    Entry("&View", "Heatmap scale: &automatic", "set_scale", ("Ctrl+0",), ("automatic",), "scale",
          divides=True),
    Entry("&View", "Heatmap scale: &linear", "set_scale", ("Ctrl+1",), ("linear",), "scale"),
    Entry("&View", "Heatmap scale: each &row to its largest", "set_scale", ("Ctrl+2",), ("row",),
          "scale"),
    Entry("&View", "Heatmap scale: lo&garithm", "set_scale", ("Ctrl+3",), ("log",), "scale"),
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
        self.triggered.connect(self._do)

    def _do(self) -> None:
        getattr(self.parent(), self.entry.name)(*self.entry.arguments)


class Actions:
    """The window's actions, by key, and its menus."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self.menus: dict[str, QMenu] = {}
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

    def enable(self, key: str, is_enabled: bool) -> None:
        """Let an action be used or not."""
        self.by_key[key].setEnabled(is_enabled)

    def check(self, key: str, is_on: bool = True) -> None:
        """Mark the chosen one of a group, or what is on."""
        self.by_key[key].setChecked(is_on)

    def show_theme(self, theme: Theme) -> None:
        """Draw the icons in a theme's ink."""
        for entry in ENTRIES:
            if entry.icon:
                self.by_key[entry.key].setIcon(icon(entry.icon, theme.ink))


def shortcuts() -> list[tuple[str, str]]:
    """List what can be done with which keys."""
    own = [(entry.words.replace("&", ""), ", ".join(entry.keys)) for entry in ENTRIES if entry.keys]
    panes = [(f"The {name} pane", keys) for name, keys in PANES.items()]
    walking = [
        ("Pin a cell, walk from cell to cell, head to head, stage to stage", "arrow keys"),
        ("Let go of the pinned cell", "Esc in the heatmaps"),
    ]
    return [*own, *panes, *walking]
