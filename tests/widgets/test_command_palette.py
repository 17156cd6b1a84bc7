"""The command palette finds entries by a few letters, the best first, and runs the chosen one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.support.window_input import CONTROL
from visualizer.widgets.command_palette import (
    CommandPalette,
    PaletteEntry,
    find_entries,
    menu_entries,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QMainWindow
    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand

SHIFT = Qt.KeyboardModifier.ShiftModifier
WORDS = st.text(st.characters(categories=["Ll", "Lu"]), min_size=1, max_size=8)


def _nothing() -> None:
    pass


def _entry(title: str, path: str = "", run: Callable[[], object] = _nothing) -> PaletteEntry:
    return PaletteEntry(title, path, run)


def _titles(found: list[PaletteEntry]) -> list[str]:
    return [entry.title for entry in found]


def _open(hand: Hand) -> CommandPalette:
    hand.window.activateWindow()
    hand.board.setFocus()
    QTest.keyClick(hand.board, Qt.Key.Key_P, CONTROL | SHIFT)
    palette = hand.window.findChild(CommandPalette)
    assert palette
    return palette


def _run(hand: Hand, letters: str) -> None:
    palette = _open(hand)
    QTest.keyClicks(palette.field, letters)
    QTest.keyClick(palette.field, Qt.Key.Key_Return)
    hand.until(lambda: hand.window.findChild(CommandPalette) is None)
    hand.settle()


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=9), st.data())
def test_an_entry_is_found_by_any_of_its_words(
    titles: list[list[str]], data: st.DataObject
) -> None:
    entries = [_entry(" ".join(words)) for words in titles]
    at = data.draw(st.integers(0, len(entries) - 1))
    word = data.draw(st.sampled_from(titles[at]))
    found = find_entries(entries, word[: data.draw(st.integers(1, len(word)))].lower())
    assert entries[at] in found


def test_the_best_entry_is_first() -> None:
    entries = [_entry("Undropped"), _entry("Drawn rope"), _entry("Weights", "Drop"), _entry("Drop")]
    assert _titles(find_entries(entries, "dro")) == ["Drop", "Undropped", "Drawn rope", "Weights"]


def test_all_words_must_be_found_in_any_order() -> None:
    entries = [_entry("Theme: dark", "View"), _entry("Theme: light", "View"), _entry("Dark")]
    assert _titles(find_entries(entries, "dark view")) == ["Theme: dark"]
    assert find_entries(entries, "qqq") == []


def test_a_command_precedes_a_page_that_matches_as_well() -> None:
    entries = [PaletteEntry("Export", "", _nothing, is_page=True), _entry("Export…", "File")]
    assert _titles(find_entries(entries, "export")) == ["Export…", "Export"]


def test_disabled_entries_are_last() -> None:
    entries = [PaletteEntry("Undo", "", _nothing, is_enabled=False), _entry("Undo many")]
    assert _titles(find_entries(entries, "undo")) == ["Undo many", "Undo"]


def test_every_command_is_found_by_its_title(window: QMainWindow) -> None:
    entries = list(menu_entries(window.menuBar()))
    assert len(entries) > 100
    for entry in entries:
        enabled = PaletteEntry(entry.title, entry.path, entry.run)
        others = [other for other in entries if other is not entry]
        found = find_entries([*others, enabled], f"{entry.title} {entry.path.replace(' › ', ' ')}")
        assert enabled in found[:3]


def test_a_command_is_run(hand: Hand) -> None:
    before = hand.window.workspace.document.spec.mask
    _run(hand, "causal mask")
    assert hand.window.workspace.document.spec.mask is not before


def test_a_setting_is_revealed(hand: Hand) -> None:
    control = hand.window.settings_bar.rows["temperature"].control
    assert not control.isVisible()
    _run(hand, "temperature")
    assert control.isVisible()


def test_a_section_of_the_documentation_is_opened(hand: Hand) -> None:
    from visualizer.widgets.documentation_window import DocumentationWindow

    _run(hand, "presenter documentation")
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
