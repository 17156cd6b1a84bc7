"""Edits of heads: ablation, scaling, mean ablation and activation patching.

Source: Wang et al. 2022, "Interpretability in the Wild" (arXiv 2211.00593).
"""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.model_forward_pass import AblationResult
from visualizer.errors import InputError
from visualizer.models.model_source import HeadEditKind
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    import torch

    from visualizer.models.attention_recorder import ContextEdit
    from visualizer.models.editable_heads import Cuts, Edits
    from visualizer.models.image_preparation import PreparedImage
    from visualizer.models.model_source import HeadEdit, LayerAndHead
    from visualizer.models.opened_model import OpenedModel, UneditedForwardResult
    from visualizer.progress import Progress

    GivenOf = Callable[[str], tuple[Mapping[str, Any], tuple[str, ...], tuple[str, ...]]]

MAX_LISTED_DIFFERENCES = 3
"""Maximum number of differences between two texts that are listed; the rest are counted."""
MAX_COMPARED_TOKENS = 2_000
"""Maximum number of tokens in a text that is compared; comparing longer texts takes minutes."""
MAX_LISTED_TOKENS = 4
"""Maximum number of tokens listed per difference."""


TEXT_TOO_LONG_ERROR = (
    "Mean ablation and patching are not available for a text this long, because the outputs of "
    "heads are not kept. Ablate or scale the heads, or use a shorter text."
)


def context_edits(
    model: OpenedModel,
    text: str,
    edits: Iterable[HeadEdit],
    second: str | None = None,
    *,
    is_chat: bool = False,
) -> dict[LayerAndHead, ContextEdit]:
    """Return the edits of the heads' context vectors, as expected by `OpenedModel.read`.

    Means and the context vectors for another text are computed with the unedited model. The other
    text is passed to the model in the same way as ``text``.

    Parameters
    ----------
    second, is_chat
        As in `OpenedModel.read`.

    Raises
    ------
    InputError
        With field ``edits`` if another text has a different number of tokens; otherwise as in
        `OpenedModel.read_unedited_text`.
    """
    given = partial(model.encode_inputs, second=second, is_chat=is_chat)
    contexts = partial(model.read_unedited_text, second=second, is_chat=is_chat)
    edits_by_head = {}
    for edit in edits:
        model.ranks.check_cancelled()
        edits_by_head[edit.layer_and_head] = _create_context_edit(text, edit, given, contexts)
    return edits_by_head


def create_image_context_edits(
    model: OpenedModel, image: PreparedImage, edits: Iterable[HeadEdit]
) -> dict[LayerAndHead, ContextEdit]:
    """Return the edits of the heads' context vectors for an image.

    Raises
    ------
    InputError
        With field ``edits`` if heads are to be patched from a text.
    """

    def given(_: str) -> tuple[Mapping[str, Any], tuple[str, ...], tuple[str, ...]]:
        raise InputError(
            "edits", "Heads cannot be patched from a text when the model’s input is an image."
        )

    plain = partial(model.read_unedited_image, image)
    return {
        edit.layer_and_head: _create_context_edit("", edit, given, lambda _: plain())
        for edit in edits
    }


def _create_context_edit(
    text: str, edit: HeadEdit, given: GivenOf, read_plainly: Callable[[str], UneditedForwardResult]
) -> ContextEdit:
    if edit.kind is HeadEditKind.OFF:
        return 0.0
    if edit.kind is HeadEditKind.SCALED:
        return edit.factor
    if edit.kind is HeadEditKind.MEAN:
        return _unedited_context_vectors(read_plainly(text), edit.layer_and_head).mean(
            0, keepdim=True
        )
    check_equal_token_counts(given, text, edit.text)
    return _unedited_context_vectors(read_plainly(edit.text), edit.layer_and_head)


def _unedited_context_vectors(plain: UneditedForwardResult, place: LayerAndHead) -> torch.Tensor:
    """Return the context vectors of a head without edits, [query, d_value]."""
    if plain.is_long:
        raise InputError("edits", TEXT_TOO_LONG_ERROR)
    layer, head = place
    context = plain.contexts.get(layer)
    if context is None or not 0 <= head < context.shape[1]:
        raise InputError("heads", f"Head {head} of layer {layer} does not exist.")
    return context[:, head]


