"""Tests that models of the language lab compute the same values as transformers models."""

from __future__ import annotations

import math
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import visualizer
from tests.support.small_trainings import begun, finish, quick
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError
from visualizer.explanations.explain import explain
from visualizer.language.checkpoints import read_metadata, write_weights
from visualizer.language.example_run import EXAMPLE_FOLDER, EXAMPLE_TEXT
from visualizer.language.language_models import build_model
from visualizer.language.run_folder import RunFolder, RunMetadata
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_settings import (
    LAYERED_MODELS,
    CorpusKind,
    CorpusSource,
    ModelKind,
)
from visualizer.models.opened_model import OpenedModel, open_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Machine
    from visualizer.language.language_models import LanguageModel
    from visualizer.language.training_settings import TrainingSettings

LETTERS = ("\n", " ", "'", "a", "e\u0301", "h", "s", "t", "猫")
WORDS = ("a", "cat", "on", "sat", "the", "猫", ".")


def random_model(settings: TrainingSettings, tokens: int) -> LanguageModel:
    """Create a model with different heads; the lab's initial weights make them almost equal."""
    model = build_model(settings, tokens).eval()
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(
                drawn / parameter.shape[-1] ** 0.5 + (parameter if parameter.ndim == 1 else 0)
            )
    return model


def saved(path: Path, settings: TrainingSettings) -> LanguageModel:
    """Save the weights of a random model as the lab does, and return it."""
    is_words = settings.source.tokenizer is TokenizerKind.WORDS
    tokens = WORDS if is_words else LETTERS
    model = random_model(settings, len(tokens))
    sample = "the cat sat ." if is_words else "that's the hat"
    write_weights(path, model, RunMetadata(settings, tokens, 1.0, 1.0, sample, ""))
    return model


@st.composite
def model_settings(draw: st.DrawFn) -> TrainingSettings:
    # The norm of two nearly equal columns is dominated by rounding, and is not recognized.
    sizes = st.tuples(st.integers(1, 4), st.integers(1, 8)).filter(lambda pair: math.prod(pair) > 3)
    heads, d_head = draw(sizes)
    source = CorpusSource(CorpusKind.WORLD, tokenizer=draw(st.sampled_from(TokenizerKind)))
    return quick(
        source=source,
        model=draw(st.sampled_from(LAYERED_MODELS)),
        block=draw(st.integers(2, 20)),
        width=heads * d_head,
        heads=heads,
        layers=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 100)),
    )


