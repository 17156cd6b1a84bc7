"""The contents of the Continue pane for a tree and the results at its nodes."""

from __future__ import annotations

import numpy as np
import pytest

from visualizer.features.model_generation.presenter import (
    MAX_ROWS,
    MODEL_REQUIRED,
    TEXT_ENDED_MESSAGE,
    GenerationState,
    present_model_generation,
)
from visualizer.features.model_generation.text_generator import GenerationNodeResult
from visualizer.generation.generation_tree import ROOT_NODE, GenerationTree
from visualizer.generation.token_choice_presenter import present_next_tokens
from visualizer.language.sampling import SamplingSettings
from visualizer.session.model_pane_options import RUNNING_MESSAGE

WORDS = ("the", "cat", "sat")
VOCABULARY = ("the", "cat", "sat", "on", "a")


def node_reading(rows: np.ndarray, tokens: int, *, is_end: bool = False) -> GenerationNodeResult:
    bars = present_next_tokens(
        ("x",), np.log([[0.5, 0.2, 0.1, 0.1, 0.1]]), VOCABULARY, SamplingSettings()
    )
    return GenerationNodeResult({4: rows}, bars, tokens, 2048 * tokens, is_end)


def branched() -> GenerationTree:
    tree = (
        GenerationTree(WORDS).append_picked_token(3, " on", 0.5).append_picked_token(4, " a", 0.25)
    )
    return tree.step_back().append_picked_token(0, " the", 0.125)


def triangle(tokens: int) -> np.ndarray:
    weights = np.tril(np.arange(1.0, 1 + tokens * tokens).reshape(tokens, tokens))
    return np.stack([weights, 2 * weights]).astype(np.float32)


def state_of(tree: GenerationTree, **changes: object) -> GenerationState:
    whole = triangle(5)
    readings = {
        ROOT_NODE: node_reading(whole[:, :3, :3], 3),
        0: node_reading(whole[:, 3:4, :4], 4),
        2: node_reading(whole[:, 4:, :], 5, is_end=True),
    }
    given = {"message": "", "tree": tree, "node_results": readings, "head": (4, 1), **changes}
    return GenerationState(**given)  # type: ignore[arg-type]


def test_a_missing_model_is_reported() -> None:
    panel = present_model_generation(GenerationState())
    assert panel.message == MODEL_REQUIRED
    assert not panel.can_sample
    assert not panel.can_run
    assert not panel.can_use_as_text


def test_rows_of_the_text_and_of_tokens_form_one_matrix() -> None:
    panel = present_model_generation(state_of(branched()))
    rows = panel.rows
    assert rows
    allowed = np.tri(5, dtype=bool)
    np.testing.assert_array_equal(rows.weights[allowed], triangle(5)[1][allowed])
    assert np.isnan(rows.weights[~allowed]).all()
    assert (rows.first, rows.prompt_tokens) == (0, 3)
    assert rows.title == f"Layer 5, head 2: weights from 0 to {rows.colour_range}"
    assert rows.colour_range.end == pytest.approx(np.percentile(triangle(5)[1][allowed], 98))
    assert rows.describe_cell_at(0, 1) == ""
    assert rows.describe_cell_at(4, 0).startswith("“␣the” attends to ")
    assert rows.describe_cell_at(4, 0).endswith("attends to “the” with 4200%")


def test_generation_stops_at_the_end_of_the_text() -> None:
    panel = present_model_generation(state_of(branched()))
    assert (
        panel.generation.status
        == f"2 tokens added. Cache: 10.0 KiB, 5 tokens. {TEXT_ENDED_MESSAGE}"
    )
    assert not panel.can_sample
    assert panel.can_use_as_text
    assert (panel.step, panel.last_step) == (2, 2)


def test_the_chosen_token_is_marked() -> None:
    tree = branched().step_back()
    panel = present_model_generation(state_of(tree))
    assert panel.bars.next_on_branch == 0  # on the newest branch
    marked = [bar.token for bar in panel.bars.bars if panel.bars.is_on_branch(bar)]
    assert marked == [0]
    assert "“the”: 50%, next on this branch" in panel.bars.description
    assert (panel.step, panel.last_step) == (1, 2)
    assert panel.can_sample


def test_missing_results_are_pending() -> None:
    panel = present_model_generation(state_of(branched(), node_results={}))
    assert panel.rows is None
    assert panel.generation.status == f"2 tokens added. {RUNNING_MESSAGE}"
    assert panel.bars.bars == ()
    other = present_model_generation(state_of(branched(), head=(3, 0)))
    assert other.rows is None


def test_long_texts_show_the_last_rows() -> None:
    count = MAX_ROWS + 5
    weights = np.full((1, count, count), 0.5, np.float32)
    tree = GenerationTree(("a",) * count)
    panel = present_model_generation(
        state_of(tree, node_results={ROOT_NODE: node_reading(weights, count)}, head=(4, 0))
    )
    assert panel.rows
    assert panel.rows.weights.shape == (MAX_ROWS, count)
    assert panel.rows.first == 5
    np.testing.assert_array_equal(np.isfinite(panel.rows.weights), np.tri(MAX_ROWS, count, 5))


def test_rows_with_a_sliding_window_are_aligned_to_the_end() -> None:
    whole = np.full((1, 4, 4), 0.25, np.float32)
    readings = {
        ROOT_NODE: node_reading(whole, 4),
        0: node_reading(np.full((1, 1, 2), 0.5, np.float32), 5),
    }
    tree = GenerationTree(("a",) * 4).append_picked_token(3, "on", 0.5)
    panel = present_model_generation(state_of(tree, node_results=readings, head=(4, 0)))
    assert panel.rows
    np.testing.assert_array_equal(panel.rows.weights[-1], [np.nan, np.nan, np.nan, 0.5, 0.5])
    assert panel.rows.last_token_sentence == "“on” attends to “a” 50%, “on” 50%."