def check_equal_token_counts(given: GivenOf, text: str, source: str) -> None:
    """Reject a text to patch from if its token count differs; the error lists the differences.

    Parameters
    ----------
    given : callable
        Returns the model inputs of a text, like `OpenedModel.encode_inputs`.

    Raises
    ------
    InputError
        With field ``edits``.
    """
    if not source.strip():
        raise InputError(
            "edits",
            "Enter the text to patch from. It must have as many tokens as the current text.",
        )
    try:
        _, others, _ = given(source)
    except InputError as refused:
        raise InputError("edits", f"Text to patch from: {refused.sentence}") from refused
    _, tokens, _ = given(text)
    if len(tokens) != len(others):
        sentence = (
            f"The text has {len(tokens):,} tokens, but the text to patch from has {len(others):,}. "
            "Use texts with the same number of tokens."
        )
        if max(len(tokens), len(others)) <= MAX_COMPARED_TOKENS:
            sentence += f" Differences: {describe_token_differences(tokens, others)}."
        raise InputError("edits", sentence)


def describe_token_differences(one: Sequence[str], other: Sequence[str]) -> str:
    """List the differences between the tokens of two texts: ``“ red” → “ old grey”``."""
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    differences = [
        f"{_quote_tokens(one[start:end])} → {_quote_tokens(other[begin:stop])}"
        for kind, start, end, begin, stop in steps
        if kind != "equal"
    ]
    rest = len(differences) - MAX_LISTED_DIFFERENCES
    return ", ".join(differences[:MAX_LISTED_DIFFERENCES]) + (
        f" and {rest:,} more" if rest > 0 else ""
    )


def _quote_tokens(tokens: Sequence[str]) -> str:
    if not tokens:
        return "nothing"
    more = "…" if len(tokens) > MAX_LISTED_TOKENS else ""
    return f"“{'|'.join(tokens[:MAX_LISTED_TOKENS])}{more}”"


MAX_BATCH_TOKENS = 512
"""Maximum number of tokens per batch, summed over its texts."""


def compute_ablation_changes(
    model: OpenedModel,
    text: str,
    token: str | None = None,
    edits: Edits | None = None,
    cuts: Cuts | None = None,
    known: AblationResult | None = None,
    progress: Progress = ignore_progress,
    report: Callable[[AblationResult], object] = lambda _: None,
) -> AblationResult:
    """Return the change in a next token's log-probability when each head is ablated.

    Parameters
    ----------
    token : str, optional
        The token; by default, the most likely token.
    known : AblationResult, optional
        An earlier, incomplete result; only the heads missing from it are ablated.
    report : callable
        Called with the partial answer after each layer.

    Raises
    ------
    InputError
        With field ``model`` if the model does not generate text; with ``text`` if the layers have
        different numbers of heads; with ``token`` if its text is not exactly one token.
    """
    before = model.next_token_log_probabilities(text, edits, cuts)
    number = int(before.argmax()) if token is None else model.token_id(token)
    heads = model.heads.list_heads(text)
    layers = tuple(sorted({layer for layer, _ in heads}))
    count = 1 + max(head for _, head in heads)
    if len(heads) != count * len(layers):
        raise InputError(
            "text", "The layers have different numbers of heads. Ablate individual heads instead."
        )
    changes = np.full((len(layers), count), np.nan)
    if known is not None and known.changes.shape == changes.shape:
        changes = known.changes.copy()
    word, several = (
        model.token_text(number),
        max(1, MAX_BATCH_TOKENS // len(model.encode_inputs(text)[1])),
    )
    for row, layer in enumerate(layers):
        left = [(layer, head) for head in range(count) if np.isnan(changes[row, head])]
        for start in range(0, len(left), several):
            progress(row * count + start, len(heads))
            part = left[start : start + several]
            after = model.ablated_log_probabilities(text, part, edits, cuts)[:, number]
            changes[row, [head for _, head in part]] = (after - before[number]).numpy()
        report(AblationResult(word, layers, changes.copy()))
    changes.flags.writeable = False
    return AblationResult(word, layers, changes)
