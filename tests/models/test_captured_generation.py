"""Tests that attention captured with a cache contains the correct rows and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.examples import others_slow
from tests.support.tiny_models import tiny_model
from visualizer import InputError, ModelAttention
from visualizer.features.line_view.line_selection import no_lines_reason

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
PROMPT = torch.tensor([[5, 9, 5, 7, 9, 5]])


WINDOWED = ("mistral", "gemma3_text", "gemma2", "gpt_oss")
"""Architectures with a window of 4 tokens."""


def made(kind: str) -> Any:
    """Create a tiny model; remove the window from configs of models that do not use it."""
    return tiny_model(kind, **({} if kind in WINDOWED else {"sliding_window": None}))


def eager(model: Any, **given: Any) -> Any:
    """Run the model with its own eager attention, which returns the weights."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            return model(**given, output_attentions=True)
    finally:
        model.set_attn_implementation(before)


def weights_of(attentions: Any) -> np.ndarray:
    return torch.stack(list(attentions))[:, 0].numpy()  # layer head query key


def generated(model: Any, prompt: torch.Tensor = PROMPT, **more: Any) -> tuple[Any, Any]:
    settings = {"max_new_tokens": 5, "do_sample": False, "min_new_tokens": 5, "pad_token_id": 0}
    with visualizer.capture(model) as seen, torch.no_grad():
        ids = model.generate(prompt, **(settings | more))
    return seen, ids


