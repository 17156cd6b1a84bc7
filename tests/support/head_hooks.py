"""Runs a plain model with hooks that edit the outputs of its heads, or mask cells."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch

from tests.support.reference_tokenizer import tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer import Model

    ContextEdit = Callable[[int, torch.Tensor], torch.Tensor]
    """Edits the inputs of an output projection, given the number of the layer."""

ATTENTIONS, OUTPUTS = (".self_attn", ".attn"), (".self_attn.o_proj", ".attn.c_proj")
"""Endings of the paths of attention modules, and of the modules that receive their heads."""


def head(context: torch.Tensor, number: int) -> torch.Tensor:
    """Return the columns of one of the four heads."""
    size = context.shape[-1] // 4
    return context[..., size * number : size * (number + 1)]


def run_plain(
    model: Model,
    text: str,
    edit: ContextEdit = lambda _, context: context,
    mask: dict[int, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the next-token probabilities and the weights of the plain model, changed by hooks.

    Parameters
    ----------
    mask
        Masks by layer, [head, query, key].
    """
    plain = model.opened.model
    attentions, outputs = (
        [each for name, each in plain.named_modules() if name.endswith(endings)]
        for endings in (ATTENTIONS, OUTPUTS)
    )
    with ExitStack() as hooks:
        for layer, (attention, output) in enumerate(zip(attentions, outputs, strict=True)):
            edited = output.register_forward_pre_hook(
                lambda _, given, layer=layer: (edit(layer, given[0].clone()), *given[1:])
            )
            hooks.enter_context(edited)
            if mask and layer in mask:
                masked = attention.register_forward_pre_hook(
                    lambda _, given, named, own=mask[layer][None]: (
                        given, {**named, "attention_mask": own},
                    ),
                    with_kwargs=True,
                )  # fmt: skip
                hooks.enter_context(masked)
        ids = tokenizer_of(model.opened)(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            result = plain(ids, output_attentions=True)
    return result.logits[0, -1].double().softmax(-1), [each[0] for each in result.attentions]


def contexts(model: Model, text: str) -> dict[int, torch.Tensor]:
    """Return the context vectors of all heads, by layer."""
    kept: dict[int, torch.Tensor] = {}
    run_plain(model, text, lambda layer, context: kept.setdefault(layer, context))
    return kept
