"""Attention weights from arrays have the same values and measures as those of a recorded model."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.tiny_models import save_tiny_model
from visualizer import InputError, ModelAttention

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("application", "one_thread")
WORDS = ("the", "cat", "sat", "on", "a", "mat")


def weights_of(*shape: int, seed: int = 0) -> np.ndarray:
    """Return random rows that sum to 1."""
    numbers = np.random.default_rng(seed).random(shape)
    return np.asarray(numbers / numbers.sum(-1, keepdims=True))


def refusal(*given: Any, **named: Any) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        visualizer.from_arrays(*given, **named)
    return caught.value.field, caught.value.sentence


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model with fewer key heads than query heads, with attention computed by transformers."""
    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    import transformers  # imported here, because some tests do not need it

    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.tensor([[3, 4, 5, 6, 4, 5, 7, 3]])


def same_measures(one: ModelAttention, other: ModelAttention, *left_out: str) -> None:
    for row, expected in zip(one.heads(), other.heads(), strict=True):
        for name in row.keys() - {*left_out}:
            assert row[name] == pytest.approx(expected[name], abs=1e-6, nan_ok=True), name


def test_the_attention_of_transformers_has_the_measures_of_a_recording(
    eager: Any, ids: torch.Tensor
) -> None:
    words = [f"w{number}" for number in ids[0].tolist()]
    with visualizer.capture(eager, words) as seen:
        outputs = eager(ids, output_attentions=True)
    assert outputs.attentions[0].requires_grad
    found = visualizer.from_arrays(outputs.attentions, words)
    assert (found.tokens, found.key_tokens, found.layers) == (seen.tokens, seen.tokens, seen.layers)
    expected = torch.cat(outputs.attentions).detach().numpy()
    np.testing.assert_array_equal(found["weights"], expected)
    same_measures(found, seen, "value_weighting")
    assert type(found) is ModelAttention
    assert found.overview().png.startswith(b"\x89PNG")
    assert found.figure(layer=1, heads=[0]).array().shape[-1] == 4


def masked_cells(found: ModelAttention, layer: int) -> np.ndarray:
    """Return which cells of the first head a figure shows as masked."""
    axes = importlib.import_module("matplotlib.figure").Figure().subplots()
    image = found.figure("weights", heads=0, layer=layer).plot(axes)
    return np.ma.getmaskarray(image.get_array())


@pytest.mark.parametrize("other", [None, (0, 0, 0, 1), (1, 2, 3, 5), (0, 1, 4, 5)])
def test_later_keys_are_masked_if_no_head_attends_to_them(
    other: tuple[int, int, int, int] | None,
) -> None:
    given = np.tril(weights_of(2, 3, 6, 6))
    if other:
        given[other] = 1e-30
    given /= given.sum(-1, keepdims=True)
    found = visualizer.from_arrays(given, WORDS)
    is_later = np.triu(np.ones((6, 6), bool), 1)
    for layer in range(2):
        np.testing.assert_array_equal(masked_cells(found, layer), is_later & (other is None))


def test_queries_keys_and_values_explain_the_weights(eager: Any, ids: torch.Tensor) -> None:
    with visualizer.capture(eager) as seen, torch.no_grad():
        outputs = eager(ids, output_attentions=True)
    vectors: dict[str, Any] = {name: seen[name] for name in ("queries", "keys", "values")}
    # Each pair of query heads shares a key and a value head.
    assert np.array_equal(vectors["keys"][:, 0], vectors["keys"][:, 1])
    shared = vectors | {name: vectors[name][:, ::2] for name in ("keys", "values")}
    for given in (vectors, shared):
        found = visualizer.from_arrays(outputs.attentions, **given)
        assert found.notices == ()
        assert found.stages == (*vectors, "scores", "scaled", "masked", "weights", "context")
        for stage in ("scaled", "masked", "weights", "context"):
            np.testing.assert_allclose(found[stage], seen[stage], atol=1e-6)
        same_measures(found, seen)
        explained = found.explain("weights", layer=1, head=2, query=4, key=1)
        assert explained.value == pytest.approx(float(outputs.attentions[1][0, 2, 4, 1]))
        assert "exp(" in str(explained)


