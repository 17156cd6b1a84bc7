"""Predictions in the window: covered stages, marks by mouse and keyboard, no answer revealed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox

from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import PlaybackPosition

if TYPE_CHECKING:
    from tests.support.playback_viewer import Viewer


def test_predict_mark_and_reveal(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    flow = viewer.hand.shown.flow
    assert flow is not None
    assert flow.panels[flow.focus].stage == "weights"
    viewer.hand.hover(Cell("weights", (0, 3, 1)))
    assert "Hidden" in viewer.hand.said
    viewer.hand.click_cell(Cell("weights", (0, 3, 1)))
    viewer.hand.click_cell(Cell("weights", (0, 4, 0)))
    viewer.hand.settle()
    assert "2 marks" in viewer.said
    viewer.click("playback.reveal")
    assert viewer.said == "1 of 2 rows are correct; rings mark the largest cells."
    viewer.click("playback.predict")
    assert viewer.hand.stages == ["scores", "weights", "context"]


def test_the_keys_begin_at_what_is_asked_about(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    viewer.hand.board.setFocus()
    viewer.hand.key(Qt.Key.Key_Down)
    viewer.hand.key(Qt.Key.Key_Return)
    viewer.hand.settle()
    assert viewer.hand.window.workspace.view.pinned == Cell("weights", (0, 0, 0))
    assert "press Enter. 1 mark so far." in viewer.said


def test_another_question_is_asked_anew(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    viewer.hand.click_cell(Cell("weights", (0, 3, 1)))
    viewer.click("playback.reveal")
    assert not viewer.bar.reveal.isVisible()
    viewer.choose("Prediction question", "Which are zero?")
    assert viewer.bar.reveal.isVisible()
    assert "mark" not in viewer.said
    viewer.hand.hover(Cell("weights", (0, 3, 1)))
    assert "Hidden" in viewer.hand.said
    viewer.hand.click_cell(Cell("weights", (0, 0, 5)))
    viewer.click("playback.reveal")
    assert viewer.said == "Yes: the cell you marked is 0. Of 36 cells in head 1, 15 are 0."


def test_escape_ends_the_prediction(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    assert viewer.hand.window.workspace.view.guess
    viewer.key(Qt.Key.Key_Escape)
    assert viewer.hand.window.workspace.view.guess is None


def test_escape_pauses_and_does_not_leave_the_step(viewer: Viewer) -> None:
    viewer.hand.board.setFocus()
    viewer.hand.press(Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier)
    viewer.hand.until(lambda: viewer.shown.playhead.is_playing)
    viewer.key(Qt.Key.Key_Escape)
    assert not viewer.shown.playhead.is_playing
    assert viewer.place is not None


def test_a_prediction_stops_what_is_played(viewer: Viewer) -> None:
    viewer.choose("Steps", "By cell")
    viewer.hand.board.setFocus()
    viewer.hand.press(Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier)
    viewer.hand.until(lambda: viewer.shown.playhead.is_playing)
    viewer.click("playback.predict")
    assert not viewer.shown.playhead.is_playing
    assert viewer.bar.question.isVisible()
    viewer.click("playback.predict")
    assert not viewer.shown.playhead.is_playing


def test_nothing_of_a_covered_stage_is_seen(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    covered = [viewer.hand.point(Cell("weights", (0, row, 0))) for row in (1, 3, 5)]
    colours = {viewer.picture().pixelColor(at).name() for at in covered}
    assert len(colours) == 1


def test_step_leaves_a_prediction(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    viewer.key(Qt.Key.Key_Home)
    assert viewer.place == PlaybackPosition("input")
    assert viewer.bar.findChildren(QComboBox)
    assert not viewer.bar.question.isVisibleTo(viewer.window)


def test_without_a_mouse(viewer: Viewer) -> None:
    viewer.hand.trigger("playback.predict")
    viewer.hand.settle()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down):
        viewer.key(key)
    pinned = viewer.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned
    assert pinned == Cell("weights", (0, 1, 0))
    assert viewer.hand.said.startswith("Hidden")
    viewer.key(Qt.Key.Key_Return)
    assert viewer.window.workspace.view.guess
    assert viewer.window.workspace.view.guess.marks == (pinned,)
    viewer.hand.run_in_palette("reveal")
    assert viewer.said.startswith("Not quite")


def test_marks_that_a_change_leaves_no_room_for_are_forgotten(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    viewer.hand.click_cell(Cell("weights", (0, 5, 2)))
    viewer.window.controllers.cell_selection_controller.toggle_prediction_mark(
        Cell("weights", (1, 1, 0))
    )
    viewer.click("playback.reveal")
    viewer.hand.type_number("heads", "1")
    viewer.hand.settle()
    assert "You marked" not in viewer.said
    assert viewer.shown.is_revealed
    viewer.hand.type_sentence("one two")
    viewer.hand.settle()
    assert viewer.said.startswith("No cell was marked")
    viewer.hand.hover(Cell("weights", (0, 1, 0)))
    assert "attends to" in viewer.hand.said


def test_a_pooled_panel_does_not_give_its_largest_cell_away(viewer: Viewer) -> None:
    viewer.hand.paste_sentence(" ".join(f"w{number}" for number in range(400)))
    viewer.hand.settle()
    viewer.click("playback.predict")
    heatmap = viewer.hand.panel("weights")
    assert heatmap.is_pooled
    pointed = Cell("weights", (0, 40 * heatmap.rows.block, 20 * heatmap.columns.block))
    viewer.hand.hover(pointed)
    first = viewer.window.workspace.view.hovered
    assert first is not None
    assert all(at % heatmap.rows.block == 0 for at in first.place[1:])
    viewer.hand.click_cell(pointed)
    assert viewer.window.workspace.view.guess
    assert viewer.window.workspace.view.guess.marks == (first,)
    viewer.click("playback.reveal")
    assert viewer.said.startswith(("Yes", "Not quite"))


def test_a_step_goes_on_from_the_stage_that_was_predicted(viewer: Viewer) -> None:
    viewer.click("playback.predict")
    viewer.key(Qt.Key.Key_PageDown)
    assert viewer.place == PlaybackPosition("weights", 1)


def test_another_text_of_a_batch_is_predicted_anew(viewer: Viewer) -> None:
    viewer.window.workspace.change_setting("lines", "apart")
    viewer.hand.paste_sentence("a b c\nd e f")
    viewer.hand.settle()
    viewer.click("playback.predict")
    viewer.hand.click_cell(Cell("weights", (0, 2, 0)))
    viewer.hand.press(Qt.Key.Key_PageDown)
    viewer.hand.settle()
    assert viewer.window.workspace.view.text == 1
    assert "mark" not in viewer.said


def test_a_stage_that_goes_is_no_longer_predicted(viewer: Viewer) -> None:
    viewer.hand.click_cell(Cell("scores", (0, 0, 0)))
    viewer.window.controllers.playback_controller.seek_stage("masked")
    viewer.hand.settle()
    viewer.click("playback.predict")
    viewer.hand.press(Qt.Key.Key_M)
    viewer.hand.settle()
    action = viewer.window.actions_.by_id["playback.predict"]
    assert not action.isChecked()
    viewer.click("playback.predict")
    assert action.isChecked()
