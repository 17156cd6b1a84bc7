"""The previous result stays on screen during a computation, and the newest request wins."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication, QPushButton
from shiboken6 import isValid

from tests.support.window_input import PATIENCE_MS, Hand
from visualizer import app
from visualizer.attention import custom_weights
from visualizer.attention.remote_numbers import notify_arrival_listeners
from visualizer.attention.spec import PROJECTION_LAYERS, NumberMatrix
from visualizer.documents.document_file import SavedDocument
from visualizer.errors import MEMORY_ERROR, InputError
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.shell.screen_presenter import EMPTY_MESSAGE, LOADING_TORCH_MESSAGE, ScreenPresenter

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Gate, Open
    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager


@pytest.fixture
def gated(gate: Gate, open_window: Open, qtbot: QtBot) -> MainWindow:
    """A window that shows its first result; the next computations wait at the gate."""
    window = open_window()
    gate.let_through()
    qtbot.waitUntil(lambda: window.workspace.run is not None, timeout=6 * PATIENCE_MS)
    return window


def texts(gate: Gate) -> list[str]:
    return [document.text for document in gate.asked]


def test_the_window_appears_before_the_first_result(
    gate: Gate, open_window: Open, qtbot: QtBot
) -> None:
    window = open_window()
    hand = Hand(qtbot, window)
    assert window.isVisible()
    assert hand.sentence.toPlainText() == Document().text
    assert hand.shown.columns == ()
    assert window.workspace.screen.panel(BOARD_CONTENTS).message == LOADING_TORCH_MESSAGE
    assert not window.actions_.by_id["export.open"].isEnabled()
    qtbot.waitUntil(lambda: window.progress.is_progress_visible)
    gate.let_through()
    hand.settle()
    assert hand.stages == ["scores", "weights", "context"]
    assert window.actions_.by_id["export.open"].isEnabled()
    assert not window.progress.is_progress_visible


def test_the_previous_heatmaps_stay_and_a_thin_line_shows_the_progress(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    board, picture = hand.shown, gated.board.viewport().grab().toImage()
    hand.press(Qt.Key.Key_M)
    qtbot.waitUntil(lambda: gated.progress.is_progress_visible)
    assert hand.shown is board
    assert gated.board.viewport().grab().toImage() == picture
    hand.hover(Cell("weights", (0, 1, 0)))
    assert "journey (query 2) attends to" in hand.said
    gate.let_through()
    hand.settle()
    assert hand.shown is not board
    assert not gated.progress.is_progress_visible


def test_only_the_newest_waiting_document_is_computed(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    for text in ("first", "second", "third", "last"):
        hand.sentence.selectAll()
        hand.compose(text)
        qtbot.waitUntil(lambda: len(gate.asked) == 2)
    gate.open()
    hand.settle()
    assert texts(gate)[1:] == ["first", "last"]
    assert hand.chips == ("last",)


def test_an_intermediate_result_is_shown_with_its_own_labels(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    for text in ("a b c", "d e"):
        hand.sentence.selectAll()
        hand.compose(text)
        qtbot.waitUntil(lambda: len(gate.asked) == 2)
    gate.let_through()
    hand.until(lambda: hand.chips == ("a", "b", "c"))
    assert hand.panel("weights").rows.labels == ("a", "b", "c")
    assert hand.panel("weights").values.shape == (3, 3)
    assert hand.sentence.toPlainText() == "d e"
    gate.let_through()
    hand.settle()
    assert hand.panel("weights").rows.labels == ("d", "e")


def test_an_error_is_shown_and_the_last_valid_run_stays(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    run, board = gated.workspace.run, hand.shown
    gate.error = InputError("text", "Too long by far.")
    gate.open()
    hand.compose("more ")
    hand.until(lambda: hand.text_problem == "Too long by far.")
    assert gated.workspace.run is run
    assert hand.shown is board
    gate.error = None
    hand.compose("still ")
    hand.settle()
    assert hand.text_problem == ""


def test_an_outdated_error_is_not_shown(gate: Gate, gated: MainWindow, qtbot: QtBot) -> None:
    hand = Hand(qtbot, gated)
    gate.error = InputError("text", "Too long by far.")
    hand.compose("more ")
    qtbot.waitUntil(lambda: len(gate.asked) == 2)
    hand.press(Qt.Key.Key_Z)
    gate.let_through()
    qtbot.waitUntil(lambda: len(gate.asked) == 3)
    gate.error = None
    assert hand.text_problem == ""
    gate.open()
    hand.settle()
    assert hand.text_problem == ""


def test_an_opened_model_is_kept_until_it_has_run(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    class Model: ...

    hand, model = Hand(qtbot, gated), Model()
    there = weakref.ref(model)
    hand.sentence.selectAll()
    hand.compose("first")
    qtbot.waitUntil(lambda: len(gate.asked) == 2)
    gated.workspace.show_document(Document(text="second"), gated.workspace.requested_view, model)
    del model
    gate.let_through()
    hand.until(lambda: hand.chips == ("first",))
    assert there()
    gate.let_through()
    hand.settle()
    hand.until(lambda: there() is None)


def test_invalid_settings_send_no_request(gate: Gate, gated: MainWindow, qtbot: QtBot) -> None:
    hand = Hand(qtbot, gated)
    hand.type_number("heads", "3")
    assert hand.problem("heads") != ""
    # The message needs space, so panels may be prefetched again; a computation would wait at the
    # gate.
    hand.until(lambda: not gated.workspace.is_working)
    assert len(gate.asked) == 1


def test_the_first_document_can_be_rejected(gate: Gate, open_window: Open, qtbot: QtBot) -> None:
    gate.open()
    window = open_window(Document(""))
    hand = Hand(qtbot, window)
    hand.until(lambda: bool(hand.text_problem))
    assert window.workspace.screen.panel(BOARD_CONTENTS).message == EMPTY_MESSAGE
    hand.compose("now")
    hand.settle()
    assert hand.chips == ("now",)


def test_an_unexpected_error_is_shown_with_details_and_the_heatmaps_stay(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    board = hand.shown
    gate.error = ZeroDivisionError("of all things")
    gate.open()
    hand.press(Qt.Key.Key_M)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert (
        box.text()
        == "An unexpected error occurred. The window keeps showing the last valid result."
    )
    assert "ZeroDivisionError: of all things" in box.detailedText()
    assert "Traceback" in box.detailedText()
    copy = next(b for b in box.findChildren(QPushButton) if "Copy details" in b.text())
    hand.click(copy)
    assert QApplication.clipboard().text() == box.detailedText()
    assert hand.shown is board
    assert not gated.workspace.is_working
    gate.error = None
    hand.activate()
    hand.press(Qt.Key.Key_M)
    hand.settle()
    assert hand.shown.columns != ()


def test_after_an_unexpected_error_the_newer_document_is_computed(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    hand.press(Qt.Key.Key_M)
    qtbot.waitUntil(lambda: len(gate.asked) == 2)
    hand.sentence.selectAll()
    hand.compose("newer words")
    gate.error = ZeroDivisionError("of all things")
    gate.let_through()
    qtbot.waitUntil(lambda: len(gate.asked) == 3)
    gate.error = None
    hand.until(lambda: bool(hand.boxes()))
    assert gated.workspace.is_working
    # The result is still pending.
    assert gated.workspace.pending_document == gated.workspace.document
    gated.workspace.toggle_stage("scaled")
    gate.let_through()
    hand.settle()
    assert hand.chips == ("newer", "words")
    assert hand.stages == ["scores", "scaled", "weights", "context"]


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")],
)
def test_running_out_of_memory_is_shown_next_to_the_text(
    error: Exception, gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    board = hand.shown
    gate.error = error
    gate.open()
    hand.press(Qt.Key.Key_M)
    hand.until(lambda: bool(hand.text_problem))
    assert hand.text_problem == MEMORY_ERROR
    assert hand.boxes() == []
    assert hand.shown is board
    gate.error = None
    hand.press(Qt.Key.Key_M)
    hand.settle()
    assert hand.text_problem == ""


def test_an_accepted_value_removes_the_error_of_its_own_setting(window: MainWindow) -> None:
    workspace = window.workspace
    workspace.show_error(InputError("text", "It is too long."))
    assert workspace.input_error is not None
    workspace.change_setting("seed", 7)
    assert workspace.input_error is not None
    workspace.change_setting("text", workspace.document.text)
    assert workspace.input_error is None


def test_a_value_that_resolves_an_error_is_not_overwritten(window: MainWindow) -> None:
    workspace, shown = window.workspace, []
    workspace.show_error(InputError("text", "It is too long."))
    workspace.changed.connect(lambda: shown.append(workspace.screen.document.text))
    workspace.change_setting("text", "a b")
    assert set(shown) == {"a b"}
    assert workspace.input_error is None


def test_unexpected_errors_are_shown_one_at_a_time(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    gate.error = ZeroDivisionError("of all things")
    gate.open()
    for _ in range(3):
        with qtbot.waitSignal(gated.workspace.failed):
            gated.controllers.setup_controller.resample("seed")
    (box,) = hand.boxes()
    box.close()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert hand.boxes() == []
    with qtbot.waitSignal(gated.workspace.failed):
        gated.controllers.setup_controller.resample("seed")
    (box,) = hand.boxes()
    box.close()


def test_closing_does_not_wait_and_starts_no_computation(
    gate: Gate, gated: MainWindow, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    hand.press(Qt.Key.Key_M)
    qtbot.waitUntil(lambda: len(gate.asked) == 2)
    hand.trigger("workspace.resample seed")
    worker, shown = gated.workspace.requests.worker, gated.workspace.run
    gated.controllers.document_controller.discard_unsaved_changes()
    assert gated.close()
    assert not gated.isVisible()
    assert worker.isRunning()
    gate.let_through()
    qtbot.waitUntil(lambda: not isValid(worker))  # the thread has ended
    assert len(gate.asked) == 2
    assert gated.workspace.run is shown


def test_a_window_can_be_closed_before_its_first_result(
    gate: Gate, open_window: Open, qtbot: QtBot
) -> None:
    window = open_window()
    qtbot.waitUntil(lambda: len(gate.asked) == 1)
    worker = window.workspace.requests.worker
    assert window.close()
    assert worker.isRunning()
    gate.open()
    qtbot.waitUntil(lambda: not isValid(worker))  # the thread has ended


def test_quick_clicks_all_have_an_effect(gate: Gate, gated: MainWindow, qtbot: QtBot) -> None:
    hand = Hand(qtbot, gated)
    hand.press(Qt.Key.Key_M)
    qtbot.waitUntil(lambda: len(gate.asked) == 2)
    for stage in ("scores", "scaled", "context"):
        hand.toggle_stage(stage)
    gate.open()
    hand.settle()
    assert hand.stages == ["scaled", "weights"]


def test_a_prefetch_for_an_outdated_view_is_not_shown(gated: MainWindow, qtbot: QtBot) -> None:
    hand = Hand(qtbot, gated)
    hand.settle()
    before, seen = gated.workspace.view.stages, set()
    gated.workspace.changed.connect(lambda: seen.add(gated.workspace.view.stages))
    gated.workspace.toggle_stage("masked")
    # The data of the stage must be prefetched first.
    assert gated.workspace.requested_view != gated.workspace.view
    gated.workspace.toggle_stage("masked")
    hand.until(lambda: not gated.workspace.is_working)
    assert seen == {before}


def test_the_program_uses_the_real_computation(window: MainWindow) -> None:
    assert window.workspace.compute is app.compute
    assert window.workspace.computed == Document()


def test_a_failing_prefetch_is_not_requested_repeatedly(
    gated: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(qtbot, gated)
    tried: list[int] = []

    def fail(table: object, resolved: object, previous: object) -> None:
        tried.append(1)
        raise RuntimeError("unreadable")

    monkeypatch.setattr(ScreenPresenter, "prefetch", fail)
    gated.workspace.toggle_stage("masked")
    hand.until(lambda: bool(hand.boxes()))
    hand.boxes()[0].close()
    hand.until(lambda: not gated.workspace.is_working)
    assert tried == [1]
    assert hand.stages == ["scores", "weights", "context"]


def test_custom_weights_are_kept_only_if_they_fit_the_module(
    gated: MainWindow, gate: Gate, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, gated)
    keep = gated.actions_.by_id["workspace.keep_weights"]
    assert keep.isEnabled()
    gated.workspace.change_setting("d_in", 5)
    assert not keep.isEnabled()
    gated.controllers.setup_controller.toggle_fixed_weights()
    assert not gated.workspace.document.spec.own_weights
    gate.open()
    hand.settle()
    hand.trigger("workspace.keep_weights")
    hand.settle()
    assert [name for name, _ in gated.workspace.document.spec.own_weights] == [
        *PROJECTION_LAYERS,
        "W_output",
    ]
    before = gated.workspace.run
    assert before
    context = before.trace.read("context")
    hand.trigger("workspace.resample seed")  # another seed does not change the context vectors
    hand.settle()
    own: dict[str, NumberMatrix] = dict(gated.workspace.document.spec.own_weights)
    run = gated.workspace.run
    assert run
    assert pytest.approx(own["W_query"].to_array()) == run.trace.read("W_query.weight").T
    assert context.shape == run.trace.read("context").shape
    assert keep.isChecked()
    hand.trigger("workspace.keep_weights")
    hand.settle()
    assert not keep.isChecked()


def test_weights_that_are_too_large_are_not_kept_and_a_message_is_shown(
    gated: MainWindow, gate: Gate, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(qtbot, gated)
    monkeypatch.setattr(custom_weights, "MAX_ELEMENTS", 10)
    hand.trigger("workspace.keep_weights")
    assert (
        hand.problem("own_weights")
        == "There are 22 weights; at most 10 can be saved. Use smaller sizes."
    )
    gate.open()
    gated.workspace.change_setting("seed", 7)
    hand.settle()
    assert hand.problem("own_weights") == ""


def test_values_can_arrive_after_the_window_was_closed(
    windows: WindowManager, qtbot: QtBot
) -> None:
    windows.open_first_window(SavedDocument(Document(), View()), None)
    window = windows.all[0]
    Hand(qtbot, window).settle()
    workspace = window.workspace
    window.close()
    qtbot.waitUntil(lambda: not isValid(workspace))
    notify_arrival_listeners()  # this has no effect and raises no error
    assert not windows.all
