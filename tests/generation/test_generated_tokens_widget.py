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
            lambda: self.show_tree(self.tree.append_sampled_token(EVEN, LETTERS, EVEN))
        )
        pane.steppedBackward.connect(lambda: self.show_tree(self.tree.step_back()))
        pane.steppedForward.connect(lambda: self.show_tree(self.tree.step_forward()))
        pane.branchSwitched.connect(lambda by: self.show_tree(self.tree.go_to_sibling(by)))
        pane.nodeChosen.connect(lambda node: self.show_tree(self.tree.go_to_node(node)))
        pane.seedChosen.connect(lambda seed: self.show_tree(self.tree.with_seed(seed)))
        pane.runToggled.connect(self.run)
        show(pane, (600, 240))
        self.show_tree(self.tree)

    def show_tree(self, tree: GenerationTree, theme: Theme = LIGHT) -> None:
        self.tree = tree
        self.pane.show_generation(present_generation(tree, self.is_running), theme)

    def run(self, is_running: bool) -> None:
        self.is_running = is_running
        self.show_tree(self.tree)

    def press(self, *keys: Qt.Key) -> None:
        for key in keys:
            QTest.keyClick(self.pane.strip, key)

    def click_chip(self, chip: int) -> None:
        place = self.pane.strip.chip_rect(chip).center().toPoint()
        QTest.mouseClick(self.pane.strip.viewport(), LEFT, pos=place)


@pytest.fixture
def owner(show: Show) -> PaneWithTree:
    return PaneWithTree(show)


def test_buttons_sample_and_step(owner: PaneWithTree) -> None:
    for _ in range(3):
        QTest.mouseClick(owner.pane.sample_button, LEFT)
    whole = owner.tree.tokens
    assert len(whole) == 7
    QTest.mouseClick(owner.pane.back_button, LEFT)
    assert "".join(owner.tree.tokens) == "".join(whole)[:-1]
    QTest.mouseClick(owner.pane.forward_button, LEFT)
    assert owner.tree.tokens == whole
    assert not owner.pane.forward_button.isEnabled()
    assert owner.pane.status_label.text() == "3 tokens added"


def test_keys_sample_and_step(owner: PaneWithTree) -> None:
    owner.press(Qt.Key.Key_Return, Qt.Key.Key_Space)
    whole = owner.tree.tokens
    assert len(whole) == 6
    owner.press(Qt.Key.Key_Left, Qt.Key.Key_Backspace, Qt.Key.Key_Left)
    assert owner.tree.at == ROOT_NODE
    owner.press(Qt.Key.Key_Right, Qt.Key.Key_Right)
    assert owner.tree.tokens == whole


def test_branches_are_switched_with_the_button_and_keys(owner: PaneWithTree) -> None:
    owner.show_tree(
        owner.tree.append_picked_token(0, "a", 0.5).step_back().append_picked_token(1, "b", 0.25)
    )
    QTest.mouseClick(owner.pane.next_branch_button, LEFT)
    assert owner.tree.tokens[-1] == "a"
    owner.press(Qt.Key.Key_Up)
    assert owner.tree.tokens[-1] == "b"
    owner.press(Qt.Key.Key_Left)
    assert not owner.pane.next_branch_button.isEnabled()


def test_a_click_on_a_chip_goes_to_its_token(owner: PaneWithTree) -> None:
    owner.press(Qt.Key.Key_Return, Qt.Key.Key_Return, Qt.Key.Key_Return)
    owner.click_chip(4)
    assert len(owner.tree.path) == 1
    owner.click_chip(6)
    assert len(owner.tree.path) == 3
    owner.click_chip(0)
    assert owner.tree.at == ROOT_NODE


def test_generation_runs_until_it_is_stopped(owner: PaneWithTree) -> None:
    QTest.mouseClick(owner.pane.run_button, LEFT)
    assert owner.is_running
    assert owner.pane.run_button.text() == "Stop"
    assert not owner.pane.sample_button.isEnabled()
    QTest.mouseClick(owner.pane.run_button, LEFT)
    assert not owner.is_running


def test_the_seed_is_entered(owner: PaneWithTree) -> None:
    owner.pane.seed_box.selectAll()
    QTest.keyClicks(owner.pane.seed_box, "42")
    assert owner.tree.seed == 42


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_chip_has_the_colour_of_its_probability(owner: PaneWithTree, theme: Theme) -> None:
    owner.show_tree(
        owner.tree.append_picked_token(0, "a", 0.0).append_picked_token(1, "b", 1.0), theme
    )
    image = owner.pane.strip.viewport().grab().toImage()
    table = colour_mapping.colour_table(DEFAULT_MAP, theme)
    for chip, entry in ((4, 0), (5, colour_mapping.MAX_COLOUR_INDEX)):
        box = owner.pane.strip.chip_rect(chip)
        found = image.pixelColor(round(box.left()) + 5, round(box.center().y()))
        assert found == QColor.fromRgb(int(table[entry]))


def test_the_current_token_is_scrolled_into_view(owner: PaneWithTree) -> None:
    for _ in range(200):
        owner.tree = owner.tree.append_sampled_token(EVEN, LETTERS, EVEN)
    owner.show_tree(owner.tree)
    last = owner.pane.strip.chip_rect(203)
    assert owner.pane.strip.viewport().rect().contains(last.center().toPoint())
    owner.click_chip(203)
    assert len(owner.tree.path) == 200
    said = owner.pane.strip.property(VALUE_PROPERTY)
    assert said.endswith("sampled, probability 12%")
