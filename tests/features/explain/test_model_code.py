"""The code beside a real model's heads gives the weights that are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.tiny_models import save_tiny_model
from tests.support.tiny_vision_models import picture, save_vision_model
from visualizer.attention.model_forward_pass import ModelForwardPass
from visualizer.attention.spec import Device
from visualizer.features.explain.code_presenter import model_script_lines, present_code
from visualizer.language.example_run import EXAMPLE_FOLDER, EXAMPLE_TEXT
from visualizer.models.image_file import hash_image_file
from visualizer.models.model_source import HeadEdit, ModelSource
from visualizer.models.model_text_runs import open_model_folder
from visualizer.session.document import Document
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models


def made_by(document: Document, run: Run, view: View) -> np.ndarray:
    """Run the code beside a head, and return its weights."""
    code = "\n".join(line.text for line in present_code(resolve_view(document, view, run)).lines)
    made: dict[str, Any] = {}
    exec(code, made)
    return np.asarray(made["weights"])


def test_the_code_gives_the_weights_and_names_the_heads_that_are_off(tmp_path: Path) -> None:
    source, _model = open_model_folder(
        save_tiny_model(tmp_path / "it's a “model”", "llama"), Device.CPU
    )
    document = replace(Document(text='the "cat" sat\non a mat'), model=source)
    run = run_document(document, None)
    view = View(layer=1, heads=frozenset({2}))
    weights = made_by(document, run, view)
    np.testing.assert_allclose(weights, run.trace.read("weights", (1, 2)), atol=1e-6)
    edited = replace(document, model=replace(source, edits=(HeadEdit(0, 1),)))
    code = present_code(resolve_view(edited, View(), run_document(edited, None)))
    assert "# in the window, layer 1, head 2: off" in [line.text for line in code.lines]


@pytest.mark.parametrize("second", ["", "a dog ran"])
@pytest.mark.parametrize("kind", ["bert", "bart"])
def test_the_code_gives_the_weights_of_each_part_with_a_second_text(
    tmp_path: Path, kind: str, second: str
) -> None:
    source, _model = open_model_folder(save_tiny_model(tmp_path / kind, kind), Device.CPU)
    source = replace(source, second=second)
    first = run_document(replace(Document(text="the cat sat"), model=source), None)
    assert first.reading
    for name, _ in first.reading.parts:
        document = replace(Document(text="the cat sat"), model=replace(source, part=name))
        run = run_document(document, None)
        weights = made_by(document, run, View(layer=1, heads=frozenset({2})))
        np.testing.assert_allclose(weights, run.trace.read("weights", (1, 2)), atol=1e-6)


@pytest.mark.parametrize("kind", ["vit", pytest.param("clip", marks=pytest.mark.slow)])
def test_the_code_gives_the_weights_of_an_image(tmp_path: Path, kind: str) -> None:
    picture(tmp_path / "it's “noise”.png")
    image = hash_image_file(tmp_path / "it's “noise”.png")
    source, _model = open_model_folder(save_vision_model(tmp_path / kind, kind), Device.CPU)
    document = Document(model=replace(source, image=image))
    run = run_document(document, None)
    weights = made_by(document, run, View(layer=1, heads=frozenset({2})))
    np.testing.assert_allclose(weights, run.trace.read("weights", (1, 2)), atol=1e-6)


def test_the_code_gives_the_weights_of_a_model_of_the_lab() -> None:
    source, _model = open_model_folder(EXAMPLE_FOLDER, Device.CPU)
    document = replace(Document(text=EXAMPLE_TEXT), model=source)
    run = run_document(document, None)
    weights = made_by(document, run, View(layer=1, heads=frozenset({0})))
    np.testing.assert_allclose(weights, run.trace.read("weights", (1, 0)), atol=1e-6)


def test_a_message_is_made_by_the_template() -> None:
    source = ModelSource("/models/tiny", "tiny", "0" * 64, is_chat=True)
    reading = ModelForwardPass("", (0,), {}, frozenset(), True, (), "", None, None)  # type: ignore[arg-type]
    lines = [*model_script_lines(source, reading, "hello", 0, 0)]
    assert "text = tokenizer.apply_chat_template(" in lines
    assert '    text, add_special_tokens=False, return_tensors="pt")' in lines
    compile("\n".join(lines), "code", "exec")
