"""Errors caused by invalid input, with messages that say what to do."""

from __future__ import annotations

from msgspec import Struct

Remedy = tuple[str, object]
FIRST_TOKENS, FIRST_CHARACTERS = "first tokens", "first characters"
"""Remedies that shorten a text. The value is the number of tokens or the text to keep."""


def system_error_reason(error: OSError) -> str:
    """Return the operating system's reason for an error, as part of a sentence."""
    return error.strerror or str(error)


class InputError(ValueError):
    """Invalid input, with a message that says how to correct it.

    Parameters
    ----------
    field : str
        Source of the input: a field of `AttentionSpec`, ``"text"`` or an option.
    sentence : str
        Message that says what is wrong and how to correct it.
    remedy : tuple of (field, value), optional
        A change that resolves the error.

    Examples
    --------
    >>> try:
    ...     visualizer.attend("The cat sat", dropout=2)
    ... except visualizer.InputError as error:
    ...     print(error.field)
    dropout
    """

    def __init__(self, field: str, sentence: str, remedy: Remedy | None = None) -> None:
        super().__init__(sentence)
        self.field, self.sentence, self.remedy = field, sentence, remedy

    def __reduce__(self) -> tuple[type[InputError], tuple[object, ...]]:
        # By default, exceptions are pickled with `args`, which lack the field and the remedy.
        return type(self), (self.field, self.sentence, self.remedy)


class OutOfRangeError(InputError, IndexError):
    """An index that does not exist; an `IndexError`, as for arrays."""


def not_found_error(field: str, name: str, existing: str) -> InputError:
    """Return the error for something that does not exist, such as "layer 3".

    Parameters
    ----------
    existing : str
        Sentence that states what exists.
    """
    return InputError(field, f"{name.capitalize()} does not exist. {existing}")


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
"""Messages of generic errors that libraries raise when memory runs out: torch on Apple GPUs and on
the CPU of each system, C++, threads and dynamic loaders.
"""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, reports that memory ran out."""
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, MemoryError) or any(
            message in str(current) for message in _OUT_OF_MEMORY
        ):
            return True
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return False


MEMORY_ERROR = "There is not enough memory. Use a shorter text or close other programs."


def convert_memory_error(error: Exception) -> Exception:
    """Replace an out-of-memory error with an `InputError` with field ``memory``."""
    if isinstance(error, InputError) or not is_out_of_memory(error):
        return error
    return InputError("memory", MEMORY_ERROR)


class Problem(Struct, frozen=True):
    """An invalid field, the message for the user, and a change that resolves the problem."""

    field: str
    sentence: str
    remedy: Remedy | None = None


def first_line(error: Exception) -> str:
    """Return the first line of an error message, truncated to 200 characters."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
