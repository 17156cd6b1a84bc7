"""For a text without stored matrices, every pane shows its content or states what is missing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from visualizer.attention import run as attention_run
from visualizer.attention.head_measures import HeadMeasures
from visualizer.attention.run import run as compute_run
from visualizer.features.comparison_bar.presenter import COMPARISON_PANEL
from visualizer.features.head_scatter.presenter import SCATTER_PANEL
from visualizer.features.head_table.presenter import HEADS_PANEL
from visualizer.features.layer_overview.presenter import LAYERS_PANEL
from visualizer.features.line_view.presenter import LINES_PANEL
from visualizer.features.mask_editor.brush_bar_widget import MaskEditBar
from visualizer.features.mask_editor.presenter import MASK_EDIT_PANEL
from visualizer.session import worker_jobs
from visualizer.session.cell_address import Cell
from visualizer.session.measurement_controller import FAILED_MESSAGE
from visualizer.session.model_pane_options import LONG_TEXT_MESSAGE
from visualizer.session.token_selection import TokenRole, TokenSelection
from visualizer.shell.pane_table import PANES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.window_input import Hand
    from visualizer.attention.run import Run
    from visualizer.features.line_view.presenter import LinePanel

TEXT = "the cat sat on the mat and the dog sat on the cat " * 8


@pytest.fixture
def long_text(every_text_is_long: Mapping[str, int], hand: Hand) -> Hand:
    """Open a window with a text that is processed like a long text."""
    hand.type_sentence(TEXT)
    hand.settle()
    assert run_of(hand).trace.is_blockwise
    return hand


def run_of(hand: Hand) -> Run:
    run = hand.window.workspace.run
    assert run
    return run


def open_pane(hand: Hand, id_: str) -> Any:
    """Open a pane like the View menu."""
    if id_ not in hand.window.docks.visible_pane_ids:
        hand.window.docks.actions[id_].trigger()
    hand.until(lambda: id_ in hand.window.docks.visible_pane_ids)
    hand.settle()
    return hand.window.panes[id_]


def is_idle(hand: Hand) -> bool:
    return not hand.window.controllers.head_measurement_controller.is_working


def test_every_pane_is_opened_and_used_on_a_long_text(long_text: Hand) -> None:
    hand = long_text
    for pane in PANES:
        if pane.id != "Lesson":
            open_pane(hand, pane.id).grab()
            hand.hover(Cell("weights", (0, 40, 3)))
    hand.click_cell(Cell("weights", (0, 50, 20)))
    hand.settle()
    hand.type_sentence(TEXT + "again")
    hand.settle()
    assert len(run_of(hand).texts[0]) == len(TEXT.split()) + 1
    for id_ in hand.window.docks.visible_pane_ids:
        hand.window.panes[id_].grab()
    assert not hand.boxes()


def test_layers_show_some_rows(long_text: Hand) -> None:
    hand = long_text
    pane = open_pane(hand, "Layers")
    screen = hand.window.workspace.screen
    assert "4 rows" in pane.description.text()
    weights = screen.panel(LAYERS_PANEL).weights
    assert weights is not None
    whole = run_of(hand).trace.read("weights", (0,))
    np.testing.assert_allclose(weights[0, 0, 5, 2], whole[22, 8:12].max(), rtol=1e-6)


def lines_of(hand: Hand) -> LinePanel:
    panel = hand.window.workspace.screen.panel(LINES_PANEL)
    assert panel
    return panel


def test_lines_are_the_strongest_of_the_pinned_query_and_those_near_it(long_text: Hand) -> None:
    hand = long_text
    pane = open_pane(hand, "Lines")
    hand.until(lambda: len(lines_of(hand).lines) > 0)
    hand.settle()
    assert "one query in" in pane.notes.text()
    pinned = Cell("weights", (0, 50, 20))
    hand.click_cell(pinned)
    hand.until(lambda: "queries 49 to 64" in pane.notes.text())
    weights = run_of(hand).trace.read("weights")
    near = np.sort(weights[:, 48:64].ravel())[::-1]
    drawn = np.sort(lines_of(hand).lines.weights)[::-1]
    assert len(drawn) >= 64
    np.testing.assert_allclose(drawn[:64], near[:64], rtol=1e-5)
    view = pane.view
    row = view.rows.row_of(50)
    QTest.mouseClick(
        view.viewport(),
        Qt.MouseButton.LeftButton,
        pos=QPoint(20, round(view.rows.row_middle(row) - view.verticalScrollBar().value())),
    )
    workspace = hand.window.workspace
    hand.until(lambda: workspace.view.pinned not in {pinned, None})
    held = workspace.view.pinned
    assert held
    hand.leave()
    hand.until(lambda: lines_of(hand).cell == held)
    assert held.place[1] == 50
    assert lines_of(hand).weight == pytest.approx(float(weights[:, 50].max()), rel=1e-5)


def test_a_mask_is_not_painted_and_no_brush_makes_a_matrix(
    long_text: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = long_text
    run = run_of(hand)
    matrices = [stage for stage in run.trace.stages if stage.dims[-1] == "key"]
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 4 * len(matrices) * 2 * 50**2)
    before = hand.window.workspace.document
    hand.window.actions_.by_id["mask_edit.toggle"].trigger()
    bar = hand.window.findChild(MaskEditBar)
    assert bar
    hand.until(bar.isVisible)
    said = (
        "the text is too long to edit its mask: choose a mask by name, "
        "or shorten the text to 50 tokens"
    )
    panel = hand.window.workspace.screen.panel(MASK_EDIT_PANEL)
    assert panel
    assert panel.notes == (said,)
    assert said in hand.status
    for button in bar.buttons.values():
        assert not button.isVisible()
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)  # like a menu
    hand.click_cell(Cell("weights", (0, 50, 20)))
    hand.key(Qt.Key.Key_X)
    hand.settle()
    assert hand.window.workspace.document == before
    hand.click(bar.done)
    hand.until(lambda: not bar.isVisible())


def test_a_comparison_says_which_text_would_fit(
    long_text: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = long_text
    stages = [stage for stage in run_of(hand).trace.stages if stage.dims[-1] == "key"]
    hand.window.actions_.by_id["comparison.keep_as_a"].trigger()
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 4 * len(stages) * 2 * 50**2)
    hand.type_sentence("the cat sat on the mat")
    hand.settle()
    assert not run_of(hand).trace.is_blockwise
    panel = hand.window.workspace.screen.panel(COMPARISON_PANEL)
    assert panel
    assert panel.result == (
        "The text of A is too long to compare: its matrices are not kept in memory. "
        "Use at most about 50 tokens."
    )
    hand.type_sentence(TEXT)
    hand.settle()
    panel = hand.window.workspace.screen.panel(COMPARISON_PANEL)
    assert panel
    assert panel.result.startswith("The text is too long to compare")


def test_heads_tell_how_much_they_read_the_pinned_key_before_they_are_measured(
    long_text: Hand,
) -> None:
    hand = long_text
    pane = open_pane(hand, "Heads")
    hand.click_cell(Cell("weights", (0, 90, 11)))
    hand.until(lambda: pane.view.isVisible())
    workspace = hand.window.workspace

    def written() -> list[str]:
        table = workspace.screen.panel(HEADS_PANEL)
        return [row.texts[0] for row in table.rows] if table else []

    def wanted(query: int, keys: list[int]) -> list[str]:
        rows = run_of(hand).trace.read("weights")[:, query].astype(np.float64)
        return [f"{100 * row[keys].sum():.1f}" for row in rows]

    hand.until(lambda: written() == wanted(90, [11]))
    assert pane.measuring.start.isVisible()
    assert pane.sentences.text().startswith(LONG_TEXT_MESSAGE)
    hand.key(Qt.Key.Key_Up)
    hand.until(lambda: written() == wanted(89, [11]))
    workspace.change_view(
        tokens=TokenSelection(chosen=frozenset(range(20, 40)), role=TokenRole.KEY)
    )
    hand.until(lambda: written() == wanted(89, [*range(20, 40)]))
    workspace.change_view(tokens=TokenSelection())
    hand.key(Qt.Key.Key_Escape)
    hand.until(lambda: not pane.view.isVisible())


def test_heads_are_measured_when_that_is_requested(
    long_text: Hand, use_usual_limits: Callable[[], None]
) -> None:
    hand = long_text
    pane = open_pane(hand, "Heads")
    assert pane.sentences.text() == LONG_TEXT_MESSAGE
    assert not pane.view.isVisible()
    hand.click(pane.measuring.start)
    hand.until(lambda: is_idle(hand))
    hand.settle()
    assert not pane.measuring.isVisible()
    assert pane.view.isVisible()
    run = run_of(hand)
    use_usual_limits()
    whole = compute_run(run.texts, run.trace.spec)
    assert not whole.trace.is_blockwise
    measures = run.trace.head_measures("weights", run.texts)
    wanted = whole.trace.head_measures("weights", run.texts)
    for name in HeadMeasures.__struct_fields__:
        found = getattr(measures, name)
        np.testing.assert_allclose(found, getattr(wanted, name), rtol=1e-5, err_msg=name)
    scatter = open_pane(hand, "Scatter")
    assert not scatter.measuring.isVisible()
    assert (
        len(hand.window.workspace.screen.panel(SCATTER_PANEL).plotted_heads) == run.trace.spec.heads
    )


class Slow:
    """A measurement in two steps; the second step waits until it is released."""

    def __init__(self) -> None:
        self.has_begun, self.goes_on = threading.Event(), threading.Event()
        self.has_ended = threading.Event()

    def measure(self, run: Run, progress: Callable[[int, int], None]) -> None:
        self.has_begun.set()
        try:
            while not self.goes_on.wait(0.01):
                progress(3, 10)
        finally:
            self.has_ended.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setattr(worker_jobs, "measure_heads", made.measure)
    return made


def test_measuring_is_stopped_by_the_button_or_by_the_command(long_text: Hand, slow: Slow) -> None:
    hand = long_text
    pane = open_pane(hand, "Scatter")
    command = hand.window.actions_.by_id["head_measurement.toggle"]
    command.trigger()
    hand.until(lambda: pane.measuring.progress.value() == 30 and command.isChecked())
    assert "30%" in hand.window.workspace.screen.panel(SCATTER_PANEL).message
    hand.click(pane.measuring.stop)
    hand.until(slow.has_ended.is_set)
    hand.until(lambda: pane.measuring.start.isVisible() and not command.isChecked())
    assert hand.window.workspace.screen.panel(SCATTER_PANEL).message == LONG_TEXT_MESSAGE


def test_another_text_ends_the_measuring(long_text: Hand, slow: Slow) -> None:
    hand = long_text
    pane = open_pane(hand, "Heads")
    hand.click(pane.measuring.start)
    hand.until(slow.has_begun.is_set)
    hand.type_sentence(TEXT + "again")
    hand.settle()
    hand.until(slow.has_ended.is_set)
    assert is_idle(hand)
    assert pane.sentences.text() == LONG_TEXT_MESSAGE
    assert pane.measuring.start.isVisible()


def test_failures_are_reported(long_text: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    hand = long_text
    pane = open_pane(hand, "Heads")

    def fail(*given: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(worker_jobs, "measure_heads", fail)
    hand.click(pane.measuring.start)
    assert "ZeroDivisionError: of all things" in hand.details_of_bug()
    assert pane.sentences.text() == f"{FAILED_MESSAGE} {LONG_TEXT_MESSAGE}"
    assert pane.measuring.start.isVisible()
