"""The lab never shows a result for another text or another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.support.lab_input import NONE, LabUser
from tests.support.window_input import LEFT, words
from visualizer.lab.attention_view.presenter import TEXT_REQUIRED
from visualizer.language.sampling import SamplingSettings
from visualizer.language.wire_format import Message

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget


def retype(user: LabUser, text: str) -> None:
    user.type_probe(text)
    if not text:
        user.press(Qt.Key.Key_Delete, NONE)


def problem(user: LabUser) -> str:
    label = user.window.probe_problem
    return words(label) if label.isVisibleTo(user.window) else ""


def can_sample(user: LabUser) -> tuple[bool, ...]:
    tree, menus = user.window.generation_pane, user.window.menus.by_id
    buttons: tuple[QWidget, ...] = (tree.sample_button, tree.run_button)
    actions = (menus["generation.sample"], menus["generation.toggle"])
    return (*(one.isEnabled() for one in buttons), *(one.isEnabled() for one in actions))


@pytest.mark.slow
def test_an_invalid_text_is_distinguished_from_the_shown_one(watching: LabUser) -> None:
    assert can_sample(watching) == (True,) * 4
    retype(watching, "abba")
    watching.until(lambda: watching.window.generation_controller.result is not None)
    watching.keys("z")
    watching.until(lambda: "“z” is not known." in problem(watching))
    assert "The attention shown is for “abba” at step 100." in problem(watching)
    assert can_sample(watching) == (False,) * 4
    assert watching.window.next_tokens_pane.bars.panel.bars == ()
    retype(watching, "abb")
    watching.until(lambda: watching.window.generation_controller.result is not None)
    assert problem(watching) == ""
    assert can_sample(watching) == (True,) * 4
    assert watching.window.next_tokens_pane.heading.text() == "After “b”"


def test_a_text_rejected_at_one_step_is_processed_at_another(watching: LabUser) -> None:
    window = watching.window
    window.lab.select_snapshot(7)  # this snapshot was removed while it was selected
    retype(watching, "abba")
    watching.until(lambda: "Step 7 is not kept." in problem(watching))
    assert can_sample(watching) == (False,) * 4
    assert not window.probe_controller.is_waiting  # playback can continue from there
    QTest.mouseClick(window.snapshot_bar.now_button, LEFT)
    watching.until(lambda: window.generation_controller.result is not None)
    assert problem(watching) == ""
    assert can_sample(watching) == (True,) * 4
    window.lab.select_snapshot(7)
    watching.wait_until_shown()
    assert "Step 7 is not kept." in problem(watching)


@pytest.mark.slow
def test_an_empty_text_has_no_heatmaps_and_no_old_message(watching: LabUser) -> None:
    retype(watching, "z")
    watching.until(lambda: "“z” is not known." in problem(watching))
    retype(watching, "")
    assert problem(watching) == ""
    assert can_sample(watching) == (False,) * 4
    assert watching.window.training_views_controller.panel.message == TEXT_REQUIRED
    assert watching.window.next_tokens_pane.bars.panel.bars == ()
    retype(watching, "ab")
    watching.until(lambda: watching.window.generation_controller.result is not None)
    assert watching.window.training_views_controller.has_attention_layers


@pytest.mark.slow
def test_messages_of_a_previous_run_are_ignored(watching: LabUser) -> None:
    lab = watching.window.lab
    former = lab.training
    assert former
    lab.close_run()
    lab.toggle_training()
    assert lab.training is not former
    former.messageReceived.emit(Message("failed", {"sentence": "Too late."}, {}))
    assert lab.run
    assert lab.run.failure is None
    watching.until_said("Done")


@pytest.mark.slow
def test_a_new_run_shows_nothing_of_the_previous_one(watching: LabUser) -> None:
    window = watching.window
    window.attention.board.setFocus()
    watching.press(Qt.Key.Key_Down, NONE)
    assert window.training_views_controller.pointer.pinned
    window.next_tokens_pane.apply_sampling_setting("temperature", 0.5)
    window.next_tokens_pane.apply_sampling_setting("top_p", 0)
    assert window.next_tokens_pane.problem.isVisibleTo(window)
    QTest.mouseClick(window.settings_pane.new_run_button, LEFT)
    watching.wait_until_shown()
    watching.click("toggle")
    assert watching.line == "Preparing…"
    assert not window.text_splitter.isVisibleTo(window)
    assert not window.training_views_controller.panel.board.columns
    watching.until(lambda: window.generation_controller.result is not None)
    assert window.training_views_controller.pointer.pinned is None
    assert window.generation_controller.sampling == SamplingSettings()
    assert getattr(window.next_tokens_pane.controls["temperature"], "box").value() == 1  # noqa: B009
    assert not window.next_tokens_pane.problem.isVisibleTo(window)
