"""Playback by mouse and keyboard: computed and empty cells, highlights and captions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from tests.support.playback_viewer import NONE
from tests.support.window_input import words
from visualizer.features.playback import controller
from visualizer.features.playback.controller import MAX_TICK_S
from visualizer.features.playback.presenter import PLAYBACK_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import (
    PLAYBACK_SPEEDS,
    STEP_MS,
    PlaybackPosition,
    StepSize,
)

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from tests.support.playback_viewer import Viewer


def turn(widget: QWidget, angle: QPoint) -> None:
    """Turn the wheel over the middle of a widget, in eighths of a degree."""
    where = QPointF(widget.rect().center())
    wheel = QWheelEvent(
        where, QPointF(widget.mapToGlobal(where)), QPoint(), angle,
        Qt.MouseButton.NoButton, NONE, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(widget, wheel)


def test_at_first_everything_is_computed_and_a_hint_is_shown(viewer: Viewer) -> None:
    assert viewer.place is None
    assert viewer.shown.caption == ""
    assert viewer.said == viewer.bar.caption.accessibleName() != ""
    hint = viewer.said
    viewer.hand.hover(Cell("weights", (0, 3, 1)))
    assert viewer.said != hint
    viewer.hand.leave()
    viewer.hand.settle()
    assert viewer.said == hint
    assert viewer.shown.position == viewer.shown.count == 66
    assert viewer.hand.stages == ["scores", "weights", "context"]


def test_a_changed_colour_range_is_noticed(viewer: Viewer) -> None:
    viewer.hand.leave()
    hint, workspace = viewer.said, viewer.hand.window.workspace
    ends = []
    for is_causal in (
        not workspace.document.get_setting("causal"),
        workspace.document.get_setting("causal"),
    ):
        workspace.change_setting("causal", is_causal)
        viewer.hand.settle()
        assert viewer.shown.weights_range is not None
        ends.append(viewer.shown.weights_range.end)
        assert viewer.said != hint
        assert ends[-1] in viewer.said
    assert ends[0] in viewer.said
    assert ends[0] != ends[1]
    viewer.key(Qt.Key.Key_Home)
    viewer.key(Qt.Key.Key_End)
    assert viewer.said == hint


def test_home_is_the_first_step_and_end_shows_all_again(viewer: Viewer) -> None:
    before = viewer.picture()
    viewer.key(Qt.Key.Key_Home)
    assert viewer.place == PlaybackPosition("input")
    assert "Your" in viewer.said
    viewer.key(Qt.Key.Key_End)
    assert viewer.place is None
    assert viewer.hand.stages == ["scores", "weights", "context"]
    assert viewer.picture() == before
    viewer.click("playback.step -1")
    assert viewer.shown.position == viewer.shown.count - 1


@pytest.mark.parametrize("grain", [StepSize.ROW, StepSize.CELL])
def test_what_is_seen_follows_the_steps(viewer: Viewer, grain: StepSize) -> None:
    viewer.window.controllers.playback_controller.set_step_size(grain)
    viewer.window.controllers.view_controller.zoom(3, (5, 5))
    viewer.hand.settle()
    assert viewer.displayed_stage == (range(4, 6), range(4, 6))
    viewer.key(Qt.Key.Key_Home)
    assert viewer.place == PlaybackPosition("input")
    assert viewer.displayed_stage == (range(2), range(4, 6))  # columns of the input are no tokens
    viewer.window.controllers.playback_controller.seek_stage("weights")
    while viewer.place != PlaybackPosition("weights", 4, 0 if grain is StepSize.ROW else 3):
        viewer.key(Qt.Key.Key_PageDown)
    assert viewer.displayed_stage == (
        range(3, 5),
        range(4, 6) if grain is StepSize.ROW else range(2, 4),
    )


def test_a_step_of_a_whole_stage_leaves_what_is_seen(viewer: Viewer) -> None:
    viewer.window.controllers.playback_controller.set_step_size(StepSize.STAGE)
    viewer.window.controllers.view_controller.zoom(3, (5, 5))
    viewer.key(Qt.Key.Key_Home)
    assert viewer.displayed_stage == (range(4, 6), range(4, 6))


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
    assert viewer.place == PlaybackPosition("input", 1)
    viewer.key(Qt.Key.Key_Down)
    viewer.key(Qt.Key.Key_Down)
    assert viewer.place == PlaybackPosition("keys")
    viewer.key(Qt.Key.Key_Up)
    assert viewer.place == PlaybackPosition("queries")
    viewer.hand.click_cell(Cell("input", (2, 1)))
    viewer.key(Qt.Key.Key_Right)
    assert viewer.place == PlaybackPosition("queries")
    assert viewer.window.workspace.view.pinned == Cell("input", (2, 2))


@pytest.mark.parametrize("grain", ["By row", "By cell"])
def test_the_first_step_is_that_of_the_pinned_cell(viewer: Viewer, grain: str) -> None:
    viewer.choose("Steps", grain)
    viewer.hand.click_cell(Cell("weights", (1, 3, 2)))
    viewer.click("playback.step 1")
    column = 2 if grain == "By cell" else 0
    assert viewer.place == PlaybackPosition("weights", 3, column)


def test_arrows_with_other_keys_do_not_step(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    for widget in (viewer.hand.board, viewer.bar.caption):
        widget.setFocus()
        viewer.key(Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert viewer.place == PlaybackPosition("input")


@pytest.mark.slow
def test_going_back_is_exact(viewer: Viewer) -> None:
    viewer.window.controllers.playback_controller.set_step_size(StepSize.CELL)
    viewer.window.controllers.playback_controller.seek_stage("scores")
    viewer.hand.settle()
    pictures = [viewer.picture()]
    for _ in range(8):
        viewer.key(Qt.Key.Key_PageDown)
        pictures.append(viewer.picture())
    assert all(one != other for one, other in itertools.pairwise(pictures))
    for picture in reversed(pictures[:-1]):
        viewer.key(Qt.Key.Key_PageUp)
        assert viewer.picture() == picture


@pytest.mark.slow
def test_seeking_equals_stepping(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    for _ in range(26):
        viewer.key(Qt.Key.Key_PageDown)
    stepped = viewer.picture()
    said = viewer.said
    playback = viewer.window.controllers.playback_controller
    for position in (60, 26):
        playback.seek(position)
        viewer.hand.settle()
        assert viewer.shown.position == position
    assert viewer.said == said
    assert viewer.picture() == stepped


@pytest.mark.slow  # plays in real time
def test_playing_to_the_end_shows_what_was_there_before(viewer: Viewer) -> None:
    before = viewer.picture()
    viewer.choose("Steps", "By stage")
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
    viewer.choose("Steps", "By cell")
    viewer.choose("Speed", "8×")
    viewer.hand.board.setFocus()
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.until(lambda: 0 < viewer.shown.position < viewer.shown.count)
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.settle()
    at = viewer.shown.position
    assert not viewer.shown.playhead.is_playing
    viewer.click("playback.toggle")
    viewer.hand.until(lambda: viewer.shown.position > at)
    viewer.click("playback.toggle")
    assert not viewer.shown.playhead.is_playing


def test_space_plays_after_a_click_on_the_sentence(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    viewer.hand.click(viewer.bar.caption)
    assert viewer.bar.caption.hasFocus()
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.until(lambda: viewer.shown.playhead.is_playing)
    viewer.click("playback.toggle")


def test_space_plays_and_pauses_while_a_list_has_the_focus(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    for box in (viewer.bar.grain, viewer.bar.speed):
        box.setFocus()
        viewer.hand.press(Qt.Key.Key_Space, NONE)
        viewer.hand.until(lambda: viewer.shown.playhead.is_playing)
        assert not box.view().isVisible()
        viewer.hand.press(Qt.Key.Key_Space, NONE)
        viewer.hand.until(lambda: not viewer.shown.playhead.is_playing)


def test_a_pause_in_a_tour_keeps_the_explained_cell(viewer: Viewer, clock: Clock) -> None:
    def explained_cell() -> Cell | None:
        resolved = viewer.window.workspace.screen.resolved
        assert resolved
        return resolved.described_step_cell

    viewer.window.controllers.playback_controller.seek_stage("weights")
    viewer.hand.settle()
    play(viewer)
    playing = explained_cell()
    assert playing
    assert viewer.place == PlaybackPosition("weights")
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.settle()
    assert explained_cell() == playing
    assert viewer.place == PlaybackPosition("weights", 3)


def test_a_space_typed_into_the_sentence_is_a_space(viewer: Viewer) -> None:
    viewer.hand.type_sentence("one two")
    viewer.hand.settle()
    assert viewer.window.workspace.document.text == "one two"
    assert not viewer.shown.playhead.is_playing


class Clock:
    """The time that playback reads; it passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(controller, "perf_counter", made)
    return made


