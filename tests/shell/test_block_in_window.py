"""The user chooses, corrects, steps through, undoes and saves a transformer block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QSpinBox

from tests.shell.test_document_controller import save_as
from tests.shell.test_odd_input import mend
from visualizer.api.loading import load
from visualizer.attention.spec import Activation
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.shell.window import MainWindow


def a_block(hand: Hand, size: str = "4") -> None:
    hand.choose("mechanism QComboBox", "Transformer block")
    hand.type_number("d_in", size)
    hand.settle()


def stages_offered(window: MainWindow) -> list[str]:
    assert window.workspace.run
    return list(window.workspace.run.trace.names)


def test_the_mechanism_brings_the_block_and_its_sizes(hand: Hand) -> None:
    hand.choose("mechanism QComboBox", "Transformer block")
    hand.settle()
    assert "19 stages" in hand.status
    assert hand.find(QSpinBox, "d_out QSpinBox").value() == 3
    hand.type_number("d_in", "8")
    hand.settle()
    assert hand.find(QSpinBox, "d_out QSpinBox").value() == 8
    assert hand.problem("d_out") == hand.problem("heads") == ""
    assert stages_offered(hand.window)[-1] == "result"
    hand.choose("mechanism QComboBox", "Multi-head attention")
    hand.settle()
    assert stages_offered(hand.window)[-1] == "output"


def test_another_output_size_is_reported_and_fixed(hand: Hand) -> None:
    a_block(hand)
    board = hand.shown
    hand.type_number("d_out", "6")
    assert "both must have the same size: 4, not 6." in hand.problem("d_out")
    assert hand.shown is board
    mend(hand, "d_out")
    hand.settle()
    assert hand.problem("d_out") == ""
    assert hand.find(QSpinBox, "d_out QSpinBox").value() == 4


def test_its_settings_have_an_effect_only_with_it(hand: Hand) -> None:
    hand.window.settings_bar.open_other_settings()
    box = hand.find(QSpinBox, "d_ff QSpinBox")
    assert not box.isEnabled()
    a_block(hand)
    assert box.isEnabled()
    assert box.text() == "4 ×"
    assert hand.window.workspace.run
    assert hand.window.workspace.run.trace.tensor("hidden").shape[-1] == 16
    hand.type_number("d_ff", "5")
    hand.choose("activation QComboBox", "GELU")
    hand.settle()
    trace = hand.window.workspace.run.trace
    assert trace.tensor("hidden").shape[-1] == 5
    assert trace.stage("hidden").symbol == "GELU(up)"
    assert (trace.read("hidden") < 0).any()  # which ReLU does not keep


def test_without_the_output_projection_the_heads_are_added_as_they_are(hand: Hand) -> None:
    hand.window.settings_bar.open_other_settings()
    a_block(hand)
    box = hand.find(QCheckBox, "output_projection QCheckBox")
    hand.window.settings_bar.reveal_control(box)
    hand.click(box, box.rect().center() - box.rect().center() / 2)
    hand.settle()
    run = hand.window.workspace.run
    assert run is not None
    trace = run.trace
    assert hand.problem("output_projection") == ""
    assert "output" not in trace
    assert trace.stage("attended").reads == ("residual", "concat")
    added = trace.read("residual") + trace.read("concat")
    np.testing.assert_allclose(trace.read("attended"), added, atol=1e-6)


def test_every_step_is_reported_with_its_numbers(hand: Hand) -> None:
    a_block(hand)
    playback, told = hand.window.controllers.playback_controller, []
    for stage in ("residual", "normed", "attended", "normed_attended", "hidden", "result"):
        playback.seek_stage(stage)
        playback.step_by(1)
        hand.settle()
        told.append(hand.window.playback_bar.caption.text())
    assert "is unchanged" in told[0]
    assert "standard deviation" in told[1]
    assert "add up to the stream after attention" in told[2]
    assert "ReLU of the up projection gives" in told[4]
    assert "add up to the layer output" in told[5]


def test_a_cell_of_it_is_explained_by_its_weights(hand: Hand) -> None:
    a_block(hand)
    hand.window.controllers.cell_selection_controller.pin_cell(Cell("up", (2, 3)))
    hand.settle()
    assert "times the weights of linear1 for output 4, plus a bias" in hand.said
    assert "up" in hand.stages


def test_it_is_saved_and_opened_and_undone(hand: Hand, tmp_path: Path) -> None:
    a_block(hand, "6")
    hand.window.workspace.change_setting("activation", Activation.GELU)
    hand.settle()
    assert hand.window.workspace.run
    result = hand.window.workspace.run.trace.read("result")
    save_as(hand, tmp_path / "block.attention")
    opened = load(tmp_path / "block.attention")
    assert opened.spec.activation is Activation.GELU
    np.testing.assert_allclose(opened["result"], result, rtol=1e-6, atol=1e-6)
    hand.activate()
    for _ in range(3):
        hand.press(Qt.Key.Key_Z)
    hand.settle()
    assert not hand.window.workspace.document.spec.has_transformer_block
    assert "residual" not in stages_offered(hand.window)
