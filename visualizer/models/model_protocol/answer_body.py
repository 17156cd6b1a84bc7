"""Bodies of answers: a safetensors file, its values as compressed JSON in the metadata. No torch.

Such a file holds arrays and text and nothing that could run, unlike a pickle. A small one is sent
compressed where that makes it shorter, as the zeros above a causal mask do.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUES = "values"
MAX_HEADER_BYTES = 2**26
"""Most bytes of the header, in which the values stand, and of the values themselves."""

DEFLATE = "deflate"
"""How HTTP names the coding of a compressed body; see RFC 9110, 8.4.1.2."""
MAX_COMPRESSED_BYTES = 2**17
"""Most bytes that are compressed: some milliseconds, in which nobody else is answered."""
SHORTER = 0.9
"""A compressed body that is not so much shorter is not sent."""


class BodyError(ValueError):
    """What was received is no body of an answer."""


def answer_body(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Write values and arrays."""
    whole = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    packed = zlib.compress(json.dumps(dict(values)).encode(), 1)  # a tenth, over a slow line
    return save(whole, {VALUES: base64.b64encode(packed).decode()})


def read_body(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `answer_body` has written.

    Raises
    ------
    BodyError
        When it is anything else.
    """
    try:
        length = int.from_bytes(body[:8], "little")
        if not 2 <= length <= min(MAX_HEADER_BYTES, len(body) - 8):
            raise BodyError("its header has another length")
        header = json.loads(body[8 : 8 + length])
        values = json.loads(_decode_values(header["__metadata__"][VALUES]))
        arrays = load(body)
    except (
        ValueError, LookupError, TypeError, RecursionError, SafetensorError, zlib.error
    ) as error:  # fmt: skip
        raise BodyError(str(error)) from error
    if not isinstance(values, dict):
        raise BodyError("its values are none")
    return values, arrays


def _decode_values(text: str) -> bytes:
    return _decompress(base64.b64decode(text, validate=True), MAX_HEADER_BYTES)


def _decompress(packed: bytes, most: int) -> bytes:
    """Return what was compressed, if it is not longer than it may be."""
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(packed, most)
    if not unpacking.eof:
        raise BodyError("what is compressed in it is cut or too long")
    return found


def deflated(body: bytes) -> bytes | None:
    """Return a body compressed, or None where that is of no use."""
    if len(body) > MAX_COMPRESSED_BYTES:
        return None
    packed = zlib.compress(body, 1)
    return packed if len(packed) < SHORTER * len(body) else None


def inflated(body: bytes) -> bytes:
    """Return the body that `deflated` has compressed.

    Raises
    ------
    BodyError
        When it is anything else, or longer than what that takes.
    """
    try:
        return _decompress(body, MAX_COMPRESSED_BYTES)
    except zlib.error as error:
        raise BodyError(str(error)) from error
