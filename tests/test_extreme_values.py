"""Any value in any field of the program's files is rejected with a message, or can be shown."""

from __future__ import annotations

import io
import json
import shutil
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support import golden_documents as golden
from tests.support.damaged_run_folders import made_whole
from tests.support.damaged_settings import read_all, store, window
from tests.support.examples import examples
from tests.support.extreme_values import (
    NUMBERS,
    OTHERS,
    TEXTS,
    extremes,
    places,
    value_at,
    with_value,
)
from visualizer import app
from visualizer.attention.spec import TransformerBlockKind
from visualizer.documents.document_file import SavedDocument, document_bytes, read_document
from visualizer.errors import InputError
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder, metadata_from_json, metadata_to_json
from visualizer.language.sampling import SamplingSettings
from visualizer.language.saved_model import generate, read_saved_model
from visualizer.models.lab_model_files import find_lab_model
from visualizer.session.view import View
from visualizer.shell.pane_table import PANES
from visualizer.storage.archive import read_archive, write_archive
from visualizer.storage.json_codec import DamagedFileError
from visualizer.widgets.app_settings import settings_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from PySide6.QtWidgets import QApplication, QMainWindow

    from tests.support.window_input import Hand

TREE = "document.json"
LONGEST_MESSAGE = 300
DOCUMENTS = {
    "module": (replace(golden.PLAIN, text="a b"), View()),
    "own matrices": (golden.OWN, golden.OWN_VIEW),
    "captured": (golden.CAPTURED, golden.CAPTURED_VIEW),
    "model with edits": (golden.EDITED, View()),
    "image": (golden.SEEN, View()),
}
ONCE = partial(examples, suppress_health_check=[HealthCheck.function_scoped_fixture])


@cache
def members_of(name: str) -> tuple[dict[str, bytes], dict[str, Any], Any]:
    texts, arrays = read_archive(io.BytesIO(document_bytes(*DOCUMENTS[name])))
    return texts, arrays, json.loads(texts[TREE].decode("utf-8", "surrogatepass"))


def with_tree(name: str, tree: Any) -> SavedDocument:
    """Read a document file whose JSON tree has been replaced."""
    texts, arrays, _ = members_of(name)
    file = io.BytesIO()
    write_archive(file, texts | {TREE: json.dumps(tree).encode()}, arrays)
    file.seek(0)
    return read_document(file)


@st.composite
def changed_trees(draw: st.DrawFn, tree: Any) -> Any:
    """Draw a tree in which one or two values have been replaced by extreme values."""
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from([*places(tree)]))
        tree = with_value(tree, path, draw(st.sampled_from([*extremes(value_at(tree, path))])))
    return tree


def assert_is_message(refused: Exception) -> None:
    said = str(refused)
    assert said.endswith("."), said
    assert said.isprintable(), repr(said)
    assert len(said) < LONGEST_MESSAGE


@pytest.fixture
def open_panes(hand: Hand) -> Callable[[SavedDocument], None]:
    """Open documents in a window in which all panes are open."""
    bugs: list[str] = []
    for pane in PANES:
        hand.window.docks.open_pane(pane.id)
    hand.settle()
    workspace = hand.window.workspace
    workspace.failed.connect(bugs.append)

    def open_(saved: SavedDocument) -> None:
        workspace.open_document(
            saved.document, saved.view, partial(app.restore_run_and_view, saved)
        )
        hand.until(lambda: not workspace.is_working and hand.window.pending_screen is None)
        assert workspace.document == saved.document
        assert len(hand.window.panes) == len(PANES)
        assert bugs == []

    return open_


@ONCE(4)
@given(name=st.sampled_from([*DOCUMENTS]), drawn=st.data())
def test_a_document_is_refused_or_shown_in_every_pane(
    open_panes: Callable[[SavedDocument], None], name: str, drawn: st.DataObject
) -> None:
    try:
        saved = with_tree(name, drawn.draw(changed_trees(members_of(name)[2])))
    except InputError as refused:
        assert_is_message(refused)
        return
    open_panes(saved)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_extreme_value_of_a_document_is_refused_or_shown(
    name: str, open_panes: Callable[[SavedDocument], None]
) -> None:
    tree, opened = members_of(name)[2], 0
    for path in places({each: tree[each] for each in ("document", "view")}):
        for value in extremes(value_at(tree, path)):
            try:
                saved = with_tree(name, with_value(tree, path, value))
            except InputError as refused:
                assert_is_message(refused)
                continue
            opened += 1
            if opened % 16 == 0:
                open_panes(saved)
    assert opened > 100


