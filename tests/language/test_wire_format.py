"""Messages arrive complete, regardless of how their bytes are split."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.support.struct_strategies import structs
from visualizer.language.wire_format import Message, MessageUnpacker

NUMBERS = arrays.arrays(
    st.sampled_from([np.float32, np.float64, np.int64]), arrays.array_shapes(min_side=0, max_dims=4)
)
MESSAGES = structs(
    Message,
    kind=st.text(),
    values=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
    arrays=st.dictionaries(st.text(), NUMBERS, max_size=3),
)


@given(st.lists(MESSAGES, max_size=4), st.lists(st.integers(1, 40), min_size=1))
def test_sent_messages_arrive(sent: list[Message], sizes: list[int]) -> None:
    stream, unpacker, at = b"".join(one.pack() for one in sent), MessageUnpacker(), 0
    came: list[Message] = []
    while at < len(stream):
        size = sizes[len(came) % len(sizes)]
        came += unpacker.unpack_piece(stream[at : at + size])
        at += size
    assert len(came) == len(sent)
    for one, other in zip(sent, came, strict=True):
        assert (one.kind, one.values) == (other.kind, other.values)
        assert one.arrays.keys() == other.arrays.keys()
        for name, array in one.arrays.items():
            assert array.dtype == other.arrays[name].dtype
            np.testing.assert_array_equal(array, other.arrays[name])


def test_an_incomplete_message_is_not_delivered() -> None:
    packed = Message("progress", {"step": 3}, {"losses": np.ones(4)}).pack()
    unpacker = MessageUnpacker()
    assert list(unpacker.unpack_piece(packed[:-1])) == []
    (message,) = unpacker.unpack_piece(packed[-1:])
    assert message.kind == "progress"
    assert not message.arrays["losses"].flags.writeable


def test_a_long_message_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [f"word {number}" for number in range(2_000)]
    packed = Message("opened", {"tokens": tokens}, {"losses": np.arange(4_000.0)}).pack()
    asked: list[int] = []
    loads = json.loads

    def counted(text: bytes) -> object:
        asked.append(len(text))
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    unpacker = MessageUnpacker()
    came = [
        each
        for at in range(0, len(packed), 100)
        for each in unpacker.unpack_piece(packed[at:][:100])
    ]
    assert [each.values["tokens"] for each in came] == [tokens]
    np.testing.assert_array_equal(came[0].arrays["losses"], np.arange(4_000.0))
    assert len(asked) == 1


def test_printed_text_is_not_a_message() -> None:
    with pytest.raises(ValueError, match="Hello"):
        list(MessageUnpacker().unpack_piece(b"Hello, world\n"))
