"""Validates the arguments of models: texts, token ids, embeddings, and the parts to keep.

Does not import torch; tensors are recognized by their methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from visualizer.api.argument_validation import (
    describe_value,
    invalid_argument_error,
    validate_integer,
    validate_numbers,
    validate_sequence,
    validate_string,
)
from visualizer.api.attention_api import validate_stage_names
from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.errors import InputError
from visualizer.models.token_inputs import ModelInput, TokenIds, TokenVectors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.models.recorded_runs import KeptLayersAndStages

TOKENIZER_KEYS = ("input_ids", "attention_mask", "token_type_ids", "decoder_input_ids")
"""Outputs of a tokenizer that are used."""
DESCRIPTIVE_KEYS = frozenset(
    (
        *("length", "num_truncated_tokens", "offset_mapping", "overflowing_tokens"),
        *("overflow_to_sample_mapping", "special_tokens_mask"),
    )
)
"""Outputs of a tokenizer that describe the tokens and do not change the result of a model."""
_TEXT_TYPES = "a text, token ids, or a list of them"


def parse_model_input(given: object) -> ModelInput | list[ModelInput]:
    """Return one input of a model, or a list with one input per text of a batch.

    Parameters
    ----------
    given
        A text; token ids [token]; vectors [token, d_model]; a tokenizer's output; or a list of
        these. A tensor may have a batch axis; if its size is 1, the result is a single input.

    Raises
    ------
    InputError
        With field ``text``.
    """
    if isinstance(given, str):
        return validate_string("text", given)
    if isinstance(given, Mapping):
        return _parse_tokenizer_output(given)
    if hasattr(given, "ndim") and hasattr(given, "shape"):
        return _parse_array(given)
    values = validate_sequence("text", _TEXT_TYPES, given)
    if isinstance(values[0], str | Mapping | list | tuple) or getattr(values[0], "ndim", False):
        return [_parse_text_of_list(each) for each in values]
    return TokenIds(_validate_ids(values))


def parse_single_input(given: object) -> ModelInput:
    """Return one input of a model; see `parse_model_input`."""
    found = parse_model_input(given)
    if isinstance(found, list):
        raise InputError("text", f"Pass one text at a time. There are {len(found):,}.")
    return found


def _parse_text_of_list(given: object) -> ModelInput:
    found = parse_model_input(given)
    if isinstance(found, list):
        raise invalid_argument_error("text", _TEXT_TYPES, given)
    return found


def _parse_array(given: Any) -> ModelInput | list[ModelInput]:
    array = _to_array(given)
    if not array.size:
        raise InputError("text", "text must not be empty. Pass at least one token.")
    is_vectors = array.dtype.kind == "f"
    if array.ndim == 1 + is_vectors:
        return _parse_row(array)
    if array.ndim == 2 + is_vectors:
        found = [_parse_row(row) for row in array]
        return found[0] if len(found) == 1 else found
    takes = "token ids [token] or [text, token], or embeddings [token, d_model] or [text, …]"
    shape = " × ".join(map(str, array.shape)) or "a single number"
    raise InputError("text", f"text must be {takes}. Its shape is {shape}.")


def _parse_row(row: np.ndarray) -> ModelInput:
    if row.dtype.kind == "f":
        return TokenVectors(validate_numbers("text", row))
    return TokenIds(_validate_ids(row.tolist()))


def _to_array(given: Any) -> np.ndarray:
    if hasattr(given, "is_floating_point"):  # a tensor; NumPy has no bfloat16
        given = to_float64_on_cpu(given) if given.is_floating_point() else given.detach().cpu()
    array = np.asarray(given)
    if array.dtype.kind == "b":  # a mask
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise InputError("text", f"text must contain token ids. It contains {array.dtype} values.")
    return array


def _parse_tokenizer_output(given: Mapping[str, object]) -> ModelInput | list[ModelInput]:
    """Return the inputs that a tokenizer created; positions that the mask excludes are omitted."""
    if "input_ids" not in given:
        keys = ", ".join(str(key)[:60] for key in [*given][:10]) or "no keys"
        raise InputError("text", f"text must have the key “input_ids”. It has {keys}.")
    for key, value in given.items():
        if value is not None and key not in {*TOKENIZER_KEYS, *DESCRIPTIVE_KEYS}:
            supported = ", ".join(TOKENIZER_KEYS)
            raise InputError(
                "text",
                f"text has the key “{str(key)[:60]}”, which is not supported. Remove it. "
                f"Supported keys: {supported}.",
            )
    parts = {
        name: parse_model_input(given[name])
        for name in TOKENIZER_KEYS
        if given.get(name) is not None
    }
    count = _count_texts(parts["input_ids"])
    for name, part in parts.items():
        each_one = part if isinstance(part, list) else [part]
        if not all(isinstance(one, TokenIds) for one in each_one):
            raise InputError("text", f"{name} must contain integers.")
        if _count_texts(part) != count:
            raise InputError("text", f"{name} and input_ids have different numbers of texts.")
    if count is None:
        return _join_outputs(parts)
    return [
        _join_outputs({name: part[at] for name, part in parts.items() if isinstance(part, list)})
        for at in range(count)
    ]


def _count_texts(part: ModelInput | list[ModelInput]) -> int | None:
    return len(part) if isinstance(part, list) else None


def _join_outputs(parts: Mapping[str, Any]) -> TokenIds:
    ids = parts["input_ids"].ids
    mask, types = (
        parts[name].ids if name in parts else () for name in ("attention_mask", "token_type_ids")
    )
    for name, each in (("attention_mask", mask), ("token_type_ids", types)):
        if each and len(each) != len(ids):
            sentence = f"{name} has {len(each):,} numbers for {len(ids):,} token ids."
            raise InputError("text", sentence)
    kept = [at for at in range(len(ids)) if not mask or mask[at]]
    if not kept:
        raise InputError("text", "attention_mask excludes all tokens of a text.")
    decoder = parts.get("decoder_input_ids", TokenIds(()))
    return TokenIds(
        tuple(ids[at] for at in kept),
        tuple(types[at] for at in kept) if types else (),
        decoder.ids,
    )


def _validate_ids(values: list[Any]) -> tuple[int, ...]:
    for value in values:
        if isinstance(value, str):
            sentence = f"text mixes texts and token ids. One of them is {describe_value(value)}."
            raise InputError("text", sentence)
    return tuple(
        validate_integer("text", value.item() if hasattr(value, "item") else value)
        for value in values
    )


def parse_kept_parts(
    layers: int | Iterable[int] | None, stages: str | Iterable[str] | None
) -> KeptLayersAndStages:
    """Return the layers and stages to keep; arguments are validated, but may not exist."""
    from visualizer.models.recorded_runs import KeptLayersAndStages

    if layers is None:
        numbers = None
    else:
        is_one = isinstance(layers, Integral)
        several_layers = (
            [layers] if is_one else validate_sequence("layers", "a list of layers", layers)
        )
        numbers = frozenset(validate_integer("layers", layer) for layer in several_layers)
    return KeptLayersAndStages(numbers, None if stages is None else validate_stage_names(stages))
