"""Signatures by which a server knows that a request is made by one who has its token.

The token itself is never sent. A request is signed for the connection that it comes on, which has a
number used once (nonce) from the server, and is counted there: what was sent before, or on another
connection, is refused. Source: RFC 2104, HMAC, with SHA-256.
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256

HEADER = "x-attention-signature"
"""``count:digest:signature``, the digest being that of the body."""
_HEADER_PATTERN = re.compile(r"([0-9]{1,15}):([0-9a-f]{64}):([0-9a-f]{64})")
TOKEN_BYTES = 24


def new_token() -> str:
    """Draw a token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def new_nonce() -> str:
    """Draw the number that a connection is known by."""
    return secrets.token_hex(16)


class RequestSigner:
    """Signs the requests of one connection, in their order."""

    def __init__(self, token: str, nonce: str) -> None:
        self._token, self._nonce, self._count = token, nonce, 0

    def header(self, path: str, body: bytes) -> str:
        """Return the value of the header for the next request."""
        self._count += 1
        digest = sha256(body).hexdigest()
        signature = _compute_signature(self._token, self._nonce, self._count, path, digest)
        return f"{self._count}:{digest}:{signature}"


class RequestGuard:
    """Tells on one connection which requests are signed, and are no earlier ones."""

    def __init__(self, token: str) -> None:
        self.nonce = new_nonce()
        self._token, self._count = token, 0

    def digest_of(self, header: str, path: str) -> str | None:
        """Return the digest that the body of a request must have; None of one that is refused."""
        found = _HEADER_PATTERN.fullmatch(header)
        if found is None:
            return None
        count, digest, signature = int(found[1]), found[2], found[3]
        wanted = _compute_signature(self._token, self.nonce, count, path, digest)
        if not hmac.compare_digest(wanted, signature) or count <= self._count:
            return None
        self._count = count
        return digest


def _compute_signature(token: str, nonce: str, count: int, path: str, digest: str) -> str:
    signed = "\n".join((nonce, str(count), path, digest)).encode()
    return hmac.new(token.encode(), signed, sha256).hexdigest()
