"""Panes in the window run a model again to answer questions about its text."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest

import visualizer
from tests.support.background_work import worker_of
from tests.support.window_fixtures import TEXT_OF_MODEL as TEXT
from visualizer.attention.remote_numbers import (
    NumbersPendingError,
    may_wait,
    notify_arrival_listeners,
)
from visualizer.attention.trace import Trace
from visualizer.errors import MEMORY_ERROR, InputError
from visualizer.features.head_scatter.presenter import SCATTER_PANEL
from visualizer.features.logit_lens.presenter import LENS_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session import model_question_controller, worker_jobs
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.attention.model_forward_pass import ModelAnswer

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models


@pytest.fixture
def folder(tiny_model_folder: Path) -> Path:
    return tiny_model_folder


def open_pane(hand: Hand, id_: str) -> None:
    hand.window.docks.actions[id_].trigger()
    hand.until(lambda: id_ in hand.window.docks.visible_pane_ids)
    answered(hand)


def answered(hand: Hand) -> None:
    hand.settle()
    hand.until(lambda: not hand.window.controllers.model_question_controller.is_working)


def lens_of(folder: Path, text: str) -> np.ndarray:
    lens = visualizer.open_model(folder).logit_lens(text)
    return np.array([[rank[0][1] for rank in layer] for layer in lens])


def test_the_lens_is_read_while_its_pane_is_open_and_follows_the_text(
    model_window: Hand, folder: Path
) -> None:
    hand = model_window
    run = hand.window.workspace.run
    assert run
    assert run.reading
    assert not run.reading.answers.known
    open_pane(hand, "Lens")
    cells = hand.window.workspace.screen.panel(LENS_PANEL).cells
    assert cells is not None
    np.testing.assert_allclose(cells.values, lens_of(folder, TEXT), atol=1e-6)
    assert hand.window.panes["Lens"].table.cells is cells
    hand.type_sentence("the dog sat")
    answered(hand)
    shown = hand.window.panes["Lens"].table.cells
    np.testing.assert_allclose(shown.values, lens_of(folder, "the dog sat"), atol=1e-6)
    assert shown.columns == ("<s>", "the", "dog", "sat")


def test_failures_of_an_earlier_text_are_not_reported_for_the_next(
    model_window: Hand, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand, answer = model_window, worker_jobs.answer_question
    has_begun, goes_on = threading.Event(), threading.Event()

    def fail_at_first(*given: Any) -> ModelAnswer:
        if not has_begun.is_set():
            has_begun.set()
            goes_on.wait()
            raise ZeroDivisionError("of all things")
        return answer(*given)

    monkeypatch.setattr(worker_jobs, "answer_question", fail_at_first)
    hand.window.docks.actions["Lens"].trigger()
    hand.until(has_begun.is_set)
    hand.type_sentence("the dog sat")
    hand.settle()
    goes_on.set()
    assert "ZeroDivisionError: of all things" in hand.details_of_bug()
    answered(hand)
    shown = hand.window.panes["Lens"].table.cells
    np.testing.assert_allclose(shown.values, lens_of(folder, "the dog sat"), atol=1e-6)


def test_that_nothing_can_be_asked_is_reported(
    model_window: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = model_window
    worker, refused = (
        worker_of(hand.window.controllers.model_question_controller),
        InputError("memory", MEMORY_ERROR),
    )
    refuse = partial(QTimer.singleShot, 0, worker, lambda: worker.failed.emit(refused))
    monkeypatch.setattr(worker, "submit", lambda request: refuse())
    open_pane(hand, "Lens")
    hand.until(lambda: hand.window.panes["Lens"].message.text() == MEMORY_ERROR)
    assert not hand.window.controllers.model_question_controller.is_working


def test_a_server_that_was_lost_is_asked_again_with_a_later_change(
    model_window: Hand, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand, answer = model_window, worker_jobs.answer_question
    is_lost = True

    def lost_at_first(*given: Any) -> ModelAnswer:
        if is_lost:
            raise InputError("server", "The connection was lost.")
        return answer(*given)

    monkeypatch.setattr(worker_jobs, "answer_question", lost_at_first)
    now = 100.0
    monkeypatch.setattr(model_question_controller, "monotonic", lambda: now)
    open_pane(hand, "Lens")
    assert hand.window.panes["Lens"].message.text() == "The connection was lost."
    is_lost = False
    hand.window.controllers.view_controller.show_head_of_layer(0, 1)
    hand.settle()
    assert hand.window.panes["Lens"].message.text() == "The connection was lost."
    now += 4
    hand.window.controllers.view_controller.show_head_of_layer(0, 0)
    hand.settle()
    hand.until(lambda: hand.window.panes["Lens"].table.cells is not None)
    shown = hand.window.panes["Lens"].table.cells
    np.testing.assert_allclose(shown.values, lens_of(folder, TEXT), atol=1e-6)


def test_that_numbers_of_a_server_cannot_be_had_is_reported_until_they_come(
    model_window: Hand,
) -> None:
    hand, workspace = model_window, model_window.window.workspace
    run, refused = workspace.run, [InputError("server", "The line is cut.")]
    assert run
    assert run.reading
    reading = replace(run.reading, refusal=lambda: refused[0] if refused else None)
    workspace.run = replace(run, reading=reading)
    workspace.refresh_screen()
    assert "The line is cut." in hand.text_problem
    refused.clear()
    workspace.refresh_screen()
    assert hand.text_problem == ""


@pytest.fixture
def numbers_on_their_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Delay the values of stages as if a server had not sent them yet."""
    read, late = Trace.read, ["weights"]

    def read_later(self: Trace, *given: Any) -> Any:
        if given[0] in late and len(given) > 1 and not may_wait():
            raise NumbersPendingError
        return read(self, *given)

    monkeypatch.setattr(Trace, "read", read_later)
    return late


