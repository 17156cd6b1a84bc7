"""The provenance of weights is one phrase, which is shown everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

import visualizer
from tests.support.screens import present, resolved
from tests.support.small_runs import a_run, elsewhere
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.spec import (
    AttentionSpec,
    Device,
    NormalisationKind,
    NumberMatrix,
    Projection,
)
from visualizer.documents.document_file import DOCUMENT_SUFFIX, document_bytes
from visualizer.documents.open_document import open_document
from visualizer.file_opening import (
    open_as_document,
    read_layer_of_trained_example,
    restore_document,
)
from visualizer.language import example_run
from visualizer.language.checkpoints import write_weights
from visualizer.language.language_models import build_model
from visualizer.language.run_folder import RunFolder
from visualizer.models.opened_model import open_model
from visualizer.session.document import Document
from visualizer.session.provenance import (
    describe_lab_provenance,
    describe_provenance,
    describe_view_provenance,
    has_random_weights,
)
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document
from visualizer.shell.screen_presenter import STATUS_PANEL

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

UNTRAINED = "untrained: random weights, seed 123"
BARE: dict[str, Any] = {"projection": Projection.NONE, "output_projection": False, "heads": 1}
ONES = NumberMatrix.from_array(np.ones((3, 2)))
NAMES = ("W_query", "W_key", "W_value")


def given(*names: str) -> dict[str, Any]:
    return {"own_weights": tuple((name, ONES) for name in names), "output_projection": False}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, UNTRAINED),
        ({"seed": 7}, "untrained: random weights, seed 7"),
        (given(*NAMES), "custom weights"),
        (given("W_query"), "partly untrained: W_k, W_v random, seed 123"),
        (BARE, "no weights: vectors of Raschka (2024)"),
        (BARE | {"d_in": 4}, "no weights: random vectors, seed 123"),
        (
            BARE | {"own_input": NumberMatrix.from_array(np.ones((6, 3)))},
            "no weights: custom vectors",
        ),
        (BARE | {"normalisation": NormalisationKind.UNIFORM}, "no weights: uniform average"),
    ],
)
def test_the_provenance_of_module_weights_is_described(fields: dict[str, Any], said: str) -> None:
    assert describe_provenance(a_run(**fields)).startswith(said)


def test_vectors_of_an_untrained_attention_layer_come_from_the_training() -> None:
    vectors = NumberMatrix.from_array(np.ones((6, 3)))
    document = Document(spec=AttentionSpec(**BARE, own_input=vectors))
    trained = replace(document, weights_source=describe_lab_provenance(1500, "poems"))
    assert (
        describe_provenance(run_document(trained, None))
        == "no weights: vectors trained, step 1,500 (poems)"
    )
    edited = trained.with_setting("own_input", NumberMatrix.from_array(np.zeros((6, 3))))
    assert describe_provenance(run_document(edited, None)) == "no weights: custom vectors"


def test_words_without_book_vectors_get_random_vectors() -> None:
    assert "random vectors" in describe_provenance(a_run("the cat", **BARE))


def test_captured_attention_names_its_file_and_the_shown_layer() -> None:
    run = create_captured_run(elsewhere())
    assert describe_provenance(run) == "from attn.npz"
    assert describe_view_provenance(resolved(run, View(layer=1))) == "from attn.npz, layer 2"


@pytest.mark.filterwarnings("ignore")
def test_a_model_is_named_with_the_layer(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "tiny")
    saved, _ = open_as_document(folder, Document(text="the cat sat"))
    shown = resolved(run_document(saved.document, None), View(layer=1), saved.document)
    assert describe_view_provenance(shown) == "tiny, layer 2"


# ------------------------------------------------------------------- the language lab


def test_a_lab_layer_keeps_its_step_when_saved_and_opened(tmp_path: Path) -> None:
    saved = read_layer_of_trained_example()
    run = run_document(saved.document, None)
    assert describe_provenance(run) == "trained, step 1,500 (layer 2)"
    (tmp_path / f"a{DOCUMENT_SUFFIX}").write_bytes(document_bytes(saved.document, saved.view, run))
    opened = open_document(tmp_path / f"a{DOCUMENT_SUFFIX}")
    again, _ = restore_document(opened, run_document)
    assert describe_provenance(again) == describe_provenance(run)


def test_edited_weights_are_no_longer_described_as_trained() -> None:
    document = read_layer_of_trained_example().document
    (name, matrix), *others = document.spec.own_weights
    edited = document.with_setting(
        "own_weights", ((name, NumberMatrix.from_array(matrix.to_array() * 2)), *others)
    )
    assert describe_provenance(run_document(edited, None)) == "custom weights"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (0, "untrained: random weights, step 0 (poems, layer 1)"),
        (1500, "trained, step 1,500 (poems, layer 1)"),
        (None, "trained (poems, layer 1)"),
    ],
)
def test_a_lab_model_at_step_0_is_untrained(step: int | None, said: str) -> None:
    assert describe_lab_provenance(step, "poems", "layer 1") == said


@pytest.mark.filterwarnings("ignore")
def test_a_lab_model_states_the_step_of_its_snapshot(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    metadata = RunFolder(example_run.EXAMPLE_FOLDER).read_metadata()
    (tmp_path / "run" / "snapshots").mkdir(parents=True)
    beginning = tmp_path / "run" / "snapshots" / "00000000.safetensors"
    write_weights(beginning, build_model(metadata.settings, len(metadata.tokens)), metadata)
    for path, said, is_random in (
        (example_run.EXAMPLE_FOLDER, "trained, step 1,500 (trained_example)", False),
        (beginning, "untrained: random weights, step 0 (run)", True),
    ):
        opened = open_model(path, Device.CPU)
        assert opened.folder.training_step in (0, 1500)
        saved, _ = open_as_document(path, Document(text=example_run.EXAMPLE_TEXT))
        run = run_document(saved.document, None)
        assert describe_provenance(run) == said
        assert has_random_weights(run) is is_random


# --------------------------------------------------------------------- windows and exports


def shown(run: Run) -> str:
    return present(Document(), View(), run, None, False, None).panel(STATUS_PANEL).provenance


def test_the_window_shows_the_provenance_and_a_changed_seed() -> None:
    assert shown(a_run()) == UNTRAINED
    assert shown(a_run(seed=5)).endswith("seed 5")


def test_weights_of_a_file_are_named_after_it(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {f"{name}.weight": np.ones((2, 3), np.float32) for name in NAMES}
    np.savez(tmp_path / "mine.npz", **arrays)
    saved, _ = open_as_document(tmp_path / "mine.npz", Document())
    assert describe_provenance(run_document(saved.document, None)).startswith(
        "weights from mine.npz"
    )


@pytest.mark.parametrize("suffix", [".json", ".md", ".html", ".svg"])
def test_exported_files_contain_the_provenance(suffix: str, tmp_path: Path) -> None:
    attention = visualizer.attend("the cat sat", seed=42)
    attention.save(tmp_path / f"a{suffix}")
    content = (tmp_path / f"a{suffix}").read_text(encoding="utf-8")
    if suffix == ".json":
        content = json.loads(content)["caption"]
    assert "untrained: random weights, seed 42" in content


def test_a_saved_source_is_part_of_the_document() -> None:
    document = replace(Document(spec=AttentionSpec(**given(*NAMES))), weights_source="from a paper")
    assert describe_provenance(run_document(document, None)) == "from a paper"
    assert (
        describe_provenance(run_document(document.with_setting("seed", 4), None)) == "from a paper"
    )
