"""Which tokens are chosen in the strip, and whether as queries or as keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class TokenRole(StrEnum):
    """What a token is looked at as: a query, which reads, or a key, which is read."""

    QUERY = "query"
    KEY = "key"

    @property
    def other(self) -> TokenRole:
        """The other one of the two."""
        return TokenRole.KEY if self is TokenRole.QUERY else TokenRole.QUERY


@dataclass(frozen=True, slots=True)
class TokenSelection:
    """How the token strip is looked at.

    Parameters
    ----------
    chosen : frozenset of int
        Tokens that are looked at together; where none is, those of the cell that is looked at.
    sought : str
        What is looked for in the tokens; empty while nothing is.
    match : int or None
        Which of the matches one has gone to, from 0; None while all are chosen.
    """

    chosen: frozenset[int] = frozenset()
    role: TokenRole = TokenRole.QUERY
    sought: str = ""
    match: int | None = None


def span(start: int, end: int) -> frozenset[int]:
    """Give all tokens from one to another, whichever comes first."""
    return frozenset(range(min(start, end), max(start, end) + 1))


def runs(tokens: Iterable[int]) -> tuple[range, ...]:
    """Give tokens as ranges of those that stand side by side."""
    found: list[range] = []
    for token in sorted(tokens):
        if found and found[-1].stop == token:
            found[-1] = range(found[-1].start, token + 1)
        else:
            found.append(range(token, token + 1))
    return tuple(found)


def matches(labels: tuple[str, ...], sought: str) -> tuple[int, ...]:
    """Find the tokens that have a text in them, whatever its case."""
    wanted = sought.casefold()
    found = (at for at, label in enumerate(labels) if wanted in label.casefold())
    return tuple(found) if wanted else ()


def seeking(look: TokenSelection, labels: tuple[str, ...], sought: str) -> TokenSelection:
    """Choose all tokens that match; nothing sought leaves alone what is chosen."""
    if not sought:
        return replace(look, sought="", match=None)
    return replace(look, sought=sought, match=None, chosen=frozenset(matches(labels, sought)))


def gone_to(look: TokenSelection, labels: tuple[str, ...], steps: int) -> TokenSelection:
    """Choose only the next match, or the one before; from the last one, the first."""
    found = matches(labels, look.sought)
    if not found:
        return look
    now = (-1 if steps > 0 else 0) if look.match is None else look.match
    match = (now + steps) % len(found)
    return replace(look, match=match, chosen=frozenset({found[match]}))
