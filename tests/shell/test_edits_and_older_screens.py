"""A screen that is older than the last input does not reset any control."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QSpinBox

from tests.support.window_input import PATIENCE_MS
from visualizer.models import long_text_runner
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import StepSize
from visualizer.shell.screen_presenter import ScreenPresenter
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from PySide6.QtWidgets import QWidget

    from tests.support.window_input import Hand
    from visualizer.session.resolved_view import ResolvedView

TEXT = "the cat sat on the mat and the dog ran to a log"


@pytest.fixture
def long(model_window: Hand, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Open a window in which a model has processed a text in blocks."""
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    model_window.type_sentence(TEXT)
    model_window.settle()
    return model_window


@pytest.mark.filterwarnings("ignore")  # libraries warn about small models
def test_letters_typed_between_the_heatmaps_and_the_panes_stay(long: Hand) -> None:
    """For a long text, panes are updated after the heatmaps; a letter is typed in between."""
    window, letters = long.window, [*"orful"]

    def type_next() -> None:
        if letters:
            QTest.keyClicks(long.sentence, letters.pop(0))

    following = window.workspace.changed.connect(type_next)
    QTest.keyClicks(long.sentence, "c")
    long.until(lambda: not letters)
    window.workspace.changed.disconnect(following)
    long.settle()
    assert long.sentence.toPlainText() == TEXT + "corful"
    assert window.workspace.document.text == TEXT + "corful"


def test_a_change_of_colours_leaves_letters_that_are_being_typed(hand: Hand) -> None:
    hand.type_sentence("one two")
    hand.settle()
    QTest.keyClicks(hand.sentence, " three")
    # Before the screen with these letters is created.
    hand.window.set_colour_scheme(ColourScheme.DARK)
    QTest.keyClicks(hand.sentence, "!")
    hand.settle()
    hand.window.set_colour_scheme(ColourScheme.SYSTEM)
    assert hand.sentence.toPlainText() == hand.window.workspace.document.text == "one two three!"


class HeldPrefetch:
    """A prefetch that waits until it is released."""

    def __init__(self) -> None:
        self._read = ScreenPresenter.prefetch
        self._is_free = threading.Event()

    def __call__(
        self, presenters: ScreenPresenter, resolved: ResolvedView, previous: Mapping[str, object]
    ) -> Mapping[str, object]:
        self._is_free.wait(PATIENCE_MS / 1000)
        return self._read(presenters, resolved, previous)

    def release(self) -> None:
        self._is_free.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], HeldPrefetch]]:
    """Return a function that delays all prefetches from then on."""
    made: list[HeldPrefetch] = []

    def hold() -> HeldPrefetch:
        made.append(HeldPrefetch())
        prefetch = made[-1]
        monkeypatch.setattr(
            ScreenPresenter, "prefetch", lambda self, *given: prefetch(self, *given)
        )
        return prefetch

    yield hold
    for each in made:
        each.release()


VIEW_CONTROLS: dict[str, tuple[str, Callable[[Hand], QWidget], Callable[[Hand], object]]] = {
    "lines of each query": (
        "Lines",
        lambda hand: hand.window.panes["Lines"].top,
        lambda hand: hand.window.workspace.requested_view.lines.top,
    ),
    "heads of the lines": (
        "Lines",
        lambda hand: hand.window.panes["Lines"].heads,
        lambda hand: hand.window.workspace.requested_view.lines.solo,
    ),
    "weights as": (
        "Colours",
        lambda hand: hand.window.panes["Colours"].lens,
        lambda hand: hand.window.workspace.requested_view.lens,
    ),
    "range of the colours": (
        "Colours",
        lambda hand: hand.window.panes["Colours"].limits,
        lambda hand: hand.window.workspace.requested_view.colouring.limits,
    ),
    "samples of dropout": (
        "",
        lambda hand: hand.window.compare_bar.count,
        lambda hand: getattr(hand.window.workspace.requested_view.comparison, "count", None),
    ),
    "size of steps": (
        "",
        lambda hand: hand.window.playback_bar.grain,
        lambda hand: hand.window.workspace.requested_view.playhead.grain,
    ),
}


@pytest.mark.parametrize("name", VIEW_CONTROLS)
def test_a_control_of_the_view_keeps_what_was_chosen_while_numbers_are_read(
    hand: Hand, held: Callable[[], HeldPrefetch], name: str
) -> None:
    """Two key presses are two steps, although a screen of the previous view arrives in between."""
    pane, control, wanted = VIEW_CONTROLS[name]
    window, workspace = hand.window, hand.window.workspace
    workspace.change_setting("dropout", 0.5)
    hand.settle()
    if pane:
        window.docks.open_pane(pane)
    if name == "samples of dropout":
        window.actions_.by_id["comparison.compare_samples"].trigger()
    if name == "size of steps":
        window.controllers.playback_controller.set_step_size(StepSize.CELL)
    hand.settle()
    is_last_of_list = name == "size of steps"
    key = Qt.Key.Key_Down
    if is_last_of_list or isinstance(control(hand), QSpinBox):
        key = Qt.Key.Key_Up
    seen = [wanted(hand)]
    prefetch = held()
    control(hand).setFocus()
    for cell in (Cell("weights", (0, 1, 0)), Cell("weights", (0, 2, 0))):
        QTest.keyClick(control(hand), key)
        seen.append(wanted(hand))
        workspace.change_view(hovered=cell)  # shown immediately, with the data that has been read
    prefetch.release()
    hand.settle()
    assert len(set(seen)) == 3, seen
    assert wanted(hand) == seen[-1]
