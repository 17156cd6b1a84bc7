"""The result of `generate` has figures, files and a display in notebooks."""

from __future__ import annotations

import html
import pickle
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import visualizer
from tests.support.tiny_models import save_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.api.generated_text import GeneratedText

pytestmark = [
    pytest.mark.usefixtures("application", "one_thread"),
    pytest.mark.filterwarnings("ignore"),  # libraries warn about small models
]
TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> GeneratedText:
    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    return visualizer.open_model(folder).generate(TEXT, 5)


def test_the_attention_is_that_of_all_processed_tokens(made: GeneratedText) -> None:
    assert made.attention.tokens == made.tokens[:-1]
    np.testing.assert_array_equal(made.attention["weights"], np.stack(made.weights))
    assert [row["layer"] for row in made.heads()] == [0] * 4 + [1] * 4


def test_a_notebook_shows_the_tokens_with_their_probabilities(made: GeneratedText) -> None:
    found = made._repr_mimebundle_()
    assert found["text/plain"] == repr(made)
    assert found.keys() == {"text/plain", "text/html", "image/png"}
    text, frame = found["text/html"].split("<iframe", 1)
    assert made.interactive().html in html.unescape(frame)
    shown = re.findall(r'<span title="([^"]+)"[^>]*>([^<]*)</span>', text)
    assert [html.unescape(token) for _, token in shown] == [*made.tokens[made.start :]]
    percentages = [float(share.removesuffix("%")) / 100 for share, _ in shown]
    np.testing.assert_allclose(percentages, made.probabilities, atol=0.006)
    assert html.unescape(re.sub("<[^>]*>", "", text)) == "".join(made.tokens)


def test_figures_and_files(made: GeneratedText, tmp_path: Path) -> None:
    made.save(tmp_path / "made.npz", tmp_path / "made.png", layer=1)
    opened = visualizer.load(tmp_path / "made.npz")
    np.testing.assert_array_equal(opened["weights"], np.stack(made.weights))
    assert made.figure(layer=1).array().shape == made.figure().array().shape
    assert repr(pickle.loads(pickle.dumps(made))) == repr(made)


def test_layers_without_attention_have_no_number(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "mixed", "qwen3_next")
    found = visualizer.open_model(folder).generate(TEXT, 2)
    assert found.layers == found.attention.layers == (1,)
