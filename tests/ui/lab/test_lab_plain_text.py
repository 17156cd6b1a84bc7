"""Tokens of a model, names of runs and what goes wrong are shown as they are in the lab too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPoint
from PySide6.QtGui import Qt
from PySide6.QtWidgets import QLabel, QMessageBox

from tests.state.lab.making import causal_weights
from tests.ui.markup import HOSTILE, hostile_places, is_hostile, rich, tip_at
from visualizer.language.sampling import Sampling
from visualizer.language.settings import Model
from visualizer.state.lab.attention import present_attention
from visualizer.state.lab.bars import present_bars
from visualizer.state.lab.chips import present_story
from visualizer.state.lab.pointing import Pointing
from visualizer.state.lab.reading import Reading
from visualizer.state.lab.run import Failure
from visualizer.state.lab.shelf import Kept
from visualizer.state.lab.story import begun
from visualizer.state.view import Cell
from visualizer.ui.lab.asking import ask_delete, ask_leaving
from visualizer.ui.lab.attention import AttentionView
from visualizer.ui.lab.next_pane import NextPane
from visualizer.ui.lab.runs_pane import RunsPane
from visualizer.ui.lab.story import StoryPane
from visualizer.ui.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.ui.lab.conftest import Show
    from tests.ui.lab.student import Student

BOLD, FILE = HOSTILE[:2]
COUNT = len(HOSTILE)


def plain(tips: Iterable[str]) -> list[bool]:
    return [not Qt.mightBeRichText(tip) for tip in tips if is_hostile(tip)]


def test_what_may_come_next_is_plain(show: Show) -> None:
    pane = NextPane()
    show(pane, (400, 600))
    logits = np.zeros((1, COUNT))
    pane.show_bars(present_bars(BOLD, logits, HOSTILE, Sampling()), LIGHT)
    bars = pane.bars
    tips = [tip_at(bars, bars.row(at).center().toPoint()) for at in range(COUNT)]
    assert plain(tips) == [True] * COUNT
    assert rich(pane) == []
    assert hostile_places(pane)


def test_a_story_is_plain(show: Show) -> None:
    pane = StoryPane()
    show(pane, (900, 300))
    story = begun(HOSTILE, 1).picked(0, BOLD, 0.5).picked(1, FILE, 0.25)
    pane.show_story(present_story(story, False), LIGHT)
    strip = pane.strip
    places = [strip.box(chip).center().toPoint() for chip in range(COUNT + 2)]
    tips = [tip_at(strip.viewport(), place) for place in places]
    assert plain(tips) == [True] * (COUNT + 2)
    assert rich(pane) == []
    assert hostile_places(pane)


def test_the_attention_of_a_model_is_plain(show: Show) -> None:
    view = AttentionView()
    show(view, (1000, 700))
    reading = Reading(1, HOSTILE, np.zeros((COUNT, COUNT)), causal_weights(1, 1, COUNT), None, 0)
    for at in range(COUNT):
        pointing = Pointing().pin(Cell("layer 1", (0, at, 0)))
        panel = present_attention(reading, Model.TRANSFORMER, pointing, before=None)
        view.show_attention(panel, LIGHT)
        assert is_hostile(view.said.text())
        assert rich(view) == []


def test_the_names_of_runs_are_plain(student: Student) -> None:
    window = student.window
    pane = window.findChild(RunsPane)
    assert isinstance(pane, RunsPane)
    names = [text.replace("/", "|") for text in HOSTILE]
    home = window.lab.home
    pane.show_runs((Kept(home / name, 0.0) for name in names), frozenset(), frozenset(), "")
    shown = hostile_places(pane)
    assert {"QTreeWidget DisplayRole", "QTreeWidget ToolTipRole"} <= shown
    assert rich(pane) == []
    first = pane.list.visualRect(pane.list.model().index(0, 0)).topLeft()
    assert plain([tip_at(pane.list.viewport(), first + QPoint(30, 4))]) == [True]


def test_what_goes_wrong_and_what_is_asked_is_plain(student: Student) -> None:
    window = student.window
    window.notices.show_notices((FILE,), Failure(BOLD, FILE))
    window.bar.line.setText(BOLD)
    window.facts.setText(FILE)
    window.probe_problem.setText(BOLD)
    window.statusBar().showMessage(FILE)
    assert rich(window) == []
    assert "PlainLabel text" in hostile_places(window)
    ask_leaving(window, BOLD, lambda: None, lambda: None)
    ask_delete(window, FILE, lambda: None)
    for name in ("leaving", "delete"):
        box = window.findChild(QMessageBox, name)
        assert box, name
        formats = {one.textFormat() for one in box.findChildren(QLabel) if one.text()}
        assert formats == {Qt.TextFormat.PlainText}
        box.close()


def test_a_setting_that_quotes_a_file_is_escaped(student: Student) -> None:
    rows = student.window.settings_pane.rows
    student.choose("kind", "A text file")
    student.type("path", "/nowhere/<b>zqbold")
    said = rows["path"].problem
    student.until(lambda: is_hostile(said.text()))
    assert rich(student.window) == []
    assert student.problem("path")
