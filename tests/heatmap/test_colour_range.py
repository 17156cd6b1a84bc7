"""The automatic range follows the same rule in every image of the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.heatmap.test_panel_paint import SMALL, Painted
from tests.support.hand_made_panels import a_heatmap
from tests.support.long_texts import held_shot, long_shot, long_text
from tests.support.screens import resolved
from tests.support.small_runs import a_run, board, panel
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.spec import MaskKind
from visualizer.features.layer_overview.presenter import present_layer_overview
from visualizer.heatmap.board_presenter import BoardContents, draw_panels, present_board_contents
from visualizer.heatmap.colour_range import (
    MAX_COMPUTED_CELLS,
    MAX_SAMPLED_CELLS,
    MIN_SAMPLED_ROWS,
    WEIGHT_ENDS,
    AutomaticColourRange,
    find_cached_range,
    find_range_of_samples,
    sample_cells,
    sample_layer_weights,
)
from visualizer.heatmap.panel_colour_scale import ColourScale, out_of_range_masks
from visualizer.heatmap.panel_margins import format_colour_bar_texts
from visualizer.lab.attention_view.presenter import create_board
from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.language.training_settings import ModelKind
from visualizer.progress import ignore_progress
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.timeline import PlaybackPosition, PlaybackState
from visualizer.session.view import View
from visualizer.session.view_options import ColourCurve, ColourLimits
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.run import Run

SENTENCE = "The cat sat on the mat because it was tired and slept"


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    powers = np.where(allowed, np.exp(scores), 0)
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def exceeding(weights: np.ndarray, allowed: np.ndarray, end: float) -> tuple[bool, bool]:
    """Return whether too many of all weights, or of the weights in long rows, exceed an end.

    Rounding may raise a weight of 1 above 1.
    """
    all_cells = all_beyond = long_cells = long_beyond = 0
    for head in weights:
        for row, open_ in zip(head.tolist(), allowed.tolist(), strict=True):
            of_row = [value for value, is_open in zip(row, open_, strict=True) if is_open]
            beyond = sum(value > end and value > 1.001 * (end == 1) for value in of_row)
            all_cells, all_beyond = all_cells + len(of_row), all_beyond + beyond
            if len(of_row) >= 4:
                long_cells, long_beyond = long_cells + len(of_row), long_beyond + beyond
    return 10 * all_beyond > all_cells, 50 * long_beyond > long_cells


@given(
    st.integers(1, 3),
    st.integers(1, 14),
    st.floats(0.01, 8),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_weights_end_at_the_smallest_listed_value_that_few_exceed(
    heads: int, tokens: int, spread: float, is_causal: bool, seed: int
) -> None:
    scores = spread * np.random.default_rng(seed).normal(size=(heads, tokens, tokens))
    allowed = np.tri(tokens, dtype=bool) if is_causal else np.ones((tokens, tokens), dtype=bool)
    weights = softmax(scores, allowed)
    found = find_range_of_samples([sample_layer_weights(weights, allowed)], is_share=True)
    assert found.end in WEIGHT_ENDS
    assert exceeding(weights, allowed, found.end) == (False, False)
    for smaller in WEIGHT_ENDS[: WEIGHT_ENDS.index(found.end)]:
        assert any(exceeding(weights, allowed, smaller))
    assert found.is_exceeded == bool((weights > found.end * 1.001 ** (found.end == 1)).any())


@pytest.mark.parametrize("stage", ["queries", "scores", "masked", "context", "output"])
def test_other_stages_end_at_the_98th_percentile_of_all_heads(stage: str) -> None:
    computed = a_run(SENTENCE, mask=MaskKind.CAUSAL, heads=2, d_in=8, d_out=8)
    numbers = computed.trace.read(stage)
    expected = np.percentile(np.abs(numbers[np.isfinite(numbers)]), 98)
    colours = {shown.colour for shown in board(computed, stages=frozenset({stage})).heatmaps}
    (colour,) = colours
    assert colour.high == -colour.low == pytest.approx(float(expected))
    assert colour.is_exceeded
    assert format_colour_bar_texts(panel(computed, stage, None if stage == "output" else 0))[
        2
    ].startswith("≥ ")


def test_the_range_ends_at_the_largest_number_if_nearly_all_are_0() -> None:
    values = np.zeros((20, 20))
    values[3, 4] = -7
    assert find_range_of_samples([sample_cells(values)]) == AutomaticColourRange(7, False)
    assert find_range_of_samples([sample_cells(np.zeros((2, 2)))]).end > 0
    assert find_range_of_samples([sample_cells(np.full((2, 2), np.nan))]).end > 0


def test_too_many_weights_above_1_have_their_own_end() -> None:
    kept = sample_cells(np.array([[2.0, 0.0]]), np.array([[True, False]]))
    assert find_range_of_samples([kept], is_share=True) == AutomaticColourRange(2, False)
    times = panel(a_run(SENTENCE), "weights", lens=WeightTransform.TIMES_VALUE)
    assert times.colour.high not in WEIGHT_ENDS
    assert times.colour.low == 0


def test_the_mean_of_the_heads_has_the_range_of_the_heads() -> None:
    for stage in ("weights", "scores"):
        shown = board(a_run(), stages=frozenset({stage}), folds=frozenset({HeadAggregate.MEAN}))
        assert len(shown.heatmaps) == 3
        assert len({heatmap.colour for heatmap in shown.heatmaps}) == 1


# ------------------------------------------------------------------------------ the same everywhere


def probe_of(computed: Run) -> ProbeResult:
    """Return a run's weights as the weights of a layer in a training run's model."""
    weights = computed.trace.read("weights")[None]
    tokens = tuple("x" * weights.shape[-1])
    return ProbeResult(1, tokens, np.zeros((len(tokens), 3)), weights, None, 0)


@pytest.mark.parametrize("tokens", [1, 3, 12, 64, 600])
def test_the_lab_and_the_overview_have_the_range_of_the_window(tokens: int) -> None:
    """With 600 tokens, there are more weights than are counted."""
    computed = a_run(long_text(tokens), mask=MaskKind.CAUSAL)
    assert (tokens == 600) == (computed.trace.read("weights").size > MAX_SAMPLED_CELLS)
    window = panel(computed, "weights", room=1000).colour
    lab = create_board(probe_of(computed), ModelKind.TRANSFORMER).heatmaps[0].colour
    assert (lab.low, lab.high, lab.is_exceeded) == (window.low, window.high, window.is_exceeded)
    (layer,) = present_layer_overview(resolved(computed, View()), None).ranges
    assert layer == AutomaticColourRange(window.high, window.is_exceeded)


def test_a_long_text_is_estimated_from_evenly_spaced_rows() -> None:
    computed = a_run(long_text(600), mask=MaskKind.CAUSAL, heads=2)
    weights, allowed = computed.trace.read("weights"), np.tri(600, dtype=bool)
    rows = np.linspace(0, 599, MAX_SAMPLED_CELLS // (2 * 600)).round().astype(int)
    samples = [sample_cells(head[rows], allowed[rows]) for head in weights]
    assert (
        panel(computed, "weights", room=1000).colour.high
        == find_range_of_samples(samples, True).end
    )
    assert not any(
        exceeding(weights[:, rows], allowed[rows], find_range_of_samples(samples, True).end)
    )


class BlockwiseVectors:
    """A stage whose rows are computed from all keys; it counts the rows that are requested."""

    is_blockwise = True

    def __init__(self, heads: int, tokens: int, size: int) -> None:
        self.shape, self.requested_rows = (heads, tokens, size), 0

    def sample_evenly_spaced_rows(
        self, place: object, most_rows: int
    ) -> tuple[np.ndarray, int, np.ndarray]:
        self.requested_rows += most_rows
        return np.arange(most_rows), 1, np.ones((most_rows, self.shape[-1]))

    def cached_result(self, key: object, compute: Callable[[], object]) -> object:
        return compute()


@given(st.integers(1, 64), st.integers(1, 2**17), st.integers(1, 128))
def test_sampling_computes_few_scores(heads: int, tokens: int, size: int) -> None:
    vectors = BlockwiseVectors(heads, tokens, size)
    find_cached_range([(None, cast("CachedTensor", vectors))], [()])
    limit = max(MAX_COMPUTED_CELLS, MIN_SAMPLED_ROWS * heads * tokens)
    assert 0 < vectors.requested_rows * tokens <= limit


def test_the_range_of_a_layer_does_not_depend_on_others() -> None:
    weights = np.stack([np.full((1, 8, 8), 1 / 8), np.eye(8)[None]])  # layer head query key
    reading = ProbeResult(1, tuple("abcdefgh"), np.zeros((8, 3)), weights, None, 0)
    (column,) = create_board(reading, ModelKind.AVERAGE).columns
    assert [heatmap.colour.high for heatmap in column] == [0.15, 1]
    assert len({heatmap.label for heatmap in column}) == 2
    assert all(f"{heatmap.colour.high:g}" in heatmap.label for heatmap in column)


def test_both_sides_of_a_comparison_share_a_range() -> None:
    causal, free = a_run(SENTENCE, mask=MaskKind.CAUSAL), a_run(SENTENCE, mask=MaskKind.NONE)
    view = View(
        stages=frozenset({"weights", "context"}),
        comparison=Comparison(against=ComparisonKind.KEPT, kept=causal),
    )
    shown = present_board_contents(resolved(free, view), BoardContents()).board
    for a, b, _ in zip(shown.columns[::3], shown.columns[1::3], shown.columns[2::3], strict=True):
        assert len({heatmap.colour for heatmap in (*a, *b)}) == 1
    every = np.tri(12, dtype=bool), np.ones((12, 12), dtype=bool)
    sides = zip((causal, free), every, strict=True)
    samples = [sample_layer_weights(side.trace.read("weights"), allowed) for side, allowed in sides]
    assert shown.columns[0][0].colour.high == find_range_of_samples(samples, is_share=True).end


def test_the_range_of_a_few_changes_ends_at_their_98th_percentile() -> None:
    few = a_run(SENTENCE), a_run(SENTENCE.replace("slept", "ran"))
    view = View(
        stages=frozenset({"scores"}),
        comparison=Comparison(against=ComparisonKind.KEPT, kept=few[0]),
    )
    change = present_board_contents(resolved(few[1], view), BoardContents()).board.columns[2][0]
    one, other = (each.trace.read("scores") for each in few)
    sizes = np.abs(other - one)
    changed = sizes[sizes > 2e-6 * max(np.abs(one).max(), np.abs(other).max())]
    assert changed.size < sizes.size / 2
    assert change.colour.high == pytest.approx(float(np.percentile(changed, 98)))


def test_playback_reveals_cells_without_changing_the_range() -> None:
    computed = a_run(SENTENCE, mask=MaskKind.CAUSAL)
    whole = panel(computed, "weights").colour
    for row in range(12):
        place = PlaybackPosition("weights", 0, row)
        shown = board(computed, playhead=PlaybackState(place)).heatmaps
        weights = [heatmap for heatmap in shown if heatmap.stage == "weights"]
        assert weights
        assert {heatmap.colour for heatmap in weights} == {whole}


@pytest.mark.parametrize("stage", ["weights", "scores", "context"])
def test_the_range_of_a_long_text_does_not_change_while_it_is_drawn(stage: str) -> None:
    shot = long_shot(600, mask=MaskKind.CAUSAL)
    view = replace(shot.view, stages=frozenset({stage}), heads=None)
    shown = resolved(shot.run, view)
    before = present_board_contents(shown, BoardContents()).board.heatmaps
    draw_panels(shown, ignore_progress)
    after = present_board_contents(resolved(shot.run, view), BoardContents()).board.heatmaps
    assert {one.colour for one in before} == {one.colour for one in after}
    held = panel(held_shot(600, mask=MaskKind.CAUSAL).run, stage, room=1000).colour.high
    assert after[0].colour.high == pytest.approx(held, rel=1e-5)


# ---------------------------------------------------------------------------------------- notches


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("is_signed", [False, True])
def test_exactly_the_cells_beyond_the_range_have_a_cut_corner(
    is_signed: bool, theme: Theme
) -> None:
    values = np.random.default_rng(3).normal(size=(9, 9))
    values = values if is_signed else np.abs(values) / 3
    low, high = (-1.0, 1.0) if is_signed else (0.0, 0.4)
    map_ = "automatic" if is_signed else "plum"
    colour = ColourScale(map_, ColourCurve.LINEAR, ColourLimits.AUTO, low, high, True)
    notched, plain = (
        Painted(a_heatmap(values, colour=one), SMALL, theme)
        for one in (colour, replace(colour, limits=ColourLimits.SHARED))
    )
    found = out_of_range_masks(values, (), colour)
    assert found
    for row, column in np.ndindex(values.shape):
        cell = notched.slot.cell_area(row, column)
        corners = [notched.trim_to(cell) != plain.trim_to(cell)]
        is_beyond = not low <= values[row, column] <= high
        assert corners == [is_beyond] == [bool(found[0][row, column] | found[1][row, column])]


def test_the_ends_of_a_signed_scale_say_that_they_stand_for_numbers_beyond_them() -> None:
    for is_exceeded, ends in ((True, ("≤ −1.23", "≥ 1.23")), (False, ("−1.23", "1.23"))):
        colour = ColourScale(
            "blue", ColourCurve.LINEAR, ColourLimits.AUTO, -1.234, 1.234, is_exceeded
        )
        low, _, high = format_colour_bar_texts(a_heatmap([[0.5]], colour=colour))
        assert (low, high) == ends


def test_the_end_of_the_scale_has_a_plus_sign_only_if_a_number_exceeds_it() -> None:
    for end, is_exceeded, text in (
        (0.4, True, "0.4+"),
        (0.075, False, "0.075"),
        (1.0, False, "1"),
        (1.234, True, "1.23+"),
    ):
        fields: dict[str, Any] = {
            "colour": ColourScale(
                "plum", ColourCurve.LINEAR, ColourLimits.AUTO, 0.0, end, is_exceeded
            )
        }
        assert format_colour_bar_texts(a_heatmap([[0.5]], **fields))[2] == text
