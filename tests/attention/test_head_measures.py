"""Head measures and aggregates of heads agree with computations in float64 NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from msgspec.structs import replace

from tests.support.attention_strategies import Batch, Case, cases
from tests.support.examples import examples
from visualizer.attention import head_measures
from visualizer.attention.blockwise_captured_run import (
    LayerVectors,
    LongTextAttention,
    blockwise_captured_run,
)
from visualizer.attention.blockwise_tensor import BlockwiseTensor
from visualizer.attention.captured_attention import LayerMask
from visualizer.attention.head_measures import (
    HeadMeasures,
    attended_cells,
    find_pattern_cells,
    measure_heads,
    measure_patterns,
    measure_uniform_attention,
    measure_uniform_patterns,
)
from visualizer.attention.masks import MaskingSpec
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    Dtype,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
)
from visualizer.features.head_scatter.presenter import MEASURES
from visualizer.features.head_table.presenter import COLUMNS
from visualizer.models.layer_run_lookup import HEAD_MEASURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.spec import Texts
    from visualizer.attention.trace import Trace

TEXT = ("Your", "journey", "starts", "with", "one", "step")
SPEC = AttentionSpec(device=Device.CPU, d_out=4)
NAMES = list(HeadMeasures.__struct_fields__)


def test_the_panes_and_the_files_contain_every_measure() -> None:
    names = sorted({*NAMES} - {"queries"})
    assert sorted(column.measure for column in COLUMNS) == names
    assert sorted(measure.name for measure in MEASURES) == names
    assert sorted(HEAD_MEASURES) == names


def expected_of(
    weights: np.ndarray,
    real: int,
    text: Sequence[str] = (),
    values: np.ndarray | None = None,
) -> dict[str, float]:
    """Measure one head, query by query, according to the definitions."""
    lengths = None if values is None else np.linalg.norm(values.astype(np.float64), axis=-1)
    seen: dict[str, list[float]] = {name: [] for name in NAMES}
    for query, row in enumerate(weights.astype(np.float64)[:real]):
        if not row.any():
            continue
        positive = row[row != 0]
        with np.errstate(invalid="ignore"):
            seen["entropy"].append(float(-(positive * np.log2(positive)).sum()))
        seen["distance"].append(sum(w * abs(query - key) for key, w in enumerate(row)))
        seen["first"].append(row[0])
        seen["own"].append(row[query])
        if query:
            seen["previous"].append(row[query - 1])
        if text and (keys := [key for key in range(1, query) if text[key - 1] == text[query]]):
            seen["induction"].append(sum(row[key] for key in keys))
        if text and (keys := [key for key in range(query) if text[key] == text[query]]):
            seen["duplicate"].append(sum(row[key] for key in keys))
        if lengths is not None and (of_values := np.abs(row) * lengths).any():
            plain = np.abs(row) / np.abs(row).sum()
            moved = np.abs(of_values / of_values.sum() - plain).sum() / 2
            seen["value_weighting"].append(moved)
        seen["largest"].append(max(row) if not np.isnan(row).any() else np.nan)
    found = {name: float(np.mean(all_)) if all_ else np.nan for name, all_ in seen.items()}
    return found | {"queries": len(seen["first"])}


def assert_measured(
    found: HeadMeasures,
    weights: np.ndarray,
    lengths: tuple[int, ...] = (),
    texts: Texts = (),
    values: np.ndarray | None = None,
) -> None:
    tokens = weights.shape[-1]
    for place in np.ndindex(weights.shape[:-2]):
        text = texts[place[0] if len(texts) > 1 else 0] if texts else ()
        real = lengths[place[0]] if lengths else tokens
        own = None if values is None else values[place]
        expected = expected_of(weights[place], real, text, own)
        for name in NAMES:
            actual = getattr(found, name)[place]
            np.testing.assert_allclose(
                actual, expected[name], rtol=1e-4, atol=1e-5, err_msg=f"{name} {place}"
            )


def stages_of_weights(trace: Trace) -> list[str]:
    return [stage for stage in ("weights", "dropped") if stage in trace]


# ----------------------------------------------------------------------------------------- measures


@examples(2)
@given(cases())
def test_measures_of_any_module_are_those_of_numpy(case: Case) -> None:
    trace = case.trace()
    for stage in stages_of_weights(trace):
        weights = trace.read(stage)
        if np.isfinite(weights).all():  # undefined measures have a separate test
            values = trace.read("values")
            assert_measured(trace.head_measures(stage), weights, trace.spec.lengths, values=values)


@given(cases(Batch.RAGGED, normalisation=NormalisationKind.SOFTMAX))
def test_padding_is_no_query(case: Case) -> None:
    trace = case.trace()
    texts, lengths = case.texts, trace.spec.lengths
    weights, values = trace.read("weights"), trace.read("values")
    assert_measured(trace.head_measures("weights", texts), weights, lengths, texts, values)
    for text, words in enumerate(case.texts):
        assert (trace.head_measures("weights").queries[text] <= len(words)).all()


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6).map(
    lambda shape: (2, shape[0], shape[0])
), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])), st.integers(1, 3),
    st.lists(st.sampled_from("abc"), min_size=6, max_size=6))  # fmt: skip
def test_any_matrix_is_measured_in_blocks_of_rows(
    weights: np.ndarray, rows: int, letters: list[str]
) -> None:
    texts = (tuple(letters[: weights.shape[-1]]),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_measures, "BAND_ROWS", rows)
        assert_measured(measure_heads(torch.from_numpy(weights), (), texts), weights, (), texts)


@pytest.mark.parametrize("tokens", [1, 2, 6, 33])
@pytest.mark.parametrize("dtype", Dtype)
def test_uniform_causal_attention_is_known_by_heart(tokens: int, dtype: Dtype) -> None:
    uniform = replace(
        SPEC, normalisation=NormalisationKind.UNIFORM, mask=MaskKind.CAUSAL, dtype=dtype
    )
    trace = run((tuple("abcdefghijklmnopqrstuvwxyzABCDEFG"[:tokens]),), uniform).trace
    found, read = trace.head_measures("weights"), np.arange(1, tokens + 1)
    one_each = np.mean(1 / read)
    np.testing.assert_allclose(found.entropy, np.mean(np.log2(read)), rtol=1e-6)
    np.testing.assert_allclose(found.distance, np.mean((read - 1) / 2), rtol=1e-6)
    for same in (found.first, found.own, found.largest):
        np.testing.assert_allclose(same, one_each, rtol=1e-6)
    previous = np.mean(1 / read[1:]) if tokens > 1 else np.nan
    np.testing.assert_allclose(found.previous, previous, rtol=1e-6)
    np.testing.assert_array_equal(found.queries, tokens)


@given(
    arrays(bool, st.integers(1, 7).map(lambda side: (side, side))),
    st.lists(st.sampled_from("ab"), min_size=7, max_size=7),
)
def test_uniform_attention_over_any_mask_is_measured_as_numpy_would(
    allowed: np.ndarray, letters: list[str]
) -> None:
    text = tuple(letters[: len(allowed)])
    counts = allowed.sum(-1, keepdims=True)
    weights = np.divide(allowed, counts, out=np.zeros(allowed.shape), where=counts > 0)
    expected = expected_of(weights, len(allowed), text)
    found = measure_uniform_attention(allowed, len(allowed), text)
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), [expected[name]], 1e-12, err_msg=name)


@examples(2)
@given(cases(normalisation=NormalisationKind.UNIFORM, route=MaskPlacement.BEFORE))
def test_uniform_attention_is_measured_from_the_mask_of_every_text(case: Case) -> None:
    """Attention that is uniform has the measures that are derived from the mask only."""
    trace = case.trace()
    found = trace.head_measures("weights")
    for leading in trace.leading_indices():
        expected = trace.uniform_head_measures("weights", leading)
        moved = found.value_weighting[leading]
        is_known = ~np.isnan(moved)
        assert is_known.any() == ~np.isnan(expected.value_weighting[0])
        if is_known.any():
            mean = moved[is_known].mean()
            np.testing.assert_allclose(mean, expected.value_weighting[0], 1e-4, 1e-6)
        for name in (name for name in NAMES if name != "value_weighting"):
            for of_head in getattr(found, name)[leading]:
                np.testing.assert_allclose(
                    of_head, getattr(expected, name)[0], 1e-5, 1e-6, err_msg=name
                )


def test_keys_that_any_head_reads_are_found() -> None:
    weights = torch.zeros(2, 2, 3, 4)
    weights[0, 1, 0, 3], weights[1, 0, 2, 1], weights[1, 1, 1, 0] = 0.5, 1.0, torch.nan
    expected = np.zeros((3, 4), bool)
    expected[[0, 2, 1], [3, 1, 0]] = True
    np.testing.assert_array_equal(attended_cells(weights), expected)


def test_heads_that_do_one_thing_are_told_apart() -> None:
    first, own, previous = np.zeros((3, 5, 5))
    first[:, 0] = 1
    own[range(5), range(5)] = 1
    previous[range(1, 5), range(4)] = 1
    previous[0, 0] = 1
    induction = first.copy()
    induction[3:, 0], induction[[3, 4], [1, 2]] = 0, 1  # in "abcab", the tokens after a and b
    heads = torch.from_numpy(np.stack([first, own, previous, induction]))
    found = measure_heads(heads, (), (tuple("abcab"),))
    np.testing.assert_array_equal(found.first, [1, 0.2, 0.4, 0.6])
    np.testing.assert_array_equal(found.own, [0.2, 1, 0.2, 0.2])
    np.testing.assert_array_equal(found.previous, [0.25, 0, 1, 0.25])
    np.testing.assert_array_equal(found.distance, [2, 0, 0.8, 1.4])
    np.testing.assert_array_equal(found.entropy, [0, 0, 0, 0])
    np.testing.assert_array_equal(found.largest, [1, 1, 1, 1])
    np.testing.assert_array_equal(found.induction, [0, 0, 0, 1])
    assert np.isnan(measure_heads(heads, (), (tuple("abcde"),)).induction).all()


def test_a_query_that_reads_nothing_does_not_count() -> None:
    own = np.tri(6, dtype=bool)
    own[[2, 4]] = False
    spec = replace(SPEC, mask=MaskKind.OWN, own_mask=BooleanMatrix.from_array(own))
    trace = run((TEXT,), spec).trace
    found = trace.head_measures("weights")
    np.testing.assert_array_equal(found.queries, [4, 4])
    assert_measured(found, trace.read("weights"), values=trace.read("values"))
    nothing = replace(spec, own_mask=BooleanMatrix.from_array(np.zeros((6, 6), bool)))
    found = run((TEXT,), nothing).trace.head_measures("weights")
    np.testing.assert_array_equal(found.queries, [0, 0])
    assert np.isnan(found.entropy).all()


def test_weights_that_are_no_numbers_have_measures_that_are_none() -> None:
    weights = torch.tensor([[[1.0, 0.0], [torch.nan, torch.nan]], [[1.0, 0.0], [0.5, 0.5]]])
    found = measure_heads(weights, ())
    needing_more = {"induction", "duplicate", "value_weighting", "queries"}  # tokens, or values
    for name in set(NAMES) - needing_more:
        assert np.isnan(getattr(found, name)[0]), name
        assert np.isfinite(getattr(found, name)[1]), name
    np.testing.assert_array_equal(found.queries, [2, 2])


def test_weights_move_as_far_as_the_lengths_of_values_differ() -> None:
    """Both heads attend equally to two tokens; the norms of the values differ in one head."""
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]).repeat(2, 1, 1)
    values = torch.tensor([[[0.0, 2.0], [2.0, 0.0]], [[0.0, 3.0], [-1.0, 0.0]]])
    found = measure_heads(weights, (), (), values)
    np.testing.assert_array_equal(found.value_weighting, [0, 0.125])
    allowed = np.tri(2, dtype=bool)
    uniform = measure_uniform_attention(allowed, 2, (), values.norm(dim=-1).numpy())
    np.testing.assert_allclose(uniform.value_weighting, [0.0625])
    assert np.isnan(measure_heads(weights, ()).value_weighting).all()
    assert np.isnan(measure_heads(weights, (), (), torch.zeros(2, 2, 2)).value_weighting).all()


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_uniform_attention_is_moved_as_numpy_would_have_it(rows: int) -> None:
    chance = np.random.default_rng(0)
    allowed = np.tri(7, dtype=bool) & (chance.random((7, 7)) < 0.8)
    allowed[2] = False
    values = chance.normal(size=(4, 7, 3))
    values[1] = 0  # a head whose values are 0 is not included in any row
    weights = allowed / np.maximum(1, allowed.sum(-1, keepdims=True))
    parts = [expected_of(weights, 7, (), own)["value_weighting"] for own in values[[0, 2, 3]]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_measures, "ROWS_PER_BATCH", rows)
        found = measure_uniform_attention(allowed, 7, (), np.linalg.norm(values, axis=-1))
    np.testing.assert_allclose(found.value_weighting, np.mean(parts), 1e-9)


def test_dropped_weights_are_measured_as_they_are() -> None:
    trace = run((TEXT, TEXT[:4]), replace(SPEC, dropout=0.5)).trace
    assert (trace.read("dropped") != trace.read("weights")).any()
    found = trace.head_measures("dropped")
    values = trace.read("values")
    assert_measured(found, trace.read("dropped"), trace.spec.lengths, values=values)
    assert (found.queries < trace.head_measures("weights").queries).any()


def test_measures_are_kept_go_with_a_kept_stage_and_cannot_be_written() -> None:
    first = run((TEXT,), SPEC)
    found = first.trace.head_measures("weights")
    later = run((TEXT,), replace(SPEC, dropout=0.5), first).trace
    assert later.head_measures("weights") is found
    for name in NAMES:
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[0] = 1


WORDS = ("the", "cat", "sat", "on", "the", "mat", "the", "the", "cat", "sat")
PLACES = {
    "previous": [(q, q - 1) for q in range(1, 10)],
    "first": [(q, 0) for q in range(10)],
    "own": [(q, q) for q in range(10)],
    "duplicate": [(4, 0), (6, 4), (7, 6), (8, 1), (9, 2)],
    "induction": [(4, 1), (6, 5), (7, 5), (8, 2), (9, 3)],
}


def test_pairs_of_a_text_are_those_read_off_by_hand() -> None:
    found = {
        name: [*zip(*map(list, pair), strict=True)]
        for name, pair in find_pattern_cells(WORDS).items()
    }
    assert found == PLACES


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("has_sink", [False, True])
def test_means_are_those_of_the_weights(window: int, softcap: float, has_sink: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    rule = LayerMask(MaskKind.WINDOW, window=window) if window else LayerMask(MaskKind.CAUSAL)
    layers = []
    for _ in range(2):
        queries, keys, values = (
            torch.randn(heads, 10, 4, generator=generator) for heads in (4, 2, 2)
        )
        sinks = torch.randn(4, generator=generator) if has_sink else None
        scores = queries.double() @ keys.double().repeat_interleave(2, 0).mT / 2
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        distance = torch.arange(10)[:, None] - torch.arange(10)
        allowed = (distance >= 0) & (distance < (window or 10))
        sums = scores.exp().where(allowed, 0).sum(-1)
        if sinks is not None:
            sums = sums + sinks.double().exp()[:, None]
        layers.append(LayerVectors(queries, keys, values, sums.log().float(), rule, sinks))
    run = blockwise_captured_run(LongTextAttention("m", tuple(layers), WORDS, 0.5, softcap), "CPU")
    held = run.trace.cached_stage_tensor("weights")
    assert isinstance(held, BlockwiseTensor)
    assert held.can_compute_single_values
    measures = measure_patterns(held, WORDS)
    weights = run.trace.read("weights")
    uniform = measure_uniform_patterns(MaskingSpec.from_spec(run.trace.spec), WORDS)
    alike = run.trace.allowed_mask("weights", (0,)).astype(float)
    alike /= alike.sum(-1, keepdims=True)
    for name, places in PLACES.items():
        rows, columns = zip(*places, strict=True)
        wanted = weights[:, :, list(rows), list(columns)].mean(-1)
        np.testing.assert_allclose(getattr(measures, name), wanted, rtol=0, atol=1e-6)
        chance = alike[list(rows), list(columns)].mean()
        np.testing.assert_allclose(getattr(uniform, name), [chance], rtol=1e-12)
    assert np.isnan(measures.entropy).all()
