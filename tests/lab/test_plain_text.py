"""The lab shows tokens, names of runs and errors as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPoint
from PySide6.QtGui import Qt
from PySide6.QtWidgets import QLabel, QMessageBox

from tests.support.hostile_markup import HOSTILE, hostile_places, is_hostile, rich, tip_at
from tests.support.probe_results import causal_weights
from visualizer.generation.generated_tokens_presenter import present_generation
from visualizer.generation.generated_tokens_widget import GenerationPane
from visualizer.generation.generation_tree import GenerationTree
from visualizer.generation.token_choice_presenter import present_next_tokens
from visualizer.generation.token_choice_widget import NextTokenChoicePane
from visualizer.lab.attention_view.presenter import LabCellSelection, present_attention
from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.lab.attention_view.widget import LabAttentionView
from visualizer.lab.runs.controller import ask_close_run, ask_delete_run, ask_stop_training
from visualizer.lab.runs.store import StoredRun
from visualizer.lab.runs.widget import RunsPane
from visualizer.lab.training.run_state import RunFailure
from visualizer.language.sampling import SamplingSettings
from visualizer.language.training_settings import ModelKind
from visualizer.session.cell_address import Cell
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conftest import Show
    from tests.support.lab_input import LabUser

BOLD, FILE = HOSTILE[:2]
COUNT = len(HOSTILE)


def plain(tips: Iterable[str]) -> list[bool]:
    return [not Qt.mightBeRichText(tip) for tip in tips if is_hostile(tip)]


def test_next_tokens_are_plain_text(show: Show) -> None:
    pane = NextTokenChoicePane()
    show(pane, (400, 600))
    logits = np.zeros((1, COUNT))
    pane.show_bars(present_next_tokens(BOLD, logits, HOSTILE, SamplingSettings()), LIGHT)
    bars = pane.bars
    tips = [tip_at(bars, bars.row_rectangle(at).center().toPoint()) for at in range(COUNT)]
    assert plain(tips) == [True] * COUNT
    assert rich(pane) == []
    assert hostile_places(pane)


def test_generated_text_is_plain_text(show: Show) -> None:
    pane = GenerationPane()
    show(pane, (900, 300))
    tree = (
        GenerationTree(HOSTILE, seed=1)
        .append_picked_token(0, BOLD, 0.5)
        .append_picked_token(1, FILE, 0.25)
    )
    pane.show_generation(present_generation(tree, False), LIGHT)
    strip = pane.strip
    places = [strip.chip_rect(chip).center().toPoint() for chip in range(COUNT + 2)]
    tips = [tip_at(strip.viewport(), place) for place in places]
    assert plain(tips) == [True] * (COUNT + 2)
    assert rich(pane) == []
    assert hostile_places(pane)


def test_the_labels_of_attention_are_plain_text(show: Show) -> None:
    view = LabAttentionView()
    show(view, (1000, 700))
    reading = ProbeResult(
        1, HOSTILE, np.zeros((COUNT, COUNT)), causal_weights(1, 1, COUNT), None, 0
    )
    for at in range(COUNT):
        pointing = LabCellSelection().with_toggled_pin(Cell("layer 1", (0, at, 0)))
        panel = present_attention(reading, ModelKind.TRANSFORMER, pointing, before=None)
        view.show_attention(panel, LIGHT)
        assert is_hostile(view.description_label.text())
        assert rich(view) == []


def test_names_of_runs_are_plain_text(user: LabUser) -> None:
    window = user.window
    pane = window.findChild(RunsPane)
    assert isinstance(pane, RunsPane)
    names = [text.replace("/", "|") for text in HOSTILE]
    home = window.lab.runs_folder
    pane.show_runs((StoredRun(home / name, 0.0) for name in names), frozenset(), frozenset(), "")
    shown = hostile_places(pane)
    assert {"QTreeWidget DisplayRole", "QTreeWidget ToolTipRole"} <= shown
    assert rich(pane) == []
    first = pane.list.visualRect(pane.list.model().index(0, 0)).topLeft()
    assert plain([tip_at(pane.list.viewport(), first + QPoint(30, 4))]) == [True]


def test_errors_and_questions_are_plain_text(user: LabUser) -> None:
    window = user.window
    window.notices.show_notices((FILE,), RunFailure(BOLD, FILE))
    window.training_bar.progress_label.show_text(BOLD)
    window.facts.setText(FILE)
    window.probe_problem.setText(BOLD)
    window.statusBar().showMessage(FILE)
    assert rich(window) == []
    assert "PlainTextLabel text" in hostile_places(window)
    ask_stop_training(window, BOLD, BOLD, lambda: None, lambda: None)
    ask_close_run(window, BOLD, BOLD, lambda: None)
    ask_delete_run(window, FILE, lambda: None)
    for name in ("leaving", "losing", "delete"):
        box = window.findChild(QMessageBox, name)
        assert box, name
        formats = {one.textFormat() for one in box.findChildren(QLabel) if one.text()}
        assert formats == {Qt.TextFormat.PlainText}
        box.close()


def test_a_setting_that_quotes_a_file_is_escaped(user: LabUser) -> None:
    rows = user.window.settings_pane.rows
    user.choose("kind", "A text file")
    user.type("path", "/nowhere/<b>zqbold")
    said = rows["path"].problem
    user.until(lambda: is_hostile(said.text()))
    assert rich(user.window) == []
    assert user.problem("path")
