"""Attention weights that another program computed, as the attention of a model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from visualizer.api.argument_validation import validate_string
from visualizer.api.model_attention import ModelAttention, parse_token_lists
from visualizer.attention.roles import VECTOR_ROLES
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.models.array_runs import TextTokens


def from_arrays(
    attention: Any,
    tokens: Iterable[str] | Iterable[Iterable[str]] | None = None,
    *,
    key_tokens: Iterable[str] | Iterable[Iterable[str]] | None = None,
    attention_mask: Any = None,
    queries: Any = None,
    keys: Any = None,
    values: Any = None,
    name: str = "arrays",
) -> ModelAttention:
    """Return attention weights that you already have as the attention of a model.

    ::

        outputs = model(**inputs, output_attentions=True)  # with attn_implementation="eager"
        words = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        visualizer.from_arrays(outputs.attentions, words).overview()

    Notices about the weights are issued as warnings: rows that do not sum to 1, NaN, and negative
    numbers, which are shown as scores. The arrays are copied only if they are not on the CPU or
    their type is not supported by NumPy, so do not change them afterwards.

    Parameters
    ----------
    attention : array_like, or sequence of array_like
        The weights, [query, key], [head, query, key], [layer, head, query, key] or [layer, text,
        head, query, key], as a NumPy array or a tensor of any type on any device; or one array
        [text, head, query, key] per layer, such as ``outputs.attentions`` of a Transformers model.
        Several texts form a batch; see `ModelAttention.texts`.
    tokens : iterable of str, or iterable of iterables of str, optional
        The tokens, also in the form of the vocabulary; for a batch, one list per text. By default,
        tokens are numbered. If there are fewer queries than keys, the tokens of all keys, which
        end with those of the queries.
    key_tokens : iterable of str, or iterable of iterables of str, optional
        The tokens of the keys, for attention to another text (cross-attention).
    attention_mask : array_like, optional
        For padded texts, 1 for tokens and 0 for padding, [text, key] or [key], such as
        ``inputs["attention_mask"]``. The padding is removed.
    queries, keys, values : array_like, or sequence of array_like, optional
        The queries and keys from which the weights were computed, after positional encoding, and
        the values that are weighted. They have the form of ``attention``, with the axes [token,
        d_head] instead of [query, key]; several heads may share a key or value head. Pass all three
        or none.
    name : str
        The name of the model or the source, for captions.

    Raises
    ------
    InputError
        A `ValueError` that states which argument is invalid, and how to correct it.

    Examples
    --------
    >>> import numpy as np
    >>> weights = np.tril(np.ones((2, 4, 3, 3)))  # layer head query key
    >>> weights /= weights.sum(-1, keepdims=True)
    >>> imported = visualizer.from_arrays(weights, ["The", "cat", "sat"])
    >>> imported.dims("weights")
    ('layer', 'head', 'query', 'key')
    """
    from visualizer.models.array_runs import ArrayBatch

    vectors = dict(zip(VECTOR_ROLES, (queries, keys, values), strict=True))
    if missing := [role for role, given in vectors.items() if given is None]:
        if len(missing) < len(vectors):
            given = next(role for role in vectors if role not in missing)
            sentence = f"queries, keys and values must be passed together. {missing[0]} is missing."
            raise InputError(given, sentence)
        vectors = {}
    batch = ArrayBatch(
        validate_string("name", name),
        attention,
        vectors,
        _parse_tokens(tokens, key_tokens),
        attention_mask,
    )
    found = ModelAttention(batch.runs_of_text(0), batch if len(batch) > 1 else None)
    for sentence in found.notices:
        warnings.warn(sentence, stacklevel=2)
    return found


def _parse_tokens(tokens: object, key_tokens: object) -> list[TextTokens]:
    """Return the tokens of each text."""
    from visualizer.models.array_runs import TextTokens

    queries = () if tokens is None else parse_token_lists("tokens", tokens)
    keys = () if key_tokens is None else parse_token_lists("key_tokens", key_tokens)
    if not keys:
        return [TextTokens(both=words) for words in queries]
    if queries and len(queries) != len(keys):
        sentence = f"tokens has {len(queries):,} lists, but key_tokens has {len(keys):,}."
        raise InputError("key_tokens", sentence)
    return [
        TextTokens(queries=queries[at] if queries else (), keys=words)
        for at, words in enumerate(keys)
    ]
