"""Request signatures that prove possession of the server's token without sending it.

A signature is valid for one connection, which the server identifies by a nonce (a number used
once), and for one request, which is numbered: a request that was sent before, or on another
connection, is rejected. Source: RFC 2104, HMAC, with SHA-256.
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256

HEADER = "x-attention-signature"
"""Header with the value ``count:digest:signature``, where the digest is that of the body."""
_HEADER_PATTERN = re.compile(r"([0-9]{1,15}):([0-9a-f]{64}):([0-9a-f]{64})")
TOKEN_BYTES = 24


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def new_nonce() -> str:
    """Return a random connection nonce."""
    return secrets.token_hex(16)


class RequestSigner:
    """Signs the requests of one connection, in order."""

    def __init__(self, token: str, nonce: str) -> None:
        self._token, self._nonce, self._count = token, nonce, 0

    def header(self, path: str, body: bytes) -> str:
        """Return the signature header of the next request."""
        self._count += 1
        digest = sha256(body).hexdigest()
        signature = _compute_signature(self._token, self._nonce, self._count, path, digest)
        return f"{self._count}:{digest}:{signature}"


class RequestGuard:
    """Verifies the signatures of one connection, and rejects repeated requests."""

    def __init__(self, token: str) -> None:
        self.nonce = new_nonce()
        self._token, self._count = token, 0

    def digest_of(self, header: str, path: str) -> str | None:
        """Return the digest that the body must have; None if the signature is invalid."""
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
