"""Lessons in the window: opening, changing, restoring and closing them; errors in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from tests.support.window_input import words
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.timeline import PlaybackPosition
from visualizer.widgets import app_settings

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtCore import QUrl
    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QPushButton

    from tests.support.window_input import Hand

ALT = Qt.KeyboardModifier.AltModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


def open_lesson(hand: Hand, number: int) -> None:
    hand.until(lambda: bool(hand.window.controllers.lesson_controller.lessons))
    hand.window.actions_.menus["&Lessons"].actions()[number - 1].trigger()
    hand.settle()


def page(hand: Hand) -> str:
    return words(hand.window.panes["Lesson"].title)


def ticks(hand: Hand) -> list[str]:
    pane = hand.window.panes["Lesson"]
    return [words(row.words) for row in pane.check_rows if row.isVisibleTo(pane)]


def offered(hand: Hand) -> list[str]:
    return [action.text() for action in hand.window.actions_.menus["&Lessons"].actions()]


def press_button(hand: Hand, button: QPushButton) -> None:
    hand.click(button)
    hand.settle()


def test_the_menu_offers_nine_lessons_each_with_its_digit(hand: Hand) -> None:
    hand.until(lambda: bool(hand.window.controllers.lesson_controller.lessons))
    menu = hand.window.actions_.menus["&Lessons"]
    for number in range(1, 10):
        action = menu.actions()[number - 1]
        assert action.text().startswith(f"&{number}  ")
        lesson = hand.window.controllers.lesson_controller.lessons[number - 1]
        assert action.text().endswith(f"{lesson.title} ({lesson.section})")


@pytest.mark.slow
def test_every_page_of_every_lesson_is_read_and_its_ticks_match(hand: Hand) -> None:
    lessons = hand.window.controllers.lesson_controller.lessons
    for number, lesson in enumerate(lessons, 1):
        open_lesson(hand, number)
        for at, shown in enumerate(lesson.pages, 1):
            assert page(hand) == shown.title
            assert words(hand.window.panes["Lesson"].number) == f"{at} of {len(lesson.pages)}"
            assert len(ticks(hand)) == len(shown.claims)
            assert all("matches" in check for check in ticks(hand)), shown.title
            hand.press(Qt.Key.Key_Right, ALT)
            hand.settle()
        if number < len(lessons):  # after its last page, the next lesson begins
            assert page(hand) == lessons[number].pages[0].title
    hand.trigger("lesson.close")
    hand.settle()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1280, 800), (1000, 700)])
def test_next_stays_under_the_pointer_from_page_to_page(hand: Hand, size: tuple[int, int]) -> None:
    hand.window.resize(*size)
    open_lesson(hand, 1)
    button = hand.window.panes["Lesson"].next_button
    at = button.mapToGlobal(button.rect().center())
    turned = 0
    while button.isEnabled() and turned < 40:
        there = button.mapFromGlobal(at)
        assert button.rect().contains(there), (page(hand), there)
        if turned % 7 == 3:  # with the button that restores the page
            hand.window.workspace.change_setting("heads", 1)
            hand.settle()
            assert button.rect().contains(button.mapFromGlobal(at))
        hand.click(button, button.mapFromGlobal(at))
        hand.settle()
        QApplication.processEvents()
        turned += 1
    assert turned > 20


def test_closing_a_lesson_brings_back_what_there_was(hand: Hand) -> None:
    hand.type_sentence("one two three")
    hand.settle()
    before, view = hand.window.workspace.document, hand.window.workspace.view
    open_lesson(hand, 2)
    assert hand.window.panes["Lesson"].isVisibleTo(hand.window)
    open_lesson(hand, 4)
    press_button(hand, hand.window.panes["Lesson"].close_button)
    assert hand.window.workspace.document == before
    assert hand.window.workspace.view == view
    assert not hand.window.panes["Lesson"].isVisibleTo(hand.window)


def test_a_lesson_that_is_closed_by_the_mouse_leaves_no_ring(hand: Hand) -> None:
    open_lesson(hand, 2)
    press_button(hand, hand.window.panes["Lesson"].close_button)
    hand.until(hand.window.board.hasFocus)
    assert not hand.window.focus_ring.isVisible()


def test_undo_after_a_lesson_continues_with_the_changes_before_it(hand: Hand) -> None:
    workspace = hand.window.workspace
    hand.settle()
    first = workspace.document
    workspace.change_setting("heads", 1)
    workspace.change_setting("seed", 7)
    workspace.undo()
    hand.settle()
    before = workspace.document
    open_lesson(hand, 2)
    press_button(hand, hand.window.panes["Lesson"].next_button)
    page = workspace.document
    assert (workspace.history.can_undo, workspace.history.can_redo) == (False, False)
    workspace.change_setting("seed", 5)
    press_button(hand, hand.window.panes["Lesson"].return_button)
    assert workspace.document == page
    workspace.undo()
    assert workspace.document == page.with_setting("seed", 5)
    press_button(hand, hand.window.panes["Lesson"].close_button)
    assert workspace.document == before
    workspace.redo()
    assert workspace.document == before.with_setting("seed", 7)
    workspace.undo()
    workspace.undo()
    assert workspace.document == first
    assert not workspace.history.can_undo


def test_a_reader_may_change_everything_and_return(hand: Hand) -> None:
    open_lesson(hand, 4)
    pane = hand.window.panes["Lesson"]
    press_button(hand, pane.next_button)
    assert not pane.return_button.isVisibleTo(pane)
    set_by_page = hand.window.workspace.document
    hand.type_number("seed", "5")
    hand.settle()
    assert all("not compared" in check for check in ticks(hand))
    press_button(hand, pane.return_button)
    assert hand.window.workspace.document == set_by_page
    assert all("matches" in check for check in ticks(hand))


def test_a_lesson_opened_while_playing_ends_without_playing(hand: Hand) -> None:
    hand.window.controllers.playback_controller.toggle_playback()
    open_lesson(hand, 1)
    assert not hand.window.workspace.view.playhead.is_playing
    press_button(hand, hand.window.panes["Lesson"].close_button)
    assert not hand.window.workspace.view.playhead.is_playing
    assert hand.window.workspace.view.playhead.place == PlaybackPosition("input")


def test_colours_words_and_speed_chosen_in_a_lesson_stay(hand: Hand) -> None:
    open_lesson(hand, 1)
    hand.trigger("view.set_dialect lecture")  # variable names of the lecture
    hand.trigger("view.set_limits row")  # colours relative to each row
    hand.trigger("playback.change_speed 1")  # faster playback
    hand.settle()
    chosen = hand.window.workspace.view
    press_button(hand, hand.window.panes["Lesson"].close_button)
    view = hand.window.workspace.view
    assert (view.dialect, view.colouring) == (chosen.dialect, chosen.colouring)
    assert (view.dialect, view.colouring.limits) == ("lecture", "row")
    assert view.playhead.speed == chosen.playhead.speed == 2


def test_a_page_sets_the_range_of_the_colours_for_itself_only(hand: Hand) -> None:
    pane, workspace = hand.window.panes["Lesson"], hand.window.workspace
    open_lesson(hand, 1)
    assert workspace.view.colouring.limits == "automatic"
    for limits in ("automatic", "shared", "automatic", "shared"):
        press_button(hand, pane.next_button)
        assert workspace.view.colouring.limits == limits
    press_button(hand, pane.close_button)
    assert workspace.view.colouring.limits == "automatic"


def test_a_range_of_the_colours_that_the_reader_chose_stays(hand: Hand) -> None:
    pane, workspace = hand.window.panes["Lesson"], hand.window.workspace
    open_lesson(hand, 1)
    hand.trigger("view.set_limits row")  # colours relative to each row
    hand.settle()
    for _ in range(3):
        press_button(hand, pane.next_button)
        assert workspace.view.colouring.limits == "row"


@pytest.mark.slow  # plays in real time
def test_play_ends_where_the_page_says_and_begins_there_again(hand: Hand) -> None:
    open_lesson(hand, 4)
    for _ in range(2):
        press_button(hand, hand.window.panes["Lesson"].next_button)
    player, workspace = hand.window.controllers.playback_controller, hand.window.workspace
    first = workspace.view.playhead.place
    player.set_speed(8)
    player.toggle_playback()
    hand.until(lambda: not workspace.view.playhead.is_playing)
    assert first == PlaybackPosition("weights", 1)
    assert workspace.view.playhead.place == PlaybackPosition("weights", 5)
    player.toggle_playback()
    hand.until(lambda: workspace.view.playhead.place == first)
    player.go_to_end()
    hand.settle()
    player.toggle_playback()
    # Outside the span of the page, all stages are played.
    assert workspace.requested_view.playhead.place == PlaybackPosition("input")
    hand.settle()
    player.toggle_playback()
    player.seek_stage("context")
    hand.settle()
    player.toggle_playback()
    hand.until(lambda: workspace.view.playhead.is_playing)
    hand.until(lambda: not workspace.view.playhead.is_playing)
    assert workspace.view.playhead.place is None


def test_a_page_that_is_refused_is_not_waited_for(own_folder: Path, hand: Hand) -> None:
    check = '[{ section = "3.3.2", name = "scores", stage = "scores", at = [0] }]'
    text = GOOD.replace("heads = 1", "d_in = 3") + f"tick = {check}\n"
    (own_folder / "one.toml").write_text(text, encoding="utf-8")
    hand.window.controllers.lesson_controller.load_lesson_menu()
    open_lesson(hand, 10)
    hand.type_number("d_in", "0")
    hand.until(lambda: not hand.window.workspace.is_working)
    assert ticks(hand) == ["scores (3.3.2): not compared because settings have changed"]


def test_a_page_sets_the_step_and_play_goes_on_from_there(hand: Hand) -> None:
    lesson = hand.window.controllers.lesson_controller.lessons[0]
    number = next(at for at, shown in enumerate(lesson.pages) if shown.playback_start)
    open_lesson(hand, 1)
    for _ in range(number):
        press_button(hand, hand.window.panes["Lesson"].next_button)
    place = lesson.pages[number].playback_start
    assert place
    assert hand.window.workspace.view.playhead.place == place
    hand.press(Qt.Key.Key_PageDown, Qt.KeyboardModifier.NoModifier)
    hand.settle()
    assert hand.window.workspace.view.playhead.place == PlaybackPosition(
        place.stage, place.row, place.column + 1
    )
    assert hand.window.panes["Lesson"].isVisibleTo(hand.window)


@pytest.fixture
def own_folder() -> Path:
    folder = app_settings.user_data_folder() / app_settings.LESSONS
    folder.mkdir(parents=True)
    return folder


GOOD = """title = "Mine"
[[page]]
title = "First"
says = "Look."
stages = ["weights"]
set = { heads = 1 }
"""


def test_lessons_of_ones_own_are_offered_and_broken_ones_named(
    own_folder: Path, hand: Hand
) -> None:
    (own_folder / "good.toml").write_text(GOOD, encoding="utf-8")
    (own_folder / "bad.toml").write_text(GOOD.replace("heads", "headz"), encoding="utf-8")
    hand.window.controllers.lesson_controller.load_lesson_menu()
    texts = offered(hand)
    assert "&0  Mine" in texts
    broken = next(action for action in menu_actions(hand) if "with errors" in action.text())
    assert broken.text() == "1 lesson with errors…"
    broken.trigger()
    (box,) = hand.boxes()
    assert "bad.toml, line 6" in box.text()
    assert "headz" in box.text()
    box.close()
    open_lesson(hand, 10)
    assert page(hand) == "First"
    hand.window.controllers.lesson_controller.load_lesson_menu()
    assert offered(hand) == texts  # no entry is added twice


def menu_actions(hand: Hand) -> list[QAction]:
    return list(hand.window.actions_.menus["&Lessons"].actions())


def test_the_folder_is_made_and_shown(
    own_folder: Path, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_folder.rmdir()
    shown: list[str] = []

    def show(url: QUrl) -> bool:
        shown.append(url.toLocalFile())
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", show)
    hand.window.controllers.lesson_controller.open_lessons_folder()
    assert own_folder.is_dir()
    assert shown == [str(own_folder)]


def test_a_folder_that_cannot_be_made_is_said(own_folder: Path, hand: Hand) -> None:
    own_folder.rmdir()
    own_folder.write_text("a file in its place", encoding="utf-8")
    hand.window.controllers.lesson_controller.open_lessons_folder()
    (box,) = hand.boxes()
    assert "Cannot create the folder" in box.text()
    box.close()


def test_leaving_a_lesson_for_a_document_that_cannot_be_used(hand: Hand) -> None:
    hand.type_number("heads", "3")
    hand.until(lambda: not hand.window.workspace.is_working)
    assert hand.problem("heads")
    before = hand.stages
    open_lesson(hand, 1)
    press_button(hand, hand.window.panes["Lesson"].next_button)
    hand.click(hand.window.panes["Lesson"].close_button)
    hand.until(lambda: hand.window.workspace.view == hand.window.workspace.requested_view)
    assert hand.problem("heads")
    assert "concat" not in before
    assert hand.window.workspace.screen.panel(BOARD_CONTENTS).step_highlights.leading is None
