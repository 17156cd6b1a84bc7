"""Puts the context vectors of heads from elsewhere into a model: from another text, or their mean.

Source: Wang et al. 2022, "Interpretability in the Wild" (arXiv 2211.00593).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.opened_model import OpenedModel


def patched_log_probabilities(
    model: OpenedModel, text: str, source: str, heads: Iterable[LayerAndHead]
) -> torch.Tensor:
    """Return the log-probability of each next token of a text, [token], float64, with patches.

    Parameters
    ----------
    source : str
        The text from whose reading the context vectors of the heads are taken, token by token.

    Raises
    ------
    InputError
        Of ``source``, when it has not as many tokens as the text; else as
        `OpenedModel.next_token_log_probabilities`.
    """
    given, tokens, _ = model.inputs(source)
    count = len(model.inputs(text)[1])
    if len(tokens) != count:
        sentence = (
            f"The text has {count:,} tokens, and the other one {len(tokens):,}. Use texts of as "
            "many tokens."
        )
        raise InputError("source", sentence)
    contexts = _contexts(model.calls_by_layer(given), heads)
    return model.next_token_log_probabilities(text, contexts)


def log_probabilities_with_means(
    model: OpenedModel, text: str, heads: Iterable[LayerAndHead]
) -> torch.Tensor:
    """Return the log-probability of each next token of a text, [token], with heads set to means.

    The context vector of each query of such a head is the mean over all queries of the text.

    Raises
    ------
    InputError
        As `OpenedModel.next_token_log_probabilities`.
    """
    given, *_ = model.inputs(text)
    contexts = _contexts(model.calls_by_layer(given), heads)
    means = {head: each.mean(0, keepdim=True) for head, each in contexts.items()}
    return model.next_token_log_probabilities(text, means)


def _contexts(
    calls: Mapping[int, AttentionCall], heads: Iterable[LayerAndHead]
) -> dict[LayerAndHead, torch.Tensor]:
    """Return the context vectors of heads, each [query, d_value]."""
    found = {}
    for layer, head in heads:
        call = calls.get(layer)
        if call is None or call.context is None or not 0 <= head < call.context.shape[2]:
            raise InputError("heads", f"There is no head {head} in a layer {layer}.")
        found[layer, head] = call.context[0, :, head]
    return found
