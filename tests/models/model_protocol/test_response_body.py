"""Response bodies: encoded values are decoded exactly, and invalid data is rejected."""

from __future__ import annotations

import base64
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import save

from visualizer.models.model_protocol.responses import (
    MAX_COMPRESSED_BYTES,
    MAX_COMPRESSION_RATIO,
    MAX_HEADER_BYTES,
    VALUES_KEY,
    ResponseBodyError,
    decode_response_body,
    deflate,
    encode_response_body,
    inflate,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
    max_leaves=8,
)
NUMBERS = arrays_of.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.uint8]),
    arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@given(
    st.dictionaries(st.text(), JSON, max_size=3),
    st.dictionaries(st.from_regex(r"[a-z/]{1,9}", fullmatch=True), NUMBERS, max_size=3),
)
def test_decoding_reverses_encoding(
    values: dict[str, object], found: dict[str, np.ndarray]
) -> None:
    read, arrays = decode_response_body(encode_response_body(values, found))
    assert read == values
    assert arrays.keys() == found.keys()
    for name, array in found.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_rejected(body: bytes) -> None:
    with pytest.raises(ResponseBodyError):
        decode_response_body(body)


@given(st.integers(min_value=0), st.integers(0, 255))
def test_a_damaged_body_is_decoded_or_rejected(at: int, byte: int) -> None:
    body = bytearray(encode_response_body({"a": [1, "b"]}, {"x": np.arange(6.0)}))
    body[at % len(body)] = byte
    values: object = {}
    with suppress(ResponseBodyError):
        values, _ = decode_response_body(bytes(body))
    assert isinstance(values, dict)


@pytest.mark.parametrize(
    "packed",
    [
        zlib.compress(b" " * (MAX_HEADER_BYTES + 1)),
        zlib.compress(b'{"a": 1}')[:-1],
        b'{"a": 1}',
        zlib.compress(b"[1]"),
    ],
    ids=["too long", "cut", "not compressed", "no values"],
)
def test_invalid_packed_values_are_rejected(packed: bytes) -> None:
    with pytest.raises(ResponseBodyError):
        decode_response_body(save({}, {VALUES_KEY: base64.b64encode(packed).decode()}))


@given(st.binary(max_size=300) | st.integers(0, MAX_COMPRESSED_BYTES).map(bytes))
def test_deflated_bodies_are_shorter_and_can_be_restored(body: bytes) -> None:
    packed = deflate(body)
    if packed is not None:
        assert len(packed) < MAX_COMPRESSION_RATIO * len(body)
        assert inflate(packed) == body


def test_zeros_above_a_causal_mask_are_compressed() -> None:
    scores = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    body = encode_response_body({}, {"weights": np.tril(scores)})
    packed = deflate(body)
    assert packed is not None
    assert len(packed) < 0.6 * len(body)
    assert deflate(encode_response_body({}, {"weights": scores})) is None


def test_large_bodies_are_not_compressed() -> None:
    assert deflate(bytes(MAX_COMPRESSED_BYTES)) is not None
    assert deflate(bytes(MAX_COMPRESSED_BYTES + 1)) is None


@pytest.mark.parametrize(
    "packed",
    [zlib.compress(bytes(MAX_COMPRESSED_BYTES + 1)), zlib.compress(b"cut")[:-1], b"plain", b""],
    ids=["too long", "cut", "not compressed", "empty"],
)
def test_invalid_deflated_bodies_are_rejected(packed: bytes) -> None:
    with pytest.raises(ResponseBodyError):
        inflate(packed)