def test_a_cell_that_is_pinned_in_the_meantime_stays_pinned(
    model_window: Hand, numbers_on_their_way: list[str]
) -> None:
    hand, workspace = model_window, model_window.window.workspace
    hand.window.controllers.view_controller.show_token_of_layer(1, 2)
    hand.settle()
    other = Cell("weights", (0, 1, 0))
    hand.window.controllers.cell_selection_controller.pin_cell(other)
    numbers_on_their_way.clear()
    notify_arrival_listeners()
    hand.settle()
    assert workspace.requested_view.pinned == other


def test_a_token_is_pinned_once_its_numbers_have_come_from_a_server(
    model_window: Hand, numbers_on_their_way: list[str]
) -> None:
    hand = model_window
    hand.window.controllers.view_controller.show_token_of_layer(1, 2)
    hand.settle()
    assert hand.window.workspace.requested_view.pinned is None
    numbers_on_their_way.clear()
    notify_arrival_listeners()
    hand.until(lambda: hand.window.workspace.requested_view.pinned is not None)
    pinned = hand.window.workspace.requested_view.pinned
    assert pinned
    head, query, key = pinned.place
    run = hand.window.workspace.run
    assert run
    row = run.trace.read("weights", (1, head, query))
    assert (query, key) == (2, int(row.argmax()))
    hand.settle()


def test_the_last_row_is_what_the_next_token_pane_says_with_heads_off(model_window: Hand) -> None:
    hand = model_window
    open_pane(hand, "Lens")
    hand.window.controllers.view_controller.show_head_of_layer(0, 1)
    hand.settle()
    hand.window.actions_.by_id["head_edit.toggle"].trigger()
    answered(hand)
    cells = hand.window.panes["Lens"].table.cells
    row = hand.window.panes["Next token"].bars.rows[0]
    assert cells.values[-1, -1] == pytest.approx(row.probability, abs=1e-6)


def test_a_click_shows_the_layer_and_pins_the_token(model_window: Hand) -> None:
    hand = model_window
    open_pane(hand, "Lens")
    table = hand.window.panes["Lens"].table
    table.setFocus()
    QTest.keyClick(table, Qt.Key.Key_Down)
    QTest.keyClick(table, Qt.Key.Key_Right)
    QTest.keyClick(table, Qt.Key.Key_Right)
    QTest.keyClick(table, Qt.Key.Key_Return)
    hand.settle()
    resolved = hand.window.workspace.screen.resolved
    assert resolved
    assert resolved.leading == (1,)
    pinned = hand.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned
    assert pinned
    head, query, key = pinned.place
    row = resolved.run.trace.read("weights", (1, head, query))
    assert (query, key) == (2, int(row.argmax()))
    assert table.cells.marked == {(1, 2)}
    assert "The model’s prediction" in hand.window.panes["Lens"].description.text()


