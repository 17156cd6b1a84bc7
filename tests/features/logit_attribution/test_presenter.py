"""The parts of a logit and the effect of ablating each head, as maps, sums and sentences."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.attention.model_forward_pass import (
    AblationResult,
    AnalysisKind,
    AnalysisRequest,
    LogitAttributionResult,
    LogitParts,
    ModelForwardPass,
    NextTokenCandidate,
)
from visualizer.errors import InputError
from visualizer.features.logit_attribution.presenter import (
    COMPUTING_MESSAGE,
    MODEL_REQUIRED,
    LogitAttributionPanel,
    present_logit_attribution,
)
from visualizer.models.model_source import ModelSource
from visualizer.session.document import Document
from visualizer.session.model_pane_options import RUNNING_MESSAGE, AttributionOptions
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document

SOURCE = ModelSource("/models/tiny", "tiny", "0" * 64)
RUN = run_document(Document(), None)
HEADS = np.array([[0.5, -1.0], [0.25, 2.0]])
REST = np.array([4.0, -3.0])
PARTS = LogitAttributionResult(LogitParts(7, 3.25, HEADS, REST, 0.25, 0.25, (2, 3)), " cat", 0.5)
CHANGES = np.array([[-0.5, 1.0], [np.nan, np.nan]])
ROWS = (NextTokenCandidate(" cat", 0.5, 0.5), NextTokenCandidate(" dog", 0.25, 0.25))


def reading() -> ModelForwardPass:
    captured = None
    return ModelForwardPass("made", (3,), {}, {}, True, ROWS, "", captured, None)


def question(kind: AnalysisKind, token: str = "") -> AnalysisRequest:
    return AnalysisRequest(kind, token)


def panel_of(
    found: ModelForwardPass | None, view: View | None = None, model: ModelSource | None = SOURCE
) -> LogitAttributionPanel:
    run = replace(RUN, reading=found)
    document = replace(Document(), model=model)
    return present_logit_attribution(resolve_view(document, view or View(), run), None)


def test_only_the_parts_are_requested_automatically() -> None:
    assert panel_of(None, model=None).message == MODEL_REQUIRED
    assert panel_of(None).message == RUNNING_MESSAGE
    panel = panel_of(reading())
    assert panel.questions == (question(AnalysisKind.PARTS),)
    assert (panel.message, panel.top_token_names) == (COMPUTING_MESSAGE, (" cat", " dog"))
    assert panel.can_ablate
    asked = View(attribution=AttributionOptions(" dog"))
    assert panel_of(reading(), asked).questions == (question(AnalysisKind.PARTS, " dog"),)


def test_the_parts_are_shown_with_their_sum() -> None:
    read = reading()
    read.answers.known[question(AnalysisKind.PARTS)] = PARTS
    panel = panel_of(read, View(heads=frozenset({1})))
    cells = panel.parts
    assert cells is not None
    np.testing.assert_array_equal(cells.values, [[0.5, -1, 4], [0.25, 2, -3]])
    assert (cells.rows, cells.columns) == (("3", "4"), ("1", "2", "rest"))
    assert (cells.low, cells.high, cells.gap_column, cells.separate_upper_limit) == (
        -2,
        2,
        2,
        4,
    )
    # The heads have their own colour scale, because the rest is larger than any of them.
    np.testing.assert_array_equal(cells.scale_positions(), [[0.625, 0.25, 1], [0.5625, 1, 0.125]])
    assert cells.marked == {(1, 1)}
    assert PARTS.parts.sum_of_parts == pytest.approx(3.25)
    assert panel.sum == (
        "“ cat” (50%): heads 1.75, rest of the layers 1.00, embedding 0.25, biases 0.25. "
        "Sum 3.250; the model’s logit is 3.250."
    )
    assert cells.describe(0, 1) == ("Layer 3, head 2 lowers the logit of “ cat” (3.25) by 1.000.")
    assert cells.describe(0, 2).startswith(
        "Layer 3, rest (feed-forward and biases) raises the logit of"
    )


def test_ablation_results_arrive_head_by_head_on_request() -> None:
    read, wanted = reading(), question(AnalysisKind.ABLATIONS)
    read.answers.known[question(AnalysisKind.PARTS)] = PARTS
    assert panel_of(read).changes is None
    read.answers.wanted.add(wanted)
    assert panel_of(read).questions == (wanted,)
    read.answers.known[wanted] = AblationResult(" cat", (2, 3), CHANGES)
    panel = panel_of(read)
    assert (panel.done, panel.count, panel.is_ablating, panel.is_complete) == (2, 4, True, False)
    cells = panel.changes
    assert cells is not None
    np.testing.assert_array_equal(cells.values, -CHANGES)
    assert "falls by 0.500 nats (probability × 0.607)" in cells.describe(0, 0)
    assert "rises by 1.000 nats (probability × 2.718)" in cells.describe(0, 1)
    assert cells.describe(1, 0) == "Layer 4, head 1 has not been ablated yet."
    read.answers.wanted.discard(wanted)
    assert panel_of(read).questions == ()
    assert panel_of(read).done == 2
    read.answers.known[wanted] = AblationResult(" cat", (2, 3), np.zeros((2, 2)))
    read.answers.wanted.add(wanted)
    assert panel_of(read).is_complete
    assert panel_of(read).questions == ()


def test_errors_are_shown_where_they_belong() -> None:
    read = reading()
    read.answers.known[question(AnalysisKind.PARTS)] = InputError("model", "No parts.")
    read.answers.known[question(AnalysisKind.ABLATIONS)] = InputError("model", "No changes.")
    read.answers.wanted.add(question(AnalysisKind.ABLATIONS))
    panel = panel_of(read)
    assert (panel.message, panel.changes_message) == ("No parts.", "No changes.")
    assert panel.questions == ()
