"""Prefills a decoder with a long text chunk by chunk, with a cache of earlier keys and values.

Between chunks, progress is reported and the work can be cancelled. The values are the same as in a
single pass. If a test with a few tokens shows different values, or if positions depend on the
length of the text, the text is processed in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from visualizer.errors import InputError
from visualizer.models.long_text_recorder import CHUNK_MISMATCH, record_long_text
from visualizer.models.model_ranks import SINGLE_RANK
from visualizer.models.recognition_errors import UnsupportedAttentionError
from visualizer.models.text_model import cache_disabling_argument
from visualizer.progress import ignore_progress, report_progress_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.models.attention_recorder import ContextEdits
    from visualizer.models.long_text_recorder import LongTextCall
    from visualizer.models.model_ranks import ModelProcessGroup

    Run = Callable[[Mapping[str, Any]], Any]

TOKENS_PER_CHUNK = 1024
"""Number of tokens per chunk. A text of 8,192 tokens takes 10 % longer than in one pass; with half
as many tokens per chunk, it takes 25 % longer. Larger chunks need more memory and delay
cancellation.
"""
PROBE_TOKENS, PROBE_CHUNK_TOKENS = 12, 5
"""Numbers of tokens, in total and per chunk, in the test that compares chunks with one pass."""
CHUNK_TOLERANCE = 1e-4
"""Tolerance of the test, relative to the largest value."""
ROUNDING_STEPS = 8
"""The same in units of the precision of the data type, for 16-bit types."""
MASK, IDS = "attention_mask", "input_ids"
LENGTH_DEPENDENT_ROPE = frozenset({"dynamic", "longrope"})
"""Types of rotary embedding that change when the text exceeds a certain length."""


def prefill_in_chunks(
    model: Any,
    run: Run,
    given: Mapping[str, Any],
    edits: ContextEdits,
    *,
    layers: int,
    keeps: bool = True,
    chunk: int = 0,
    ranks: ModelProcessGroup = SINGLE_RANK,
) -> tuple[list[LongTextCall], Any]:
    """Run a model on a text in chunks; return its attention calls and the last chunk's result.

    Parameters
    ----------
    run : callable
        Runs the model with the given arguments.
    layers : int
        Number of attention calls per chunk.
    chunk : int
        Number of tokens per chunk; 0 for the default.

    Raises
    ------
    UnsupportedAttentionError
        If the model's attention cannot be recomputed, or the values for chunks differ from those
        for the whole text.
    """
    from visualizer.models.preallocated_cache import create_text_cache

    tokens = given[IDS].shape[-1]
    size = chunk or TOKENS_PER_CHUNK
    cache = create_text_cache(model.config, tokens)
    if cache is None:
        raise UnsupportedAttentionError("Some layers of this model do not cache keys and values.")
    recorded = record_long_text(
        model, edits, tokens=tokens, layers=layers, keeps=keeps, ranks=ranks
    )
    result = None
    with recorded as calls:
        for start in range(0, tokens, size):
            part = slice_model_inputs(given, start, min(start + size, tokens))
            result = run({**part, "past_key_values": cache, "use_cache": True})
    if keeps and not calls:
        raise UnsupportedAttentionError(CHUNK_MISMATCH)
    return calls, result


def slice_model_inputs(given: Mapping[str, Any], start: int, end: int) -> dict[str, Any]:
    """Return the arguments for a range of tokens; the mask also covers the tokens before it."""
    tokens = given[IDS].shape[-1]
    part = {}
    for name, value in given.items():
        is_of_tokens = isinstance(value, torch.Tensor) and value.shape[-1] == tokens
        first = 0 if name == MASK else start
        part[name] = value[:, first:end] if is_of_tokens else value
    return part


def supports_chunked_prefill(
    model: Any, run: Run, given: Mapping[str, Any], ranks: ModelProcessGroup = SINGLE_RANK
) -> bool:
    """Return whether a few tokens of a text have the same values in chunks as in one pass."""
    if not cache_disabling_argument(model) or _has_length_dependent_positions(model.config):
        return False
    few = slice_model_inputs(given, 0, min(PROBE_TOKENS, given[IDS].shape[-1]))
    with report_progress_to(ignore_progress):
        try:
            with record_long_text(model, ranks=ranks) as whole:
                result = run({**few, **cache_disabling_argument(model)})
            calls, last = prefill_in_chunks(
                model, run, few, {}, layers=0, chunk=PROBE_CHUNK_TOKENS, ranks=ranks
            )
        except (UnsupportedAttentionError, InputError):
            return False
    is_alike = _have_close_vectors(whole, calls) and _are_tensors_close(
        last[0][:, -1:], result[0][:, -1:]
    )
    return ranks.all_ranks_agree(is_alike)


def _have_close_vectors(calls: Sequence[LongTextCall], others: Sequence[LongTextCall]) -> bool:
    if [call.module for call in calls] != [call.module for call in others]:
        return False
    return all(
        _are_tensors_close(getattr(one.vectors, name), getattr(other.vectors, name))
        for one, other in zip(calls, others, strict=True)
        for name in ("queries", "keys", "values", "logarithms")
    )


def _are_tensors_close(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    within = max(CHUNK_TOLERANCE, ROUNDING_STEPS * torch.finfo(other.dtype).eps)
    return bool((one - other).abs().max() <= within * other.abs().max().clamp(min=1))


def _has_length_dependent_positions(config: Any) -> bool:
    parameters = getattr(config.get_text_config(), "rope_parameters", None) or {}
    settings = [parameters, *(each for each in parameters.values() if isinstance(each, Mapping))]
    return any(LENGTH_DEPENDENT_ROPE & {str(each.get("rope_type"))} for each in settings)