def test_vectors_that_do_not_yield_the_weights_are_shown_as_given() -> None:
    vectors = np.random.default_rng(1).normal(size=(2, 6, 4))
    with pytest.warns(UserWarning, match="do not follow exactly from the scores"):
        found = visualizer.from_arrays(
            weights_of(2, 6, 6), queries=vectors, keys=vectors, values=vectors
        )
    np.testing.assert_array_equal(found["weights"], weights_of(2, 6, 6)[None])
    np.testing.assert_allclose(found["context"][0], weights_of(2, 6, 6) @ vectors)


@pytest.mark.parametrize("shape", [(6, 6), (2, 6, 6), (3, 2, 6, 6), (3, 1, 2, 6, 6)])
def test_missing_axes_have_one_element(shape: tuple[int, ...]) -> None:
    weights = weights_of(*shape)
    expected = weights.reshape(3 if len(shape) > 3 else 1, -1, 6, 6)
    for given in (weights, torch.from_numpy(weights), weights.tolist(), weights.astype(">f8")):
        found = visualizer.from_arrays(given, WORDS)
        np.testing.assert_array_equal(found["weights"], expected, strict=True)
        assert found.tokens == WORDS
    reversed_rows = visualizer.from_arrays(weights[..., ::-1, :])
    np.testing.assert_array_equal(reversed_rows["weights"], expected[..., ::-1, :])


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.bool, torch.int64]
)
def test_types_are_converted_without_loss(dtype: torch.dtype) -> None:
    weights = torch.eye(6).expand(2, 6, 6).to(dtype)
    found = visualizer.from_arrays(weights)["weights"]
    assert found.dtype == (np.float64 if dtype in {torch.float64, torch.int64} else np.float32)
    np.testing.assert_array_equal(found[0], np.broadcast_to(np.eye(6), (2, 6, 6)))


def test_arrays_are_not_copied_or_changed() -> None:
    weights = weights_of(3, 2, 6, 6)
    weights.flags.writeable = False
    before = weights.copy()
    found = visualizer.from_arrays(weights)
    assert np.shares_memory(found.attention(0)["weights", 0], weights)
    found.heads()
    found.overview()
    np.testing.assert_array_equal(weights, before)


def test_a_batch_has_one_result_per_text() -> None:
    weights = weights_of(3, 2, 4, 6, 6)
    texts = [WORDS, WORDS[::-1]]
    listed = [torch.from_numpy(layer) for layer in weights]
    for given in (weights, listed, tuple(listed)):
        with pytest.warns(UserWarning, match="text 1 of 2 in a batch"):
            found = visualizer.from_arrays(given, texts)
        assert [each.tokens for each in found.texts] == texts
        for at, each in enumerate(found.texts):
            np.testing.assert_array_equal(each["weights"], weights[:, at])
        assert repr(found).endswith("3 layers × 4 heads, 6 tokens · 2 texts>")


Index = tuple[int | slice, ...]
PARTS: list[Index] = [
    *((0,), (-1,), (0, 1), (0, 1, 2, 3)),
    *((slice(1), 0), (slice(0, None, 2), 1, 2)),
]
OUT_OF_RANGE: list[Index] = [(3,), (-4,), (0, 2), (0, 0, 6), (0, 0, 0, -7)]


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_removed_as_in_a_recording(eager: Any, side: str) -> None:
    ids, mask = torch.tensor([[3, 4, 5, 6, 4], [0, 0, 7, 4, 7]]), torch.ones(2, 5, dtype=torch.long)
    mask[1, :2] = 0
    if side == "right":
        ids, mask = ids.flip(1), mask.flip(1)
    words = [[f"w{number}" for number in row] for row in ids.tolist()]
    with visualizer.capture(eager, words) as seen, torch.no_grad():
        outputs = eager(ids, attention_mask=mask, output_attentions=True)
    without = [[word for word, is_real in zip(words[at], mask[at], strict=True) if is_real]
               for at in range(2)]  # fmt: skip
    for given in (words, without):
        with pytest.warns(UserWarning, match="text 1 of 2 in a batch"):
            found = visualizer.from_arrays(outputs.attentions, given, attention_mask=mask)
        for one, other in zip(found.texts, seen.texts, strict=True):
            assert one.tokens == other.tokens
            np.testing.assert_allclose(one["weights"], other["weights"], atol=1e-6)
            same_measures(one, other, "value_weighting")
            assert one.notices == other.notices
    assert "Padding is omitted (2 of 5 positions)." in found.texts[1].notices


