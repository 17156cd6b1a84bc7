"""Presenter of the generation pane: the tree's current text as token chips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.token_labels import label_split_characters
from visualizer.format import format_count, format_percentage
from visualizer.generation.generation_tree import ROOT_NODE
from visualizer.language.tokenizers import visible_tokens

if TYPE_CHECKING:
    from visualizer.generation.generation_tree import GenerationTree


RELOADING_MESSAGE = "Reloading the model. Generation continues when it is ready."
MAX_FOLLOWING_TOKENS = 400
"""Maximum number of tokens shown after the current node."""


class GeneratedTokenChip(Struct, frozen=True):
    """A chip for a token of the prompt or of the tree.

    Parameters
    ----------
    node : int
        Index of the token's node in the tree; `ROOT_NODE` for a token of the prompt.
    probability : float or None
        The model's probability for the token; None for a token of the prompt.
    branch : tuple of (int, int) or None
        Number of the token's branch, starting at 1, and the number of branches; None if there is
        only one branch.
    is_current_token : bool
        Whether this is the current node.
    is_following : bool
        Whether the token comes after the current node.
    """

    label: str
    node: int
    probability: float | None = None
    branch: tuple[int, int] | None = None
    is_current_token: bool = False
    is_following: bool = False
    is_sampled: bool = False

    @property
    def description(self) -> str:
        """Description for tooltips and screen readers."""
        parts = [f"“{self.label}”"]
        if self.probability is None:
            parts.append("prompt")
        else:
            origin = "sampled" if self.is_sampled else "picked"
            parts.append(f"{origin}, probability {format_percentage(self.probability)}")
        if self.branch:
            parts.append(f"branch {self.branch[0]} of {self.branch[1]}")
        if self.is_following:
            parts.append("after the current token")
        return ", ".join(parts)


class GenerationPanel(Struct, frozen=True):
    """Contents of the generation pane: token chips, status and available actions.

    Parameters
    ----------
    is_running : bool
        Whether tokens are sampled continuously.
    can_run : bool
        Whether continuous sampling can be started or stopped.
    can_sample : bool
        Whether a token can be sampled.
    """

    chips: tuple[GeneratedTokenChip, ...] = ()
    can_step_back: bool = False
    can_step_forward: bool = False
    can_switch_branch: bool = False
    is_running: bool = False
    can_run: bool = True
    can_sample: bool = True
    seed: int = 0
    status: str = ""


def present_generation(
    tree: GenerationTree,
    is_running: bool = False,
    is_readable: bool = True,
    block: int | None = None,
    is_model_loaded: bool = True,
) -> GenerationPanel:
    """Return the contents of the generation pane.

    Parameters
    ----------
    is_running : bool
        Whether tokens are sampled continuously.
    is_readable : bool
        Whether next-token probabilities are available now or will be soon.
    block : int, optional
        The model's context length; tokens before the context are not shown.
    is_model_loaded : bool
        Whether a process has loaded the model.
    """
    places, path, ahead = _number_branches(tree), tree.path, tree.following_nodes
    nodes = (*path, *ahead)
    words = label_split_characters((*tree.prompt, *(tree.nodes[node].text for node in nodes)))
    labels = visible_tokens(words)
    given = len(tree.prompt)
    before = [GeneratedTokenChip(label, ROOT_NODE) for label in labels[:given]]
    chips = [
        _build_token_chip(tree, node, label, places)
        for node, label in zip(nodes, labels[given:], strict=True)
    ]
    before += chips[: len(path)]
    if before:
        before[-1] = replace(before[-1], is_current_token=True)
    after = [replace(chip, is_following=True) for chip in chips[len(path) :]]
    cut = 0 if block is None else max(0, len(before) - block)
    return GenerationPanel(
        (*before[cut:], *after[:MAX_FOLLOWING_TOKENS]),
        bool(path),
        bool(ahead),
        len(tree.siblings) > 1,
        is_running,
        is_running or is_readable,
        is_readable and not is_running,
        tree.seed,
        RELOADING_MESSAGE
        if is_running and not is_model_loaded
        else f"{format_count(len(path), 'token')} added",
    )


def _build_token_chip(
    tree: GenerationTree, node: int, label: str, places: dict[int, tuple[int, int]]
) -> GeneratedTokenChip:
    one = tree.nodes[node]
    return GeneratedTokenChip(
        label, node, one.probability, places.get(node), is_sampled=one.is_sampled
    )


def _number_branches(tree: GenerationTree) -> dict[int, tuple[int, int]]:
    """Return the branch number and the number of branches of each node with siblings."""
    children: dict[int, list[int]] = {}
    for at, node in enumerate(tree.nodes):
        children.setdefault(node.parent, []).append(at)
    return {
        node: (place, len(tried))
        for tried in children.values()
        if len(tried) > 1
        for place, node in enumerate(tried, 1)
    }
