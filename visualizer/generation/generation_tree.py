"""The tree of generated tokens: branches, steps back and on, draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.language.sampling import draw_of_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

ROOT = -1
"""The node of the prompt."""


class GenerationNode(Struct, frozen=True):
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


class GenerationTree(Struct, frozen=True):
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

    def drawn(self, probabilities: np.ndarray, vocabulary: Sequence[str],
              expected: np.ndarray) -> GenerationTree:  # fmt: skip
        """Append a sampled token.

        Parameters
        ----------
        probabilities : numpy.ndarray
            [vocabulary]: the distribution that is sampled.
        expected : numpy.ndarray
            [vocabulary]: the model's probabilities.
        """
        token = draw_of_seed(probabilities, self.seed, self.draws)
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

    def begun(self, prompt: tuple[str, ...]) -> GenerationTree:
        """Begin with other tokens, and no branches."""
        return GenerationTree(prompt, seed=self.seed)

    def reseeded(self, seed: int) -> GenerationTree:
        """Change the seed of the following samples."""
        return replace(self, seed=seed, draws=0)


def new_generation_tree(prompt: tuple[str, ...], seed: int = 0) -> GenerationTree:
    """Start a tree from a prompt."""
    return GenerationTree(prompt, seed=seed)
