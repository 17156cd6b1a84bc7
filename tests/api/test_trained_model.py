"""A training run is loaded with its settings, losses and weights, and generates text."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.planted_links import tree
from tests.support.small_trainings import begun, finish, rows_of
from visualizer.api.loading import load
from visualizer.api.trained_model import TrainedModel
from visualizer.attention.modules import MultiHeadAttention
from visualizer.errors import InputError
from visualizer.generation.generation_tree import GenerationTree
from visualizer.language.loss_log import MISSING_VALUE
from visualizer.language.probe import ProbeText, run_probe
from visualizer.language.run_folder import RunFolder
from visualizer.language.sampling import SamplingSettings, sampling_probabilities
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_settings import CorpusKind, CorpusSource, ModelKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Machine

pytestmark = pytest.mark.slow  # trains a model

LAYER = ("W_query.weight", "W_key.weight", "W_value.weight", "out_proj.weight", "out_proj.bias")
POEM = "the cat sat on the mat . the dog sat on the log .\n" * 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run on the characters of a file that no longer exists."""
    parent = tmp_path_factory.mktemp("runs")
    text = parent / "poems.txt"
    text.write_text(POEM, encoding="utf-8")
    source = CorpusSource(CorpusKind.FILE, str(text))
    opened = begun(parent / "poems", source=source, steps=12)
    finish(opened)
    opened.close()
    text.unlink()
    return parent / "poems"


@pytest.fixture
def trained(folder: Path) -> TrainedModel:
    found = load(folder)
    assert isinstance(found, TrainedModel)
    return found


def test_a_run_has_its_settings_and_losses(folder: Path, trained: TrainedModel) -> None:
    metadata = RunFolder(folder).read_metadata()
    assert (trained.settings, trained.step) == (metadata.settings, 12)
    assert trained.vocabulary == tuple(sorted(set(POEM)))
    assert repr(trained) == "<TrainedModel: Transformer · step 12 · 15 tokens>"
    rows, losses = rows_of(folder), trained.losses
    training = [row.training for row in rows if row.training != MISSING_VALUE]
    validation = {row.step: row.validation for row in rows if row.validation != MISSING_VALUE}
    assert losses["training"].tolist() == training
    assert losses["steps"].tolist() == list(range(12))
    found = zip(losses["validation_steps"].tolist(), losses["validation"].tolist(), strict=True)
    assert dict(found) == validation


def test_a_run_is_read_without_a_trace(folder: Path) -> None:
    before, threads, state = tree(folder), torch.get_num_threads(), torch.get_rng_state()
    load(folder).generate("the ", 5)
    assert tree(folder) == before
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


# ------------------------------------------------------------------------------------ generation


def test_a_text_continues_from_the_prompt(trained: TrainedModel) -> None:
    text = trained.generate("the ", 30, seed=1)
    assert text.startswith("the ")
    assert len(text) == 34
    assert set(text) <= set(trained.vocabulary)
    assert trained.generate("the ", 30, seed=1) == text
    assert trained.generate("the ", 30, seed=2) != text
    assert len(trained.generate()) == 200
    assert trained.generate(tokens=1) == "t"
    likeliest = trained.generate("the ", 30, temperature=0)
    assert trained.generate("the ", 30, top_k=1) == likeliest
    assert trained.generate("the ", 30, top_p=1e-9) == likeliest


def test_it_is_the_text_that_the_lab_samples(trained: TrainedModel) -> None:
    vocabulary, model = trained.saved.metadata.vocabulary, trained.saved.model
    tree = GenerationTree(tuple("the cat"), seed=3)
    for _ in range(25):
        probe = ProbeText.from_text(vocabulary.join_tokens(tree.tokens), vocabulary, model)
        last = run_probe(model, probe)["logits"][-1]
        chosen = sampling_probabilities(last, SamplingSettings(0.8, 6, 0.9))
        tree = tree.append_sampled_token(chosen, trained.vocabulary, chosen)
    text = trained.generate("the cat", 25, seed=3, temperature=0.8, top_k=6, top_p=0.9)
    assert text == "".join(tree.tokens)


@pytest.mark.parametrize("kind", ModelKind)
def test_every_kind_of_model_generates(kind: ModelKind, tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", model=kind, steps=2)
    finish(opened)
    opened.close()
    trained = load(tmp_path / "run")
    assert len(trained.generate(tokens=25)) == 25
    assert len(trained.attention_states) == {ModelKind.BIGRAM: 0}.get(
        kind, 2 if trained.settings.has_configurable_layers else 1
    )


def test_words_are_written_with_spaces(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(POEM, encoding="utf-8")
    source = CorpusSource(CorpusKind.FILE, str(tmp_path / "a.txt"), tokenizer=TokenizerKind.WORDS)
    opened = begun(tmp_path / "run", source=source, steps=2)
    finish(opened)
    opened.close()
    words = load(tmp_path / "run").generate("the cat", 8).split(" ")
    assert words[:2] == ["the", "cat"]
    assert len(words) == 10


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"prompt": 7}, "prompt must be a text. It is 7."),
    ({"prompt": "ß"}, "prompt: “ß” is not in the model’s vocabulary."),
    ({"tokens": 0}, "tokens must be at least 1 and at most 1,000,000. It is 0."),
    ({"tokens": 10**7}, "tokens must be at least 1 and at most 1,000,000. It is 10,000,000."),
    ({"tokens": 2.0}, "tokens must be a whole number. It is 2.0."),
    ({"tokens": True}, "tokens must be a whole number. It is True."),
    ({"seed": -1}, "seed must be at least 0 and at most 2,147,483,647. It is -1."),
    ({"seed": "1"}, "seed must be a whole number. It is '1'."),
    ({"temperature": -1}, "The temperature must be at least 0 and at most 100. The default is 1."),
    (
        {"temperature": float("nan")},
        "The temperature must be at least 0 and at most 100. The default is 1.",
    ),
    ({"temperature": "hot"}, "temperature must be a number. It is 'hot'."),
    ({"top_k": 0}, "Top-k must be at least 1. Leave it empty to keep all tokens."),
    ({"top_k": True}, "top_k must be a whole number. It is True."),
    ({"top_p": 0}, "Top-p must be greater than 0 and at most 1. Use 1 to keep all tokens."),
    ({"top_p": [0.5]}, "top_p must be a number. It is [0.5]."),
    (
        {"top_k": 1, "seed": 3},
        "seed has no effect with top_k=1, which leaves only one token. Remove seed.",
    ),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED)
