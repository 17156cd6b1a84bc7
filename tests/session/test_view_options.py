"""Combinations of view options: heads, head aggregates, texts, zoom and predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.examples import examples
from tests.support.screens import needs, present, resolved, warm
from tests.support.small_runs import a_run, board, panel
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.spec import MaskKind
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.comparison_board_presenter import present_comparison_board
from visualizer.session.cell_address import Cell
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.session.view_options import ColourLimits, ColourOptions
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.screen import Screen

LONG = " ".join(f"w{at}" for at in range(40))
RUN = a_run(LONG, heads=3, d_in=6, d_out=6)
CLOSE = View(zoom=ZoomRange(range(8), range(8)))
MEAN_ALONE: dict[str, Any] = {"heads": frozenset(), "folds": frozenset({HeadAggregate.MEAN})}


def screen(run: Run, view: View, previous: Screen | None = None) -> Screen:
    return present(Document(), view, run, None, False, previous)


# ------------------------------------------------------------------------------ heads and texts


def test_texts_side_by_side_show_the_first_head_if_only_aggregates_have_a_row() -> None:
    computed = a_run("one two three", "four five", heads=2)
    shown = board(computed, spread=True, stages=frozenset({"weights"}), **MEAN_ALONE)
    assert [(one.leading, one.head) for one in shown.heatmaps] == [((0,), 0), ((1,), 0)]


# ------------------------------------------------------------------------------------ overview


def test_the_overview_shows_the_stage_of_the_pinned_cell() -> None:
    first = screen(RUN, CLOSE)
    overview = first.panel(BOARD_CONTENTS).board.overview
    assert overview
    assert (overview.stage, overview.head) == ("weights", 0)
    for stage, head in (("weights", 2), ("scores", 1)):
        then = screen(RUN, replace(CLOSE, pinned=Cell(stage, (head, 5, 3))), first)
        overview = then.panel(BOARD_CONTENTS).board.overview
        assert overview
        assert (overview.stage, overview.head) == (stage, head)


@pytest.mark.parametrize("comparison", [None, Comparison(ComparisonKind.KEPT, kept=RUN)])
def test_an_unchanged_overview_is_the_same_object(comparison: Comparison | None) -> None:
    view = replace(CLOSE, comparison=comparison)
    first = screen(RUN, view)
    then = screen(RUN, replace(view, hovered=Cell("weights", (0, 5, 3))), first)
    assert first.panel(BOARD_CONTENTS).board.overview is then.panel(BOARD_CONTENTS).board.overview
    assert then.panel(BOARD_CONTENTS).board is first.panel(BOARD_CONTENTS).board


def test_the_data_of_an_overview_is_prefetched() -> None:
    computed = a_run(" ".join(f"w{at}" for at in range(1000)), heads=1, d_in=2, d_out=2)
    view, then = View(), View(zoom=ZoomRange(range(900), range(900)))
    warm(computed, view)
    before = [
        computed.trace.cached_stage_tensor(name).cached_keys for name in ("scores", "weights")
    ]
    warm(computed, then)
    after = [computed.trace.cached_stage_tensor(name).cached_keys for name in ("scores", "weights")]
    assert before != after
    assert needs(computed, view) != needs(computed, then)


# --------------------------------------------------------------------------------- comparisons


def test_the_largest_differences_of_another_text_are_prefetched() -> None:
    texts = ("one two three", "four five six")
    kept, live = a_run(*texts, mask=MaskKind.CAUSAL), a_run(*texts, mask=MaskKind.NONE)
    view = View(comparison=Comparison(ComparisonKind.KEPT, kept=kept))
    assert needs(live, view) != needs(live, replace(view, text=1))
    present_comparison_board(resolved(live, view), Board())


# ---------------------------------------------------------------------- transforms and colours


def test_the_first_token_is_also_hidden_in_blocks_of_rows() -> None:
    zoom = ZoomRange(range(32), range(8))
    shown = panel(RUN, "weights", zoom=zoom, room=16, lens=WeightTransform.WITHOUT_FIRST)
    assert shown.values.shape == (16, 8)
    assert (shown.rows.block, shown.columns.block) == (2, 1)
    assert shown.hidden is not None
    np.testing.assert_array_equal(shown.hidden, np.broadcast_to(np.arange(8) == 0, (16, 8)))
    wide = panel(
        RUN,
        "weights",
        zoom=ZoomRange(range(8), range(32)),
        room=16,
        lens=WeightTransform.WITHOUT_FIRST,
    )
    assert wide.columns.block == 2
    assert wide.hidden is None


@pytest.mark.parametrize(
    ("typed", "found"),
    [((-0.5, 0.25), (0.0, 0.25)), ((-2.0, -1.0), None), ((0.1, 0.2), (0.1, 0.2))],
)
def test_the_colour_range_of_weights_does_not_begin_below_0(
    typed: tuple[float, float], found: tuple[float, float] | None
) -> None:
    chosen = ColourOptions(limits=ColourLimits.TYPED, typed=(("weights", *typed),))
    colour = panel(RUN, "weights", colouring=chosen).colour
    assert not colour.is_signed
    if found:
        assert (colour.low, colour.high, colour.limits) == (*found, ColourLimits.TYPED)
    else:
        assert colour.limits is ColourLimits.SHARED


# ------------------------------------------------------------------------------------- pooling

SPANS = st.tuples(st.integers(0, 38), st.integers(2, 40)).map(
    lambda ends: range(ends[0], min(ends[0] + ends[1], 40))
)


def farthest(block: np.ndarray) -> float:
    """Return the value in a block that is farthest from 0; −∞ only if there is no other value."""
    numbers = block[block != -np.inf]
    if not numbers.size:
        return -np.inf
    size = np.abs(numbers).max()
    return float(size if size in numbers else -size)


@examples(0.4)
@given(queries=SPANS, keys=SPANS, room=st.integers(4, 48), lens=st.sampled_from(WeightTransform))
def test_each_drawn_cell_is_the_value_of_its_block_farthest_from_0(
    queries: range, keys: range, room: int, lens: WeightTransform
) -> None:
    stages = frozenset({"keys", "masked", "weights", "output"})
    folds, part = frozenset({HeadAggregate.MAX}), ZoomRange(queries, keys)
    for one in board(RUN, zoom=part, room=room, lens=lens, folds=folds, stages=stages).heatmaps:
        numbers = seen(one.stage, lens)
        if one.fold:
            numbers = numbers.max(axis=0)
        elif one.head is not None:
            numbers = numbers[one.head]
        found = [
            [
                farthest(numbers[row : row + one.rows.block, column : column + one.columns.block])
                for column in one.columns.visible_range[:: one.columns.block]
            ]
            for row in one.rows.visible_range[:: one.rows.block]
        ]
        np.testing.assert_allclose(one.values, np.array(found), rtol=1e-4, atol=1e-6)
        rows = keys if one.stage == "keys" else queries
        assert {*rows} <= {*one.rows.visible_range}
        assert {*one.columns.visible_range} >= ({*keys} if one.columns.name == "key" else set())


def seen(stage: str, lens: WeightTransform) -> np.ndarray:
    """Return a stage with a weight transform, computed in float64 with NumPy."""
    numbers = RUN.trace.read(stage).astype(np.float64)
    if stage != "weights" or lens is WeightTransform.PLAIN:
        return numbers
    if lens is WeightTransform.TIMES_VALUE:
        values = RUN.trace.read("values").astype(np.float64)  # head key d_head
        return np.asarray(numbers * np.sqrt((values**2).sum(axis=-1))[:, None])
    rest = numbers.copy()  # head query key
    rest[..., 0] = 0
    sums = rest.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(rest, sums, out=np.zeros_like(rest), where=sums != 0))