@pytest.mark.filterwarnings("ignore:Padding is omitted")
def test_padding_of_other_keys_is_removed() -> None:
    real, keys = [1, 1, 1, 0, 0, 1], ["a", "b", "c", "", "", "d"]
    kept = weights_of(2, 3, 4, 4)
    weights = np.zeros((2, 3, 4, 6))
    weights[..., [0, 1, 2, 5]] = kept
    with pytest.warns(UserWarning, match=r"Padding is omitted \(2 of 6 positions\)"):
        found = visualizer.from_arrays(weights, WORDS[:4], key_tokens=keys, attention_mask=real)
    np.testing.assert_array_equal(found["weights"], kept)
    assert (found.tokens, found.key_tokens) == (WORDS[:4], ("a", "b", "c", "d"))
    vectors = np.random.default_rng(0).normal(size=(2, 3, 6, 4))
    part: dict[str, Any] = {"queries": vectors[:, :, :4], "keys": vectors, "values": vectors}
    with pytest.warns(UserWarning, match="do not follow exactly"):
        again = visualizer.from_arrays(weights, key_tokens=keys, attention_mask=real, **part)
    assert again["queries"].shape == (2, 3, 4, 4)
    np.testing.assert_array_equal(again["values"], vectors[:, :, [0, 1, 2, 5]])


def test_parts_of_a_stage_are_selected_by_index() -> None:
    weights = weights_of(3, 2, 6, 6)
    for given in (weights, [weights[0], weights[1], weights[2]], weights[:1]):
        found, whole = visualizer.from_arrays(given), np.asarray(given)
        for index in PARTS:
            np.testing.assert_array_equal(found[("weights", *index)], whole[index])
        assert not found["weights", 0].flags.writeable
    assert "weights" in found
    assert "scores" not in found
    for index in OUT_OF_RANGE:
        with pytest.raises(IndexError, match=r"is out of range\. Valid indices are 0 to"):
            visualizer.from_arrays(weights)[("weights", *index)]
        with pytest.raises(InputError):
            visualizer.from_arrays(weights)[("weights", *index)]
    with pytest.raises(InputError, match="has 3 axes"):
        found["weights", 0, 0, 0, 0, 0]


def test_attention_is_not_an_array() -> None:
    found = visualizer.from_arrays(weights_of(3, 2, 6, 6))
    module = visualizer.attend("a b", normalisation="linear", mechanism="multi-head")
    given: list[Any] = [found, found.attention(1), module]
    for each in given:
        for options in ({}, {"dtype": float}, {"copy": True}):
            with pytest.raises(InputError, match=r'Attention is not an array\. Use attention\["'):
                np.array(each, **options)


def test_the_table_of_heads_is_a_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    found = visualizer.from_arrays(weights_of(3, 2, 6, 6))
    table = found.to_dataframe()
    assert [*zip(table["layer"], table["head"], strict=True)] == [*np.ndindex(3, 2)]
    assert table["entropy"].to_list() == [row["entropy"] for row in found.heads()]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"requires pandas, .* Install it with: .*install pandas$"):
        found.to_dataframe()


def test_layers_may_differ_in_their_number_of_heads() -> None:
    layers = [weights_of(1, heads, 6, 6) for heads in (2, 4, 2)]
    found = visualizer.from_arrays(layers, WORDS)
    assert found.layers == (0, 1, 2)
    assert [(row["layer"], row["head"]) for row in found.heads()] == [
        *((0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1))
    ]
    np.testing.assert_array_equal(found.attention(1)["weights"], layers[1][0])
    with pytest.raises(InputError, match="differ in size"):
        found["weights"]


