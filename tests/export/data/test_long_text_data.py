"""For a text whose matrices are not stored, only a part is written, and no matrix is read whole."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.examples import examples
from tests.support.long_texts import held_shot, long_shot
from visualizer import app
from visualizer.attention.blockwise_tensor import BlockwiseTensor
from visualizer.documents.document_file import document_bytes, read_document
from visualizer.documents.open_document import open_document
from visualizer.errors import InputError
from visualizer.export.data import exported_matrices
from visualizer.export.data.data_preview import (
    OMITTED_MATRICES_NOTICE,
    create_preview_text,
    describe_file_size,
)
from visualizer.export.export_settings import ExportSettings
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.writers import export_to_stream
from visualizer.file_opening import restore_document
from visualizer.progress import ignore_progress
from visualizer.session.cell_address import Cell
from visualizer.session.token_selection import TokenSelection
from visualizer.session.view import View
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from visualizer.attention.cached_tensor import Index
    from visualizer.session.export_snapshot import ExportSnapshot

TOKENS = 300
LONG = long_shot(TOKENS, heads=2, d_out=4)
FEW_ROWS = 64
"""Maximum number of rows of a matrix that may be read together."""


@pytest.fixture
def read_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Check that few rows of a matrix are read together, and list the numbers of rows."""
    found: list[int] = []
    read = BlockwiseTensor.read

    def few(own: BlockwiseTensor, index: Index = ()) -> np.ndarray:
        numbers = read(own, index)
        found.append(numbers.size // numbers.shape[-1] if numbers.ndim else 1)
        return numbers

    monkeypatch.setattr(BlockwiseTensor, "read", few)
    yield found
    assert max(found, default=0) <= FEW_ROWS


def seen(**fields: Any) -> ExportSnapshot:
    view = View(stages=frozenset({"weights"}), heads=frozenset({0}), room=64)
    return replace(LONG, view=replace(view, **fields))


def written(snapshot: ExportSnapshot, suffix: str) -> bytes:
    file = io.BytesIO()
    export_to_stream(file, suffix, snapshot, FigureSettings())
    return file.getvalue()


def rows_of_csv(snapshot: ExportSnapshot) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(written(snapshot, ".csv").decode("utf-8-sig")))]


def ranges(size: int) -> st.SearchStrategy[range]:
    return st.tuples(st.integers(0, size - 2), st.integers(2, 40)).map(
        lambda ends: range(ends[0], min(ends[0] + ends[1], size))
    )


@examples(0.3)
@given(ranges(TOKENS), ranges(TOKENS))
def test_the_zoomed_part_is_written_with_its_place(queries: range, keys: range) -> None:
    lines = rows_of_csv(seen(zoom=ZoomRange(queries, keys)))
    wanted = LONG.run.trace.read("weights", (0,))[queries.start : queries.stop]
    assert [int(line["row"]) - 1 for line in lines] == [*np.repeat([*queries], len(keys))]
    assert [int(line["column"]) - 1 for line in lines] == [*keys] * len(queries)
    found = np.array([float(line["value"]) for line in lines], np.float32)
    np.testing.assert_allclose(
        found, wanted[:, keys.start : keys.stop].ravel(), rtol=1e-5, atol=1e-9
    )
    assert {line["column token"] for line in lines} == {f"w{key % 7}" for key in keys}


@pytest.mark.usefixtures("read_rows")
def test_a_pinned_cell_has_its_row_and_chosen_tokens_theirs() -> None:
    pinned = seen(pinned=Cell("weights", (1, 200, 3)))
    lines = rows_of_csv(pinned)
    assert {(line["head"], line["row"]) for line in lines} == {("1", "201"), ("2", "201")}
    assert len(lines) == 2 * TOKENS
    chosen = replace(pinned.view, tokens=TokenSelection(frozenset({7, 8, 250})))
    assert {line["row"] for line in rows_of_csv(replace(pinned, view=chosen))} == {"8", "9", "251"}
    table = written(replace(pinned, view=chosen), ".md").decode()
    assert "rows 8–9, 251" in table
    assert len([line for line in table.splitlines() if line.startswith("| w")]) == 6


