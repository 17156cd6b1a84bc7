"""Selection of tokens: spans, ranges and searches."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from visualizer.session.token_selection import (
    TokenRole,
    TokenSelection,
    find_matching_tokens,
    group_adjacent_tokens,
    select_matching_tokens,
    select_next_matching_token,
    tokens_between,
)

LABELS = ("The", "cat", "sat", "on", "the", "mat", "Θ")


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_span_includes_both_ends(start: int, end: int) -> None:
    tokens = tokens_between(start, end)
    assert tokens == tokens_between(end, start)
    assert {start, end} <= tokens
    assert len(tokens) == abs(start - end) + 1


@given(st.frozensets(st.integers(0, 60)))
def test_ranges_contain_the_same_tokens_and_do_not_touch(tokens: frozenset[int]) -> None:
    found = group_adjacent_tokens(tokens)
    assert {token for run in found for token in run} == tokens
    assert all(one.stop < other.start for one, other in pairwise(found))


def test_matching_ignores_case() -> None:
    assert find_matching_tokens(LABELS, "the") == (0, 4)
    assert find_matching_tokens(LABELS, "AT") == (1, 2, 5)
    assert find_matching_tokens(LABELS, "θ") == (6,)
    assert find_matching_tokens(LABELS, "dog") == find_matching_tokens(LABELS, "") == ()


def test_a_number_selects_a_token() -> None:
    assert find_matching_tokens(LABELS, "#1") == (0,)
    assert find_matching_tokens(LABELS, f"#{len(LABELS)}") == (len(LABELS) - 1,)
    assert (
        find_matching_tokens(LABELS, "#0")
        == find_matching_tokens(LABELS, f"#{len(LABELS) + 1}")
        == ()
    )
    assert find_matching_tokens(("#", "a#b"), "#") == (0, 1)


def test_matches_are_selected_and_then_visited_one_by_one() -> None:
    look = select_matching_tokens(TokenSelection(role=TokenRole.KEY), LABELS, "at")
    assert look == TokenSelection(frozenset({1, 2, 5}), TokenRole.KEY, "at")
    visited = []
    for _ in range(4):
        look = select_next_matching_token(look, LABELS, 1)
        visited.append(set(look.chosen))
    assert visited == [{1}, {2}, {5}, {1}]
    assert select_next_matching_token(look, LABELS, -1).chosen == {5}
    assert select_next_matching_token(
        select_matching_tokens(look, LABELS, "at"), LABELS, -1
    ).chosen == {5}


def test_ending_a_search_keeps_the_selection() -> None:
    look = select_next_matching_token(
        select_matching_tokens(TokenSelection(), LABELS, "mat"), LABELS, 1
    )
    assert select_matching_tokens(look, LABELS, "") == TokenSelection(frozenset({5}))
    nothing = select_matching_tokens(look, LABELS, "dog")
    assert (nothing.chosen, select_next_matching_token(nothing, LABELS, 1)) == (
        frozenset(),
        nothing,
    )
