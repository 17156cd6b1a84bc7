"""The highlighted cells are those of the explanation; later cells are empty."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases, drawn_step
from tests.support.examples import examples
from tests.support.screens import present, resolved
from tests.support.small_runs import a_run, places
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.spec import Device, MaskKind
from visualizer.explanations.explain import explain
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.highlights import (
    HighlightBlock,
    computed_extents,
    highlighted_blocks,
    input_blocks_of_cell,
    step_computations,
)
from visualizer.models.model_folder import read_model_folder
from visualizer.models.model_source import HeadEdit, HeadEditKind, ModelSource
from visualizer.models.model_text_runs import read_text
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, PlaybackState, Step, StepSize, Timeline
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

GRAINS = st.sampled_from(StepSize)
Whole = tuple[int, ...]


def cells_of(one: HighlightBlock) -> set[tuple[str, Whole]]:
    head = () if one.head is None else (one.head,)
    return {(one.stage, (*head, *cell)) for cell in itertools.product(one.rows, one.columns)}


def read_by(run: Run, text: int, made: set[tuple[str, Whole]]) -> set[tuple[str, Whole]]:
    """Return the cells that the explanations of the given cells refer to."""
    batch = (text,) if run.trace.axes else ()
    found = set()
    for stage, place in made:
        for group in explain(run.trace, stage, (*batch, *place)).groups:
            for factor in group.factors:
                if factor.name in run.trace and factor.name != stage:
                    terms = range(len(factor.read))
                    found |= {
                        (factor.name, factor.source_index(term)[len(batch) :]) for term in terms
                    }
    return found


@examples(0.6)
@given(cases(), GRAINS, st.data())
def test_the_highlighted_cells_are_those_of_the_explanation(
    case: Case, grain: StepSize, data: st.DataObject
) -> None:
    run = case.run()
    text, step = drawn_step(data, run, grain)
    highlights = highlighted_blocks(step_computations(resolved(run, View(text=text)), step))
    made = set().union(*(cells_of(one) for one in highlights if one.is_result))
    read = [cells_of(one) for one in highlights if not one.is_result]
    heads = run.trace.spec.heads if "head" in run.trace.stage(step.stage).dims else 1
    assert len(made) == heads * len(step.rows) * len(step.columns)
    assert set().union(*read) == read_by(run, text, made)


@pytest.mark.parametrize("grain", [StepSize.ROW, StepSize.CELL])
def test_stages_of_a_model_highlight_their_inputs(tmp_path: Path, grain: StepSize) -> None:
    """A rotation uses the halves of a vector in turn, and negates one of them."""
    folder = read_model_folder(save_tiny_model(tmp_path / "llama"))
    source = ModelSource(str(tmp_path / "llama"), folder.name, folder.fingerprint)
    run = read_text(source, "the cat sat", Device.CPU)
    shown = resolved(run, View())
    for stage in ("queries", "keys"):
        sizes = run.trace.shape(stage)[-2:]
        width = sizes[1] if grain is StepSize.ROW else 1
        for column in range(0, sizes[1], width):
            step = Step(stage, range(1, 2), range(column, column + width))
            highlights = highlighted_blocks(step_computations(shown, step))
            read = {at for one in highlights if not one.is_result for at in cells_of(one)}
            made = {(name, (0, *at)) for one in highlights if one.is_result
                    for name, at in cells_of(one)}  # fmt: skip
            explained = {
                (factor.name, factor.source_index(term)[1:])
                for name, at in made
                for group in explain(run.trace, name, at).groups
                for factor in group.factors if factor.name in run.trace
                for term in range(len(factor.read))
            }  # fmt: skip
            assert read == explained


@pytest.mark.parametrize("edit", [
    HeadEdit(0, 1, HeadEditKind.MEAN),
    HeadEdit(0, 1, HeadEditKind.PATCHED, text="the dog ran"),
    HeadEdit(0, 3, HeadEditKind.OFF),
])  # fmt: skip
@pytest.mark.parametrize("columns", [range(16), range(4, 8), range(4, 5)])
def test_the_context_of_an_edited_head_is_highlighted_only_where_it_is_an_input(
    tiny_model_folder: Path, edit: HeadEdit, columns: range
) -> None:
    folder = read_model_folder(tiny_model_folder)
    source = ModelSource(str(tiny_model_folder), folder.name, folder.fingerprint, edits=(edit,))
    run = read_text(source, "the cat sat", Device.CPU)
    highlights = highlighted_blocks(
        step_computations(resolved(run, View()), Step("concat", range(2), columns))
    )
    read = {at for one in highlights if not one.is_result for at in cells_of(one)}
    explained = {
        (factor.name, factor.source_index(term)[1:])
        for row in range(2)
        for column in columns
        for group in explain(run.trace, "concat", (0, row, column)).groups
        for factor in group.factors if factor.name in run.trace
        for term in range(len(factor.read))
    }  # fmt: skip
    assert read == explained


@given(cases(), st.data())
def test_a_hovered_cell_highlights_its_inputs(case: Case, data: st.DataObject) -> None:
    run = case.run()
    text = data.draw(st.integers(0, len(run.texts) - 1))
    stage = data.draw(st.sampled_from(run.trace.names))
    cell = Cell(stage, data.draw(st.sampled_from(list(places(run, stage)))))
    highlights = input_blocks_of_cell(resolved(run, View(text=text)), cell)
    assert not any(one.is_result for one in highlights)
    found = set().union(*(cells_of(one) for one in highlights))
    assert found == read_by(run, text, {(cell.stage, cell.place)})


def test_the_window_highlights_the_inputs_of_the_pinned_cell_or_of_the_step() -> None:
    run = a_run()
    view = View(pinned=Cell("context", (1, 3, 0)))
    screen = present(Document(), view, run, None, False, None)
    assert {one.stage for one in screen.panel(BOARD_CONTENTS).highlights.blocks} == {
        "weights",
        "values",
    }
    again = present(Document(), view, run, None, False, screen)
    assert again.panel(BOARD_CONTENTS).highlights is screen.panel(BOARD_CONTENTS).highlights
    playing = replace(view, playhead=PlaybackState(PlaybackPosition("scores")))
    step = present(Document(), playing, run, None, False, screen)
    assert step.panel(BOARD_CONTENTS).highlights is step.panel(BOARD_CONTENTS).step_highlights
    covered = replace(view, guess=Prediction("weights"))
    assert (
        present(Document(), covered, run, None, False, screen)
        .panel(BOARD_CONTENTS)
        .highlights.blocks
        == ()
    )


@given(cases(), GRAINS, st.data())
def test_the_computed_part_grows_with_each_step_until_it_is_complete(
    case: Case, grain: StepSize, data: st.DataObject
) -> None:
    run = case.run()
    trace = run.trace
    line = Timeline.from_trace(trace, grain)
    position = data.draw(st.integers(0, len(line) - 1))
    places = [line.position_of_step(at) for at in range(position + 1)]
    done = {
        (step.stage, row, column)
        for step in (line.step_at(place) for place in places if place)
        for row, column in itertools.product(step.rows, step.columns)
    }
    last = places[-1]
    assert last is not None
    shown = resolved(run, View(playhead=PlaybackState(last, grain)))
    reached = {reach.stage: reach for reach in computed_extents(line, last)}
    for name in trace.names:
        for row, column in itertools.product(*map(range, trace.tensor(name).shape[-2:])):
            is_given = not trace.stage(name).reads
            is_later = (name, row, column) not in done and not is_given
            assert shown.is_computed_later(Cell(name, (row, column))) == is_later
            reach = reached[name]
            at = row < reach.rows or (row == reach.rows and column < reach.columns)
            assert at == (not is_later)


def test_at_the_end_no_cell_is_empty_or_highlighted() -> None:
    run = a_run()
    shown = resolved(run, View())
    assert (shown.place, shown.focus) == (None, None)
    assert not shown.is_computed_later(Cell("weights", (0, 0, 0)))


def test_the_focus_is_the_played_stage_or_the_nearest_one() -> None:
    view = View(playhead=PlaybackState(PlaybackPosition("masked", 2)))
    assert resolved(a_run(), view).focus == "masked"
    assert resolved(a_run(heads=1), view).focus == "masked"
    unmasked = resolved(a_run("a b c", mask=MaskKind.NONE), view)
    assert (unmasked.focus, unmasked.place) == ("weights", PlaybackPosition("weights"))


def test_a_prediction_covers_its_stage_and_dependent_stages() -> None:
    run = a_run()
    playhead, guess = PlaybackState(PlaybackPosition("scores")), Prediction("weights")
    shown = resolved(run, View(playhead=playhead, guess=guess))
    assert shown.hidden_stages == {"weights", "context", "concat", "output"}
    assert (shown.focus, shown.place) == ("weights", None)
    revealed = resolved(run, View(guess=Prediction("weights", is_revealed=True)))
    assert revealed.hidden_stages == frozenset()
    assert resolved(run, View(guess=Prediction("dropped"))).focus is None
