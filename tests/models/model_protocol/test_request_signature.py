"""A signature is valid only with the token, once, for one connection and one body."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from visualizer.models.model_protocol.authentication import (
    RequestSigner,
    SignatureVerifier,
    new_token,
)

PATH, BODY = "/read", b'{"text": "a"}'


def test_a_signature_is_valid_only_once() -> None:
    guard = SignatureVerifier("secret")
    signer = RequestSigner("secret", guard.nonce)
    first, second = (signer.header(PATH, BODY) for _ in range(2))
    assert guard.verified_digest(first, PATH) == sha256(BODY).hexdigest()
    assert guard.verified_digest(first, PATH) is None, "sent again"
    assert guard.verified_digest(second, PATH) == sha256(BODY).hexdigest()
    assert guard.verified_digest(first, PATH) is None, "an earlier one"


def test_a_signature_is_valid_for_one_connection_path_and_token() -> None:
    guard, other = SignatureVerifier("secret"), SignatureVerifier("secret")
    header = RequestSigner("secret", guard.nonce).header(PATH, BODY)
    assert other.verified_digest(header, PATH) is None
    assert guard.verified_digest(header, "/cancel") is None
    assert (
        guard.verified_digest(RequestSigner("secre", guard.nonce).header(PATH, BODY), PATH) is None
    )
    assert guard.verified_digest(header, PATH) is not None


@given(st.text(max_size=200))
def test_arbitrary_headers_are_rejected(header: str) -> None:
    assert SignatureVerifier("secret").verified_digest(header, PATH) is None


@given(at=st.integers(min_value=0), letter=st.sampled_from("0123456789abcdef:"))
def test_a_modified_signature_is_rejected(at: int, letter: str) -> None:
    guard = SignatureVerifier("secret")
    header = RequestSigner("secret", guard.nonce).header(PATH, BODY)
    at %= len(header)
    changed = header[:at] + letter + header[at + 1 :]
    if changed != header:
        assert guard.verified_digest(changed, PATH) is None


def test_new_tokens_are_long_and_distinct() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert all(len(new_token()) >= 32 for _ in range(10))
