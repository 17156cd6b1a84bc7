"""Tests the run of a model on a text: its values, next tokens and ablated heads."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from tests.support.examples import others_slow
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.spec import AttentionSpec, Device
from visualizer.errors import InputError
from visualizer.format import format_percentage
from visualizer.language.example_run import EXAMPLE_FOLDER
from visualizer.language.example_run import EXAMPLE_TEXT as LAB_TEXT
from visualizer.models import model_text_runs
from visualizer.models.model_source import HeadEdit
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.models.opened_model import OpenedModel, open_model
from visualizer.models.tokenizer_process import tokenizer_process
from visualizer.session import worker_jobs
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.document import Document
from visualizer.session.worker_jobs import release_idle_memory, run_document

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.model_forward_pass import NextTokenCandidate
    from visualizer.models.model_source import ModelSource

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
EXAMPLE_TEXT = "the cat sat on the mat the cat"


@pytest.fixture
def source(tiny_model_folder: Path) -> ModelSource:
    return open_model_folder(tiny_model_folder, Device.CPU)[0]


def test_the_run_equals_that_of_the_model(source: ModelSource) -> None:
    run = read_text(source, EXAMPLE_TEXT, Device.CPU)
    expected = open_model(source.path, Device.CPU).attend(EXAMPLE_TEXT)[0].run
    for stage in expected.trace.names:
        np.testing.assert_array_equal(run.trace.read(stage), expected.trace.read(stage))
    assert run.reading
    assert run.reading.layers == (0, 1)
    assert run.reading.are_heads_switchable
    assert run.notices == ()


def test_next_tokens_are_those_of_the_plain_model(source: ModelSource) -> None:
    run = read_text(source, EXAMPLE_TEXT, Device.CPU)
    opened = open_model(source.path, Device.CPU)
    with torch.no_grad():
        coded = tokenizer_of(opened)(EXAMPLE_TEXT, return_tensors="pt")
        wanted = opened.model(**coded).logits[0, -1].double().softmax(-1)
    assert run.reading
    rows = run.reading.next_tokens
    best = wanted.topk(len(rows))
    assert [row.token for row in rows] == [opened.token_text(int(at)) for at in best.indices]
    np.testing.assert_allclose([row.probability for row in rows], best.values, rtol=1e-6)
    assert all(row.probability == row.probability_of_all_heads for row in rows)


def _probability_change(token: NextTokenCandidate) -> float:
    return abs(token.probability - token.probability_of_all_heads)


def test_ablated_heads_change_only_later_layers_and_predictions(source: ModelSource) -> None:
    plain = read_text(source, EXAMPLE_TEXT, Device.CPU)
    off = read_text(replace(source, edits=(HeadEdit(0, 1),)), EXAMPLE_TEXT, Device.CPU)
    opened = open_model(source.path, Device.CPU)
    logs = opened.next_token_log_probabilities(EXAMPLE_TEXT, {(0, 1): 0.0}).exp()
    before = opened.next_token_log_probabilities(EXAMPLE_TEXT).exp()
    assert off.reading
    assert off.reading.edits == {(0, 1): "off"}
    assert off.notices[0].startswith("Edited: layer 1, head 2: off. The attention weights")
    largest = max(off.reading.largest_changes, key=_probability_change)
    assert format_percentage(largest.probability_of_all_heads) in off.notices[0]
    assert off.notices[0].endswith(f" to {format_percentage(largest.probability)}.")
    assert describe_value_origin(off).endswith(" · layer 1, head 2: off")
    for row in off.reading.next_tokens:
        at = next(at for at in range(len(logs)) if opened.token_text(at) == row.token)
        assert row.probability == pytest.approx(float(logs[at]))
        assert row.probability_of_all_heads == pytest.approx(float(before[at]))
    first, second = (np.abs(plain.trace.read("weights", (at,)) - off.trace.read("weights", (at,)))
                     for at in (0, 1))  # fmt: skip
    assert first.max() == 0
    assert second.max() > 0


def test_an_unchanged_text_is_not_computed_again(source: ModelSource) -> None:
    run = read_text(source, EXAMPLE_TEXT, Device.CPU)
    assert read_text(source, EXAMPLE_TEXT, Device.CPU, run) is run
    assert read_text(source, EXAMPLE_TEXT + " sat", Device.CPU, run) is not run


@pytest.mark.slow
def test_a_model_stays_open_while_a_run_refers_to_it(source: ModelSource) -> None:
    run = read_text(source, EXAMPLE_TEXT, Device.CPU)
    assert run.reading
    model = run.reading.model
    other = read_text(source, "a mat", Device.CPU)
    assert other.reading
    assert other.reading.model is model
    assert isinstance(model, OpenedModel)
    there = weakref.ref(model)
    del model, run, other
    gc.collect()
    assert there() is None


def test_a_model_stays_open_while_it_is_referenced(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def count(path: Path, *more: Any, **named: Any) -> OpenedModel:
        opened.append(path)
        return open_model(path, *more, **named)

    monkeypatch.setattr(model_text_runs, "open_model", count)
    source, model = open_model_folder(tiny_model_folder, Device.CPU)
    other, _other_model = open_model_folder(EXAMPLE_FOLDER, Device.CPU)  # opened in another window
    read_text(other, LAB_TEXT, Device.CPU)
    run_document(Document(text="a b"), None)
    run = read_text(source, EXAMPLE_TEXT, Device.CPU)
    assert run.reading
    assert run.reading.model is model
    assert opened == [tiny_model_folder, EXAMPLE_FOLDER]
    there = weakref.ref(model)
    del model, run
    gc.collect()
    assert there() is None


def test_different_layers_are_omitted_with_a_notice(tmp_path: Path) -> None:
    settings = {"num_hidden_layers": 3, "scale_attn_by_inverse_layer_idx": True}
    mixed = save_tiny_model(tmp_path / "mixed", "gpt2", **settings)
    run = read_text(open_model_folder(mixed, Device.CPU)[0], EXAMPLE_TEXT, Device.CPU)
    assert run.reading
    assert run.reading.layers == (0,)
    (said,) = run.notices[:1]
    assert said == (
        "Shown: transformer.h.*.attn, layer 1. Use the command line or a notebook to show 2 other "
        "layers."
    )


def test_layers_with_different_masks_are_one_run(tmp_path: Path) -> None:
    mixed = save_tiny_model(tmp_path / "mixed", "gemma2", num_hidden_layers=3, sliding_window=2)
    run = read_text(open_model_folder(mixed, Device.CPU)[0], EXAMPLE_TEXT, Device.CPU)
    assert run.reading
    assert run.reading.layers == (0, 1, 2)
    weights = run.trace.read("weights")  # layer head query key
    for layer in range(3):
        allowed = run.trace.allowed_mask("weights", (layer,))
        np.testing.assert_array_equal(allowed, (weights[layer] > 0).all(0))
        assert allowed.sum(-1).max() == (2 if layer % 2 == 0 else len(allowed))


def test_changed_files_in_the_folder_are_reported(source: ModelSource) -> None:
    run = read_text(replace(source, fingerprint="0" * 64), EXAMPLE_TEXT, Device.CPU)
    said = "The files of tiny have changed since the document was saved."
    assert said.replace("tiny", source.name) in run.notices


def test_invalid_inputs_are_rejected(source: ModelSource, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="text is empty") as refused:
        read_text(source, " ", Device.CPU)
    assert refused.value.field == "text"
    gone = replace(source, folder=str(tmp_path / "gone"))
    with pytest.raises(InputError, match=r"Folder not found: “.*gone”") as refused:
        read_text(gone, EXAMPLE_TEXT, Device.CPU)
    assert refused.value.field == "model"
    with pytest.raises(InputError, match="Head 9 of layer 0 does not exist"):
        read_text(replace(source, edits=(HeadEdit(0, 9),)), EXAMPLE_TEXT, Device.CPU)


def test_an_encoder_states_that_it_predicts_no_token(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "encoder", "bert")
    run = read_text(open_model_folder(folder, Device.CPU)[0], EXAMPLE_TEXT, Device.CPU)
    assert run.reading
    assert run.reading.next_tokens == ()
    assert "does not generate text" in run.reading.no_next_token


@pytest.mark.parametrize(
    ("kind", "settings", "layer"),
    [
        ("bart", {"num_hidden_layers": 3, "encoder_layers": 3}, 2),  # a layer of only the encoder
        *others_slow([("bart", {}, 0), ("t5", {}, 0)], first=0),
    ],
)
def test_heads_of_layers_that_attend_twice_cannot_be_edited(
    tmp_path: Path, kind: str, settings: dict[str, int], layer: int
) -> None:
    source, _model = open_model_folder(
        save_tiny_model(tmp_path / kind, kind, **settings), Device.CPU
    )
    run = read_text(source, EXAMPLE_TEXT, Device.CPU)
    assert run.reading
    assert not run.reading.are_heads_switchable
    with pytest.raises(InputError, match="cannot be edited"):
        read_text(replace(source, edits=(HeadEdit(layer, 1),)), EXAMPLE_TEXT, Device.CPU)


def test_only_values_of_its_own_text_are_saved_in_a_document(source: ModelSource) -> None:
    run = read_text(source, EXAMPLE_TEXT, Device.CPU)
    document = Document(text=EXAMPLE_TEXT, spec=AttentionSpec(device=Device.CPU), model=source)
    whole = document.with_results(run)
    assert whole.captured
    assert whole.captured.query_tokens == run.texts[0]
    assert whole.model == replace(source, layers=(0, 1))
    later = document.with_setting("text", "")
    assert later.with_results(run) == later


def test_idle_memory_is_returned_and_closed_models_are_released_once(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trims: list[int] = []
    forgotten: list[int] = []
    monkeypatch.setattr(worker_jobs, "trim_freed_memory", lambda: trims.append(1))
    monkeypatch.setattr(tokenizer_process, "release_closed_tokenizers", lambda: forgotten.append(1))
    monkeypatch.setattr(model_text_runs, "opened_models", WeakValueDictionary())
    _source, model = open_model_folder(tiny_model_folder, Device.CPU)
    release_idle_memory()
    assert forgotten == []
    del model
    gc.collect()
    for _ in range(2):
        release_idle_memory()
        assert forgotten == [1]
    assert trims == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "part"), [("bert", ""), ("t5", "decoder"), ("bart", "decoder")])
def test_a_second_text_is_processed_with_the_first(tmp_path: Path, kind: str, part: str) -> None:
    source, _model = open_model_folder(save_tiny_model(tmp_path / kind, kind), Device.CPU)
    run = read_text(replace(source, second="a dog ran"), EXAMPLE_TEXT, Device.CPU)
    runs = open_model(source.path, Device.CPU).attend(EXAMPLE_TEXT, "a dog ran")
    expected = next(
        each.run
        for each in runs
        if not each.group.is_cross and (not part or part in each.group.name.split("."))
    )
    assert run.texts == expected.texts
    assert run.texts[0][-3:] == ("a", "dog", "ran")
    np.testing.assert_array_equal(run.trace.read("weights"), expected.trace.read("weights"))
    alone = read_text(source, EXAMPLE_TEXT, Device.CPU)
    assert alone.texts[0][1:] == tuple(EXAMPLE_TEXT.split())
    assert run.reading
    assert run.reading.special
