"""Playback by mouse and keys: what is computed, what is empty, what is lit, what is said."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QToolButton

from tests.ui.hand import CONTROL, words
from visualizer.state.playback.timeline import Grain, Place
from visualizer.state.view import Cell

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from tests.ui.hand import Hand
    from visualizer.state.playback.transport import Transport
    from visualizer.ui.window import Window

NONE = Qt.KeyboardModifier.NoModifier


class Viewer:
    """A hand at the bar of playback, and an eye on the heatmaps."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.window: Window = hand.window
        self.bar = hand.window.transport
        hand.board.setFocus()

    @property
    def shown(self) -> Transport:
        assert self.bar._shown is not None
        return self.bar._shown[0]

    @property
    def place(self) -> Place | None:
        return self.shown.playhead.place

    @property
    def said(self) -> str:
        return words(self.bar.caption) if self.bar.caption.isVisibleTo(self.window) else ""

    def key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
        self.hand.press(key, modifiers)
        self.hand.settle()

    def click(self, action: str) -> None:
        """Click the button of an action on the bar."""
        wanted = self.window.actions_.by_key[action]
        buttons = self.bar.findChildren(QToolButton)
        (button,) = (one for one in buttons if one.defaultAction() is wanted)
        self.hand.click(button)
        self.hand.settle()

    def click_track(self, position: int) -> None:
        track = self.bar.track
        x = round(track.x_of(position))
        QTest.mouseClick(track, Qt.MouseButton.LeftButton, pos=QPoint(x, 8))
        self.hand.settle()

    def choose(self, name: str, words_: str) -> None:
        self.hand.choose(name, words_)
        self.hand.settle()

    def picture(self) -> QImage:
        """The heatmaps as they are painted, once the window has taken its shape."""
        for _ in range(3):
            QApplication.processEvents()
            self.hand.settle()
        return self.hand.board.viewport().grab().toImage()


@pytest.fixture
def viewer(hand: Hand) -> Viewer:
    hand.settle()
    return Viewer(hand)


def test_at_first_everything_is_computed_and_nothing_is_said(viewer: Viewer) -> None:
    assert viewer.place is None
    assert viewer.said == ""
    assert viewer.shown.position == viewer.shown.count == 66
    assert viewer.hand.stages == ["scores", "weights", "context"]


def test_home_is_the_first_step_and_end_shows_all_again(viewer: Viewer) -> None:
    before = viewer.picture()
    viewer.key(Qt.Key.Key_Home)
    assert viewer.place == Place("input")
    assert viewer.hand.stages == ["input"]
    assert "Your" in viewer.said
    viewer.key(Qt.Key.Key_End)
    assert viewer.place is None
    assert viewer.hand.stages == ["scores", "weights", "context"]
    assert viewer.picture() == before


def test_a_clicker_steps_on_and_back_wherever_the_focus_is(viewer: Viewer) -> None:
    viewer.hand.sentence.setFocus()
    viewer.key(Qt.Key.Key_PageDown)
    viewer.key(Qt.Key.Key_PageDown)
    assert viewer.shown.position == 1
    viewer.key(Qt.Key.Key_PageUp)
    assert viewer.shown.position == 0
    viewer.key(Qt.Key.Key_PageUp)
    assert viewer.shown.position == 0


