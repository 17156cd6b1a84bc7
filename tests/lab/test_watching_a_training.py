"""A user watches training in the lab: losses, snapshots, next tokens and generated text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.lab_input import NONE, LabUser
from tests.support.window_input import LEFT

if TYPE_CHECKING:
    from visualizer.generation.generation_tree import GenerationTree
    from visualizer.lab.loss_plot.model import LossPlot


def plot(user: LabUser) -> LossPlot:
    return user.window.plot_pane.view.plot


def tree_of(user: LabUser) -> GenerationTree:
    return user.window.generation_controller.tree


def has_tokens(user: LabUser, count: int) -> bool:
    return len(tree_of(user).tokens) == count


@pytest.mark.slow
def test_after_a_stop_no_token_is_sampled(watching: LabUser) -> None:
    window = watching.window
    QTest.mouseClick(window.generation_pane.sample_button, LEFT)
    count = len(tree_of(watching).tokens)
    # While the next token is still unknown.
    QTest.mouseClick(window.generation_pane.run_button, LEFT)
    QTest.mouseClick(window.generation_pane.run_button, LEFT)
    assert not window.generation_controller.is_running
    watching.until(lambda: window.generation_controller.result is not None)
    watching.wait_until_shown()
    assert has_tokens(watching, count)


def test_losses_are_plotted_with_the_baselines(watching: LabUser) -> None:
    assert {line.role.value for line in plot(watching).lines} >= {"training", "validation"}
    assert plot(watching).last_step == 99
    assert [line.loss for line in plot(watching).reference_losses] == [2.0, 1.5]
    assert plot(watching).reference_losses[0].name == "unigram baseline"


@pytest.mark.slow
def test_axes_and_smoothing_by_command(watching: LabUser) -> None:
    for axis in ("losses", "steps"):
        watching.trigger(f"loss_plot.toggle_axis_scale {axis}")
        assert getattr(watching.window.loss_plot_controller.options, axis) == "log"
        assert watching.window.menus.by_id[f"loss_plot.toggle_axis_scale {axis}"].isChecked()
    watching.trigger("loss_plot.toggle_axis_scale losses")
    assert watching.window.loss_plot_controller.options.losses == "linear"
    before = watching.window.loss_plot_controller.options.smoothing
    watching.trigger("loss_plot.change_smoothing -1")
    assert watching.window.loss_plot_controller.options.smoothing < before
    watching.window.plot_pane.smoothing.setFocus()
    watching.press(Qt.Key.Key_Home, NONE)
    assert watching.window.loss_plot_controller.options.smoothing == 0


def test_a_step_is_selected_in_the_plot(watching: LabUser) -> None:
    window = watching.window
    view = window.plot_pane.view
    QTest.mouseClick(view, LEFT, pos=view.point_at_step(50).toPoint())
    assert window.lab.view.step == 50
    watching.until(
        lambda: (
            window.probe_controller.result is not None and window.probe_controller.result.step == 50
        )
    )
    assert "Step 50 of 100" in window.snapshot_bar.description_label.text().replace("\n", " ")
    assert plot(watching).shown_step == 50
    view.setFocus()
    watching.press(Qt.Key.Key_Escape, NONE)
    assert window.lab.view.step is None


@pytest.mark.slow
def test_snapshots_are_played_with_keys(watching: LabUser) -> None:
    window = watching.window
    for _ in range(3):
        watching.trigger("snapshots.change_speed 1")
    assert window.snapshot_bar.speed.currentText() == "8×"
    watching.trigger("snapshots.toggle")
    assert window.snapshot_bar.is_playing
    watching.until(lambda: not window.snapshot_bar.is_playing)
    assert window.lab.view.step is None
    watching.trigger("snapshots.change_speed -1")
    assert window.snapshot_bar.speed.currentText() == "4×"


@pytest.mark.slow
def test_an_overlaid_run_is_in_the_plot(watching: LabUser) -> None:
    first = watching.run
    watching.close_run()
    watching.until(lambda: (first.folder / "losses.csv").exists())
    watching.click("toggle")
    watching.until_said("Done")
    watching.press(Qt.Key.Key_2)
    runs = watching.window.runs_pane.list
    found = runs.findItems(first.name, Qt.MatchFlag.MatchExactly)
    runs.setCurrentItem(found[0])
    watching.press(Qt.Key.Key_Space, NONE)
    watching.until(lambda: len(plot(watching).lines) > 3)
    assert {line.name for line in plot(watching).lines} == {first.name, "repeat-attention-only-2"}
    for line in plot(watching).reference_losses:  # only those of the open run
        assert line.name.endswith("(repeat-attention-only-2)")


@pytest.mark.slow
def test_a_text_is_sampled_token_by_token_and_stepped_back(watching: LabUser) -> None:
    window = watching.window
    assert tree_of(watching).tokens == tuple("abcdabcd")
    watching.trigger("generation.sample")
    watching.until(lambda: window.probe_controller.text == window.probe.text() != "abcdabcd")
    assert len(window.probe.text()) == 9
    (node,) = tree_of(watching).nodes
    assert node.is_sampled
    views = window.training_views_controller
    watching.until(lambda: len(views.panel.board.heatmaps[0].rows.labels) == 9)  # one more row
    watching.trigger("generation.step_back")
    assert window.probe.text() == "abcdabcd"
    watching.trigger("generation.step_forward")
    assert window.probe.text() == f"abcdabcd{node.text}"


@pytest.mark.slow
def test_a_long_text_omits_tokens_and_the_layout_stays(watching: LabUser) -> None:
    window = watching.window
    widths = window.columns_splitter.sizes()
    QApplication.clipboard().setText("abcdefgh" * 100)
    watching.press(Qt.Key.Key_L)
    watching.press(Qt.Key.Key_V)
    watching.until(lambda: window.probe_controller.text == "abcdefgh" * 100)
    left = "The first 768 tokens are omitted because the text is longer than the block."
    assert window.attention.notices.text() == left
    assert window.generation_pane.status_label.text() == "0 tokens added"
    assert len(window.generation_pane.strip.panel.chips) == 32
    assert window.columns_splitter.sizes() == widths


@pytest.mark.slow
def test_the_focus_stays_on_the_sample_button(watching: LabUser) -> None:
    window = watching.window
    window.generation_pane.sample_button.setFocus(Qt.FocusReason.TabFocusReason)
    for count in range(1, 4):
        watching.press(Qt.Key.Key_Space, NONE)
        assert window.generation_pane.sample_button.hasFocus()
        watching.until(partial(has_tokens, watching, 8 + count))
    watching.until(lambda: window.generation_controller.result is not None)
    assert window.generation_pane.sample_button.hasFocus()
    assert not window.generation_controller.is_running


@pytest.mark.slow
def test_a_token_requested_too_early_is_sampled_later(watching: LabUser) -> None:
    for _ in range(2):  # the token after the first one is not known yet
        QTest.mouseClick(watching.window.generation_pane.sample_button, LEFT)
    assert len(tree_of(watching).tokens) == 9
    watching.until(lambda: len(tree_of(watching).tokens) == 10)
    QTest.mouseClick(watching.window.generation_pane.sample_button, LEFT)
    watching.trigger("generation.step_back")
    watching.until(lambda: watching.window.generation_controller.result is not None)
    assert len(tree_of(watching).tokens) == 9  # another branch was chosen before the token arrived


@pytest.mark.slow
def test_another_branch_is_picked_and_selected(watching: LabUser) -> None:
    window = watching.window
    for token in (2, 5):
        watching.until(lambda: window.generation_controller.result is not None)
        window.next_tokens_pane.bars.tokenChosen.emit(token)
        if token == 2:
            watching.until(lambda: window.generation_controller.result is not None)
            watching.trigger("generation.step_back")
    watching.wait_until_shown()
    assert window.probe.text() == "abcdabcdf"
    watching.trigger("generation.switch_branch 1")
    assert window.probe.text() == "abcdabcdc"


@pytest.mark.slow
def test_generation_continues_until_it_is_stopped_or_the_text_is_edited(watching: LabUser) -> None:
    window = watching.window
    watching.trigger("generation.toggle")
    watching.until(lambda: len(window.probe.text()) >= 11)
    watching.trigger("generation.toggle")
    assert not window.generation_controller.is_running
    watching.trigger("generation.toggle")
    assert window.generation_controller.is_running
    watching.type_probe("ab")
    assert not window.generation_controller.is_running
    assert tree_of(watching).prompt == tuple("ab")
    assert tree_of(watching).nodes == ()
