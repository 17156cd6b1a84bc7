"""The values and arrays of server responses, and their encoding. Does not import torch.

The server encodes responses with these types. The client rejects all other values.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from safetensors import SafetensorError
from safetensors.numpy import load, save

from visualizer.errors import InputError
from visualizer.models.model_protocol.requests import Count  # noqa: TC001 - decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

INVALID_RESPONSE_ERROR = "Invalid response from the model server: {why}."
SIZE_MISMATCH_ERROR = (
    "Invalid response from the model server: an array is missing or has an unexpected shape."
)

ROWS_PREFIX = "rows/"
"""Prefix of the names of arrays with a layer's attention weights during generation."""
Values = TypeVar("Values")


class ModelMetadata(Struct, frozen=True):
    """Metadata of a served model."""

    name: str
    kind: str
    fingerprint: str
    layers: Count
    heads: Count
    processes: int
    parallelism: str


class JobProgress(Struct, frozen=True):
    """Progress of a job."""

    done: Count
    of: Count
    working: bool = True


class TokenizeResponse(Struct, frozen=True):
    """The tokens of a text, or a replacement if the model cannot process the text."""

    tokens: tuple[str, ...]
    other_text: str


class TokenTextsResponse(Struct, frozen=True):
    """Texts of the tokens that were requested by id."""

    tokens: tuple[str, ...]


class NextTokenResponse(Struct, frozen=True):
    """Response for a text with the tokens generated after it; see `NextTokenPredictor`.

    Parameters
    ----------
    words : tuple of str
        Tokens of the prompt.
    ends : tuple of int
        Ids of the end-of-text tokens.
    tokens : int
        Number of tokens in the cache.
    text : str
        The prompt and the generated text.
    is_split_alike : bool
        Whether the tokenizer splits this text into the same tokens again.
    names : tuple of (int, str)
        Ids and texts of the most likely next tokens.
    """

    words: tuple[str, ...]
    ends: tuple[Count, ...]
    tokens: Count
    cache_bytes: Count
    text: str
    is_split_alike: bool
    names: tuple[tuple[Count, str], ...]


class LogitLensAnswerFields(Struct, frozen=True, tag_field="kind", tag="lens"):
    """The fields of `LogitLensResult` except its array."""

    layers: tuple[Count, ...]
    words: tuple[tuple[tuple[str, ...], ...], ...]


class LogitPartsAnswerFields(Struct, frozen=True, tag_field="kind", tag="parts"):
    """The fields of `LogitAttributionResult` except its arrays."""

    token: str
    probability: float
    number: Count
    logit: float
    embedding: float
    bias: float
    layers: tuple[Count, ...]


class AblationAnswerFields(Struct, frozen=True, tag_field="kind", tag="ablations"):
    """The fields of `AblationResult` except its array."""

    token: str
    layers: tuple[Count, ...]


class DeferredAnswerFields(Struct, frozen=True, tag_field="kind", tag="costly"):
    """The fields of `DeferredResult`."""

    sentence: str


QuestionValues = (
    LogitLensAnswerFields | LogitPartsAnswerFields | AblationAnswerFields | DeferredAnswerFields
)


def decode_response_values(kind: type[Values], values: Mapping[str, object]) -> Values:
    """Decode the values of a response.

    Raises
    ------
    InputError
        With field ``server`` if the values do not have the expected types.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise invalid_response_error(error) from error


def check_response_array(
    array: np.ndarray | None, sizes: tuple[int | None, ...], kinds: str = "f"
) -> np.ndarray:
    """Check the shape and the NumPy dtype kind of an array in a response, and return the array.

    Parameters
    ----------
    array : ndarray or None
        None if the response does not contain the array.
    sizes : tuple of int or None
        Expected shape; None for any size except 0.

    Raises
    ------
    InputError
        With field ``server`` if the array is missing or has another shape or type.
    """
    if array is not None and array.dtype.kind in kinds and len(array.shape) == len(sizes):
        pairs = zip(array.shape, sizes, strict=True)
        if all(actual == size or (size is None and actual > 0) for actual, size in pairs):
            return array
    raise InputError("server", SIZE_MISMATCH_ERROR)


def invalid_response_error(why: object) -> InputError:
    """Return the error for an invalid response."""
    return InputError("server", INVALID_RESPONSE_ERROR.format(why=why))


VALUES_KEY = "values"
MAX_HEADER_BYTES = 2**26
"""Maximum size, in bytes, of the header, which contains the values, and of the decompressed values.
"""

DEFLATE_CODING = "deflate"
"""HTTP content coding of a compressed body (RFC 9110, §8.4.1.2)."""
MAX_COMPRESSED_BYTES = 2**17
"""Size, in bytes, of the largest body that is compressed; compressing it blocks the server for a
few milliseconds.
"""
MAX_COMPRESSION_RATIO = 0.9
"""Maximum ratio of the compressed to the original size for which the compressed body is sent."""


class ResponseBodyError(ValueError):
    """The received data is not a valid response body."""


def encode_response_body(
    values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None
) -> bytes:
    """Encode the values and arrays of a response."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    # Compression reduces the values to a tenth of their size, which matters on a slow connection.
    packed = zlib.compress(json.dumps(dict(values)).encode(), 1)
    return save(contiguous, {VALUES_KEY: base64.b64encode(packed).decode()})


def decode_response_body(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Decode the result of `encode_response_body`; raise `ResponseBodyError` for other data."""
    try:
        length = int.from_bytes(body[:8], "little")
        if not 2 <= length <= min(MAX_HEADER_BYTES, len(body) - 8):
            raise ResponseBodyError("the header has an invalid length")
        header = json.loads(body[8 : 8 + length])
        packed = base64.b64decode(header["__metadata__"][VALUES_KEY], validate=True)
        values = json.loads(_decompress_bytes(packed, MAX_HEADER_BYTES))
        arrays = load(body)
    except (
        ValueError, LookupError, TypeError, RecursionError, SafetensorError, zlib.error
    ) as error:  # fmt: skip
        raise ResponseBodyError(str(error)) from error
    if not isinstance(values, dict):
        raise ResponseBodyError("the values are not a JSON object")
    return values, arrays


def _decompress_bytes(packed: bytes, max_bytes: int) -> bytes:
    """Decompress data; raise `ResponseBodyError` if the result would exceed the limit."""
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(packed, max_bytes)
    if not decompressor.eof:
        raise ResponseBodyError("the compressed data is truncated or too long")
    return data


def deflate(body: bytes) -> bytes | None:
    """Return the compressed body, or None if the body is too large or hardly gets smaller."""
    if len(body) > MAX_COMPRESSED_BYTES:
        return None
    packed = zlib.compress(body, 1)
    return packed if len(packed) < MAX_COMPRESSION_RATIO * len(body) else None


def inflate(body: bytes) -> bytes:
    """Decompress a body that `deflate` has compressed; raise `ResponseBodyError` for other data."""
    try:
        return _decompress_bytes(body, MAX_COMPRESSED_BYTES)
    except zlib.error as error:
        raise ResponseBodyError(str(error)) from error
