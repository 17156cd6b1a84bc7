"""The training run that is shipped with the program, in which an induction head forms.

The run was trained on repeated segments by ``python -m tests.support.start_page_files``. Source:
Olsson et al. 2022, "In-context Learning and Induction Heads".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.language import probe
from visualizer.language.checkpoints import read_weights
from visualizer.language.language_models import build_model
from visualizer.language.run_folder import RunFolder
from visualizer.resources import resource_path

if TYPE_CHECKING:
    from visualizer.language.language_models import LanguageModel
    from visualizer.language.run_folder import RunMetadata
    from visualizer.language.wire_format import Message

EXAMPLE_FOLDER = resource_path("start_page", "trained_example")
EXAMPLE_TEXT = "journeyjourney"
"""Distinct letters that are repeated: the first half predicts each letter of the second half."""
LAYER, HEAD = 1, 1
"""Layer and head of the induction head, counted from 0."""
ESSENTIAL_HEAD = (1, 0)
"""A head that is necessary for copying: without this head, the next letter is unlikely."""
EXPECTED_CELL = (9, 3)
"""A query in the second half, and its expected key: the letter after its previous occurrence."""
SNAPSHOT_STEPS = (102, 149, 174, 1500)
"""The steps with shipped weights; the head forms between the second and the third of them."""


def create_example_layer_message() -> Message:
    """Return the layer of the head after all steps; see `probe.create_layer_message`."""
    model, metadata = load_example_model(SNAPSHOT_STEPS[-1])
    return probe.create_layer_message(
        model, metadata.vocabulary, EXAMPLE_TEXT, LAYER, SNAPSHOT_STEPS[-1], ""
    )


def load_example_model(step: int) -> tuple[LanguageModel, RunMetadata]:
    """Return the model after the given number of steps, and the metadata of the run."""
    folder = RunFolder(EXAMPLE_FOLDER)
    metadata = folder.read_metadata()
    model = build_model(metadata.settings, len(metadata.tokens))
    read_weights(folder.snapshot_file(step), model)
    return model, metadata
