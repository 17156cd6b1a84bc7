"""Runs a model on a text to get the attention of every layer and head, and the logits."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec import Struct

from visualizer.attention.cached_tensor import to_readonly_array
from visualizer.attention.roles import Role
from visualizer.attention.spec import Projection
from visualizer.errors import InputError
from visualizer.language.corpora.synthetic_tasks import find_partner_keys, mean_partner_weight
from visualizer.language.language_models import AttentionLayer
from visualizer.language.memory_estimate import BYTES_PER_NUMBER
from visualizer.language.training_settings import SYNTHETIC_TASKS
from visualizer.language.wire_format import Message

if TYPE_CHECKING:
    from torch import Tensor

    from visualizer.attention.trace import Trace
    from visualizer.language.language_models import LanguageModel
    from visualizer.language.tokenizers import Vocabulary

MAX_MATRIX_BYTES = 256 * 2**20
"""Maximum total size of the attention scores and weights for a text, in bytes."""


class ProbeText(Struct, frozen=True, eq=False):
    """A text on which a model is run.

    Parameters
    ----------
    ids : Tensor
        Token ids of the end of the text, [token]; at most one block.
    cut : int
        Number of tokens that were cut off at the beginning of the text.
    """

    tokens: tuple[str, ...]
    ids: Tensor
    cut: int

    @classmethod
    def from_text(cls, text: str, vocabulary: Vocabulary, model: LanguageModel) -> ProbeText:
        """Return the end of a text, at most one block, as a probe.

        Raises
        ------
        InputError
            With field ``text`` if the text is empty or has tokens that are not in the vocabulary.
        """
        tokens, numbers = vocabulary.tokenize_and_encode(text)
        if not tokens:
            raise InputError("text", "The text is empty. Enter a text.")
        block = model.settings.block
        device = model.projection.weight.device
        ids = torch.from_numpy(numbers[-block:]).to(device)
        return cls(tokens[-block:], ids, max(0, len(tokens) - block))


@torch.no_grad()
def run_probe(model: LanguageModel, probe: ProbeText) -> dict[str, np.ndarray]:
    """Run a model on a text.

    Returns
    -------
    dict
        ``logits`` [token, vocabulary]. If the model has attention, also ``weights`` [layer, head,
        query, key] and, if it was trained on a synthetic task, ``mean_partner_weight`` [layer,
        head], which is the mean weight on the expected keys.

    Raises
    ------
    InputError
        With field ``text`` if the attention needs more than `MAX_MATRIX_BYTES`.
    """
    model.eval()
    _check_matrix_memory(model, len(probe.tokens))
    logits, traces = model.forward_with_traces(probe.ids)
    arrays = {"logits": to_readonly_array(logits)}
    if traces and Role.WEIGHTS in traces[0]:
        arrays[Role.WEIGHTS] = np.stack([trace.read(Role.WEIGHTS) for trace in traces])
    kind = model.settings.source.kind
    if Role.WEIGHTS in arrays and kind in SYNTHETIC_TASKS:
        arrays["mean_partner_weight"] = mean_partner_weight(
            arrays[Role.WEIGHTS], find_partner_keys(kind, probe.tokens)
        )
    return arrays


@torch.no_grad()
def layer_attention_inputs(
    model: LanguageModel, probe: ProbeText, number: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what is needed to recompute a layer's attention: its spec, input and weights.

    Parameters
    ----------
    number : int
        The layer, counted from 0.

    Returns
    -------
    dict
        The values of the fields in `_SPEC_FIELDS`, keyed by name.
    dict
        ``input`` [token, d_in], and the weights under their names in `AttentionSpec.own_weights`.

    Raises
    ------
    InputError
        With field ``layer`` if the model has no such layer; with field ``text``, as in `run_probe`.
    """
    model.eval()
    _check_matrix_memory(model, len(probe.tokens))
    _, traces = model.forward_with_traces(probe.ids)
    if not 0 <= number < len(traces):
        available = f"{len(traces)} layer{'s' * (len(traces) != 1)}"
        raise InputError("layer", f"Layer {number + 1} does not exist: this model has {available}.")
    trace = traces[number]
    spec = {name: getattr(trace.spec, name) for name in _SPEC_FIELDS}
    return spec, {Role.INPUT: trace.read(Role.INPUT), **_projection_weights(trace)}


def create_layer_message(
    model: LanguageModel, vocabulary: Vocabulary, text: str, number: int, step: int, identity: str
) -> Message:
    """Return the response to the message ``layer``: the attention of a layer for a text.

    Parameters
    ----------
    step : int
        Training step of the model.
    identity : str
        Id of the request, which is repeated in the response.
    """
    probe = ProbeText.from_text(text, vocabulary, model)
    spec, arrays = layer_attention_inputs(model, probe, number)
    values = {"id": identity, "step": step, "tokens": probe.tokens, "spec": spec, "layer": number}
    return Message("layer", values, arrays)


def _check_matrix_memory(model: LanguageModel, tokens: int) -> None:
    heads = sum(
        layer.attention.spec.heads for layer in model.layers if isinstance(layer, AttentionLayer)
    )
    pair_bytes = 2 * BYTES_PER_NUMBER * heads  # score and weight of one query-key pair
    if tokens**2 * pair_bytes > MAX_MATRIX_BYTES:
        sentence = (
            f"The attention of {tokens:,} tokens in {heads:,} heads needs "
            f"{tokens**2 * pair_bytes / 2**20:,.0f} MiB; the maximum is "
            f"{MAX_MATRIX_BYTES // 2**20} MiB. Use at most "
            f"{isqrt(MAX_MATRIX_BYTES // pair_bytes):,} tokens."
        )
        raise InputError("text", sentence)


_SPEC_FIELDS = (
    *("d_in", "d_out", "heads", "projection", "bias", "arrangement", "output_projection"),
    *("scale", "normalisation", "mask"),
)
"""Fields of a spec that determine the values of attention in evaluation mode."""


def _projection_weights(trace: Trace) -> dict[str, np.ndarray]:
    if trace.spec.projection is Projection.NONE:
        return {}
    weights = {name: trace.read(f"{name}.weight").T for name in ("W_query", "W_key", "W_value")}
    if trace.spec.output_projection:
        weights["W_output"] = trace.read("out_proj.weight").T
        weights["W_output.bias"] = trace.read("out_proj.bias")[None]
    return weights
