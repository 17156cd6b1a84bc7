"""The generation tree agrees with a plain list of the generated texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from visualizer.generation.generated_tokens_presenter import present_generation
from visualizer.generation.generation_tree import ROOT_NODE, GenerationTree

LETTERS = ("a", "b", "c", "d")
EVEN = np.full(4, 0.25)
TOKENS = st.integers(0, 3)


class TreeModel(RuleBasedStateMachine):
    """Keeps a list of the generated texts, in the order of generation, and the current text."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = GenerationTree(("x", "y"), seed=3)
        self.here = ""
        self.texts: list[str] = []
        self.before: list[GenerationTree] = []

    def move(self, tree: GenerationTree, here: str) -> None:
        self.before.append(self.tree)
        self.tree, self.here = tree, here
        if here and here not in self.texts:
            self.texts.append(here)

    @rule(token=TOKENS)
    def pick(self, token: int) -> None:
        self.move(
            self.tree.append_picked_token(token, LETTERS[token], 0.25), self.here + LETTERS[token]
        )

    @rule(excluded=TOKENS)
    def sample(self, excluded: int) -> None:
        chances = EVEN.copy()
        chances[excluded] = 0
        tree = self.tree.append_sampled_token(chances, LETTERS, EVEN)
        assert tree.tokens[-1] != LETTERS[excluded]
        assert tree == self.tree.append_sampled_token(chances, LETTERS, EVEN)
        self.move(tree, self.here + tree.tokens[-1])

    @rule()
    def step_back(self) -> None:
        self.move(self.tree.step_back(), self.here[:-1])

    @rule()
    def step_forward(self) -> None:
        following = [text for text in self.texts if text[:-1] == self.here and text]
        self.move(self.tree.step_forward(), following[-1] if following else self.here)

    @precondition(lambda self: self.here)
    @rule(by=st.integers(-3, 3))
    def switch_branch(self, by: int) -> None:
        beside = [text for text in self.texts if text[:-1] == self.here[:-1]]
        there = beside[(beside.index(self.here) + by) % len(beside)]
        self.move(self.tree.go_to_sibling(by), there)

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def go_to_node(self, data: st.DataObject) -> None:
        node = data.draw(st.integers(ROOT_NODE, len(self.texts) - 1))
        self.move(self.tree.go_to_node(node), "" if node == ROOT_NODE else self.texts[node])

    @invariant()
    def the_path_is_the_text(self) -> None:
        assert "".join(self.tree.tokens) == "xy" + self.here
        assert len(self.tree.path) == len(self.here)

    @invariant()
    def every_node_is_kept(self) -> None:
        for at, text in enumerate(self.texts):
            assert "".join(self.tree.go_to_node(at).tokens) == "xy" + text
        assert len(self.tree.nodes) == len(self.texts)

    @invariant()
    def earlier_trees_are_unchanged(self) -> None:
        for old in self.before:
            assert self.tree.nodes[: len(old.nodes)] == old.nodes

    @invariant()
    def chips_show_the_text_and_the_branches(self) -> None:
        panel = present_generation(self.tree)
        labels = "".join(chip.label for chip in panel.chips if not chip.is_following)
        assert labels == "xy" + self.here
        assert [chip.is_current_token for chip in panel.chips if chip.is_current_token] == [True]
        assert panel.can_step_back == bool(self.here)
        beside = [text for text in self.texts if text[:-1] == self.here[:-1]]
        assert panel.can_switch_branch == (bool(self.here) and len(beside) > 1)
        for chip in panel.chips:
            if chip.branch:
                place, count = chip.branch
                text = self.texts[chip.node]
                there = [one for one in self.texts if one[:-1] == text[:-1]]
                assert (there.index(text) + 1, len(there)) == (place, count)


TestTreeModel = TreeModel.TestCase


@given(st.integers(0, 2**31), st.integers(1, 20))
def test_the_same_seed_gives_the_same_tree(seed: int, count: int) -> None:
    trees = []
    for _ in range(2):
        tree = GenerationTree(("x",), seed=seed)
        for _ in range(count):
            tree = tree.append_sampled_token(EVEN, LETTERS, EVEN)
        trees.append(tree)
    assert trees[0] == trees[1]
    assert trees[0].with_seed(seed).sample_count == 0


def test_several_tokens_can_be_sampled_at_one_position() -> None:
    tree = GenerationTree(("x",), seed=5)
    found = set()
    for _ in range(60):
        tree = tree.append_sampled_token(EVEN, LETTERS, EVEN)
        found.add(tree.tokens[-1])
        tree = tree.step_back()
    assert found == set(LETTERS)
    assert len(tree.nodes) == 4


def test_tokens_are_described() -> None:
    tree = GenerationTree(("x",)).append_picked_token(0, "a", 0.5).step_back()
    tree = tree.append_sampled_token(np.array([0, 1.0, 0, 0]), LETTERS, EVEN)
    words = [chip.description for chip in present_generation(tree).chips]
    assert words == ["“x”, prompt", "“b”, sampled, probability 25%, branch 2 of 2"]
    assert (
        present_generation(tree.step_back())
        .chips[-1]
        .description.endswith(", after the current token")
    )


@pytest.mark.parametrize("length", [32, 33, 780])
def test_only_the_context_of_a_long_text_is_shown(length: int) -> None:
    panel = present_generation(GenerationTree(("a",) * length), block=32)
    assert len(panel.chips) == 32
    assert panel.status == "0 tokens added"  # the status does not count tokens outside the context


@pytest.mark.parametrize("node", [-2, 5])
def test_moves_to_missing_nodes_change_nothing(node: int) -> None:
    tree = GenerationTree(("x",)).append_picked_token(0, "a", 0.5)
    assert tree.go_to_node(node) is tree
    assert GenerationTree(()).go_to_sibling() == GenerationTree(())
