"""Stages computed block by block have the same numbers and drawings as stages computed in full."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from visualizer.attention import blockwise_tensor, drawn_tiles, head_measures
from visualizer.attention import run as attention_run
from visualizer.attention.attend import attend
from visualizer.attention.blockwise_stages import ModuleBlockCalculator
from visualizer.attention.blockwise_tensor import BlockSource, BlockwiseTensor
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.drawn_tiles import FIRST_ROWS, PreviewLayout
from visualizer.attention.head_measures import HeadMeasures
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    DropoutMode,
    Dtype,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    Projection,
    TransformerBlockKind,
)
from visualizer.session.computation_caption import describe_computation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from visualizer.attention.cached_tensor import CachedTensor, Index
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace

SPEC = AttentionSpec(d_in=16, d_out=16, heads=2, mask=MaskKind.CAUSAL, mode=DropoutMode.EVAL)
LETTERS = "the quick brown fox jumps over a lazy dog"


def never() -> bool:
    return False


@pytest.fixture
def small_blocks() -> Iterator[None]:
    """Make blocks so small that a short text has several bands, chunks and tiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise_tensor, "BAND_ROWS", 2)
        patch.setattr(blockwise_tensor, "CHUNK_COLUMNS", 3)
        patch.setattr(drawn_tiles, "TILE_CELLS", 2)
        patch.setattr(blockwise_tensor, "MAX_MEASURED_BAND_CELLS", 16)
        patch.setattr(blockwise_tensor, "CACHE_BLOCK_CELLS", 8)
        patch.setattr(head_measures, "SORTED_KEYS", 2)
        yield


def by_blocks(whole: Trace) -> Trace:
    """Compute the same module on the same vectors, block by block."""
    first = whole.tensor(whole.names[0])
    with torch.no_grad():
        return attend(whole.spec, first, whole.parameters, by_blocks=True)


def long_run(tokens: int, spec: AttentionSpec = SPEC) -> Run:
    """Return a run whose matrices are never held in full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
        patch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
        return run((tuple((LETTERS * (tokens // len(LETTERS) + 1))[:tokens]),), spec)


def weights_in_float64(found: Trace, place: tuple[int, ...]) -> np.ndarray:
    """Compute the weights of a causal head from its queries and keys by the formula."""
    queries, keys = (
        found.tensor(name)[place].numpy().astype(np.float64) for name in ("queries", "keys")
    )
    scores = queries @ keys.T / np.sqrt(queries.shape[-1])
    scores[~np.tri(len(scores), dtype=bool)] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.asarray(shares)


def first_matrix(held: CachedTensor) -> Index:
    """Return the index of a stage's first matrix."""
    place: list[int | slice] = [0] * (len(held.shape) - 2)
    return (*place, slice(None), slice(None))


def assert_alike(found: np.ndarray, wanted: np.ndarray, eps: float) -> None:
    assert found.shape == wanted.shape
    is_finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~is_finite], wanted[~is_finite])
    size = np.abs(wanted[is_finite]).max(initial=1)
    np.testing.assert_allclose(found[is_finite], wanted[is_finite], rtol=eps, atol=eps * size)


@pytest.mark.usefixtures("small_blocks")
@examples(1)
@given(cases(dtype=Dtype.FLOAT64, temperature=1.0), st.data())
def test_every_number_is_that_of_the_whole(case: Case, data: st.DataObject) -> None:
    whole = run(case.texts, case.spec).trace
    blocks = by_blocks(whole)
    assert blocks.names == whole.names
    for name in whole.names:
        wanted = whole.read(name)
        assert_alike(blocks.read(name), wanted, 1e-9)
        index = tuple(data.draw(st.integers(0, size - 1)) for size in wanted.shape)
        part = index[: data.draw(st.integers(0, len(index)))]
        assert_alike(np.asarray(blocks.read(name, part)), np.asarray(wanted[part]), 1e-9)
        rows = np.array(data.draw(st.lists(st.integers(0, wanted.shape[-2] - 1), min_size=1)))
        for each in (blocks, whole):
            found = each.cached_stage_tensor(name).read_rows(rows, index[:-2])
            assert_alike(found, wanted[index[:-2]][rows], 1e-9)


