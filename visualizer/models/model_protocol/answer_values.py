"""Values and arrays of a server's answers, validated when they are decoded. No torch.

The server encodes them with the same types. The client rejects anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from visualizer.errors import InputError
from visualizer.models.model_protocol.requests import Count  # noqa: TC001 - decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

UNREADABLE = "Invalid response from the model server: {why}."
SIZE_MISMATCH = (
    "Invalid response from the model server: an array is missing or has an unexpected shape."
)

ROWS = "rows/"
"""Prefix of the names of each layer's attention weights during generation."""
Values = TypeVar("Values")


class ModelFacts(Struct, frozen=True):
    """Model metadata."""

    name: str
    kind: str
    fingerprint: str
    layers: Count
    heads: Count
    processes: int
    parallelism: str


class JobProgress(Struct, frozen=True):
    """Progress of a job."""

    done: Count
    of: Count
    working: bool = True


class TextTokens(Struct, frozen=True):
    """The tokens of a text, or a text that can be read instead if this one cannot."""

    tokens: tuple[str, ...]
    other_text: str


class TokenNames(Struct, frozen=True):
    """Text of tokens that were requested by their ids."""

    tokens: tuple[str, ...]


class TextRead(Struct, frozen=True):
    """Response for a text that was read with the tokens generated after it; see `TokenReader`.

    Parameters
    ----------
    words : tuple of str
        Tokens of the prompt.
    ends : tuple of int
        Ids of the tokens that end a text.
    tokens : int
        Number of tokens in the cache.
    text : str
        The prompt and the generated text.
    is_split_alike : bool
        Whether the tokenizer splits this text into the same tokens again.
    names : tuple of (int, str)
        Ids and text of the most likely next tokens.
    """

    words: tuple[str, ...]
    ends: tuple[Count, ...]
    tokens: Count
    cache_bytes: Count
    text: str
    is_split_alike: bool
    names: tuple[tuple[Count, str], ...]


class LensValues(Struct, frozen=True, tag_field="kind", tag="lens"):
    """`LensAnswer` without its array."""

    layers: tuple[Count, ...]
    words: tuple[tuple[tuple[str, ...], ...], ...]


class PartsValues(Struct, frozen=True, tag_field="kind", tag="parts"):
    """`PartsAnswer` without its arrays."""

    token: str
    probability: float
    number: Count
    logit: float
    embedding: float
    bias: float
    layers: tuple[Count, ...]


class AblationsValues(Struct, frozen=True, tag_field="kind", tag="ablations"):
    """`AblationAnswer` without its array."""

    token: str
    layers: tuple[Count, ...]


class CostlyValues(Struct, frozen=True, tag_field="kind", tag="costly"):
    """`CostlyAnswer`."""

    sentence: str


QuestionValues = LensValues | PartsValues | AblationsValues | CostlyValues


def values_as(kind: type[Values], values: Mapping[str, object]) -> Values:
    """Decode the values of an answer.

    Raises
    ------
    InputError
        With field ``server`` if they are of another type.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise unreadable(error) from error


def numbers_of(
    arrays: Mapping[str, np.ndarray], name: str, sizes: tuple[int | None, ...]
) -> np.ndarray:
    """Return an array of floats of an answer, after checking its shape.

    Parameters
    ----------
    sizes : tuple of int or None
        Expected shape; None for any size except 0.

    Raises
    ------
    InputError
        With field ``server`` if the array is missing or has another shape or type.
    """
    return checked_numbers(arrays.get(name), sizes)


def checked_numbers(
    array: np.ndarray | None, sizes: tuple[int | None, ...], kinds: str = "f"
) -> np.ndarray:
    """Return an array after checking its shape and its NumPy dtype kind.

    Raises
    ------
    InputError
        As `numbers_of`.
    """
    if array is not None and array.dtype.kind in kinds and len(array.shape) == len(sizes):
        pairs = zip(array.shape, sizes, strict=True)
        if all(actual == size or (size is None and actual > 0) for actual, size in pairs):
            return array
    raise InputError("server", SIZE_MISMATCH)


def unreadable(why: object) -> InputError:
    """Return the error for an invalid answer."""
    return InputError("server", UNREADABLE.format(why=why))