def test_without_a_model_the_pane_says_what_to_do(hand: Hand) -> None:
    open_pane(hand, "Lens")
    pane = hand.window.panes["Lens"]
    assert "Open a model" in pane.message.text()
    assert pane.message.isVisible()
    assert not pane.table.isVisible()


def test_attribution_and_ablation_of_heads(model_window: Hand, folder: Path) -> None:
    hand = model_window
    open_pane(hand, "Attribution")
    pane = hand.window.panes["Attribution"]
    model = visualizer.open_model(folder)
    parts = model.logit_parts(TEXT)
    cells = pane.parts.table.cells
    np.testing.assert_allclose(cells.values[:, :-1], parts.heads, atol=1e-6)
    np.testing.assert_allclose(cells.values[:, -1], parts.rest, atol=1e-6)
    assert "Sum" in pane.sum.text()
    assert not pane.changes.isVisible()
    assert "can differ" in pane.description.text()
    QTest.mouseClick(pane.ablate, Qt.MouseButton.LeftButton)
    answered(hand)
    assert pane.changes.isVisible()
    np.testing.assert_allclose(pane.changes.table.cells.values, -model.ablations(TEXT), atol=1e-5)
    assert not pane.ablate.isVisible()
    pane.changes.table.setFocus()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Return):
        QTest.keyClick(pane.changes.table, key)
    assert "Without layer 2, head 2" in pane.description.text()
    hand.settle()
    resolved = hand.window.workspace.screen.resolved
    assert resolved
    assert (resolved.leading, resolved.heads) == ((1,), (1,))


def test_another_token_is_typed(model_window: Hand, folder: Path) -> None:
    hand = model_window
    open_pane(hand, "Attribution")
    pane = hand.window.panes["Attribution"]
    edit = pane.token.lineEdit()
    edit.setFocus()
    edit.selectAll()
    QTest.keyClicks(edit, "log")
    QTest.keyClick(edit, Qt.Key.Key_Return)
    answered(hand)
    parts = visualizer.open_model(folder).logit_parts(TEXT, "log")
    np.testing.assert_allclose(pane.parts.table.cells.values[:, :-1], parts.heads, atol=1e-6)
    edit.selectAll()
    QTest.keyClicks(edit, "the cat")
    QTest.keyClick(edit, Qt.Key.Key_Return)
    answered(hand)
    assert "into 2 tokens" in pane.message.text()
    assert pane.message.isVisible()


def test_ablation_is_stopped_by_its_command(model_window: Hand) -> None:
    hand = model_window
    action = hand.window.actions_.by_id["attribution.toggle_ablations"]
    assert not hand.window.docks.by_id["Attribution"].isVisible()
    action.trigger()
    hand.until(action.isChecked)
    assert hand.window.panes["Attribution"].isVisible()
    action.trigger()
    assert not action.isChecked()
    answered(hand)
    run = hand.window.workspace.run
    assert run
    assert run.reading
    assert not run.reading.answers.wanted
    assert hand.window.panes["Attribution"].ablate.isVisible()


def test_heads_are_plotted_by_two_measures_and_a_click_shows_one(model_window: Hand) -> None:
    hand = model_window
    open_pane(hand, "Attribution")
    open_pane(hand, "Scatter")
    pane = hand.window.panes["Scatter"]
    assert pane.up.findData("added") > 0
    pane.measuresChosen.emit("previous", "added")
    hand.settle()
    panel = hand.window.workspace.screen.panel(SCATTER_PANEL)
    assert len(panel.plotted_heads) == 8
    assert pane.up.currentText() == "Logit contribution"
    place = panel.plotted_heads[3]
    QTest.mouseMove(pane.plot, pane.plot.head_position(place).toPoint())
    hand.until(lambda: pane.description.text() == panel.describe_head(place))
    hand.click(pane.plot, pane.plot.head_position(place).toPoint())
    hand.settle()
    assert hand.window.workspace.screen.panel(SCATTER_PANEL).shown == {place}
    pane.plot.setFocus()
    QTest.keyClick(pane.plot, Qt.Key.Key_Right)
    QTest.keyClick(pane.plot, Qt.Key.Key_Return)
    hand.settle()
    assert hand.window.workspace.screen.panel(SCATTER_PANEL).shown == {panel.plotted_heads[4]}
