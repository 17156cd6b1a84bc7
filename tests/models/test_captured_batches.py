"""Tests that texts captured in a batch have the same values as single texts, without padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.examples import others_slow
from tests.support.tiny_models import tiny_model
from visualizer import InputError, ModelAttention

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXTS = ([5, 9, 5, 7, 9, 5, 8, 9], [6, 8, 6, 8, 6], [11, 10, 11])


def padded(side: str, texts: Any = TEXTS) -> dict[str, torch.Tensor]:
    longest = max(map(len, texts))
    rows, masks = [], []
    for text in texts:
        some, ones = [0] * (longest - len(text)), [1] * len(text)
        rows.append([*some, *text] if side == "left" else [*text, *some])
        masks.append([*some, *ones] if side == "left" else [*ones, *some])
    found = {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}
    places = (found["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return {**found, "position_ids": places} if side == "left" else found


def captured(model: Any, tokens: Any = None, **given: Any) -> ModelAttention:
    with visualizer.capture(model, tokens) as seen, torch.no_grad():
        model(**given)
    return seen


def assert_same(one: ModelAttention, other: ModelAttention) -> None:
    assert one.parts == other.parts
    for part in one.parts:
        mine, alone = one.part(part), other.part(part)
        assert (mine.tokens, mine.key_tokens) == (alone.tokens, alone.key_tokens)
        for stage in ("weights", "context") if "context" in alone.stages else ("weights",):
            np.testing.assert_allclose(mine[stage], alone[stage], atol=1e-5)
        for row, expected in zip(mine.heads(), alone.heads(), strict=True):
            assert row == pytest.approx(expected, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", others_slow(["mistral", "bert", "llama", "gpt2", "gptj"]))
def test_each_text_has_the_same_values_as_alone(kind: str, side: str) -> None:
    model = tiny_model(kind)
    seen = captured(model, **padded(side))
    assert len(seen.texts) == 3
    for own, each in zip(TEXTS, seen.texts, strict=True):
        assert_same(each, captured(model, input_ids=torch.tensor([own])))
        padding = len(TEXTS[0]) - len(own)
        assert any(f"{padding} of 8" in notice for notice in each.notices) == bool(padding)
    np.testing.assert_array_equal(seen["weights"], seen.texts[0]["weights"])
    assert any("1 of 3" in notice for notice in seen.notices)


def test_a_single_padded_text_is_captured_without_padding() -> None:
    model = tiny_model("llama")
    alone = captured(model, input_ids=torch.tensor([TEXTS[1]]))
    given = padded("right", (TEXTS[1], [1] * 8))
    only = captured(model, **{name: rows[:1] for name, rows in given.items()})
    assert_same(only, alone)
    assert only.texts == (only,)
    assert not any("batch" in notice for notice in only.notices)
    assert only.runs[0].captured_attention
    assert only.runs[0].captured_attention.vectors
    assert only.runs[0].captured_attention.vectors.mask == "causal"


def test_generated_texts_of_a_padded_batch_equal_those_alone() -> None:
    model = tiny_model("mistral")
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    given = {name: rows for name, rows in padded("left").items() if name != "position_ids"}
    with visualizer.capture(model) as seen, torch.no_grad():
        model.generate(**given, **settings)
    for own, each in zip(TEXTS, seen.texts, strict=True):
        with visualizer.capture(model) as alone, torch.no_grad():
            model.generate(torch.tensor([own]), **settings)
        assert alone["weights"].shape[-2:] == (len(own) + 3, len(own) + 3)
        assert_same(each, alone)


def test_a_text_that_ended_early_has_no_rows_for_later_padding() -> None:
    model = tiny_model("llama", sliding_window=None)
    texts = torch.tensor([[5, 9, 5], [6, 8, 7]])
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        ids = model.generate(texts, eos_token_id=[], **settings)
        first_end = int(ids[1, 3])  # the second text ends with its first generated token
        assert first_end not in ids[0, 3:].tolist()
        with visualizer.capture(model) as seen:
            model.generate(texts, eos_token_id=[first_end], **settings)
        with visualizer.capture(model) as alone:
            model(ids[1:, :4], use_cache=False)
    first, second = seen.texts
    assert first["weights"].shape[-2:] == (8, 8)
    assert_same(second, alone)


def test_a_text_consisting_only_of_padding_is_captured_whole() -> None:
    model = tiny_model("llama")
    ids = torch.tensor([[5, 9, 5], [0, 0, 0]])
    seen = captured(model, input_ids=ids, attention_mask=(ids != 0).long())
    assert [each["weights"].shape[-1] for each in seen.texts] == [3, 3]


def test_a_padding_token_within_a_chunk_is_a_token() -> None:
    model = tiny_model("llama", sliding_window=None)
    ids = torch.tensor([[5, 9, 0, 7, 0]])
    with visualizer.capture(model) as seen, torch.no_grad():
        cache = model(ids[:, :2], use_cache=True).past_key_values
        cache = model(ids[:, 2:4], past_key_values=cache).past_key_values
        model(ids[:, 4:], past_key_values=cache)
    assert seen["weights"].shape[-2:] == (5, 5)


def test_a_step_of_a_padded_batch_counts_only_real_positions() -> None:
    model = tiny_model("mistral")
    given = padded("left")
    first = {name: rows[:, :-1] for name, rows in given.items()}
    with torch.no_grad():
        cache = model(**first, use_cache=True).past_key_values
        step = {name: rows[:, -1:] for name, rows in given.items()}
        step["attention_mask"] = given["attention_mask"]
        with visualizer.capture(model) as seen:
            model(**step, past_key_values=cache)
    for own, each in zip(TEXTS, seen.texts, strict=True):
        whole = captured(model, input_ids=torch.tensor([own]))
        keys = tuple(str(at + 1) for at in range(len(own)))
        assert (each.tokens, each.key_tokens) == (keys[-1:], keys)
        last = whole["weights"][:, :, -1:]
        np.testing.assert_allclose(each["weights"], last, atol=1e-5)


@pytest.mark.parametrize("kind", others_slow(["bart", "t5"]))
def test_padding_of_encoder_and_decoder_is_omitted(kind: str) -> None:
    model = tiny_model(kind)
    answers = ([1, 5, 6], [1, 7], [1, 8, 9])
    given, other = padded("right"), padded("right", answers)
    seen = captured(
        model,
        **given,
        decoder_input_ids=other["input_ids"],
        decoder_attention_mask=other["attention_mask"],
    )
    for own, answer, each in zip(TEXTS, answers, seen.texts, strict=True):
        alone = captured(
            model, input_ids=torch.tensor([own]), decoder_input_ids=torch.tensor([answer])
        )
        assert_same(each, alone)


def test_token_labels_may_include_padding() -> None:
    model = tiny_model("llama")
    words = [list("abacbadb"), list("xyxyx"), list("pqp")]
    for given in (words, [[*word, *("<pad>",) * (8 - len(word))] for word in words]):
        seen = captured(model, given, **padded("right"))
        assert ["".join(each.tokens) for each in seen.texts] == ["abacbadb", "xyxyx", "pqp"]
    first = captured(model, words[0], **padded("right"))
    assert [each.tokens[0] for each in first.texts] == ["a", "1", "1"]
    with pytest.raises(InputError, match="tokens has 4 lists, but there are 3 texts"):
        captured(model, [*words, ["a"]], **padded("right"))
    with pytest.raises(InputError, match="2 token labels, but the text has 5"):
        _ = captured(model, [words[0], ["a", "b"]], **padded("right")).texts


@pytest.mark.usefixtures("application")
def test_each_text_can_be_drawn_and_explained() -> None:
    second = captured(tiny_model("llama"), **padded("left")).texts[1]
    assert second.overview().png.startswith(b"\x89PNG")
    assert second.attention(1)["weights"].shape == (2, 4, 5, 5)
    assert second.figure(["weights"], layer=0).array().size
    found = second.explain("weights", layer=1, head=0, query=4, key=2)
    assert found.value == pytest.approx(float(second["weights"][1, 0, 4, 2]))