@pytest.mark.usefixtures("read_rows")
@pytest.mark.parametrize("suffix", [".csv", ".md"])
def test_too_much_is_rejected_with_what_fits(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported_matrices, "MAX_TABLE_NUMBERS", 50_000)
    with pytest.raises(InputError, match="Zoom in to at most 223 × 223 tokens, pin a cell"):
        written(seen(), suffix)
    fitting = seen(zoom=ZoomRange(range(223), range(223)))
    assert written(fitting, suffix).count(b"\n") > 223
    with pytest.raises(InputError, match="a table can contain at most 50,000"):
        describe_file_size(seen(), ExportSettings(suffix))


@pytest.mark.usefixtures("read_rows")
@pytest.mark.parametrize("suffix", [".csv", ".md", ".npz", ".json", ".safetensors"])
def test_previews_and_sizes_read_few_rows(suffix: str) -> None:
    settings = ExportSettings(suffix)
    one = seen(stages=frozenset({"weights", "context", "queries"}), heads=None)
    assert create_preview_text(one, settings, ignore_progress)
    assert "About" in describe_file_size(one, settings)


def test_a_preview_reads_the_rows_that_it_shows(read_rows: list[int]) -> None:
    one = seen()
    assert create_preview_text(one, ExportSettings(".csv"), ignore_progress).count("\n") == 40
    assert sum(read_rows) <= FEW_ROWS


@pytest.mark.usefixtures("read_rows")
def test_the_size_of_a_part_is_that_of_its_file() -> None:
    for fields in (
        {"zoom": ZoomRange(range(20, 90), range(60))},
        {"pinned": Cell("weights", (0, 9, 1))},
    ):
        one = seen(**fields)
        said = describe_file_size(one, ExportSettings(".csv"))
        size = len(written(one, ".csv"))
        number, unit = said.removeprefix("About ").split()[:2]
        times = {"KB": 1e3, "kB": 1e3, "KiB": 1024, "MB": 1e6, "MiB": 2**20}[unit.rstrip(".")]
        assert float(number) * times == pytest.approx(size, rel=0.15)


@pytest.mark.usefixtures("read_rows")
def test_whole_files_have_the_vectors_and_open_again(tmp_path: Path) -> None:
    arrays = np.load(io.BytesIO(written(LONG, ".npz")))
    held = {"input", "queries", "keys", "values"}
    assert held <= {*arrays}
    assert not {"scores", "weights", "context"} & {*arrays}
    np.testing.assert_array_equal(arrays["keys"], LONG.run.trace.read("keys"))
    whole = json.loads(written(LONG, ".json"))
    assert {stage["name"] for stage in whole["stages"]} == held
    said = describe_file_size(LONG, ExportSettings(".npz"))
    assert OMITTED_MATRICES_NOTICE in said
    for suffix in (".npz", ".json"):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(written(LONG, suffix))
        saved = open_document(path)
        assert saved.document.text == LONG.document.text
        run, _ = restore_document(saved, app.compute)
        np.testing.assert_allclose(
            run.trace.read("weights", (0, 9)), LONG.run.trace.read("weights", (0, 9)), rtol=1e-5
        )


@pytest.mark.usefixtures("read_rows")
def test_a_file_with_matrices_opens_as_a_text_that_is_too_long_for_them(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(written(held_shot(TOKENS, heads=2, d_out=4), ".npz"))
    run, _ = restore_document(open_document(path), lambda document, kept: LONG.run)
    assert not [said for said in run.notices if "differ" in said]


@pytest.mark.usefixtures("read_rows")
def test_a_document_with_numbers_has_the_vectors() -> None:
    content = document_bytes(LONG.document, LONG.view, LONG.run)
    assert len(content) < 40 * TOKENS * 4 * 4
    saved = read_document(io.BytesIO(content))
    assert saved.recorded is not None
    assert set(saved.recorded.missing) == {*LONG.run.trace.names} - {
        "input", "queries", "keys", "values",
    }  # fmt: skip
    run, _ = restore_document(saved, app.compute)
    np.testing.assert_allclose(
        run.trace.read("weights", (1, 250)), LONG.run.trace.read("weights", (1, 250)), rtol=1e-5
    )


def test_masks_that_are_too_large_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "visualizer.export.data.data_writers.MAX_MASK_BYTES"
    monkeypatch.setattr(place, 4 * TOKENS**2 - 1)
    tracemalloc.start()
    with pytest.raises(InputError, match="of 300 × 300 cells, which take"):
        written(LONG, ".safetensors")
    assert tracemalloc.get_traced_memory()[1] < TOKENS**2
    tracemalloc.stop()
