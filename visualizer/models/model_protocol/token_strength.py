"""Checks whether a token that a user chose for a server is hard enough to guess. No torch.

A rule of thumb, not a measure: it rejects repetition, sequences and keyboard rows. It does not
detect tokens that are used elsewhere or are in a list of common passwords.
"""

from __future__ import annotations

SHORTEST_TOKEN = 16
"""Minimum number of characters in a token."""
MIN_DISTINCT_CHARACTERS = 8
"""Minimum number of different characters in a token."""
MIN_UNPREDICTABLE_CHARACTERS = 12
"""Minimum number of characters that do not follow from those before them."""
_SEQUENCES = (
    *("abcdefghijklmnopqrstuvwxyz", "0123456789", "1234567890"),
    *("qwertyuiop", "qwertzuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm"),
)
_MIN_RUN = 3
"""Length from which characters count as a repetition or sequence."""


def weakness_of(token: str) -> str:
    """Return why a token is too easy to guess, as the end of a sentence; empty if it is strong."""
    if len(token) < SHORTEST_TOKEN:
        return f"it has {len(token)} characters, but at least {SHORTEST_TOKEN} are required"
    if (different := len(set(token.lower()))) < MIN_DISTINCT_CHARACTERS:
        found = f"it has {different} different character{'s' * (different != 1)}"
        return f"{found}, but at least {MIN_DISTINCT_CHARACTERS} are required"
    if _count_unpredictable(token.lower()) < MIN_UNPREDICTABLE_CHARACTERS:
        return "most of it is a repetition, a sequence or a keyboard row"
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
    """Whether characters are all the same, or consecutive in one direction."""
    if len(set(part)) == 1:
        return True
    return any(part in row or part[::-1] in row for row in _SEQUENCES)
