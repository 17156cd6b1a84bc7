"""Input that cannot be used, said in a sentence a person can act on; no torch."""

from __future__ import annotations

from dataclasses import dataclass

Remedy = tuple[str, object]


class InputError(ValueError):
    """Input that cannot be used, in a sentence a person can act on.

    Parameters
    ----------
    field : str
        Where it was given: a field of `AttentionSpec`, ``"text"`` or an option.
    sentence : str
        What is wrong and what to do about it.
    remedy : tuple of (field, value), optional
        A change that would mend it.
    """

    def __init__(self, field: str, sentence: str, remedy: Remedy | None = None) -> None:
        super().__init__(sentence)
        self.field, self.sentence, self.remedy = field, sentence, remedy


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that cannot be used, why, and a change that would mend it."""

    field: str
    sentence: str
    remedy: Remedy | None = None
