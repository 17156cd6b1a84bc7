"""The run that is shipped with the program: repeated segments, learned by an induction head.

It is made by ``python -m tests.support.start_page_files``. Source: Olsson et al. 2022, "In-context
Learning and Induction Heads".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.language import probe
from visualizer.language.checkpoints import read_weights
from visualizer.language.language_models import build
from visualizer.language.run_folder import RunFolder
from visualizer.resources import resource

if TYPE_CHECKING:
    import numpy as np

    from visualizer.language.language_models import LanguageModel
    from visualizer.language.run_folder import RunMetadata
    from visualizer.language.wire_format import Message

FOLDER = resource("start_page", "trained_example")
TEXT = "journeyjourney"
"""Distinct letters, repeated: each of the second half has one letter to be found in the first."""
LAYER, HEAD = 1, 1
"""The head that learns to find it, counted from 0."""
NEEDED = (1, 0)
"""A head that its copying needs: without it the next letter is likely no more."""
CELL = (9, 3)
"""A query of the second half, and the key that it finds: the letter after the same one before."""
STEPS = (102, 149, 174, 1500)
"""The steps whose weights are shipped: the head forms between the second and the third."""


def layer_of_example() -> Message:
    """Return the layer of the head after all steps; see `probe.layer_message`."""
    model, about = _model(STEPS[-1])
    return probe.layer_message(model, about.vocabulary, TEXT, LAYER, STEPS[-1], "")


def weights_of_head(step: int) -> np.ndarray:
    """Return the attention weights of the head after a number of steps, [query, key]."""
    model, about = _model(step)
    found = probe.read(model, probe.Probe.of(TEXT, about.vocabulary, model))
    weights: np.ndarray = found["weights"][LAYER, HEAD]
    return weights


def _model(step: int) -> tuple[LanguageModel, RunMetadata]:
    folder = RunFolder(FOLDER)
    about = folder.read_about()
    model = build(about.settings, len(about.tokens))
    read_weights(folder.snapshot(step), model)
    return model, about
