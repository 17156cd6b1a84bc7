"""The window shows a text without stored matrices like any other text, and nothing outdated.

The texts are short, but the limit for long texts is set to 0.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt

from tests.support.stale_panels import stale_panels
from tests.support.zoom_gestures import turn
from visualizer.attention import blockwise_tensor
from visualizer.attention.blockwise_tensor import BlockwiseTensor
from visualizer.errors import MEMORY_ERROR
from visualizer.heatmap import board_presenter
from visualizer.heatmap.board_presenter import is_fully_drawn
from visualizer.session import worker_jobs
from visualizer.session.cell_address import Cell
from visualizer.session.request_controller import REFINEMENT_DELAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PySide6.QtCore import QTimer

    from tests.support.window_input import Hand
    from visualizer.attention.cached_tensor import Index
    from visualizer.heatmap.board import Heatmap

WORDS = "the quick brown fox jumps over a lazy dog and then it sleeps "


pytestmark = pytest.mark.usefixtures("every_text_is_long")


@pytest.fixture(autouse=True)
def every_band_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_jobs, "REFINEMENT_S", 0.0)


@pytest.fixture
def refinement_timer(hand: Hand) -> Iterator[QTimer]:
    """Return the timer after which refinement resumes when the user has acted."""
    timer = hand.window.workspace.requests.refinement_timer
    yield timer
    timer.setInterval(REFINEMENT_DELAY_MS)


def until_drawn(hand: Hand) -> None:
    hand.settle()
    workspace = hand.window.workspace

    def is_exact() -> bool:
        resolved = workspace.screen.resolved
        if resolved is None or resolved.run is not workspace.run or hand.window.pending_screen:
            return False
        is_told = not workspace.requests.worker.is_working
        return is_told and is_fully_drawn(resolved) and "exact" not in hand.status

    hand.until(is_exact)


def numbers_of(hand: Hand, panel: Heatmap) -> np.ndarray:
    """Return the expected values of a panel, by reading and pooling all values of its head."""
    run = hand.window.workspace.run
    assert run
    whole = run.trace.read(panel.stage, (*panel.leading, panel.head or 0))
    down, right = panel.rows.block, panel.columns.block
    rows, columns = panel.rows.visible_range, panel.columns.visible_range
    part = whole[rows.start : rows.stop, columns.start : columns.stop]
    high = np.maximum.reduceat(part, np.arange(0, part.shape[0], down), axis=0)
    high = np.maximum.reduceat(high, np.arange(0, part.shape[1], right), axis=1)
    low = np.minimum.reduceat(part, np.arange(0, part.shape[0], down), axis=0)
    low = np.minimum.reduceat(low, np.arange(0, part.shape[1], right), axis=1)
    return np.where(low + high < 0, low, high)


def test_it_is_drawn_exactly_and_says_what_is_not_held(hand: Hand) -> None:
    hand.paste_sentence(WORDS * 20)
    until_drawn(hand)
    run = hand.window.workspace.run
    assert run
    assert run.trace.is_blockwise
    for stage in ("weights", "context"):
        panel = hand.panel(stage)
        np.testing.assert_allclose(panel.values, numbers_of(hand, panel), atol=1e-6)
    assert "its 260 × 260 matrices are computed on demand" in hand.status


def test_a_cell_of_it_is_explained_pinned_and_walked_from(hand: Hand) -> None:
    hand.paste_sentence(WORDS * 3)
    until_drawn(hand)
    cell = Cell("weights", (0, 20, 7))
    hand.click_cell(cell)
    hand.until(lambda: hand.window.workspace.view.pinned == cell)
    run = hand.window.workspace.run
    assert run
    value = float(run.trace.read("weights", cell.place))
    hand.until(lambda: f"{value:.4f}" in hand.window.panes["Explain"].value.text())
    hand.press(Qt.Key.Key_Right, Qt.KeyboardModifier.NoModifier)
    hand.until(lambda: hand.window.workspace.view.pinned == Cell("weights", (0, 20, 8)))


def test_the_wheel_goes_down_to_single_cells(hand: Hand) -> None:
    hand.paste_sentence(WORDS * 40)
    until_drawn(hand)
    assert hand.panel("weights").is_pooled
    for _ in range(12):
        turn(hand, hand.point(Cell("weights", (0, 300, 100))), 1)
    until_drawn(hand)
    panel = hand.panel("weights")
    assert not panel.is_pooled
    assert {300, 100} <= {*panel.rows.visible_range, *panel.columns.visible_range}
    np.testing.assert_allclose(panel.values, numbers_of(hand, panel), atol=1e-6)


def test_zooming_is_shown_before_anything_more_is_computed(hand: Hand) -> None:
    hand.paste_sentence(WORDS * 40)
    until_drawn(hand)
    look, workspace = hand.window.controllers.view_controller, hand.window.workspace
    look.zoom(4, (300, 100))
    assert workspace.screen.view.zoom
    assert np.isfinite(hand.panel("weights").values).all()
    look.reset_zoom()
    assert workspace.screen.view.zoom is None
    assert np.isfinite(hand.panel("weights").values).all()


def test_quick_images_are_exact_while_the_user_acts(
    hand: Hand, refinement_timer: QTimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand.paste_sentence(WORDS * 40)
    until_drawn(hand)
    workspace = hand.window.workspace
    refinement_timer.setInterval(10**6)  # refinement never resumes
    hand.window.controllers.view_controller.zoom(2, (300, 100))
    until_drawn(hand)
    assert workspace.requests.is_refinement_delayed
    monkeypatch.setattr(board_presenter, "CELLS_PER_CHECK", 520 * 100)
    hand.window.controllers.view_controller.pan_by(-200, 200)  # a new part
    hand.until(lambda: not workspace.requests.worker.is_working)
    resolved = workspace.screen.resolved
    assert resolved
    assert board_presenter.has_preview(resolved)
    assert not is_fully_drawn(resolved)


def test_drawing_is_not_interrupted_by_asking_for_the_same(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_jobs, "REFINEMENT_S", 60.0)
    monkeypatch.setattr(blockwise_tensor, "MAX_DRAWN_BAND_CELLS", 130)  # one row at a time
    hand.paste_sentence(WORDS * 10)
    until_drawn(hand)
    asked: list[object] = []
    worker = hand.window.workspace.requests.worker
    ask = worker.submit

    def note(request: Callable[[], object]) -> None:
        asked.append(request)
        ask(request)

    monkeypatch.setattr(worker, "submit", note)
    hand.window.controllers.setup_controller.toggle_causal_mask()
    until_drawn(hand)
    # The results, at most two requests for the pointer and for initial images, and the rest.
    assert len(asked) <= 4


@pytest.mark.parametrize("error", [MemoryError(), ZeroDivisionError("a bug")])
def test_an_image_that_cannot_be_drawn_is_not_tried_for_ever(
    error: Exception, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Index] = []

    def fail(tensor: object, rows: int, columns: int, index: Index, *_: object) -> bool:
        asked.append(index)
        raise error

    workspace = hand.window.workspace
    monkeypatch.setattr(BlockwiseTensor, "draw_exact_rows", fail)
    hand.paste_sentence(WORDS * 20)
    hand.settle()
    hand.until(lambda: bool(hand.text_problem or hand.boxes()))
    hand.until(lambda: not workspace.requests.worker.is_working)
    count = len(asked)
    assert count in (1, 2)  # another request may have been made while the first was running
    workspace.refresh_screen()
    assert not workspace.requests.worker.is_working
    if isinstance(error, MemoryError):
        assert (hand.text_problem, hand.boxes()) == (MEMORY_ERROR, [])
    for box in hand.boxes():
        box.close()
    monkeypatch.undo()
    workspace.set_text(WORDS * 3)
    until_drawn(hand)
    assert hand.text_problem == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_image_ever_belongs_to_another_run(hand: Hand, seed: int) -> None:
    chance = random.Random(seed)
    workspace = hand.window.workspace
    hand.paste_sentence(WORDS * 30)
    hand.settle()
    strange: list[object] = []

    def check() -> None:
        strange.extend(stale_panels(hand))

    shown = [workspace.changed, workspace.drawn]
    for signal in shown:
        signal.connect(check)
    acts = (
        lambda: workspace.change_setting("causal", not workspace.document.get_setting("causal")),
        lambda: workspace.change_setting("seed", chance.randrange(1000)),
        lambda: hand.window.controllers.view_controller.zoom(
            chance.choice((0.5, 2, 4)), (100, 100)
        ),
        lambda: hand.window.controllers.view_controller.pan_by(chance.randrange(-40, 40), 9),
        lambda: hand.window.controllers.view_controller.reset_zoom(),
        lambda: hand.paste_sentence(WORDS * chance.choice((1, 20, 30))),
    )
    for _ in range(25):
        chance.choice(acts)()
        for _ in range(chance.randrange(3)):
            with hand.qtbot.waitSignals(shown, timeout=50, raising=False):
                pass
    for signal in shown:
        signal.disconnect(check)
    assert strange == []
    until_drawn(hand)
    panel = hand.panel("weights")
    np.testing.assert_allclose(panel.values, numbers_of(hand, panel), atol=1e-6)


def test_six_tokens_are_stored_completely_again(
    hand: Hand, use_usual_limits: Callable[[], None]
) -> None:
    hand.paste_sentence(WORDS * 20)
    until_drawn(hand)
    use_usual_limits()
    hand.type_sentence("the cat sat on the mat")
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert not run.trace.is_blockwise
    assert "matrices" not in hand.status


def test_a_dialog_over_it_has_the_cores_until_it_is_closed(
    hand: Hand, refinement_timer: QTimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_presenter, "CELLS_PER_CHECK", 0)  # nothing is exact yet
    hand.paste_sentence(WORDS * 40)
    hand.settle()
    workspace = hand.window.workspace
    refinement_timer.setInterval(10**6)  # refinement never resumes by itself
    workspace.requests.resume_refinement()
    workspace.requests.set_images_covered(True)
    hand.until(lambda: not workspace.requests.worker.is_working)
    resolved = workspace.screen.resolved
    assert resolved
    assert not is_fully_drawn(resolved)
    workspace.requests.set_images_covered(False)
    until_drawn(hand)
