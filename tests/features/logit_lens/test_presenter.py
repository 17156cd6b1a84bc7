"""The predictions of each layer as a table and in words, and the questions that they require."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from visualizer.attention.model_forward_pass import (
    DeferredResult,
    LogitLensResult,
    ModelForwardPass,
)
from visualizer.errors import InputError
from visualizer.features.logit_lens.presenter import (
    COSTLY_LENS_QUESTION,
    LENS_QUESTION,
    MODEL_REQUIRED,
    LogitLensPanel,
    present_logit_lens,
)
from visualizer.models.model_source import ModelSource
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.model_pane_options import RUNNING_MESSAGE
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document

SOURCE = ModelSource("/models/tiny", "tiny", "0" * 64)
RUN = run_document(Document(), None)
TOKENS = len(RUN.texts[0])
WORDS = tuple(tuple((f" {layer}{at}", "b") for at in range(TOKENS)) for layer in range(2))
SHARES = np.tile(np.array([0.75, 0.125], np.float32), (2, TOKENS, 1))
ANSWER = LogitLensResult((2, 3), WORDS, SHARES)


def reading() -> ModelForwardPass:
    captured = None
    return ModelForwardPass("made", (3,), {}, {}, True, (), "", captured, None)


def panel_of(
    found: ModelForwardPass | None, view: View | None = None, model: ModelSource | None = SOURCE
) -> LogitLensPanel:
    run = replace(RUN, reading=found)
    document = replace(Document(), model=model)
    return present_logit_lens(resolve_view(document, view or View(), run), None)


def test_the_questions_are_asked_after_the_forward_pass() -> None:
    assert panel_of(None, model=None).message == MODEL_REQUIRED
    assert panel_of(None).message == RUNNING_MESSAGE
    assert panel_of(reading()).questions == (LENS_QUESTION,)


def test_rows_are_layers_and_the_last_row_is_the_model() -> None:
    read = reading()
    read.answers.known[LENS_QUESTION] = ANSWER
    panel = panel_of(read, View(pinned=Cell("weights", (0, 2, 1))))
    cells = panel.cells
    assert cells is not None
    assert not panel.questions
    assert (cells.rows, panel.layers) == (("3", "model"), (2, 3))
    assert cells.highlighted_row == 1  # the run's only layer is the fourth of the model
    assert cells.marked == {(1, 2)}
    assert cells.words[0][1] == "␣01"
    np.testing.assert_array_equal(cells.values, SHARES[..., 0])
    token = RUN.texts[0][1]
    assert cells.describe(0, 1) == (
        f"Prediction of layer 3 after “{token}” (token 2 of {TOKENS}): “ 01” 75%, “b” 12%."
    )
    assert cells.describe(1, 1).startswith(f"The model’s prediction after “{token}”")


def test_long_computations_start_on_request() -> None:
    read = reading()
    read.answers.known[LENS_QUESTION] = DeferredResult("This takes a while.")
    panel = panel_of(read)
    assert (panel.message, panel.costly, panel.questions) == (
        "This takes a while.",
        COSTLY_LENS_QUESTION,
        (),
    )
    read.answers.wanted.add(COSTLY_LENS_QUESTION)
    assert panel_of(read).questions == (COSTLY_LENS_QUESTION,)
    read.answers.known[COSTLY_LENS_QUESTION] = ANSWER
    assert panel_of(read).cells is not None


def test_an_error_is_shown_and_not_requested_again() -> None:
    read = reading()
    read.answers.known[LENS_QUESTION] = InputError("model", "It is not known.")
    panel = panel_of(read)
    assert (panel.message, panel.questions, panel.cells) == ("It is not known.", (), None)
