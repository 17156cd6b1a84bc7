"""A token chosen by a user is rejected if it is easy to guess; a random token never is."""

from __future__ import annotations

import secrets
import uuid

import pytest

from visualizer.models.model_protocol.authentication import new_token, token_weakness

POOR = (
    *("", "short", "a" * 15, "a" * 16, "a" * 200, "ab" * 8, "passwordpassword", "abcdefghijklmnop"),
    *("1234567890123456", "0987654321098765", "qwertyuiopasdfgh", "asdfghjklqwertyuiop"),
    *("letmeinletmeinletmein", "AAAAbbbbCCCCddddEEEEffff", "ponmlkjihgfedcba", "1111222233334444"),
    *(" " * 20, "猫" * 16, "zyxwvutsrqponmlk", "aAaAaAaAaAaAaAaA", "qwertzuiopyxcvbnm"),
)


@pytest.mark.parametrize("token", POOR)
def test_a_weak_token_has_a_weakness(token: str) -> None:
    assert token_weakness(token)


def test_generated_tokens_have_no_weakness() -> None:
    for draw in (new_token, lambda: secrets.token_hex(32), lambda: str(uuid.uuid4())):
        assert [token_weakness(draw()) for _ in range(200)] == [""] * 200
    assert token_weakness("seven green foxes swim to Oslo") == ""


@pytest.mark.parametrize(
    ("token", "said"),
    [("abc", "3 characters"), ("a" * 16, "1 different character,"), ("ab" * 8, "2 different char")],
)
def test_the_weakness_states_the_number_of_characters(token: str, said: str) -> None:
    assert said in token_weakness(token)
