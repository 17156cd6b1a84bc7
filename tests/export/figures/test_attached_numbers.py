"""A figure of a model embeds the values that it shows, and all layers only on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import visualizer
from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer import InputError
from visualizer.documents.document_file import read_document
from visualizer.documents.embedded_document import find_embedded_document
from visualizer.export.figures import document_attachment

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer import ModelAttention

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT = " ".join((WORDS * 2)[:14])
SIZES = {
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
    "hidden_size": 72, "intermediate_size": 32,
}  # fmt: skip


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> ModelAttention:
    folder = tmp_path_factory.mktemp("models") / "wide"
    return visualizer.open_model(save_tiny_model(folder, "llama", **SIZES)).attend(TEXT)


def attached(path: Path) -> bytes:
    found = find_embedded_document(path.read_bytes())
    assert found is not None
    return found


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".html"])
def test_figure_of_one_head_is_small_and_opens_again(
    seen: ModelAttention, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"head{suffix}"
    seen.figure("weights", 4, layer=7).save(path)
    assert path.stat().st_size < 350_000
    again = visualizer.load(path)
    np.testing.assert_array_equal(again["weights"], seen["weights"][7])
    assert again.tokens == seen.tokens
    assert "layer 8 of" in repr(again)


def test_figure_opened_again_has_the_same_numbers_and_colours(
    seen: ModelAttention, tmp_path: Path
) -> None:
    stages = ("scores", "weights", "context")
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    seen.figure(stages, [0, 3], layer=2, caption=False).save(first)
    again = visualizer.load(first)
    again.figure(stages, [0, 3], caption=False).save(second)
    np.testing.assert_array_equal(pixels(first), pixels(second))
    for stage in stages:
        np.testing.assert_allclose(again[stage], seen[stage][2], atol=1e-6)
    assert again.explain("weights", head=3, query=5, key=2).value == pytest.approx(
        float(seen["weights"][2, 3, 5, 2])
    )


def test_image_of_weights_opened_again_is_the_same(seen: ModelAttention, tmp_path: Path) -> None:
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    seen.figure("weights", [0, 3], layer=2, caption=False).save(first)
    again = visualizer.load(first)
    again.figure("weights", [0, 3], caption=False).save(second)
    np.testing.assert_array_equal(pixels(first), pixels(second))


def pixels(path: Path) -> np.ndarray:
    from PySide6.QtGui import QImage

    image = QImage(str(path)).convertToFormat(QImage.Format.Format_RGB32)
    return np.array(image.constBits()).reshape(image.height(), -1)


def test_all_layers_are_attached_when_requested(seen: ModelAttention, tmp_path: Path) -> None:
    part, whole = tmp_path / "part.png", tmp_path / "whole.png"
    seen.figure("weights", 4, layer=7).save(part)
    seen.figure("weights", 4, layer=7, all_layers=True).save(whole)
    again = visualizer.load(whole)
    np.testing.assert_array_equal(again["weights"], seen["weights"])
    assert len(attached(whole)) > 30 * len(attached(part)) / 2
    added = document_attachment.max_embedded_layer_bytes(seen.attention(0).run)
    assert added / 4 < whole.stat().st_size - part.stat().st_size <= added


def test_all_layers_that_are_too_large_or_the_only_one_are_rejected(
    seen: ModelAttention, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_attachment, "MAX_ATTACHED_BYTES", 2**16)
    figure = seen.figure("weights", 4, layer=7, all_layers=True)
    with pytest.raises(InputError, match="a figure can embed"):
        figure.save(tmp_path / "large.png")
    seen.figure("weights", 4, layer=7).save(tmp_path / "small.png")
    with pytest.raises(InputError, match="with a single layer"):
        visualizer.attend("a b c").figure(all_layers=True)


def test_document_of_a_model_has_the_layer_shown(seen: ModelAttention, tmp_path: Path) -> None:
    path = tmp_path / "layer.attention"
    seen.figure(layer=3).save(path)  # a separate document contains all layers
    with path.open("rb") as file:
        captured = read_document(file).document.captured
    assert captured
    assert captured.layers == 30
