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


_OUT_OF_MEMORY = (
    "out of memory",
    "allocate memory",
    "not enough memory",
    "bad allocation",
    "bad_alloc",
    "can't start new thread",
    "failed to map segment",
    "failed to create thread",
)
"""What libraries say that raise plain errors: torch on Apple's GPU and on the CPU of each system,
C++, threads, and what loads libraries."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error reports that memory ran out, or was raised because it had."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or any(said in str(seen) for said in _OUT_OF_MEMORY):
            return True
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return False


MEMORY_ERROR = "There is not enough memory for this. Use a shorter text, or close other programs."


def memory_error_in_words(error: Exception) -> Exception:
    """Return an error, or in place of one that memory ran out an `InputError` of ``memory``."""
    if isinstance(error, InputError) or not is_out_of_memory(error):
        return error
    return InputError("memory", MEMORY_ERROR)


class Problem(Struct, frozen=True):
    """An unusable field, the reason, and a change that resolves it."""

    field: str
    sentence: str
    remedy: Remedy | None = None
