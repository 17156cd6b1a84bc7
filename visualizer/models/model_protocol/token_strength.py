"""Whether a token that somebody chose for a server is hard enough to guess; no torch here.

A rule of thumb, not a measure: it rejects repetition, sequences and rows of the keyboard. It cannot
tell whether a token was used elsewhere or is in a list of passwords.
"""

from __future__ import annotations

SHORTEST_TOKEN = 16
"""Characters of a token."""
MIN_DISTINCT_CHARACTERS = 8
"""Different characters that a token must have."""
MIN_UNPREDICTABLE_CHARACTERS = 12
"""Characters of a token that must not follow from those before them."""
_SEQUENCES = (
    *("abcdefghijklmnopqrstuvwxyz", "0123456789", "1234567890"),
    *("qwertyuiop", "qwertzuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm"),
)
_MIN_RUN = 3
"""Characters in a row that make a repetition."""


def weakness_of(token: str) -> str:
    """Return why a token is too easy to guess, as the end of a sentence; empty if it is not."""
    if len(token) < SHORTEST_TOKEN:
        return f"it has {len(token)} characters, and at least {SHORTEST_TOKEN} are needed"
    if (different := len(set(token.lower()))) < MIN_DISTINCT_CHARACTERS:
        said = f"it has {different} different character{'s' * (different != 1)}"
        return f"{said}, and at least {MIN_DISTINCT_CHARACTERS} are needed"
    if _count_unpredictable(token.lower()) < MIN_UNPREDICTABLE_CHARACTERS:
        return "most of it is a repetition, a sequence or a row of the keyboard"
    return ""


def _count_unpredictable(token: str) -> int:
    """Count the characters that do not continue a sequence or repeat an earlier part."""
    return sum(not _is_predictable(token, at) for at in range(len(token)))


def _is_predictable(token: str, at: int) -> bool:
    start = at - _MIN_RUN + 1
    if start < 0:
        return False
    return token.find(token[start : at + 1], 0, at) >= 0 or _is_sequence(token[start : at + 1])


def _is_sequence(part: str) -> bool:
    """Whether characters are all the same, or neighbours in one direction."""
    if len(set(part)) == 1:
        return True
    return any(part in row or part[::-1] in row for row in _SEQUENCES)
