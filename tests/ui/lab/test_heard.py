"""What readers of the screen get to know of the lab's widgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QAccessible

from tests.state.lab.making import a_reading
from tests.ui.heard import heard
from visualizer.language.sampling import Sampling
from visualizer.language.settings import Model
from visualizer.state.lab.attention import present_attention
from visualizer.state.lab.bars import present_bars
from visualizer.state.lab.chips import present_story
from visualizer.state.lab.losses import Measured
from visualizer.state.lab.pointing import Pointing
from visualizer.state.lab.scrub import present_scrub
from visualizer.state.lab.story import begun
from visualizer.state.view import Cell
from visualizer.ui import accessible
from visualizer.ui.lab.attention import AttentionView
from visualizer.ui.lab.bars import NextBars
from visualizer.ui.lab.scrub import ScrubBar
from visualizer.ui.lab.story import StoryPane
from visualizer.ui.theme import LIGHT

if TYPE_CHECKING:
    from tests.ui.lab.conftest import Show

Role = QAccessible.Role


def test_what_draws_itself_says_what_it_shows(show: Show) -> None:
    accessible.install()
    attention, scrub, bars, story = AttentionView(), ScrubBar(), NextBars(), StoryPane()
    for widget in (attention, scrub, bars, story):
        show(widget, (600, 400))
    pointing = Pointing(pinned=Cell("layer 1", (0, 0, 0)))
    attention.show_attention(present_attention(a_reading(), Model.TRANSFORMER, pointing), LIGHT)
    scrub.show_scrub(present_scrub([0, 10], 100, 10, Measured(2.0, 10)), LIGHT)
    bars.show_bars(present_bars("a", np.zeros((1, 2)), "xy", Sampling()), LIGHT)
    story.show_story(present_story(begun(("a",)).picked(0, "b", 0.25)), LIGHT)
    found = {
        part: (heard(part).role, heard(part).value)
        for part in (attention.board, scrub.track, bars, story.strip)
    }
    assert found == {
        attention.board: (
            Role.Chart, "query “t” (1) reads 100 % from “t” (1), layer 1 head 1",
        ),
        scrub.track: (Role.Slider, "Step 10 of 100: training loss 2.000"),
        bars: (Role.List, "After “a”; “x”: 50 %; “y”: 50 %"),
        story.strip: (Role.List, "ab. “b”, picked at 25 %"),
    }  # fmt: skip