def play(viewer: Viewer) -> None:
    viewer.hand.board.setFocus()
    viewer.hand.press(Qt.Key.Key_Space, NONE)
    viewer.hand.until(lambda: viewer.shown.playhead.is_playing)


def wait_a_step(viewer: Viewer, clock: Clock, seconds: float) -> int:
    """Let some time pass, and tell which step is shown then."""
    before = viewer.shown.position
    clock.now += seconds
    viewer.hand.until(lambda: viewer.shown.position != before)
    return viewer.shown.position


@pytest.mark.slow
def test_a_loop_plays_each_step_from_the_first_to_the_last(viewer: Viewer, clock: Clock) -> None:
    viewer.click("playback.toggle_loop")
    viewer.choose("Steps", "By stage")
    viewer.choose("Speed", "8×")
    play(viewer)
    step = STEP_MS[StepSize.STAGE] / 8000
    assert step <= MAX_TICK_S
    places = [wait_a_step(viewer, clock, step) for _ in range(viewer.shown.count + 1)]
    assert places == [*range(1, viewer.shown.count), 0, 1]
    viewer.click("playback.toggle")


def test_after_a_stall_playing_goes_on_where_it_was(viewer: Viewer, clock: Clock) -> None:
    viewer.choose("Steps", "By cell")
    viewer.choose("Speed", "8×")
    play(viewer)
    stalled = wait_a_step(viewer, clock, 60.0)
    assert stalled == int(8000 * MAX_TICK_S / STEP_MS[StepSize.CELL])
    viewer.click("playback.toggle")


