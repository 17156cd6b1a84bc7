"""A text that is being continued, as chips: what was given, what was added, other ways to go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.language.tokenizers import visible
from visualizer.state.lab.story import ROOT
from visualizer.state.words import counted, share

if TYPE_CHECKING:
    from visualizer.state.lab.story import Story

MOST_PROMPT = 200
"""Of a longer text that is continued, only the end is shown."""


@dataclass(frozen=True, slots=True)
class Chip:
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
            said.append(f"{'drawn' if self.is_drawn else 'picked'} at {share(self.probability)}")
        if self.branch:
            said.append(f"way {self.branch[0]} of {self.branch[1]} tried here")
        if self.is_ahead:
            said.append("ahead")
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class StoryPanel:
    """What is shown of a text that is being continued.

    Parameters
    ----------
    cut : int
        Tokens at the front that are not shown.
    is_running : bool
        Whether token after token is drawn.
    is_busy : bool
        Whether what may come next is still on its way.
    """

    chips: tuple[Chip, ...] = ()
    cut: int = 0
    can_step_back: bool = False
    can_step_on: bool = False
    can_turn: bool = False
    is_running: bool = False
    is_busy: bool = False
    seed: int = 0
    said: str = ""


def present_story(story: Story, is_running: bool = False, is_busy: bool = False) -> StoryPanel:
    """Show a text that is being continued."""
    cut = max(0, len(story.prompt) - MOST_PROMPT)
    prompt = story.prompt[cut:]
    is_at_prompt = story.at == ROOT
    chips = [
        Chip(visible(token), ROOT, is_here=is_at_prompt and at == len(prompt) - 1)
        for at, token in enumerate(prompt)
    ]
    places = _branches(story)
    ahead = frozenset(story.ahead)
    for node in (*story.path, *story.ahead):
        one = story.nodes[node]
        chips.append(
            Chip(
                visible(one.text),
                node,
                one.probability,
                places.get(node),
                node == story.at,
                node in ahead,
                one.is_drawn,
            )  # fmt: skip
        )
    said = f"{counted(len(story.path), 'token')} added"
    return StoryPanel(
        tuple(chips), cut, not is_at_prompt, bool(ahead), len(story.siblings) > 1,
        is_running, is_busy, story.seed, said,
    )  # fmt: skip


def _branches(story: Story) -> dict[int, tuple[int, int]]:
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