def test_the_keys_may_belong_to_another_text() -> None:
    weights, keys = weights_of(2, 3, 4, 6), ("le", "chat", "est", "assis", "par", "terre")
    found = visualizer.from_arrays(weights, WORDS[:4], key_tokens=keys)
    assert (found.tokens, found.key_tokens) == (WORDS[:4], keys)
    assert found.parts == ("cross-attention",)
    assert all(np.isnan(row["previous"]) for row in found.heads())
    numbered = visualizer.from_arrays(weights, key_tokens=keys)
    assert (numbered.tokens, numbered.key_tokens) == (("1", "2", "3", "4"), keys)
    square = visualizer.from_arrays(weights_of(3, 6, 6), WORDS, key_tokens=keys)
    assert (square.tokens, square.key_tokens) == (WORDS, keys)


def test_queries_may_be_the_last_tokens() -> None:
    found = visualizer.from_arrays(weights_of(2, 3, 2, 6), WORDS)
    assert (found.tokens, found.key_tokens) == (WORDS[-2:], WORDS)
    assert found.parts == ("attention",)
    assert all(np.isfinite(row["previous"]) for row in found.heads())
    with pytest.warns(UserWarning, match="numbered separately"):
        found = visualizer.from_arrays(weights_of(2, 3, 2, 6))
    assert found.tokens == ("1", "2")


def test_tokens_in_the_form_of_a_vocabulary_are_readable() -> None:
    assert visualizer.from_arrays(np.eye(2), ["The", "Ġcat"]).tokens == ("The", " cat")


def test_unusual_numbers_are_described_and_kept() -> None:
    weights = weights_of(2, 3, 6, 6)
    with pytest.warns(UserWarning, match="36 of 36 rows, the weights do not sum to 1; .* 0.5"):
        visualizer.from_arrays(weights / 2)
    weights[0, 0, 0, 0] = np.nan
    with pytest.warns(UserWarning, match=r"^1 of 216 cells are NaN\.$"):
        found = visualizer.from_arrays(weights)
    assert np.isnan(found["weights"]).sum() == 1
    with pytest.warns(UserWarning, match="negative, so they are shown as scores"):
        scores = visualizer.from_arrays(np.random.default_rng(0).normal(size=(2, 3, 6, 6)))
    assert scores.stages == ("scores",)
    for method in (scores.heads, scores.overview):
        with pytest.raises(InputError, match=r"weights are required, but some .* negative"):
            method()


def test_a_saved_file_has_all_layers(tmp_path: Path) -> None:
    weights = weights_of(3, 2, 6, 6)
    found = visualizer.from_arrays(weights, WORDS, name="my model")
    assert repr(found).startswith("<ModelAttention: my model · attention: 3 layers")
    found.save(tmp_path / "a.npz", tmp_path / "a.attention", tmp_path / "a.png")
    found.save(tmp_path / "b.png", layer=2)
    with np.load(tmp_path / "a.npz") as file:
        np.testing.assert_array_equal(file["weights"], weights)
        assert (*file["tokens"],) == WORDS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(visualizer.load(tmp_path / "a.attention")["weights"], weights)
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()


