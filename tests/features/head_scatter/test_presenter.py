"""The measures in the scatter plot are those that NumPy computes, for attention and for a model."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.attention.model_forward_pass import (
    AnalysisKind,
    AnalysisRequest,
    LogitAttributionResult,
    LogitParts,
    ModelForwardPass,
)
from visualizer.features.head_scatter.presenter import (
    LOGIT_CONTRIBUTION,
    MEASURES,
    UNMEASURED_MESSAGE,
    HeadScatterContents,
    present_scatter,
)
from visualizer.session.document import Document
from visualizer.session.model_pane_options import HeadScatterOptions
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document

DOCUMENT = Document(text="a b a b a b")
RUN = run_document(DOCUMENT, None)


def panel_of(view: View, reading: ModelForwardPass | None = None) -> HeadScatterContents:
    return present_scatter(resolve_view(DOCUMENT, view, replace(RUN, reading=reading)))


def between(across: str, up: str) -> View:
    return View(scatter=HeadScatterOptions(across, up))


def test_axes_match_numpy_and_uniform_attention() -> None:
    panel = panel_of(between("duplicate", "previous"))
    weights = RUN.trace.read("weights").astype(np.float64)  # head query key
    assert panel.across is not None
    assert panel.up is not None
    pairs = {query: range(query % 2, query, 2) for query in range(2, 6)}
    wanted = [np.mean([one[at, [*keys]].sum() for at, keys in pairs.items()]) for one in weights]
    np.testing.assert_allclose(panel.across.values, [wanted], atol=1e-6)
    alike = np.mean([len(keys) / (at + 1) for at, keys in pairs.items()])
    assert panel.across.chance == pytest.approx(alike)
    previous = np.diagonal(weights, -1, 1, 2).mean(-1)
    np.testing.assert_allclose(panel.up.values, [previous], atol=1e-6)
    assert panel.up.chance == pytest.approx(np.mean([1 / at for at in range(2, 7)]))
    ranked = [panel.across.values[place] for place in panel.plotted_heads]
    assert ranked == sorted(ranked)
    assert panel.describe_head((0, 1)).startswith("Layer 1, head 2: Duplicate token 0.")
    assert panel.as_tsv().splitlines()[0] == "Layer\tHead\tDuplicate token\tPrevious token"
    assert len(panel.as_tsv().splitlines()) == 1 + len(panel.plotted_heads)


def test_attribution_results_can_be_axes() -> None:
    assert [each.name for each in panel_of(View()).choices] == [each.name for each in MEASURES]
    heads = np.array([[9.0, 9.0], [0.5, -2.0]])
    parts = LogitParts(1, 0.0, heads, np.zeros(2), 0.0, 0.0, (1, 3))
    reading = ModelForwardPass("made", (3,), {}, {}, True, (), "", None, None)
    reading.answers.known[AnalysisRequest(AnalysisKind.PARTS)] = LogitAttributionResult(
        parts, " cat", 0.5
    )
    panel = panel_of(between("entropy", LOGIT_CONTRIBUTION), reading)
    assert panel.up is not None
    np.testing.assert_array_equal(panel.up.values, heads[1:])
    assert (panel.up.chance, panel.up.limits) == (0, (-2, 0.5))
    assert panel.layers == (3,)


def test_without_a_repeated_token_there_is_no_induction() -> None:
    run = run_document(Document(text="a b c"), None)
    panel = present_scatter(resolve_view(Document(text="a b c"), View(), run))
    assert (panel.message, panel.plotted_heads) == (UNMEASURED_MESSAGE, ())


def test_an_unchanged_panel_is_kept() -> None:
    resolved = resolve_view(DOCUMENT, View(), RUN)
    panel = present_scatter(resolved)
    assert present_scatter(resolved, panel) is panel
    other = resolve_view(DOCUMENT, between("first", "own"), RUN)
    assert present_scatter(other, panel) is not panel
