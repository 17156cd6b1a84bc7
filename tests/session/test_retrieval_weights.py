"""Weights on marked keys agree with those computed from all weights in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.screens import resolved
from visualizer.attention import run as attention_run
from visualizer.attention.run import run
from visualizer.attention.spec import AttentionSpec, DropoutMode, MaskKind
from visualizer.features.head_scatter.presenter import RETRIEVAL as MEASURE
from visualizer.features.head_scatter.presenter import present_scatter
from visualizer.features.head_table.presenter import RETRIEVAL, present_head_table
from visualizer.session.cell_address import Cell
from visualizer.session.retrieval_weights import (
    available_retrieval_weights,
    is_retrieval_complete,
    read_retrieval_weights,
    retrieval_target,
)
from visualizer.session.token_selection import TokenRole, TokenSelection
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.resolved_view import ResolvedView

TEXT = tuple(f"w{number}" for number in range(60))
PINNED = Cell("weights", (1, 40, 7))
RANGE = TokenSelection(chosen=frozenset({3, 4, 5, 30}), role=TokenRole.KEY)


def a_run(**fields: Any) -> Run:
    given: dict[str, Any] = {"d_in": 16, "d_out": 16, "heads": 4, "mask": MaskKind.CAUSAL}
    return run((TEXT,), AttentionSpec(**{**given, "mode": DropoutMode.EVAL, **fields}))


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)


def read(shown: ResolvedView) -> np.ndarray:
    read_retrieval_weights(shown, lambda: False)
    found = available_retrieval_weights(shown)
    assert found is not None
    assert found.is_complete
    return found.values


@pytest.mark.parametrize("selection", [TokenSelection(), RANGE])
def test_the_measure_is_the_sum_of_the_weights_on_the_chosen_keys_or_the_pinned_one(
    selection: TokenSelection,
) -> None:
    made = a_run()
    keys = sorted(selection.chosen) or [7]
    found = available_retrieval_weights(resolved(made, View(pinned=PINNED, tokens=selection)))
    assert found is not None
    weights = made.trace.read("weights").astype(np.float64)
    np.testing.assert_allclose(found.values, [weights[:, 40, keys].sum(-1)], rtol=1e-6)
    assert found.chance == (len(keys) / 41,)


@pytest.mark.usefixtures("by_blocks")
@pytest.mark.parametrize("selection", [TokenSelection(), RANGE])
def test_for_a_long_text_the_measure_is_the_same_and_read_head_by_head(
    selection: TokenSelection, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = a_run(mask=MaskKind.WINDOW, window=20)
    assert long.trace.is_blockwise
    shown = resolved(long, View(pinned=PINNED, tokens=selection))
    read_retrieval_weights(shown, lambda: True)
    assert not is_retrieval_complete(shown)
    partly = available_retrieval_weights(shown)
    assert partly is not None
    assert np.isfinite(partly.values).tolist() == [[True, False, False, False]]
    found = read(shown)
    monkeypatch.undo()
    whole = a_run(mask=MaskKind.WINDOW, window=20).trace.read("weights").astype(np.float64)
    keys = sorted(selection.chosen) or [7]
    np.testing.assert_allclose(found, [whole[:, 40, keys].sum(-1)], atol=1e-7)
    within = [key for key in keys if 20 < key <= 40]
    final = available_retrieval_weights(shown)
    assert final is not None
    assert final.chance == (len(within) / 20,)


@pytest.mark.parametrize(
    "view",
    [
        View(),
        View(pinned=Cell("output", (40, 3))),
        View(pinned=Cell("values", (1, 40, 2))),
        View(tokens=RANGE),
    ],
)
def test_nothing_is_marked_without_a_query_and_a_key(view: View) -> None:
    shown = resolved(a_run(), view)
    assert retrieval_target(shown) is None
    assert available_retrieval_weights(shown) is None
    assert is_retrieval_complete(shown)


def test_a_query_of_a_vector_stage_suffices_if_keys_are_chosen() -> None:
    shown = resolved(a_run(), View(pinned=Cell("context", (1, 40, 2)), tokens=RANGE))
    place = retrieval_target(shown)
    assert place is not None
    assert (place.query, place.keys) == (40, RANGE.chosen)


def test_the_table_has_a_column_for_the_measure_and_names_the_leading_head() -> None:
    made = a_run()
    shown = resolved(made, View(pinned=PINNED, tokens=RANGE))
    table = present_head_table(shown, None)
    assert table is not None
    assert present_head_table(shown, table) is table
    at = table.columns.index(RETRIEVAL)
    weights = made.trace.read("weights")[:, 40, [3, 4, 5, 30]].astype(np.float64).sum(-1)
    assert [row.values[at] for row in table.rows[:-1]] == pytest.approx(list(100 * weights))
    assert table.uniform[at] == pytest.approx(100 * 4 / 41)
    plain = present_head_table(resolved(made, View()), table)
    assert plain is not None
    assert RETRIEVAL not in plain.columns


@pytest.mark.usefixtures("by_blocks")
def test_before_a_long_text_is_measured_the_retrieval_column_is_the_only_one() -> None:
    long = a_run()
    shown = resolved(long, View(pinned=PINNED))
    first = present_head_table(shown, None)
    assert first is not None
    assert {row.texts for row in first.rows} == {("–",)}
    assert first.sentences == ()
    values = read(shown)
    table = present_head_table(shown, first)
    assert table is not None
    assert table.offer is not None
    assert table.columns == (RETRIEVAL,)
    assert [row.values[0] for row in table.rows] == pytest.approx((100 * values[0]).tolist())
    assert present_head_table(shown, table) is table


def test_small_weights_of_a_long_text_are_not_shown_as_0() -> None:
    written = [RETRIEVAL.format_value(value) for value in (0.0148, 0.1, 62.34, 0.0)]
    assert written == ["0.0148", "0.1", "62.3", "0.0"]


def test_the_scatter_plot_offers_the_measure_if_a_position_is_marked() -> None:
    made = a_run()
    shown = resolved(made, View(pinned=PINNED))
    options = shown.view.scatter
    view = View(pinned=PINNED, scatter=replace(options, up=MEASURE.name))
    panel = present_scatter(resolved(made, view))
    assert MEASURE in panel.choices
    assert panel.up is not None
    np.testing.assert_allclose(panel.up.values[0], made.trace.read("weights")[:, 40, 7], rtol=1e-6)
    assert "(uniform 0.02" in panel.describe_head((0, 1))
    unpinned = present_scatter(resolved(made, View(scatter=view.scatter)))
    assert MEASURE not in unpinned.choices
    assert unpinned.up is not None
    assert unpinned.up.measure.name == "induction"
