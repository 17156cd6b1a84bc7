"""The tree of generated tokens, with its branches, navigation and sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.language.sampling import sample_token_with_seed

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
        The token's id in the vocabulary.
    text : str
        The token's text.
    parent : int
        Index of the preceding node; `ROOT_NODE` if the token follows the prompt.
    probability : float
        The model's probability for the token.
    is_sampled : bool
        Whether the token was sampled rather than picked by the user.
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
        The nodes in the order in which they were added; a parent precedes its children.
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
        """Indices of the nodes from the prompt to the current node."""
        found, node = [], self.at
        while node != ROOT_NODE:
            found.append(node)
            node = self.nodes[node].parent
        return tuple(reversed(found))

    def children(self, node: int) -> tuple[int, ...]:
        """Return the indices of a node's children in the order in which they were added."""
        return tuple(at for at, one in enumerate(self.nodes) if one.parent == node)

    @property
    def siblings(self) -> tuple[int, ...]:
        """Indices of all children of the current node's parent, including the current node."""
        return () if self.at == ROOT_NODE else self.children(self.nodes[self.at].parent)

    @property
    def following_nodes(self) -> tuple[int, ...]:
        """Indices of the nodes after the current one, following the newest child at each branch."""
        newest = {node.parent: at for at, node in enumerate(self.nodes)}
        found, node = [], self.at
        while node in newest:
            node = newest[node]
            found.append(node)
        return tuple(found)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Texts of the tokens from the start of the prompt to the current node."""
        return (*self.prompt, *(self.nodes[node].text for node in self.path))

    # ------------------------------------------------------------------ steps

    def append_picked_token(self, token: int, text: str, probability: float) -> GenerationTree:
        """Append a token that the user picked, or move to the existing child with this token."""
        return self._append_node(GenerationNode(token, text, self.at, probability))

    def append_sampled_token(self, probabilities: np.ndarray, vocabulary: Sequence[str],
              expected: np.ndarray) -> GenerationTree:  # fmt: skip
        """Sample a token, and append it.

        Parameters
        ----------
        probabilities : numpy.ndarray
            The distribution to sample from, [vocabulary].
        expected : numpy.ndarray
            The model's probabilities, [vocabulary].
        """
        token = sample_token_with_seed(probabilities, self.seed, self.sample_count)
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
        """Move by a number of siblings, wrapping around at the ends."""
        siblings = self.siblings
        if not siblings:
            return self
        return replace(self, at=siblings[(siblings.index(self.at) + by) % len(siblings)])

    def restart(self, prompt: tuple[str, ...]) -> GenerationTree:
        """Return an empty tree with another prompt and the same seed."""
        return GenerationTree(prompt, seed=self.seed)

    def with_seed(self, seed: int) -> GenerationTree:
        """Return the tree with another seed for the tokens to be sampled next."""
        return replace(self, seed=seed, sample_count=0)