UNUSED = {
    "d_ff": ("without a block", 2**31),
    "window": ("without a window", -1),
    "seed": ("always", 2**31),
    "dropout_seed": ("without dropout", -5),
    "temperature": ("with uniform weights", "nan"),
}


@pytest.mark.parametrize("field", UNUSED)
def test_a_setting_that_is_not_used_is_checked_as_well(field: str) -> None:
    tree = members_of("module")[2]
    path = ("document", "spec", field)
    assert value_at(tree, path) is not None
    changed = with_value(tree, path, UNUSED[field][1])
    if field == "temperature":
        changed = with_value(changed, ("document", "spec", "normalisation"), "uniform")
    assert DOCUMENTS["module"][0].spec.block is TransformerBlockKind.NONE
    with pytest.raises(InputError, match=r"invalid value: “.*” of .*\."):
        with_tree("module", changed)


def test_an_edit_of_a_head_that_a_model_does_not_have_is_shown(
    open_panes: Callable[[SavedDocument], None], hand: Hand
) -> None:
    saved = with_tree("model with edits", members_of("model with edits")[2])
    model, captured = saved.document.model, saved.document.captured
    assert model
    assert captured
    assert any(edit.head >= captured.heads for edit in model.edits)
    open_panes(saved)
    assert not hand.window.panes["Layers"].grab().isNull()


# --------------------------------------------------------------------------- training runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    made_whole(folder)
    return folder


def use_run(folder: RunFolder) -> None:
    """Use a run as the command line and the lab do, without training it."""
    opened = OpenedRun(folder, is_held=False)
    try:
        assert find_lab_model(folder.path).metadata == opened.metadata
        opened.model_at(None)
        saved = read_saved_model(folder)
        prompt = opened.metadata.vocabulary.join_tokens(opened.metadata.tokens[:1])
        assert generate(saved, prompt, 3, 0, SamplingSettings()).startswith(prompt)
    finally:
        opened.close()


def was_used(folder: RunFolder) -> bool:
    """Use a run, and return whether it was accepted."""
    try:
        use_run(folder)
    except InputError:
        return False
    return True


@ONCE(4)
@given(drawn=st.data())
def test_a_run_is_refused_or_can_be_used(run: Path, tmp_path: Path, drawn: st.DataObject) -> None:
    tree = json.loads((run / "run.json").read_text(encoding="utf-8"))
    changed = drawn.draw(changed_trees(tree))
    folder = tmp_path / "copy"
    shutil.copytree(run, folder, dirs_exist_ok=True)
    (folder / "run.json").write_text(json.dumps(changed), encoding="utf-8")
    assert was_used(RunFolder(folder)) in (True, False)


def test_a_run_as_it_was_saved_can_be_used(run: Path) -> None:
    assert was_used(RunFolder(run))


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "more than once": {"tokens": ["a", "b", "a"]},
    "no tokens": {"tokens": []},
    "an empty token": {"tokens": ["a", ""]},
    "unigram baseline loss": {"frequency": "nan"},
    "bigram baseline loss": {"bigram": -1.0},
    "characters in its sample": {"sample": "x" * 20_000},
    "characters in its notices": {"notices": ["x" * 6_000] * 2},
}


@pytest.mark.parametrize("said", CONTRADICTIONS)
def test_metadata_of_a_run_that_cannot_be_is_refused(run: Path, said: str) -> None:
    tree = metadata_to_json(RunFolder(run).read_metadata())
    assert metadata_from_json(tree).tokens
    with pytest.raises(DamagedFileError, match=said) as refused:
        metadata_from_json({**tree, **CONTRADICTIONS[said]})
    assert_is_message(refused.value)


# --------------------------------------------------------------------------- settings


@pytest.fixture
def settings_window(application: QApplication) -> Iterator[QMainWindow]:
    made = window()
    yield made
    made.deleteLater()


@ONCE(2)
@given(drawn=st.data())
def test_stored_settings_of_any_values_are_read(
    settings_window: QMainWindow, drawn: st.DataObject
) -> None:
    stored = settings_file().path
    stored.unlink(missing_ok=True)
    assert store(settings_window) == stored
    tree = json.loads(stored.read_text(encoding="utf-8"))
    key = drawn.draw(st.sampled_from(sorted(tree)))
    value = drawn.draw(st.sampled_from((*NUMBERS, *TEXTS, *OTHERS)))
    stored.write_text(json.dumps({**tree, key: value}), encoding="utf-8")
    assert read_all(settings_window) in (True, False)
