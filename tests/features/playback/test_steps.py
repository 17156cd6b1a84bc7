"""For any document the picture is a function of the step, and the last one shows the trace."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.screens import present
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.widget import BoardView
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, StepSize, Timeline
from visualizer.session.view import View
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from PySide6.QtGui import QImage
    from pytestqt.qtbot import QtBot

    from visualizer.attention.run import Run
    from visualizer.session.screen import Screen

SOME = examples(0.15, suppress_health_check=[HealthCheck.function_scoped_fixture])
GRAINS = st.sampled_from(StepSize)


class Player:
    """Plays a run on a board of its own, one step after the other."""

    def __init__(self, run: Run, grain: StepSize, qtbot: QtBot) -> None:
        self.run = run
        self.timeline = Timeline.from_trace(run.trace, grain)
        view = View()
        self.view = replace(view, playhead=replace(view.playhead, grain=grain))
        self.board = BoardView()
        self.board.resize(1600, 1500)  # room for all, as scrolling is no part of the picture
        qtbot.addWidget(self.board)
        with qtbot.waitExposed(self.board):
            self.board.show()
        self.screen: Screen | None = None

    def show(self, place: PlaybackPosition | None) -> QImage:
        view = replace(self.view, playhead=replace(self.view.playhead, place=place))
        document = Document(spec=self.run.trace.spec)
        self.screen = present(document, view, self.run, None, False, self.screen)
        highlights = self.screen.panel(BOARD_CONTENTS).step_highlights
        self.board.show_board(
            self.screen.panel(BOARD_CONTENTS).board,
            self.screen.panel(BOARD_CONTENTS).cursor,
            highlights,
            LIGHT,
            "",
        )
        self.board.motion.skip_motion()
        return self.board.viewport().grab().toImage()


@SOME
@given(case=cases(), grain=GRAINS, data=st.data())
def test_forward_and_back_is_the_same_picture_and_seeking_equals_playing(
    case: Case, grain: StepSize, data: st.DataObject, qtbot: QtBot
) -> None:
    played, sought = (Player(case.run(), grain, qtbot) for _ in range(2))
    last = len(played.timeline)
    start = data.draw(st.integers(0, last))
    steps = data.draw(st.integers(0, min(6, last - start)))
    places = [played.timeline.position_of_step(at) for at in range(start, start + steps + 1)]
    forward = [played.show(place) for place in places]
    back = [played.show(place) for place in reversed(places)]
    assert back[::-1] == forward
    assert [sought.show(place) for place in reversed(places)] == back


@SOME
@given(case=cases(), grain=GRAINS)
def test_playing_to_the_end_shows_the_trace(case: Case, grain: StepSize, qtbot: QtBot) -> None:
    player = Player(case.run(), grain, qtbot)
    before = player.show(None)
    shown: dict[tuple[str, int | None, int, int], float] = {}
    for position in range(len(player.timeline)):
        place = player.timeline.position_of_step(position)
        player.show(place)
        assert place is not None
        assert player.screen is not None
        step = player.timeline.step_at(place)
        for heatmap in player.screen.panel(BOARD_CONTENTS).board.heatmaps:
            if heatmap.stage == step.stage:
                for row in step.rows:
                    for column in step.columns:
                        cell = (heatmap.stage, heatmap.head, row, column)
                        shown[cell] = float(heatmap.values[row, column])
    batch = (0,) if player.run.trace.axes else ()
    count = 0
    for stage in player.run.trace.names:
        numbers = player.run.trace.read(stage, batch)
        for place_, value in np.ndenumerate(numbers):
            head = place_[0] if len(place_) == 3 else None
            if head:
                continue  # only the head in front is shown
            found = shown[(stage, head, *place_[-2:])]
            assert found == value or (np.isnan(found) and np.isnan(value))
            count += 1
    assert count == len(shown)
    assert player.show(None) == before


@pytest.mark.slow
@pytest.mark.parametrize("grain", StepSize)
def test_a_step_changes_the_picture(grain: StepSize, qtbot: QtBot) -> None:
    case = Case((("one", "two", "three"),), Document().spec)
    player = Player(case.run(), grain, qtbot)
    pictures = [
        player.show(player.timeline.position_of_step(at)) for at in range(len(player.timeline))
    ]
    assert all(one != other for one, other in itertools.pairwise(pictures))
