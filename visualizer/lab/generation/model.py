"""The generation tree, and the panel that shows it as chips.

A text is continued token by token; stepping back and picking another token adds a branch. The tree
is immutable: each step returns a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.sampling import draw
from visualizer.language.tokenizers import visible
from visualizer.number_format import format_count, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = -1
"""The node of the prompt."""


@dataclass(frozen=True, slots=True)
class GenerationNode:
    """A generated token.

    Parameters
    ----------
    token : int
        Its number in the vocabulary.
    text : str
        The token itself.
    parent : int
        The node that it follows; `ROOT` for the prompt.
    probability : float
        The model's probability for it.
    is_drawn : bool
        Whether it was sampled, not picked by hand.
    """

    token: int
    text: str
    parent: int
    probability: float
    is_drawn: bool = False


@dataclass(frozen=True, slots=True)
class GenerationTree:
    """All branches that were generated, and the current node.

    Parameters
    ----------
    prompt : tuple of str
        The tokens of the given text.
    nodes : tuple of GenerationNode
        In the order in which they were added: a parent comes before its children.
    at : int
        The current node; `ROOT` at the end of the prompt.
    seed : int
        The seed of sampling: the same steps with the same seed give the same text.
    draws : int
        How many tokens were sampled.
    """

    prompt: tuple[str, ...] = ()
    nodes: tuple[GenerationNode, ...] = ()
    at: int = ROOT
    seed: int = 0
    draws: int = 0

    # ------------------------------------------------------------------ reading

    @property
    def path(self) -> tuple[int, ...]:
        """The nodes from the prompt to the current node."""
        return tuple(reversed([*self._up(self.at)]))

    def _up(self, node: int) -> Iterator[int]:
        while node != ROOT:
            yield node
            node = self.nodes[node].parent

    def children(self, node: int) -> tuple[int, ...]:
        """Return a node's children in the order in which they were added."""
        return tuple(at for at, one in enumerate(self.nodes) if one.parent == node)

    @property
    def siblings(self) -> tuple[int, ...]:
        """The current node among all children of its parent."""
        return () if self.at == ROOT else self.children(self.nodes[self.at].parent)

    @property
    def ahead(self) -> tuple[int, ...]:
        """The nodes after the current one: at each branch, the child added last."""
        newest = {node.parent: at for at, node in enumerate(self.nodes)}
        found, node = [], self.at
        while node in newest:
            node = newest[node]
            found.append(node)
        return tuple(found)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens up to the current node."""
        return (*self.prompt, *(self.nodes[node].text for node in self.path))

    # ------------------------------------------------------------------ steps

    def picked(self, token: int, text: str, probability: float) -> GenerationTree:
        """Append a token picked by hand, or go to the child that already has it."""
        return self._gone_on(GenerationNode(token, text, self.at, probability))

    def drawn(self, probabilities: np.ndarray, vocabulary: tuple[str, ...],
              expected: np.ndarray) -> GenerationTree:  # fmt: skip
        """Append a sampled token.

        Parameters
        ----------
        probabilities : numpy.ndarray
            [vocabulary]: the distribution that is sampled.
        expected : numpy.ndarray
            [vocabulary]: the model's probabilities.
        """
        token = draw(probabilities, np.random.default_rng([self.seed, self.draws]))
        node = GenerationNode(
            token, vocabulary[token], self.at, float(expected[token]), is_drawn=True
        )
        return replace(self._gone_on(node), draws=self.draws + 1)

    def _gone_on(self, node: GenerationNode) -> GenerationTree:
        tried = (at for at in self.children(self.at) if self.nodes[at].token == node.token)
        known = next(tried, None)
        if known is not None:
            return replace(self, at=known)
        return replace(self, nodes=(*self.nodes, node), at=len(self.nodes))

    def stepped_back(self) -> GenerationTree:
        """Go to the parent node; the token stays in the tree."""
        return self if self.at == ROOT else replace(self, at=self.nodes[self.at].parent)

    def stepped_on(self) -> GenerationTree:
        """Go to the child that was added last."""
        return replace(self, at=self.ahead[0]) if self.ahead else self

    def gone_to(self, node: int) -> GenerationTree:
        """Go to any node, or to the prompt."""
        return replace(self, at=node) if ROOT <= node < len(self.nodes) else self

    def turned(self, by: int = 1) -> GenerationTree:
        """Go to the next sibling, from the last to the first."""
        tried = self.siblings
        return replace(self, at=tried[(tried.index(self.at) + by) % len(tried)]) if tried else self

    def reseeded(self, seed: int) -> GenerationTree:
        """Change the seed of the following samples."""
        return replace(self, seed=seed, draws=0)


def begun(prompt: tuple[str, ...], seed: int = 0) -> GenerationTree:
    """Start a tree from a prompt."""
    return GenerationTree(prompt, seed=seed)


MOST_AHEAD = 400
"""The most tokens that are shown after the current node."""


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """A chip: one token of the prompt or of the tree.

    Parameters
    ----------
    node : int
        Its node in the tree; `ROOT` for a token of the prompt.
    probability : float or None
        The model's probability; None for a token of the prompt.
    branch : tuple of (int, int) or None
        Its number and the count of its siblings, where there are several.
    is_here : bool
        Whether it is the current node.
    is_ahead : bool
        Whether it comes after the current node.
    """

    label: str
    node: int
    probability: float | None = None
    branch: tuple[int, int] | None = None
    is_here: bool = False
    is_ahead: bool = False
    is_drawn: bool = False

    @property
    def words(self) -> str:
        """A description of the token."""
        said = [f"“{self.label}”"]
        if self.probability is None:
            said.append("of the text that is continued")
        else:
            said.append(
                f"{'drawn' if self.is_drawn else 'picked'} at {format_share(self.probability)}"
            )
        if self.branch:
            said.append(f"branch {self.branch[0]} of {self.branch[1]} tried here")
        if self.is_ahead:
            said.append("ahead")
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class GenerationPanel:
    """The generation pane: chips and what can be done.

    Parameters
    ----------
    is_running : bool
        Whether tokens are sampled continuously.
    can_run : bool
        Whether continuous sampling can be started or stopped.
    can_draw : bool
        Whether a token can be sampled: once the reading is there.
    """

    chips: tuple[GeneratedToken, ...] = ()
    can_step_back: bool = False
    can_step_on: bool = False
    can_turn: bool = False
    is_running: bool = False
    can_run: bool = True
    can_draw: bool = True
    seed: int = 0
    said: str = ""


def present_story(
    story: GenerationTree,
    is_running: bool = False,
    is_readable: bool = True,
    block: int | None = None,
) -> GenerationPanel:
    """Present a generation tree.

    Parameters
    ----------
    is_running : bool
        Whether tokens are sampled continuously.
    is_readable : bool
        Whether the model gives next tokens, now or soon.
    block : int, optional
        The model's context length; earlier tokens are not shown.
    """
    places, path, ahead = _branches(story), story.path, story.ahead
    before = [GeneratedToken(visible(token), ROOT) for token in story.prompt]
    before += [_chip(story, node, places) for node in path]
    if before:
        before[-1] = replace(before[-1], is_here=True)
    after = [replace(_chip(story, node, places), is_ahead=True) for node in ahead]
    cut = 0 if block is None else max(0, len(before) - block)
    return GenerationPanel(
        (*before[cut:], *after[:MOST_AHEAD]),
        bool(path),
        bool(ahead),
        len(story.siblings) > 1,
        is_running,
        is_running or is_readable,
        is_readable and not is_running,
        story.seed,
        f"{format_count(len(path), 'token')} added",
    )


def _chip(story: GenerationTree, node: int, places: dict[int, tuple[int, int]]) -> GeneratedToken:
    one = story.nodes[node]
    return GeneratedToken(
        visible(one.text), node, one.probability, places.get(node), is_drawn=one.is_drawn
    )


def _branches(story: GenerationTree) -> dict[int, tuple[int, int]]:
    """Number the nodes that have siblings."""
    children: dict[int, list[int]] = {}
    for at, node in enumerate(story.nodes):
        children.setdefault(node.parent, []).append(at)
    return {
        node: (place, len(tried))
        for tried in children.values()
        if len(tried) > 1
        for place, node in enumerate(tried, 1)
    }
