"""Text generation waits for the result of its text, unless another token is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.generation.generation_tree import ROOT_NODE
from visualizer.lab.attention_view.probe_controller import ProbeController
from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.lab.controller import LabStateController
from visualizer.lab.generation_controller import LabGenerationController
from visualizer.lab.training.run_state import RunState
from visualizer.language.training_settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = "ab"


class GenerationWithResults:
    """A generation controller whose results arrive when a test requests it."""

    def __init__(self, parent: QObject, folder: Path) -> None:
        self.lab = LabStateController((), parent)
        self.lab.run = RunState(folder, TrainingSettings(), tokens=(*TEXT,))
        self.lab.view = replace(self.lab.view, probe=TEXT)
        self.probe_controller = ProbeController(self.lab)
        self.generation = LabGenerationController(self.lab, self.probe_controller)
        self.lab.changed.emit()

    def deliver_result(self) -> None:
        """Deliver the result of the current text."""
        tokens = tuple(self.lab.view.probe)
        self.probe_controller.text = self.lab.view.probe
        logits, weights = np.zeros((len(tokens), len(TEXT))), np.zeros((1, 1, 1, 1), np.float32)
        self.probe_controller.result = ProbeResult(0, tokens, logits, weights, None, 0)
        self.probe_controller.changed.emit()


@pytest.fixture
def setup(application: QObject, tmp_path: Path) -> Iterator[GenerationWithResults]:
    parent = QObject()
    yield GenerationWithResults(parent, tmp_path)
    parent.deleteLater()


def test_a_token_is_sampled_once_the_result_arrives(setup: GenerationWithResults) -> None:
    setup.generation.sample_token()
    assert setup.generation.tree.at == ROOT_NODE
    setup.deliver_result()
    (drawn,) = setup.generation.tree.nodes
    assert setup.lab.view.probe == TEXT + drawn.text


def test_no_token_is_sampled_after_a_step_back(setup: GenerationWithResults) -> None:
    setup.generation.sample_token()
    setup.generation.step_back()
    setup.deliver_result()
    assert setup.generation.tree.at == ROOT_NODE


def test_a_step_back_from_the_prompt_reports_that_generation_stopped(
    setup: GenerationWithResults,
) -> None:
    setup.generation.set_running(True)
    reported = []
    setup.generation.changed.connect(lambda: reported.append(setup.generation.is_running))
    setup.generation.step_back()
    assert reported == [False]
