"""A value can be traced to its inputs and back; every value on the way is that of the trace."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.screens import resolved
from tests.support.small_runs import a_run, places
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.layer_stages import LayerStageSpec, create_layer_stages
from visualizer.attention.spec import MaskKind
from visualizer.attention.trace import Trace
from visualizer.features.explain.presenter import CellExplanation, explain_head_cell
from visualizer.format import format_number
from visualizer.session.cell_address import Cell
from visualizer.session.resolved_view import existing_cell
from visualizer.session.view import View
from visualizer.session.view_changes import (
    MAX_PINNED_HISTORY,
    pin_cell,
    pin_next_cell,
    pin_previous_cell,
)

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def read(run: Run, text: int, cell: Cell) -> CellExplanation:
    return explain_head_cell(resolved(run, View(text=text)), cell, is_pinned=True)


def links(readout: CellExplanation) -> list[Cell]:
    return [piece.source for term in readout.terms for piece in term.pieces if piece.source]


@examples(0.6)
@given(cases(), st.data())
def test_every_trail_ends_at_a_given_number(case: Case, data: st.DataObject) -> None:
    run = case.run()
    text = data.draw(st.integers(0, len(run.texts) - 1))
    stage = data.draw(st.sampled_from(run.trace.names))
    cell = Cell(stage, data.draw(st.sampled_from(list(places(run, stage)))))
    view = View()
    order = list(run.trace.names)
    leading = run.trace.leading_index(text=text)
    for _ in range(len(order) + 1):
        view = pin_cell(view, cell)
        readout = read(run, text, cell)
        value = float(run.trace.read(cell.stage, (*leading, *cell.place)))
        assert readout.value == format_number(value)
        for term in readout.terms:
            for piece in term.pieces:
                if piece.source and "exp" not in piece.text:
                    found = run.trace.read(
                        piece.source.stage,
                        (*run.trace.leading_index(text=text), *piece.source.place),
                    )
                    assert format_number(float(found)) in piece.text
        there_are = links(readout)
        if not there_are:
            break
        cell = data.draw(st.sampled_from(there_are))
        assert order.index(cell.stage) < order.index(view.pinned.stage)  # type: ignore[union-attr]
    if cell.stage == "context":  # in linear attention, if no key may be attended to
        assert not run.trace.allowed_mask("weights", leading, cell.head)[cell.place[1]].any()
        return
    # An average without a mask has no inputs, so a trail can also end there.
    assert not run.trace.stage(cell.stage).reads or cell.stage in {"weights", "unmasked"}


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 9), st.integers(0, 9))
def test_going_back_and_forward_leads_to_the_same_cell(keys: list[int], back: int, on: int) -> None:
    run, view = a_run(), View()
    cells = [Cell("weights", (0, 5, key)) for key, _ in itertools.groupby(keys)]
    for cell in cells:
        view = pin_cell(view, cell)
    seen = [view]
    for _ in range(back):
        view = pin_previous_cell(run, view)
        seen.append(view)
    at = max(0, len(cells) - 1 - back)
    assert view.pinned == (cells[at] if cells else None)
    for _ in range(on):
        view = pin_next_cell(run, view)
    assert view.pinned == (cells[min(at + on, len(cells) - 1)] if cells else None)
    for _ in range(10):
        view = pin_next_cell(run, view)
    assert (view.pinned, view.past) == (seen[0].pinned, seen[0].past)


def test_cells_that_no_longer_exist_are_skipped() -> None:
    view = View()
    for stage in ("scores", "masked", "weights"):
        view = pin_cell(view, Cell(stage, (1, 5, 5)))
    run = a_run(mask=MaskKind.NONE)
    back = pin_previous_cell(run, view)
    assert back.pinned == Cell("scores", (1, 5, 5))
    alone = a_run(heads=1)
    assert pin_previous_cell(alone, view) == view


def test_going_back_shows_the_pinned_cell_instead_of_the_hovered_one() -> None:
    first, second, pointed = (Cell("weights", (0, 5, key)) for key in range(3))
    view = pin_cell(pin_cell(View(), first), second)
    back = pin_previous_cell(a_run(), replace(view, hovered=pointed))
    assert (back.pinned, back.hovered) == (first, None)
    on = pin_next_cell(a_run(), replace(back, hovered=pointed))
    assert (on.pinned, on.hovered) == (second, None)


def test_pinning_another_cell_clears_the_forward_history() -> None:
    first, second, other = (Cell("weights", (0, 5, key)) for key in range(3))
    view = pin_previous_cell(a_run(), pin_cell(pin_cell(View(), first), second))
    turned = pin_cell(view, other)
    assert turned.future == ()
    assert pin_next_cell(a_run(), turned) == turned
    assert pin_previous_cell(a_run(), turned).pinned == first


def test_unpinning_clears_the_history_and_a_trail_has_a_maximum_length() -> None:
    view = View()
    for step in range(MAX_PINNED_HISTORY + 20):
        view = pin_cell(view, Cell("weights", (0, step % 6, 0)))
    assert len(view.past) == MAX_PINNED_HISTORY
    assert pin_cell(view, None) == View(last_pinned=view.pinned)


def test_weight_matrices_of_layers_are_not_cells() -> None:
    readout = read(a_run(), 0, Cell("queries", (0, 1, 0)))
    assert {cell.stage for cell in links(readout)} == {"input"}
    assert [len(term.pieces) for term in readout.terms] == [2, 2, 2]
    assert all(term.pieces[1].source is None for term in readout.terms)


def test_a_link_to_another_layer_can_be_followed_and_reverted() -> None:
    view = pin_cell(View(layer=3), Cell("residual", (1, 0)))
    there = pin_cell(view, Cell("result", (1, 0), layer=2))
    assert (there.layer, there.pinned) == (2, Cell("result", (1, 0)))
    beside = pin_cell(there, Cell("attended", (1, 0)))
    assert (beside.layer, beside.pinned) == (2, Cell("attended", (1, 0)))
    run = layers_run()
    first = pin_previous_cell(run, beside)
    assert (first.layer, first.pinned) == (2, Cell("result", (1, 0)))
    second = pin_previous_cell(run, first)
    assert (second.layer, second.pinned) == (3, Cell("residual", (1, 0)))
    again = pin_next_cell(run, second)
    assert (again.layer, again.pinned) == (2, Cell("result", (1, 0)))
    assert pin_next_cell(run, again).pinned == Cell("attended", (1, 0))
    assert existing_cell(run, Cell("result", (1, 0), layer=4)) is None


def layers_run() -> Run:
    """Return a run with four layers and the stages that are listed here."""
    run = a_run("one two", heads=1)
    steps = {name: LayerStageSpec() for name in ("residual", "attended", "result")}
    rows = create_layer_stages(steps)
    held = {row.name: CachedTensor(torch.zeros(4, 2, 3)) for row in rows}
    return replace(run, trace=Trace(run.trace.spec, rows, {}, held, frozenset(), ("layer",)))
