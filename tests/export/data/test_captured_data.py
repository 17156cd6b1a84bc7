"""Data export of captured attention, which has query and key tokens and layers but no module."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from tests.export.data.test_writers import as_csv, as_json, as_markdown, table
from tests.support.screens import resolved
from tests.support.small_runs import KEYS, QUERIES, elsewhere, replayed
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.export.data.exported_matrices import ExportMatrix, shown_matrices
from visualizer.models.model_source import ModelSource
from visualizer.session.document import Document
from visualizer.session.view import View

HARMLESS = ("The", "cat", "<b>sat", "'=1+1", "")


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1])
def test_a_table_has_its_queries_before_and_its_keys_above(layer: int, head: int) -> None:
    header, *rows = table(as_csv(replayed(), ExportMatrix("weights", head, (layer,))))
    assert header == ["query", *HARMLESS]
    assert tuple(row[0] for row in rows) == QUERIES
    numbers = np.array([row[1:] for row in rows]).astype(np.float32)
    np.testing.assert_array_equal(numbers, elsewhere().to_array()[layer, head])


def test_a_line_per_number_says_which_layer() -> None:
    run = replayed()
    sheets = shown_matrices(resolved(run, View(spread=True))) + shown_matrices(
        resolved(run, View(layer=1))
    )
    lines = list(csv.DictReader(io.StringIO(as_csv(run, *sheets).removeprefix("\ufeff"))))
    assert len(lines) == 4 * 3 * 5
    assert "text" not in lines[0]
    for line in lines:
        layer, head, row, column = (
            int(line[name]) - 1 for name in ("layer", "head", "row", "column")
        )
        assert np.float32(line["value"]) == elsewhere().to_array()[layer, head, row, column]
        assert line["row token"] == QUERIES[row]
        assert line["column token"] == HARMLESS[column]


def test_a_layer_has_its_number_in_the_model() -> None:
    """The exported number is the one in the window if some layers have no attention."""
    run, model = replayed(), ModelSource("folder", "a model", "0", layers=(2, 5))
    shown = resolved(run, View(spread=True), Document(model=model))
    sheets = shown_matrices(shown)
    lines = csv.DictReader(io.StringIO(as_csv(run, *sheets).removeprefix("\ufeff")))
    assert sorted({line["layer"] for line in lines}) == ["3", "6"]
    assert [sheet.title(run) for sheet in sheets] == [
        f"Weights, head 1, layer {shown.display_number('layer', at)}" for at in (0, 1)
    ]


def test_places_without_a_token_are_numbered() -> None:
    run = create_captured_run(elsewhere(is_named=False))
    header, *rows = table(as_csv(run, ExportMatrix("weights", 0, run.trace.leading_index())))
    assert header == ["query", "1", "2", "3", "4", "5"]
    assert [row[0] for row in rows] == ["1", "2", "3"]


def test_a_table_in_markdown_names_the_file_and_the_layer() -> None:
    title, _, header, rule, *rows = as_markdown(
        replayed(), ExportMatrix("weights", 1, (1,))
    ).splitlines()
    assert title == "**Weights, head 2, layer 2** · attn.npz · 2 layers × 2 heads × 3 × 5"
    assert header.startswith("| query ↓ key → | The | cat | \\<b\\>sat | =1+1 |")
    assert rule.count("---") == 6
    written = [[float(cell) for cell in row.strip("| ").split(" | ")[1:]] for row in rows]
    np.testing.assert_allclose(written, elsewhere().to_array()[1, 1], atol=5e-5)


def test_json_has_no_spec_and_the_tokens_of_keys() -> None:
    run = replayed()
    read = as_json(run)
    assert read["spec"] is None
    assert read["captured"] == {"file": "attn.npz", "key_tokens": list(KEYS)}
    assert read["texts"] == [list(QUERIES)] * 2
    assert read["parameters"] == {}
    (stage,) = read["stages"]
    assert stage["dims"] == ["layer", "head", "query", "key"]
    assert stage["shape"] == [2, 2, 3, 5]
    np.testing.assert_array_equal(np.float32(stage["values"]), elsewhere().to_array())


def test_one_layer_is_a_matrix_per_head() -> None:
    run = create_captured_run(elsewhere((1, 1, 4, 4), is_named=False))
    assert ExportMatrix("weights", 0).title(run) == "Weights, head 1"
    read = as_json(run)
    assert read["stages"][0]["dims"] == ["head", "query", "key"]
    assert read["captured"]["key_tokens"] == ["1", "2", "3", "4"]
    assert read["texts"] == [["1", "2", "3", "4"]]


def test_stages_without_finite_values_are_written_unchanged() -> None:
    run = replayed()
    sheets = shown_matrices(
        resolved(run, View(folds=frozenset({HeadAggregate.MEAN}), lens=WeightTransform.TIMES_VALUE))
    )
    assert [sheet.title(run) for sheet in sheets] == [
        "Weights, head 1, layer 1",
        "Weights, head 2, layer 1",
        "Weights, mean of the heads, layer 1",
    ]
    assert {sheet.qualified_name(run) for sheet in sheets} == {"weights"}
    np.testing.assert_allclose(sheets[2].read(run), elsewhere().to_array()[0].mean(0), rtol=1e-6)
