"""The accessible names, roles and values of the lab's widgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QAccessible

from tests.support.accessible_text import heard
from tests.support.probe_results import a_reading
from visualizer.generation.generated_tokens_presenter import present_generation
from visualizer.generation.generated_tokens_widget import GenerationPane
from visualizer.generation.generation_tree import GenerationTree
from visualizer.generation.token_choice_presenter import present_next_tokens
from visualizer.generation.token_choice_widget import NextTokenBarView
from visualizer.lab.attention_view.presenter import LabCellSelection, present_attention
from visualizer.lab.attention_view.widget import LabAttentionView
from visualizer.lab.snapshot_bar.presenter import present_snapshots
from visualizer.lab.snapshot_bar.widget import SnapshotBar
from visualizer.lab.training.loss_history import MeasuredLoss
from visualizer.language.sampling import SamplingSettings
from visualizer.language.training_settings import ModelKind
from visualizer.session.cell_address import Cell
from visualizer.widgets import accessibility
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from tests.conftest import Show

Role = QAccessible.Role


def test_painted_widgets_describe_what_they_show(show: Show) -> None:
    accessibility.install_accessible_interface()
    attention, scrub, bars, tree = (
        LabAttentionView(),
        SnapshotBar(),
        NextTokenBarView(),
        GenerationPane(),
    )
    for widget in (attention, scrub, bars, tree):
        show(widget, (600, 400))
    pointing = LabCellSelection(pinned=Cell("layer 1", (0, 0, 0)))
    attention.show_attention(present_attention(a_reading(), ModelKind.TRANSFORMER, pointing), LIGHT)
    scrub.show_timeline(present_snapshots([0, 10], 100, 10, MeasuredLoss(2.0, 10)), LIGHT)
    bars.show_bars(present_next_tokens("a", np.zeros((1, 2)), "xy", SamplingSettings()), LIGHT)
    tree.show_generation(
        present_generation(GenerationTree(("a",)).append_picked_token(0, "b", 0.25)), LIGHT
    )
    found = {
        part: (heard(part).role, heard(part).value)
        for part in (attention.board, scrub.track, bars, tree.strip)
    }
    assert found == {
        attention.board: (
            Role.Chart, "weight 100% from query “t” (1) to “t” (1), layer 1, head 1",
        ),
        scrub.track: (Role.Slider, "Step 10 of 100: training loss 2.000"),
        bars: (Role.List, "After “a”; “x”: 50%; “y”: 50%"),
        tree.strip: (Role.List, "ab. “b”, picked, probability 25%"),
    }  # fmt: skip
