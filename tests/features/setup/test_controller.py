"""The setup controller: which changes of settings are shown with their result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from visualizer.attention.spec import MaskKind

if TYPE_CHECKING:
    from tests.support.window_input import Hand


@pytest.mark.parametrize(
    ("name", "value", "is_typed", "is_shown_at_once"),
    [("d_in", 4, True, False), ("bias", True, False, False), ("mask", MaskKind.NONE, False, True)],
)
def test_a_control_that_already_shows_its_value_waits_for_the_result(
    hand: Hand, name: str, value: object, is_typed: bool, is_shown_at_once: bool
) -> None:
    workspace = hand.window.workspace
    hand.window.controllers.setup.change_setting(name, value, is_typed)
    assert workspace.document.get(name) == value
    assert workspace.is_screen_outdated is not is_shown_at_once
    hand.settle()
    assert not workspace.is_screen_outdated
    assert workspace.screen.document == workspace.document


def test_an_invalid_number_is_explained_at_once(hand: Hand) -> None:
    hand.window.controllers.setup.change_setting("heads", 0, is_continued_edit=True)
    assert not hand.window.workspace.is_screen_outdated
    assert "at least 1" in hand.problem("heads")


def test_each_valid_mask_is_one_undo_step(hand: Hand) -> None:
    hand.choose("mask QComboBox", "Custom matrix")
    setup, history = hand.window.controllers.setup, hand.window.workspace.history
    before = len(history.changes.past)
    for text in ("1 0\n1 1", "nonsense", "1 1\n1 1"):
        setup.change_setting("own_mask", text, is_continued_edit=True)
    assert len(history.changes.past) == before + 2
