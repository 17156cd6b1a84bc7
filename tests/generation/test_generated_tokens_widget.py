"""Text generation with mouse and keyboard: sampling, stepping back and branching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from visualizer.generation.generated_tokens_presenter import present_generation
from visualizer.generation.generated_tokens_widget import GenerationPane
from visualizer.generation.generation_tree import ROOT_NODE, GenerationTree
from visualizer.heatmap import colour_mapping
from visualizer.session.view_options import DEFAULT_MAP
from visualizer.widgets.accessibility import VALUE_PROPERTY
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from tests.conftest import Show

LEFT = Qt.MouseButton.LeftButton
LETTERS = tuple("abcdefgh")
EVEN = np.full(8, 0.125)


class PaneWithTree:
    """A generation pane, with a tree that its signals change."""

    def __init__(self, show: Show) -> None:
        self.pane, self.tree, self.is_running = (
            GenerationPane(),
            GenerationTree(tuple("once"), seed=1),
            False,
        )
        pane = self.pane
        pane.sampleRequested.connect(
            lambda: self.keep(self.tree.append_sampled(EVEN, LETTERS, EVEN))
        )
        pane.steppedBackward.connect(lambda: self.keep(self.tree.step_back()))
        pane.steppedForward.connect(lambda: self.keep(self.tree.step_forward()))
        pane.branchSwitched.connect(lambda by: self.keep(self.tree.go_to_sibling(by)))
        pane.nodeChosen.connect(lambda node: self.keep(self.tree.go_to_node(node)))
        pane.seedChosen.connect(lambda seed: self.keep(self.tree.with_seed(seed)))
        pane.runToggled.connect(self.run)
        show(pane, (600, 240))
        self.keep(self.tree)

    def keep(self, tree: GenerationTree, theme: Theme = LIGHT) -> None:
        self.tree = tree
        self.pane.show_generation(present_generation(tree, self.is_running), theme)

    def run(self, is_running: bool) -> None:
        self.is_running = is_running
        self.keep(self.tree)

    def press(self, *keys: Qt.Key) -> None:
        for key in keys:
            QTest.keyClick(self.pane.strip, key)

    def click_chip(self, chip: int) -> None:
        place = self.pane.strip.box(chip).center().toPoint()
        QTest.mouseClick(self.pane.strip.viewport(), LEFT, pos=place)


@pytest.fixture
def told(show: Show) -> PaneWithTree:
    return PaneWithTree(show)


def test_buttons_draw_and_step(told: PaneWithTree) -> None:
    for _ in range(3):
        QTest.mouseClick(told.pane.sample, LEFT)
    whole = told.tree.tokens
    assert len(whole) == 7
    QTest.mouseClick(told.pane.back, LEFT)
    assert "".join(told.tree.tokens) == "".join(whole)[:-1]
    QTest.mouseClick(told.pane.on, LEFT)
    assert told.tree.tokens == whole
    assert not told.pane.on.isEnabled()
    assert told.pane.status_label.text() == "3 tokens added"


def test_keys_do_the_same(told: PaneWithTree) -> None:
    told.press(Qt.Key.Key_Return, Qt.Key.Key_Space)
    whole = told.tree.tokens
    assert len(whole) == 6
    told.press(Qt.Key.Key_Left, Qt.Key.Key_Backspace, Qt.Key.Key_Left)
    assert told.tree.at == ROOT_NODE
    told.press(Qt.Key.Key_Right, Qt.Key.Key_Right)
    assert told.tree.tokens == whole


def test_one_goes_another_way_and_back(told: PaneWithTree) -> None:
    told.keep(told.tree.pick(0, "a", 0.5).step_back().pick(1, "b", 0.25))
    QTest.mouseClick(told.pane.next_branch_button, LEFT)
    assert told.tree.tokens[-1] == "a"
    told.press(Qt.Key.Key_Up)
    assert told.tree.tokens[-1] == "b"
    told.press(Qt.Key.Key_Left)
    assert not told.pane.next_branch_button.isEnabled()


def test_a_click_on_a_chip_goes_there(told: PaneWithTree) -> None:
    told.press(Qt.Key.Key_Return, Qt.Key.Key_Return, Qt.Key.Key_Return)
    told.click_chip(4)
    assert len(told.tree.path) == 1
    told.click_chip(6)
    assert len(told.tree.path) == 3
    told.click_chip(0)
    assert told.tree.at == ROOT_NODE


def test_it_runs_until_it_is_stopped(told: PaneWithTree) -> None:
    QTest.mouseClick(told.pane.run, LEFT)
    assert told.is_running
    assert told.pane.run.text() == "Stop"
    assert not told.pane.sample.isEnabled()
    QTest.mouseClick(told.pane.run, LEFT)
    assert not told.is_running


def test_a_seed_is_typed(told: PaneWithTree) -> None:
    told.pane.seed.selectAll()
    QTest.keyClicks(told.pane.seed, "42")
    assert told.tree.seed == 42


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_chip_has_the_colour_of_its_probability(told: PaneWithTree, theme: Theme) -> None:
    told.keep(told.tree.pick(0, "a", 0.0).pick(1, "b", 1.0), theme)
    image = told.pane.strip.viewport().grab().toImage()
    table = colour_mapping.colour_table(DEFAULT_MAP, theme)
    for chip, entry in ((4, 0), (5, colour_mapping.MAX_COLOUR_INDEX)):
        box = told.pane.strip.box(chip)
        found = image.pixelColor(round(box.left()) + 5, round(box.center().y()))
        assert found == QColor.fromRgb(int(table[entry]))


def test_what_is_far_down_is_scrolled_to(told: PaneWithTree) -> None:
    for _ in range(200):
        told.tree = told.tree.append_sampled(EVEN, LETTERS, EVEN)
    told.keep(told.tree)
    last = told.pane.strip.box(203)
    assert told.pane.strip.viewport().rect().contains(last.center().toPoint())
    told.click_chip(203)
    assert len(told.tree.path) == 200
    said = told.pane.strip.property(VALUE_PROPERTY)
    assert said.endswith("sampled, probability 12%")