@pytest.mark.usefixtures("small_blocks")
@examples(1)
@given(cases(dtype=Dtype.FLOAT64, temperature=1.0), st.integers(0, 2), st.integers(0, 2))
def test_every_picture_is_that_of_the_whole(case: Case, down: int, right: int) -> None:
    whole = run(case.texts, case.spec).trace
    blocks = by_blocks(whole)
    for name in whole.names:
        held, other = blocks.cached_stage_tensor(name), whole.cached_stage_tensor(name)
        sizes = (2**down, 2**right if whole.stage(name).dims[-1] == "key" else 1)
        cells = first_matrix(held)
        wanted = other.read_pooled(*sizes, cells)
        if held.is_blockwise:
            held.draw_coarse_rows(*sizes, cells)
            assert held.draw_exact_rows(*sizes, cells, never)
        assert held.exact_row_share(*sizes, cells) == 1
        assert_alike(held.read_pooled(*sizes, cells), wanted, 1e-9)


@pytest.mark.usefixtures("small_blocks")
def test_rows_that_are_divided_by_no_sum_are_drawn_as_those_of_the_whole() -> None:
    """Vectors with a single number are 0 after the norm, so scores and row sums are also 0."""
    spec = replace(
        SPEC, d_in=1, d_out=1, heads=1, projection=Projection.NONE,
        block=TransformerBlockKind.PRE_NORM,
        normalisation=NormalisationKind.SUM, route=MaskPlacement.AFTER_RENORMALISED,
    )  # fmt: skip
    whole = run((("a",) * 4,), spec).trace
    assert np.isnan(whole.read("weights")).all()
    blocks = by_blocks(whole)
    for name in whole.names:
        cells = first_matrix(blocks.cached_stage_tensor(name))
        blocks.cached_stage_tensor(name).draw_exact_rows(1, 1, cells, never)
        found = blocks.cached_stage_tensor(name).read_pooled(1, 1, cells)
        np.testing.assert_array_equal(
            found, whole.cached_stage_tensor(name).read_pooled(1, 1, cells)
        )


@pytest.mark.usefixtures("small_blocks")
@examples(0.6)
@given(cases(dtype=Dtype.FLOAT64, temperature=1.0, normalisation=SPEC.normalisation))
def test_what_weights_are_looked_at_as_is_that_of_the_whole(case: Case) -> None:
    whole = run(case.texts, case.spec).trace
    blocks = by_blocks(whole)
    for lens in WeightTransform:
        for by in (None, *HeadAggregate):
            wanted = whole.displayed_tensor("weights", lens, by).read()
            assert_alike(blocks.displayed_tensor("weights", lens, by).read(), wanted, 1e-9)


@pytest.mark.usefixtures("small_blocks")
@examples(2)
@given(cases(dtype=Dtype.FLOAT64, temperature=1.0), st.booleans())
def test_measures_of_heads_are_those_of_the_whole(case: Case, are_texts_known: bool) -> None:
    whole = run(case.texts, case.spec)
    texts = whole.texts if are_texts_known else ()
    blocks = by_blocks(whole.trace)
    for stage in ("unmasked", "weights", "dropped"):
        if stage not in whole.trace:
            continue
        assert not blocks.has_head_measures(stage, texts)
        assert_measured_alike(
            blocks.head_measures(stage, texts), whole.trace.head_measures(stage, texts)
        )
        assert blocks.has_head_measures(stage, texts)
        for leading in whole.trace.leading_indices():
            assert_measured_alike(
                blocks.uniform_head_measures(stage, leading, texts),
                whole.trace.uniform_head_measures(stage, leading, texts),
            )


def assert_measured_alike(found: HeadMeasures, wanted: HeadMeasures) -> None:
    for name in HeadMeasures.__struct_fields__:
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted, name), rtol=1e-6, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, mask=MaskKind.WINDOW, window=40)])
def test_measures_of_a_long_text_are_those_of_the_formula(spec: AttentionSpec) -> None:
    trace = long_run(1_100, spec).trace
    reported: list[tuple[int, int]] = []
    text = (tuple((LETTERS * 30)[:1_100]),)
    found = trace.head_measures("weights", text, lambda done, of: reported.append((done, of)))
    whole = run(text, spec).trace
    assert not whole.is_blockwise
    for name in HeadMeasures.__struct_fields__:
        wanted = getattr(whole.head_measures("weights", text), name)
        np.testing.assert_allclose(getattr(found, name), wanted, rtol=1e-5, err_msg=name)
    assert reported == sorted(reported)
    assert reported[-1] == (2_200, 2_200)
    assert len(reported) > 4