def test_impossible_generations_are_rejected(
    trained: TrainedModel, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        trained.generate(**arguments)
    assert refused.value.sentence == sentence
    assert refused.value.field in arguments


# --------------------------------------------------------------------------------------- weights


def test_the_weights_of_a_layer_are_those_of_the_books_module(trained: TrainedModel) -> None:
    states, settings = trained.attention_states, trained.settings
    assert [tuple(state) for state in states] == [LAYER] * settings.layers
    width, heads = settings.width, settings.heads
    module = MultiHeadAttention(width, width, settings.block, 0.0, heads)
    module.load_state_dict(states[1], strict=False)
    torchs = nn.MultiheadAttention(width, heads, batch_first=True)
    names = ("W_query.weight", "W_key.weight", "W_value.weight")
    torchs.load_state_dict({
        "in_proj_weight": torch.cat([states[1][name] for name in names]),
        "in_proj_bias": torch.zeros(3 * width),
        "out_proj.weight": states[1]["out_proj.weight"],
        "out_proj.bias": states[1]["out_proj.bias"],
    })  # fmt: skip
    vectors = torch.randn(1, 5, width)
    later = torch.triu(torch.ones(5, 5, dtype=torch.bool), diagonal=1)
    with torch.no_grad():
        expected = trained.saved.model.layers[1].attention(vectors)  # type: ignore[operator]
        output, _ = torchs(vectors, vectors, vectors, attn_mask=later)
        torch.testing.assert_close(module(vectors), expected)
        torch.testing.assert_close(output, expected)


def test_weights_that_are_changed_are_copies(trained: TrainedModel) -> None:
    before = trained.attention_states
    trained.attention_states[0]["W_query.weight"].zero_()
    assert torch.equal(trained.attention_states[0]["W_query.weight"], before[0]["W_query.weight"])
    assert before[0]["W_query.weight"].any()


def test_the_code_of_the_description_loads_the_same_weights(
    folder: Path, trained: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = TrainedModel.__doc__
    assert described
    found = re.search(r"::\n\n(.*?)\n\n    ``state``", described, re.DOTALL)
    assert found
    shutil.copytree(folder, folder.parent / "here" / "runs" / "poems", dirs_exist_ok=True)
    monkeypatch.chdir(folder.parent / "here")
    names: dict[str, Any] = {}
    exec(re.sub(r"^ {8}", "", found[1], flags=re.MULTILINE), names)  # runs the documented code
    assert tuple(names["state"]) == tuple(sorted(LAYER))
    for name, tensor in trained.attention_states[0].items():
        assert torch.equal(names["state"][name], tensor)


@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_a_trained_model_is_copied(trained: TrainedModel, way: Callable[[Any], Any]) -> None:
    again = way(trained)
    assert again.generate("the ", 20, seed=4) == trained.generate("the ", 20, seed=4)
    np.testing.assert_array_equal(again.losses["training"], trained.losses["training"])
    assert again.settings == trained.settings


# ------------------------------------------------------------------------------- unfinished runs


def test_a_run_in_between_is_read_at_its_checkpoint(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", steps=12)
    with pytest.raises(InputError, match="has no saved weights yet"):
        load(tmp_path / "run")
    finish(opened, 5)
    assert opened.running
    at_snapshot = load(tmp_path / "run")
    assert at_snapshot.step == opened.folder.snapshot_steps()[-1]
    opened.running.save_checkpoint()
    finish(opened, 8)
    opened.running.take_new_rows()  # the run that writes the losses
    trained = load(tmp_path / "run")
    opened.close()
    assert trained.step == 5
    assert trained.losses["steps"].tolist() == [0, 1, 2, 3, 4]


def test_a_model_without_room_is_rejected(folder: Path, machine: Machine) -> None:
    machine.set_free_bytes(1_000)
    with pytest.raises(InputError, match=r"Reading this model needs about 0\.0 GiB"):
        load(folder)


def test_folders_that_are_not_runs_are_rejected(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not contain a run"):
        load(tmp_path)
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"“checkpoint\.safetensors” is damaged"):
        load(tmp_path / "run")
    snapshot = next((folder / "snapshots").iterdir())
    shutil.copyfile(snapshot, tmp_path / "run" / "checkpoint.safetensors")
    with pytest.raises(InputError, match="is damaged or belongs to another model"):
        load(tmp_path / "run")
