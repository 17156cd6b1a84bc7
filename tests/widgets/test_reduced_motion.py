"""Reduced motion stops all animations, and is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtWidgets import QApplication, QStyle

from visualizer.widgets.app_settings import ANIMATION_EFFECTS, is_motion_reduced, set_motion_reduced

if TYPE_CHECKING:
    from tests.support.window_fixtures import Open
    from tests.support.window_input import Hand
    from visualizer.shell.window import MainWindow


@pytest.fixture
def window(fresh_window: MainWindow) -> MainWindow:
    """A window with the stored settings."""
    return fresh_window


def moves(window: MainWindow) -> set[str]:
    """Return the parts of a window that Qt would animate."""
    duration = QStyle.StyleHint.SH_Widget_Animation_Duration
    box = window.settings_bar.tokenizer
    found = {"panes"} if window.isAnimated() else set()
    found |= {effect.name for effect in ANIMATION_EFFECTS if QApplication.isEffectEnabled(effect)}
    return found | ({"style"} if box.style().styleHint(duration, None, box) else set())


def test_reduced_motion_turns_off_all_animations(hand: Hand) -> None:
    before = moves(hand.window)
    assert {"panes"} <= before
    action = hand.window.actions_.by_id["reduced_motion.toggle"]
    assert not action.isChecked()
    hand.window.actions_.by_id["reduced_motion.toggle"].trigger()
    assert moves(hand.window) == set()
    assert action.isChecked()
    hand.window.actions_.by_id["reduced_motion.toggle"].trigger()
    assert moves(hand.window) == before
    assert not action.isChecked()


def test_reduced_motion_is_stored(open_window: Open) -> None:
    assert not is_motion_reduced()
    set_motion_reduced(True)
    assert is_motion_reduced()
    window = open_window()
    assert moves(window) == set()
    assert window.actions_.by_id["reduced_motion.toggle"].isChecked()
    window.controllers.reduced_motion_controller.toggle()
    assert not is_motion_reduced()
    assert "panes" in moves(window)
