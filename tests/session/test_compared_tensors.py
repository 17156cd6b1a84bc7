"""Differences agree with attention in float64, and dropout samples with runs of their seeds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Batch, cases, specs, texts
from tests.support.reference_attention import Known, reference
from tests.support.screens import resolved
from tests.support.small_runs import EVERYTHING, a_run
from visualizer.attention import masks
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.masks import draw_keep_mask
from visualizer.attention.run import run
from visualizer.attention.settings import HAS_WEIGHTS
from visualizer.attention.spec import DropoutMode, MaskKind
from visualizer.heatmap.board import Board
from visualizer.heatmap.comparison_board_presenter import present_comparison_board
from visualizer.progress import CancelledError, cancel_when
from visualizer.session.comparison import difference_tensor, dropout_mean_tensor, mismatch_reason
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.dropout_samples import (
    DropoutSampleCounts,
    max_sample_count,
    mean_of_dropout_samples,
    no_samples_reason,
    sample_seed,
)
from visualizer.session.view import View

if TYPE_CHECKING:
    from tests.support.attention_strategies import Case
    from visualizer.attention.run import Run
    from visualizer.attention.trace import Trace

DROPS: dict[str, Any] = {"dropout": 0.5, "mode": DropoutMode.TRAIN}


def known(trace: Trace) -> dict[str, Known]:
    spec = trace.spec
    weights = {name: tensor.numpy() for name, tensor in trace.parameters.items()}
    kept = draw_keep_mask(spec.dropout, spec.dropout_seed, tuple(trace.tensor("weights").shape))
    first = trace.read(trace.stages[0].name).astype(np.float64)
    return reference(spec, first, weights, kept)


def minus(one: Known, other: Known) -> Known:
    """Subtract one array from the other; values of −∞ are masked and not subtracted."""
    with np.errstate(invalid="ignore"):
        value = other.value - one.value
    is_forbidden = np.isneginf(one.value) | np.isneginf(other.value)
    doubt = one.doubt + other.doubt + np.abs(one.value) + np.abs(other.value)
    return Known(np.where(is_forbidden, 0, value), np.where(is_forbidden, 0, doubt))


def assert_near(actual: np.ndarray, expected: Known, *dtypes: str) -> None:
    coarsest = max(np.finfo(dtype).eps for dtype in dtypes)
    least = 2e-5 if coarsest > 1e-10 else 2e-12
    with np.errstate(invalid="ignore"):
        off = np.maximum(least, 4 * coarsest * expected.doubt)
        near = (np.abs(actual - expected.value) <= off) | (actual == expected.value)
    unknown = ~np.isfinite(expected.doubt) | ~np.isfinite(expected.value)
    assert actual.shape == expected.value.shape
    assert (near | unknown).all(), f"{actual}\nand not\n{expected.value}"


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Run, Run]:
    """Generate two runs whose texts and sizes are equal or different."""
    sizes = draw(Batch.ANY.sizes(4))
    others = draw(st.just(sizes) | Batch.ANY.sizes(4))
    made: list[Run] = []
    alike: dict[str, Any] = {}
    for lengths in (sizes, others):
        written = tuple(draw(texts(length, length)) for length in lengths)
        spec = draw(specs(max(lengths), len(set(lengths)) > 1, len(lengths), **alike))
        made.append(run(written, spec))
        if draw(st.booleans()):
            names = ("heads", "arrangement", "projection", "d_in", "d_out")
            alike = {name: getattr(spec, name) for name in names}
    return made[0], made[1]


@given(pairs())
def test_b_minus_a_agrees_with_numpy(pair: tuple[Run, Run]) -> None:
    kept, live = pair
    before = {name: kept.trace.read(name).tobytes() for name in kept.trace.names}
    view = View(stages=EVERYTHING, comparison=Comparison(ComparisonKind.KEPT, kept))
    present_comparison_board(resolved(live, view), Board())
    by_hand = known(kept.trace), known(live.trace)
    dtypes = (kept.trace.spec.dtype, live.trace.spec.dtype)
    for stage in live.trace.stages:
        shapes = [known_[stage.name].value.shape for known_ in by_hand if stage.name in known_]
        is_fitting = len(set(shapes)) == 1 and len(shapes) == 2
        same_texts = (
            len(kept.texts) == len(live.texts) and kept.trace.query_count == live.trace.query_count
        )
        assert (mismatch_reason(kept, live, stage) == "") == (is_fitting and same_texts)
        if is_fitting and same_texts:
            held, _ = difference_tensor(resolved(live, view), stage.name, None)
            expected = minus(*(known_[stage.name] for known_ in by_hand))
            assert_near(held.read().astype(np.float64), expected, *dtypes)
    assert before == {name: kept.trace.read(name).tobytes() for name in kept.trace.names}


@given(cases(heads=3), st.permutations(range(3)))
def test_the_difference_of_two_heads_agrees_with_numpy(case: Case, heads: list[int]) -> None:
    live = case.run()
    one, other = heads[:2]
    view = View(stages=EVERYTHING, comparison=Comparison(ComparisonKind.HEAD, heads=(one, other)))
    present_comparison_board(resolved(live, view), Board())
    by_hand = known(live.trace)
    for stage in (stage for stage in live.trace.stages if "head" in stage.dims):
        held, _ = difference_tensor(resolved(live, view), stage.name, None)
        numbers = by_hand[stage.name]
        sides = (
            Known(numbers.value[..., head, :, :], numbers.doubt[..., head, :, :])
            for head in (one, other)
        )
        assert_near(held.read().astype(np.float64), minus(*sides), live.trace.spec.dtype)


@given(
    cases(own_kept=None, mode=DropoutMode.TRAIN, dropout=0.4).filter(
        lambda case: HAS_WEIGHTS.is_met(case.spec)
    ),
    st.integers(1, 5),
)
def test_the_mean_is_that_of_runs_with_the_seeds(case: Case, count: int) -> None:
    live = case.run()
    view = View(comparison=Comparison(ComparisonKind.SAMPLES, count=count))
    each = [
        run(case.texts, replace(case.spec, dropout_seed=sample_seed(case.spec, sample)))
        for sample in range(count)
    ]
    assert [one.trace.spec.dropout_seed for one in each[:1]] == [live.trace.spec.dropout_seed]
    left = [one.trace.read("dropped").astype(np.float64) for one in each]
    weights = live.trace.read("weights").astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.mean(left, axis=0)
    known_ = np.isfinite(weights)
    assert view.comparison
    found = dropout_mean_tensor(live, view.comparison).read()
    np.testing.assert_allclose(found[known_], mean[known_], rtol=1e-5, atol=1e-7)
    change, _ = difference_tensor(resolved(live, view), "dropped", None)
    off = 1e-5 * np.abs(mean[known_]).max(initial=0)
    by_hand = (mean - weights)[known_]
    np.testing.assert_allclose(change.read()[known_], by_hand, rtol=1e-4, atol=off)


def test_the_error_of_the_mean_decreases_with_the_root_of_the_count() -> None:
    live = a_run(" ".join(f"w{at}" for at in range(24)), mask=MaskKind.NONE, **DROPS)
    weights, tally = live.trace.read("weights").astype(np.float64), DropoutSampleCounts()
    errors = {}
    for count in (1, 4, 16, 64, 256):
        mean = mean_of_dropout_samples(live, count, tally).read().astype(np.float64)
        errors[count] = math.sqrt(((mean - weights) ** 2).mean())
    for count, error in errors.items():
        # At a dropout rate of 0.5, a sample differs from the weight by the weight itself.
        expected = math.sqrt((weights**2).mean() / count)
        assert error == pytest.approx(expected, rel=0.1)


def test_counts_are_extended_and_restarted_only_if_necessary() -> None:
    live = a_run(**DROPS)
    shape, spec = tuple(live.trace.tensor("weights").shape), live.trace.spec
    by_hand = [draw_keep_mask(0.5, spec.dropout_seed + sample, shape) for sample in range(9)]
    tally = DropoutSampleCounts()
    for count in (1, 8, 9, 3):
        np.testing.assert_array_equal(
            tally.count_first_samples(spec, shape, count), sum(by_hand[:count])
        )
        assert tally.drawn == count
    other = replace(spec, dropout_seed=spec.dropout_seed + 1)
    np.testing.assert_array_equal(tally.count_first_samples(other, shape, 2), sum(by_hand[1:3]))


def test_counts_are_kept_if_a_newer_request_interrupts() -> None:
    live, tally = a_run(**DROPS), DropoutSampleCounts()
    shape, spec = tuple(live.trace.tensor("weights").shape), live.trace.spec
    with cancel_when(lambda: tally.drawn == 3), pytest.raises(CancelledError):
        tally.count_first_samples(spec, shape, 9)
    assert tally.drawn == 3
    np.testing.assert_array_equal(
        tally.count_first_samples(spec, shape, 9),
        DropoutSampleCounts().count_first_samples(spec, shape, 9),
    )


@pytest.mark.parametrize(("tokens", "most"), [(6, 256), (64, 256), (1024, 128)])
def test_fewer_samples_are_drawn_for_longer_texts(tokens: int, most: int) -> None:
    live = a_run(" ".join(f"w{at}" for at in range(tokens)), **DROPS)
    assert max_sample_count(live) == most
    assert most * 2 * tokens**2 <= 2**28


def test_a_run_without_samples_states_the_reason() -> None:
    spec = a_run(**DROPS).trace.spec
    assert no_samples_reason(spec) == ""
    own = masks.parse_mask("1 0\n1 1")
    for other, word in (
        (replace(spec, dropout=0), "above 0"),
        (replace(spec, mode=DropoutMode.EVAL), "evaluation"),
        (replace(spec, own_kept=own), "chosen manually"),
    ):
        assert word in no_samples_reason(other)


@pytest.mark.parametrize("lens", WeightTransform)
@pytest.mark.parametrize("fold", [None, *HeadAggregate])
def test_the_comparison_uses_the_shown_values(
    lens: WeightTransform, fold: HeadAggregate | None
) -> None:
    kept, live = a_run(), a_run(mask=MaskKind.NONE)
    view = View(lens=lens, comparison=Comparison(ComparisonKind.KEPT, kept))
    held, _ = difference_tensor(resolved(live, view), "weights", fold)
    sides = [
        one.trace.displayed_tensor("weights", lens, fold).read().astype(np.float64)
        for one in (kept, live)
    ]
    np.testing.assert_allclose(held.read(), sides[1] - sides[0], atol=1e-6)
    assert difference_tensor(resolved(live, view), "weights", fold)[0] is held


def test_identical_tensors_need_no_memory() -> None:
    kept = a_run(mask=MaskKind.CAUSAL)
    live = a_run(mask=MaskKind.NONE, previous=kept)
    view = View(comparison=Comparison(ComparisonKind.KEPT, kept))
    held, _ = difference_tensor(resolved(live, view), "scores", None)
    assert held.read().shape == kept.trace.read("scores").shape
    assert not held.read().any()
    assert held.tensor.untyped_storage().nbytes() <= 8


@given(
    st.lists(
        st.lists(st.floats(width=32) | st.just(-math.inf), min_size=3, max_size=3),
        min_size=2,
        max_size=2,
    )
)
def test_the_value_farthest_from_0_is_found(numbers: list[list[float]]) -> None:
    live = a_run("a b c", d_in=3, d_out=2, heads=1)
    held = live.trace.cached_stage_tensor("input").multiply(np.ones((3, 3)), 1)
    held.tensor.copy_(held.tensor.new_tensor([*numbers, [0.0, 0.0, 0.0]]))
    row, column = held.index_of_largest()
    finite = [abs(one) for line in numbers for one in line if math.isfinite(one)]
    found = float(held.read()[row, column])
    assert abs(found) == max(finite, default=0) or not math.isfinite(found)
    assert math.isfinite(found) or not finite or max(finite) == 0
