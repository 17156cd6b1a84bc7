"""The Python API returns the book's values with their explanations and figures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PySide6.QtGui import QImage
from PySide6.QtSvg import QSvgRenderer
from torch import nn
from torch.nn import functional

import visualizer
from tests.architecture.project_graph import ROOT
from tests.cli.test_export import BOOK, numbers, printed
from visualizer.api import notebook_display
from visualizer.api.argument_conversion import AttendArguments, FigureArguments
from visualizer.api.attention_api import Attention, attend
from visualizer.api.loading import load
from visualizer.attention.modules import MultiHeadAttention
from visualizer.attention.spec import Device, Dtype, MaskKind
from visualizer.documents.document_file import document_bytes, write_document
from visualizer.errors import InputError
from visualizer.export import writers
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    AnimationSettings,
    FigureSettings,
    FigureTheme,
)
from visualizer.session.document import Document
from visualizer.session.view import View

if TYPE_CHECKING:
    from io import BytesIO
    from pathlib import Path

    from PySide6.QtGui import QGuiApplication

    from tests.conftest import Machine

SENTENCE = " ".join(BOOK["tokens"])


pytestmark = pytest.mark.usefixtures("qapp")


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: np.ndarray = raised / raised.sum(axis=-1, keepdims=True)
    return shares


# ------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("settings", "section", "name", "stage"),
    [
        ({"mechanism": "simplified"}, "3.3.2", "weights", "weights"),
        ({"mechanism": "self", "seed": 789}, "3.4.2 SelfAttentionV2", "context", "context"),
        ({"mechanism": "causal", "seed": 789}, "3.5.1", "weights (both", "weights"),
        ({"mechanism": "stacked"}, "3.6.1", "context", "concat"),
        ({}, "3.6.2", "output", "output"),
    ],
)
def test_the_books_numbers(settings: Any, section: str, name: str, stage: str) -> None:
    attention = attend(SENTENCE, device="cpu", **settings)
    expected = printed(section, name)
    found = attention[stage].reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert attention.tokens == tuple(BOOK["tokens"])


@given(
    tokens=st.integers(1, 6),
    size=st.integers(1, 5),
    d_head=st.integers(1, 3),
    heads=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_own_vectors_and_weights_give_what_numpy_works_out(
    tokens: int, size: int, d_head: int, heads: int, seed: int
) -> None:
    drawn = np.random.default_rng(seed)
    vectors = drawn.normal(size=(tokens, size))
    names = ("W_query", "W_key", "W_value")
    weights = {name: drawn.normal(size=(size, heads * d_head)) for name in names}
    attention = attend(
        vectors=vectors,
        weights=weights,
        heads=heads,
        causal=True,
        output_projection=False,
        dtype="float64",
        device="cpu",
    )
    queries, keys, values = (
        (vectors @ weights[name]).reshape(tokens, heads, d_head).swapaxes(0, 1) for name in names
    )
    scores = queries @ keys.swapaxes(1, 2) / np.sqrt(d_head)
    expected = softmax(np.where(np.tri(tokens, dtype=bool), scores, -np.inf))
    assert attention.tokens == tuple(str(place + 1) for place in range(tokens))
    np.testing.assert_allclose(attention["weights"], expected, atol=1e-12)
    np.testing.assert_allclose(attention["context"], expected @ values, atol=1e-12)


@pytest.mark.parametrize("mechanism", ["self", "stacked", "multi-head"])
@pytest.mark.parametrize("projection", ["uniform", "linear"])
def test_the_weights_of_one_can_be_given_to_another(mechanism: str, projection: str) -> None:
    given: AttendArguments = {
        "mechanism": mechanism,
        "projection": projection,
        "output_projection": False,
    }
    drawn: AttendArguments = {**given, "seed": 5, "output_size": 4}
    first = attend(SENTENCE, **drawn)
    again = attend(SENTENCE, weights=first.weights, vectors=first["input"], **given)
    assert again.spec.d_out == 4
    np.testing.assert_allclose(again["context"], first["context"], rtol=1e-5)


@pytest.mark.parametrize("mechanism", ["self", "causal", "stacked", "multi-head"])
def test_own_biases_are_those_of_linear_layers(mechanism: str) -> None:
    drawn = np.random.default_rng(5)
    width = 8 if mechanism in {"stacked", "multi-head"} else 4
    heads = 2 if width == 8 else 1
    vectors = drawn.normal(size=(5, 3))
    layers = {"W_query": "queries", "W_key": "keys", "W_value": "values"}
    weights = {name: drawn.normal(size=(3, width)) for name in layers}
    weights |= {f"{name}.bias": drawn.normal(size=width) for name in layers}
    settings: AttendArguments = {"mechanism": mechanism, "dtype": "float64", "device": "cpu"}
    attention = attend(vectors=vectors, weights=weights, **settings)
    assert attention.spec.bias
    for name, stage in layers.items():
        rows = torch.tensor(weights[name]).T
        expected = functional.linear(
            torch.tensor(vectors), rows, torch.tensor(weights[f"{name}.bias"])
        )
        split = torch.unflatten(expected, -1, (heads, -1)).transpose(0, 1)  # head token d_head
        np.testing.assert_allclose(attention[stage], split, atol=1e-12)
        np.testing.assert_array_equal(attention.weights[f"{name}.bias"], weights[f"{name}.bias"])


def test_own_weights_and_biases_give_what_torchs_module_gives() -> None:
    torch.manual_seed(3)
    module = nn.MultiheadAttention(6, num_heads=3, batch_first=True, dtype=torch.float64)
    nn.init.normal_(module.in_proj_bias)
    nn.init.normal_(module.out_proj.bias)
    vectors = torch.randn(4, 6, dtype=torch.float64)
    names = ("W_query", "W_key", "W_value")
    rows, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    weights = {name: row.T for name, row in zip(names, rows, strict=True)}
    weights |= {f"{name}.bias": bias for name, bias in zip(names, biases, strict=True)}
    weights |= {"W_output": module.out_proj.weight.T, "W_output.bias": module.out_proj.bias}
    attention = attend(
        vectors=vectors, weights=weights, heads=3, causal=True, dtype="float64", device="cpu"
    )
    later = torch.triu(torch.ones(4, 4, dtype=torch.bool), diagonal=1)
    with torch.no_grad():
        output, shares = module(*(vectors[None],) * 3, attn_mask=later, average_attn_weights=False)
    np.testing.assert_allclose(attention["output"], output[0], atol=1e-12)
    np.testing.assert_allclose(attention["weights"], shares[0], atol=1e-12)


@pytest.mark.parametrize("mechanism", ["simplified", "self", "stacked", "multi-head", "average"])
@pytest.mark.parametrize("bias", [False, True])
def test_all_weights_of_one_give_the_same_numbers(mechanism: str, bias: bool) -> None:
    given: AttendArguments = {"mechanism": mechanism, "device": "cpu"}
    if bias and mechanism not in {"simplified", "average"}:
        given["bias"] = True
    first = attend(SENTENCE, **given)
    again = attend(vectors=first["input"], weights=first.weights, **given)
    for stage in first.stages:
        np.testing.assert_array_equal(again[stage], first[stage])


def test_parameters_load_into_the_books_module() -> None:
    attention = attend(SENTENCE, heads=2, output_size=4, causal=True, device="cpu")
    module = MultiHeadAttention(3, 4, context_length=6, dropout=0.0, num_heads=2)
    state = {name: torch.tensor(array) for name, array in attention.parameters.items()}
    module.load_state_dict(state, strict=False)
    with torch.no_grad():
        expected = module(torch.tensor(attention["input"])[None])[0]
    np.testing.assert_allclose(attention["output"], expected, rtol=1e-5)


def test_tensors_are_taken_as_arrays() -> None:
    vectors = torch.rand(3, 4, requires_grad=True)
    attention = attend("a b c", vectors=vectors)
    np.testing.assert_array_equal(attention["input"], vectors.detach().numpy())


def test_a_stage_has_named_dims_and_cannot_be_written() -> None:
    attention = attend("a b c", embedding_size=4)
    assert attention.stages == attention.run.trace.names
    assert "weights" in attention
    assert "dropped" not in attention
    assert attention.dims("weights") == ("head", "query", "key")
    assert attention["weights"].shape == (2, 3, 3)
    with pytest.raises(ValueError, match="read-only"):
        attention["weights"][0, 0, 0] = 1
    for array in (*attention.parameters.values(), attention.weights["W_query"]):
        assert not array.flags.writeable


def test_several_texts_are_a_batch() -> None:
    attention = attend([SENTENCE, "one two"], device="cpu")
    assert attention.dims("weights") == ("text", "head", "query", "key")
    assert attention.tokens[0] == tuple(BOOK["tokens"])
    expected = printed("3.6.2", "output")
    np.testing.assert_allclose(attention["output"][0], expected, rtol=0, atol=1e-4)
    assert "<b>" not in attention.explain("weights", head=0, query=1, key=0, text=1).sentence
    assert "two" in attention.explain("weights", head=0, query=1, key=0, text=1).sentence


def test_heads_of_a_batch_are_measured_per_text_without_padding() -> None:
    texts = ["one two three one", "four five"]
    batch = attend(texts, mechanism="multi-head", heads=2, embedding_size=4, output_size=4)
    rows = batch.heads()
    assert [(row["text"], row["head"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for row in rows:
        text, head = int(row["text"]), int(row["head"])
        count = len(texts[text].split())
        weights = batch["weights", text, head][:count, :count].astype(np.float64)
        assert row["own"] == pytest.approx(np.diag(weights).mean(), abs=1e-6)
        assert row["largest"] == pytest.approx(weights.max(axis=1).mean(), abs=1e-6)
    assert "text" not in attend(texts[1]).heads()[0]


def test_an_own_mask_is_the_mask() -> None:
    cells = np.eye(3, dtype=bool) | np.eye(3, k=-1, dtype=bool)
    attention = attend("a b c", own_mask=cells)
    assert attention.spec.mask is MaskKind.OWN
    assert ((attention["weights"] > 0) == cells).all()


def test_global_state_of_torch_is_unchanged() -> None:
    chance, threads = torch.get_rng_state(), torch.get_num_threads()
    attend("a b c", dropout=0.5, position="learned")
    assert torch.equal(torch.get_rng_state(), chance)
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()


def test_a_device_that_is_not_available_is_rejected(machine: Machine) -> None:
    machine.set_devices(Device.CPU)
    for wanted in ("cuda", torch.device("cuda"), torch.device("mps:0")):
        with pytest.raises(InputError, match=r"not available here.* float32: cpu") as caught:
            attend("a b c", device=wanted)
        assert caught.value.field == "device"
    machine.set_devices(Device.MPS, Device.CPU)
    with pytest.raises(InputError, match=r"does not support float64.* float64: cpu"):
        attend("a b c", device="mps", dtype="float64")


def test_the_device_of_a_document_may_be_that_of_another_machine(
    tmp_path: Path, machine: Machine
) -> None:
    path = tmp_path / "on-gpu.attention"
    document = Document().with_setting("device", Device.CUDA)
    path.write_bytes(document_bytes(document, View()))
    machine.set_devices(Device.CPU)
    with pytest.warns(UserWarning, match="A CUDA GPU is not available; the CPU") as said:
        attention = visualizer.load(path)
    assert attention.notices == ("A CUDA GPU is not available; the CPU was used instead.",)
    assert said[0].filename == __file__


@pytest.mark.parametrize("wanted", [torch.float64, np.float64, np.dtype("float64"), "float64"])
def test_types_and_devices_of_torch_and_numpy_are_accepted(wanted: Any) -> None:
    attention = attend("a b c", device=torch.device("cpu"), dtype=wanted)
    assert attention.spec.dtype is Dtype.FLOAT64
    assert attention.spec.device is Device.CPU


@pytest.mark.parametrize("wanted", ["bfloat16", torch.bfloat16, np.float16])
def test_types_of_16_bits_are_rejected_with_those_that_there_are(wanted: Any) -> None:
    with pytest.raises(InputError, match="one of float32, float64"):
        attend("a b c", dtype=wanted)
    with pytest.raises(InputError, match="one of auto, cpu, cuda, mps"):
        attend("a b c", device=torch.device("cuda:1"))


# -------------------------------------------------------------------------------- explanations


def test_a_number_is_explained_in_words() -> None:
    attention = attend(SENTENCE, mechanism="simplified", device="cpu")
    explained = attention.explain("weights", query=1, key=0)
    assert explained.value == attention["weights"][0, 1, 0]
    assert explained.value == pytest.approx(printed("3.3.2", "weights")[1, 0], abs=1e-4)
    assert explained.sentence == "journey (query 2) attends to Your (key 1) with weight 14%."
    assert "÷ Σ exp(score)" in explained.formula
    names, _, values = zip(*explained.terms, strict=True)
    assert names == tuple(BOOK["tokens"])
    shares = [float(value) for value in values]
    assert shares[0] / sum(shares) == pytest.approx(explained.value, abs=1e-4)
    lines = str(explained).splitlines()
    assert lines[0] == "Weights · head 1, query 2, key 1"
    assert lines[1] == explained.sentence
    assert lines[-1].endswith("= 0.1385")


def test_an_explanation_in_a_notebook_shows_a_text_as_it_is() -> None:
    shown = attend("<i> b").explain("weights", head=0, query=1, key=0)._repr_html_()
    assert "<i>" not in shown
    assert shown.count("<tr>") == 2  # the other two tokens are masked


def test_every_cell_of_every_stage_has_an_explanation() -> None:
    attention = attend("a b", heads=2, dropout=0.5, position="sinusoidal")
    for stage in attention.stages:
        for place in np.ndindex(attention[stage].shape):
            at = dict(zip(attention.dims(stage), map(int, place), strict=True))
            explained = attention.explain(stage, **at)
            assert explained.value == attention[stage][place]
            assert explained.sentence


# ------------------------------------------------------------------------------------- refusals

REFUSED: list[tuple[Any, str]] = [
    (lambda: attend(" "), "text must be a text with at least one character other than whitespace"),
    (
        lambda: attend([SENTENCE, ""]),
        "text must be a text with at least one character other than whitespace",
    ),
    (
        lambda: attend([SENTENCE, "word " * 1_000_000]),
        "text must have at most 4,194,304 characters. It has 5,000,000.",
    ),
    (lambda: attend("a", heads=3), "The output size 2 cannot be split into 3 heads. Use 2 heads"),
    (lambda: attend("a", heads="two"), "heads must be a whole number. It is 'two'."),  # type: ignore[arg-type]
    (lambda: attend("a", heads=1.5), "heads must be a whole number. It is 1.5."),  # type: ignore[arg-type]
    (lambda: attend("a", causal="no"), "causal must be true or false. It is 'no'."),  # type: ignore[arg-type]
    (lambda: attend("a", dropout="half"), "dropout must be a number. It is 'half'."),  # type: ignore[arg-type]
    (lambda: attend("a", scale="d"), "scale must be one of none, d_head, d_model. It is 'd'."),
    (lambda: attend("a", mechanism="best"), "mechanism must be one of simplified, self, causal"),
    (lambda: attend("a", head=2), "Unknown setting “head”. The settings are mechanism"),  # type: ignore[call-arg]
    (lambda: attend("a", d_in=2), "Unknown setting “d_in”"),  # type: ignore[call-arg]
    (lambda: attend("a b", vectors=[1, 2]), "vectors must be a matrix"),
    (
        lambda: attend("a b", vectors=[["x"], ["y"]]),
        "vectors must contain numbers. It contains strings.",
    ),
    (lambda: attend("a b", vectors=[[1, 2], [3]]), "vectors must be a matrix of numbers"),
    (
        lambda: attend("a", vectors=[[1, np.nan]]),
        "vectors must not contain infinite or NaN values.",
    ),
    (lambda: attend("a b", vectors=[[1, 2]]), "The vectors are 1 × 2, but the text needs 2 × 2."),
    (lambda: attend(["a", "b"], vectors=[[1]]), "The custom vectors are for one text"),
    (lambda: attend("a", embedding_size=3, vectors=[[1]]), "the embedding size is 3."),
    (lambda: attend("a", weights={"Q": [[1]]}), "Unknown weights “Q”. The names are W_query"),
    (
        lambda: attend("a", embedding_size=2, weights={"W_key": [[1, 2]]}),
        "W_key is 1 × 2, but the settings need",
    ),
    (lambda: attend("a b", own_mask=[1, 0]), "own_mask must be a matrix"),
    (lambda: attend("a")["sums"], "This module has no stage “sums”. It has input, queries"),
    (lambda: attend("a").dims("dropped"), "This module has no stage “dropped”."),
    (lambda: attend("a").explain("dropped"), "This module has no stage “dropped”."),
    (lambda: attend("a").explain("weights", query=0, key=0), "requires head, query, key."),
    (lambda: attend("a").explain("input", head=0, token=0, d_in=0), "requires token, d_in."),
    (
        lambda: attend("a").explain("weights", head=2, query=0, key=0),
        "Head 2 does not exist. Valid indices are 0 to 1.",
    ),
    (
        lambda: attend("a").explain("weights", head=0, query=-1, key=0),
        "Query -1 does not exist. Valid indices are 0 to 0.",
    ),
    (
        lambda: attend("a").explain("input", token=0, d_in=0, text=1),
        "Text 1 does not exist. Valid indices are 0 to 0.",
    ),
    (
        lambda: attend("a").figure(["sums"]),
        "The stage “sums” does not exist. Stages of modules: embedding",
    ),
    (lambda: attend("a").figure("dropped"), "This module has no stage “dropped”."),
    (lambda: attend("a").figure(heads=[2]), "Head 2 does not exist. Valid indices are 0 to 1."),
    (
        lambda: attend("a", heads=1).figure(heads=[-1]),
        "Head -1 does not exist. Valid indices are 0 to 0.",
    ),
    (lambda: attend("a").figure(size="85"), "size must be a size such as 180mm"),
    (
        lambda: attend("a").figure(size="1mm"),
        "The width and height of a figure must be 10 mm to 5 m.",
    ),
    (
        lambda: attend("a").figure(dpi=0),
        "The resolution must be at least 36 and at most 2,400 dpi.",
    ),
    (lambda: attend("a").figure(theme="blue"), "theme must be one of print, light, dark. It"),
    (lambda: attend("a").figure(layout="wide"), "layout must be one of shown, flow, panel"),
    (
        lambda: attend("a").figure(colour="red"),  # type: ignore[call-arg]
        "Unknown keyword argument “colour”. The arguments are layout, theme",
    ),
    (lambda: attend("a").save("a.bmp"), "Unsupported export format “.bmp”. Supported: .png"),
    (lambda: attend("a").save("missing/a.npz"), "Cannot write “a.npz” to missing: "),
]


@pytest.mark.parametrize(("ask", "said"), REFUSED)
def test_impossible_settings_are_rejected_with_a_sentence(ask: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        ask()
    assert said in refused.value.sentence
    assert isinstance(refused.value, ValueError)


# -------------------------------------------------------------------------------------- figures


def test_a_figure_is_the_same_as_pixels_as_a_file_and_in_a_notebook(tmp_path: Path) -> None:
    figure = attend(SENTENCE).figure(["weights"], [1], size="85mm", dpi=300, title="Head 2")
    pixels = figure.array()
    assert pixels.dtype == np.uint8
    assert (pixels.ndim, pixels.shape[2]) == (3, 4)
    assert pixels.shape[1] == round(85 / 25.4 * 300)
    assert (pixels[..., 3] == 255).all()
    figure.save(tmp_path / "a.png", str(tmp_path / "b.png"))
    content, shown = figure._repr_png_()
    assert (tmp_path / "a.png").read_bytes() == content == (tmp_path / "b.png").read_bytes()
    assert shown == {"width": round(85 / 25.4 * 96)}
    image = QImage.fromData(content).convertToFormat(QImage.Format.Format_RGBA8888)
    found = np.array(image.constBits()).reshape(image.height(), image.width(), 4)
    np.testing.assert_array_equal(found, pixels)


def test_a_figure_looks_as_it_is_asked_to() -> None:
    attention = attend(SENTENCE)
    assert attention.figure().look == FigureSettings()
    slide = replace(FIGURE_PRESETS["Slide"], film=AnimationSettings(width=1920))
    assert attention.figure(size="slide").look == slide
    assert attention.figure(theme="dark", caption=False).look == FigureSettings(
        paper=FigureTheme.DARK, has_caption=False
    )
    figure = attention.figure(["scores", "weights"], [0])
    assert figure.shot.view.stages == frozenset({"scores", "weights"})
    assert figure.shot.view.heads == frozenset({0})
    assert attention.figure("weights").shot.view.stages == {"weights"}


def test_files_hold_what_is_read(tmp_path: Path) -> None:
    attention = attend(SENTENCE, dropout=0.5)
    attention.save(tmp_path / "a.npz", tmp_path / "a.png")
    arrays = numbers(tmp_path / "a.npz")
    for stage in attention.stages:
        np.testing.assert_array_equal(arrays[stage], attention[stage])
    assert QImage(str(tmp_path / "a.png")).width() > 500


def test_a_notebook_gets_an_svg_that_is_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = attend(SENTENCE).figure()
    contents = [b"<svg/>", b"." * (notebook_display.MAX_SVG_BYTES + 1)]

    def write(snapshot: object, look: object, file: BytesIO, progress: object) -> None:
        file.write(contents.pop(0))

    monkeypatch.setitem(writers.WRITERS, ".svg", write)
    assert figure._repr_svg_() == "<svg/>"
    assert figure._repr_svg_() is None


def test_a_notebook_shows_figures_that_fit_in_a_cell() -> None:
    small, large = (
        attend(SENTENCE, heads=2, output_size=4).figure("weights", size=width)
        for width in ("320px", "1900px")
    )
    for figure, most in ((small, 320), (large, notebook_display.MAX_DISPLAYED_WIDTH_PX)):
        shown = QSvgRenderer((figure._repr_svg_() or "").encode())
        box, size = shown.viewBoxF(), shown.defaultSize()
        width = size.width() * 96 / 90  # Qt still has 90 pixels per inch, as in SVG 1.0
        assert width <= most + 1
        assert size.width() / size.height() == pytest.approx(box.width() / box.height(), rel=0.01)
        assert figure._repr_png_()[1]["width"] == pytest.approx(width, abs=2)


def test_letters_that_no_font_has_are_a_warning() -> None:
    figure = attend("a \uf8f0\uf8f1 b \u200d").figure()
    with pytest.warns(UserWarning, match="“\uf8f0\uf8f1”") as said:
        figure.array()
    assert said[0].filename == __file__


def test_drawing_is_done_in_any_thread_where_there_is_an_application(qapp: QGuiApplication) -> None:
    figure = attend("a b").figure()
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(figure.array()))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(drawn[0], figure.array())
    assert type(qapp).instance() is qapp


@pytest.mark.parametrize("has_numbers", [False, True])
def test_a_document_is_loaded_as_it_was_saved(has_numbers: bool, tmp_path: Path) -> None:
    first = attend([SENTENCE, "one two"], seed=5, dropout=0.5, device="cpu")
    path = tmp_path / "a.attention"
    view = View(stages=frozenset({"weights"}))
    with path.open("wb") as file:
        write_document(file, first.document, view, first.run if has_numbers else None)
    again = load(path)
    assert again.document == first.document
    assert again.figure().shot.view.stages == frozenset({"weights"})
    for stage in first.stages:
        np.testing.assert_array_equal(again[stage], first[stage])


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="could not be opened"):
        load(tmp_path / "a.attention")


# ---------------------------------------------------------------------------- a fresh interpreter

FRESH = """
import os, sys, threading
import visualizer
assert not {"torch", "PySide6", "numpy"} & set(sys.modules)
assert visualizer.attend.__module__ == "visualizer.api.attention_api"
figure = visualizer.attend("a b c").figure()

