"""Tests that a recording is limited to one model, one thread and its context."""

from __future__ import annotations

import importlib
import threading
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.tiny_models import inputs_of, tiny_model
from visualizer import InputError
from visualizer.models.attention_recorder import record_attention
from visualizer.models.recorded_runs import group_calls

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models


def hooks_of(model: Any) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def test_hooks_are_removed_even_after_an_error() -> None:
    model = tiny_model("llama")

    def fail_within() -> None:
        with record_attention(model):
            assert hooks_of(model)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert hooks_of(model) == 0
    assert model.config._attn_implementation == "sdpa"


def test_hooks_are_removed_if_the_recording_ends_in_another_context() -> None:
    model = tiny_model("llama")
    recording = record_attention(model)
    copy_context().run(recording.__enter__)
    with pytest.raises(ValueError, match="different Context"):
        recording.__exit__(None, None, None)
    assert hooks_of(model) == 0
    assert model.config._attn_implementation == "sdpa"


def test_a_custom_attention_class_computes_the_same_result() -> None:
    modeling = importlib.import_module("transformers.models.llama.modeling_llama")
    model = tiny_model("llama")
    with torch.no_grad(), record_attention(model):
        model(**inputs_of(model))

    class OwnAttention(modeling.LlamaAttention):  # type: ignore[misc,name-defined]
        pass

    own = tiny_model("llama")
    own.set_attn_implementation("eager")
    expected = own(**inputs_of(own)).logits
    for layer in own.model.layers:
        layer.self_attn.__class__ = OwnAttention
    assert torch.equal(own(**inputs_of(own)).logits, expected)
    with record_attention(own) as calls:
        own(**inputs_of(own))
    assert len(calls) == 2


def test_another_thread_is_not_recorded() -> None:
    model = tiny_model("llama")
    given = inputs_of(model)
    with torch.no_grad(), record_attention(model) as calls:
        other = threading.Thread(target=lambda: model(**given), daemon=True)
        other.start()
        other.join(30)
        assert calls == []
        model(**given)
    assert len(calls) == 2


def test_only_the_last_of_several_runs_is_kept() -> None:
    model = tiny_model("llama")
    with torch.no_grad(), record_attention(model) as calls:
        model(**inputs_of(model, 9))
        model.model(**inputs_of(model, 5))
        model.model(**inputs_of(model, 6))
    assert [tuple(call.weights.shape) for call in calls] == 2 * [(1, 4, 6, 6)]


@pytest.mark.parametrize(
    ("kind", "settings", "layers"),
    [
        ("albert", {"num_hidden_layers": 3, "num_hidden_groups": 2}, 3),
        ("albert", {"num_hidden_layers": 2, "inner_group_num": 2}, 4),
        ("llama", {"num_hidden_layers": 3}, 3),
    ],
)
def test_each_layer_has_one_number(kind: str, settings: dict[str, int], layers: int) -> None:
    model = tiny_model(kind, **settings)
    with torch.no_grad(), record_attention(model) as calls:
        model(**inputs_of(model))
    found = [layer for group in group_calls(calls) for layer in group.layers]
    assert sorted(found) == [*range(layers)]


@pytest.mark.parametrize("kind", ["longformer", "big_bird", "xglm"])
def test_softmax_that_may_not_be_attention_is_rejected(kind: str) -> None:
    settings = {"attention_window": 4, "attention_type": "block_sparse", "block_size": 4,
                "num_random_blocks": 1, "attention_heads": 4}  # fmt: skip
    model = tiny_model(kind, **settings)
    with (
        pytest.raises(InputError, match="No attention was recorded"),
        torch.no_grad(),
        visualizer.capture(model),
    ):
        model(input_ids=torch.arange(3, 59)[None])


def test_cross_attention_to_equally_many_tokens_is_a_separate_part_without_distances() -> None:
    model = tiny_model("bart")
    ids = torch.arange(3, 9)[None]
    with torch.no_grad(), visualizer.capture(model) as seen:
        model(input_ids=ids, decoder_input_ids=ids)
    across = seen.part("encoder_attn")
    assert across.parts == ("model.decoder.layers.*.encoder_attn",)
    for row in across.heads():
        assert np.isnan([row[name] for name in ("previous", "own", "distance")]).all()
        assert not np.isnan(row["entropy"])
    assert seen.part("encoder").parts == ("model.encoder.layers.*.self_attn",)
    assert "scores" in seen.part("decoder.layers.*.self_attn").stages
