"""Own vectors and weights are named at their settings, and can be drawn again there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.custom_weights import custom_weights_of
from visualizer.attention.spec import NumberMatrix
from visualizer.features.setup.bar_widget import CustomValuesControl

if TYPE_CHECKING:
    from tests.support.window_input import Hand


def own(hand: Hand, name: str) -> CustomValuesControl:
    control = hand.window.settings_bar.rows[name].control
    assert isinstance(control, CustomValuesControl)
    return control


def test_at_first_nothing_is_given(hand: Hand) -> None:
    for name in ("own_input", "own_weights"):
        control = own(hand, name)
        assert control.words.text() == "None: random, from the seed"
        assert not control.isEnabled()
        assert not control.draw.isEnabled()


def test_what_is_given_is_named_and_can_be_drawn_again_and_undone(hand: Hand) -> None:
    hand.window.settings_bar.open_more()
    workspace = hand.window.workspace
    assert workspace.run
    given = {
        "own_weights": custom_weights_of(workspace.run.trace),
        "own_input": NumberMatrix.of(np.ones((6, 3))),
    }
    said = {"own_weights": "W_query, W_key, W_value, W_output given", "own_input": "6 × 3 given"}
    drawn = {"own_weights": (), "own_input": None}
    for name, value in given.items():
        workspace.set(name, value)
        control = own(hand, name)
        assert control.isEnabled()
        assert control.words.text() == said[name]
        hand.settle()
        hand.click(control.draw)
        assert workspace.document.get(name) == drawn[name]
        assert not control.isEnabled()
        workspace.undo()
        assert workspace.document.get(name) == value


def test_vectors_that_no_longer_fit_offer_to_be_drawn(hand: Hand) -> None:
    workspace = hand.window.workspace
    workspace.set("own_input", NumberMatrix.of(np.ones((6, 3))))
    workspace.set("d_in", 4)
    row = hand.window.settings_bar.rows["own_input"]
    assert "The vectors are 6 × 3, but the embedding size is 4." in row.problem.text()
    assert "Use random values from the seed" in row.problem.text()
    hand.window.controllers.setup.apply_remedy("own_input")
    assert workspace.document.spec.own_input is None
    assert hand.problem("own_input") == ""


def test_heads_that_cannot_be_are_said_beside_own_weights(hand: Hand) -> None:
    workspace = hand.window.workspace
    assert workspace.run
    workspace.set("own_weights", custom_weights_of(workspace.run.trace))
    hand.settle()
    hand.type_number("heads", "0")
    assert "The number of heads must be" in hand.problem("heads")
    hand.type_number("heads", "2")
    hand.settle()
    assert hand.problem("heads") == ""
