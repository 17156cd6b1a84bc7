"""Every next cell of a number is computed from this number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.small_runs import a_run
from visualizer.attention.spec import TransformerBlockKind
from visualizer.explanations.dependent_cells import dependent_cells
from visualizer.explanations.explain import explain
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace


def reads(trace: Trace, reader: Cell, cell: Cell) -> bool:
    """Return whether one cell is computed from another."""
    leading = trace.leading_index()
    index = (*leading, *cell.place)
    for group in explain(trace, reader.stage, (*leading, *reader.place)).groups:
        for factor in group.factors:
            if factor.name == cell.stage:
                sources = (factor.source_index(at) for at in range(len(group.products)))
                if any(source == index for source in sources):
                    return True
    return False


@given(cases(most_tokens=4))
@examples(1)
def test_each_next_cell_is_computed_from_the_number(case: Case) -> None:
    trace = case.run().trace
    leading = trace.leading_index()
    for stage in trace.names:
        shape = trace.shape(stage)[len(trace.axes) :]
        for place in ((0,) * len(shape), tuple(size - 1 for size in shape)):
            cell = Cell(stage, place)
            for found in dependent_cells(trace, leading, cell):
                assert reads(trace, found.cell, cell), (cell, found)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell("input", (3, 1)), ["row 4 of Queries", "row 4 of Keys", "row 4 of Values"]),
        (Cell("queries", (1, 3, 0)), ["row 4 of Scores"]),
        (Cell("keys", (1, 3, 0)), ["column 4 of Scores"]),
        (Cell("values", (1, 3, 1)), ["column 2 of Context"]),
        (Cell("scores", (1, 3, 2)), ["Scaled"]),
        (Cell("weights", (1, 3, 2)), ["row 4 of Context"]),
        (Cell("context", (1, 3, 1)), ["column 4 of Concat"]),
        (Cell("concat", (3, 1)), ["row 4 of Output"]),
        (Cell("output", (3, 1)), []),
    ],
)
def test_every_number_of_a_module_says_where_it_goes(cell: Cell, words: list[str]) -> None:
    trace = a_run(d_in=3, d_out=4, heads=2).trace
    found = dependent_cells(trace, (), cell)
    assert [one.words for one in found] == words
    if words:
        value = trace.read(cell.stage, cell.place)
        assert np.isfinite(value)


def test_the_residual_stream_goes_to_the_norm_and_to_the_sum() -> None:
    trace = a_run(d_in=4, d_out=4, block=TransformerBlockKind.PRE_NORM).trace
    words = [one.words for one in dependent_cells(trace, (), Cell("residual", (2, 1)))]
    assert words[0].startswith("row 3 of ")
    assert len(words) == 2


def test_a_key_that_heads_share_goes_to_the_scores() -> None:
    trace = a_run(d_in=8, d_out=8, heads=4, key_value_heads=2).trace
    cell = Cell("keys", (1, 3, 0))
    (found,) = dependent_cells(trace, (), cell)
    assert found.words == "column 4 of Scores"
    assert reads(trace, found.cell, cell)
