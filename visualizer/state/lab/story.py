"""A text that is continued token by token: a tree, as one can step back and go another way.

Nothing of it is ever lost or changed; a step makes a new story of the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.sampling import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = -1
"""The place of the text that is continued."""


@dataclass(frozen=True, slots=True)
class Node:
    """A token that was added.

    Parameters
    ----------
    token : int
        Its number in the vocabulary.
    text : str
        The token itself.
    parent : int
        The node that it follows; `ROOT` for the text that is continued.
    probability : float
        How likely it was, as the model said.
    is_drawn : bool
        Whether it was drawn, and not picked by hand.
    """

    token: int
    text: str
    parent: int
    probability: float
    is_drawn: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """All that was tried, and where one is.

    Parameters
    ----------
    prompt : tuple of str
        The tokens that are continued.
    nodes : tuple of Node
        In the order in which they were added: a parent comes before its children.
    at : int
        The node where one is; `ROOT` at the end of the prompt.
    seed : int
        Of what is drawn: the same steps with the same seed end with the same text.
    draws : int
        How many tokens were drawn.
    """

    prompt: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    at: int = ROOT
    seed: int = 0
    draws: int = 0

    # ------------------------------------------------------------------ what is there

    @property
    def path(self) -> tuple[int, ...]:
        """The nodes from the prompt to where one is."""
        return tuple(reversed([*self._up(self.at)]))

    def _up(self, node: int) -> Iterator[int]:
        while node != ROOT:
            yield node
            node = self.nodes[node].parent

    def children(self, node: int) -> tuple[int, ...]:
        """Give the ways on from a node, in the order in which they were tried."""
        return tuple(at for at, one in enumerate(self.nodes) if one.parent == node)

    @property
    def siblings(self) -> tuple[int, ...]:
        """The node where one is, among all that were tried in its place."""
        return () if self.at == ROOT else self.children(self.nodes[self.at].parent)

    @property
    def ahead(self) -> tuple[int, ...]:
        """What follows where one is: at each branch, what was tried last."""
        newest = {node.parent: at for at, node in enumerate(self.nodes)}
        found, node = [], self.at
        while node in newest:
            node = newest[node]
            found.append(node)
        return tuple(found)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The text to where one is."""
        return (*self.prompt, *(self.nodes[node].text for node in self.path))

    # ------------------------------------------------------------------ steps

    def picked(self, token: int, text: str, probability: float) -> Story:
        """Go on with a token that was picked by hand; one that was tried before is there."""
        return self._gone_on(Node(token, text, self.at, probability))

    def drawn(self, probabilities: np.ndarray, vocabulary: tuple[str, ...],
              expected: np.ndarray) -> Story:  # fmt: skip
        """Go on with a token that is drawn.

        Parameters
        ----------
        probabilities : numpy.ndarray
            [vocabulary]: what is drawn from.
        expected : numpy.ndarray
            [vocabulary]: how likely the model says each is.
        """
        token = draw(probabilities, np.random.default_rng([self.seed, self.draws]))
        node = Node(token, vocabulary[token], self.at, float(expected[token]), is_drawn=True)
        return replace(self._gone_on(node), draws=self.draws + 1)

    def _gone_on(self, node: Node) -> Story:
        tried = (at for at in self.children(self.at) if self.nodes[at].token == node.token)
        known = next(tried, None)
        if known is not None:
            return replace(self, at=known)
        return replace(self, nodes=(*self.nodes, node), at=len(self.nodes))

    def stepped_back(self) -> Story:
        """Leave the last token; it stays in the tree."""
        return self if self.at == ROOT else replace(self, at=self.nodes[self.at].parent)

    def stepped_on(self) -> Story:
        """Go to the next token of what was tried last."""
        return replace(self, at=self.ahead[0]) if self.ahead else self

    def gone_to(self, node: int) -> Story:
        """Go to any node, or to the prompt."""
        return replace(self, at=node) if ROOT <= node < len(self.nodes) else self

    def turned(self, by: int = 1) -> Story:
        """Go to the next of what was tried in this token's place, after the last the first."""
        tried = self.siblings
        return replace(self, at=tried[(tried.index(self.at) + by) % len(tried)]) if tried else self

    def reseeded(self, seed: int) -> Story:
        """Draw from another seed from now on."""
        return replace(self, seed=seed, draws=0)


def begun(prompt: tuple[str, ...], seed: int = 0) -> Story:
    """Begin to continue a text."""
    return Story(prompt, seed=seed)
