"""A notebook opens or captures a model and reads it by layer, head, query and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PySide6.QtGui import QImage
from torch import nn

import visualizer
from tests.support.tiny_models import inputs_of, save_tiny_model, tiny_model
from visualizer import InputError, Model, ModelAttention
from visualizer.models import model_text_runs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT = "the cat sat on the mat the cat sat"


@pytest.fixture(scope="module")
def model(tiny_model_folder: Path) -> Model:
    return visualizer.open_model(tiny_model_folder)


@pytest.fixture(scope="module")
def seen(model: Model) -> ModelAttention:
    return model.attend(TEXT)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> ModelAttention:
    """A model whose layers scale the scores differently."""
    settings = {"scale_attn_by_inverse_layer_idx": True}
    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "mixed", "gpt2", **settings)
    return visualizer.open_model(folder).attend(TEXT)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> ModelAttention:
    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "pair", "bart")
    return visualizer.open_model(folder).attend("the cat sat on a log", "a dog ran")


def refusal(given: Any, *more: Any, **named: Any) -> str:
    with pytest.raises(InputError) as caught:
        given(*more, **named)
    return caught.value.sentence


def test_several_texts_give_the_results_of_single_texts(
    model: Model, seen: ModelAttention, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a dog ran", TEXT]
    read = model.attend(texts)
    assert [each.tokens for each in read] == [("<s>", *text.split()) for text in texts]
    np.testing.assert_array_equal(read[1]["weights"], seen["weights"])
    import transformers  # imported here, because some tests do not need it

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model_folder)
    ids = tokenizer(texts[0], return_tensors="pt")
    with torch.no_grad():
        weights = model.opened.model(**ids, output_attentions=True).attentions
    np.testing.assert_allclose(read[0]["weights"], torch.cat(weights).numpy(), atol=1e-5)
    assert refusal(model.attend, ["a", " "]).startswith("Text 2 of 2: The text is empty")
    assert "one text at a time" in refusal(model.attend, ["a", "b"], "c")
    assert "must not be empty" in refusal(model.attend, [])
    monkeypatch.setattr(model_text_runs, "MAX_TEXTS", 1)
    assert refusal(model.attend, texts) == "There are 2 texts; at most 1 can be run together."


def test_a_model_describes_itself(model: Model, seen: ModelAttention) -> None:
    assert repr(model).startswith("<Model: tiny · llama · ")
    sizes = "2 layers × 4 heads, 10 tokens"
    assert repr(seen) == f"<ModelAttention: tiny · model.layers.*.self_attn: {sizes}>"
    assert seen.parts == ("model.layers.*.self_attn",)
    assert seen.layers == (0, 1)
    assert seen.notices == ()
    assert (seen.tokens, seen.key_tokens) == (("<s>", *TEXT.split()),) * 2


def test_stages_are_read_by_layer_and_head(seen: ModelAttention) -> None:
    assert seen.stages[:3] == ("residual", "normed", "projected_queries")
    assert seen.stages[-1] == "result"
    weights = seen["weights"]
    assert weights.shape == (2, 4, 10, 10)
    assert not weights.flags.writeable
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    scores = np.einsum("lhqd,lhkd->lhqk", seen["queries"], seen["keys"])
    np.testing.assert_allclose(seen["scores"], scores, atol=1e-6)
    np.testing.assert_allclose(seen["context"], weights @ seen["values"], atol=1e-6)


def test_a_number_is_explained(seen: ModelAttention) -> None:
    found = seen.explain("weights", layer=1, head=2, query=4, key=1)
    assert found.value == pytest.approx(float(seen["weights"][1, 2, 4, 1]))
    assert "on (query 5) attends to" in str(found)
    assert "exp(" in str(found)


def test_layers_of_several_parts_are_read_as_one(mixed: ModelAttention) -> None:
    assert [each.group.layers for each in mixed.runs] == [(0,), (1,)]
    assert mixed.attention(1)["weights"].shape == (4, 10, 10)
    weights = mixed["weights"]
    assert weights.shape == (2, 4, 10, 10)
    for layer in (0, 1):
        found = mixed.explain("weights", layer=layer, head=0, query=9, key=8)
        assert found.value == pytest.approx(float(weights[layer, 0, 9, 8]))


def test_each_layer_has_its_own_mask_and_capped_scores(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "capped", "gemma2")
    found = visualizer.open_model(folder).attend(TEXT)
    assert [each.group.layers for each in found.runs] == [(0, 1)]
    assert found.notices == ()
    weights, scaled = found["weights"], found["scaled"].astype(np.float64)
    assert not weights[0, :, 9, :6].any()  # outside the window of 4
    assert weights[1, :, 9, :6].all()
    captured = found.runs[0].captured_attention
    assert captured
    vectors = captured.vectors
    assert vectors
    limit = vectors.softcap
    np.testing.assert_allclose(found["capped"], limit * np.tanh(scaled / limit), atol=1e-6)


def test_an_encoder_and_a_decoder_are_taken_apart(pair: ModelAttention) -> None:
    assert "several kinds of attention" in refusal(pair.__getitem__, "weights")
    across = pair.part("encoder_attn")
    assert across["weights"].shape == (2, 4, 4, 7)
    assert across.key_tokens == ("<s>", "the", "cat", "sat", "on", "a", "log")
    assert across.tokens[1:] == ("a", "dog", "ran")
    assert across.stages == (
        "queries", "keys", "values", "scores", "scaled", "weights", "context"
    )  # fmt: skip
    scores = np.einsum("lhqd,lhkd->lhqk", across["queries"], across["keys"])
    np.testing.assert_allclose(across["scores"], scores, atol=1e-6)
    found = across.explain("weights", layer=0, head=0, query=1, key=2)
    assert found.value == pytest.approx(float(across["weights"][0, 0, 1, 2]))
    assert pair.part("encoder.layers")["weights"].shape == (2, 4, 7, 7)
    assert "“layers” must match exactly one" in refusal(pair.part, "layers")


def test_heads_are_measured(seen: ModelAttention) -> None:
    rows = seen.heads()
    assert [(row["layer"], row["head"]) for row in rows] == [
        (layer, head) for layer in range(2) for head in range(4)
    ]
    weights = seen["weights"].astype(np.float64)
    for row in rows:
        one = weights[int(row["layer"]), int(row["head"])]
        assert row["previous"] == pytest.approx(np.diagonal(one, -1).mean(), abs=1e-6)
        assert row["first"] == pytest.approx(one[:, 0].mean(), abs=1e-6)
        followed = (one[5, 2], one[7, 2] + one[7, 6], one[8, 3], one[9, 4])
        assert row["induction"] == pytest.approx(np.mean(followed), abs=1e-6)
        tokens = seen.tokens
        earlier = [
            one[query, [key for key in range(query) if tokens[key] == tokens[query]]].sum()
            for query in range(len(tokens))
            if tokens[query] in tokens[:query]
        ]
        assert row["duplicate"] == pytest.approx(np.mean(earlier), abs=1e-6)
        values = seen["values"][int(row["layer"]), int(row["head"])].astype(np.float64)
        shares = one * np.linalg.norm(values, axis=-1)
        moved = np.abs(shares / shares.sum(-1, keepdims=True) - one).sum(-1) / 2
        assert row["value_weighting"] == pytest.approx(moved.mean(), abs=1e-6)


def test_a_layer_is_drawn_and_saved(seen: ModelAttention, tmp_path: Path) -> None:
    figure = seen.figure(["weights"], heads=0, layer=1)
    assert figure.array().shape[-1] in {3, 4}
    figure.save(tmp_path / "layer.png")
    again = visualizer.load(tmp_path / "layer.png")
    np.testing.assert_array_equal(again["weights"], seen["weights"][1])
    assert again.tokens == seen.tokens
    seen.figure(["weights"], heads=0, layer=1, all_layers=True).save(tmp_path / "all.png")
    whole = visualizer.load(tmp_path / "all.png")
    np.testing.assert_array_equal(whole["weights"], seen["weights"])


def test_missing_names_are_rejected(model: Model, seen: ModelAttention, tmp_path: Path) -> None:
    assert "Layer 2 does not exist. The layers are (0, 1)." in refusal(
        seen.explain, "weights", layer=2, head=0, query=0, key=0
    )
    assert "no stage" in refusal(seen.__getitem__, "position").lower()
    assert "must be a whole number" in refusal(seen.figure, layer="one")
    assert "text must be a text" in refusal(model.attend, 3)
    assert "Folder not found" in refusal(visualizer.open_model, tmp_path / "nothing")
    assert "device must be one of" in refusal(visualizer.open_model, tmp_path, device="tpu")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"top_k": "3"}, "top_k must be a whole number. It is '3'."),
        ({"top_k": 2.5}, "top_k must be a whole number. It is 2.5."),
        ({"top_k": 0}, "Top-k must be at least 1. Leave it empty to keep all tokens."),
        ({"seed": -1}, "seed must be at least 0 and at most 2,147,483,647. It is -1."),
        (
            {"seed": 2**31},
            "seed must be at least 0 and at most 2,147,483,647. It is 2,147,483,648.",
        ),
    ],
)
def test_an_invalid_sampling_is_rejected(
    model: Model, arguments: dict[str, object], sentence: str
) -> None:
    assert refusal(model.generate, TEXT, 2, **arguments) == sentence


def test_a_switch_must_be_true_or_false(model: Model) -> None:
    said = refusal(model.ablate, TEXT, [(0, 0)], mean="no")
    assert said == "mean must be True or False. It is 'no'."


def test_a_model_in_memory_is_captured() -> None:
    model = tiny_model("qwen3")
    given = inputs_of(model)
    with visualizer.capture(model) as seen, torch.no_grad():
        model(**given)
    model.set_attn_implementation("eager")
    own = model(**given, output_attentions=True).attentions
    np.testing.assert_allclose(seen["weights"], torch.stack(own)[:, 0].detach().numpy(), atol=1e-6)
    assert seen.tokens == tuple("123456789")


def test_the_last_run_and_the_first_text_are_captured() -> None:
    model = tiny_model("llama")
    batch = torch.stack([torch.arange(3, 8), torch.arange(20, 25)])
    with visualizer.capture(model, tokens=list("abcde")) as seen, torch.no_grad():
        model(torch.arange(7)[None])
        model(batch)
    with visualizer.capture(model) as alone, torch.no_grad():
        model(batch[:1])
    np.testing.assert_allclose(seen["weights"], alone["weights"], atol=1e-6)
    assert seen.tokens == tuple("abcde")


def test_capturing_says_what_it_cannot() -> None:
    model = tiny_model("llama")
    assert "No transformers model" in refusal(_run, nn.Linear(2, 2), ())
    assert "No attention was recorded" in refusal(_run, model, ())
    assert model.config._attn_implementation == "sdpa"
    words = ["one", "two"]
    assert "There are 2 token labels, but the text has 5 tokens." in refusal(
        _run, model, (torch.arange(5)[None],), words
    )
    with visualizer.capture(model) as seen:
        assert "has not been run yet" in refusal(seen.__getitem__, "weights")
        model(torch.arange(5)[None])
    assert seen["weights"].shape == (2, 4, 5, 5)


def _run(model: Any, given: tuple[Any, ...], tokens: Any = None) -> None:
    with visualizer.capture(model, tokens), torch.no_grad():
        if given:
            model(*given)


@pytest.mark.usefixtures("application")
def test_all_heads_are_drawn(seen: ModelAttention, mixed: ModelAttention, tmp_path: Path) -> None:
    for each in (seen, mixed):
        each.overview().save(tmp_path / "heads.png")
        image = QImage(str(tmp_path / "heads.png"))
        assert image.height() > 2 * 64
        assert image.width() > 4 * 64
    assert seen.overview().png != seen.overview(order="previous").png
    assert seen.overview()._repr_png_().startswith(b"\x89PNG")
    assert "order must be " in refusal(seen.overview, order="size")
    assert "Use a name that ends in .png" in refusal(seen.overview().save, tmp_path / "heads.pdf")
    gone = tmp_path / "gone" / "heads.png"
    assert "Cannot write “heads.png”" in refusal(seen.overview().save, gone)
