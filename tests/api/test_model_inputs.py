"""A model attends to token ids and embeddings, and keeps only some layers."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.tiny_models import save_tiny_model, tiny_model
from visualizer import InputError, Model, ModelAttention

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def model(tiny_model_folder: Path) -> Model:
    return visualizer.open_model(tiny_model_folder)


@pytest.fixture(scope="module")
def seen(model: Model) -> ModelAttention:
    return model.attend(TEXT)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "pair", "bart")
    return visualizer.open_model(folder)


def test_token_ids_in_any_form_give_the_attention_of_their_text(
    model: Model, seen: ModelAttention
) -> None:
    coded = model.tokenizer(TEXT, return_tensors="pt")
    ids = coded["input_ids"]
    row = ids[0].tolist()
    for given in (
        coded,
        dict(coded),
        ids,
        ids[0],
        ids.numpy(),
        row,
        tuple(row),
        iter(row),
        [*ids[0]],
    ):
        found = model.attend(given)
        assert found.tokens == seen.tokens
        assert found.stages == seen.stages
        np.testing.assert_array_equal(found["weights"], seen["weights"])
    assert model.next_tokens(ids) == model.next_tokens(TEXT)


def test_a_batch_of_ids_gives_one_result_per_text_without_padding(model: Model) -> None:
    texts = [TEXT, "a dog ran"]
    rows = [model.tokenizer(text)["input_ids"] for text in texts]
    longest = max(map(len, rows))
    missing = [longest - len(row) for row in rows]
    padded = {
        "input_ids": torch.tensor(
            [row + [0] * more for row, more in zip(rows, missing, strict=True)]
        ),
        "attention_mask": torch.tensor(
            [[True] * len(row) + [False] * more for row, more in zip(rows, missing, strict=True)]
        ),
    }
    for given in (padded, rows, texts, [rows[0], texts[1]]):
        for found, text in zip(model.attend(given), texts, strict=True):
            assert found.tokens == model.attend(text).tokens
            np.testing.assert_array_equal(found["weights"], model.attend(text)["weights"])
    assert [row["head"] for row in model.attend(padded)[1].heads()] == [0, 1, 2, 3] * 2


def test_embeddings_replace_those_of_the_tokens(model: Model, seen: ModelAttention) -> None:
    ids = model.tokenizer(TEXT, return_tensors="pt")["input_ids"]
    vectors = model.opened.model.get_input_embeddings()(ids)
    found = model.attend(vectors)
    np.testing.assert_array_equal(found["weights"], seen["weights"])
    np.testing.assert_array_equal(found["residual"], seen["residual"])
    assert found.tokens == tuple(map(str, range(1, 8)))
    assert model.attend(vectors.bfloat16())["weights"].shape == seen["weights"].shape
    np.testing.assert_array_equal(model.attend(TEXT)["result"], seen["result"])


def test_ids_of_two_texts(pair: Model, tmp_path: Path) -> None:
    words = "the cat sat", "a dog ran"
    wanted = pair.attend(*words).part("encoder_attn")
    ids = [pair.tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    start = pair.config.decoder_start_token_id
    coded = {**pair.tokenizer(words[0]), "decoder_input_ids": [start, *ids[1]]}
    found = pair.attend(coded).part("encoder_attn")
    assert (found.tokens, found.key_tokens) == (wanted.tokens, wanted.key_tokens)
    np.testing.assert_array_equal(found["weights"], wanted["weights"])
    bert = visualizer.open_model(save_tiny_model(tmp_path / "bert", "bert"))
    coded = bert.tokenizer(*words)
    coded["token_type_ids"] = [0] * 4 + [1] * (len(coded["input_ids"]) - 4)
    with torch.no_grad():
        given = {name: torch.tensor([row]) for name, row in coded.items()}
        wanted_weights = bert.opened.model(**given, output_attentions=True).attentions
    np.testing.assert_allclose(
        bert.attend(coded)["weights"], torch.cat(wanted_weights).numpy(), atol=1e-6
    )


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([3, 331], "Token id 331 does not exist: the ids of tiny are 0 to 330"),
        ([3, -1], "Token id -1 does not exist"),
        ([], "must not be empty"),
        (torch.zeros(0), "must not be empty"),
        ([3, "the"], "mixes texts and token ids"),
        ([3, True], "True"),
        ([3.5], "a whole number"),
        (torch.tensor(3), "a single number"),
        (torch.zeros(2, 5), "embeddings of 32 numbers per token"),
        (torch.full((2, 32), torch.nan), "infinite or NaN"),
        (torch.zeros(1, 1, 1, 1), "1 × 1 × 1 × 1"),
        (np.array(["a"]), "token ids"),
        ({"ids": [3]}, "input_ids"),
        ({"input_ids": [3], "attention_mask": [0]}, "excludes all tokens"),
        ({"input_ids": [3], "attention_mask": [1, 1]}, "2 numbers for 1 token ids"),
        ({"input_ids": [[3]], "attention_mask": [1]}, "different numbers of texts"),
        ({"input_ids": [3], "decoder_input_ids": [3]}, "has no decoder"),
        ({"input_ids": [3], "position_ids": [5]}, "position_ids"),
        ({"input_ids": [[3]], "pixel_values": np.zeros((1, 3, 4, 4))}, "pixel_values"),
        ({"input_ids": [3], "decoder_attention_mask": [0]}, "decoder_attention_mask"),
        ([3] * 68, "at most 67"),
        ([[3], [4], [331]], "Text 3 of 3: Token id 331"),
        (5, "a text, token ids, or a list"),
        ({3, 4}, "a text, token ids, or a list"),
    ],
    ids=str,
)
def test_invalid_ids_are_refused(model: Model, given: Any, named: str) -> None:
    with pytest.raises(InputError) as caught:
        model.attend(given)
    assert caught.value.field == "text"
    assert named in caught.value.sentence


def test_outputs_of_a_tokenizer_that_describe_the_tokens_are_ignored(model: Model) -> None:
    described = model.tokenizer(
        TEXT, return_offsets_mapping=True, return_special_tokens_mask=True, return_length=True
    )
    assert {"offset_mapping", "special_tokens_mask", "length"} <= {*described}
    found = model.attend({**described, "position_ids": None})
    np.testing.assert_array_equal(found["weights"], model.attend(TEXT)["weights"])


def test_options_of_texts_are_refused_for_ids(model: Model, pair: Model) -> None:
    for given in ([3, 4], [[3, 4], [3]]):
        with pytest.raises(InputError, match="chat"):
            model.attend(given, chat=True)
    with pytest.raises(InputError, match="decoder_input_ids"):
        pair.attend([3, 4], "a dog")
    with pytest.raises(InputError, match="does not accept embeddings"):
        pair.attend(torch.zeros(2, 32))
    with pytest.raises(InputError, match="attend"):
        model("the cat")
    assert model.config.model_type == "llama"


def test_only_the_wanted_layers_are_kept(model: Model, seen: ModelAttention) -> None:
    found = model.attend(TEXT, layers=1)
    assert (found.layers, found.stages) == ((1,), seen.stages)
    for stage in seen.stages:
        np.testing.assert_array_equal(found[stage][0], seen[stage][1])


def test_capture_keeps_only_the_wanted_layers_in_memory() -> None:
    model = tiny_model("llama", num_hidden_layers=6)
    ids = torch.arange(3, 12)[None]

    def matrices() -> int:
        found = (each for each in gc.get_objects() if isinstance(each, torch.Tensor))
        return sum(not each.is_meta and each.shape == (1, 4, 9, 9) for each in found)

    before = matrices()
    with visualizer.capture(model, layers=[2, 4]) as seen:
        model(input_ids=ids)
        assert matrices() - before <= 2
    with visualizer.capture(model) as whole:
        model(input_ids=ids)
    assert seen.layers == (2, 4)
    np.testing.assert_array_equal(seen["weights"], whole["weights"][[2, 4]])
    with visualizer.capture(model, layers=4) as written:
        model.generate(ids, max_new_tokens=3, do_sample=False)
    assert written["weights"].shape == (1, 4, 11, 11)
    np.testing.assert_allclose(written["weights"][0, :, :9, :9], whole["weights"][4], atol=1e-6)
    with (
        pytest.raises(InputError, match="Layer 6 has no attention"),
        visualizer.capture(model, layers=6),
    ):
        model(input_ids=ids)


def test_layers_of_an_encoder_and_a_decoder_are_kept_by_number() -> None:
    model = tiny_model("bart", decoder_layers=3)
    ids = torch.arange(3, 9)[None]
    with visualizer.capture(model, layers=2) as seen:
        model.generate(ids, max_new_tokens=3, do_sample=False)
    assert [part.rpartition(".")[2] for part in seen.parts] == ["self_attn", "encoder_attn"]
    assert [seen.part(part).layers for part in seen.parts] == [(2,), (2,)]
