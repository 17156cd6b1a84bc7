"""Bodies of answers: safetensors, with the values as compressed JSON in the metadata. No torch.

Unlike a pickle, safetensors holds only arrays and text and cannot run code. A small body is sent
compressed if that makes it shorter, for example because a causal mask leaves many zeros.
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
"""Maximum size of the header, which contains the values, and of the decompressed values."""

DEFLATE = "deflate"
"""HTTP content coding of a compressed body; see RFC 9110, §8.4.1.2."""
MAX_COMPRESSED_BYTES = 2**17
"""Maximum size of a body that is compressed, which blocks the server for a few milliseconds."""
MAX_COMPRESSION_RATIO = 0.9
"""A compressed body is sent only if it is shorter than this fraction of the original."""


class BodyError(ValueError):
    """The received data is not a valid body of an answer."""


def answer_body(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Encode values and arrays."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    packed = zlib.compress(
        json.dumps(dict(values)).encode(), 1
    )  # a tenth of the size, which matters on a slow connection
    return save(contiguous, {VALUES: base64.b64encode(packed).decode()})


def read_body(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Decode a body that `answer_body` has encoded.

    Raises
    ------
    BodyError
        If the data is anything else.
    """
    try:
        length = int.from_bytes(body[:8], "little")
        if not 2 <= length <= min(MAX_HEADER_BYTES, len(body) - 8):
            raise BodyError("the header has an invalid length")
        header = json.loads(body[8 : 8 + length])
        values = json.loads(_decode_values(header["__metadata__"][VALUES]))
        arrays = load(body)
    except (
        ValueError, LookupError, TypeError, RecursionError, SafetensorError, zlib.error
    ) as error:  # fmt: skip
        raise BodyError(str(error)) from error
    if not isinstance(values, dict):
        raise BodyError("the values are not a JSON object")
    return values, arrays


def _decode_values(text: str) -> bytes:
    return _decompress_bytes(base64.b64decode(text, validate=True), MAX_HEADER_BYTES)


def _decompress_bytes(packed: bytes, max_bytes: int) -> bytes:
    """Decompress data, unless it is longer than the limit."""
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(packed, max_bytes)
    if not decompressor.eof:
        raise BodyError("the compressed data is truncated or too long")
    return data


def deflated(body: bytes) -> bytes | None:
    """Return the compressed body, or None if it is too large or compression gains too little."""
    if len(body) > MAX_COMPRESSED_BYTES:
        return None
    packed = zlib.compress(body, 1)
    return packed if len(packed) < MAX_COMPRESSION_RATIO * len(body) else None


def inflated(body: bytes) -> bytes:
    """Decompress a body that `deflated` has compressed.

    Raises
    ------
    BodyError
        If the data is anything else, or longer than `deflated` accepts.
    """
    try:
        return _decompress_bytes(body, MAX_COMPRESSED_BYTES)
    except zlib.error as error:
        raise BodyError(str(error)) from error