@pytest.mark.parametrize("tokens", [1_000, pytest.param(4_000, marks=pytest.mark.slow)])
def test_weights_of_a_long_text_are_those_of_the_formula(tokens: int) -> None:
    trace = long_run(tokens).trace
    assert trace.is_blockwise
    held = trace.cached_stage_tensor("weights")
    for head in range(2):
        wanted = weights_in_float64(trace, (head,))
        found = trace.read("weights", (head,))
        assert np.abs(found - wanted).max() <= 1e-6
        assert np.abs(found.sum(-1, dtype=np.float64) - 1).max() <= 1e-5
        whole = (head, slice(None), slice(None))
        held.draw_exact_rows(16, 16, whole, never)
        picture = held.read_pooled(16, 16, whole)
        rows = -(-tokens // 16)
        padded = np.zeros((rows * 16, rows * 16))
        padded[:tokens, :tokens] = wanted
        assert np.abs(picture - padded.reshape(rows, 16, rows, 16).max((1, 3))).max() <= 1e-6
        context = trace.read("context", (head,))
        values = trace.tensor("values")[head].numpy()
        assert np.abs(context - wanted @ values).max() <= 1e-5


def test_a_picture_is_that_of_the_numbers_bit_by_bit() -> None:
    """The products of integers are exact, in any order of summation."""
    spec = replace(SPEC, projection=Projection.NONE, heads=1, output_projection=False)
    generator = torch.Generator().manual_seed(3)
    given_ = torch.randint(-3, 4, (900, 16), generator=generator).float()
    with torch.no_grad():
        trace = attend(spec, given_, {}, by_blocks=True)
    for name in ("scores", "scaled", "masked", "weights"):
        held, cells = trace.cached_stage_tensor(name), (0, slice(None), slice(None))
        held.draw_exact_rows(8, 8, cells, never)
        numbers = held.read((0,))
        ends = np.full((904, 904), np.nan)
        ends[:900, :900] = numbers
        blocks = ends.reshape(113, 8, 113, 8).transpose(0, 2, 1, 3).reshape(113, 113, 64)
        high = np.nanmax(blocks, -1)
        low = np.nanmin(np.where(np.isfinite(blocks), blocks, np.nan), -1, initial=np.inf)
        wanted = np.where(-low > high, low, high)  # without finite numbers, low is ∞
        np.testing.assert_array_equal(held.read_pooled(8, 8, cells), wanted.astype(np.float32))


def test_a_first_picture_has_a_row_of_each_block_and_says_so() -> None:
    held = long_run(700).trace.cached_stage_tensor("weights")
    cells = (0, slice(None), slice(None))
    before = held.version
    assert held.exact_row_share(4, 4, cells) == 0
    assert np.isnan(held.read_pooled(4, 4, cells)).all()
    held.draw_coarse_rows(4, 4, cells)
    assert held.version > before
    assert held.exact_row_share(4, 4, cells) == 0
    numbers = held.read((0,))
    wanted = numbers[2::4].reshape(175, 175, 4).max(-1)
    np.testing.assert_allclose(held.read_pooled(4, 4, cells), wanted, rtol=1e-6)
    assert not held.draw_exact_rows(4, 4, cells, lambda: True)  # drawing ended after one band
    assert 0 < held.exact_row_share(4, 4, cells) < 1
    assert held.draw_exact_rows(4, 4, cells, never)
    assert held.exact_row_share(4, 4, cells) == 1


def test_a_first_picture_of_few_numbers_repeats_rows_until_theirs_are_read() -> None:
    held = long_run(700).trace.cached_stage_tensor("weights")
    cells = (0, slice(None), slice(None))
    assert held.draw_coarse_rows(4, 4, cells, 25 * 700)
    assert held.drawn_row_share(4, 4, cells) == 25 / 175
    wanted = held.read((0,))[2::4].reshape(175, 175, 4).max(-1)
    every_seventh = wanted[3::7].repeat(7, 0)  # each row, and the three rows above and below it
    np.testing.assert_allclose(held.read_pooled(4, 4, cells), every_seventh, rtol=1e-6)
    assert held.rows_represented(4, 4, (0, 0)) == range(14, 15)  # the row of the fourth block
    assert held.draw_coarse_rows(4, 4, cells, 100 * 700)
    while held.draw_coarse_rows(4, 4, cells, 100 * 700):
        pass
    assert held.drawn_row_share(4, 4, cells) == 1
    np.testing.assert_allclose(held.read_pooled(4, 4, cells), wanted, rtol=1e-6)


class FarNumbers(BlockSource):
    """Numbers on a slow machine; records which numbers are read."""

    starts_with_preview = True

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers
        self.read: list[tuple[tuple[int, ...], list[int]]] = []

    @property
    def dtype(self) -> torch.dtype:
        return self.numbers.dtype

    def compute_cells(self, place: tuple[int, ...], rows: Tensor, columns: slice) -> Tensor:
        return self.numbers[place][rows, columns]

    def column_extremes(
        self, place: tuple[int, ...], rows: Tensor, columns: range, block: int
    ) -> tuple[Tensor, Tensor | None]:
        self.read.append((place, rows.tolist()))
        return super().column_extremes(place, rows, columns, block)


@examples(1)
@given(st.integers(1, 900), st.integers(1, 900), st.integers(1, 12), st.data())
def test_what_is_far_is_first_drawn_of_a_few_rows_however_large(
    rows: int, columns: int, block: int, data: st.DataObject
) -> None:
    numbers = torch.rand((2, rows, columns), generator=torch.manual_seed(rows))
    source = FarNumbers(numbers)
    held = BlockwiseTensor((2, rows, columns), source)
    first = PreviewLayout.from_matrix_sizes((rows, columns))
    assert len(first.rows) == math.ceil(rows / first.blocks[0]) <= FIRST_ROWS
    assert (first.rows // first.blocks[0] == np.arange(len(first.rows))).all()
    at = data.draw(st.integers(0, 1))
    whole = (at, slice(None), slice(None))
    assert held.draw_coarse_rows(block, block, whole, 10**6)
    assert len(source.read) == 1
    if first.blocks[0] <= block:
        return
    assert source.read == [((at,), first.rows.tolist())]
    assert held.rows_per_sample(block, block, whole) == first.blocks[0]
    found, of_rows = held.read_pooled(block, block, whole), numbers[at].numpy()
    for row, column in ((0, 0), (found.shape[0] - 1, found.shape[1] - 1)):
        (read,) = held.rows_represented(block, block, (at, row))
        middle = min(column * block + block // 2, columns - 1)
        start = middle // first.blocks[1] * first.blocks[1]
        assert found[row, column] == of_rows[read, start : start + first.blocks[1]].max()
    while held.draw_coarse_rows(block, block, whole, 10**6):
        pass
    assert held.drawn_row_share(block, block, whole) == 1
    assert held.rows_per_sample(block, block, whole) == block
    assert held.rows_represented(block, block, (at, 0))[0] == min(block // 2, rows - 1)


def test_first_pictures_of_many_heads_keep_no_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_tiles, "MAX_CACHED_TILE_BYTES", 2**20)
    monkeypatch.setattr(drawn_tiles, "MAX_CACHED_PREVIEWS", 8)
    heads, size = 12, 800
    held = BlockwiseTensor((heads, size, size), FarNumbers(torch.rand((heads, size, size))))
    for head in range(heads):
        cells = (head, slice(None), slice(None))
        rounds = 0
        while held.draw_coarse_rows(4, 4, cells, 10**5):
            rounds += 1
        assert rounds < 10
        assert held.drawn_row_share(4, 4, cells) == 1
    assert len(held.tiles.previews) == 8
    assert np.isfinite(held.read_pooled(2, 2, (11, slice(0, 50), slice(0, 50)))).all()


def test_the_first_picture_of_single_cells_is_exact() -> None:
    held = long_run(700).trace.cached_stage_tensor("weights")
    part = (0, slice(100, 200), slice(50, 150))
    held.draw_coarse_rows(1, 1, part)
    assert held.exact_row_share(1, 1, part) == 1
    np.testing.assert_allclose(held.read_pooled(1, 1, part), held.read(part), rtol=1e-6)


def test_until_a_part_is_drawn_it_is_that_of_a_coarser_picture() -> None:
    held = long_run(700).trace.cached_stage_tensor("scaled")
    whole = (0, slice(None), slice(None))
    held.draw_exact_rows(8, 8, whole, never)
    coarse = held.read_pooled(8, 8, whole)
    part = (0, slice(10, 30), slice(40, 90))
    found = held.read_pooled(2, 2, part)
    np.testing.assert_array_equal(found, coarse.repeat(4, 0).repeat(4, 1)[10:30, 40:90])
    assert held.exact_row_share(2, 2, part) == 0


def test_where_there_is_no_coarser_picture_it_is_that_of_a_finer_one() -> None:
    held = long_run(700).trace.cached_stage_tensor("scaled")
    whole = (0, slice(None), slice(None))
    held.draw_exact_rows(2, 2, whole, never)
    fine = held.read_pooled(2, 2, whole)
    middles = np.minimum(np.arange(100) * 7 + 3, 699) // 2
    np.testing.assert_array_equal(held.read_pooled(7, 7, whole), fine[np.ix_(middles, middles)])
    assert held.drawn_row_share(7, 7, whole) == 0


def test_a_bounded_number_of_tiles_is_kept_and_the_whole_picture_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawn_tiles, "MAX_CACHED_TILE_BYTES", 2**20)
    held = long_run(2_000).trace.cached_stage_tensor("weights")
    whole = (0, slice(None), slice(None))
    held.draw_exact_rows(16, 16, whole, never)
    picture = held.read_pooled(16, 16, whole)
    for first in range(0, 1_900, 100):
        held.draw_coarse_rows(1, 1, (0, slice(first, first + 100), slice(0, 100)))
        assert held.bytes <= 2**21
    np.testing.assert_array_equal(held.read_pooled(16, 16, whole), picture)
    assert held.exact_row_share(16, 16, whole) == 1


def test_long_texts_are_read_by_blocks_by_themselves() -> None:
    text = (tuple(LETTERS * 90),)
    long = run(text, replace(SPEC, heads=8))
    assert long.trace.is_blockwise
    assert "; its 3,690 × 3,690 matrices are computed on demand" in describe_computation(long)
    assert long.trace.bytes < 2**23
    short = run((text[0][:100],), long.trace.spec, long)
    assert not short.trace.is_blockwise
    assert "matrices" not in describe_computation(short)


def test_unchanged_pictures_are_kept_when_the_mask_changes() -> None:
    before = long_run(600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
        patch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
        after = run(before.texts, replace(SPEC, mask=MaskKind.NONE), before)
    assert after.trace.cached_stage_tensor("scaled") is before.trace.cached_stage_tensor("scaled")
    assert after.trace.cached_stage_tensor("weights") is not before.trace.cached_stage_tensor(
        "weights"
    )


def test_dropout_drops_the_same_cells() -> None:
    spec = replace(SPEC, mode=DropoutMode.TRAIN, dropout=0.25)
    trace = long_run(300, spec).trace
    whole = run((tuple(LETTERS * 8)[:300],), spec).trace
    np.testing.assert_array_equal(trace.read("dropped") == 0, whole.read("dropped") == 0)


def test_rows_are_read_once_for_what_they_are_divided_by(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = long_run(500).trace
    found: list[int] = []
    find = ModuleBlockCalculator.compute_divisors

    def count(own: ModuleBlockCalculator, row: Stage, place: tuple[int, ...], rows: Tensor) -> None:
        found.append(len(rows))
        find(own, row, place, rows)

    monkeypatch.setattr(ModuleBlockCalculator, "compute_divisors", count)
    trace.read("weights", (0, slice(10, 20)))
    trace.read("weights", (0, slice(0, 20), 3))
    assert found == [10, 10]