def test_arrows_step_and_skip_stages_unless_a_cell_is_pinned(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    viewer.key(Qt.Key.Key_Right)
    viewer.key(Qt.Key.Key_Right)
    viewer.key(Qt.Key.Key_Left)
    assert viewer.place == Place("input", 1)
    viewer.key(Qt.Key.Key_Down)
    viewer.key(Qt.Key.Key_Down)
    assert viewer.place == Place("keys")
    viewer.key(Qt.Key.Key_Up)
    assert viewer.place == Place("queries")
    viewer.hand.click_cell(Cell("input", (2, 1)))
    viewer.key(Qt.Key.Key_Right)
    assert viewer.place == Place("queries")
    assert viewer.window.workspace.view.pinned == Cell("input", (2, 2))


def test_going_back_is_exact(viewer: Viewer) -> None:
    viewer.window.player.set_grain(Grain.CELL)
    viewer.window.player.seek_stage("scores")
    viewer.hand.settle()
    pictures = [viewer.picture()]
    for _ in range(8):
        viewer.key(Qt.Key.Key_PageDown)
        pictures.append(viewer.picture())
    assert all(one != other for one, other in itertools.pairwise(pictures))
    for picture in reversed(pictures[:-1]):
        viewer.key(Qt.Key.Key_PageUp)
        assert viewer.picture() == picture


def test_seeking_equals_stepping(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    for _ in range(26):
        viewer.key(Qt.Key.Key_PageDown)
    stepped = viewer.picture()
    said = viewer.said
    viewer.click_track(60)
    assert viewer.shown.position == 60
    viewer.click_track(26)
    assert viewer.shown.position == 26
    assert viewer.said == said
    assert viewer.picture() == stepped


def test_playing_to_the_end_shows_what_was_there_before(viewer: Viewer) -> None:
    before = viewer.picture()
    viewer.choose("Steps", "by stage")
    viewer.choose("Speed", "8×")
    viewer.hand.board.setFocus()
    seen: list[str] = []
    viewer.window.workspace.changed.connect(
        lambda: seen.extend(viewer.place.stage for _ in [0] if viewer.place)
    )
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.until(lambda: viewer.shown.playhead.is_playing)
    viewer.hand.until(lambda: not viewer.shown.playhead.is_playing)
    viewer.hand.settle()
    run = viewer.window.workspace.run
    assert run is not None
    assert list(dict.fromkeys(seen)) == list(run.trace.names)
    assert viewer.place is None
    assert viewer.picture() == before


def test_space_pauses_and_goes_on_from_there(viewer: Viewer) -> None:
    viewer.choose("Steps", "by cell")
    viewer.choose("Speed", "8×")
    viewer.hand.board.setFocus()
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.until(lambda: 0 < viewer.shown.position < viewer.shown.count)
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.settle()
    at = viewer.shown.position
    assert not viewer.shown.playhead.is_playing
    viewer.click("player.toggle")
    viewer.hand.until(lambda: viewer.shown.position > at)
    viewer.click("player.toggle")
    assert not viewer.shown.playhead.is_playing


def test_space_plays_after_a_click_on_the_sentence(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    viewer.hand.click(viewer.bar.caption)
    assert viewer.bar.caption.hasFocus()
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.until(lambda: viewer.shown.playhead.is_playing)
    viewer.click("player.toggle")


def test_a_space_typed_into_the_sentence_is_a_space(viewer: Viewer) -> None:
    viewer.hand.type_sentence("one two")
    viewer.hand.settle()
    assert viewer.window.workspace.document.text == "one two"
    assert not viewer.shown.playhead.is_playing


def test_a_loop_begins_anew(viewer: Viewer) -> None:
    viewer.click("player.toggle_loop")
    viewer.choose("Steps", "by stage")
    viewer.choose("Speed", "8×")
    viewer.click("player.step -1")
    assert viewer.shown.position == viewer.shown.count - 1
    viewer.hand.board.setFocus()
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.until(lambda: viewer.shown.position < 3)
    assert viewer.shown.playhead.is_playing
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.settle()


def test_settings_changed_while_playing_leave_it_where_it_is(viewer: Viewer) -> None:
    viewer.window.player.seek_stage("masked")
    viewer.window.player.step(2)
    viewer.hand.settle()
    viewer.window.player.toggle()
    viewer.hand.press(Qt.Key.Key_M)  # the mask goes, and with it this stage
    viewer.hand.settle()
    assert viewer.shown.playhead.is_playing
    assert viewer.said
    assert "masked" not in viewer.hand.stages
    viewer.hand.press(Qt.Key.Key_M)
    viewer.hand.settle()
    assert viewer.shown.playhead.is_playing
    viewer.window.player.toggle()
    viewer.window.player.seek_stage("weights")
    viewer.window.player.step(4)
    viewer.hand.settle()
    viewer.hand.type_number("heads", "1")
    viewer.hand.settle()
    assert viewer.place == Place("weights", 4)
    viewer.hand.type_sentence("one two")
    viewer.hand.settle()
    assert viewer.shown.position == viewer.shown.stops[7].start + 1  # the last row there is


def test_what_is_computed_later_is_empty_and_cannot_be_asked(viewer: Viewer) -> None:
    viewer.window.player.seek_stage("weights")
    viewer.hand.settle()
    viewer.hand.hover(Cell("weights", (0, 4, 0)))
    assert viewer.window.workspace.screen.cursor.hovered is None
    paper = viewer.window.theme.paper.lower()
    picture = viewer.picture()
    assert picture.pixelColor(viewer.hand.point(Cell("weights", (0, 4, 0)))).name() == paper
    viewer.window.player.step(4)
    viewer.hand.settle()
    assert (
        viewer.picture().pixelColor(viewer.hand.point(Cell("weights", (0, 4, 0)))).name() != paper
    )


def test_the_rail_jumps_while_playing(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    viewer.hand.click(viewer.window.rail.button("weights"))
    viewer.hand.settle()
    assert viewer.place == Place("weights")
    assert viewer.hand.stages == ["masked", "weights"]


def test_the_track_says_where_it_is_to_a_reader_of_the_screen(viewer: Viewer) -> None:
    viewer.window.player.seek_stage("scores")
    viewer.window.player.step(1)
    viewer.hand.settle()
    track = viewer.bar.track
    assert track.accessibleDescription() == "Scores, row 2 of 6"
    assert (track.minimum(), track.maximum(), track.value()) == (0, 66, 25)


def test_the_cell_pane_tells_of_the_leading_cell(viewer: Viewer) -> None:
    viewer.window.player.seek_stage("scores")
    viewer.hand.settle()
    assert "meets the key" in viewer.hand.said
    assert words(viewer.bar.equation).startswith("score = ")


# ------------------------------------------------------------------------------- predictions


def test_predict_mark_and_reveal(viewer: Viewer) -> None:
    viewer.click("player.predict")
    assert viewer.hand.stages == ["masked", "weights"]
    viewer.hand.hover(Cell("weights", (0, 3, 1)))
    assert "Covered" in viewer.hand.said
    viewer.hand.click_cell(Cell("weights", (0, 3, 1)))
    viewer.hand.click_cell(Cell("weights", (0, 4, 0)))
    viewer.hand.settle()
    assert "2 marks" in viewer.said
    viewer.hand.press(Qt.Key.Key_Return, CONTROL)
    viewer.hand.settle()
    assert viewer.said == "1 of 2 rows as you said; the true largest are ringed."
    viewer.click("player.predict")
    assert viewer.hand.stages == ["scores", "weights", "context"]


def test_the_question_can_be_which_are_zero(viewer: Viewer) -> None:
    viewer.click("player.predict")
    viewer.choose("What to predict", "Which are zero?")
    viewer.hand.click_cell(Cell("weights", (0, 0, 5)))
    viewer.hand.press(Qt.Key.Key_Return, CONTROL)
    viewer.hand.settle()
    assert viewer.said == "Yes: the cell you marked is 0. Of 36 cells in head 1, 15 are 0."


def test_a_mark_is_taken_away_by_a_second_click(viewer: Viewer) -> None:
    viewer.click("player.predict")
    for _ in range(2):
        viewer.hand.click_cell(Cell("weights", (0, 3, 1)))
    viewer.hand.press(Qt.Key.Key_Return, CONTROL)
    viewer.hand.settle()
    assert viewer.said.startswith("No cell was marked.")


def test_nothing_of_a_covered_stage_is_seen(viewer: Viewer) -> None:
    viewer.click("player.predict")
    covered = [viewer.hand.point(Cell("weights", (0, row, 0))) for row in (1, 3, 5)]
    colours = {viewer.picture().pixelColor(at).name() for at in covered}
    assert len(colours) == 1


def test_step_leaves_a_prediction(viewer: Viewer) -> None:
    viewer.click("player.predict")
    viewer.key(Qt.Key.Key_Home)
    assert viewer.place == Place("input")
    assert viewer.bar.findChildren(QComboBox)
    assert not viewer.bar.question.isVisibleTo(viewer.window)
