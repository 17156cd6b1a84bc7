"""All objects that the Python API returns have a short representation."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.small_runs import elsewhere
from tests.support.tiny_models import save_tiny_model, tiny_model
from visualizer import InputError
from visualizer.resources import resource_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.usefixtures("application"),
    pytest.mark.filterwarnings("ignore"),  # libraries warn about small models
]
MAX_CHARACTERS = 400
TEXT = "the cat sat on the mat . the dog ran to a log and the cat sat " * 6
BUILT_IN = {"None", "Any", "Iterator", "Sequence", "Mapping", "Iterable", "Self"}


def returned(folder: Path) -> Iterator[Any]:
    """Yield the results of the functions and methods of the API."""
    attention = visualizer.attend(TEXT, heads=2, embedding_size=8)
    yield attention
    yield visualizer.attend(["a b c", TEXT], heads=2, embedding_size=8)
    yield visualizer.attend("a b", vectors=np.ones((2, 4)), mask="own", own_mask=[[1, 0], [1, 1]])
    yield attention.figure(["weights"])
    yield attention.explain("weights", head=1, query=60, key=20)
    yield attention.explain("context", head=1, query=50, d_head=0)
    np.savez(folder / "captured.npz", attention=elsewhere().to_array())
    yield visualizer.load(folder / "captured.npz")
    yield visualizer.load(resource_path("start_page", "trained_example"))
    settings: dict[str, Any] = {"max_position_embeddings": 256, "sliding_window": None}
    model = visualizer.open_model(save_tiny_model(folder / "tiny", **settings))
    yield model
    read = model.attend(TEXT)
    yield read
    yield read.overview()
    yield read.interactive()
    yield read.attention(1)
    yield read.explain("scores", layer=0, head=0, query=90, key=3)
    yield model.attend(["a b", TEXT])
    yield model.generate(TEXT, 8)
    yield model.logit_parts(TEXT)
    pair = tiny_model("bart")
    with visualizer.capture(pair) as seen, torch.no_grad():
        yield seen  # before the model has run
        pair(input_ids=torch.arange(3, 20)[None], decoder_input_ids=torch.arange(3, 9)[None])
    yield seen
    with visualizer.record(tiny_model("gpt2"), texts=[range(9)], to=folder / "run") as recorder:
        yield recorder
    yield visualizer.load(folder / "run")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the results, and all objects of the program that their public attributes reference."""
    waiting = [*returned(tmp_path_factory.mktemp("returned"))]
    found: dict[int, Any] = {}
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple | list) and len(one) <= 100:
            waiting += one
        is_own = type(one).__module__.startswith("visualizer.")
        # A torch module has the usual representation of torch modules.
        if id(one) in found or not is_own or isinstance(one, torch.nn.Module):
            continue
        found[id(one)] = one
        waiting += _attributes(one)
    return [*found.values()]


def _attributes(one: Any) -> Iterator[Any]:
    for name in dir(one):
        if name.startswith("_"):
            continue
        try:
            yield getattr(one, name)
        except (InputError, AttributeError):  # some kinds of attention have no spec
            continue


def test_every_object_has_a_short_representation(objects: list[Any]) -> None:
    too_long = {
        type(one).__name__: len(repr(one)) for one in objects if len(repr(one)) > MAX_CHARACTERS
    }
    assert too_long == {}


def test_every_class_that_methods_return_was_visited(objects: list[Any]) -> None:
    known = {type(one).__name__: type(one) for one in objects}
    public = {name for name in visualizer.__all__ if inspect.isclass(getattr(visualizer, name))}
    assert public - {"AttendArguments", "FigureArguments", "InputError"} <= known.keys()
    for name in (*public, "Overview", "ExplainedValue", "GeneratedText", "LogitParts"):
        members = vars(known.get(name, object)).items()
        methods = [getattr(each, "fget", each) for key, each in members if key[0] != "_"]
        for method in filter(inspect.isfunction, methods):
            written = method.__annotations__.get("return", "")
            for kind in re.findall(r"(?<![.\w])[A-Z]\w+", str(written)):
                assert kind in known.keys() | BUILT_IN | {"AttentionState"}, (name, method)


def test_a_representation_describes_itself(objects: list[Any]) -> None:
    first: dict[str, str] = {}
    for one in objects:
        first.setdefault(type(one).__name__, repr(one))
    generated = next(repr(one) for one in objects if type(one).__name__ == "GeneratedText")
    assert re.search(r"103 \+ \d+ tokens", generated)
    assert "2 layers × 4 heads" in generated
    parts = next(repr(one) for one in objects if type(one).__name__ == "LogitParts")
    assert "2 layers × 4 heads" in parts
    overview = next(repr(one) for one in objects if type(one).__name__ == "Overview")
    assert "2 layers × 4 heads" in overview
    assert "103 tokens" in overview
    read = [repr(one) for one in objects if type(one).__name__ == "ModelAttention"]
    assert any("tiny" in each and "2 layers × 4 heads, 103 tokens" in each for each in read)
    assert any("6 × 17 tokens" in each for each in read)
    spec = next(repr(one) for one in objects if type(one).__name__ == "AttentionSpec")
    assert spec.startswith("AttentionSpec(")
