"""A text that is being continued, as chips: what was given, what was added, other ways to go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from visualizer.language.tokenizers import visible
from visualizer.state.lab.story import ROOT
from visualizer.state.words import counted, share

if TYPE_CHECKING:
    from visualizer.state.lab.story import Story

MOST_AHEAD = 400
"""Of a longer way that was gone before, only its beginning is shown."""


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
            said.append(f"branch {self.branch[0]} of {self.branch[1]} tried here")
        if self.is_ahead:
            said.append("ahead")
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class StoryPanel:
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

    chips: tuple[Chip, ...] = ()
    can_step_back: bool = False
    can_step_on: bool = False
    can_turn: bool = False
    is_running: bool = False
    can_run: bool = True
    can_draw: bool = True
    seed: int = 0
    said: str = ""


def present_story(
    story: Story,
    is_running: bool = False,
    is_readable: bool = True,
    block: int | None = None,
) -> StoryPanel:
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
    before = [Chip(visible(token), ROOT) for token in story.prompt]
    before += [_chip(story, node, places) for node in path]
    if before:
        before[-1] = replace(before[-1], is_here=True)
    after = [replace(_chip(story, node, places), is_ahead=True) for node in ahead]
    cut = 0 if block is None else max(0, len(before) - block)
    return StoryPanel(
        (*before[cut:], *after[:MOST_AHEAD]),
        bool(path),
        bool(ahead),
        len(story.siblings) > 1,
        is_running,
        is_running or is_readable,
        is_readable and not is_running,
        story.seed,
        f"{counted(len(path), 'token')} added",
    )


def _chip(story: Story, node: int, places: dict[int, tuple[int, int]]) -> Chip:
    one = story.nodes[node]
    return Chip(visible(one.text), node, one.probability, places.get(node), is_drawn=one.is_drawn)


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
