"""Head ablation: the change of a next token's log-probability without each head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.model_answers import AblationAnswer
from visualizer.errors import InputError
from visualizer.progress_callback import no_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.models.opened_model import Cuts, Edits, OpenedModel
    from visualizer.progress_callback import Progress

MAX_BATCH_TOKENS = 512
"""Maximum number of tokens per batch, over all its texts."""


def _no_report(answer: AblationAnswer) -> None:
    return None


def ablation_changes(
    model: OpenedModel,
    text: str,
    token: str | None = None,
    edits: Edits | None = None,
    cuts: Cuts | None = None,
    known: AblationAnswer | None = None,
    progress: Progress = no_progress,
    report: Callable[[AblationAnswer], object] = _no_report,
) -> AblationAnswer:
    """Return the change of a next token's log-probability when each head is ablated.

    Parameters
    ----------
    token : str, optional
        The token; by default, the likeliest one.
    edits, cuts : mapping, optional
        Edits that are always applied, as in `OpenedModel.next_token_log_probabilities`.
    known : AblationAnswer, optional
        An earlier answer to the same question: only the missing heads are ablated.
    progress : callable
        Called with the number of completed heads; may cancel.
    report : callable
        Called with the partial answer after each layer.

    Raises
    ------
    InputError
        With field ``model`` if it does not continue texts; with ``text`` if its layers differ in
        their heads; with ``token`` if it is not a single token.
    """
    before = model.next_token_log_probabilities(text, edits, cuts)
    number = int(before.argmax()) if token is None else model.number_of(token)
    heads = model.layers_and_heads(text)
    layers = tuple(sorted({layer for layer, _ in heads}))
    count = 1 + max(head for _, head in heads)
    if len(heads) != count * len(layers):
        raise InputError(
            "text", "The layers have different numbers of heads. Ablate single heads instead."
        )
    changes = np.full((len(layers), count), np.nan)
    if known is not None and known.changes.shape == changes.shape:
        changes = known.changes.copy()
    word, several = model.token(number), max(1, MAX_BATCH_TOKENS // len(model.inputs(text)[1]))
    for row, layer in enumerate(layers):
        left = [(layer, head) for head in range(count) if np.isnan(changes[row, head])]
        for start in range(0, len(left), several):
            progress(row * count + start, len(heads))
            part = left[start : start + several]
            after = model.log_probabilities_without_each(text, part, edits, cuts)[:, number]
            changes[row, [head for _, head in part]] = (after - before[number]).numpy()
        report(AblationAnswer(word, layers, changes.copy()))
    changes.flags.writeable = False
    return AblationAnswer(word, layers, changes)
