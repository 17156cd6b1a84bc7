"""The table contains the shapes of the tensors, and counts the products of each operation."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from tests.support.attention_strategies import Case, cases
from tests.support.screens import resolved
from tests.support.small_runs import a_run
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.run import Run, run
from visualizer.attention.spec import AttentionSpec, Device, Dtype, HeadArrangement, Projection
from visualizer.features.shapes.presenter import (
    MAX_COLUMNS,
    MAX_HEADS,
    MAX_ROWS,
    HeadSplit,
    ShapeRow,
    ShapesPanel,
    present_shapes,
)
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import PlaybackPosition, PlaybackState
from visualizer.session.view import View

WORDS = ("Your", "journey", "starts", "with", "one", "step")


def shapes_panel(computed: Run, **fields: object) -> ShapesPanel:
    return present_shapes(resolved(computed, View(**fields)), ShapesPanel())  # type: ignore[arg-type]


def row(computed: Run, stage: str) -> ShapeRow:
    return next(row for row in shapes_panel(computed).rows if row.stage == stage)


def split(computed: Run, **fields: object) -> HeadSplit:
    made = shapes_panel(computed, **fields).split
    assert made is not None
    return made


def assert_sizes_are_real(computed: Run) -> None:
    trace, rows = computed.trace, shapes_panel(computed).rows
    assert [row.stage for row in rows] == list(trace.names)
    for one in rows:
        tensor = trace.tensor(one.stage)
        assert tuple(dim.size for dim in one.dims) == (trace.leading_sizes or (1,)) + tuple(
            tensor.shape[len(trace.leading_sizes) :]
        )
        assert one.bytes == tensor.numel() * tensor.element_size()
        assert one.dims[0].name == "batch"


# ------------------------------------------------------------------------------- the table


@given(cases())
def test_sizes_are_those_of_the_tensors(case: Case) -> None:
    assert_sizes_are_real(case.run())


@pytest.mark.parametrize("mechanism", Mechanism)
def test_sizes_of_every_mechanism(mechanism: Mechanism) -> None:
    base = AttentionSpec(d_in=6, d_out=4, device=Device.CPU)
    assert_sizes_are_real(run((WORDS,), apply_mechanism(mechanism, base)))


@given(cases())
def test_the_products_are_those_that_torch_counts(case: Case) -> None:
    with FlopCounterMode(display=False) as counter:
        computed = case.run()
    counted = sum(row.multiply_adds for row in shapes_panel(computed).rows)
    assert 2 * counted == counter.get_total_flops()


@given(cases())
def test_equations_lead_from_real_sizes_to_real_sizes(case: Case) -> None:
    for one in shapes_panel(case.run()).rows:
        sizes = [dim.size for dim in one.dims[1:]]
        for equation in one.equations:
            shapes = [
                [int(size) for size in found.split(", ")]
                for found in re.findall(r"\(([\d, ]+)\)", equation)
            ]
            if "·" in equation:
                left, right, made = shapes[0], shapes[1], shapes[-1]
                assert (left[1], [left[0], right[1]]) == (right[0], made)
                assert one.multiply_adds % math.prod((*left, right[1])) == 0
            elif "→" in equation:
                assert all(math.prod(one) == math.prod(other) for one, other in pairwise(shapes))
            elif "times" in equation:
                (times,) = map(int, re.findall(r"(\d+) times", equation))
                assert times * math.prod(shapes[0]) == math.prod(shapes[-1])
            if equation is one.equations[-1] and re.search("→|times", equation):
                assert shapes[-1] == sizes
        if not one.equations:
            assert one.multiply_adds == 0


@given(cases())
def test_parameters_are_as_large_as_those_of_the_module(case: Case) -> None:
    computed = case.run()
    parameters = computed.trace.parameters
    for one in shapes_panel(computed).rows:
        if met := one.parameter:
            is_one = re.compile(rf"(heads\.\d+\.)?{met.name}(\.weight)?$")
            found = [tensor for name, tensor in parameters.items() if is_one.match(name)]
            assert len(found) == met.head_count
            for tensor in found:
                assert sorted(tensor.shape) == sorted(met.shape)


def test_the_book_s_sizes_in_words() -> None:
    computed = a_run(d_in=3, d_out=4)
    one = row(computed, "queries")
    assert one.plain_text == (
        "Queries: batch 1, heads 2, tokens 6, d_head 2; each token's vector times W_query; "
        "(6, 3) · (3, 4) = (6, 4); (6, 4) → (6, 2, 2) → (2, 6, 2); "
        "72 multiply-adds  ·  96 bytes"
    )
    assert one.parameter is not None
    assert one.parameter.description == "W_query 3 × 4"
    assert row(computed, "context").equations == ("(6, 6) · (6, 2) = (6, 2) in each of 2 heads",)
    assert row(computed, "concat").equations == ("(2, 6, 2) → (6, 2, 2) → (6, 4)",)
    assert row(computed, "output").equations == ("(6, 4) · (4, 4) + (4) = (6, 4)",)
    assert row(computed, "weights").cost_text == "288 bytes"
    assert shapes_panel(computed).batch == "Batch size 1: one text."
    assert shapes_panel(computed).total == (
        "Total: 600 multiply-adds in matrix products; the stages take 1.8 KiB."
    )


def test_stacked_heads_have_matrices_of_their_own() -> None:
    one = row(a_run(arrangement=HeadArrangement.STACKED, bias=True), "values")
    assert one.equations == ("(6, 3) · (3, 2) + (2) = (6, 2) in each of 2 heads",)
    assert one.parameter is not None
    assert one.parameter.description == "W_value 3 × 2 in each of 2 heads"


def test_without_projection_the_input_itself_is_split() -> None:
    one = row(a_run(projection=Projection.NONE, d_in=4), "keys")
    assert (one.parameter, one.equations) == (None, ("(6, 4) → (6, 2, 2) → (2, 6, 2)",))


def test_a_batch_is_counted_and_said() -> None:
    computed = a_run("one two", "one two three", dtype=Dtype.FLOAT64)
    made = shapes_panel(computed)
    assert made.batch == "Batch size 2: texts padded to 3 tokens. The equations are for one text."
    assert {one.dims[0].size for one in made.rows} == {2}
    assert row(computed, "queries").multiply_adds == 2 * 3 * 3 * 2
    even = shapes_panel(a_run("one two", "three four"))
    assert even.batch == "Batch size 2: texts of 2 tokens. The equations are for one text."


def test_queries_and_keys_count_tokens() -> None:
    dims = row(a_run(), "scores").dims
    assert [dim.unit for dim in dims] == ["batch", "heads", "tokens", "tokens"]


def test_the_row_is_marked_that_is_looked_at() -> None:
    computed = a_run()
    assert shapes_panel(computed).current_stage is None
    assert shapes_panel(computed, pinned=Cell("values", (0, 0, 0))).current_stage == "values"
    both = {"pinned": Cell("values", (0, 0, 0)), "hovered": Cell("scores", (0, 0, 0))}
    assert shapes_panel(computed, **both).current_stage == "scores"
    assert (
        shapes_panel(
            computed, playhead=PlaybackState(PlaybackPosition("keys")), **both
        ).current_stage
        == "keys"
    )
    assert shapes_panel(computed, pinned=Cell("values", (7, 0, 0))).current_stage is None


def test_what_did_not_change_is_the_same_object() -> None:
    computed = a_run()
    before = shapes_panel(computed)
    assert present_shapes(resolved(computed, View()), before) is before
    assert (
        present_shapes(resolved(computed, View(pinned=Cell("keys", (0, 0, 0)))), before)
        is not before
    )


# --------------------------------------------------------------------------------- the split


@pytest.mark.parametrize(
    ("stage", "drawn", "is_apart"),
    [
        (None, "queries", True),
        ("input", "queries", False),
        ("keys", "keys", True),
        ("weights", "queries", True),
        ("context", "context", True),
        ("concat", "concat", False),
        ("output", "concat", False),
    ],
)
def test_the_matrix_of_the_stage_is_drawn(stage: str | None, drawn: str, is_apart: bool) -> None:
    playhead = PlaybackState(PlaybackPosition(stage) if stage else None)
    made = split(a_run(), playhead=playhead)
    assert (made.stage, made.is_split) == (drawn, is_apart)


@given(heads=st.integers(1, 40), d_head=st.integers(1, 90), tokens=st.integers(1, 40))
def test_a_drawing_is_never_too_large_and_says_what_is_left_out(
    heads: int, d_head: int, tokens: int
) -> None:
    made = HeadSplit("queries", "Q", tokens, heads, d_head, HeadArrangement.SPLIT, True)
    assert len(made.head_of_each_column) <= MAX_COLUMNS
    assert list(made.head_of_each_column) == sorted(made.head_of_each_column)
    assert set(made.head_of_each_column) == set(range(min(heads, MAX_HEADS)))
    assert len({made.head_of_each_column.count(head) for head in made.head_of_each_column}) == 1
    is_whole = len(made.head_of_each_column) == heads * d_head and made.drawn_row_count == tokens
    assert made.drawn_row_count == min(tokens, MAX_ROWS)
    assert (made.omission_note == "") == is_whole


@given(
    heads=st.integers(1, 16),
    d_head=st.integers(1, 4),
    progress=st.floats(0, 1),
    gap=st.floats(0, 3),
)
def test_columns_slide_apart_and_keep_their_order(
    heads: int, d_head: int, progress: float, gap: float
) -> None:
    made = HeadSplit("queries", "Q", 6, heads, d_head, HeadArrangement.SPLIT, True)
    lefts = made.left_edges(progress, gap)
    for (head, left), (other, right) in pairwise(zip(made.head_of_each_column, lefts, strict=True)):
        between = progress * gap if head != other else 0
        assert right - left == pytest.approx(1 + between)


def test_the_split_in_words() -> None:
    assert split(a_run(d_out=4)).sentence == "Each of 2 heads has 2 of the 4 columns."
    stacked = split(a_run(arrangement=HeadArrangement.STACKED)).sentence
    assert stacked == "Each of 2 stacked heads has 2 columns of its own, 4 in total."
    assert split(a_run(heads=1)).sentence == "The only head has all 2 columns."
    assert split(a_run(heads=1, d_out=1)).sentence == "The only head has the only column."
    wide = split(a_run(d_out=768, heads=12))
    assert wide.omission_note == "Drawn: 5 of 64 columns per head."
    assert (wide.joined_shape, wide.split_shape) == ("(6, 768)", "(12, 6, 64)")