HALVES = np.full((2, 2), 0.5)
VECTORS = dict.fromkeys(("queries", "keys", "values"), np.ones((2, 4)))
REFUSALS: list[tuple[tuple[Any, ...], dict[str, Any], str, str]] = [
    (
        (None,), {}, "attention",
        'attention is None. Load the model with attn_implementation="eager", and run it with '
        "output_attentions=True.",
    ),
    (
        ((None, None),), {}, "attention",
        'attention[0] is None. Load the model with attn_implementation="eager", and run it with '
        "output_attentions=True.",
    ),
    (
        (((HALVES, HALVES), (HALVES,)),), {}, "attention",
        "attention is a list of arrays, as in the output of generate(). To record generated text, "
        "use visualizer.capture.",
    ),
    (
        (np.ones(3),), {}, "attention",
        "attention must have the axes [layer, text, head, query, key]; the first axes may be "
        "missing. It is 3.",
    ),
    (
        ([np.ones((1, 1, 1, 2, 2))],), {}, "attention",
        "attention[0] must have the axes [text, head, query, key]; the first axes may be "
        "missing. It is 1 × 1 × 1 × 2 × 2.",
    ),
    (
        ([HALVES, np.eye(3)],), {}, "attention",
        "All layers of attention must have the same texts, queries and keys. Layer 0 has the shape "
        "1 × 1 × 2 × 2, and layer 1 has the shape 1 × 1 × 3 × 3.",
    ),
    ((np.ones((0, 2)),), {}, "attention", "attention is empty. Its shape is [0, 2]."),
    (([["a"]],), {}, "attention", "attention must contain numbers. It contains the type <U1."),
    (
        (HALVES * 1j,), {}, "attention",
        "attention must contain numbers. It contains the type complex128.",
    ),
    (
        ([[1, 0], [1]],), {}, "attention",
        "attention must be an array of numbers: setting an array element with a sequence. The "
        "requested array has an inhomogeneous shape after 1 dimensions. The detected shape was "
        "(2,) + inhomogeneous part.",
    ),
    (
        (torch.ones(2, 2, device="meta"),), {}, "attention",
        "attention has no data, because it is on the device “meta”.",
    ),
    (
        (np.ones((1_001, 1, 1)),), {}, "attention",
        "Attention of shape 1 × 1,001 × 1 × 1 has 1,001 heads; the maximum is 1,000.",
    ),
    ((HALVES, ["a"]), {}, "tokens", "tokens has 1 tokens, but attention has 2 queries."),
    ((HALVES, "ab"), {}, "tokens", "tokens must be a list of texts. It is 'ab'."),
    ((HALVES, [1, 2]), {}, "tokens", "tokens must be a list of texts. It is 1."),
    (
        (HALVES, [["a", "b"]] * 2), {}, "tokens",
        "tokens has 2 lists, but attention has 1 text.",
    ),
    (
        (np.full((2, 3), 1 / 3), ["a"]), {}, "tokens",
        "tokens has 1 tokens, but attention has 2 queries. It has 3 keys; pass their tokens as "
        "key_tokens.",
    ),
    (
        (HALVES,), {"key_tokens": ["a"]}, "key_tokens",
        "key_tokens has 1 tokens, but attention has 2 keys.",
    ),
    (
        (HALVES,), {"queries": np.ones((2, 4))}, "queries",
        "queries, keys and values must be passed together. keys is missing.",
    ),
    (
        (HALVES,), {"attention_mask": [1, 1, 1]}, "attention_mask",
        "attention_mask must have the shape 1 × 2, to match the texts and keys of attention. It "
        "has the shape 1 × 3.",
    ),
    (
        (HALVES,), {"attention_mask": [[0.0, -1e9]]}, "attention_mask",
        "attention_mask must contain 1 for tokens and 0 for padding. It contains other numbers.",
    ),
    (
        (HALVES,), {"attention_mask": [0, 0]}, "attention_mask",
        "Each text of attention_mask must have a token.",
    ),
    (
        (HALVES, ["a", "b", "c"]), {"attention_mask": [1, 0]}, "tokens",
        "tokens has 3 tokens, but attention has 2 queries, and 1 without padding.",
    ),
    (
        (HALVES,), VECTORS | {"values": np.ones((3, 4))}, "values",
        "values must have the shape 1 × 1 × 2 × d_head in layer 0, to match attention. It has the "
        "shape 1 × 1 × 3 × 4.",
    ),
    (
        (HALVES,), VECTORS | {"keys": np.ones((2, 3))}, "keys",
        "Each key must have as many numbers as a query. In layer 0, queries have 4, and keys have "
        "3.",
    ),
    (
        (HALVES,), VECTORS | {"values": np.ones((2, 1, 2, 3))}, "values",
        "attention has 1 layers, but values has 2.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "named", "field", "sentence"), REFUSALS)
def test_a_refusal_names_the_argument(
    given: tuple[Any, ...], named: dict[str, Any], field: str, sentence: str
) -> None:
    assert refusal(*given, **named) == (field, sentence)


def test_the_whole_output_of_a_model_is_refused(eager: Any, ids: torch.Tensor) -> None:
    with torch.no_grad():
        outputs = eager(ids, output_attentions=True)
    sentence = "attention is the output of a model. Pass its `attentions`."
    assert refusal(outputs) == ("attention", sentence)
