"""Stages as xarray arrays, pandas tables and matplotlib images."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import visualizer
from visualizer import Attention, InputError
from visualizer.api import labelled_arrays
from visualizer.heatmap.colour_mapping import colour_table
from visualizer.widgets.theme import DARK, PRINT

pytestmark = pytest.mark.usefixtures("application", "one_thread")
WORDS = ("the", "cat", "sat", "down")


def attention(**settings: Any) -> Attention:
    return visualizer.attend(" ".join(WORDS), heads=2, embedding_size=4, output_size=4, **settings)


@pytest.fixture
def axes() -> Any:
    return importlib.import_module("matplotlib.figure").Figure().subplots()


def test_an_array_has_the_axes_of_its_stage() -> None:
    found = attention()
    weights = found.to_xarray("weights")
    assert weights.dims == found.dims("weights") == ("head", "query", "key")
    np.testing.assert_array_equal(weights, found["weights"])
    assert tuple(weights.key_label.values) == tuple(weights.query_label.values) == WORDS
    keys = found.to_xarray("keys")
    assert keys.dims == found.dims("keys")
    assert tuple(keys.token_label.values) == WORDS


def test_layers_keep_their_indices() -> None:
    given = np.random.default_rng(0).dirichlet(np.ones(3), (4, 2, 3))
    found = visualizer.from_arrays(given, WORDS[:3])
    assert found.dims("weights") == ("layer", "head", "query", "key")
    last = found.to_xarray("weights").sel(layer=3, head=1)
    np.testing.assert_array_equal(last, found["weights", 3, 1])


def test_keys_of_another_text_have_their_own_tokens() -> None:
    given = np.random.default_rng(0).dirichlet(np.ones(4), (1, 2, 3))
    found = visualizer.from_arrays(given, list("abc"), key_tokens=WORDS).to_xarray("weights")
    assert tuple(found.query_label.values) == ("a", "b", "c")
    assert tuple(found.key_label.values) == WORDS


def test_each_text_of_a_batch_has_its_tokens() -> None:
    found = visualizer.attend(["a b c", "d e"])
    array, table = found.to_xarray("weights"), found.to_dataframe("weights")
    assert array.dims == ("text", "head", "query", "key")
    assert array.query_label.dims == ("text", "query")
    rows = table[(table.text == 1) & (table["query"] == 1)]
    assert {*rows.query_label} == {"e"}
    assert list(rows.key_label[:2]) == ["d", "e"]


def test_a_table_has_one_row_for_each_value() -> None:
    found = attention()
    table = found.to_dataframe("weights")
    assert len(table) == found["weights"].size
    one = table[(table["head"] == 1) & (table["query"] == 2) & (table["key"] == 1)]
    assert one.weights.item() == found["weights", 1, 2, 1]
    assert (one.query_label.item(), one.key_label.item()) == ("sat", "cat")
    assert (table.groupby(["head", "query"]).weights.sum().round(5) == 1).all()


def test_a_table_that_is_too_large_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled_arrays, "MAX_TABLE_ROWS", 31)
    with pytest.raises(InputError, match="32 values"):
        attention().to_dataframe("weights")
    with pytest.raises(InputError, match="no stage"):
        attention().to_dataframe("nothing")


@pytest.mark.parametrize("options", [{}, {"colour_map": "magma"}, {"theme": "dark"}])
def test_matplotlib_shows_the_values_in_the_colours_of_the_figure(
    axes: Any, options: dict[str, str]
) -> None:
    found = attention(mask="causal")
    image = found.figure("weights", heads=1, **options).plot(ax=axes)  # type: ignore[arg-type]
    shown = image.get_array()
    np.testing.assert_array_equal(shown.mask, np.triu(np.ones((4, 4), bool), 1))
    np.testing.assert_array_equal(shown.compressed(), found["weights", 1][np.tril_indices(4)])
    theme = DARK if "theme" in options else PRINT
    words = colour_table(options.get("colour_map", "plum"), theme)
    assert image.cmap.N == 253
    red, green, blue, _ = (np.array(image.cmap(1.0)) * 255).round().astype(int)
    assert words[252] & 0xFFFFFF == red << 16 | green << 8 | blue
    assert [each.get_text() for each in axes.get_yticklabels()] == [*WORDS]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")


def test_cells_are_at_their_indices(axes: Any) -> None:
    found = attention()
    image = found.figure("context", heads=0).plot(axes)
    assert image.get_extent() == [-0.5, 1.5, 3.5, -0.5]
    np.testing.assert_array_equal(image.get_array(), found["context", 0])
    assert image.norm.vmin == -image.norm.vmax


def test_several_heatmaps_do_not_fit_in_the_same_axes(axes: Any) -> None:
    for stages, heads in ((["weights"], None), (["scores", "weights"], 0)):
        with pytest.raises(InputError, match="has 2"):
            attention().figure(stages, heads=heads).plot(axes)
