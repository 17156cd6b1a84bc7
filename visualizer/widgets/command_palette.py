"""The command palette, which finds commands, settings and pages by a few of their letters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QHeaderView,
    QLineEdit,
    QMenu,
    QTreeWidget,
    QTreeWidgetItem,
)

from visualizer.resources import documentation_path
from visualizer.widgets.documentation_pages import read_documentation_pages
from visualizer.widgets.documentation_window import open_documentation
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.layouts import column_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from PySide6.QtWidgets import QMainWindow, QMenuBar, QWidget

PROMPT = "Find a command, a setting or a page"
NOTHING_FOUND = "Nothing found"
SIZE_PX = QSize(620, 420)
COLUMN_WIDTHS_PX = {1: 200, 2: 110}
"""Widths of the paths and of the shortcuts; titles have the rest."""
MAX_SHOWN = 60
WORD_START, SUBSTRING, LETTERS = 0.0, 1.0, 2.0
"""How well a word is found: at the start of a word, within one, or as letters in this order."""
PATH_PENALTY = 3.0
"""Added for words that are not found in the title, but in the path."""
_LIST_KEYS = {Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown}


class PaletteEntry(Struct, frozen=True, eq=False):
    """Something that the palette finds.

    Parameters
    ----------
    path : str
        Where else it is found, such as the menu of a command.
    keys : str
        Its keyboard shortcut; empty if it has none.
    run : callable
        Called when the entry is chosen.
    is_page : bool
        Whether it is a section of the documentation; these follow commands that match as well.
    """

    title: str
    path: str
    run: Callable[[], object]
    keys: str = ""
    is_enabled: bool = True
    is_page: bool = False


def menu_entries(bar: QMenuBar) -> Iterator[PaletteEntry]:
    """Yield the entries of all menus, submenus included."""
    for action in bar.actions():
        if isinstance(menu := action.menu(), QMenu):
            yield from _entries_of_menu(menu, action.text().replace("&", ""))


def _entries_of_menu(menu: QMenu, path: str) -> Iterator[PaletteEntry]:
    menu.aboutToShow.emit()  # some menus are filled when they are opened
    for action in menu.actions():
        title = action.text().replace("&", "")
        if isinstance(inner := action.menu(), QMenu):
            yield from _entries_of_menu(inner, f"{path} › {title}")
        elif title and not action.isSeparator():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield PaletteEntry(title, path, action.trigger, keys, action.isEnabled())


def documentation_entries(open_page: Callable[[str, str], object]) -> Iterator[PaletteEntry]:
    """Yield the sections of the documentation.

    Parameters
    ----------
    open_page : callable
        Opens a page at an anchor, given the file name and the anchor.
    """
    for page in read_documentation_pages(documentation_path()):
        for section in page.sections:
            path = "Documentation" + f" › {page.title}" * (section.title != page.title)
            run = partial(open_page, page.name, section.anchor)
            yield PaletteEntry(section.title, path, run, is_page=True)


def find_entries(entries: Sequence[PaletteEntry], wanted: str) -> list[PaletteEntry]:
    """Return the entries in which all words are found, the best first; all without any word."""
    words = wanted.lower().split()
    found = []
    for at, entry in enumerate(entries):
        scores = [_match_word(word, entry) for word in words]
        if None not in scores:
            total = sum(score for score in scores if score is not None)
            length = len(entry.title) if words else 0
            found.append((not entry.is_enabled, total, entry.is_page, length, at))
    return [entries[at] for *_, at in sorted(found)]


def _match_word(word: str, entry: PaletteEntry) -> float | None:
    """Return how badly a word is found in an entry, or None if it is not found."""
    for text, penalty in ((entry.title, 0.0), (entry.path, PATH_PENALTY)):
        lower = text.lower()
        starts = lower.replace("(", " ").replace("-", " ")
        if any(part.startswith(word) for part in starts.split()):
            return WORD_START + penalty
        if word in lower:
            return SUBSTRING + penalty
    letters = iter(entry.title.lower())
    return LETTERS if all(letter in letters for letter in word) else None


def open_command_palette(window: QMainWindow, settings: Iterable[PaletteEntry] = ()) -> None:
    """Open the palette with a window's commands and settings and the documentation's sections."""
    entries = (
        *menu_entries(window.menuBar()),
        *settings,
        *documentation_entries(partial(open_documentation, window)),
    )
    CommandPalette(window, entries).open()


class CommandPalette(QDialog):
    """A field for a few letters, and the list of matches; Enter runs the chosen entry."""

    def __init__(self, window: QWidget, entries: Iterable[PaletteEntry]) -> None:
        super().__init__(window)
        self.setWindowTitle("Find command")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(SIZE_PX * text_scale())
        self._window, self._entries = window, tuple(entries)
        self._shown: list[PaletteEntry] = []
        self.field, self.list = QLineEdit(), QTreeWidget()
        self.field.setPlaceholderText(PROMPT)
        self.field.setAccessibleName(PROMPT)
        self.field.installEventFilter(self)
        self.list.setAccessibleName("Found")
        self.list.setColumnCount(3)
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the field keeps the focus
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column, width in COLUMN_WIDTHS_PX.items():
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
            header.resizeSection(column, round(width * text_scale()))
        layout = column_layout(self, (12, 12, 12, 12), spacing=8)
        for widget in (self.field, self.list):
            layout.addWidget(widget)
        self.field.textChanged.connect(self._find)
        self.field.returnPressed.connect(self._run_chosen)
        self.list.itemClicked.connect(self._run_chosen)
        self._find("")

    def _find(self, wanted: str) -> None:
        self._shown = find_entries(self._entries, wanted)[:MAX_SHOWN]
        self.list.clear()
        for entry in self._shown:
            item = QTreeWidgetItem([entry.title, entry.path, entry.keys])
            item.setDisabled(not entry.is_enabled)
            for column in (1, 2):
                item.setForeground(column, self.palette().placeholderText())
            self.list.addTopLevelItem(item)
        if not self._shown:
            nothing = QTreeWidgetItem([NOTHING_FOUND])
            nothing.setDisabled(True)
            self.list.addTopLevelItem(nothing)
        self.list.setCurrentIndex(self.list.model().index(0, 0))

    def _run_chosen(self) -> None:
        at = self.list.currentIndex().row()
        if not 0 <= at < len(self._shown) or not self._shown[at].is_enabled:
            return
        self.accept()
        # The command may show another dialog.
        QTimer.singleShot(0, self._window, self._shown[at].run)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move in the list with the keys of the field that it does not need."""
        pressed = event if event.type() == QEvent.Type.KeyPress else None
        if isinstance(pressed, QKeyEvent) and pressed.key() in _LIST_KEYS:
            self.list.keyPressEvent(pressed)
            return True
        return super().eventFilter(watched, event)
