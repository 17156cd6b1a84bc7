"""Signatures of requests, and checks of the tokens that sign them. Does not import torch.

A signature is valid for one connection, which the server identifies by a nonce (a number used
once), and for one request, which is numbered. A request that was sent before or on another
connection is therefore rejected. Source: RFC 2104, HMAC, with SHA-256.
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256

SIGNATURE_HEADER = "x-attention-signature"
"""Name of the header with the value ``count:digest:signature``; the digest is the hash of the body.
"""
_HEADER_PATTERN = re.compile(r"([0-9]{1,15}):([0-9a-f]{64}):([0-9a-f]{64})")
TOKEN_BYTES = 24


def generate_access_token() -> str:
    """Return a random access token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class RequestSigner:
    """Signer of the requests of one connection, which are signed in order."""

    def __init__(self, token: str, nonce: str) -> None:
        self._token, self._nonce, self._count = token, nonce, 0

    def sign_request(self, path: str, body: bytes) -> str:
        """Return the signature header of the next request."""
        self._count += 1
        digest = sha256(body).hexdigest()
        signature = _compute_signature(self._token, self._nonce, self._count, path, digest)
        return f"{self._count}:{digest}:{signature}"


class SignatureVerifier:
    """Verifier of the signatures of one connection; rejects repeated requests."""

    def __init__(self, token: str) -> None:
        self.nonce = secrets.token_hex(16)
        self._token, self._count = token, 0

    def verify_and_get_digest(self, header: str, path: str) -> str | None:
        """Return the digest that the body must have, or None if the signature is invalid."""
        match = _HEADER_PATTERN.fullmatch(header)
        if match is None:
            return None
        count, digest, signature = int(match[1]), match[2], match[3]
        expected = _compute_signature(self._token, self.nonce, count, path, digest)
        if not hmac.compare_digest(expected, signature) or count <= self._count:
            return None
        self._count = count
        return digest


def _compute_signature(token: str, nonce: str, count: int, path: str, digest: str) -> str:
    signed = "\n".join((nonce, str(count), path, digest)).encode()
    return hmac.new(token.encode(), signed, sha256).hexdigest()


MIN_TOKEN_LENGTH = 16
"""Minimum number of characters in a token."""
MIN_DISTINCT_CHARACTERS = 8
"""Minimum number of different characters in a token."""
MIN_UNPREDICTABLE_CHARACTERS = 12
"""Minimum number of characters that cannot be derived from the preceding ones."""
_SEQUENCES = (
    *("abcdefghijklmnopqrstuvwxyz", "0123456789", "1234567890"),
    *("qwertyuiop", "qwertzuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm"),
)
_MIN_RUN = 3
"""Minimum number of characters that form a repetition or a sequence."""


def access_token_weakness(token: str) -> str:
    """Return the reason why a token is too easy to guess, as the end of a sentence.

    The reason is empty if the token is strong.
    """
    if len(token) < MIN_TOKEN_LENGTH:
        return f"it has {len(token)} characters, but at least {MIN_TOKEN_LENGTH} are required"
    lower = token.lower()
    if (different := len(set(lower))) < MIN_DISTINCT_CHARACTERS:
        found = f"it has {different} different character{'s' * (different != 1)}"
        return f"{found}, but at least {MIN_DISTINCT_CHARACTERS} are required"
    unpredictable = sum(not _is_predictable_character(lower, at) for at in range(len(lower)))
    if unpredictable < MIN_UNPREDICTABLE_CHARACTERS:
        return "most of it consists of repetitions, sequences or keyboard rows"
    return ""


def _is_predictable_character(token: str, at: int) -> bool:
    """Return whether a character continues a sequence or repeats an earlier part."""
    start = at - _MIN_RUN + 1
    if start < 0:
        return False
    return token.find(token[start : at + 1], 0, at) >= 0 or _is_character_sequence(
        token[start : at + 1]
    )


def _is_character_sequence(part: str) -> bool:
    """Return whether the characters are all the same or consecutive in one direction."""
    if len(set(part)) == 1:
        return True
    return any(part in row or part[::-1] in row for row in _SEQUENCES)