@pytest.mark.slow
@given(settings=model_settings(), data=st.data())
def test_values_equal_those_of_the_lab(
    settings: TrainingSettings, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lab") / "weights.safetensors"
    trained = saved(path, settings)
    is_words = settings.source.tokenizer is TokenizerKind.WORDS
    picked = data.draw(
        st.lists(
            st.sampled_from(WORDS if is_words else LETTERS), min_size=1, max_size=settings.block
        )
    )
    text = (" " if is_words else "").join(picked)
    if not text.strip():
        text = "a"
    model = open_model(path, Device.CPU)
    tokens, numbers = model.folder.lab_run.vocabulary.tokenize_and_encode(text)  # type: ignore[union-attr]
    with torch.no_grad():
        logits, traces = trained.forward_with_traces(torch.from_numpy(numbers))
    inputs, words, _ = model.encode_inputs(text)
    assert words == tokens
    with torch.no_grad():
        found = model.forward.run(inputs).logits[0]
    np.testing.assert_allclose(found, logits, atol=1e-5)
    (run,) = model.attend(text)
    trace = run.run.trace
    stages = ["queries", "keys", "values", "masked", "weights", "context", "concat", "output"]
    for stage in stages[: -1 if settings.model is ModelKind.NOTES else None]:
        if stage == "masked" and stage not in trace.names:
            assert len(tokens) == 1  # a single token has nothing to mask
            continue
        expected = np.stack([each.read(stage) for each in traces])
        seen = trace.read(stage) if trace.axes else trace.read(stage)[None]
        most = 1e-6 if stage == "weights" else 1e-5
        np.testing.assert_allclose(seen, expected, atol=most, err_msg=stage)
    feeds = settings.model is not ModelKind.ATTENTION_ONLY
    assert ("feed_forward" in trace.names) == ("hidden" in trace.names) == feeds
    steps = {row.name: row.step for row in trace.stages}
    assert steps["residual"] is not None
    assert steps["result"] is not None


def test_heads_without_a_projection_add_their_context_to_a_logit(tmp_path: Path) -> None:
    settings = quick(
        source=CorpusSource(CorpusKind.WORLD, tokenizer=TokenizerKind.CHARACTERS),
        model=ModelKind.NOTES, block=12, width=8, heads=2, layers=2,
    )  # fmt: skip
    trained = saved(tmp_path / "weights.safetensors", settings)
    model = visualizer.open_model(tmp_path / "weights.safetensors")
    parts = model.logit_parts("that's a hat")
    numbers = model.opened.folder.lab_run.vocabulary.tokenize_and_encode("that's a hat")[1]  # type: ignore[union-attr]
    with torch.no_grad():
        logits, traces = trained.forward_with_traces(torch.from_numpy(numbers))
    assert parts.number == int(logits[-1].argmax())
    towards = trained.projection.weight[parts.number].detach().numpy()
    for layer, trace in enumerate(traces):
        by_head = (towards * trace.read("concat")[-1]).reshape(2, 4).sum(-1)
        np.testing.assert_allclose(parts.heads[layer], by_head, atol=1e-5)
    whole = parts.heads.sum() + parts.rest.sum() + parts.embedding + parts.bias
    assert whole == pytest.approx(float(logits[-1].max()), abs=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished training run of a transformer."""
    path = tmp_path_factory.mktemp("runs") / "poems"
    opened = begun(path, steps=6)
    finish(opened)
    opened.close()
    return path


@pytest.fixture(scope="module")
def example() -> OpenedModel:
    return open_model(EXAMPLE_FOLDER, Device.CPU)


def refusal(given: Any, *more: Any) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        given(*more)
    return caught.value.field, caught.value.sentence


def test_a_run_a_checkpoint_and_snapshots_can_be_opened(folder: Path) -> None:
    run = RunFolder(folder)
    whole = open_model(folder, Device.CPU)
    assert (whole.folder.name, whole.folder.kind) == ("poems", "transformer")
    checkpoint = open_model(run.checkpoint_file.path, Device.CPU)
    assert checkpoint.folder.name == "poems"
    last = run.snapshot_steps()[-1]
    snapshot = open_model(run.snapshot_file(last).path, Device.CPU)
    assert snapshot.folder.name == f"poems, step {last}"
    text = whole.folder.initial_text
    expected = whole.attend(text)[0].run.trace.read("weights")
    for other in (checkpoint, snapshot):
        np.testing.assert_array_equal(other.attend(text)[0].run.trace.read("weights"), expected)
    first = open_model(run.snapshot_file(0).path, Device.CPU)
    assert np.abs(first.attend(text)[0].run.trace.read("weights") - expected).max() > 1e-4
    fingerprints = {each.folder.fingerprint for each in (whole, snapshot, first)}
    assert len(fingerprints) == 3


def test_every_step_of_a_layer_is_recognized(folder: Path, example: OpenedModel) -> None:
    model = open_model(folder, Device.CPU, ModelDtype.FLOAT64)
    for each, feeds in ((model, True), (example, False)):
        text = each.folder.initial_text[:8]
        trace = each.attend(text)[0].run.trace
        assert "feed_forward" in trace.names if feeds else "attended" not in trace.names
        for name in trace.names:
            shape = trace.tensor(name).shape
            found = explain(trace, name, (1, *(size // 2 for size in shape[1:])))
            assert found.value == trace.read(name)[(1, *(size // 2 for size in shape[1:]))]
            assert found.groups or name == "masked", name


def test_all_analyses_work_with_a_lab_model(example: OpenedModel) -> None:
    model = visualizer.Model(example)
    assert repr(model) == "<Model: trained_example · attention-only · 38,682 parameters>"
    ((token, most), *_) = model.next_tokens(EXAMPLE_TEXT)
    assert (token, most > 0.99) == ("j", True)
    parts = model.logit_parts(EXAMPLE_TEXT)
    assert parts.sum_of_parts == pytest.approx(parts.logit, abs=1e-4)
    assert parts.heads.shape == (2, 2)
    assert np.abs(parts.rest).max() < abs(parts.heads).max() / 5  # only biases remain
    lens = model.logit_lens(EXAMPLE_TEXT)
    said, share = lens[-1][-1][0]
    assert said == token
    assert share == pytest.approx(most, abs=1e-4)
    made = model.generate(EXAMPLE_TEXT, 7)
    assert made.text == "journey"
    whole = model.attend(EXAMPLE_TEXT + "journe")["weights"]
    np.testing.assert_allclose(np.stack(made.weights), whole, atol=1e-5)
    # The head copies the letter that it finds; after patching, it is that of the other text.
    ((patched, _),) = model.patch(EXAMPLE_TEXT, "abcdefgabcdefg", [(1, 0)], most=1)
    assert patched == "a"


def test_copying_depends_on_the_induction_heads(example: OpenedModel) -> None:
    model = visualizer.Model(example)
    heads = {(row["layer"], row["head"]): row for row in model.attend(EXAMPLE_TEXT).heads()}
    assert heads[0, 1]["previous"] > 0.8
    assert min(heads[1, 0]["induction"], heads[1, 1]["induction"]) > 0.95
    changes = model.ablations(EXAMPLE_TEXT)
    assert changes[0, 1] < -2
    assert changes[1, 0] < -0.7
    assert dict(model.ablate(EXAMPLE_TEXT, [(1, 0), (1, 1)], most=26))["j"] < 0.2


def test_unknown_tokens_are_named(example: OpenedModel) -> None:
    said = refusal(example.attend, "Your journey")
    assert said == ("text", "“Y”, “␣” are not in the model’s vocabulary.")
    said = refusal(example.attend, "a" * 33)
    assert said == (
        "text",
        "The text has 33 tokens; trained_example supports at most 32. Use a shorter text.",
    )
    assert refusal(example.attend, " ")[1].startswith("The text is empty.")
    made = visualizer.Model(example).generate
    assert refusal(made, EXAMPLE_TEXT, 20)[0] == "tokens"


@pytest.mark.parametrize("kind", [ModelKind.BIGRAM, ModelKind.AVERAGE, ModelKind.DOT_PRODUCT])
def test_a_model_without_heads_is_rejected(tmp_path: Path, kind: ModelKind) -> None:
    saved(tmp_path / "simple.safetensors", quick(model=kind))
    field, sentence = refusal(open_model, tmp_path / "simple.safetensors")
    assert field == "model"
    assert sentence.startswith("simple is a “")
    assert sentence.endswith(
        "“Transformer”, “Transformer from the lecture notes” or “Attention only”."
    )


def test_a_run_without_weights_is_rejected(tmp_path: Path, folder: Path) -> None:
    shutil.copy(folder / "run.json", tmp_path)
    field, sentence = refusal(open_model, tmp_path)
    assert field == "model"
    assert sentence.endswith("has not saved any weights yet.")


DAMAGES: dict[str, tuple[dict[str, str], str]] = {
    "no JSON": ({"run": "{"}, "is damaged, or was not saved by the language lab."),
    "a list": ({"run": "[]"}, "is damaged: its run does not have the supported schema version 1."),
    "no run": ({"checkpoint": "{}"}, "is damaged, or was not saved by the language lab."),
    "other weights": ({}, "belongs to another model."),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_rejected(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "weights.safetensors"
    saved(path, quick())
    metadata, said = DAMAGES[damage]
    weights = load_file(path)
    if not metadata:
        header = read_metadata(path.read_bytes())
        metadata, weights = header, {**weights, "norm.weight": torch.ones(3)}
    save_file(weights, path, metadata)
    field, sentence = refusal(open_model, path)
    assert field == "model"
    assert sentence.endswith(said)


def test_repeated_tokens_are_rejected(tmp_path: Path) -> None:
    settings, path = quick(), tmp_path / "weights.safetensors"
    twice = RunMetadata(settings, ("a", "a"), 1.0, 1.0, "aa", "")
    write_weights(path, build_model(settings, 2), twice)
    assert "more than once" in refusal(open_model, path)[1]


def test_a_model_that_does_not_fit_in_memory_is_rejected(folder: Path, machine: Machine) -> None:
    machine.set_free_bytes(1000)
    field, sentence = refusal(open_model, folder, Device.CPU)
    assert (field, sentence[:16]) == ("model", "Reading this mod")


def test_a_padded_batch_has_the_same_logits_as_its_texts(example: OpenedModel) -> None:
    ids = torch.arange(6)[None]
    padded = torch.cat([ids, torch.zeros(1, 2, dtype=torch.long)], -1)
    mask = torch.tensor([[1] * 6 + [0] * 2])
    with torch.no_grad():
        alone = example.model(ids).logits
        beside = example.model(padded, attention_mask=mask).logits[:, :6]
        kept = example.model(ids, logits_to_keep=1).logits
    torch.testing.assert_close(beside, alone)
    torch.testing.assert_close(kept, alone[:, -1:])
