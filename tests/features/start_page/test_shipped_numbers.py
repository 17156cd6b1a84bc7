"""The shipped values for the pictures of the start page are those that torch computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtWidgets import QWidget

from tests.support.start_page_files import pictures
from visualizer.features.start_page.examples import load_picture_data
from visualizer.features.start_page.widget import MAX_RECENT_FILES, StartPage
from visualizer.file_opening import (
    read_layer_of_trained_example,
    read_trained_example,
)
from visualizer.format import format_number
from visualizer.language.example_run import (
    ESSENTIAL_HEAD,
    EXAMPLE_FOLDER,
    EXAMPLE_TEXT,
    EXPECTED_CELL,
    HEAD,
    LAYER,
)
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_settings import TrainingSettings
from visualizer.session.document import default_document
from visualizer.session.worker_jobs import compute
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

GOLDEN = Path(__file__).parents[2] / "golden" / "chapter3.json"
MOST_BYTES = 3_000_000
ROUNDED = 2e-4


def test_the_shipped_values_match_computed_values() -> None:
    shown, computed = load_picture_data(), pictures()
    assert shown.book_tokens == tuple(computed["book"]["tokens"])
    np.testing.assert_allclose(shown.lesson, computed["lesson"]["weights"])
    assert shown.lesson_tokens[shown.lesson_query] == "journey"
    assert shown.steps == tuple(computed["training"]["steps"])
    np.testing.assert_allclose(shown.learned, computed["training"]["weights"], atol=ROUNDED)


def test_the_book_example_matches_section_3_6_1() -> None:
    printed = json.loads(GOLDEN.read_text(encoding="utf-8"))
    (section,) = [name for name in printed if name.startswith("3.6.1 ")]
    contexts = np.array(printed[section]["context, each item"])  # [query, column of both heads]
    opened = compute(default_document(), None)
    assert opened.texts == (tuple(printed["tokens"]),)
    np.testing.assert_allclose(opened.trace.read("concat"), contexts, atol=1e-4)
    shown = load_picture_data()
    assert shown.book_tokens == tuple(printed["tokens"])
    np.testing.assert_allclose(np.concatenate([*shown.book], axis=1), contexts, atol=1e-4)
    written = [format_number(each) for each in shown.book[:, 0].ravel()]
    assert written == ["−0.4519", "0.2216", "0.4772", "0.1063"]


def test_the_head_forms_during_training() -> None:
    shares = load_picture_data().mean_weights_on_next_letter
    assert shares[0] < 0.2
    assert shares[-1] > 0.95
    assert list(shares) == sorted(shares)


def test_the_trained_example_opens_as_a_layer_with_an_induction_head() -> None:
    saved = read_layer_of_trained_example()
    assert saved.document.text == EXAMPLE_TEXT
    assert saved.view.heads == frozenset({HEAD})
    assert saved.view.pinned is not None
    assert saved.view.pinned.place == (HEAD, *EXPECTED_CELL)
    weights = compute(saved.document, None).trace.read("weights")
    assert weights[HEAD][EXPECTED_CELL] > 0.95
    np.testing.assert_allclose(weights[HEAD], load_picture_data().learned[-1], atol=ROUNDED)
    query, key = EXPECTED_CELL
    assert EXAMPLE_TEXT[key - 1] == EXAMPLE_TEXT[query]
    assert LAYER == 1


@pytest.mark.filterwarnings("ignore")  # transformers warns of such small models
def test_the_trained_example_as_a_model_matches_the_layer() -> None:
    saved = read_trained_example()
    assert saved.document.model is not None
    layer, head = ESSENTIAL_HEAD
    assert (saved.document.text, saved.view.layer, saved.view.heads) == (
        EXAMPLE_TEXT,
        layer,
        frozenset({head}),
    )
    weights = compute(saved.document, None).trace.read("weights")
    of_layer = compute(read_layer_of_trained_example().document, None).trace.read("weights")
    np.testing.assert_allclose(weights[LAYER], of_layer, atol=1e-6)
    assert weights[(*ESSENTIAL_HEAD, *EXPECTED_CELL)] > 0.95


def test_without_transformers_the_example_opens_as_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visualizer.models.lab_model_files.can_open_models", lambda: False)
    saved = read_trained_example()
    assert saved.document.model is None
    assert saved.document.has_module


def test_the_example_run_is_small_and_uses_lab_settings() -> None:
    metadata = RunFolder(EXAMPLE_FOLDER).read_metadata()
    usual = TrainingSettings()
    assert (metadata.settings.source, metadata.settings.seed) == (usual.source, usual.seed)
    files = [path for path in EXAMPLE_FOLDER.parent.rglob("*") if path.is_file()]
    assert 0 < sum(path.stat().st_size for path in files) < MOST_BYTES


def test_the_number_of_recent_documents_is_limited(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    page, paths = StartPage(window), [Path(f"{number}.attention") for number in range(10)]
    page.show_page(paths, LIGHT, is_shown_at_start=True)
    assert [each.accessibleName() for each in page.recent] == [
        path.name for path in paths[:MAX_RECENT_FILES]
    ]
