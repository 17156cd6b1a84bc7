"""The command palette, which finds commands, settings and pages by a few of their letters."""

from __future__ import annotations

import re
from functools import lru_cache, partial
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
from visualizer.widgets.app_settings import load_recent_commands, save_recent_commands
from visualizer.widgets.documentation_pages import read_documentation_pages
from visualizer.widgets.documentation_window import open_documentation
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.incremental_gui_task import IncrementalTask
from visualizer.widgets.layouts import column_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMainWindow, QMenuBar, QWidget

PROMPT = "Find a command, a setting or a page"
NOTHING_FOUND = "Nothing found"
SIZE_PX = QSize(680, 520)
COLUMN_WIDTHS_PX = {1: 200, 2: 110}
"""Widths of the paths and of the shortcuts; titles have the rest."""
MAX_SHOWN, ROWS_PER_STEP = 1000, 100
"""Maximum number of rows, and number of rows that are created at once; the window responds between
these steps.
"""
TITLE_START, WORD_START, INITIALS, SUBSTRING, LETTERS = 0.0, 1.0, 2.0, 3.0, 4.0
"""How well letters match: the start of the title, the start of a word, the starts of several words
in order, letters within a word, or scattered letters in order.
"""
SUBMENU_PENALTY, PATH_PENALTY = 1.5, 5.0
"""Added for words that are not in the title, but in the name of the submenu or in the path."""
PATH_SEPARATOR, CHECK_MARK = " › ", "  ✓"
DISABLED_PENALTY, PAGE_PENALTY = 0.5, 1.0
"""Added for entries that cannot be chosen now, and for sections of the documentation."""
MAX_RECENT = 20
"""Number of recently used entries that are remembered."""
WORD = re.compile(r"\w+")
MENU_NUMBER = re.compile(r"^\d  ")
"""Matches the digit that selects a lesson or a recent file in its menu."""
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
        Whether it is a section of the documentation; these follow commands that match equally well.
    id : str
        Identifies the entry in the list of recently used ones; empty if its use is not remembered.
    """

    title: str
    path: str
    run: Callable[[], object]
    keys: str = ""
    is_enabled: bool = True
    is_page: bool = False
    is_checked: bool = False
    id: str = ""


class _SearchText(Struct, frozen=True):
    """A text in lower case, and its words.

    Parameters
    ----------
    penalty : float
        Added to the scores of matches in this text.
    """

    text: str
    words: tuple[str, ...]
    penalty: float

    @classmethod
    def create(cls, text: str, penalty: float) -> _SearchText:
        lower = text.casefold()
        return cls(lower, tuple(WORD.findall(lower)), penalty)


@lru_cache(maxsize=2 * MAX_SHOWN)
def _search_texts(title: str, path: str, *, is_page: bool) -> tuple[_SearchText, ...]:
    """Return the texts in which an entry is found, the title first."""
    _, _, submenu = path.rpartition(PATH_SEPARATOR)
    is_in_submenu = submenu != path and not is_page
    return (
        _SearchText.create(title, 0.0),
        *((_SearchText.create(submenu, SUBMENU_PENALTY),) if is_in_submenu else ()),
        _SearchText.create(path, PATH_PENALTY),
    )


def menu_entries(bar: QMenuBar) -> Iterator[PaletteEntry]:
    """Yield the entries of all menus, submenus included."""
    for action in bar.actions():
        if isinstance(menu := action.menu(), QMenu):
            yield from _entries_of_menu(menu, _plain_text(action))


def _entries_of_menu(menu: QMenu, path: str) -> Iterator[PaletteEntry]:
    menu.aboutToShow.emit()  # some menus are filled when they are opened
    for action in menu.actions():
        title = MENU_NUMBER.sub("", _plain_text(action))
        if isinstance(inner := action.menu(), QMenu):
            yield from _entries_of_menu(inner, f"{path}{PATH_SEPARATOR}{title}")
        elif title and not action.isSeparator():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield PaletteEntry(
                title,
                path,
                action.trigger,
                keys,
                action.isEnabled(),
                is_checked=action.isChecked(),
                id=action.objectName(),
            )


def _plain_text(action: QAction) -> str:
    """Return the text of an action without mnemonics."""
    return action.text().replace("&&", "\0").replace("&", "").replace("\0", "&")


def documentation_entries(
    open_page: Callable[[str, str], object],
) -> Iterator[list[PaletteEntry]]:
    """Yield the sections of each page of the documentation.

    Parameters
    ----------
    open_page : callable
        Opens a page at an anchor, given the file name and the anchor.
    """
    for page in read_documentation_pages(documentation_path()):
        entries = []
        for section in page.sections:
            is_section = section.title != page.title
            path = PATH_SEPARATOR.join(("Documentation", *([page.title] if is_section else [])))
            run = partial(open_page, page.name, section.anchor)
            id_ = f"{page.name}#{section.anchor}"
            entries.append(PaletteEntry(section.title, path, run, is_page=True, id=id_))
        yield entries


class PaletteSearch:
    """Search in entries.

    Parameters
    ----------
    recent : sequence of str
        Ids of recently used entries, the last one first; of equally good matches, these are first.
    """

    def __init__(self, entries: Iterable[PaletteEntry], recent: Sequence[str] = ()) -> None:
        self._entries = list[PaletteEntry]()
        self._texts = list[tuple[_SearchText, ...]]()
        self._rank = {id_: at for at, id_ in enumerate(recent)}
        self.add(entries)

    def add(self, entries: Iterable[PaletteEntry]) -> None:
        """Add further entries."""
        for entry in entries:
            self._entries.append(entry)
            self._texts.append(_search_texts(entry.title, entry.path, is_page=entry.is_page))

    def find(self, wanted: str) -> list[PaletteEntry]:
        """Return the entries in which all words are found, the best first."""
        wanted = " ".join(wanted.casefold().split())
        found = []
        for at, (entry, texts) in enumerate(zip(self._entries, self._texts, strict=True)):
            score = _score_match(wanted, texts)
            if score is not None:
                score += DISABLED_PENALTY * (not entry.is_enabled) + PAGE_PENALTY * entry.is_page
                length = len(entry.title) if wanted else 0
                recency = self._rank.get(entry.id, len(self._rank))
                found.append((score, entry.is_page, recency, length, at))
        return [self._entries[at] for *_, at in sorted(found)]


def _score_match(wanted: str, texts: Sequence[_SearchText]) -> float | None:
    """Return how badly texts match; the best is 0. Return None if a word is not found."""
    if texts[0].text.startswith(wanted):
        return TITLE_START
    total = 0.0
    for word in wanted.split():
        scores = [score for text in texts if (score := _score_word(word, text)) is not None]
        if not scores:
            return None
        total += min(scores)
    return total


def _score_word(word: str, text: _SearchText) -> float | None:
    if any(each.startswith(word) for each in text.words):
        return WORD_START + text.penalty
    if _consists_of_word_starts(word, text.words):
        return INITIALS + text.penalty
    if word in text.text:
        return SUBSTRING + text.penalty
    letters = iter(text.text)
    is_title = not text.penalty
    return LETTERS if is_title and all(letter in letters for letter in word) else None


def _consists_of_word_starts(letters: str, words: Sequence[str]) -> bool:
    """Return whether letters are the starts of words in order, such as “cmask” of “causal mask”."""
    if not letters:
        return True
    for at, word in enumerate(words):
        length = 0
        while length < min(len(letters), len(word)) and letters[length] == word[length]:
            length += 1
        rest = words[at + 1 :]
        if any(_consists_of_word_starts(letters[used:], rest) for used in range(length, 0, -1)):
            return True
    return False


def open_command_palette(window: QMainWindow, entries: Iterable[PaletteEntry]) -> None:
    """Open the palette with a window's commands, the given entries and the documentation."""
    entries = (*menu_entries(window.menuBar()), *entries)
    pages = documentation_entries(partial(open_documentation, window))
    CommandPalette(window, entries, pages).open()


