"""Continues a text token by token with the cache of keys and values, and keeps every row read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec import Struct

from visualizer.errors import InputError
from visualizer.language.sampling import Sampling, check, draw_of_seed, probabilities
from visualizer.models.attention_recorder import RecordingMethod
from visualizer.models.run_from_attention_calls import numbered_by_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.opened_model import OpenedModel

MOST_STEPS = 10_000
NO_CACHE = "keeps no keys and values that could be read, so its text is not continued here."


class GeneratedText(Struct, frozen=True, eq=False):
    """A text and how a model continued it.

    Parameters
    ----------
    tokens : tuple of str
        All tokens: those of the text, then those that were generated.
    start : int
        How many tokens the text has.
    probabilities : tuple of float
        That of each generated token when it was drawn, before temperature and limits.
    text : str
        What was generated, as text.
    weights : tuple of ndarray
        For each layer [head, query, key], over all tokens that were read: the last one was not.
    layers : tuple of int
        The layers' numbers.
    cache_bytes : int
        The memory of the keys and values that were kept.
    """

    tokens: tuple[str, ...]
    start: int
    probabilities: tuple[float, ...]
    text: str
    weights: tuple[np.ndarray, ...]
    layers: tuple[int, ...]
    cache_bytes: int


def generate(
    model: OpenedModel,
    text: str,
    steps: int,
    sampling: Sampling,
    seed: int = 0,
    told: Callable[[str], object] | None = None,
) -> GeneratedText:
    """Continue a text by so many tokens, or until the model ends it.

    Parameters
    ----------
    seed : int
        Decides what is drawn.
    told : callable, optional
        Called with what each token adds to the text.

    Raises
    ------
    InputError
        As `OpenedModel.attend`; of ``model``, when it does not continue texts; of ``tokens``, when
        they are too many; of a field of ``sampling``, when it is invalid.
    """
    if model.why_no_next_token:
        raise InputError("model", model.why_no_next_token)
    given, words, _ = model.inputs(text)
    start = len(words)
    if not 1 <= steps <= MOST_STEPS:
        raise InputError("tokens", f"tokens is from 1 to {MOST_STEPS:,}, and not {steps:,}.")
    try:
        model.check_length(start + steps - 1)
    except InputError as refused:
        raise InputError("tokens", refused.sentence.replace("less text", "fewer")) from refused
    layers = getattr(model.model.config.get_text_config(), "num_hidden_layers", 1)
    model.check_memory({"input_ids": torch.empty(1, start + steps)}, layers)
    check(sampling)
    ends = _ends(model)
    rows: list[dict[int, np.ndarray]] = []
    numbers: list[int] = []
    chances: list[float] = []
    inputs, cache = dict(given), None
    written = _decoded(model, given["input_ids"][0].tolist())
    with torch.inference_mode(), model.recorded() as calls:
        for _ in range(steps):
            result = model.run({**inputs, "past_key_values": cache, "use_cache": True})
            cache = getattr(result, "past_key_values", None)
            if cache is None or not _are_known(calls):
                raise InputError("model", f"{model.folder.name} {NO_CACHE}")
            rows.append(_rows(calls))
            logits = result.logits[0, -1].double().cpu()
            chosen = probabilities(
                logits.numpy(), sampling.temperature, sampling.top_k, sampling.top_p
            )
            number = draw_of_seed(chosen, seed, len(numbers))
            numbers.append(number)
            chances.append(float(logits.softmax(-1)[number]))
            if told:
                written = _tell(told, model, [*given["input_ids"][0].tolist(), *numbers], written)
            if number in ends:
                break
            inputs = _next_inputs(inputs, number)
    read = start + len(numbers) - 1
    found = sorted(rows[0])
    return GeneratedText(
        (*words, *map(model.token, numbers)),
        start,
        tuple(chances),
        _decoded(model, numbers),
        tuple(_whole([each[layer] for each in rows], read) for layer in found),
        tuple(found),
        _bytes(cache),
    )


def _are_known(calls: Sequence[AttentionCall]) -> bool:
    return bool(calls) and all(call.method is RecordingMethod.INTERFACE for call in calls)


def _decoded(model: OpenedModel, numbers: list[int]) -> str:
    return str(model.tokenizer.decode(numbers, clean_up_tokenization_spaces=False))


def _tell(
    told: Callable[[str], object], model: OpenedModel, numbers: list[int], written: str
) -> str:
    """Tell what tokens add to what was written, and return all that is; part of a letter waits."""
    text = _decoded(model, numbers)
    if text.endswith("�") or not text.startswith(written):
        return written
    told(text[len(written) :])
    return text


def _ends(model: OpenedModel) -> frozenset[int]:
    """Return the numbers of the tokens that end a text."""
    settings = getattr(model.model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    named = named if isinstance(named, list) else [named]
    return frozenset(number for number in named if isinstance(number, int))


def _rows(calls: Sequence[AttentionCall]) -> dict[int, np.ndarray]:
    return {
        layer: call.weights[0].float().cpu().numpy() for layer, call in numbered_by_layer(calls)
    }


def _next_inputs(inputs: dict[str, Any], number: int) -> dict[str, Any]:
    """Return what the model is given next: one token, and a mask that is one longer."""
    token = inputs["input_ids"].new_tensor([[number]])
    mask = inputs.get("attention_mask")
    more = {} if mask is None else {"attention_mask": torch.cat([mask, mask.new_ones(1, 1)], -1)}
    return {"input_ids": token, **more}


def _whole(rows: list[np.ndarray], tokens: int) -> np.ndarray:
    """Put the rows of all steps into one matrix a head; a cache's window stands at its offset."""
    heads = rows[0].shape[0]
    whole = np.zeros((heads, tokens, tokens), np.float32)
    at = 0
    for row in rows:
        queries, keys = row.shape[1:]
        end = at + queries
        whole[:, at:end, end - keys : end] = row
        at = end
    whole.flags.writeable = False
    return whole


def _bytes(cache: Any) -> int:
    """Count the bytes of the keys and values in a cache of transformers."""
    layers = getattr(cache, "layers", ())
    parts = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    return sum(part.nbytes for part in parts if isinstance(part, torch.Tensor))
