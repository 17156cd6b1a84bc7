"""The command palette finds entries by a few letters, the best first, and runs the chosen one."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.support.window_input import CONTROL
from visualizer.resources import documentation_path
from visualizer.widgets import command_palette, documentation_pages
from visualizer.widgets.command_palette import (
    CHECK_MARK,
    ROWS_PER_STEP,
    CommandPalette,
    PaletteEntry,
    PaletteSearch,
    menu_entries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from PySide6.QtWidgets import QMainWindow
    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand
    from visualizer.widgets.documentation_pages import DocumentationPage

SHIFT = Qt.KeyboardModifier.ShiftModifier
WORDS = st.text(st.characters(categories=["Ll", "Lu"]), min_size=1, max_size=8)


def _nothing() -> None:
    pass


def _entry(title: str, path: str = "", run: Callable[[], object] = _nothing) -> PaletteEntry:
    return PaletteEntry(title, path, run)


def _find(entries: list[PaletteEntry], wanted: str, recent: tuple[str, ...] = ()) -> list[str]:
    """Return the titles of the entries that are found."""
    return [entry.title for entry in PaletteSearch(entries, recent).find(wanted)]


def _open(hand: Hand) -> CommandPalette:
    hand.activate()
    hand.board.setFocus()
    QTest.keyClick(hand.board, Qt.Key.Key_P, CONTROL | SHIFT)
    palette = hand.window.findChild(CommandPalette)
    assert palette
    return palette


def _visible(palette: CommandPalette) -> list[tuple[str, str]]:
    """Return the titles and paths of the rows that are completely visible."""
    shown = palette.list
    rows = [row for at in range(shown.topLevelItemCount()) if (row := shown.topLevelItem(at))]
    inside = shown.viewport().rect()
    return [
        (row.text(0), row.text(1)) for row in rows if inside.contains(shown.visualItemRect(row))
    ]


def _paths(palette: CommandPalette) -> list[str]:
    rows = map(palette.list.topLevelItem, range(palette.list.topLevelItemCount()))
    return [row.text(1) for row in rows if row]


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=9), st.data())
def test_an_entry_is_found_by_any_of_its_words(
    titles: list[list[str]], data: st.DataObject
) -> None:
    entries = [_entry(" ".join(words)) for words in titles]
    at = data.draw(st.integers(0, len(entries) - 1))
    word = data.draw(st.sampled_from(titles[at]))
    found = PaletteSearch(entries).find(word[: data.draw(st.integers(1, len(word)))].lower())
    assert entries[at] in found


def test_the_best_entry_is_first() -> None:
    entries = [_entry("Undropped"), _entry("Drawn rope"), _entry("Weights", "Drop"), _entry("Drop")]
    assert _find(entries, "dro") == ["Drop", "Drawn rope", "Undropped", "Weights"]


def test_all_words_must_be_found_in_any_order() -> None:
    entries = [_entry("Theme: dark", "View"), _entry("Theme: light", "View"), _entry("Dark")]
    assert _find(entries, "dark view") == ["Theme: dark"]
    assert _find(entries, "qqq") == []


def test_a_command_precedes_a_page_that_matches_as_well() -> None:
    entries = [PaletteEntry("Export", "", _nothing, is_page=True), _entry("Export…", "File")]
    assert _find(entries, "export") == ["Export…", "Export"]


def test_initials_are_found_before_other_letters() -> None:
    entries = [_entry("Amazing"), _entry("Amazingly mzi"), _entry("Mute, then zoom in")]
    found = ["Amazingly mzi", "Mute, then zoom in", "Amazing"]
    assert _find(entries, "mzi") == found


def test_the_name_of_a_submenu_is_found_before_the_path() -> None:
    entries = [_entry("Up", "Panorama › Move"), _entry("Left", "View › Pan")]
    assert _find(entries, "pan") == ["Left", "Up"]


def test_of_equal_matches_the_last_used_is_first() -> None:
    entries = [PaletteEntry(f"Copy {id_}", "", _nothing, id=id_) for id_ in "abc"]
    assert _find(entries, "copy", ("c", "b")) == ["Copy c", "Copy b", "Copy a"]
    assert _find(entries, "", ("b",)) == ["Copy b", "Copy a", "Copy c"]
    assert _find(entries, "copy a", ("c", "b")) == ["Copy a"]


def test_disabled_entries_follow_equal_matches() -> None:
    entries = [PaletteEntry("Undo", "", _nothing, is_enabled=False), _entry("Undo many")]
    assert _find(entries, "undo") == ["Undo many", "Undo"]


def test_every_command_is_found_by_its_title(window: QMainWindow) -> None:
    entries = list(menu_entries(window.menuBar()))
    assert len(entries) > 100
    for entry in entries:
        enabled = PaletteEntry(entry.title, entry.path, entry.run)
        others = [other for other in entries if other is not entry]
        found = PaletteSearch([*others, enabled]).find(
            f"{entry.title} {entry.path.replace(' › ', ' ')}"
        )
        assert enabled in found[:3]


def test_used_commands_are_first_when_the_palette_opens_again(hand: Hand) -> None:
    for letters in ("causal mask", "zoom in"):
        hand.run_in_palette(letters)
    palette = _open(hand)
    rows = [palette.list.topLevelItem(row) for row in range(2)]
    assert [row.text(0) for row in rows if row] == ["Zoom in", "Causal mask"]
    QTest.keyClick(palette.field, Qt.Key.Key_Escape)


def _three_letter_queries(entry: PaletteEntry) -> dict[str, None]:
    """Return letters that a user may type for an entry: starts of its words, and initials."""
    submenu = entry.path.rpartition(" › ")[2]
    title, path = (re.findall(r"\w+", text.casefold()) for text in (entry.title, submenu))
    whole = (*title, *path)
    pairs = [a[:n] + b[: 3 - n] for a, b in combinations(title, 2) for n in (1, 2)]
    initials = ["".join(letters) for letters in combinations([word[0] for word in title], 3)]
    queries = ("".join(title), *whole, *initials, *pairs)
    return dict.fromkeys(query[:3] for query in queries if len(query) >= 3)


@pytest.mark.slow
def test_three_letters_show_any_action(hand: Hand) -> None:
    hand.until(lambda: bool(hand.window.controllers.lesson_controller.lessons))
    palette = _open(hand)
    hand.until(lambda: _paths(palette)[-1].startswith("Documentation"))
    rows = map(palette.list.topLevelItem, range(palette.list.topLevelItemCount()))
    listed = {(row.text(0), row.text(1)) for row in rows if row}
    actions = {each for each in listed if not each[1].startswith("Documentation")}
    assert len(actions) >= 180
    for title, path in actions:
        for query in _three_letter_queries(_entry(title, path)):
            palette.field.clear()
            QTest.keyClicks(palette.field, query)
            if (title, path) in _visible(palette):
                break
        else:
            pytest.fail(f"{path}: {title}")
    QTest.keyClick(palette.field, Qt.Key.Key_Escape)


def test_active_commands_are_marked(hand: Hand) -> None:
    titles = {"Causal mask": True, "Training mode (with dropout)": True, "Loop": False}
    palette = _open(hand)
    for title, is_on in titles.items():
        palette.field.setText(title)
        assert (f"{title}{CHECK_MARK}" in dict(_visible(palette))) is is_on
    QTest.keyClick(palette.field, Qt.Key.Key_Escape)


def test_heads_lessons_files_panes_and_program_settings_are_listed(
    hand: Hand, tmp_path: Path
) -> None:
    hand.until(lambda: bool(hand.window.controllers.lesson_controller.lessons))
    recent = tmp_path / "zebra.attention"
    recent.touch()
    hand.window.controllers.recent_files_controller.add_to_recent_files(recent)
    for letters, path in (
        ("head 2", "Layers and heads"),
        ("by hand 3.3.1", "Lessons"),
        ("shapes", "View › Panes"),
        ("text size", "Settings"),
        ("zebra", "File › Open recent"),
        ("presenter mode", "Documentation"),
    ):
        palette = _open(hand)
        QTest.keyClicks(palette.field, letters)
        assert any(found.startswith(path) for _, found in _visible(palette)), letters
        QTest.keyClick(palette.field, Qt.Key.Key_Escape)
        hand.until(lambda: hand.window.findChild(CommandPalette) is None)


def test_pages_and_rows_are_added_after_the_palette_has_opened(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, read_pages = list[str](), documentation_pages.read_documentation_pages
    count = len([*read_pages(documentation_path())])

    def read_and_count(folder: Path) -> Iterator[DocumentationPage]:
        for page in read_pages(folder):
            read.append(page.name)
            yield page

    monkeypatch.setattr(command_palette, "read_documentation_pages", read_and_count)
    palette = _open(hand)
    assert read == []
    assert len(_paths(palette)) <= ROWS_PER_STEP
    hand.until(lambda: len(read) == count)
    assert _paths(palette)[-1].startswith("Documentation")
    QTest.keyClick(palette.field, Qt.Key.Key_Escape)
    hand.until(lambda: hand.window.findChild(CommandPalette) is None)
    palette = _open(hand)
    palette.field.setText("e")  # before the pages are read
    assert len(read) == 2 * count
    shown = len(_paths(palette))
    hand.until(lambda: len(_paths(palette)) > 2 * shown)
    QTest.keyClick(palette.field, Qt.Key.Key_Escape)


def test_a_program_setting_is_opened_and_focused(hand: Hand) -> None:
    hand.run_in_palette("text size")
    dialog = hand.window.controllers.settings_controller.dialog
    assert dialog
    hand.until(dialog.text_size.hasFocus)
    dialog.close()


def test_a_command_is_run(hand: Hand) -> None:
    before = hand.window.workspace.document.spec.mask
    hand.run_in_palette("causal mask")
    assert hand.window.workspace.document.spec.mask is not before


def test_a_setting_is_revealed(hand: Hand) -> None:
    control = hand.window.settings_bar.rows["temperature"].control
    assert not control.isVisible()
    hand.run_in_palette("temperature")
    assert control.isVisible()


def test_a_section_of_the_documentation_is_opened(hand: Hand) -> None:
    from visualizer.widgets.documentation_window import DocumentationWindow

    hand.run_in_palette("presenter documentation")
    shown = hand.window.findChild(DocumentationWindow)
    assert shown
    assert shown.browser.source().path().endswith("reference/window.md")
    assert "presenter" in shown.browser.source().fragment()
    shown.close()


@pytest.mark.parametrize("key", [Qt.Key.Key_Down, Qt.Key.Key_PageDown])
def test_keys_of_the_field_move_in_the_list(key: Qt.Key, hand: Hand) -> None:
    palette = _open(hand)
    QTest.keyClicks(palette.field, "range")
    first = palette.list.currentItem()
    QTest.keyClick(palette.field, key)
    assert palette.list.currentItem() is not first
    assert palette.field.text() == "range"
    QTest.keyClick(palette.field, Qt.Key.Key_Escape)


def test_nothing_happens_if_nothing_is_found(qtbot: QtBot, hand: Hand) -> None:
    done: list[str] = []
    palette = CommandPalette(hand.window, [_entry("Run", run=lambda: done.append("run"))])
    palette.open()
    QTest.keyClicks(palette.field, "zzz")
    QTest.keyClick(palette.field, Qt.Key.Key_Return)
    assert palette.isVisible()
    palette.field.clear()
    QTest.keyClick(palette.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: done == ["run"])
