"""Errors of unusable input, each with a sentence that says what to do; imports no torch."""

from __future__ import annotations

from msgspec import Struct

Remedy = tuple[str, object]
FIRST_TOKENS, FIRST_CHARACTERS = "first tokens", "first characters"
"""Fields of remedies that keep the first part of a text: a count, or the part itself."""


def reason_of(error: OSError) -> str:
    """Return the system's reason for an error, to be said in a sentence."""
    return error.strerror or str(error)


class InputError(ValueError):
    """Unusable input, with a sentence that says what to do about it.

    Parameters
    ----------
    field : str
        Source of the input: a field of `AttentionSpec`, ``"text"`` or an option.
    sentence : str
        What is wrong and what to do about it.
    remedy : tuple of (field, value), optional
        A change that resolves the error.
    """

    def __init__(self, field: str, sentence: str, remedy: Remedy | None = None) -> None:
        super().__init__(sentence)
        self.field, self.sentence, self.remedy = field, sentence, remedy

    def __reduce__(self) -> tuple[type[InputError], tuple[object, ...]]:
        # Exceptions pickle their own arguments, of which this one's are not all.
        return type(self), (self.field, self.sentence, self.remedy)


class Problem(Struct, frozen=True):
    """An unusable field, the reason, and a change that resolves it."""

    field: str
    sentence: str
    remedy: Remedy | None = None
