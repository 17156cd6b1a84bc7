"""Selection and search of tokens in the token strip, as queries or as keys."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = re.compile(r"#[0-9][0-9,]{0,15}")


class TokenRole(StrEnum):
    """The role of a token: a query, which attends, or a key, which is attended to."""

    QUERY = "query"
    KEY = "key"

    @property
    def opposite(self) -> TokenRole:
        return TokenRole.KEY if self is TokenRole.QUERY else TokenRole.QUERY


class TokenSelection(Struct, frozen=True):
    """The state of the token strip.

    Parameters
    ----------
    chosen : frozenset of int
        Tokens selected together; if empty, the tokens of the current cell are used.
    sought : str
        The search text; empty while no search is active.
    match : int or None
        Index, from 0, of the match that the user navigated to; None while all matches are selected.
    """

    chosen: frozenset[int] = frozenset()
    role: TokenRole = TokenRole.QUERY
    sought: str = ""
    match: int | None = None

    def tokens_below(self, count: int) -> frozenset[int]:
        """Return the selected tokens below `count`; if these are all of them, the same object."""
        if max(self.chosen, default=-1) < count:
            return self.chosen
        return frozenset(at for at in self.chosen if at < count)


def tokens_between(start: int, end: int) -> frozenset[int]:
    """Return all tokens between two positions, given in either order."""
    return frozenset(range(min(start, end), max(start, end) + 1))


def group_adjacent_tokens(tokens: Iterable[int]) -> tuple[range, ...]:
    """Group tokens into ranges of adjacent tokens."""
    found: list[range] = []
    for token in sorted(tokens):
        if found and found[-1].stop == token:
            found[-1] = range(found[-1].start, token + 1)
        else:
            found.append(range(token, token + 1))
    return tuple(found)


@lru_cache(maxsize=4)
def find_matching_tokens(labels: tuple[str, ...], sought: str) -> tuple[int, ...]:
    """Return the tokens that contain a text, ignoring case, or token number 12 for ``#12``."""
    wanted = sought.casefold()
    if not wanted:
        return ()
    if _NUMBER.fullmatch(sought):
        at = int(sought[1:].replace(",", "")) - 1
        return (at,) if 0 <= at < len(labels) else ()
    found = {label for label in set(labels) if wanted in label.casefold()}
    return tuple(at for at, label in enumerate(labels) if label in found)


def select_matching_tokens(
    selection: TokenSelection, labels: tuple[str, ...], sought: str
) -> TokenSelection:
    """Select all tokens that match; an empty search keeps the selection."""
    if not sought:
        return replace(selection, sought="", match=None)
    return replace(
        selection, sought=sought, match=None, chosen=frozenset(find_matching_tokens(labels, sought))
    )


def select_next_matching_token(
    selection: TokenSelection, labels: tuple[str, ...], steps: int
) -> TokenSelection:
    """Select only the next or previous match, cyclically; `match` is None if none exists."""
    found = find_matching_tokens(labels, selection.sought)
    if not found:
        return replace(selection, match=None)
    now = (-1 if steps > 0 else 0) if selection.match is None else selection.match
    match = (now + steps) % len(found)
    return replace(selection, match=match, chosen=frozenset({found[match]}))
