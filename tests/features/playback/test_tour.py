"""A tour is about one cell at a time: text, explanation, highlights and code agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.support.screens import present
from tests.support.small_runs import a_run
from visualizer.explanations.explain import describe_step
from visualizer.features.explain.code_presenter import CODE_PANEL
from visualizer.features.explain.presenter import CELL_PANEL, EXPLAIN_PANE
from visualizer.features.playback.presenter import PLAYBACK_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.step_motion_paths import motion_duration_ms
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, PlaybackState, Step, StepSize, Timeline
from visualizer.session.token_selection import TokenSelection
from visualizer.session.view import View
from visualizer.session.view_changes import pin_cell

if TYPE_CHECKING:
    from visualizer.session.screen import Screen

RUN = a_run()
STEPS = Timeline.from_trace(RUN.trace, StepSize.TOUR)
PLACES = [STEPS.position_of_step(position) for position in range(len(STEPS))]
CHOSEN = Cell("weights", (1, 4, 2))
SHOWN = View(flow=True, panes=frozenset({EXPLAIN_PANE}))
SQUARE = {"scores", "scaled", "masked", "weights"}
UNPINNED = pin_cell(pin_cell(SHOWN, CHOSEN), None)


def play(
    place: PlaybackPosition | None, view: View, previous: Screen | None = None, **changes: bool
) -> Screen:
    playhead = PlaybackState(place, StepSize.TOUR, is_playing=True)
    view = replace(view, playhead=replace(playhead, **changes))
    return present(Document(spec=RUN.trace.spec), view, RUN, None, False, previous)


@pytest.mark.parametrize("view", [SHOWN, replace(SHOWN, pinned=CHOSEN), UNPINNED])
@pytest.mark.parametrize("hovered", [None, Cell("input", (0, 0))])
def test_text_explanation_highlights_and_code_are_those_of_one_cell(
    view: View, hovered: Cell | None
) -> None:
    cells: dict[str, Cell] = {}
    for place in PLACES:
        assert place is not None
        screen = play(place, replace(view, hovered=hovered))
        assert screen.resolved
        cell = screen.resolved.described_step_cell
        bar, explained = screen.panel(PLAYBACK_PANEL), screen.panel(CELL_PANEL)
        assert cell
        assert explained
        assert cells.setdefault(cell.stage, cell) == cell  # the same during the whole stage
        assert cell.stage == place.stage
        is_whole = screen.resolved.timeline.describes_whole_stage(place)
        assert bar.equation == (None if is_whole else explained.equation)
        assert f" {cell.place[-2] + 1}, " in explained.heading
        highlights = screen.panel(BOARD_CONTENTS).step_highlights
        assert highlights.leading == cell
        results = [block for block in highlights.blocks if block.is_result]
        assert {block.rows for block in results} == {range(cell.place[-2], cell.place[-2] + 1)}
        code = screen.panel(CODE_PANEL)
        assert code
        assert code.title.startswith(RUN.trace.stage(cell.stage).title)
    assert {*cells} == {*RUN.trace.names}
    if view.pinned or view.last_pinned:
        assert {cell.place[-2] for cell in cells.values()} == {CHOSEN.place[-2]}
        assert {cell.place[-1] for name, cell in cells.items() if name in SQUARE} == {2}


def test_an_equation_is_shown_only_while_there_is_time_to_read_it() -> None:
    shown = {
        (place.stage, is_playing): play(place, SHOWN, is_playing=is_playing).panel(PLAYBACK_PANEL)
        for place in (PlaybackPosition("queries", 5), PlaybackPosition("weights", 5))
        for is_playing in (True, False)
    }
    assert [key for key, bar in shown.items() if not bar.equation] == [("queries", True)]


def test_the_sentence_is_about_the_stage_until_its_row_is_shown_in_full() -> None:
    previous = None
    for place in PLACES:
        assert place
        previous = play(place, replace(SHOWN, pinned=CHOSEN), previous)
        assert previous.resolved
        timeline, step = previous.resolved.timeline, previous.resolved.described_step
        assert step
        is_brief = timeline.is_too_brief_for_equation(place.stage)
        if is_brief or place.row < step.rows[0]:
            rows, columns = RUN.trace.shape(place.stage)[-2:]
            step = Step(place.stage, range(rows), range(columns))
        bar = previous.panel(PLAYBACK_PANEL)
        assert bar.caption == describe_step(RUN, (), step, CHOSEN.place[0])
        assert (bar.described_stage is not None) == (len(step.rows) > 1)


def test_a_paused_tour_describes_the_row_at_its_position() -> None:
    for place in (PlaybackPosition("queries", 1), PlaybackPosition("weights", 1)):
        screen = play(place, replace(SHOWN, pinned=CHOSEN), is_playing=False)
        described = describe_step(RUN, (), STEPS.step_at(place), CHOSEN.place[0])
        assert screen.panel(PLAYBACK_PANEL).caption == described


def test_a_tour_is_about_the_head_of_the_pinned_cell() -> None:
    screen = play(PlaybackPosition("scores", 4), replace(SHOWN, pinned=CHOSEN))
    assert screen.resolved
    assert screen.resolved.described_step_cell == Cell("scores", (1, 4, 2))


def test_only_the_row_shown_in_full_has_a_motion() -> None:
    moving = []
    for row in range(6):
        screen = play(PlaybackPosition("weights", row), replace(SHOWN, pinned=CHOSEN))
        step = screen.panel(BOARD_CONTENTS).step_highlights.step
        assert step
        moving.append(bool(step.ms))
    assert moving == [row == CHOSEN.place[-2] for row in range(6)]


@pytest.mark.parametrize("stage", ["scores", "weights"])
def test_there_is_time_to_read_the_card_of_the_row_shown_in_full(stage: str) -> None:
    screen = play(PlaybackPosition(stage, CHOSEN.place[-2]), replace(SHOWN, pinned=CHOSEN))
    step = screen.panel(BOARD_CONTENTS).step_highlights.step
    assert step
    assert motion_duration_ms(step.ms, step.kind) >= 1800


def test_after_the_last_step_a_text_stays() -> None:
    last = play(PLACES[-1], SHOWN)
    ended = play(None, SHOWN, last, is_playing=False)
    assert ended.panel(PLAYBACK_PANEL).caption
    later = play(None, replace(SHOWN, hovered=CHOSEN), ended, is_playing=False)
    assert later.panel(PLAYBACK_PANEL) == ended.panel(PLAYBACK_PANEL)
    assert not play(None, SHOWN, is_playing=False).panel(PLAYBACK_PANEL).caption


def test_a_tour_is_about_the_selected_token() -> None:
    selected = replace(SHOWN, tokens=TokenSelection(frozenset({4})))
    screen = play(PlaybackPosition("weights"), selected)
    assert screen.resolved
    assert screen.resolved.described_step_cell
    assert screen.resolved.described_step_cell.place[-2] == 4
    pinned = replace(selected, pinned=Cell("weights", (1, 2, 0)))
    screen = play(PlaybackPosition("weights"), pinned)
    assert screen.resolved
    assert screen.resolved.described_step_cell
    assert screen.resolved.described_step_cell.place[-2] == 2