first = figure.array()
for _ in range(5):
    assert (figure.array() == first).all()
short = visualizer.attend("a").figure("weights", size="320px")
for suffix in (".gif", ".svg", ".html"):
    paths = [os.path.join(os.environ["FOLDER"], str(each) + suffix) for each in range(2)]
    for path in paths:
        short.save(path)
    assert os.path.getsize(paths[0]) == os.path.getsize(paths[1])

from PySide6.QtCore import QCoreApplication
assert QCoreApplication.instance() is None
plain = QCoreApplication([])
try:
    figure.array()
except visualizer.InputError as error:
    print(error)
plain.shutdown()
del plain

assert "QT_QPA_PLATFORM" not in os.environ
from PySide6.QtWidgets import QApplication, QLabel
application = QApplication(["", "-platform", "offscreen"])
label = QLabel("a notebook's own window")
label.show()
application.processEvents()
assert (figure.array() == first).all()
assert QApplication.instance() is application and label.isVisible()
print("there")
"""


def in_fresh_interpreter(script: str, folder: Path) -> list[str]:
    """Return the lines that a script prints, which must not print any errors."""
    kept = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={name: os.environ[name] for name in kept if name in os.environ}
        | {"FOLDER": str(folder)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


IN_THREADS = """
import threading
import visualizer
figure = visualizer.attend("a b c").figure(size="320px")
drawn = []
for _ in range(3):
    threads = [threading.Thread(target=lambda: drawn.append(figure.array())) for _ in range(2)]
    for thread in threads:
        thread.start()
    drawn.append(figure.array())
    for thread in threads:
        thread.join()
