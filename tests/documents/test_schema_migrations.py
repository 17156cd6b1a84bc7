"""Files of every schema version can be opened, and each version has a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.golden_documents import BATCH, GOLDEN, golden
from visualizer.documents.open_document import open_document
from visualizer.documents.schema import MIGRATIONS, SCHEMA_VERSION, migrate, without_unsaved_fields
from visualizer.file_opening import restore_document

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.document import Document

FILES = sorted(path.name for path in GOLDEN.glob("*.attention"))


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_every_schema_opens(name: str) -> None:
    saved = open_document(GOLDEN / name)
    document, view, made = golden()[name.split("-")[0]]
    assert saved.document == document
    assert saved.view == without_unsaved_fields(view)
    assert (saved.recorded is None) == (made is None)


def test_there_are_files_of_today() -> None:
    assert {f"{name}-{SCHEMA_VERSION}.attention" for name in golden()} <= set(FILES)


def test_there_is_a_step_from_every_schema() -> None:
    assert set(MIGRATIONS) == set(range(1, SCHEMA_VERSION))


def test_the_steps_are_taken_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visualizer.documents.schema.SCHEMA_VERSION", 3)
    monkeypatch.setitem(MIGRATIONS, 1, lambda tree: {**tree, "way": [1]})
    monkeypatch.setitem(MIGRATIONS, 2, lambda tree: {**tree, "way": [*tree["way"], 2]})
    assert migrate({"schema": 1}) == {"schema": 3, "way": [1, 2]}
    assert migrate({"schema": 3, "way": []}) == {"schema": 3, "way": []}


def test_what_was_before_captured_attention_has_none() -> None:
    older = {"schema": 1, "document": {"text": "a"}, "view": {"comparison": {"document": {}}}}
    none = {"captured": None, "labels": "", "weights_source": ""}
    assert migrate(older) == {
        "schema": SCHEMA_VERSION,
        "document": {"text": "a", **none, "model": None},
        "view": {
            "comparison": {"document": {**none, "model": None}},
            "layer": 0,
            "large": None,
            "head_order": "layer",
            "flow": False,
        },
    }


@pytest.mark.parametrize(
    ("captured", "view"),
    [
        (None, {"text": 2, "layer": 0, "large": None}),
        ({"layers": 3}, {"text": 0, "layer": 2, "large": None}),
    ],
)
def test_a_place_in_captured_attention_is_a_layer(
    captured: dict[str, object] | None, view: dict[str, object]
) -> None:
    older = {"schema": 2, "document": {"captured": captured}, "view": {"text": 2}}
    none = {"vectors": None, "patches": None}
    now = {"captured": captured and {**captured, **none}, "model": None, "weights_source": ""}
    expected = {
        "schema": SCHEMA_VERSION,
        "document": now,
        "view": {**view, "head_order": "layer", "flow": False},
    }
    assert migrate(older) == expected


@pytest.mark.parametrize(
    "tree", [{}, {"view": None}, {"document": [], "view": None}, {"document": "captured"}]
)
def test_a_step_leaves_what_is_damaged_to_who_reads_it(tree: dict[str, object]) -> None:
    assert migrate({"schema": 2, **tree}) == {"schema": SCHEMA_VERSION, **tree}


@pytest.mark.parametrize("schema", range(1, SCHEMA_VERSION + 1))
def test_recorded_numbers_are_shown_as_they_are_in_the_file(schema: int) -> None:
    def never(document: Document, previous: Run | None) -> Run:
        raise AssertionError("nothing is to be computed")

    saved = open_document(GOLDEN / f"recorded-{schema}.attention")
    with np.load(GOLDEN / f"recorded-{schema}.attention") as arrays:
        run, view = restore_document(saved, never)
        for name in run.trace.names:
            np.testing.assert_array_equal(run.trace.read(name), arrays[f"trace/{name}"])
    assert saved.document == BATCH
    assert view.text == 1
    assert run.device == "recorded on CPU"