class CommandPalette(QDialog):
    """A field for a few letters, and the list of matches; Enter runs the chosen entry.

    Parameters
    ----------
    pages : iterable
        Further entries, in parts; these are requested after the palette has opened, or when letters
        are typed.
    """

    def __init__(
        self,
        window: QWidget,
        entries: Iterable[PaletteEntry],
        pages: Iterable[Sequence[PaletteEntry]] = (),
    ) -> None:
        super().__init__(window)
        self.setWindowTitle("Find command")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(SIZE_PX * text_scale())
        self._window = window
        self._search = PaletteSearch(entries, load_recent_commands())
        self._pages = iter(pages)
        self._shown: list[PaletteEntry] = []
        self._filling: IncrementalTask | None = None
        self.field, self.list = QLineEdit(), QTreeWidget()
        self.field.setPlaceholderText(PROMPT)
        self.field.setAccessibleName(PROMPT)
        self.field.installEventFilter(self)
        self.list.setAccessibleName("Found")
        self.list.setColumnCount(3)
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setStyleSheet("QTreeView::item { padding: 3px 0 }")
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
        if wanted:
            for entries in self._pages:
                self._search.add(entries)
        if self._filling:
            self._filling.stop()
        found = self._search.find(wanted)[:MAX_SHOWN]
        self._shown = []
        self.list.clear()
        self._append_rows(found[:ROWS_PER_STEP])
        if not found:
            nothing = QTreeWidgetItem([NOTHING_FOUND])
            nothing.setDisabled(True)
            self.list.addTopLevelItem(nothing)
        enabled = (at for at, entry in enumerate(self._shown) if entry.is_enabled)
        self.list.setCurrentIndex(self.list.model().index(next(enabled, 0), 0))
        self._filling = IncrementalTask(self._append_rest_in_steps(found), self)

    def _append_rest_in_steps(self, found: Sequence[PaletteEntry]) -> Generator[None]:
        """Append the rows below the first ones, and the pages that have not been read yet."""
        for start in range(ROWS_PER_STEP, len(found), ROWS_PER_STEP):
            self._append_rows(found[start : start + ROWS_PER_STEP])
            yield
        for entries in self._pages:  # all of them follow the commands if no letters are typed
            self._search.add(entries)
            self._append_rows(entries)
            yield

    def _append_rows(self, entries: Sequence[PaletteEntry]) -> None:
        quiet, items = self.palette().placeholderText(), []
        for entry in entries:
            title = f"{entry.title}{CHECK_MARK}" if entry.is_checked else entry.title
            item = QTreeWidgetItem([title, entry.path, entry.keys])
            item.setDisabled(not entry.is_enabled)
            for column in (1, 2):
                item.setForeground(column, quiet)
            items.append(item)
        self._shown += entries
        self.list.addTopLevelItems(items)

    def _run_chosen(self) -> None:
        at = self.list.currentIndex().row()
        if not 0 <= at < len(self._shown) or not self._shown[at].is_enabled:
            return
        self.accept()
        if id_ := self._shown[at].id:
            others = [other for other in load_recent_commands() if other != id_]
            save_recent_commands([id_, *others][:MAX_RECENT])
        # The command may show another dialog.
        QTimer.singleShot(0, self._window, self._shown[at].run)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move in the list with the keys of the field that it does not need."""
        pressed = event if event.type() == QEvent.Type.KeyPress else None
        if isinstance(pressed, QKeyEvent) and pressed.key() in _LIST_KEYS:
            self.list.keyPressEvent(pressed)
            return True
        return super().eventFilter(watched, event)