def assert_is_reading_of(seen: ModelAttention, model: Any, ids: torch.Tensor) -> None:
    """Compare the captured attention with that of the same text in one pass."""
    expected = weights_of(eager(model, input_ids=ids).attentions)
    np.testing.assert_allclose(seen["weights"], expected, atol=1e-6)
    with visualizer.capture(model) as whole, torch.no_grad():
        model(ids, use_cache=False)
    assert seen.tokens == whole.tokens == tuple(str(at + 1) for at in range(ids.shape[1]))
    assert seen.stages == whole.stages
    for stage in ("queries", "keys", "values", "context"):
        np.testing.assert_allclose(seen[stage], whole[stage], atol=1e-5)
    for mine, theirs in zip(seen.heads(), whole.heads(), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize(
    "kind", others_slow(["gemma3_text", "llama", "gpt2", "mistral", "gemma2", "gpt_oss"], 3)
)
def test_generated_text_has_the_rows_of_all_steps(kind: str) -> None:
    model = made(kind)
    seen, ids = generated(model)
    text = ids[:, :-1]  # the last token was generated but not processed
    assert text.shape[1] == 10 > 4  # longer than the window
    assert_is_reading_of(seen, model, text)
    assert not any("rows were recorded" in notice for notice in seen.notices)


@pytest.mark.parametrize("kind", others_slow(["gptj", "bloom"]))
def test_models_with_their_own_attention_have_the_rows_of_all_steps(kind: str) -> None:
    model = made(kind)
    if kind == "gptj":
        import transformers

        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(model.config).eval()
    seen, ids = generated(model)
    expected = weights_of(eager(model, input_ids=ids[:, :-1]).attentions)
    np.testing.assert_allclose(seen["weights"], expected, atol=1e-6)


@pytest.mark.parametrize("kind", others_slow(["mistral", "llama"]))
def test_a_fixed_size_cache_has_no_columns_for_empty_positions(kind: str) -> None:
    model = made(kind)
    seen, ids = generated(model, cache_implementation="static", disable_compile=True)
    assert_is_reading_of(seen, model, ids[:, :-1])


def test_beams_have_the_rows_of_the_text_that_they_continue() -> None:
    model = made("llama")
    seen, _ = generated(model, num_beams=3, max_new_tokens=8, num_return_sequences=3)
    assert len(seen.texts) == 3
    for each in seen.texts:
        weights = each["weights"]
        assert weights.shape[-2:] == (13, 13)
        scores = np.einsum("lhqd,lhkd->lhqk", each["queries"], each["keys"]) / np.sqrt(8)
        scores[..., ~np.tri(13, dtype=bool)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(weights, shares / shares.sum(-1, keepdims=True), atol=1e-6)


def test_a_text_processed_in_chunks_is_one_text() -> None:
    model = made("mistral")
    ids = torch.arange(3, 15)[None]
    with visualizer.capture(model) as seen, torch.no_grad():
        cache = None
        for chunk in torch.split(ids, [5, 4, 1, 2], dim=1):
            cache = model(chunk, past_key_values=cache, use_cache=True).past_key_values
    assert_is_reading_of(seen, model, ids)


def test_recomputed_rows_replace_earlier_rows() -> None:
    model = made("llama")
    ids = torch.arange(3, 12)[None]
    with visualizer.capture(model) as seen, torch.no_grad():
        cache = model(torch.tensor([[3, 4, 5, 6, 7, 50, 51]]), use_cache=True).past_key_values
        cache.crop(-2)
        model(ids[:, 5:], past_key_values=cache)
    assert_is_reading_of(seen, model, ids)


def test_the_cache_of_another_text_starts_a_new_text() -> None:
    model = made("llama")
    with torch.no_grad():
        cache = model(torch.arange(20, 26)[None], use_cache=True).past_key_values
        with visualizer.capture(model) as seen:
            model(torch.arange(3, 9)[None], use_cache=True)
            model(torch.tensor([[7]]), past_key_values=cache)
    assert seen["weights"].shape == (2, 4, 1, 7)


@pytest.mark.parametrize(
    "kind", others_slow(["llama", "mistral", "gemma3_text", "gpt2", "gptj"], 3)
)
def test_a_step_has_the_last_row_of_the_text(kind: str) -> None:
    model = made(kind)
    ids = torch.tensor([[5, 9, 5, 7, 9, 5, 8, 5]])
    words = list("abacbada")
    with torch.no_grad():
        cache = model(ids[:, :7], use_cache=True).past_key_values
        with visualizer.capture(model, tokens=words) as seen:
            model(ids[:, 7:], past_key_values=cache)
    expected = weights_of(eager(model, input_ids=ids).attentions)
    np.testing.assert_allclose(seen["weights"], expected[:, :, 7:], atol=1e-6)
    assert (seen.tokens, seen.key_tokens) == (("a",), tuple(words))
    assert any("1 of 8" in notice for notice in seen.notices)
    is_windowed = kind in WINDOWED
    assert any("first 4 positions" in notice for notice in seen.notices) == is_windowed
    row = seen["weights"][1, 2, 0].astype(float)
    found = next(each for each in seen.heads() if (each["layer"], each["head"]) == (1, 2))
    assert found["own"] == pytest.approx(row[-1])
    assert found["previous"] == pytest.approx(row[-2])
    assert found["first"] == pytest.approx(row[0])
    assert found["distance"] == pytest.approx(row @ (7 - np.arange(8)))
    assert found["duplicate"] == pytest.approx(row[[0, 2, 5]].sum())
    assert found["induction"] == pytest.approx(row[[1, 3, 6]].sum())


def test_a_step_without_token_labels_is_labelled_by_position() -> None:
    model = made("mistral")
    ids = torch.arange(3, 11)[None]
    with torch.no_grad():
        cache = model(ids[:, :6], use_cache=True).past_key_values
        with visualizer.capture(model) as seen:
            model(ids[:, 6:], past_key_values=cache)
    assert (seen.tokens, seen.key_tokens) == (("7", "8"), tuple("12345678"))
    explained = seen.explain("weights", layer=0, head=0, query=1, key=6)
    assert explained.value == pytest.approx(float(seen["weights"][0, 0, 1, 6]))
    assert "8 (query 8)" in explained.sentence
    assert "7 (key 7)" in explained.sentence
    with (
        pytest.raises(InputError, match="2 token labels, but the text has 8"),
        torch.no_grad(),
        visualizer.capture(model, tokens=["a", "b"]),
    ):
        model(ids)


def test_a_saved_step_is_loaded_at_its_position(tmp_path: Path) -> None:
    model = made("llama")
    ids, words = torch.tensor([[5, 9, 5, 7, 9, 5]]), tuple("abacba")
    with torch.no_grad():
        cache = model(ids[:, :4], use_cache=True).past_key_values
        with visualizer.capture(model, tokens=words) as seen:
            model(ids[:, 4:], past_key_values=cache)
    own = seen.attention(0)
    own.save(tmp_path / "step.attention", tmp_path / "step.npz", tmp_path / "step.png")
    for name in ("step.attention", "step.npz", "step.png"):
        again = visualizer.load(tmp_path / name)
        assert (again.tokens, again.key_tokens) == (("b", "a"), words)
        assert again.run.key_texts == (words,)
        found = again.run.trace.head_measures("weights", again.run.key_texts)
        np.testing.assert_allclose(
            found.previous.flat[:4], [row["previous"] for row in seen.heads()[:4]], atol=1e-6
        )
    assert "only the last tokens" in no_lines_reason(own.run)


@pytest.mark.parametrize("kind", others_slow(["bart", "t5"]))
def test_an_encoder_decoder_model_generates_with_all_its_attention(kind: str) -> None:
    model = made(kind)
    seen, ids = generated(model, torch.arange(3, 10)[None])
    expected = eager(model, input_ids=torch.arange(3, 10)[None], decoder_input_ids=ids[:, :-1])
    names = set(seen.parts)
    assert len(names) == 3
    cross = next(name for name in names if "encoder_attn" in name or "EncDec" in name)
    (encoder,) = (name for name in names if name.startswith("encoder") or ".encoder." in name)
    (decoder,) = names - {cross, encoder}
    for name, own in (
        (encoder, expected.encoder_attentions),
        (decoder, expected.decoder_attentions),
        (cross, expected.cross_attentions),
    ):
        np.testing.assert_allclose(seen.part(name)["weights"], weights_of(own), atol=1e-6)
    across = seen.part(cross)
    assert all(np.isnan(row["previous"] + row["distance"]) for row in across.heads())
    assert not any(np.isnan(row["previous"]) for row in seen.part(decoder).heads())
