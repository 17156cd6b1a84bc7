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
"""The place of the text that is continued."""


@dataclass(frozen=True, slots=True)
class GenerationNode:
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
class GenerationTree:
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
    nodes: tuple[GenerationNode, ...] = ()
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

    def picked(self, token: int, text: str, probability: float) -> GenerationTree:
        """Go on with a token that was picked by hand; one that was tried before is there."""
        return self._gone_on(GenerationNode(token, text, self.at, probability))

    def drawn(self, probabilities: np.ndarray, vocabulary: tuple[str, ...],
              expected: np.ndarray) -> GenerationTree:  # fmt: skip
        """Go on with a token that is drawn.

        Parameters
        ----------
        probabilities : numpy.ndarray
            [vocabulary]: what is drawn from.
        expected : numpy.ndarray
            [vocabulary]: how likely the model says each is.
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
        """Leave the last token; it stays in the tree."""
        return self if self.at == ROOT else replace(self, at=self.nodes[self.at].parent)

    def stepped_on(self) -> GenerationTree:
        """Go to the next token of what was tried last."""
        return replace(self, at=self.ahead[0]) if self.ahead else self

    def gone_to(self, node: int) -> GenerationTree:
        """Go to any node, or to the prompt."""
        return replace(self, at=node) if ROOT <= node < len(self.nodes) else self

    def turned(self, by: int = 1) -> GenerationTree:
        """Go to the next of what was tried in this token's place, after the last the first."""
        tried = self.siblings
        return replace(self, at=tried[(tried.index(self.at) + by) % len(tried)]) if tried else self

    def reseeded(self, seed: int) -> GenerationTree:
        """Draw from another seed from now on."""
        return replace(self, seed=seed, draws=0)


def begun(prompt: tuple[str, ...], seed: int = 0) -> GenerationTree:
    """Begin to continue a text."""
    return GenerationTree(prompt, seed=seed)


MOST_AHEAD = 400
"""Of a longer way that was gone before, only its beginning is shown."""


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One token.

    Parameters
    ----------
    node : int
        Its node in the tree; `ROOT` for a token of the prompt.
    probability : float or None
        How likely it was; None for a token of the prompt.
    branch : tuple of (int, int) or None
        Which it is of how many that were tried in its place, where there are several.
    is_here : bool
        Whether one is at it.
    is_ahead : bool
        Whether it comes after where one is.
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
        """What it is, in words."""
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
    """What is shown of a text that is being continued.

    Parameters
    ----------
    is_running : bool
        Whether token after token is drawn.
    can_run : bool
        Whether token after token can be drawn, or that be stopped.
    can_draw : bool
        Whether a token can be drawn: once what may come next is there.
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
    """Show a text that is being continued.

    Parameters
    ----------
    is_running : bool
        Whether token after token is drawn.
    is_readable : bool
        Whether the model can say what comes next, now or soon.
    block : int, optional
        How many tokens are read at once, at most; none before these are shown.
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
    """Say of each node that has siblings which of how many it is."""
    children: dict[int, list[int]] = {}
    for at, node in enumerate(story.nodes):
        children.setdefault(node.parent, []).append(at)
    return {
        node: (place, len(tried))
        for tried in children.values()
        if len(tried) > 1
        for place, node in enumerate(tried, 1)
    }
