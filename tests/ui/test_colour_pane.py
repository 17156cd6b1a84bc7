"""The ends of the colours are typed in their pane; what is no end is said there, in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from visualizer.state.colouring import Limits
from visualizer.ui.colour_pane import LIMITS, ColourPane

if TYPE_CHECKING:
    from PySide6.QtWidgets import QLineEdit

    from tests.ui.hand import Hand


class Ends:
    """A hand at the boxes of the ends."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.pane: ColourPane = hand.window.panes["Colours"]
        hand.key(Qt.Key.Key_F11)
        hand.click(self.pane.limits)
        QTest.keyClicks(self.pane.limits.view(), LIMITS[Limits.TYPED])
        QTest.keyClick(self.pane.limits.view(), Qt.Key.Key_Return)
        hand.settle()

    def box(self, stage: str, side: str) -> QLineEdit:
        return self.pane.boxes[stage, side]

    def type(self, stage: str, side: str, text: str) -> None:
        box = self.box(stage, side)
        self.hand.click(box)
        box.selectAll()
        QTest.keyClicks(box, text)
        QTest.keyClick(box, Qt.Key.Key_Return)
        self.hand.settle()

    def seen(self, stage: str) -> tuple[float, float]:
        colour = self.hand.panel(stage).colour
        return colour.low, colour.high


@pytest.fixture
def ends(hand: Hand) -> Ends:
    """The pane, with the ends to be typed."""
    return Ends(hand)


def test_an_end_that_is_typed_is_that_of_the_colours(ends: Ends) -> None:
    ends.type("weights", "high", "0.4")
    assert ends.seen("weights") == (0, 0.4)
    ends.type("scores", "high", "2")
    assert ends.seen("scores") == (-2, 2)
    assert ends.box("scores", "low").text() == "−2"


def test_a_box_that_is_left_as_it_is_changes_nothing(ends: Ends) -> None:
    # It shows fewer digits than there are, so its number is not the one that is meant.
    before = {stage: ends.seen(stage) for stage, _ in ends.pane.boxes}
    for stage, side in tuple(ends.pane.boxes):
        QTest.keyClick(ends.box(stage, side), Qt.Key.Key_Return)
    ends.hand.settle()
    assert {stage: ends.seen(stage) for stage in before} == before


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("abc", "“abc” is no number. Use one such as 0.5."),
        ("-3", "The low end, 0, must be below the high end, −3."),
        ("inf", "“inf” is no number. Use one such as 0.5."),
    ],
)
def test_what_is_no_end_is_said_in_sight(ends: Ends, typed: str, said: str) -> None:
    before = ends.seen("weights")
    ends.type("weights", "high", typed)
    problem = ends.pane.problem
    assert problem.text() == said
    ends.hand.until(lambda: problem.visibleRegion().boundingRect() == problem.rect())
    assert ends.seen("weights") == before
    ends.type("weights", "high", "0.5")
    assert not problem.isVisible()
    assert ends.seen("weights") == (0, 0.5)
