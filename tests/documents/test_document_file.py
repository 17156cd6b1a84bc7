"""Document files: documents, views and recorded numbers are read back exactly."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from msgspec.structs import replace

from tests.support.document_strategies import DOCUMENTS, FIELDS, VIEWS
from tests.support.examples import examples
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    HeadArrangement,
    NumberMatrix,
    Projection,
)
from visualizer.documents.document_file import (
    SavedDocument,
    document_bytes,
    read_document,
    write_document,
)
from visualizer.documents.schema import SCHEMA_VERSION, UNSAVED_FIELDS, without_unsaved_fields
from visualizer.errors import InputError
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document, LineGrouping
from visualizer.session.timeline import PlaybackState
from visualizer.session.view import View
from visualizer.storage.atomic_file import write_atomically
from visualizer.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = np.array([[0.1, -0.0, 5e-324], [1e308, 2 / 3, -7.25]])
OWN = Document(
    text="two words",
    spec=AttentionSpec(
        own_mask=BooleanMatrix.from_array(np.tri(2, dtype=bool)),
        own_input=NumberMatrix.from_array(NUMBERS),
        own_weights=(("W_query", NumberMatrix.from_array(NUMBERS.T)),),
    ),
)

OWN_SMALL = Document(text="here it is", spec=AttentionSpec(seed=7))


def opened(content: bytes) -> SavedDocument:
    return read_document(io.BytesIO(content))


def packed(content: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(content))


# -------------------------------------------------------------------------- writing and reading


@examples(1.5, suppress_health_check=[HealthCheck.too_slow])
@given(DOCUMENTS, VIEWS)
def test_what_is_written_is_read_again_exactly(document: Document, view: View) -> None:
    saved = opened(document_bytes(document, view))
    assert saved.document == document
    assert saved.view == without_unsaved_fields(view)
    assert saved.recorded is None
    assert document_bytes(saved.document, saved.view) == document_bytes(document, view)


def test_every_field_of_a_view_is_drawn() -> None:
    assert set(FIELDS) == set(View.__struct_fields__)


@examples(0.4, suppress_health_check=[HealthCheck.too_slow])
@given(VIEWS)
def test_all_of_a_view_lasts_but_the_hand_the_window_and_the_lesson(view: View) -> None:
    kept, usual = without_unsaved_fields(view), View()
    gone = UNSAVED_FIELDS[View] | {"playhead", "table", "comparison", "pinned"}
    for field in View.__struct_fields__:
        source = usual if field in UNSAVED_FIELDS[View] else view
        if field in UNSAVED_FIELDS[View] or field not in gone:
            assert getattr(kept, field) == getattr(source, field)
    assert not kept.playhead.is_playing
    assert without_unsaved_fields(kept) == kept


@pytest.mark.parametrize("number", [-0.0, 5e-324, 0.1, -1000, 1e300])
def test_a_number_is_exactly_what_it_was(number: float) -> None:
    document = Document().with_setting("temperature", number)
    read = opened(document_bytes(document, View())).document.spec.temperature
    assert np.float64(read).tobytes() == np.float64(number).tobytes()


def test_a_text_may_hold_anything_that_python_holds() -> None:
    text = "".join(["\ud83d", "\ude00", "\0\r\n\u2028", "😀", "\udfff"])
    assert len(text) == 8
    assert opened(document_bytes(Document(text=text), View())).document.text == text


def test_the_same_is_the_same_bytes() -> None:
    assert document_bytes(OWN, View()) == document_bytes(OWN, View())


def test_matrices_are_arrays_that_numpy_reads() -> None:
    with np.load(io.BytesIO(document_bytes(OWN, View()))) as arrays:
        np.testing.assert_array_equal(
            arrays["document/spec/own_input/numbers"].reshape(2, 3), NUMBERS
        )


def test_the_file_says_what_it_is_of() -> None:
    tree = json.loads(packed(document_bytes(OWN, View())).read("document.json"))
    assert tree["schema"] == SCHEMA_VERSION
    assert tree["program"] == __version__
    assert tree["document"]["text"] == "two words"


def test_playing_stops_where_it_stands() -> None:
    view = View(playhead=PlaybackState(is_playing=True, speed=2.0))
    read = opened(document_bytes(OWN, view)).view
    assert read.playhead == PlaybackState(is_playing=False, speed=2.0)


def test_a_comparison_with_nothing_known_is_left_out() -> None:
    view = View(
        comparison=Comparison(ComparisonKind.KEPT),
        pinned=Cell("weights", (0, 1, 0), part=ComparisonSide.CHANGE),
    )
    read = opened(document_bytes(OWN, view)).view
    assert read.comparison is None
    assert read.pinned == Cell("weights", (0, 1, 0))


def test_more_than_can_be_read_again_is_not_written() -> None:
    with pytest.raises(InputError, match="too large") as refused:
        document_bytes(Document(text="x" * (2**24 + 1)), View())
    assert refused.value.field == "save"
    with pytest.raises(InputError, match="contains a number that is too large"):
        document_bytes(Document().with_setting("seed", 2**63), View())
    with pytest.raises(InputError, match=r"too large, so it was not saved\. Cut fewer edges"):
        document_bytes(Document(text="," * 1_000_000), View())


def test_more_numbers_than_can_be_read_again_are_not_written() -> None:
    spec = AttentionSpec(heads=1_000, arrangement=HeadArrangement.STACKED, d_out=1)
    spec = replace(spec, projection=Projection.LINEAR, bias=True)
    a, b = (Document(text="one two", spec=replace(spec, seed=seed)) for seed in (1, 2))
    kept, live = (run(one.tokens(), one.spec) for one in (a, b))
    opened(document_bytes(b, View(), live))
    view = View(comparison=Comparison(ComparisonKind.KEPT, kept=kept, document=a))
    with pytest.raises(
        InputError, match=r"not saved\. Turn off “Include numbers when saving”"
    ) as refused:
        document_bytes(b, view, live)
    assert refused.value.field == "save"
    opened(document_bytes(b, view))


# --------------------------------------------------------------------------------- recorded numbers


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_recorded_numbers_are_those_of_the_run(dtype: str) -> None:
    document = Document(text="one text\nand three words", lines=LineGrouping.APART)
    document = document.with_setting("dtype", AttentionSpec().dtype.__class__(dtype)).with_setting(
        "bias", True
    )
    made = run(document.tokens(), document.spec)
    recorded = opened(document_bytes(document, View(), made)).recorded
    assert recorded
    assert recorded.texts == document.tokens()
    assert [*recorded.stages] == [*made.trace.names]
    assert recorded.parameters.keys() == made.trace.parameters.keys()
    for name, array in {**recorded.stages, **recorded.parameters}.items():
        np.testing.assert_array_equal(array, made.trace.read(name))
        assert array.dtype == dtype
    assert (recorded.device, recorded.notices) == (made.device, made.notices)


def test_numbers_of_another_document_are_not_written() -> None:
    made = run(OWN_SMALL.tokens(), replace(OWN_SMALL.spec, seed=1))
    assert opened(document_bytes(OWN_SMALL, View(), made)).recorded is None
    made = run((("other", "words"),), OWN_SMALL.spec)
    assert opened(document_bytes(OWN_SMALL, View(), made)).recorded is None


def test_the_numbers_of_a_come_along() -> None:
    a = Document(text="what was before")
    kept, live = (run(one.tokens(), one.spec) for one in (a, OWN_SMALL))
    view = View(comparison=Comparison(ComparisonKind.KEPT, kept=kept, document=a))
    saved = opened(document_bytes(OWN_SMALL, view, live))
    assert saved.view.comparison
    assert saved.view.comparison.document == a
    assert saved.view.comparison.kept is None
    assert saved.kept
    np.testing.assert_array_equal(saved.kept.stages["weights"], kept.trace.read("weights"))
    assert opened(document_bytes(OWN_SMALL, view)).kept is None


def test_numbers_are_held_once_while_they_are_written_and_read(tmp_path: Path) -> None:
    spec = AttentionSpec(
        heads=1, d_out=1, own_mask=BooleanMatrix.from_array(np.tri(1_000, dtype=bool))
    )
    document = Document(text=" ".join(1_000 * ["word"]), spec=spec)
    made, path = run(document.tokens(), document.spec), tmp_path / "a.attention"
    stage = 4 * 1_000 * 1_000
    tracemalloc.start()
    write_atomically(path, lambda file: write_document(file, document, View(), made))
    _, writing = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    with path.open("rb") as file:
        recorded = read_document(file).recorded
    _, reading = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = path.stat().st_size
    assert recorded
    assert size > 4 * stage
    assert writing < stage + 20_000_000
    assert reading < size + stage


class Failing(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_disk_that_fails_is_said() -> None:
    with pytest.raises(InputError, match=r"The file could not be read: Input/output error\."):
        read_document(Failing(document_bytes(OWN, View())))


# ------------------------------------------------------------------------------- rejected files


def rewritten(content: bytes, change: Any) -> bytes:
    """Return a document file whose JSON tree has been changed by a function."""
    file = io.BytesIO()
    with packed(content) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            inside = old.read(name)
            if name == "document.json":
                tree = json.loads(inside)
                change(tree)
                inside = json.dumps(tree).encode()
            new.writestr(name, inside)
    return file.getvalue()


def put(*path: Any) -> Any:
    *way, last, value = path

    def change(tree: Any) -> None:
        for step in way:
            tree = tree[step]
        tree[last] = value

    return change


MARK = {"stage": "scores", "place": [0, 0, 0], "fold": None, "part": "plain", "layer": None}
GUESS = {"stage": "weights", "question": "zero", "marks": [MARK], "is_revealed": False}
REFUSED = [
    (put("document", "text", 5), "contains 5 at document/text; expected text"),
    (put("document", "text", None), "contains null at document/text"),
    (put("document", "lines", "sideways"), "expected one of together, apart"),
    (put("document", "extra", 1), "unexpected entry at document: “extra”"),
    (put("document", "spec", []), "expected an object"),
    (put("document", "spec", "d_in", True), "contains true at document/spec/d_in"),
    (put("document", "spec", "d_in", 2.0), "expected an integer"),
    (put("document", "spec", "d_in", 10**30), "contains a very large number at"),
    (put("document", "spec", "bias", 0), "expected true or false"),
    (put("document", "spec", "dropout", "0"), "expected a number"),
    (put("document", "spec", "own_input", "rows", 4), "invalid value: a matrix of numbers"),
    (put("document", "spec", "own_input", "numbers", 49), "expected 49"),
    (put("document", "spec", "own_input", None), "unexpected entry"),
    (
        put("document", "spec", "own_kept", {"rows": 1, "columns": 1, "bits": 1}),
        "not contain the data",
    ),
    (
        put("document", "spec", "own_mask", "columns", 9),
        "invalid value: a matrix of zeros and ones",
    ),
    (
        put("document", "spec", "own_mask", "columns", 1),
        "invalid value: a matrix of zeros and ones",
    ),
    (
        put("document", "spec", "d_in", 2**62),
        "invalid value: “Embedding size” of 4,611,686,018,427,387,904",
    ),
    (put("document", "spec", "d_out", -1), "invalid value: “Output size” of -1"),
    (put("document", "spec", "heads", 10_000_000), "invalid value: “Heads” of 10,000,000"),
    (put("document", "spec", "window", -3), "invalid value: “Window” of -3"),
    (put("document", "spec", "seed", 2**31), "invalid value: “Seed” of 2,147,483,648"),
    (put("document", "spec", "dropout_seed", -1), "invalid value: “Dropout seed” of -1"),
    (put("document", "spec", "dropout", 10.0), "invalid value: “Dropout” of 10"),
    (put("document", "spec", "dropout", "nan"), "invalid value: “Dropout” of nan"),
    (put("document", "spec", "temperature", "nan"), "invalid value: “Temperature” of nan"),
    (put("document", "spec", "temperature", "inf"), "invalid value: “Temperature” of inf"),
    (put("document", "spec", "temperature", -1e30), "invalid value: “Temperature” of -1e[+]30"),
    (put("document", "spec", "own_weights", 0, 0, "W_harm"), "a set of custom weights"),
    (put("view", "lines", "threshold", 1.5), "invalid value: a threshold"),
    (put("view", "lines", "threshold", "nan"), "invalid value: a threshold"),
    (put("view", "lines", "top", 33), "invalid value: a selection of lines"),
    (put("schema", 0), "valid schema version"),
    (put("schema", True), "valid schema version"),
    (put("schema", SCHEMA_VERSION + 1), r"was written by a newer version 0\.1\.0\. Update"),
    (put("more", 1), "unknown field in its description"),
    (put("view", "stages", ["scores", "scores"]), "without duplicates"),
    (put("view", "stages", ["nonsense"]), "invalid value: a stage"),
    (put("view", "zoom", {"queries": [3, 3], "keys": [0, 4]}), "invalid value: a zoom"),
    (put("view", "zoom", {"queries": [0, 2**40], "keys": [0, 4]}), "a start and an end"),
    (put("view", "playhead", "speed", 3.0), "invalid value: a speed"),
    (put("view", "playhead", "place", {"stage": "x", "row": 0, "column": 0}), "a step's stage"),
    (put("view", "colouring", "sequential", "jet"), "invalid value: a colour map “jet”"),
    (put("view", "colouring", "typed", [["scores", "nan", 1.0]]), "invalid value: a colour range"),
    (put("view", "colouring", "typed", [["scores", 1.0, 1.0]]), "invalid value: a colour range"),
    (put("view", "colouring", "typed", [["scores", 1.0]]), "a list of length 3"),
    (put("view", "text", -1), "invalid value: a text, layer or head"),
    (put("view", "guess", GUESS), "invalid value: a mark"),
    (put("view", "pinned", {**MARK, "place": [0]}), "invalid value: a cell"),
    (put("view", "pinned", {**MARK, "place": [0, 0, 0, 0]}), "invalid value: a cell"),
    (put("view", "lines", "solo", -2), "invalid value: a selection of lines"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_what_does_not_fit_is_named(change: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        opened(rewritten(document_bytes(OWN, View()), change))
    assert refused.value.field == "open"


def test_a_missing_field_is_named() -> None:
    def change(tree: Any) -> None:
        del tree["document"]["spec"]["seed"]

    with pytest.raises(InputError, match="does not contain “seed” at document/spec"):
        opened(rewritten(document_bytes(OWN, View()), change))


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.attention"
    path.write_bytes(document_bytes(OWN, View())[:-5])
    with path.open("rb") as file, pytest.raises(InputError) as refused:
        read_document(file)
    assert refused.value.sentence == "“x.attention” is incomplete: its end is missing."


def test_it_is_written_where_a_file_stands(tmp_path: Path) -> None:
    path = tmp_path / "x.attention"
    with path.open("wb") as file:
        write_document(file, OWN, View())
    assert path.read_bytes() == document_bytes(OWN, View())
