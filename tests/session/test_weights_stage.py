"""All panes show weights before or after dropout, depending on the cell, and state which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.screens import present, resolved
from tests.support.small_runs import a_run
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.attention.spec import BooleanMatrix, MaskPlacement
from visualizer.explanations.explain import describe_step
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.head_scatter.presenter import SCATTER_PANEL, present_scatter
from visualizer.features.head_table.presenter import HEADS_PANEL, present_head_table
from visualizer.features.layer_overview.presenter import present_layer_overview
from visualizer.features.line_view.presenter import LINES_PANEL
from visualizer.features.token_strip.presenter import TOKENS_PANEL, hovered_cell_of_token
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import Step
from visualizer.session.view import View
from visualizer.session.view_options import PANE_TITLE as LINES_PANE
from visualizer.shell.screen_presenter import STATUS_PANEL
from visualizer.shell.screen_reader_announcer import describe_current_cell

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.screen import Screen

KEPT = BooleanMatrix.from_array(np.tri(6)[::-1])
PLACE = (0, 4, 1)
SIDES = {"weights": "before dropout", "dropped": "after dropout"}


def dropping_run(*texts: str) -> Run:
    return a_run(*texts, dropout=0.5, own_kept=KEPT)


def screen_of(run: Run, **fields: Any) -> Screen:
    view = View(**{"panes": frozenset({LINES_PANE}), **fields})
    return present(Document(), view, run, None, False, None)


@pytest.mark.parametrize("stage", SIDES)
@pytest.mark.parametrize("field", ["hovered", "pinned"])
def test_the_tokens_and_the_pane_show_the_same_number_as_the_cell(stage: str, field: str) -> None:
    run = dropping_run()
    screen = screen_of(run, **{field: Cell(stage, PLACE)})
    weights, panel = screen.panel(TOKENS_PANEL).weights, screen.panel(CELL_PANEL)
    assert weights
    assert panel
    number = float(run.trace.read(stage, PLACE))
    assert weights.values[PLACE[2]] == pytest.approx(number)
    assert panel.value == f"{number:.4f}"
    assert weights.plain_sentence.endswith(SIDES[stage])
    assert weights.qualifier == SIDES[stage]
    assert "dropout" in panel.plain_text.lower()
    assert ("before" in panel.plain_text.lower()) == (stage == "weights")
    assert panel.plain_text in describe_current_cell(screen)
    lines = screen.panel(LINES_PANEL)
    assert lines
    assert any(SIDES[lines.stage] in note for note in lines.notes)
    assert lines.qualifier == SIDES[lines.stage]
    if field == "pinned":
        assert lines.stage == stage


def test_without_a_weight_cell_weights_after_dropout_are_used_if_shown() -> None:
    run, cell = dropping_run(), Cell("scores", PLACE)
    assert resolved(run, View(hovered=cell)).weights_stage(cell) == "dropped"
    assert resolved(run, View(stages=frozenset({"weights"}))).weights_stage(None) == "weights"
    found = hovered_cell_of_token(resolved(run, View(pinned=Cell("weights", PLACE))), 3)
    assert found
    assert found.stage == "weights"


@pytest.mark.parametrize("fold", HeadAggregate)
@pytest.mark.parametrize("stage", SIDES)
def test_aggregated_heads_name_the_stage(fold: HeadAggregate, stage: str) -> None:
    cell = Cell(stage, PLACE[1:], fold)
    panel = screen_of(dropping_run(), hovered=cell, folds=frozenset({fold})).panel(CELL_PANEL)
    assert panel
    assert SIDES[stage] in panel.plain_text


def test_captions_of_steps_name_the_stage() -> None:
    run = dropping_run()
    for stage, side in (("weights", "before"), ("dropped", ""), ("context", "after")):
        columns = range(run.trace.shape(stage)[-1])
        assert f"{side} dropout" in describe_step(run, (), Step(stage, range(4, 5), columns), 0)
    whole = Step("weights", range(6), range(6))
    assert "before dropout" in describe_step(run, (), whole, 0)


def test_head_measures_use_weights_before_dropout_and_state_it() -> None:
    shown = resolved(dropping_run("a b a b a b"), View())
    heads, scatter, layers = (
        present_head_table(shown, None),
        present_scatter(shown),
        present_layer_overview(shown, None),
    )
    assert heads
    assert "before dropout" in heads.summary
    assert "before dropout" in scatter.describe_head(scatter.plotted_heads[0])
    assert "before dropout" in layers.note


def test_panes_name_the_stage_if_dropout_is_on() -> None:
    words = "a b a b a b"
    without = a_run(words)
    shown: dict[str, Any] = {
        "pinned": Cell("weights", PLACE),
        "panes": frozenset({LINES_PANE, "Scatter", "Heads"}),
    }
    before = screen_of(without, **shown)
    run = a_run(words, previous=without, dropout=0.5, own_kept=KEPT)
    # The weights are reused.
    assert run.trace.cached_stage_tensor("weights") is without.trace.cached_stage_tensor("weights")
    after = present(Document(), View(**shown), run, None, False, before)
    lines, scatter, heads = (
        after.panel(LINES_PANEL),
        after.panel(SCATTER_PANEL),
        after.panel(HEADS_PANEL),
    )
    assert lines
    assert heads
    assert lines.qualifier == scatter.qualifier == "before dropout"
    assert lines.notes[0].endswith("before dropout")
    assert "before dropout" in heads.summary


@pytest.mark.parametrize("stage", ["unmasked", "zeroed", "weights"])
def test_weights_around_the_mask_name_it(stage: str) -> None:
    run = a_run(route=MaskPlacement.AFTER_RENORMALISED)
    panel = screen_of(run, hovered=Cell(stage, PLACE)).panel(CELL_PANEL)
    assert panel
    assert ("before" in panel.plain_text.lower()) == (stage != "weights")


def test_with_one_weights_stage_nothing_is_added() -> None:
    screen = screen_of(a_run(), hovered=Cell("weights", PLACE))
    weights, panel, lines = (
        screen.panel(TOKENS_PANEL),
        screen.panel(CELL_PANEL),
        screen.panel(LINES_PANEL),
    )
    assert weights.weights
    assert panel
    assert lines
    shown = [
        panel.plain_text,
        weights.weights.plain_sentence,
        *lines.notes,
        screen.panel(STATUS_PANEL).facts,
    ]
    assert not [each for each in shown if "dropout" in each]
    assert weights.weights.qualifier == lines.qualifier == ""