def test_faster_and_slower_end_at_the_fastest_and_the_slowest(viewer: Viewer) -> None:
    for command, end in (
        ("playback.change_speed -1", PLAYBACK_SPEEDS[0]),
        ("playback.change_speed 1", PLAYBACK_SPEEDS[-1]),
    ):
        for _ in range(len(PLAYBACK_SPEEDS) + 1):
            viewer.hand.trigger(command)
        assert viewer.shown.playhead.speed == end


def test_settings_changed_while_playing_leave_it_where_it_is(viewer: Viewer) -> None:
    viewer.window.controllers.playback_controller.seek_stage("masked")
    viewer.window.controllers.playback_controller.step_by(2)
    viewer.hand.settle()
    viewer.window.controllers.playback_controller.toggle_playback()
    viewer.hand.press(Qt.Key.Key_M)  # the mask goes, and with it this stage
    viewer.hand.settle()
    assert viewer.shown.playhead.is_playing
    assert viewer.said
    assert "masked" not in viewer.hand.stages
    viewer.hand.press(Qt.Key.Key_M)
    viewer.hand.settle()
    assert viewer.shown.playhead.is_playing
    viewer.window.controllers.playback_controller.toggle_playback()
    viewer.window.controllers.playback_controller.seek_stage("weights")
    viewer.window.controllers.playback_controller.step_by(4)
    viewer.hand.settle()
    viewer.hand.type_number("heads", "1")
    viewer.hand.settle()
    assert viewer.place == PlaybackPosition("weights", 4)
    viewer.hand.type_sentence("one two")
    viewer.hand.settle()
    assert viewer.place == PlaybackPosition("weights", 4)
    assert viewer.shown.where == "Weights, row 2 of 2"  # the last row there is


def test_what_is_computed_later_is_empty_and_cannot_be_asked(viewer: Viewer) -> None:
    viewer.window.controllers.playback_controller.seek_stage("weights")
    viewer.hand.settle()
    viewer.hand.hover(Cell("weights", (0, 4, 0)))
    assert viewer.window.workspace.screen.panel(BOARD_CONTENTS).cursor.hovered is None
    paper = viewer.window.theme.paper.lower()
    picture = viewer.picture()
    assert picture.pixelColor(viewer.hand.point(Cell("weights", (0, 4, 0)))).name() == paper
    viewer.window.controllers.playback_controller.step_by(4)
    viewer.hand.settle()
    assert (
        viewer.picture().pixelColor(viewer.hand.point(Cell("weights", (0, 4, 0)))).name() != paper
    )


def test_the_cell_pane_tells_of_the_leading_cell(viewer: Viewer) -> None:
    viewer.window.controllers.playback_controller.seek_stage("scores")
    viewer.hand.settle()
    assert "The dot product of the query of" in viewer.hand.said
    assert words(viewer.bar.equation).startswith("score = ")


def test_the_wheel_leaves_the_choices_alone(viewer: Viewer) -> None:
    for box in (viewer.bar.grain, viewer.bar.speed):
        before = box.currentIndex()
        turn(box, QPoint(0, -120))
        assert box.currentIndex() == before


def test_from_a_last_stage_that_went_play_begins_anew(viewer: Viewer) -> None:
    viewer.window.controllers.playback_controller.seek_stage("output")
    viewer.window.workspace.change_setting("output_projection", False)
    viewer.hand.settle()
    viewer.window.controllers.playback_controller.toggle_playback()
    # It is read before the next step, which may be reached before the window has settled.
    assert viewer.window.workspace.requested_view.playhead.place == PlaybackPosition("input")
    viewer.window.controllers.playback_controller.toggle_playback()


def test_the_widget_keeps_no_run_alive(viewer: Viewer) -> None:
    made = viewer.window.workspace.screen.panel(PLAYBACK_PANEL)
    assert made.made_of is not None
    assert viewer.shown == replace(made, made_of=None)
    assert viewer.shown.made_of is None
