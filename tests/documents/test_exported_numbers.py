"""A file exported as NPZ or JSON opens as the document from which it was exported."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.attention_strategies import specs
from tests.support.document_strategies import VIEWS
from tests.support.examples import examples
from tests.support.golden_documents import BATCH, CAPTURED, CAPTURED_VIEW, OWN, OWN_VIEW, PLAIN
from visualizer import app
from visualizer.api.loading import load
from visualizer.documents import exported_numbers
from visualizer.documents.document_file import SavedDocument
from visualizer.documents.schema import without_unsaved_fields
from visualizer.errors import InputError
from visualizer.export.data.data_writers import write_npz
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.writers import export_file
from visualizer.file_opening import read_file, restore_document
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.document import Document, LineGrouping
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document

if TYPE_CHECKING:
    from collections.abc import Callable

SUFFIXES = (".npz", ".json")


def exported(folder: Path, suffix: str, document: Document, view: View | None = None) -> Path:
    snapshot = ExportSnapshot(document, view or View(), run_document(document, None))
    return export_file(folder / f"a{suffix}", snapshot, FigureSettings())


def opened(path: Path) -> SavedDocument:
    saved = read_file(path, Document("another text"))
    assert isinstance(saved, SavedDocument)
    return saved


def reopened(suffix: str, document: Document, view: View) -> tuple[Document, View]:
    """Export and open a document, and check that its numbers are the same."""
    with TemporaryDirectory() as folder:
        saved = opened(exported(Path(folder), suffix, document, view))
        run, _ = restore_document(saved, run_document)
    there = run_document(document, None)
    assert run.notices == there.notices
    for name in (*there.trace.names, *there.trace.parameters):
        np.testing.assert_allclose(run.trace.read(name), there.trace.read(name), 1e-6, 1e-6)
    return saved.document, saved.view


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("document", "view"), [(PLAIN, View()), (OWN, OWN_VIEW), (BATCH, View(text=1))]
)
def test_documents_come_back(document: Document, view: View, suffix: str) -> None:
    assert reopened(suffix, document, view) == (document, without_unsaved_fields(view))


@st.composite
def computable(draw: st.DrawFn) -> Document:
    """Draw a document with words in several scripts and with settings that can be computed."""
    words = st.sampled_from(["Your", "猫", "🙂", "ab\u0301", "=1+1", "\u2028x", "a\0b"])
    count = draw(st.integers(1, 4))
    text = " ".join(draw(st.lists(words, min_size=count, max_size=count)))
    document = Document(text, draw(st.sampled_from(TokenizerKind)))
    lines = LineGrouping.TOGETHER if "\u2028" in text else draw(st.sampled_from(LineGrouping))
    document = document.with_setting("lines", lines)
    tokens = document.max_text_tokens
    return Document(text, document.tokenizer, lines, draw(specs(tokens)))


@examples(0.3)
@given(computable(), VIEWS, st.sampled_from(SUFFIXES))
def test_any_document_comes_back(document: Document, view: View, suffix: str) -> None:
    assert reopened(suffix, document, view) == (document, without_unsaved_fields(view))


def test_captured_attention_comes_back_from_json(tmp_path: Path) -> None:
    snapshot = ExportSnapshot(CAPTURED, CAPTURED_VIEW, app.compute(CAPTURED, None))
    saved = opened(export_file(tmp_path / "a.json", snapshot, FigureSettings()))
    assert saved.document == CAPTURED
    run, _ = restore_document(saved, app.compute)
    assert run.notices == snapshot.run.notices


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_notebook_and_the_command_line_open_them(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exported(tmp_path, suffix, OWN)
    assert load(path).document == OWN
    target = tmp_path / "b.attention"
    assert app.main([str(path), "--export", str(target), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert opened(target).document == OWN
    renamed = path.rename(tmp_path / "renamed.bin.xyz")
    assert opened(renamed).document == OWN  # recognized by its content


def test_options_change_what_was_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = exported(tmp_path, ".npz", PLAIN), tmp_path / "b.json"
    assert app.main([str(path), "--seed", "7", "--export", str(target), "--quiet"]) == 0
    assert opened(target).document == PLAIN.with_setting("seed", 7)
    assert capsys.readouterr().err == ""  # no notice, because different numbers were requested


# ------------------------------------------------------------------------- different numbers


def changed_npz(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_other_context(members: dict[str, bytes]) -> None:
    context = np.load(io.BytesIO(members["context.npy"]))
    file = io.BytesIO()
    np.save(file, context + np.float32(0.5))
    members["context.npy"] = file.getvalue()


def test_other_numbers_in_an_npz_are_said(tmp_path: Path) -> None:
    path = exported(tmp_path, ".npz", PLAIN)
    changed_npz(path, with_other_context)
    run, _ = restore_document(opened(path), run_document)
    said = "The recomputed numbers differ from those in the file by up to 0.5: “context”."
    assert run.notices[-1] == said


def test_other_numbers_in_json_are_said(tmp_path: Path) -> None:
    path = exported(tmp_path, ".json", PLAIN)
    tree = json.loads(path.read_text())
    tree["stages"][0]["values"][0][0] += 2e-6
    tree["parameters"]["W_query.weight"]["values"] = [[1.0]]
    path.write_text(json.dumps(tree))
    run, _ = restore_document(opened(path), run_document)
    assert run.notices[-1] == (
        "The recomputed numbers differ from those in the file: “input”, "
        "“parameters/W_query.weight”."
    )
    tree = json.loads(exported(tmp_path, ".json", PLAIN).read_text())
    tree["stages"][0]["values"][0][0] += 2e-7
    path.write_text(json.dumps(tree))
    run, _ = restore_document(opened(path), run_document)
    assert run.notices == run_document(PLAIN, None).notices


def test_numbers_too_many_to_be_compared_are_computed_from_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = exported(tmp_path, ".json", OWN)
    monkeypatch.setattr(exported_numbers, "MAX_COMPARED_BYTES", 1000)
    saved = opened(path)
    assert saved.document == OWN
    assert saved.notice == (
        "The file contains too many numbers to compare them with the recomputed numbers."
    )


# ------------------------------------------------------------------------- rejected files


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        opened(path)
    assert refused.value.field == "open"
    return refused.value.sentence


OLDER = (
    " was exported by an older version and does not contain all settings. "
    "Open the original document and export it again."
)


def test_older_exports_without_their_document_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "old.npz").open("wb") as file:
        write_npz(run_document(PLAIN, None), file)
    assert refusal(tmp_path / "old.npz") == f"“old.npz”{OLDER}"
    tree = json.loads(exported(tmp_path, ".json", PLAIN).read_text())
    del tree["document"]
    (tmp_path / "old.json").write_text(json.dumps(tree))
    assert refusal(tmp_path / "old.json") == f"“old.json”{OLDER}"


def test_json_of_others_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1, 2]}')
    assert "is not an Attention Visualizer document" in refusal(tmp_path / "a.json")


def test_arrays_that_numpy_has_saved_anew_open_too(tmp_path: Path) -> None:
    path = exported(tmp_path, ".npz", OWN)
    with np.load(path, allow_pickle=False) as arrays:
        assert all(isinstance(array, np.ndarray) for array in arrays.values())
        np.savez_compressed(tmp_path / "b.npz", **arrays)
    assert opened(tmp_path / "b.npz").document == OWN


@pytest.mark.parametrize("numbers", [np.full(9, -1), np.full(9, np.nan), np.empty(0), np.arange(9)])
def test_a_document_that_is_none_is_refused(numbers: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", document=numbers)
    assert refusal(tmp_path / "a.npz").startswith("“a.npz” is ")


SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) * 2 // 3],
    "without its numbers": lambda data: data.replace(b'"stages"', b'"steps"'),
    "ragged": lambda data: data.replace(b'"values": [[', b'"values": [[[1], 2, '),
    "deep": lambda data: data.replace(b'"values": [', b'"values": ' + b"[" * 100_000),
    "with a word": lambda data: data.replace(b'"values": [[', b'"values": [["a", '),
}


@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_json_is_refused(name: str, tmp_path: Path) -> None:
    path = exported(tmp_path, ".json", PLAIN)
    path.write_bytes(SPOILED[name](path.read_bytes()))
    assert refusal(path).startswith("“a.json” is damaged: its ")


@given(st.data())
def test_a_spoiled_file_opens_or_is_refused(data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(SUFFIXES))
    with TemporaryDirectory() as folder:
        path = exported(Path(folder), suffix, PLAIN)
        content = bytearray(path.read_bytes())
        for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            content[at] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2]))])
        said = "It opens."
        try:
            saved = read_file(path, PLAIN)
            if isinstance(saved, SavedDocument):
                restore_document(saved, run_document)
        except InputError as refused:
            said = refused.sentence
    assert said.endswith(".")
