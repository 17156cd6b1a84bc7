"""A notebook displays the attention of a model as an interactive page."""

from __future__ import annotations

import base64
import html
import pickle
import re
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.export.figures.test_notebook_page import description, unpacked
from tests.support.tiny_models import save_tiny_model, tiny_model
from visualizer import InputError, ModelAttention
from visualizer.api import head_views
from visualizer.heatmap.colour_mapping import colour_table
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.usefixtures("application", "one_thread"),
    pytest.mark.filterwarnings("ignore"),  # libraries warn about small models
]
TEXT = "the cat sat on the mat the cat sat"
MIME_TYPES = {"text/plain", "text/html", "image/png"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def seen(folder: Path) -> ModelAttention:
    return visualizer.open_model(folder).attend(TEXT)


def causal_weights(layers: int, heads: int, tokens: int) -> np.ndarray:
    """Return weights with an entropy like that of a small model."""
    scores = 3 * np.random.default_rng(0).normal(size=(layers, heads, tokens, tokens))
    scores[..., 0] += 5
    numbers = np.exp(scores) * np.tri(tokens)
    return np.asarray(numbers / numbers.sum(-1, keepdims=True), dtype=np.float32)


def test_the_page_has_the_weights_of_transformers(seen: ModelAttention, folder: Path) -> None:
    import transformers  # imported here, because some tests do not need it

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    plain = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        found = plain(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True).attentions
    page = seen.interactive().html
    np.testing.assert_allclose(unpacked(page), torch.cat(found).numpy(), atol=1e-5)
    described = description(page)
    assert (described["title"], described["queries"]) == ("tiny", [*seen.tokens])
    assert described["sizes"] == "2 layers · 4 heads · 10 tokens"


def test_a_cell_shows_the_page_and_an_image_for_viewers_without_scripts(
    seen: ModelAttention,
) -> None:
    found = seen._repr_mimebundle_()
    assert found.keys() == MIME_TYPES
    assert found["text/plain"] == repr(seen)
    assert base64.b64decode(found["image/png"]) == seen.overview().png
    framed = re.fullmatch(r'<iframe sandbox="allow-scripts".* srcdoc="([^"]*)">(.*)</iframe>',
                          found["text/html"], re.DOTALL)  # fmt: skip
    assert framed
    assert html.unescape(framed[1]) == seen.interactive().html
    # JupyterLab shows this instead of the frame until the notebook is trusted.
    assert re.fullmatch("<p>.*Trust Notebook.*</p><img .*>", framed[2])
    assert found["image/png"] in framed[2]


def test_selected_layers_are_shown(folder: Path) -> None:
    part = visualizer.open_model(folder).attend(TEXT, layers=[1])
    both = visualizer.open_model(folder).attend(TEXT)
    for found, index in ((part.interactive(), 0), (both.interactive(1), 1)):
        (layer,) = description(found.html)["layers"]
        assert (layer["number"], layer["index"]) == (1, index)
        np.testing.assert_array_equal(unpacked(found.html)[0], part["weights"][0])
    for wrong in ([2], 2, -1):
        with pytest.raises(InputError, match="does not exist"):
            both.interactive(wrong)
    given: list[Any] = ["all", [], [0.5], True]
    for other in given:
        with pytest.raises(InputError, match="layer"):
            both.interactive(other)


def test_the_view_has_the_colours_of_its_map(seen: ModelAttention) -> None:
    for options, name in (({}, "plum"), ({"colour_map": "magma"}, "magma")):
        tables = description(seen.interactive(**options).html)["tables"]  # type: ignore[arg-type]
        for theme in (LIGHT, DARK):
            words = colour_table(name, theme) & 0xFFFFFF
            assert tables[theme.name][0] == "".join(f"{word:06x}" for word in words.tolist())
    with pytest.raises(InputError, match=r"“CET-D6” is not for weights\. Use plum, viridis"):
        seen.interactive(colour_map="CET-D6")
    with pytest.raises(InputError, match="colour_map must be one of plum"):
        seen.interactive(colour_map="red")


def test_a_view_can_be_saved_and_copied(seen: ModelAttention, tmp_path: Path) -> None:
    view = seen.interactive()
    view.save(tmp_path / "heads.html")
    assert (tmp_path / "heads.html").read_text("utf-8") == view.html
    assert pickle.loads(pickle.dumps(view)).html == view.html
    assert repr(view).startswith("<InteractiveView: page of ")
    assert len(repr(view)) < 200
    with pytest.raises(InputError, match=r"ends in \.html"):
        view.save(tmp_path / "heads.png")


def test_what_cannot_be_shown_is_still_described(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tiny_model("bart")
    with visualizer.capture(pair) as seen, torch.no_grad():
        assert seen._repr_mimebundle_() == {"text/plain": "<ModelAttention: not run yet>"}
        pair(input_ids=torch.arange(3, 20)[None], decoder_input_ids=torch.arange(3, 9)[None])
    assert seen._repr_mimebundle_() == {"text/plain": repr(seen)}
    with pytest.raises(InputError, match="several kinds of attention"):
        seen.interactive()
    for part in seen.parts:
        assert seen.part(part)._repr_mimebundle_().keys() == MIME_TYPES
    one = visualizer.from_arrays(causal_weights(1, 2, 6))
    assert one._repr_mimebundle_().keys() == MIME_TYPES
    scores = visualizer.from_arrays(-causal_weights(1, 2, 6))
    assert scores._repr_mimebundle_().keys() == {"text/plain"}
    monkeypatch.setattr(head_views, "MAX_DISPLAYED_CELLS", 71)
    assert one._repr_mimebundle_() == {
        "text/plain": f"{one!r}\nThe text is long. To display it, call interactive()."
    }
    assert one.interactive().html


def test_a_module_has_the_same_views() -> None:
    module = visualizer.attend("a b c a b", heads=2, embedding_size=4, output_size=4)
    assert module._repr_mimebundle_().keys() == MIME_TYPES
    page = module.interactive(layout="heads").html
    described = description(page)
    np.testing.assert_array_equal(unpacked(page)[0], module["weights"])
    assert (described["title"], described["hasLayers"]) == ("Multi-head attention", False)
    again = visualizer.from_arrays(module["weights"], module.tokens)
    rows, others = module.heads(), again.heads()
    assert [row["previous"] for row in rows] == pytest.approx([row["previous"] for row in others])
    assert [row["induction"] for row in rows] == pytest.approx([row["induction"] for row in others])
    batch = visualizer.attend(["a b", "c d e"])
    assert batch._repr_mimebundle_() == {"text/plain": repr(batch)}
    for method in (batch.overview, batch.interactive):
        with pytest.raises(InputError, match=r"a batch of 2 texts\. Attend to one text at a time"):
            method()


def test_a_module_shows_the_computation_of_each_head() -> None:
    module = visualizer.attend("a b c", heads=3, embedding_size=6, output_size=6)
    found = description(module.interactive(colour_map="magma").html)
    assert [board["head"] for board in found["boards"]] == [0, 1, 2]
    for board in found["boards"]:
        stages = {panel["stage"] for column in board["columns"] for panel in column}
        assert stages >= {"input", "queries", "keys", "values", "weights", "context", "output"}
    assert "magma" in found["tables"][LIGHT.name]
    assert module.interactive(0).html == module.interactive().html


def test_a_model_shows_the_computation_of_each_head_of_a_layer(seen: ModelAttention) -> None:
    found = description(seen.interactive(1, layout="flow").html)
    assert [board["head"] for board in found["boards"]] == [0, 1, 2, 3]
    assert found["title"] == "tiny, layer 2"
    assert found == description(seen.interactive([1], layout="flow").html)
    first = description(seen.interactive(layout="flow").html)
    assert first["title"] == "tiny, layer 1"
    with pytest.raises(InputError, match="shows one layer"):
        seen.interactive([0, 1], layout="flow")
    with pytest.raises(InputError, match="layout must be"):
        seen.interactive(layout="stages")


@pytest.mark.parametrize(("heads", "text"), [(9, "a b"), (1, "a " * 65)])
def test_a_large_module_shows_only_its_weights(heads: int, text: str) -> None:
    module = visualizer.attend(text, heads=heads, embedding_size=9, output_size=9)
    assert "boards" not in description(module.interactive().html)


def test_a_file_has_the_same_views(tmp_path: Path) -> None:
    weights, words = causal_weights(2, 3, 6), ["a", "b", "c", "a", "b", "c"]
    np.savez(tmp_path / "some.npz", attention=weights, tokens=np.array(words))
    loaded, given = visualizer.load(tmp_path / "some.npz"), visualizer.from_arrays(weights, words)
    for row, other in zip(loaded.heads(), given.heads(), strict=True):
        assert row == pytest.approx(other, nan_ok=True)
    np.testing.assert_array_equal(unpacked(loaded.interactive().html), weights)
    assert description(loaded.interactive().html)["title"] == "some.npz"
    assert description(loaded.interactive([1]).html)["hasLayers"] is True
    assert loaded.overview().png.startswith(b"\x89PNG")


def test_the_last_queries_of_a_text_keep_their_numbers() -> None:
    weights = causal_weights(1, 2, 6)[:, :, 4:]
    found = visualizer.from_arrays(weights, ["a", "b", "c", "d", "e", "f"])
    described = description(found.interactive().html)
    assert (described["queries"], described["before"]) == (["e", "f"], 4)


def test_a_thread_can_create_a_page(seen: ModelAttention) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(seen._repr_mimebundle_()))
    thread.start()
    thread.join()
    assert found[0]["text/html"] == seen._repr_mimebundle_()["text/html"]


def test_a_small_model_fits_in_a_small_page() -> None:
    found = visualizer.from_arrays(causal_weights(30, 9, 64))._repr_mimebundle_()
    assert len(found["text/html"]) < 1_200_000  # with the image
    uniform = visualizer.from_arrays(np.full((30, 9, 64, 64), 1 / 64))._repr_mimebundle_()
    assert len(uniform["text/html"]) < 200_000
