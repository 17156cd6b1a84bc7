"""A signature is valid once for one token, connection and body; tokens must be hard to guess."""

from __future__ import annotations

import secrets
import uuid
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.models.model_protocol.authentication import (
    RequestSigner,
    SignatureVerifier,
    access_token_weakness,
    generate_access_token,
)

PATH, BODY = "/read", b'{"text": "a"}'


def test_a_signature_is_valid_only_once() -> None:
    guard = SignatureVerifier("secret")
    signer = RequestSigner("secret", guard.nonce)
    first, second = (signer.sign_request(PATH, BODY) for _ in range(2))
    assert guard.verify_and_get_digest(first, PATH) == sha256(BODY).hexdigest()
    assert guard.verify_and_get_digest(first, PATH) is None, "repeated"
    assert guard.verify_and_get_digest(second, PATH) == sha256(BODY).hexdigest()
    assert guard.verify_and_get_digest(first, PATH) is None, "earlier than the last request"


def test_a_signature_is_valid_for_one_connection_path_and_token() -> None:
    guard, other = SignatureVerifier("secret"), SignatureVerifier("secret")
    header = RequestSigner("secret", guard.nonce).sign_request(PATH, BODY)
    assert other.verify_and_get_digest(header, PATH) is None
    assert guard.verify_and_get_digest(header, "/cancel") is None
    assert (
        guard.verify_and_get_digest(
            RequestSigner("secre", guard.nonce).sign_request(PATH, BODY), PATH
        )
        is None
    )
    assert guard.verify_and_get_digest(header, PATH) is not None


@given(st.text(max_size=200))
def test_arbitrary_headers_are_rejected(header: str) -> None:
    assert SignatureVerifier("secret").verify_and_get_digest(header, PATH) is None


@given(at=st.integers(min_value=0), letter=st.sampled_from("0123456789abcdef:"))
def test_a_modified_signature_is_rejected(at: int, letter: str) -> None:
    guard = SignatureVerifier("secret")
    header = RequestSigner("secret", guard.nonce).sign_request(PATH, BODY)
    at %= len(header)
    changed = header[:at] + letter + header[at + 1 :]
    if changed != header:
        assert guard.verify_and_get_digest(changed, PATH) is None


def test_new_tokens_are_long_and_distinct() -> None:
    assert len({generate_access_token() for _ in range(100)}) == 100
    assert all(len(generate_access_token()) >= 32 for _ in range(10))


POOR = (
    *("", "short", "a" * 15, "a" * 16, "a" * 200, "ab" * 8, "passwordpassword", "abcdefghijklmnop"),
    *("1234567890123456", "0987654321098765", "qwertyuiopasdfgh", "asdfghjklqwertyuiop"),
    *("letmeinletmeinletmein", "AAAAbbbbCCCCddddEEEEffff", "ponmlkjihgfedcba", "1111222233334444"),
    *(" " * 20, "猫" * 16, "zyxwvutsrqponmlk", "aAaAaAaAaAaAaAaA", "qwertzuiopyxcvbnm"),
)


@pytest.mark.parametrize("token", POOR)
def test_a_weak_token_has_a_weakness(token: str) -> None:
    assert access_token_weakness(token)


def test_generated_tokens_have_no_weakness() -> None:
    for draw in (generate_access_token, lambda: secrets.token_hex(32), lambda: str(uuid.uuid4())):
        assert [access_token_weakness(draw()) for _ in range(200)] == [""] * 200
    assert access_token_weakness("seven green foxes swim to Oslo") == ""


@pytest.mark.parametrize(
    ("token", "said"),
    [("abc", "3 characters"), ("a" * 16, "1 different character,"), ("ab" * 8, "2 different char")],
)
def test_the_weakness_states_the_number_of_characters(token: str, said: str) -> None:
    assert said in access_token_weakness(token)
