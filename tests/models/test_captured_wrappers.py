"""Tests that a transformers model is captured in wrappers and when its submodules are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import visualizer
from tests.support.examples import others_slow
from tests.support.tiny_models import inputs_of, tiny_model
from visualizer import InputError, ModelAttention

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
IDS = torch.arange(3, 9)[None]


def eager_weights(model: Any, **given: Any) -> np.ndarray:
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(**given, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    return torch.stack(weights)[:, 0].numpy()  # layer head query key


class Adapter(nn.Module):
    """Like PeftModel: two modules around a transformers model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.base_model = nn.Module()
        self.base_model.model = model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            base: Any = super().__getattr__("base_model")
            return getattr(base.model, name)

    def forward(self, **given: Any) -> Any:
        model: Any = self.base_model.model
        return model(**given)


class Transformer(nn.Module):
    """Like the first module of a SentenceTransformer, which calls ``forward`` directly."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.auto_model = model

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        hidden = self.auto_model.forward(**features)[0]
        return {**features, "token_embeddings": hidden}


class Pooling(nn.Module):
    def forward(self, features: dict[str, Any]) -> torch.Tensor:
        mask = features["attention_mask"][..., None]
        found: torch.Tensor = (features["token_embeddings"] * mask).sum(1) / mask.sum(1)
        return found


class SentenceModel(nn.Sequential):
    def encode(self, batches: list[dict[str, Any]]) -> list[torch.Tensor]:
        whole: Any = self
        return [whole.forward(batch) for batch in batches]


class Pipeline:
    """Like a pipeline, which is not a module."""

    def __init__(self, model: nn.Module) -> None:
        self.framework = "pt"
        self.model = model


class InCollections(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.parts = [{"encoders": (model,)}]

    def forward(self, **given: Any) -> Any:
        return self.parts[0]["encoders"][0](**given)


def captured(model: Any, run: Any) -> ModelAttention:
    with visualizer.capture(model) as seen, torch.no_grad():
        run()
    return seen


@pytest.mark.parametrize("wrapped", [Adapter, InCollections, nn.DataParallel])
def test_modules_that_contain_a_model_are_captured(wrapped: Any) -> None:
    model = tiny_model("llama")
    whole = wrapped(model)
    seen = captured(whole, lambda: whole(input_ids=IDS))
    np.testing.assert_allclose(seen["weights"], eager_weights(model, input_ids=IDS), atol=1e-6)
    assert seen.parts == ("model.layers.*.self_attn",)


@pytest.mark.parametrize("wrapped", [Pipeline, lambda model: {"models": [model]}])
def test_objects_that_contain_a_model_are_captured(wrapped: Any) -> None:
    model = tiny_model("llama")
    seen = captured(wrapped(model), lambda: model(input_ids=IDS))
    assert seen["weights"].shape == (2, 4, 6, 6)


@pytest.mark.slow  # imports the compiler
def test_a_compiled_model_is_captured_whenever_it_was_compiled() -> None:
    model = tiny_model("llama", num_hidden_layers=1)
    compiled: Any = torch.compile(model, backend="eager")
    expected = eager_weights(model, input_ids=IDS)
    with torch.no_grad():
        compiled(input_ids=IDS)
    seen = captured(compiled, lambda: compiled(input_ids=IDS))
    np.testing.assert_allclose(seen["weights"], expected, atol=1e-6)
    model.compile(backend="eager")
    seen = captured(model, lambda: model(input_ids=IDS))
    np.testing.assert_allclose(seen["weights"], expected, atol=1e-6)


@pytest.mark.parametrize(
    "kind", others_slow(["bert", "mpnet", "llama", "gpt2", "albert", "distilbert", "gptj"], 2)
)
def test_calling_forward_is_captured_like_calling_the_model(kind: str) -> None:
    model = tiny_model(kind)
    seen = captured(model, lambda: model.forward(input_ids=IDS))
    called = captured(model, lambda: model(input_ids=IDS))
    np.testing.assert_array_equal(seen["weights"], called["weights"])
    assert seen.layers == called.layers


@pytest.mark.parametrize("kind", others_slow(["bart", "t5"]))
def test_forward_of_an_encoder_decoder_model_has_all_parts(kind: str) -> None:
    model = tiny_model(kind)
    given = inputs_of(model)
    seen = captured(model, lambda: model.forward(**given))
    called = captured(model, lambda: model(**given))
    assert seen.parts == called.parts
    for part in called.parts:
        np.testing.assert_array_equal(seen.part(part)["weights"], called.part(part)["weights"])


def test_submodules_called_one_by_one_form_one_run() -> None:
    model = tiny_model("llama")
    expected = eager_weights(model, input_ids=IDS)

    def run() -> None:
        inner = model.model
        for ids in (torch.arange(20, 24)[None], IDS):
            hidden, places = inner.embed_tokens(ids), torch.arange(ids.shape[1])[None]
            angles = inner.rotary_emb(hidden, places)
            size = ids.shape[1]
            mask = torch.full((size, size), torch.finfo(torch.float32).min).triu(1)[None, None]
            for layer in inner.layers:
                found = layer(hidden, attention_mask=mask, position_embeddings=angles)
                hidden = found[0] if isinstance(found, tuple) else found

    seen = captured(model, run)
    np.testing.assert_allclose(seen["weights"], expected, atol=1e-6)


def test_only_the_last_batch_of_encoded_sentences_is_kept() -> None:
    model = tiny_model("bert")
    whole = SentenceModel(Transformer(model), Pooling())
    ids = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    first = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    seen = captured(whole, lambda: whole.encode([first, batch]))
    assert [each["weights"].shape[-1] for each in seen.texts] == [5, 3]
    expected = eager_weights(model, input_ids=ids[1:, :3])
    np.testing.assert_allclose(seen.texts[1]["weights"], expected, atol=1e-5)


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.documents = tiny_model("bert"), nn.ModuleList([tiny_model("albert")])


def refusal(model: Any) -> str:
    with pytest.raises(InputError) as caught, visualizer.capture(model):
        pass
    return caught.value.sentence


def test_an_object_with_several_models_is_rejected() -> None:
    both = TwoTowers()
    said = refusal(both)
    assert "model.query (BertModel)" in said
    assert "model.documents[0] (AlbertModel)" in said
    assert captured(both.query, lambda: both.query(IDS))["weights"].shape == (2, 4, 6, 6)
    both.documents[0] = both.query  # the same model twice counts as one
    assert captured(both, lambda: both.query(IDS))["weights"].shape == (2, 4, 6, 6)


def test_an_object_without_a_model_is_rejected() -> None:
    others: list[Any] = [nn.Linear(2, 2), [], None, "llama", type(tiny_model("llama"))]
    for other in others:
        assert "No transformers model" in refusal(other)
    endless: list[Any] = []
    endless.append(endless)
    assert "of type list" in refusal(endless)


def test_copies_on_several_devices_are_rejected() -> None:
    copies = nn.DataParallel(tiny_model("llama"))
    copies.device_ids = [0, 1]
    assert ".module" in refusal(copies)


def test_a_model_of_peft_is_found() -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = peft.get_peft_model(tiny_model("llama"), config)
    with torch.no_grad(), visualizer.capture(model) as seen:
        model(input_ids=IDS)
    np.testing.assert_allclose(
        seen["weights"], eager_weights(model.base_model.model, input_ids=IDS), atol=1e-6
    )
