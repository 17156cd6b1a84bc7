"""The setup controller: when changes are shown, and vectors and weights of the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from visualizer.attention.custom_weights import custom_weights_of
from visualizer.attention.spec import MaskKind, NumberMatrix
from visualizer.features.setup.bar_widget import CustomValuesControl

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.window_input import Hand


@pytest.mark.parametrize(
    ("name", "choose", "value", "is_shown_at_once"),
    [
        ("d_in", lambda box: box.setValue(4), 4, False),
        ("bias", lambda box: box.click(), True, False),
        ("mask", lambda box: box.activated.emit(0), MaskKind.NONE, True),
    ],
)
def test_a_control_that_already_shows_its_value_waits_for_the_result(
    hand: Hand, name: str, choose: Callable[[Any], None], value: object, is_shown_at_once: bool
) -> None:
    workspace = hand.window.workspace
    control: Any = hand.window.settings_bar.rows[name].control
    choose(control.box)
    assert workspace.document.get_setting(name) == value
    assert workspace.is_screen_outdated is not is_shown_at_once
    hand.settle()
    assert not workspace.is_screen_outdated
    assert workspace.screen.document == workspace.document


def test_an_invalid_number_is_explained_at_once(hand: Hand) -> None:
    hand.window.controllers.setup_controller.change_setting(
        "heads", 0, is_continued_edit=True, is_seen=True
    )
    assert not hand.window.workspace.is_screen_outdated
    assert "at least 1" in hand.problem("heads")


def test_each_valid_mask_is_one_undo_step(hand: Hand) -> None:
    hand.choose("mask QComboBox", "Custom matrix")
    setup, history = hand.window.controllers.setup_controller, hand.window.workspace.history
    before = len(history.changes.past)
    for text in ("1 0\n1 1", "nonsense", "1 1\n1 1"):
        setup.change_setting("own_mask", text, is_continued_edit=True, is_seen=True)
    assert len(history.changes.past) == before + 2


def own(hand: Hand, name: str) -> CustomValuesControl:
    control = hand.window.settings_bar.rows[name].control
    assert isinstance(control, CustomValuesControl)
    return control


def test_what_is_given_is_named_and_can_be_drawn_again_and_undone(hand: Hand) -> None:
    hand.window.settings_bar.open_other_settings()
    workspace = hand.window.workspace
    assert workspace.run
    given = {
        "own_weights": custom_weights_of(workspace.run.trace),
        "own_input": NumberMatrix.from_array(np.ones((6, 3))),
    }
    said = {"own_weights": "W_query, W_key, W_value, W_output given", "own_input": "6 × 3 given"}
    drawn = {"own_weights": (), "own_input": None}
    for name, value in given.items():
        workspace.change_setting(name, value)
        control = own(hand, name)
        assert control.isEnabled()
        assert control.words.text() == said[name]
        hand.settle()
        hand.click(control.draw)
        assert workspace.document.get_setting(name) == drawn[name]
        assert not control.isEnabled()
        workspace.undo()
        assert workspace.document.get_setting(name) == value


def test_vectors_that_no_longer_fit_offer_to_be_drawn(hand: Hand) -> None:
    workspace = hand.window.workspace
    workspace.change_setting("own_input", NumberMatrix.from_array(np.ones((6, 3))))
    workspace.change_setting("d_in", 4)
    row = hand.window.settings_bar.rows["own_input"]
    assert "The vectors are 6 × 3, but the embedding size is 4." in row.problem.text()
    assert "Use random values generated from the seed" in row.problem.text()
    hand.window.controllers.setup_controller.apply_remedy("own_input")
    assert workspace.document.spec.own_input is None
    assert hand.problem("own_input") == ""


def test_heads_that_cannot_be_are_said_beside_own_weights(hand: Hand) -> None:
    workspace = hand.window.workspace
    assert workspace.run
    workspace.change_setting("own_weights", custom_weights_of(workspace.run.trace))
    hand.settle()
    hand.type_number("heads", "0")
    assert "The number of heads must be" in hand.problem("heads")
    hand.type_number("heads", "2")
    hand.settle()
    assert hand.problem("heads") == ""


def test_settings_of_buttons_that_do_not_fit_are_in_the_last_editor(hand: Hand) -> None:
    bar = hand.window.settings_bar
    dropout, more = bar.chips["dropout"], [*bar.chips.values()][-1]
    hand.window.resize(800, 600)
    hand.until(dropout.isHidden)
    assert bar.choices.more.isHidden()
    bar.open_other_settings()
    assert bar.rows["dropout"].isVisible()
    hand.type_number("dropout", "1.5")
    assert hand.problem("dropout")
    assert more.accessibleDescription() in hand.problem("dropout")
    assert more.accessibleDescription()
    hand.window.resize(1900, 900)
    hand.until(dropout.isVisible)
    dropout.setChecked(True)
    assert bar.rows["dropout"].isVisible()
    assert not more.isChecked()