assert len(drawn) == 9 and all((each == drawn[0]).all() for each in drawn)
"""


@pytest.mark.slow
def test_any_thread_can_draw_without_an_application(tmp_path: Path) -> None:
    assert in_fresh_interpreter(IN_THREADS, tmp_path) == []


@pytest.mark.slow
def test_an_application_is_made_where_there_is_none_and_goes_again(tmp_path: Path) -> None:
    assert in_fresh_interpreter(FRESH, tmp_path) == [
        "Cannot draw with a QCoreApplication. Create a QGuiApplication instead.",
        "there",
    ]


# ---------------------------------------------------------------------------------------- names


def test_the_package_offers_what_it_lists() -> None:
    assert set(visualizer.__all__) < set(dir(visualizer))
    for name in visualizer.__all__:
        assert getattr(visualizer, name).__doc__
    assert isinstance(attend("a"), Attention)
    shown = repr(attend("a"))
    assert shown.startswith("<Attention: Multi-head attention · untrained")
    assert " · 1 token · " in shown
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        visualizer.nothing  # noqa: B018


def test_every_setting_that_is_listed_is_a_documents() -> None:
    names = {"embedding_size": "d_in", "output_size": "d_out", "feed_forward_size": "d_ff"}
    for name in AttendArguments.__annotations__:
        assert Document().get_setting(names.get(name, name)) is not None or name.startswith("own_")
    assert {"theme", "size"} < FigureArguments.__annotations__.keys()


def test_types_are_shipped() -> None:
    assert (ROOT / "visualizer" / "py.typed").is_file()
