"""The tree of generated tokens: branches, navigation and sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.language.sampling import sample_with_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

ROOT_NODE = -1
"""The node of the prompt."""


class GenerationNode(Struct, frozen=True):
    """A generated token.

    Parameters
    ----------
    token : int
        Its id in the vocabulary.
    text : str
        The token itself.
    parent : int
        Index of the preceding node; `ROOT_NODE` for the prompt.
    probability : float
        The model's probability of the token.
    is_sampled : bool
        Whether the token was sampled rather than picked by hand.
    """

    token: int
    text: str
    parent: int
    probability: float
    is_sampled: bool = False


class GenerationTree(Struct, frozen=True):
    """All generated branches, and the current node.

    Parameters
    ----------
    prompt : tuple of str
        The tokens of the prompt.
    nodes : tuple of GenerationNode
        In the order in which they were added: a parent precedes its children.
    at : int
        Index of the current node; `ROOT_NODE` at the end of the prompt.
    seed : int
        Sampling seed: the same steps with the same seed produce the same text.
    sample_count : int
        Number of tokens sampled so far.
    """

    prompt: tuple[str, ...] = ()
    nodes: tuple[GenerationNode, ...] = ()
    at: int = ROOT_NODE
    seed: int = 0
    sample_count: int = 0

    # ------------------------------------------------------------------ queries

    @property
    def path(self) -> tuple[int, ...]:
        """The nodes from the prompt to the current node."""
        found, node = [], self.at
        while node != ROOT_NODE:
            found.append(node)
            node = self.nodes[node].parent
        return tuple(reversed(found))

    def children(self, node: int) -> tuple[int, ...]:
        """Return a node's children in the order in which they were added."""
        return tuple(at for at, one in enumerate(self.nodes) if one.parent == node)

    @property
    def siblings(self) -> tuple[int, ...]:
        """All children of the current node's parent, including the current node."""
        return () if self.at == ROOT_NODE else self.children(self.nodes[self.at].parent)

    @property
    def following_nodes(self) -> tuple[int, ...]:
        """The nodes after the current one, following the newest child at each branch."""
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

    def pick(self, token: int, text: str, probability: float) -> GenerationTree:
        """Append a token picked by hand, or move to the existing child with this token."""
        return self._append_node(GenerationNode(token, text, self.at, probability))

    def append_sampled(self, probabilities: np.ndarray, vocabulary: Sequence[str],
              expected: np.ndarray) -> GenerationTree:  # fmt: skip
        """Append a sampled token.

        Parameters
        ----------
        probabilities : numpy.ndarray
            [vocabulary]: the distribution to sample from.
        expected : numpy.ndarray
            [vocabulary]: the model's probabilities.
        """
        token = sample_with_seed(probabilities, self.seed, self.sample_count)
        node = GenerationNode(
            token, vocabulary[token], self.at, float(expected[token]), is_sampled=True
        )
        return replace(self._append_node(node), sample_count=self.sample_count + 1)

    def _append_node(self, node: GenerationNode) -> GenerationTree:
        matches = (at for at in self.children(self.at) if self.nodes[at].token == node.token)
        existing = next(matches, None)
        if existing is not None:
            return replace(self, at=existing)
        return replace(self, nodes=(*self.nodes, node), at=len(self.nodes))

    def step_back(self) -> GenerationTree:
        """Move to the parent node; the token stays in the tree."""
        return self if self.at == ROOT_NODE else replace(self, at=self.nodes[self.at].parent)

    def step_forward(self) -> GenerationTree:
        """Move to the newest child."""
        return replace(self, at=self.following_nodes[0]) if self.following_nodes else self

    def go_to_node(self, node: int) -> GenerationTree:
        """Move to a node, or to the end of the prompt."""
        return replace(self, at=node) if ROOT_NODE <= node < len(self.nodes) else self

    def go_to_sibling(self, by: int = 1) -> GenerationTree:
        """Move to the next sibling, wrapping around after the last."""
        siblings = self.siblings
        if not siblings:
            return self
        return replace(self, at=siblings[(siblings.index(self.at) + by) % len(siblings)])

    def restart(self, prompt: tuple[str, ...]) -> GenerationTree:
        """Start over with another prompt and the same seed."""
        return GenerationTree(prompt, seed=self.seed)

    def with_seed(self, seed: int) -> GenerationTree:
        """Set the seed for subsequent sampling."""
        return replace(self, seed=seed, sample_count=0)
