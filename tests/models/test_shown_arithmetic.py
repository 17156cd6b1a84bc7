"""Tests that the terms shown for a model's values add up, for one token and for several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from tests.support.examples import others_slow
from tests.support.screens import resolved
from tests.support.shown_arithmetic import cell_faults, line_faults
from tests.support.tiny_models import inputs_of, tiny_model
from visualizer.attention.captured_attention import numbered_labels
from visualizer.attention.layer_operations import SinkSoftmax
from visualizer.explanations.explain import describe_step
from visualizer.features.explain.presenter import explain_head_cell
from visualizer.models.attention_recorder import record_attention
from visualizer.models.layer_recorder import record_module_calls
from visualizer.models.recorded_runs import create_layer_run, group_calls
from visualizer.models.surrounding_stages import add_surrounding_stages
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import Step
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run

KINDS = ("llama", "gpt_oss", "gemma2", "gpt2", "t5", "qwen2_moe", "deepseek_v3", "vit")
CELLS = 3


def runs_of(kind: str, tokens: int) -> Iterator[Run]:
    """Run a tiny model on some tokens, and yield its runs with the recognized stages."""
    model = tiny_model(kind)
    with torch.no_grad(), record_module_calls(model) as passed, record_attention(model) as calls:
        model(**inputs_of(model, tokens))
    for group in group_calls(calls):
        queries, keys = group.calls[0].weights.shape[-2:]
        labels = numbered_labels(queries), () if keys == queries else numbered_labels(keys)
        found = create_layer_run(group, kind, *labels)
        yield (
            found if group.is_cross else add_surrounding_stages(found, model, passed, {}, {})
        ).run


@pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("kind", others_slow(KINDS))
def test_shown_terms_and_lines_lead_to_the_values_of_a_model(kind: str, tokens: int) -> None:
    chance = np.random.default_rng(0)
    for run in runs_of(kind, tokens):
        for layer in range(run.trace.shape("weights")[0]):
            shown = resolved(run, View(layer=layer))
            assert shown.leading == (layer,)
            for stage in run.trace.names:
                sizes = run.trace.shape(stage)[1:]
                assert not line_faults(run, (layer,), stage)
                for _ in range(CELLS):
                    place = tuple(int(chance.integers(size)) for size in sizes)
                    panel = explain_head_cell(shown, Cell(stage, place), is_pinned=False)
                    assert not cell_faults(panel)


@pytest.mark.filterwarnings("ignore")
def test_a_sink_far_below_the_scores_receives_its_recorded_share() -> None:
    (run, *_) = runs_of("gpt_oss", 4)
    logits = run.trace.tensor(run.trace.stage("weights").step_of_type(SinkSoftmax).logits)
    logits.fill_(-30.0)
    told = describe_step(run, (0,), Step("weights", range(2, 3), range(4)), 0)
    assert told.endswith("and the sink receives less than 0.1%.")
    weights = run.trace.read("weights", (0, 0, 2))
    cell = explain_head_cell(resolved(run, View()), Cell("weights", (0, 2, 0)), is_pinned=False)
    assert weights.any()
    assert cell.plain_text.endswith("receives less than 0.1%.")
