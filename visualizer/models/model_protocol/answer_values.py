"""The values and arrays of a server's answers, checked as they are read; no torch here.

A server writes them by the same types. What else it sends is refused where it was asked.
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

UNREADABLE = "The model's server sent something that cannot be read: {why}."
SIZE_MISMATCH = "The model's server sent numbers of other sizes than were asked for."

ROWS = "rows/"
"""How the names of the weights of layers begin, where a text is continued."""
Values = TypeVar("Values")


class ModelFacts(Struct, frozen=True):
    """What is told of a model before anything is asked of it."""

    name: str
    kind: str
    fingerprint: str
    layers: Count
    heads: Count
    processes: int
    parallelism: str


class JobProgress(Struct, frozen=True):
    """How far a job is."""

    done: Count
    of: Count
    working: bool = True


class TextTokens(Struct, frozen=True):
    """A text as tokens, and what can be read in place of one that cannot."""

    tokens: tuple[str, ...]
    other_text: str


class TokenNames(Struct, frozen=True):
    """Tokens of the vocabulary that were asked for by their numbers."""

    tokens: tuple[str, ...]


class TextRead(Struct, frozen=True):
    """A text that was read with what was generated after it; see `TokenReader`.

    Parameters
    ----------
    words : tuple of str
        The tokens of the text that was given.
    ends : tuple of int
        The numbers of the tokens that end a text.
    tokens : int
        How many tokens the cache holds.
    text : str
        All that was read.
    is_split_alike : bool
        Whether that text is split into these tokens again.
    names : tuple of (int, str)
        The likeliest next tokens.
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
    """Read the values of an answer.

    Raises
    ------
    InputError
        Of ``server``, when they are others.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise unreadable(error) from error


def numbers_of(
    arrays: Mapping[str, np.ndarray], name: str, sizes: tuple[int | None, ...]
) -> np.ndarray:
    """Return an array of an answer, of numbers of these sizes; None for any size but 0.

    Raises
    ------
    InputError
        Of ``server``, when it is another, or not there.
    """
    return checked_numbers(arrays.get(name), sizes)


def checked_numbers(
    found: np.ndarray | None, sizes: tuple[int | None, ...], kinds: str = "f"
) -> np.ndarray:
    """Return an array if it is there, of these sizes and one of NumPy's kinds of numbers.

    Raises
    ------
    InputError
        As `numbers_of`.
    """
    if found is not None and found.dtype.kind in kinds and len(found.shape) == len(sizes):
        pairs = zip(found.shape, sizes, strict=True)
        if all(there == size or (size is None and there > 0) for there, size in pairs):
            return found
    raise InputError("server", SIZE_MISMATCH)


def unreadable(why: object) -> InputError:
    """Return what is said of an answer that cannot be read."""
    return InputError("server", UNREADABLE.format(why=why))
